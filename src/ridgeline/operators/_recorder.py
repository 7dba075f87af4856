"""Records a stream of a running application: an output that a live change inserts, as it does queries."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any, ClassVar
from urllib.parse import quote

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pydantic import Field

from ridgeline.api.columns.schema import holds_pickles
from ridgeline.api.context import OperatorContext
from ridgeline.api.errors import RidgelineError, capped, described, shorten
from ridgeline.api.operator import Operator
from ridgeline.api.ports import InputPort
from ridgeline.api.publisher import Publisher, PublisherContext
from ridgeline.api.support.masking import MASK, mask, mask_text, masked_and_shortened, printable
from ridgeline.api.support.pickling import loads
from ridgeline.api.support.secret_names import is_secret
from ridgeline.connect.output_files import OutputFiles, checkpoint_files
from ridgeline.operators._json import whole

FOLDER = "recordings"
ENDED = ".ended.json"
"""After the name of a recorded port: the file that says what it holds, once it has ended."""
_STAGED = "staged"
_TEXT_LIMIT = 1_000
_SUSPECT = r"(?i)[:=<]|--|bearer|basic|password|identified|authorization|cookie|-----|[\w-]{14}"
"""What a text has in which `mask_text` finds something; most texts have none of it."""


class Recorder(Operator):
    """Record the tuples of one port in files of Parquet, in the checkpoint's folder `recordings`.

    `recording`: the id, which it shares with those of other ports. `of`, `port`: the operator and its port
    whose stream this is. `by`: who asked. It ends after `windows` windows, and before one with which it would
    have more than `limit_bytes`; then it leaves the plan. What cannot be recorded ends the recording, and
    never fails a window. `handle.start_recording()` and `ridgeline record` insert it.
    """

    leaves_with_streams: ClassVar[bool] = True

    input = InputPort(Any, optional=True, parallel=True)

    recording: str
    of: str
    port: str
    by: str = ""
    windows: int = Field(default=1_000, ge=1)
    limit_bytes: int = Field(default=64 * 2**20, ge=1)

    def setup(self, context: OperatorContext) -> None:
        """Make what holds the batches of a window."""
        self._batches: list[pa.RecordBatch] = []

    def begin_window(self, window_id: int) -> None:
        """Forget what a failed attempt has left."""
        self._batches.clear()

    @input.process_batch
    def take(self, batch: pa.RecordBatch) -> None:
        """Keep a batch until the window ends."""
        if batch.num_rows:
            self._batches.append(batch)

    def end_window(self) -> None:
        """Hand the window's tuples over as a file, or why there is none."""
        window_id, partition = self.context.window_id, self.context.partition
        count = sum(batch.num_rows for batch in self._batches)
        if count:
            try:
                data, why = file_of(window_id, partition, self._batches), ""
            except Exception as error:  # noqa: BLE001  a recording must not fail what it records
                data, why = b"", f"window {window_id} could not be recorded: {capped(described(error))}"
            if len(data) > self.limit_bytes:  # no report needs to carry it
                data, why = b"", f"it would exceed {self.limit_bytes:,} bytes in window {window_id}"
            self.context.hand_over((partition, count, data, why))
            self._batches.clear()

    def publisher(self) -> RecordedTuples:
        """The driver's half."""
        return RecordedTuples(self)


