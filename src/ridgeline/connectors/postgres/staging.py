"""The driver's side of staged changes: segments in the checkpoint, which windows read, and read again."""

from __future__ import annotations

import json
from bisect import bisect_right
from collections import deque
from collections.abc import Sequence
from itertools import pairwise
from operator import attrgetter
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from ridgeline.api.support.sealed import seal, unseal
from ridgeline.connect.output_files import checkpoint_files
from ridgeline.connect.source import SourceContext
from ridgeline.connect.window_output import safe_name
from ridgeline.connectors.postgres.pgoutput import Relation
from ridgeline.connectors.postgres.replication import Part, Place
from ridgeline.connectors.postgres.slot import Catalog, Found, Watched
from ridgeline.operators._staged_source import RowStore

_CLAIM = "slot.json"
SNAPSHOT = b"snapshot"
"""In the place of a relation's signature: rows of the snapshot."""
ROWS = pa.schema(
    [("message", pa.large_binary()), ("lsn", pa.int64()), ("transaction", pa.int64()), ("time", pa.int64())]
)
"""The columns of a segment: a change as the server sent it, or a row of CSV; and its transaction."""


class Settings(NamedTuple):
    """The properties of a `PostgresChanges` that its source needs.

    `columns`: those of the table. `others`: columns of the schema that are not the table's.
    """

    watched: Watched
    schema: pa.Schema
    columns: Sequence[str]
    others: Sequence[str]
    begin: str
    until: str | None


class Surroundings(NamedTuple):
    """A connected source: the table as it was found, and the names at the server."""

    context: SourceContext
    catalog: Catalog
    found: Found
    slot: str
    publication: str

    @property
    def in_memory(self) -> bool:
        """Whether the checkpoint is in memory, and ends with the run."""
        return self.context.staging.startswith("memory:")

    @property
    def parent(self) -> str:
        """The folder of the source in the checkpoint."""
        return f"{self.context.staging}/inputs/{safe_name(self.context.operator)}-{self.context.run_id}"


class _End(NamedTuple):
    """Where a segment ends. `size`: the bytes of all up to there. `columns`: their signature."""

    place: Place
    size: int
    columns: bytes


_number = attrgetter("place.number")


