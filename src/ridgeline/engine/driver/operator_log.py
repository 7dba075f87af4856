"""The last lines that operators have said, as the driver has them: bounded, however much they say."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Sequence
from typing import NamedTuple

MOST_LINES = 500
"""Lines of each operator and partition, and of each process, that are kept."""
MOST_CHARACTERS = 8_000_000
"""Of all lines."""
MOST_SENDERS = 20_000


class LogLine(NamedTuple):
    """A line. `number` grows with each line of the run. `at`: its host's clock.

    `operator`: empty for what no operator says, whose `partition` is -1. `window`: -1 outside of windows.
    `source`: `stdout`, `stderr` or `log`; `level` and `logger` are those of a record. `left_out`: lines
    before it that are not kept.
    """

    number: int
    at: float
    operator: str
    partition: int
    window: int
    source: str
    level: str
    logger: str
    text: str
    host: str
    pid: int
    left_out: int


class _Kept:
    """The lines of one operator and partition, or of one process."""

    def __init__(self) -> None:
        self.lines: deque[LogLine] = deque()
        self.characters = 0
        self.left_out = 0


class OperatorLog:
    """The last lines of all operators of a run. Thread-safe; nothing in it can fail the run."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._kept: dict[tuple[str, int, str, int], _Kept] = {}
        self._characters = 0
        self._number = 0

    def add(
        self,
        operator: str,
        partition: int,
        lines: Sequence[tuple[float, int, str, str, str, str]],
        host: str,
        pid: int,
        left_out: int = 0,
    ) -> None:
        """Keep lines of one sender, `left_out` of which were left out before the first of these."""
        key = (operator, partition, "", 0) if operator else ("", -1, host, pid)
        with self._lock:
            kept = self._kept.pop(key, None) or _Kept()
            self._kept[key] = kept  # the newest is the last
            kept.left_out += left_out
            for at, window, source, level, logger, text in lines[-MOST_LINES:]:
                self._number += 1
                line = LogLine(
                    self._number, at, *key[:2], window, source, level, logger, text, host, pid, left_out
                )
                left_out = 0
                kept.lines.append(line)
                self._count(kept, len(text))
                if len(kept.lines) > MOST_LINES:
                    self._drop(kept)
            while len(self._kept) > MOST_SENDERS:
                self._characters -= self._kept.pop(next(iter(self._kept))).characters
            while self._characters > MOST_CHARACTERS:
                largest = max(self._kept.values(), key=lambda one: one.characters)
                for _ in range((len(largest.lines) + 1) // 2):
                    self._drop(largest)

    def lines(
        self, wanted: Callable[[LogLine], bool], after: int, most: int
    ) -> tuple[list[LogLine], int, int]:
        """The last lines that are wanted, oldest first, the newest number, and how many were left out.

        Lines after `after` that are too many are counted with the first that is returned.

        Args:
            wanted: Whether a line is wanted; asked for each line that is newer.
            after: Only lines with a greater number.
            most: How many lines.
        """
        with self._lock:
            found = [
                line
                for kept in self._kept.values()
                if kept.lines and kept.lines[-1].number > after
                for line in kept.lines
                if line.number > after and wanted(line)
            ]
            left_out = sum(
                kept.left_out for kept in self._kept.values() if kept.lines and wanted(kept.lines[-1])
            )
            newest = self._number
        found.sort()
        chosen = found[-most:]
        if after and len(found) > most:
            first, *rest = chosen
            chosen = [first._replace(left_out=first.left_out + len(found) - most), *rest]
        # Workers send once a second: what they said meanwhile is mixed by time.
        return sorted(chosen, key=lambda line: line.at), newest, left_out

    def _count(self, kept: _Kept, characters: int) -> None:
        kept.characters += characters
        self._characters += characters

    def _drop(self, kept: _Kept) -> None:
        self._count(kept, -len(kept.lines.popleft().text))
