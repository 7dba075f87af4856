"""Waiting for many sockets at once, in one thread, until one is ready or another thread interrupts."""

from __future__ import annotations

import contextlib
import os
import selectors
import socket
from collections.abc import Iterator
from typing import Any, Protocol

READ, WRITE = selectors.EVENT_READ, selectors.EVENT_WRITE


class HasDescriptor(Protocol):
    """A socket, or what has one."""

    def fileno(self) -> int:
        """The descriptor."""


class Poller:
    """Waits for sockets. Each belongs to an owner, which `ready` gives back."""

    def __init__(self) -> None:
        self._selector = selectors.DefaultSelector()
        self._waker, self._woken = socket.socketpair()
        for end in (self._waker, self._woken):
            end.setblocking(False)  # noqa: FBT003
        self._selector.register(self._woken, READ, None)

    def watch(self, file: HasDescriptor, interest: int, owner: object) -> None:
        """Wait for this one too, to be readable or writable as `interest` says; again: for something else."""
        if file in self._selector.get_map():
            self._selector.modify(file, interest, owner)
        else:
            self._selector.register(file, interest, owner)

    def forget(self, file: HasDescriptor | None) -> None:
        """Wait for it no more, if that is so. To be called before it is closed."""
        if file is not None:
            # KeyError: it was not watched. ValueError: it is closed already.
            with contextlib.suppress(KeyError, ValueError):
                self._selector.unregister(file)

    def ready(self, seconds: float) -> Iterator[tuple[Any, int]]:
        """The owners whose sockets are ready, and for what; waits at most so long for the first."""
        for key, events in self._selector.select(max(seconds, 0.0)):
            if key.data is not None:
                yield key.data, events
                continue
            with contextlib.suppress(BlockingIOError):
                self._woken.recv(1 << 10)

    def interrupt(self) -> None:
        """End the running call of `ready`, else the next one. From any thread."""
        with contextlib.suppress(OSError):  # it is interrupted already, or closed
            self._waker.send(b"x")

    def close(self) -> None:
        """Wait for nothing any more."""
        self._selector.close()
        self._waker.close()
        self._woken.close()

    def abandon(self) -> None:
        """In a forked process: have all descriptors lead to nowhere, and leave the sockets to the parent.

        Their numbers stay taken, so closing them later closes nothing else. Takes no lock: a thread
        that is not here may hold it.
        """
        nowhere = os.open(os.devnull, os.O_RDWR)
        descriptors = [key.fd for key in self._selector.get_map().values()]
        if isinstance(self._selector, selectors.EpollSelector):
            descriptors.append(self._selector.fileno())
        for descriptor in (*descriptors, self._waker.fileno()):
            os.dup2(nowhere, descriptor, inheritable=False)
        os.close(nowhere)
