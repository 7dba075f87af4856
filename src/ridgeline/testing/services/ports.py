"""Ports of 127.0.0.1 that stay a service's own while it is down."""

import contextlib
import fcntl
import os
import random
import socket
import tempfile
from pathlib import Path

_LEAST, _END = 10_000, 30_000
"""Below those that systems give to outgoing connections."""


class Ports:
    """Free ports. A lock on a file for each keeps other processes with services off them until `release`."""

    def __init__(self) -> None:
        self._locks: list[int] = []

    def take(self) -> int:
        """A port on which no process listens, of 127.0.0.1."""
        folder = Path(tempfile.gettempdir(), f"ridgeline-ports-{os.getuid()}")
        folder.mkdir(mode=0o700, exist_ok=True)
        luck = random.SystemRandom()
        while True:
            port = luck.randrange(_LEAST, _END)
            lock = os.open(folder / str(port), os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
            with contextlib.suppress(OSError), socket.socket() as probe:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                probe.bind(("127.0.0.1", port))
                self._locks.append(lock)
                return port
            os.close(lock)

    def release(self) -> None:
        """Give all of them back."""
        while self._locks:
            os.close(self._locks.pop())
