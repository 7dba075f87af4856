"""Ctrl-C and SIGTERM: the first ends the run after its window, the second kills it.

The exit code is then 128 plus the signal's number. SIGHUP ends a run whose terminal is gone. Without a
terminal it does nothing: log files that were renamed are begun again by themselves.
"""

from __future__ import annotations

import contextlib
import os
import signal
import threading
from collections.abc import Callable
from types import FrameType
from typing import Any, Self, TypeVar

from ridgeline.cli.errors import KILLED_BY

Result = TypeVar("Result")
_LOOK_SECONDS = 0.2
_NAMES = {signal.SIGINT: "Ctrl-C", signal.SIGTERM: "SIGTERM"}


class Stopper:
    """The first signal sets `stopped_by` and `event` and calls `announce`; the second calls `kill` and exits.

    `stop` does as the first signal without being one.

    For `with` in the main thread. The run itself belongs into another thread (see `in_thread`): then a signal
    never meets a lock that the code below it holds. Spark takes over SIGINT in the main thread only, so it
    does not interfere.
    """

    def __init__(self, announce: Callable[[], None], kill: Callable[[], None]) -> None:
        self.event = threading.Event()
        self.stopped_by = ""
        self._announce = announce
        self._kill = kill
        self._own = 0
        self._taking = threading.RLock()
        self._signalled = False
        self._killing = False
        self._before: dict[signal.Signals, Any] = {}

    def __enter__(self) -> Self:
        if threading.current_thread() is threading.main_thread():
            for number in _NAMES:
                self._before[number] = signal.signal(number, self._handle)
            if signal.getsignal(signal.SIGHUP) is signal.SIG_DFL and not has_terminal():
                self._before[signal.SIGHUP] = signal.signal(signal.SIGHUP, lambda *_: None)
        return self

    def __exit__(self, *_error: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def stop(self, why: str) -> None:
        """End the run after its window. From any thread; a signal that comes later is still the first one."""
        self.stopped_by = self.stopped_by or why
        self.event.set()

    def passed_on(self, number: int, count: int) -> None:
        """Take a signal that a supervisor has got, as the one of that number. From any thread.

        A terminal sends each Ctrl-C to both processes, so both have counted it: it is one.
        """
        with self._taking:
            self._take(number, count)

    def _handle(self, number: int, _frame: FrameType | None) -> None:
        self._own += 1
        with self._taking:
            self._take(number, self._own)

    def _take(self, number: int, count: int) -> None:
        """Take a signal: the first asks for the end, the second ends the process at once."""
        if not self._signalled:
            self._signalled = True
            self.stopped_by = self.stopped_by or _NAMES[signal.Signals(number)]
            try:
                self._announce()
            finally:
                self.event.set()  # last, so that a thread that waits for it finds it announced
            return
        if count <= 1:
            return
        if not self._killing:
            self._killing = True
            with contextlib.suppress(Exception):
                self._kill()
        os._exit(KILLED_BY + number)


def has_terminal() -> bool:
    """Whether the process belongs to a terminal, also one that it does not read."""
    try:
        os.close(os.open("/dev/tty", os.O_RDONLY | os.O_NOCTTY))
    except OSError:
        return False
    return True


class LeftError(Exception):
    """A call was left to itself."""


def in_thread(function: Callable[[], Result], until: threading.Event | None = None) -> Result:
    """Call a function in a thread of its own and wait for it, signals being handled meanwhile.

    Raises what it raises; LeftError once `until` is set, also if the call has ended.
    """
    results: list[Result] = []
    errors: list[BaseException] = []

    def call() -> None:
        try:
            results.append(function())
        except BaseException as error:  # noqa: BLE001  raised again below
            errors.append(error)

    thread = threading.Thread(target=call, name="ridgeline-windows", daemon=True)
    thread.start()
    # Not without a timeout: a signal that comes just before such a wait would be handled after it.
    while thread.is_alive() and not (until is not None and until.is_set()):
        thread.join(_LOOK_SECONDS)
    if until is not None and until.is_set():
        raise LeftError
    if errors:
        raise errors[0]
    return results[0]