class Staged:
    """The segments of a slot, from where windows may begin. One thread writes, others read.

    Drivers may have written the same changes to its folder, divided otherwise.
    """

    def __init__(self, here: Surroundings, place: Place) -> None:
        """`place`: before the first change. Without a folder it gets a new one. Raises OSError."""
        self._store = RowStore(f"{here.parent}/{place.folder}") if place.folder else RowStore.new(here.parent)
        place = place._replace(folder=self._store.folder.rpartition("/")[2])
        self.begin = self.committed = self._moved = place
        self._here, self._claim = here, read_claim(here) or Claim(here.slot, here.found.relation.oid)
        self.table = self._claim.table
        """The id of the table whose changes these are: a table that was made again has another one."""
        self._ends = [_End(place, 0, b"")]
        self._recent: deque[int] = deque(maxlen=here.context.windows_kept + 1)
        """The numbers that the last windows were committed at: a rewind may begin at one of them."""
        for segment in self._store.following(place.number):
            self._note(segment)
        if (last := self.end).number == self._claim.number and last.lsn < self._claim.lsn:
            self._moved = last._replace(lsn=self._claim.lsn, skip=0, transaction=0)

    def add(self, part: Part) -> None:
        """Write changes. Raises OSError."""
        counts = [number for number, _ in part.runs]
        others = [
            np.repeat(np.array([getattr(begin, name) for _, begin in part.runs], np.int64), counts)
            for name in ("lsn", "transaction", "time")
        ]
        self._write(part.messages, others, part.relation, part.relation.signature, part.end)

    def add_snapshot(self, rows: list[bytes], time: int) -> None:
        """Write rows of the snapshot, of a time in microseconds. Raises OSError."""
        end = self.end._replace(number=self.end.number + len(rows))
        others = [np.full(len(rows), value, np.int64) for value in (end.lsn, 0, time)]
        self._write(rows, others, self._here.found.relation, SNAPSHOT, end)

    def _write(
        self, messages: list[bytes], others: Sequence[Any], relation: Relation, columns: bytes, end: Place
    ) -> None:
        about = {"relation": relation, "keys": self._here.found.keys, "end": end}
        metadata = {name: json.dumps(value).encode() for name, value in about.items()} | {"columns": columns}
        arrays = [pa.array(messages, pa.large_binary()), *map(pa.array, others)]
        segment = pa.Table.from_arrays(arrays, schema=ROWS.with_metadata(metadata))
        self._store.add(end.number - len(messages), segment)
        self._note(segment)

    def _note(self, segment: pa.Table) -> None:
        about = segment.schema.metadata
        size = self._ends[-1].size + segment.column("message").nbytes
        self._ends.append(_End(Place(*json.loads(about[b"end"])), size, about[b"columns"]))

    def commit(self, place: Place) -> None:
        """All before a place is committed: delete segments that no rewind needs any more. Raises OSError."""
        self.committed = place
        self._recent.append(place.number)
        if len(self._recent) == self._recent.maxlen:
            count = bisect_right(self._ends, self._recent[0], key=_number) - 1
            if count > 0:
                self._store.drop(self._recent[0])
                self._ends = self._ends[count:]

    @property
    def end(self) -> Place:
        """The place after the last change."""
        last, moved = self._ends[-1].place, self._moved
        return moved if moved.number == last.number else last

    def move_up(self, place: Place) -> None:
        """The log was read further, without a change. It is noted: the slot stays there in a rewind."""
        self._claim = self._claim._replace(number=place.number, lsn=place.lsn)
        write_claim(self._here, self._claim)
        self._moved = place

    def bytes_between(self, first: int, end: int) -> int:
        """The bytes of changes between two places, by their numbers."""
        ends = self._ends
        low, high = (ends[max(0, bisect_right(ends, one, key=_number) - 1)].size for one in (first, end))
        return max(0, high - low)

    def cut(self, first: int, number: int) -> Place | None:
        """The last place after `first`, and not after `number` if there is one; None: there is none."""
        ends = self._ends
        least = bisect_right(ends, first, key=_number)
        at = max(least, bisect_right(ends, number, key=_number) - 1)
        return ends[at].place if at < len(ends) else None

    def bound(self, first: int) -> Place | None:
        """Where columns change next after a number, or the snapshot ends; None: nowhere."""
        after = self._ends[bisect_right(self._ends, first, key=_number) :]
        return next((one.place for one, other in pairwise(after) if one.columns != other.columns), None)

    @property
    def bytes_ahead(self) -> int:
        """The bytes of changes that are not committed."""
        return self.bytes_between(self.committed.number, self.end.number)

    @property
    def all_committed(self) -> bool:
        """Whether no change waits."""
        return self.committed.number == self.end.number

    def remove(self) -> None:
        """Delete the folder. Raises OSError."""
        self._store.remove()


class Claim(NamedTuple):
    """The note that a run makes before it makes a slot, or takes one.

    `table`: the table's id. `taken`: another one had made the slot. `number`, `lsn`: the place without a
    change to which the log was read last.
    """

    slot: str
    table: int
    taken: bool = False
    number: int = 0
    lsn: int = 0


def read_claim(here: Surroundings) -> Claim | None:
    """The note of this run about its slot; None if it has not begun to make one. Raises RidgelineError."""
    files = checkpoint_files(here.parent)
    path = f"{files.root}/{_CLAIM}"
    if not files.is_file(path):
        return None
    found = unseal(_CLAIM, files.read(path).to_pybytes(), f"`{here.parent}/{_CLAIM}`", 1)
    claim = Claim(**{name: found[name] for name in Claim._fields})
    return claim if claim.slot == here.slot else None


def write_claim(here: Surroundings, claim: Claim) -> None:
    """Note which slot and table are this run's, before the slot is made. Raises OSError."""
    data = seal(_CLAIM, {"format": 1, **claim._asdict()})
    files = checkpoint_files(here.parent)
    files.make_folder(files.root)
    files.sync_above(files.root)
    path = f"{files.root}/{_CLAIM}"
    with files.writing(f"{path}.part") as out:
        out.write(data)
    files.move(f"{path}.part", path)
    files.sync(files.root)
