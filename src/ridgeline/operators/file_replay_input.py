"""Replay files: text, CSV, JSON lines, Parquet."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple

from pydantic import Field
from typing_extensions import TypeVar

from ridgeline.api.attributes import OnError
from ridgeline.api.columns.struct_types import SchemaType
from ridgeline.api.context import OperatorContext
from ridgeline.api.errors import RidgelineError
from ridgeline.api.operator import InputOperator
from ridgeline.api.ports import OutputPort
from ridgeline.api.state import State
from ridgeline.api.support.emitting import Emits
from ridgeline.api.support.event_time import EventTime
from ridgeline.connect.datasets import AtPath
from ridgeline.operators._shaped import GivenSchema
from ridgeline.operators.files._file_reader import OpenFiles, Reader
from ridgeline.operators.files._listing import InputFile, entries_of, find_files
from ridgeline.operators.files._parsers import schema_faults

T = TypeVar("T", default=Any)
FREE_ROWS = 65_536
"""Rows a window, over all partitions, as fast as possible."""
MOST_ROWS = 2**20
"""Most rows a window, over all partitions, where the clock sets the pace; the others follow later."""
PAUSE_SECONDS = 10.0
"""A delay up to this is made up for. A longer one counts as a pause: no rows become due for it."""
_MAKING_UP = 2.0
"""The factor by which a window may exceed the pace while it makes up for a delay."""


class Position(NamedTuple):
    """Where the next row is.

    `file`: number of the file; `place`: byte offset in it, or row number for Parquet. `row`: rows passed in
    all files; `lines`: lines before it in this file, 0 for Parquet. `passed`: the bytes of the files before.
    """

    file: int = 0
    place: int = 0
    row: int = 0
    lines: int = 0
    passed: int = 0


class Pace(NamedTuple):
    """The rows that are due: at the time `wall`, `due` rows.

    `owed`: seconds of the clock for which no rows have become due yet; the next windows catch up on them.
    """

    wall: float | None = None
    due: float = 0.0
    owed: float = 0.0


class FileReplayInput(AtPath, GivenSchema, EventTime, InputOperator, Emits[T]):
    r"""Emit the rows of files in order; finish in the window that emits the last row.

    `path` is a file, a folder (the files in it), a pattern (`data/*.csv`) or a list of them. Each is a path
    (relative: to the folder in which the command runs) or a URI that pyarrow knows. The list of files is made
    in the first window; the files must not change until the end.

    `schema` is the rows' type, `format` that of the files:

    - `text`: each line is a row of the schema's one column, a `str`. Files ending in `.gz`, `.bz2`, `.zst`
      and `.lz4` are decompressed, also with the next two formats;
    - `csv`: with a header. Columns are found by name, others are ignored. `delimiter` separates values.
      Unquoted `null_values` are null, except in text columns that are not optional: there they stay text. A
      quoted value may have line ends in it. A line with a quote that is not closed cannot be read;
    - `jsonl`: one JSON object a line, types as `FileOutput` writes them; an optional field that is missing is
      null;
    - `parquet`: columns by name, cast where every value stays equal.

    Data that do not fit the schema stop the application with an error that names file, line and field. Such
    data are text that is not UTF-8, a number out of range, a null where the type is not a union with None. So
    does a column that is doubled, or missing and not optional, and a file whose size has changed since the
    first window. An optional column that a file lacks is null, unless it has one of a similar name. With
    `jsonl` the first 256 KiB of a file are searched for a misspelt name of an optional field.

    With `on_error=SKIP` such a line, or row of Parquet, is left out. It counts as an error of the window, and
    becomes a dead letter with file, line and reason. A fault of a whole file still ends the application.

    Of folders and patterns some files are passed over: names that begin with `.` or `_`, or end with `.tmp`,
    `.part` or the like. A pattern that begins or ends so itself (`data/_*.csv`) and
    a path that names the file take them. `data/**/*.csv` reads files at any depth. A link whose file is not
    there is refused.

    A time without a zone is UTC. `timestamp` names the column that holds the records' times, a `datetime`.
    `lateness` ("5s", or seconds) promises that no record is older by more than the newest before it in its
    partition: watermarks follow from it. A partition without a record for `idle_after` holds no watermark up.

    One of these may set the pace; without any, 65,536 rows a window are emitted as fast as possible:

    - `rows_per_window`: this number of rows a window, over all partitions;
    - `rows_per_second`: rows become due by the clock.

    A window emits at most twice the rows that its width makes due. After slow windows the pace is doubled
    until the delay is made up for; of a longer pause only the last 10 s are. No window emits more than
    1,048,576 rows. Row i of all files belongs to partition i mod n, or with `rows_in_turn` r to partition
    (i div r) mod n. Every partition reads all files; of lines it parses only its own. Of Parquet files it
    decodes only row groups with rows of its own. So partitions share that work if each takes as many rows in
    turn as a row group has.

    Example:
        >>> import tempfile
        >>> from pathlib import Path
        >>> from typing import NamedTuple
        >>> from ridgeline import Application
        >>> from ridgeline.operators import FileReplayInput
        >>> from ridgeline.testing import CollectorSink, run_local
        >>> class Price(NamedTuple):
        ...     symbol: str
        ...     price: float
        >>> folder = tempfile.TemporaryDirectory()
        >>> file = Path(folder.name, "prices.csv")
        >>> size = file.write_text("price,symbol,exchange\n12.3,IBM,NYSE\n101.25,SAP,XETRA\n")
        >>> app = Application("prices")
        >>> prices = app.add_operator("prices", FileReplayInput(path=file, format="csv", schema=Price))
        >>> sink = app.add_operator("sink", CollectorSink(Price))
        >>> app.add_stream("prices", prices.output, sink.input)
        >>> run_local(app).collected("sink")
        [Price(symbol='IBM', price=12.3), Price(symbol='SAP', price=101.25)]
        >>> folder.cleanup()
    """

    progress_unit = "bytes"
    leaves_out_records = True
    output = OutputPort[T](Any)

    path: str | Path | list[str | Path]
    schema: SchemaType[T]
    format: Literal["text", "csv", "jsonl", "parquet"] = "text"
    rows_per_window: int | None = Field(default=None, gt=0)
    rows_per_second: float | None = Field(default=None, gt=0)
    rows_in_turn: int = Field(default=1, gt=0)
    delimiter: str = Field(default=",", min_length=1, max_length=1)
    null_values: list[str] = Field(default=["", "NA"])

    files = State[tuple[InputFile, ...]]((), moves="same")
    size = State(0, moves="same")
    """The bytes of all files."""
    position = State(Position(), moves="same")
    pace = State(Pace(), moves="same")

    def property_faults(self) -> list[tuple[str, object, str]]:
        """Refuse more than one pace, and a schema that the format cannot hold."""
        faults = super().property_faults()
        if self.rows_per_window is not None and self.rows_per_second is not None:
            rule = "sets the pace together with `rows_per_window`; give one of them"
            faults.append(("rows_per_second", self.rows_per_second, rule))
        if not self.path:
            faults.append(("path", self.path, "must name a file, a folder or a pattern"))
        return faults + schema_faults(self, [self.format])

    def setup(self, context: OperatorContext) -> None:
        """Files are opened when rows are read."""
        self._open = OpenFiles(self.format, self.delimiter, self.null_values)
        self._skips = context.attributes.get("on_error") is OnError.SKIP

    def teardown(self) -> None:
        """Close the file that is open."""
        self._open.close_all()

    def emit_tuples(self) -> None:
        """Emit this partition's share of the rows that are due.

        Raises RidgelineError naming the file and the line that cannot be read.
        """
        files = self.files  # once a window: a state is looked through whenever it is read
        if not files:
            files = self.files = tuple(find_files(entries_of(self.path)))
            self.size = sum(one.bytes for one in files)
        self._emit_rows(files, self._rows_due())
        if self._peek(files, 1) is None:
            self.finish()

    def progress(self) -> tuple[float, float | None] | None:
        """Bytes of the files, this partition's share of them."""
        passed, of = self.position.passed + self._open.passed, self.context.partitions
        return passed / of, max(0.0, self.size - passed) / of

    def unreachable(self, states: Mapping[str, Any]) -> str:
        """The file that is gone or has another size, of those that were not read to their end."""
        try:
            for one in states["files"][states["position"].file :]:
                one.check_size()
        except RidgelineError as error:
            return str(error)
        return ""

    def is_paced(self) -> bool:
        """True if rows are due by the clock or by windows."""
        return self.rows_per_window is not None or self.rows_per_second is not None

    def _emit_rows(self, files: Sequence[InputFile], rows: int) -> None:
        """Emit this partition's rows among the next `rows` rows of the files."""
        turn, of, partition = self.rows_in_turn, self.context.partitions, self.context.partition
        while rows > 0:
            row = self.position.row
            found = self._peek(files, min(rows, turn - row % turn) if turn > 1 and of > 1 else rows)
            if found is None:
                return
            reader, count = found
            if turn == 1:
                self._emit(reader, count, (partition - row) % of, of)
            elif row // turn % of == partition:
                self._emit(reader, count, 0, 1)
            reader.skip(count)
            self.position = self.position._replace(place=reader.place, row=row + count, lines=reader.lines)
            rows -= count

    def _peek(self, files: Sequence[InputFile], rows: int) -> tuple[Reader, int] | None:
        """The file with the next rows, and how many follow in it, at most `rows`; None if no row is left.

        Raises RidgelineError.
        """
        while self.position.file < len(files):
            at = self.position
            reader = self._open.at(files[at.file], at.place, at.lines, self.output.schema)
            if count := reader.peek(rows):
                if reader.place != at.place:  # it has a header
                    self.position = at._replace(place=reader.place, lines=reader.lines)
                return reader, count
            self._open.close(reader.file)
            self.position = Position(at.file + 1, row=at.row, passed=at.passed + reader.file.bytes)
        return None

    def _emit(self, reader: Reader, rows: int, first: int, step: int) -> None:
        """Emit every `step`-th of the next rows; with `on_error=SKIP` those that can be read."""
        sifted = reader.sift(rows, first, step, strict=not self._skips)
        for batch in sifted.batches:
            self.output.emit_batch(batch)
        for one in sifted.unread:
            self.context.leave_out(one.text, one.error)

    def _rows_due(self) -> int:
        if self.rows_per_window is not None:
            return self.rows_per_window
        due = FREE_ROWS
        if self.rows_per_second is not None:
            due = min(MOST_ROWS, int(self._tick(self.rows_per_second).due + 1e-6) - self.position.row)
        return int(min(due, self.context.engine.ask_budget()))

    def _tick(self, rate: float) -> Pace:
        """Advance the pace to the clock's time: `rate` rows become due a second."""
        now, before = self.context.window_time_microseconds / 1_000_000, self.pace
        if before.wall is None:  # another pace may have been set before
            self.pace = Pace(now, float(self.position.row))
        else:
            owed = min(PAUSE_SECONDS, before.owed + max(0.0, now - before.wall))
            step = min(owed, _MAKING_UP * self.context.window_seconds)
            self.pace = Pace(now, before.due + step * rate, owed - step)
        return self.pace
