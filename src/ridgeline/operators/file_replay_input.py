"""Replay files: text, CSV, JSON lines, Parquet."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pydantic import Field

from ridgeline.api.cache import Cache
from ridgeline.api.context import OperatorContext
from ridgeline.api.errors import SchemaError
from ridgeline.api.files import is_local, local_path
from ridgeline.api.operator import InputOperator
from ridgeline.api.ports import OutputPort
from ridgeline.api.state import State
from ridgeline.operators._replay_cursor import ReplayCursor
from ridgeline.operators._replay_files import Position, Reader, ReplayFile, dump_files, find_files, load_files
from ridgeline.operators._replay_lines import LineParser, LineReader
from ridgeline.operators._replay_parquet import ParquetReader
from ridgeline.operators._replay_parsers import CsvParser, JsonParser, TextParser, csv_reads

FREE_ROWS = 65_536
"""Rows a window, over all partitions, as fast as possible."""
MOST_ROWS = 2**20
"""Rows a window at most, over all partitions, when a clock says how many; the others are due in the next window."""
PAUSE_SECONDS = 10.0
"""So much time that a pace is behind the clock is made up for; what is beyond is a pause, for which no rows become due."""
_MAKING_UP = 2.0
"""How many times the pace that was set a window keeps at most while it makes up for a pause."""
_LOOK_AHEAD_ROWS = 8_192


class Pace(NamedTuple):
    """What the clock has made due: at wall clock time `wall`, `due` rows, or seconds of event time since `first` (µs since 1970).

    `owed`: seconds that have passed and that windows to come make rows due for.
    """

    wall: float | None = None
    due: float = 0.0
    first: int | None = None
    owed: float = 0.0


class FileReplayInput(InputOperator):
    """Emit the rows of files, in order, and finish in the window in which the last one goes out.

    `path` is a file, a folder (the files in it), a pattern (`data/*.csv`) or a list of them: paths (relative:
    to the folder in which the command runs) or URIs that pyarrow knows. Which files these are is settled in
    the first window; they must not change until the end.

    `schema` is the rows' type, `format` that of the files:

    - `text`: each line is a row of the schema's one column, a `str`; `.gz`, `.bz2`, `.zst` and `.lz4` are
      unpacked, as in the next two;
    - `csv`: with a header; columns by name, others are passed over; separated by `delimiter`; `null_values`
      without quotes are null, but in a column of text that cannot be null they are text. A quoted value
      cannot go over the end of a line;
    - `jsonl`: one JSON object a line, types as `FileOutput` writes them; an optional field that is missing is
      null;
    - `parquet`: columns by name, cast where every value stays equal.

    What does not fit the schema stops the application with an error that names file, line and field: text
    that is not UTF-8, a number out of range, a null where the type is not a union with None. So does a column
    that is missing or doubled, and a file that has another size than in the first window. Of `jsonl` the
    first 256 KiB of a file tell whether the name of an optional field is misspelt.

    A time without a zone is UTC. `timestamp` names the column that holds the records' times, a `datetime`. At
    most one of these sets the pace; with none it is as fast as possible, 65,536 rows a window:

    - `rows_per_window`: so many rows a window, over all partitions;
    - `rows_per_second`: as many rows as the clock makes due;
    - `event_time`, a column: rows are due as long after the first one as their times are, `speed_up` times
      faster; a row never overtakes another.

    A window takes at most twice the rows that its width makes due: after a pause or slow windows the pace is
    doubled until it has made up for them, for 10 s of them at most. No window takes more than 1,048,576 rows.
    Row i of all files belongs to partition i mod n. Every partition reads the files; of lines it parses only
    its own, unless `event_time` is set.
    """

    progress_unit = "bytes"
    output = OutputPort(Any)

    path: str | Path | list[str | Path]
    schema: Any
    format: Literal["text", "csv", "jsonl", "parquet"] = "text"
    rows_per_window: int | None = Field(default=None, gt=0)
    rows_per_second: float | None = Field(default=None, gt=0)
    event_time: str | None = None
    speed_up: float = Field(default=1.0, gt=0)
    delimiter: str = Field(default=",", min_length=1, max_length=1)
    null_values: list[str] = Field(default=["", "NA"])
    timestamp: str | None = None

    files = State("")
    position = State(Position())
    pace = State(Pace())
    known: Cache[dict[str, list[ReplayFile]]] = Cache(dict)  # files by their text

    def __init__(self, **properties: Any) -> None:
        super().__init__(**properties)
        if "schema" in properties:
            self.declare_schema("output", properties["schema"])

    def property_faults(self) -> list[tuple[str, Any, str]]:
        """At most one pace, and a schema that the format can hold."""
        faults: list[tuple[str, Any, str]] = []
        paces = [
            name
            for name in ("rows_per_window", "rows_per_second", "event_time")
            if getattr(self, name) is not None
        ]
        if len(paces) > 1:
            others = " and ".join(f"`{name}`" for name in paces[:-1])
            faults.append(
                (
                    paces[-1],
                    getattr(self, paces[-1]),
                    f"sets the pace together with {others}; give one of them",
                )
            )
        if self.speed_up != 1.0 and self.event_time is None:
            faults.append(("speed_up", self.speed_up, "needs `event_time`, the column with the rows' times"))
        if not self.path:
            faults.append(("path", self.path, "must name a file, a folder or a pattern"))
        try:
            schema = self.port_schema("output")
        except SchemaError:
            return faults  # told of the port
        if schema is None or schema.pickled:
            return [
                *faults,
                ("schema", self.schema, "must have columns: a NamedTuple, a dataclass or a `pyarrow.Schema`"),
            ]
        fields = list(schema.arrow)
        if self.format == "text" and not (
            len(fields) == 1
            and (pa.types.is_string(fields[0].type) or pa.types.is_large_string(fields[0].type))
        ):
            faults.append(("schema", schema.describe(), "must have one column, a `str`, for `format` text"))
        if self.format == "csv":
            nested = [field for field in fields if not csv_reads(field.type)]
            faults += [
                (
                    "schema",
                    f"{field.name}: {field.type}",
                    "is a column that CSV cannot hold; use another `format`",
                )
                for field in nested
            ]
        if self.event_time is not None:
            index = schema.arrow.get_field_index(self.event_time)
            if index < 0 or not (
                pa.types.is_timestamp(fields[index].type) or pa.types.is_date(fields[index].type)
            ):
                faults.append(
                    (
                        "event_time",
                        self.event_time,
                        "must be a column of the schema with a `datetime` or `date`",
                    )
                )
        return faults

    def timestamp_of(self, port: str) -> str | None:
        """The column that `timestamp` names."""
        return self.timestamp

    def settle_properties(self) -> None:
        """Make relative paths absolute."""
        entries = self.path if isinstance(self.path, list) else [self.path]
        self.path = [local_path(str(entry)) if is_local(str(entry)) else str(entry) for entry in entries]

    def setup(self, context: OperatorContext) -> None:
        """Nothing is open yet."""
        self._cursor = ReplayCursor(self._open)

    def teardown(self) -> None:
        """Close the file that is open."""
        self._cursor.close()

    def emit_tuples(self) -> None:
        """Emit this partition's share of the rows that are due.

        Raises RidgelineError naming the file and the line that cannot be read.
        """
        if not self.files:
            entries = self.path if isinstance(self.path, list) else [self.path]
            self.files = dump_files(find_files([str(entry) for entry in entries]))
        text = self.files
        if text not in self.known:
            self.known[text] = load_files(text)
        cursor = self._cursor
        cursor.move(self.known[text], self.position)
        if self.event_time is not None:
            self._emit_until(self._time_due())
        else:
            self._emit_rows(self._rows_due())
        if cursor.at_end:
            self.finish()
        self.position = cursor.position

    def progress(self) -> tuple[float, float | None] | None:
        """Bytes of the files, this partition's share of them."""
        passed, left = self._cursor.progress()
        return passed / self.context.partitions, left / self.context.partitions

    def _emit_rows(self, rows: int) -> None:
        while rows > 0 and (chunk := self._cursor.peek(rows)) is not None:
            self.output.emit_batch(chunk.read(self._first_own(), self.context.partitions))
            self._cursor.advance(len(chunk))
            rows -= len(chunk)

    def _emit_until(self, due_seconds: float) -> None:
        rows = MOST_ROWS
        while rows > 0 and (batch := self._cursor.peek_parsed(_LOOK_AHEAD_ROWS)) is not None:
            times = _microseconds(batch.column(batch.schema.get_field_index(str(self.event_time))))
            if self.pace.first is None and times.null_count < len(times):
                self.pace = self.pace._replace(first=times.drop_null()[0].as_py())
            due = len(batch)
            if self.pace.first is not None:
                later = pc.greater(times, min(2**62, self.pace.first + round(due_seconds * 1e6))).fill_null(
                    False  # noqa: FBT003  a value
                )
                due = later.index(True).as_py() if pc.any(later, min_count=0).as_py() else due
            own = batch.slice(0, due)
            if self.context.partitions > 1:
                own = own.take(pa.array(np.arange(self._first_own(), due, self.context.partitions)))
            self.output.emit_batch(own)
            if due:
                self._cursor.advance(due)
            rows -= due
            if due < len(batch):
                return

    def _first_own(self) -> int:
        """The first of the rows that come next which is this partition's."""
        return (self.context.partition - self._cursor.position.row) % self.context.partitions

    def _rows_due(self) -> int:
        if self.rows_per_second is None:
            return self.rows_per_window or FREE_ROWS
        due = self._tick(self.rows_per_second).due
        return min(MOST_ROWS, int(due + 1e-6) - self.position.row)

    def _time_due(self) -> float:
        return self._tick(self.speed_up).due

    def _tick(self, rate: float) -> Pace:
        """Let what is due grow with the clock."""
        now, before = self.context.clock.wall(), self.pace
        if before.wall is None:  # another pace may have been set before
            self.pace = Pace(now, 0.0 if self.event_time is not None else float(self.position.row))
        else:
            owed = min(PAUSE_SECONDS, before.owed + max(0.0, now - before.wall))
            step = min(owed, _MAKING_UP * self.context.window_seconds)
            self.pace = before._replace(wall=now, due=before.due + step * rate, owed=owed - step)
        return self.pace

    def _open(self, file: ReplayFile, place: int) -> Reader:
        schema = self.port_schema("output")
        if schema is None:
            message = "property `schema` was not given; pass `schema=...`"
            raise SchemaError(message)
        if self.format == "parquet":
            return ParquetReader(file, schema, place)
        parser: LineParser
        if self.format == "csv":
            parser = CsvParser(schema, self.delimiter, self.null_values)
        else:
            parser = TextParser(schema) if self.format == "text" else JsonParser(schema)
        return LineReader(file, parser, place)


def _microseconds(times: pa.Array) -> pa.Array:
    """Timestamps or dates as microseconds since 1970."""
    kind = times.type
    return times.cast(pa.timestamp("us", kind.tz if pa.types.is_timestamp(kind) else None), safe=False).cast(
        pa.int64()
    )
