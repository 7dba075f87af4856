"""The driver's side of staged changes: it writes segments, and deletes those that nothing needs any more."""

from __future__ import annotations

import contextlib
import json
from collections import deque
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from ridgeline.api.errors import RidgelineError
from ridgeline.api.support.sealed import checked, seal
from ridgeline.connect.output_files import checkpoint_files
from ridgeline.connect.source import SourceContext
from ridgeline.connect.window_output import safe_name
from ridgeline.connectors.postgres.change_files import (
    SNAPSHOT,
    ChangeFiles,
    Index,
    Place,
    Segment,
    new_name,
)
from ridgeline.connectors.postgres.replication import Part
from ridgeline.connectors.postgres.slot import Catalog, Found, Watched

_CLAIM = "slot.json"
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


class Staged:
    """The segments of a slot, from where windows may begin."""

    def __init__(self, here: Surroundings, place: Place, session: str) -> None:
        """`place`: before the first change, with the name of the folder. Raises OSError."""
        self.begin = self.committed = place
        claim = read_claim(here)
        self.table = here.found.relation.oid if claim is None else claim.table
        """The id of the table whose changes these are: a table that was made again has another one."""
        self._found, self._session = here.found, session
        self.files = ChangeFiles(here.parent, place.folder)
        self.files.make()
        self.index = Index(place)
        self._kept = here.context.windows_kept
        self._recent: deque[int] = deque()
        """The numbers that the last windows were committed at: a rewind may begin at one of them."""

        self._older: list[Segment] = []
        """Those that drivers before have left."""

    def load(self) -> None:
        """Find the segments that follow the place."""
        for segment in self.files.following(self.begin):
            self.index.add(segment)
        self._older = self.files.segments()

    def add(self, part: Part) -> None:
        """Write changes. Raises OSError."""
        end, count = part.end, len(part.messages)
        counts = [number for number, _ in part.runs]
        others = [
            np.repeat(np.array([getattr(begin, name) for _, begin in part.runs], np.int64), counts)
            for name in ("lsn", "transaction", "time")
        ]
        place = end.lsn, end.skip, end.transaction
        signature = part.relation.signature
        segment = Segment(end.number - count, count, part.size, *place, signature, self._session)
        self.files.write(segment, self._table(part.messages, others, part.relation.to_json()))
        self.index.add(segment)

    def add_snapshot(self, rows: list[bytes], time: int) -> None:
        """Write rows of the snapshot, of a time in microseconds. Raises OSError."""
        count, size, at = len(rows), sum(map(len, rows)), self.index.end
        segment = Segment(at.number, count, size, at.lsn, 0, 0, SNAPSHOT, self._session)
        others = [np.full(count, value, np.int64) for value in (at.lsn, 0, time)]
        self.files.write(segment, self._table(rows, others, self._found.relation.to_json()))
        self.index.add(segment)

    def _table(self, messages: list[bytes], others: Sequence[Any], relation: bytes) -> pa.Table:
        arrays = [pa.array(messages, pa.large_binary()), *map(pa.array, others)]
        about = {b"relation": relation, b"keys": json.dumps(self._found.keys).encode()}
        return pa.Table.from_arrays(arrays, schema=ROWS.with_metadata(about))

    def commit(self, place: Place) -> None:
        """All before a place is committed: delete segments that no rewind needs any more. Raises OSError."""
        self.committed = place
        self._recent.append(place.number)
        while len(self._recent) > self._kept + 1:
            self._recent.popleft()
        if len(self._recent) > self._kept:
            number = self._recent[0]
            self.files.delete(self.index.drop(number))
            if self._older:
                self.files.delete([one for one in self._older if one.end <= number])
                self._older = [one for one in self._older if one.end > number]

    @property
    def bytes_ahead(self) -> int:
        """The bytes of changes that are not committed."""
        return self.index.bytes_between(self.committed.number, self.index.end.number)

    @property
    def all_committed(self) -> bool:
        """Whether no change waits."""
        return self.committed.number == self.index.end.number

    def remove(self) -> None:
        """Delete the folder; nothing of it was committed."""
        with contextlib.suppress(OSError):
            self.files.remove()


class Claim(NamedTuple):
    """The note that a run makes before it makes a slot, or takes one.

    `table`: the table's id. `taken`: another one had made the slot.
    """

    slot: str
    table: int
    taken: bool = False


def read_claim(here: Surroundings) -> Claim | None:
    """The note of this run about its slot; None if it has not begun to make one. Raises RidgelineError."""
    files = checkpoint_files(here.parent)
    path = f"{files.root}/{_CLAIM}"
    data = files.read(path).to_pybytes() if files.is_file(path) else None
    try:
        claim = None if data is None else Claim(**checked(_CLAIM, data))
    except (ValueError, TypeError) as error:
        raise RidgelineError(
            f"`{here.parent}/{_CLAIM}` is damaged ({error}); restore the checkpoint from a copy"
        ) from None
    return claim if claim is not None and claim.slot == here.slot else None


def write_claim(here: Surroundings, *, taken: bool) -> None:
    """Note which slot and table are this run's, before the slot is made. Raises OSError."""
    data = seal(_CLAIM, Claim(here.slot, here.found.relation.oid, taken)._asdict())
    files = checkpoint_files(here.parent)
    files.make_folder(files.root)
    files.sync_above(files.root)
    path = f"{files.root}/{_CLAIM}"
    with files.writing(f"{path}.part") as out:
        out.write(data)
    files.move(f"{path}.part", path)
    files.sync(files.root)


def new_place(lsn: int) -> Place:
    """The place before the first change, in a new folder."""
    return Place(0, new_name(), lsn)
