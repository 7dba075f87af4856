"""Where an operator's Python time goes, by line: its thread is looked at 50 times a second.

A sample counts for the time since the one before. So a call that holds Python's lock for long, during which
no sample can be taken, counts for as long as it took. Nothing is paid per tuple, call or window.
"""

from __future__ import annotations

import contextlib
import linecache
import random
import sys
import sysconfig
import threading
from collections.abc import Mapping
from types import CodeType, FrameType
from typing import NamedTuple

from ridgeline.api.clock import Clock
from ridgeline.engine.process import stacks, worker_output
from ridgeline.measure.events import LineTime

INTERVAL_SECONDS = 0.02
_NOTEBOOKS = ("<ipython", "<stdin")
_MOST_LINES = 500
_MOST_SENT = 30
_LONGEST_TEXT = 120
_LONGEST_NAME = 160
_LONGEST_FILE = 240
_DEEPEST_LOOK = 200
"""Frames that a look at a stack follows, from the innermost on: it costs up to so many steps."""
_LIBRARIES = tuple({sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")})


class _Place(NamedTuple):
    """A line, or no line: what the engine does itself (`code` is None)."""

    operator: int
    code: CodeType | None = None
    line: int = 0


class LineSampler:
    """Samples the thread that works, from a daemon thread of its own.

    `take` returns what was found since.

    The thread that works calls `begin` and `end` around its windows. Operators name themselves by
    `worker_output.enter_operator`.
    """

    def __init__(self, clock: Clock, interval_seconds: float = INTERVAL_SECONDS) -> None:
        self._clock = clock
        self._interval_seconds = interval_seconds
        self._working: tuple[int, Mapping[str, object]] | None = None
        self._lock = threading.Lock()
        self._seconds: dict[_Place, float] = {}
        self._ranks: dict[str, int] = {}
        """By file name: how near to a user's code its lines are."""
        self._random = random.Random()  # noqa: S311  an operator may have seeded Python's own
        self._stop = threading.Event()

    def start(self) -> None:
        """Sample from now on. Without a thread to spare there are no samples."""
        with contextlib.suppress(RuntimeError):
            threading.Thread(target=self._run, name="ridgeline-lines", daemon=True).start()

    def stop(self) -> None:
        """Sample no more."""
        self._stop.set()

    def begin(self) -> None:
        """The calling thread runs a window."""
        self._working = threading.get_ident(), worker_output.of_this_thread()

    def end(self) -> None:
        """It has run it."""
        self._working = None

    def take(self) -> tuple[LineTime, ...]:
        """The time by line since the last call, the most first. Small ones are added up (`line` is 0)."""
        with self._lock:
            found, self._seconds = self._seconds, {}
        rest: dict[int, float] = {}
        lines: list[LineTime] = []
        for place, seconds in sorted(found.items(), key=lambda item: -item[1]):
            if place.code is None or len(lines) >= _MOST_SENT:
                rest[place.operator] = rest.get(place.operator, 0.0) + seconds
            else:
                lines.append(_line_time(place.operator, place.code, place.line, seconds))
        return (*lines, *(LineTime(one, "", 0, "", "", seconds) for one, seconds in rest.items()))

    def _run(self) -> None:
        before = self._clock.monotonic()
        while not self._clock.wait(self._interval_seconds * self._random.uniform(0.5, 1.5), self._stop):
            now = self._clock.monotonic()
            self._sample(now - before)
            before = now

    def _sample(self, seconds: float) -> None:
        """Count some time for the line at which the thread is."""
        working = self._working
        if working is None:
            return
        thread, current = working
        operator = current.get("operator")
        if not isinstance(operator, worker_output.CurrentOperator):
            return
        frame = sys._current_frames().get(thread)  # noqa: SLF001  the only way
        place = self._look(operator.context.operator_id, frame)
        del frame  # it would keep the operator's variables
        with self._lock:
            if place not in self._seconds and len(self._seconds) >= _MOST_LINES:
                place = _Place(place.operator)
            self._seconds[place] = self._seconds.get(place, 0.0) + seconds

    def _look(self, operator: int, frame: FrameType | None) -> _Place:
        """The innermost line of a user's code in a stack; else of the library, or of a package."""
        best, place, looked = _PYTHON, _Place(operator), 0
        while frame is not None and best != _USERS and looked < _DEEPEST_LOOK:
            code = frame.f_code
            if (rank := self._rank(code.co_filename)) > best:
                best, place = rank, _Place(operator, code, frame.f_lineno or 0)
            frame, looked = frame.f_back, looked + 1
        return place

    def _rank(self, filename: str) -> int:
        rank = self._ranks.get(filename)
        if rank is None:
            rank = self._ranks[filename] = _rank_of(filename)
        return rank


_ENGINE, _PYTHON, _PACKAGE, _OPERATORS, _USERS = range(5)


def _rank_of(filename: str) -> int:
    """Whose the lines of a file are: the engine's or Python's, a package's, the library's, a user's."""
    if filename.startswith(stacks.LIBRARY):
        return _OPERATORS
    if filename.startswith(stacks.MACHINERY):
        return _ENGINE
    if filename.startswith("<"):  # generated, such as a NamedTuple's constructor
        return _USERS if filename.startswith(_NOTEBOOKS) else _PYTHON
    if "site-packages" in filename or "dist-packages" in filename:
        return _PACKAGE
    return _PYTHON if filename.startswith(_LIBRARIES) else _USERS


def _line_time(operator: int, code: CodeType, line: int, seconds: float) -> LineTime:
    text = linecache.getline(code.co_filename, line).strip()
    file, function = code.co_filename[-_LONGEST_FILE:], code.co_qualname[:_LONGEST_NAME]
    return LineTime(operator, file, line, function, text[:_LONGEST_TEXT], seconds)
