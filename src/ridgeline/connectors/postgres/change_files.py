"""Changes that were read from a slot, in files of the checkpoint: what windows read, and read again."""

from __future__ import annotations

import bisect
import uuid
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import pyarrow as pa

from ridgeline.api.errors import RidgelineError
from ridgeline.connect.output_files import checkpoint_files

_ENDING = ".changes"
SNAPSHOT = "snapshot"
"""In the place of a relation's signature: rows of the snapshot."""


class Place(NamedTuple):
    """A position: how many changes are before it, and where the log is read from then on.

    `folder`: that of the segments. `lsn`: all transactions before it are read. `skip`: so many changes of the
    transaction after it are, too. `transaction`: its id.
    """

    number: int
    folder: str
    lsn: int
    skip: int = 0
    transaction: int = 0


class Segment(NamedTuple):
    """Changes that follow each other. Its file's name says all of this.

    `relation`: the signature of the columns. `lsn`, `skip`, `transaction`: those of the place after it.
    """

    first: int
    changes: int
    size: int
    lsn: int
    skip: int
    transaction: int
    relation: str
    session: str

    @property
    def end(self) -> int:
        """The number after its last change."""
        return self.first + self.changes

    @property
    def name(self) -> str:
        """The name of its file."""
        first, *others = self
        return "-".join([f"{first:015d}", *map(str, others)]) + _ENDING

    @classmethod
    def of_name(cls, name: str) -> Segment:
        """From the name of its file."""
        *numbers, relation, session = name.removesuffix(_ENDING).split("-")
        first, changes, size, lsn, skip, transaction = map(int, numbers)
        return cls(first, changes, size, lsn, skip, transaction, relation, session)


class ChangeFiles:
    """The segments of a folder. Drivers may have written the same changes to it, divided otherwise."""

    def __init__(self, parent: str, folder: str) -> None:
        """Raises RidgelineError if the folder cannot be reached."""
        self.folder = folder
        self._path = f"{parent}/{folder}"
        self._files = checkpoint_files(self._path)
        self._listed: list[Segment] = []

    def make(self) -> None:
        """Make the folder. Raises OSError."""
        self._files.make_folder(self._files.root)
        self._files.sync_above(self._files.root)

    def write(self, segment: Segment, rows: pa.Table) -> None:
        """Write a segment. It survives a power cut. Raises OSError."""
        self._files.write_rows(f"{self._files.root}/{segment.name}", rows)
        self._files.sync(self._files.root)

    def read(self, first: int, end: int) -> Iterator[tuple[Segment, int, pa.Table]]:
        """The changes from number `first` up to, and without, `end`: segment, number, rows.

        Raises RidgelineError if some are gone.
        """
        while first < end:
            segment = _holding(self._listed, first)
            if segment is None:
                self._listed = self.segments()
                segment = _holding(self._listed, first)
            if segment is None:
                msg = f"`{self._path}` has no change {first}, though the driver has written it; "
                msg += "the checkpoint must be in a folder that all hosts share"
                raise RidgelineError(msg)
            rows = self._load(segment).slice(first - segment.first, end - first)
            yield segment, first, rows
            first += rows.num_rows

    def following(self, place: Place) -> list[Segment]:
        """The segments from a place on, each after the one before."""
        found: list[Segment] = []
        every, number = self.segments(), place.number
        while (segment := _holding(every, number)) is not None:
            found.append(segment)
            number = segment.end
        return found

    def segments(self) -> list[Segment]:
        """All that are there, by their first change."""
        return sorted(
            Segment.of_name(name) for name in self._files.names(self._files.root) if name.endswith(_ENDING)
        )

    def delete(self, segments: Sequence[Segment]) -> None:
        """Delete segments. Raises OSError."""
        for segment in segments:
            self._files.delete(f"{self._files.root}/{segment.name}")

    def remove(self) -> None:
        """Delete the folder with all that is in it. Raises OSError."""
        self._files.remove_folder(self._files.root)

    def _load(self, segment: Segment) -> pa.Table:
        return self._files.read_rows(f"{self._files.root}/{segment.name}")


def new_name() -> str:
    """A name that no other folder or session has."""
    return uuid.uuid4().hex


def _holding(segments: Sequence[Segment], number: int) -> Segment | None:
    """The segment that has a change, of several the one that goes furthest."""
    place = bisect.bisect_right(segments, number, key=lambda one: one.first)
    found = [one for one in segments[max(0, place - _NEAR) : place] if one.end > number]
    return max(found, key=lambda one: one.end, default=None)


_NEAR = 64
"""How many segments before a number are looked at: those of several drivers overlap."""


class Index:
    """The places of the segments that are written, for the driver. One thread adds, others read."""

    def __init__(self, start: Place) -> None:
        self._state: tuple[Place, list[Segment], list[int]] = (start, [], [0])
        """Where the first segment begins; the segments; the bytes before each, and in all."""
        self._relation = ""
        self._bounds: list[Place] = []
        """Where columns change, or the snapshot ends."""
        self._moved: Place | None = None

    def add(self, segment: Segment) -> None:
        """A segment follows."""
        _, segments, sizes = self._state
        if self._relation not in ("", segment.relation):
            self._bounds.append(self.end)
        self._relation = segment.relation
        sizes.append(sizes[-1] + segment.size)
        segments.append(segment)

    @property
    def end(self) -> Place:
        """The place after the last change."""
        start, segments, _ = self._state
        found, moved = _after(segments[-1], start.folder) if segments else start, self._moved
        return moved if moved is not None and moved.number == found.number else found

    def move_up(self, place: Place) -> None:
        """The log was read further, without a change."""
        self._moved = place

    def bytes_between(self, first: int, end: int) -> int:
        """The bytes of changes between two places, by their numbers."""
        _, segments, sizes = self._state
        low, high = (bisect.bisect_right(segments, number, key=_end_of) for number in (first, end))
        return max(0, sizes[high] - sizes[low])

    def cut(self, first: int, number: int) -> Place | None:
        """The last place after `first`, and not after `number` if there is one; None: there is none."""
        start, segments, _ = self._state
        least = bisect.bisect_right(segments, first, key=_end_of)
        place = max(least, bisect.bisect_right(segments, number, key=_end_of) - 1)
        return _after(segments[place], start.folder) if place < len(segments) else None

    def bound(self, first: int) -> Place | None:
        """Where columns change next after a number; None: nowhere."""
        bounds = self._bounds
        place = bisect.bisect_right(bounds, first, key=lambda one: one.number)
        return bounds[place] if place < len(bounds) else None

    def drop(self, number: int) -> list[Segment]:
        """Forget the segments that end before a number, or there; return them."""
        start, segments, sizes = self._state
        count = bisect.bisect_right(segments, number, key=_end_of)
        if not count:
            return []
        gone = segments[:count]
        self._state = _after(gone[-1], start.folder), segments[count:], sizes[count:]
        self._bounds = [one for one in self._bounds if one.number > number]
        return gone


def _end_of(segment: Segment) -> int:
    return segment.end


def _after(segment: Segment, folder: str) -> Place:
    return Place(segment.end, folder, segment.lsn, segment.skip, segment.transaction)


def place_of(position: Any) -> Place:
    """A position, as a commit has it, as a place."""
    return Place(*position)
