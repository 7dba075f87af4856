"""The driver's half of inputs of lake tables: which files of which versions are read next."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, NamedTuple, Protocol

from ridgeline.api.errors import RidgelineError
from ridgeline.connect.source import Amount, Begin, Source, SourceContext

_MOST_OPEN = 256
"""The most files that are given to windows and not read to their end."""
_MOST_QUEUED = 1024
_LEAST_ROWS = 1024
_KEPT = 1000
"""Versions that are remembered after all their files were read."""
Place = list[Any]
"""A position: rows passed, rows in all, bytes in all, the values of partition columns."""


class LakeFile(NamedTuple):
    """A file of a version. `values`: the texts of its partition columns."""

    path: str
    rows: int
    bytes: int
    values: dict[str, str | None]


class Point(NamedTuple):
    """How far a table is read, in the order of versions and files.

    `whole`: all rows that were in the table as of the version are read, not only those that it added. `last`:
    the number of the last file that is read, with all before; None: all of the version. `closed`: short names
    of later files that are read. `ordinal`: how many versions were followed before this one.
    """

    version: Any
    whole: bool
    last: int | None
    closed: list[str]
    ordinal: int = 0

    def short(self, number: int) -> str:
        """The short name of a file: in the order of versions and files."""
        return f"{self.ordinal:09}-{number:07}"


class Log(Protocol):
    """The versions of a table."""

    def connect(self, context: SourceContext) -> None:
        """Reach the table. Raises SourceUnavailableError while it is not there, RidgelineError."""

    def start(self, begin: Any) -> Point:
        """Where a fresh run begins."""

    def newest(self) -> Any:
        """The newest version."""

    def following(self, version: Any) -> Any | None:
        """The version after one; None: there is none yet. Raises RidgelineError if it is gone."""

    def all_files(self, version: Any) -> list[LakeFile]:
        """The files of the table as of a version, always in the same order. Raises RidgelineError."""

    def added(self, version: Any) -> list[LakeFile]:
        """The files that a version has added, always in the same order. Raises RidgelineError."""


class LakeSource(Source):
    """Each file of each version is a source partition, which is closed once it is read."""

    poll_seconds: ClassVar[float] = 0.2
    mentions_new: ClassVar[bool] = False

    def __init__(self, log: Log, begin: Any, until: str | None) -> None:
        self._log, self._begin, self._until = log, begin, until
        self._point: Point | None = None
        """How far versions are listed."""
        self._end: Any = None
        self._whole_end = False
        self._order: list[str] = []
        """The files that are listed, by their short names; without the first, which are read."""
        self._done: set[str] = set()
        self._versions: dict[int, Any] = {}
        """The versions that were listed, by their ordinals."""
        self._given: dict[str, LakeFile] = {}
        self._queue: dict[str, LakeFile] = {}

    def open(self, context: SourceContext) -> None:
        """Reach the table, and find out where to begin, or to continue."""
        self._log.connect(context)
        if self._point is not None:
            return
        memory = context.memory
        first = self._log.start(self._begin) if memory is None else Point(*memory)
        if self._until is not None:
            self._end = self._log.newest()
        if first.last is not None:
            self._list(first.version, first)
        self._first = first
        self._point = first._replace(last=None)
        self._whole_end = self._until is not None and first.version == self._end

    def resume(self, positions: Mapping[str, Place]) -> Mapping[str, Place]:
        """These files were being read."""
        for name, (_, rows, size, values) in positions.items():
            path = name.partition(":")[2]
            self._given.setdefault(name, LakeFile(path, rows, size, values))
            self._queue.pop(name, None)
        return positions

    def _list(self, version: Any, point: Point) -> None:
        """Queue the files of a version that are not read."""
        files = self._log.all_files(version) if point.whole else self._log.added(version)
        self._versions[point.ordinal] = version
        closed = set(point.closed)
        last = -1 if point.last is None else point.last
        for number, file in enumerate(files):
            short = point.short(number)
            if number > last:
                self._order.append(short)
                if short not in closed:
                    name = f"{short}:{file.path}"
                    if name not in self._given:
                        self._queue[name] = file

    def finished(self) -> bool:
        """With `until="end"`, once all files up to the version that was the newest are given to windows."""
        return self._whole_end and not self._queue

    def has_new(self) -> bool:
        """Whether files wait that may be given to windows."""
        return bool(self._queue) and len(self._given) <= _MOST_OPEN // 2

    def partitions(self) -> Sequence[str]:
        """The files that windows may read."""
        point = self._point
        assert point is not None  # noqa: S101  `open` has made it
        while len(self._queue) < _MOST_QUEUED and not self._whole_end:
            version = self._log.following(point.version)
            if version is None:
                break
            point = Point(version, False, None, self._first.closed, point.ordinal + 1)  # noqa: FBT003  as the fields
            self._list(version, point)
            self._point = point
            self._whole_end = self._until is not None and version == self._end
        while self._queue and len(self._given) < _MOST_OPEN:
            name = next(iter(self._queue))
            self._given[name] = self._queue.pop(name)
        return list(self._given)

    def ends(self, wait: float) -> Mapping[str, Place]:
        """The numbers of rows of files."""
        return {name: [one.rows, one.rows, one.bytes, one.values] for name, one in self._given.items()}

    def start(self, partitions: Sequence[str], begin: Begin) -> Mapping[str, Place]:
        """Each at its first row."""
        found = {name: self._given[name] for name in partitions}
        return {name: [0, one.rows, one.bytes, one.values] for name, one in found.items()}

    def amount(self, partition: str, start: Place, end: Place) -> Amount:
        """Rows, and their share of the file's bytes."""
        rows = max(0, end[0] - start[0])
        return Amount(float(rows), end[2] * rows / max(1, end[1]))

    def waiting(self) -> Amount:
        """The rows of files that are not given to windows yet."""
        files = list(self._queue.values())
        return Amount(float(sum(one.rows for one in files)), float(sum(one.bytes for one in files)))

    def divide(
        self, ranges: Mapping[str, tuple[Place, Place]], most: Amount, partitions: int
    ) -> Mapping[str, Place]:
        """File by file, as many at once as the operator has partitions."""
        rows, size, found = most.records, most.bytes, {}
        for name, (start, end) in ranges.items():
            if rows <= 0 or size <= 0:
                break
            of_row = end[2] / max(1, end[1])
            share = max(_LEAST_ROWS, min(most.records, most.bytes / max(of_row, 1e-9)) / partitions)
            passed = min(end[0], start[0] + int(share))
            found[name] = [passed, *end[1:]]
            rows -= passed - start[0]
            size -= (passed - start[0]) * of_row
        return found

    def closes(self, partition: str, position: Place) -> bool:
        """True once all its rows are read."""
        return bool(position[0] == position[1])

    def remember(self, memory: Any, closed: Sequence[str]) -> Any:
        """How far the table is read, with files that are closed now."""
        point = self._first if memory is None else Point(*memory)
        read = {*point.closed, *(name.partition(":")[0] for name in closed)}
        last = "" if point.last is None else point.short(point.last)
        order = list(self._order)  # the thread of the source changes it
        for short in order[order.index(last) + 1 if last in order else 0 :]:
            if short not in read:
                break
            read.remove(short)
            ordinal, number = map(int, short.split("-"))
            whole = point.whole and ordinal == point.ordinal
            point = Point(self._versions[ordinal], whole, number, [], ordinal)
        return [*point[:3], sorted(read), point.ordinal]

    def forget(self, closed: Sequence[str]) -> None:
        """These files are read for good."""
        for name in closed:
            self._given.pop(name, None)
            self._done.add(name.partition(":")[0])
        while self._order and self._order[0] in self._done:
            self._done.remove(self._order.pop(0))
        first = int(self._order[0].partition("-")[0]) if self._order else 0
        for ordinal in [one for one in self._versions if one < first - _KEPT]:
            del self._versions[ordinal]

    def close(self) -> None:
        """Nothing is held open."""


def gone(place: str, version: Any, why: str) -> RidgelineError:
    """The error for a version that cannot be read any more."""
    msg = f"version {version} of {place} cannot be read: {why}; keep the table's log and files longer than "
    return RidgelineError(f"{msg}the application stands still, and start anew with another `--checkpoint`")