class RecordedTuples(Publisher):
    """The files of a recorded port, on the driver. `row`: the recording as it is shown, JSON values.

    Files lie in `recordings/staged` until their window is committed; the publisher's state names them.
    """

    groups_windows = True
    lasting = False

    def __init__(self, recorder: Recorder) -> None:
        self._limit = recorder.limit_bytes
        self._windows = recorder.windows
        self.row: dict[str, Any] = {
            "id": recorder.recording,
            "operator": recorder.of,
            "ports": [recorder.port],
            "reason": "",
            "by": recorder.by,
            "windows": 0,
            "tuples": 0,
            "bytes": 0,
        }
        self._staged: list[list[Any]] = []
        """Of each file that waits for its commit: window, partition, tuples, bytes, name."""
        self._files: OutputFiles
        self._folder = f"{recorder.recording}/{quote(recorder.port, safe='')}"
        self._tag = ""
        self._check_owner: Callable[[], None]
        self._committed = -1

    def open(self, context: PublisherContext, state: Any) -> None:
        """Go on with what the last commit has."""
        uri = f"{context.staging.removesuffix('/staging')}/{FOLDER}"
        self._files, self._tag = checkpoint_files(uri), f"{context.operator}-e{context.epoch}"
        first, self._committed = context.committed + 1, context.committed
        self._check_owner = context.check_owner
        self.row |= {
            "startTime": context.clock.wall(),
            "firstWindow": first,
            "endWindow": first + self._windows,
        }
        self.row["folder"] = f"{uri}/{self.row['id']}"
        if state is not None:
            self.row |= state["row"]
            self._staged = list(state["staged"])
        self._check_owner()
        staged, kept = f"{self._files.root}/{_STAGED}", {one[4] for one in self._staged}
        try:
            for folder in (staged, f"{self._files.root}/{self._folder}"):
                self._files.make_folder(folder)
            for name in self._files.names(staged):
                if f"-{context.operator}-e" in name and name not in kept:  # of a window without a commit
                    self._files.delete(f"{staged}/{name}")
        except (OSError, RidgelineError) as error:
            self._end(described(error), first)

    def stage(self, window_id: int, values: Sequence[Any]) -> Any:
        """Write the files of a window where no reader looks; what cannot be written ends the recording."""
        self._staged = [one for one in self._staged if one[0] < window_id]  # a window may be staged again
        if not self.row["reason"] and window_id < self.row["endWindow"] and values:
            size = sum(len(data) for _, _, data, _ in values)
            waiting = sum(one[3] for one in self._staged)
            if why := next((why for *_, why in values if why), ""):
                self._end(why, window_id)
            elif self.row["bytes"] + waiting + size > self._limit:
                self._end(f"it would exceed {self._limit:,} bytes in window {window_id}", window_id)
            else:
                try:
                    self._staged += [self._written(window_id, *value[:3]) for value in values]
                except (OSError, RidgelineError) as error:
                    self._end(f"window {window_id} could not be written: {described(error)}", window_id)
        return {"row": self.row, "staged": self._staged}

    def _written(self, window_id: int, partition: int, tuples: int, data: bytes) -> list[Any]:
        """Write a file; what `_staged` has of it. Raises OSError."""
        name = f"w{window_id:010d}-p{partition}-{self._tag}"
        with self._files.writing(f"{self._files.root}/{_STAGED}/{name}") as out:
            out.write(data)
        return [window_id, partition, tuples, len(data), name]

    def publish(self, window_id: int) -> None:
        """Give the files of committed windows their names. What cannot be done now is tried again."""
        root = self._files.root
        if self._staged:
            self._check_owner()
        try:
            while self._staged and self._staged[0][0] <= window_id:
                window, partition, tuples, size, name = self._staged[0]
                target = f"{root}/{self._folder}/w{window:010d}-p{partition}.parquet"
                if self._files.is_file(f"{root}/{_STAGED}/{name}"):  # else a driver before has done it
                    self._files.move(f"{root}/{_STAGED}/{name}", target)
                del self._staged[0]
                self.row["windows"] += not any(one[0] == window for one in self._staged)
                self.row["tuples"] += tuples
                self.row["bytes"] += size
        except (OSError, RidgelineError):
            return
        self._committed = window_id

    def _end(self, reason: str, window_id: int) -> None:
        """End the recording before a window."""
        self.row |= {"reason": reason, "endWindow": window_id}

    @property
    def over(self) -> str | None:
        """Why the recording leaves the plan, once all of its files are there."""
        done = not self._staged and self._committed + 1 >= self.row["endWindow"]
        return (self.row["reason"] or f"it has {self._windows:,} windows") if done else None

    def rewind(self, window_id: int, state: Any, at: int) -> Any:
        """Take nothing back: recordings are no results."""
        return state

    def close(self) -> None:
        """Say what it holds: it has ended, or goes on with the next run."""
        path = f"{self._files.root}/{self._folder.replace('/', '.')}{ENDED}"
        last = {"state": "ENDED", "endWindow": min(self.row["endWindow"], self._committed + 1)}
        with suppress(OSError, RidgelineError), self._files.writing(path) as out:
            out.write(json.dumps(self.row | last).encode())


