"""The last lines that operators of this process have printed or logged, until the driver has them.

However much is said, little is kept: `MOST_LINES` of each operator, and what is left out is counted.
"""

from __future__ import annotations

import threading
from collections import deque
from typing import NamedTuple

from ridgeline.api.clock import SystemClock
from ridgeline.api.support.masking import mask_given, mask_text

MOST_LINES = 50
"""Lines of one operator that wait to be sent."""
MOST_OPERATORS = 200
LONGEST = 1200
"""Characters of a line that are kept: more than are shown, so that a secret is not cut in two."""
_CLOCK = SystemClock()


class SaidLine(NamedTuple):
    """A line. `at`: this host's clock. `window`: -1 outside of windows."""

    at: float
    window: int
    source: str
    """`stdout`, `stderr` or `log`."""
    level: str
    """Of the record, such as `WARNING`; empty for what was printed."""
    logger: str
    text: str


OperatorLines = tuple[tuple[str, int], int, list[SaidLine]]
"""The lines of an operator and partition, and how many were left out before them."""


class ProcessLines(NamedTuple):
    """The lines of the operators of a process since the last ones."""

    host: str
    pid: int
    operators: list[OperatorLines]


class _Waiting:
    """The lines of one operator that wait, and how many had to go for them."""

    def __init__(self) -> None:
        self.lines: deque[tuple[float, int, str, str, str, str]] = deque(maxlen=MOST_LINES)
        self.count = 0


class SaidLines:
    """The lines of a process that wait, by operator and partition. Thread-safe.

    The lock may be taken again by its own thread: the collector may run an object's `__del__` at any place,
    and that may print.
    """

    def __init__(self) -> None:
        self.is_open = False
        """Whether lines are kept: they are once they can be sent."""
        self._lock = threading.RLock()
        self._waiting: dict[tuple[str, int], _Waiting] = {}

    @property
    def waits(self) -> bool:
        """Whether there is something to send."""
        return any(one.count for one in self._waiting.copy().values())

    def add(
        self,
        operator: tuple[str, int],
        window: int,
        source: str,
        text: str,
        level: str = "",
        logger: str = "",
    ) -> None:
        """Keep one line, or several, of an operator and partition (`("", -1)`: of none)."""
        if not self.is_open:
            return
        lines = mask_given(text).rsplit("\n", MOST_LINES)
        at = _CLOCK.wall()
        with self._lock:
            waiting = self._waiting.get(operator)
            if waiting is None:
                if len(self._waiting) >= MOST_OPERATORS:
                    return
                waiting = self._waiting[operator] = _Waiting()
            if len(lines) > MOST_LINES:
                waiting.count += lines.pop(0).count("\n") + 1
            for line in lines:
                shown = line.rstrip()
                if "\r" in shown:  # a bar of progress overwrites itself
                    shown = shown.rpartition("\r")[2]
                if shown:
                    waiting.count += 1
                    waiting.lines.append((at, window, source, level, logger, _cut(shown)))

    def take(self, most_characters: int) -> list[OperatorLines]:
        """The lines since the last call, oldest first, and how many were left out before them.

        All texts together have about `most_characters` at most, shared by all operators.
        """
        with self._lock:
            found, self._waiting = self._waiting, {}
        share = most_characters // max(1, len(found))
        taken = []
        for operator, waiting in found.items():
            lines: list[SaidLine] = []
            left = share
            for line in map(SaidLine._make, reversed(waiting.lines)):
                left -= len(line.text) + len(line.logger)
                if left < 0 and lines:
                    break
                lines.append(line)
            if waiting.count:
                taken.append((operator, waiting.count - len(lines), lines[::-1]))
        return taken


def _cut(line: str) -> str:
    """At most `LONGEST` characters of a line. One that is cut has its secrets masked before."""
    return line if len(line) <= LONGEST else mask_text(line[: 2 * LONGEST])[:LONGEST]


said = SaidLines()
"""Those of this process."""
