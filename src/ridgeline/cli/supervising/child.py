"""The supervisor's end: one process of a driver, and what it says."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import IO, Any, Self

from ridgeline.api.clock import SystemClock
from ridgeline.cli.running.stopping import has_terminal
from ridgeline.cli.supervising.link import ENDED, FAILED, LINE, READY, RUNNING, VARIABLE, encode

LAST_LINES = 10
"""Lines of a driver's log that are kept."""
_CLOCK = SystemClock()
_KILLS = 2
_READ_SECONDS = 5.0


class Signals:
    """For `with` in the main thread: SIGINT and SIGTERM are passed on to the driver that runs.

    A terminal sends Ctrl-C to the driver, too. So each signal goes with its number, and the driver takes
    as many as the greater count of both.
    """

    def __init__(self) -> None:
        self.count = 0
        self.stopped = threading.Event()
        self.child: Child | None = None
        self._before: dict[int, Any] = {}

    def __enter__(self) -> Self:
        for number in (signal.SIGINT, signal.SIGTERM):
            self._before[number] = signal.signal(number, self._handle)
        if not has_terminal():
            self._before[signal.SIGHUP] = signal.signal(signal.SIGHUP, lambda *_: None)
        return self

    def __exit__(self, *_error: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def end(self, number: int) -> None:
        """Take a signal that was not sent, as by a word in the store. From any thread."""
        self._handle(number, None)

    def _handle(self, number: int, _frame: object) -> None:
        self.count += 1
        self.stopped.set()
        if self.child is not None:
            self.child.pass_on(number, self.count)


class Child:
    """A driver: `ridgeline WORDS` in a process of its own, at this terminal.

    `given`: what it is to know, fields of `Link`. `printed`: gets what it prints; None: the terminal does.
    `ran_since`: when its first window began, by the monotonic clock; None before. `failed`: its last report
    of a failure. `ended`: it has come to its end in order.
    """

    def __init__(
        self,
        words: Sequence[str],
        given: Mapping[str, Any],
        signals: Signals,
        folder: str | None = None,
        report: Callable[[Mapping[str, Any]], None] = lambda _report: None,
        printed: IO[bytes] | None = None,
    ) -> None:
        """`folder`: where it runs. `report`: called with each of its reports but lines of its log."""
        self.ran_since: float | None = None
        self.failed: Mapping[str, Any] = {}
        self.ended = False
        self.lines: deque[str] = deque(maxlen=LAST_LINES)
        self._ready = False
        self._report = report
        self._end, theirs = socket.socketpair()
        with theirs:
            self.process = subprocess.Popen(  # noqa: S603  ours
                [sys.executable, "-m", "ridgeline", *words],
                cwd=folder,
                env={**os.environ, VARIABLE: encode(theirs, given)},
                pass_fds=[theirs.fileno()],
                stdout=printed,
                stderr=printed,
            )
        self._reader = threading.Thread(target=self._read, name="driver", daemon=True)
        self._reader.start()
        self._signals = signals
        signals.child = self
        if signals.count:  # it came while the process was made
            self.pass_on(signal.SIGTERM, signals.count)

    def wait(self) -> int:
        """Wait for its end; its exit code, minus the signal's number if one has ended it."""
        code = self.process.wait()
        self._signals.child = None
        self._reader.join(_READ_SECONDS)  # a process that it has left may keep its end
        self._end.close()
        return code

    def ran_seconds(self) -> float:
        """How long it has run windows."""
        return 0.0 if self.ran_since is None else _CLOCK.monotonic() - self.ran_since

    def pass_on(self, number: int, count: int) -> None:
        """Give it a signal, by its number and how many there were so far."""
        with contextlib.suppress(OSError):
            if self._ready:
                self._end.sendall(f"{number} {count}\n".encode())
            elif count < _KILLS:
                self.process.send_signal(signal.SIGTERM if number == signal.SIGTERM else signal.SIGINT)
            else:
                self.process.kill()

    def _read(self) -> None:
        with contextlib.suppress(OSError), self._end.makefile("rb") as lines:
            for line in lines:
                with contextlib.suppress(ValueError):
                    self._take(json.loads(line))

    def _take(self, report: Mapping[str, Any]) -> None:
        """Keep what the driver reports. The thread of `_read` calls it."""
        if report["what"] != LINE:
            self._report(report)
        match report["what"]:
            case what if what == READY:
                self._ready = True
                if self._signals.count:
                    self.pass_on(signal.SIGTERM, self._signals.count)
            case what if what == RUNNING:
                self.ran_since = _CLOCK.monotonic()
            case what if what == FAILED:
                self.failed = report
            case what if what == ENDED:
                self.ended = True
            case what if what == LINE:
                self.lines.append(str(report["text"]))