def file_of(window_id: int, partition: int, batches: Sequence[pa.RecordBatch]) -> bytes:
    """A file with all tuples. Columns of Arrow that Parquet does not have become texts."""
    columns: dict[str, Any] = {}
    table = pa.concat_tables(map(_table, batches))
    count = table.num_rows
    marks = {
        "window": pa.repeat(pa.scalar(window_id, pa.int64()), count),
        "partition": pa.repeat(pa.scalar(partition, pa.int32()), count),
        "position": pa.array(range(count), pa.int64()),
    }
    for name, values in marks.items():
        mark = f"_{name}"
        while mark in table.column_names:
            mark = f"_{mark}"
        columns[mark] = values
    columns |= {name: _masked(name, whole(table.column(name))) for name in table.column_names}
    try:
        return _parquet(columns)
    except pa.ArrowException:
        return _parquet({name: _writable(values) for name, values in columns.items()})


def _table(batch: pa.RecordBatch) -> pa.Table:
    if holds_pickles(batch):
        rows = map(loads, batch.column(0).to_pylist())
        texts = [printable(masked_and_shortened(row, _TEXT_LIMIT)) for row in rows]
        return pa.table({"tuple": pa.array(texts, pa.string())})
    return pa.Table.from_batches([batch]).replace_schema_metadata(None)


def _parquet(columns: Mapping[str, Any]) -> bytes:
    sink = pa.BufferOutputStream()
    pq.write_table(pa.table(dict(columns)), sink, compression="zstd")
    return bytes(sink.getvalue().to_pybytes())


def _writable(values: Any) -> Any:
    """The column, or its values as texts where Parquet has no such type."""
    try:
        _parquet({"column": values})
    except pa.ArrowException:
        return pa.array([None if value is None else shorten(value) for value in values.to_pylist()])
    return values


def _masked(name: str, values: Any) -> Any:
    """A column without secrets: all of its values if its name is a secret's, else those in its texts."""
    kind = values.type
    if is_secret(name) and not pa.types.is_boolean(kind):
        return pc.if_else(pc.is_valid(values), pa.scalar(MASK), pa.scalar(None, pa.string()))
    if pa.types.is_struct(kind) and kind.num_fields:  # by columns: times and decimals stay what they are
        fields = [kind.field(number) for number in range(kind.num_fields)]
        inner = [_masked(field.name, part) for field, part in zip(fields, values.flatten(), strict=True)]
        names = [field.name for field in fields]
        return pa.StructArray.from_arrays(inner, names, mask=pc.is_null(values))
    if pa.types.is_nested(kind):
        masked = [mask(name, value) for value in values.to_pylist()]
        try:
            return pa.array(masked, kind)
        except (pa.ArrowException, TypeError, ValueError):
            return pa.array([None if value is None else shorten(value, _TEXT_LIMIT) for value in masked])
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        suspect = pc.fill_null(pc.match_substring_regex(values, _SUSPECT), fill_value=False)
        if pc.any(suspect).as_py():
            texts = [mask_text(text) for text in values.filter(suspect).to_pylist()]
            return pc.replace_with_mask(values, suspect, pa.array(texts, kind))
    return values
