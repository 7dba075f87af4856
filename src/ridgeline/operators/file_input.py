"""Read files as they come: text, CSV, JSON lines, Parquet, Arrow, Avro."""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar

from pydantic import Field

from ridgeline.api.columns.struct_types import SchemaType
from ridgeline.api.support.duration import Duration, parse_duration
from ridgeline.api.support.files import has_query
from ridgeline.connect._enumerating import begin_of
from ridgeline.connect.datasets import AtPath
from ridgeline.connect.partitioned_input import PartitionedInput
from ridgeline.connect.source import Source
from ridgeline.operators._shaped import GivenSchema, T
from ridgeline.operators.files._file_reader import UNKNOWN, FileReader, Format, OpenFiles, format_of
from ridgeline.operators.files._file_source import FileSource
from ridgeline.operators.files._listing import entries_of
from ridgeline.operators.files._parsers import schema_faults


class FileInput(AtPath, GivenSchema, PartitionedInput[T]):
    r"""Emit the rows of files as they come: each file once, its rows in order.

    `path` is a file, a folder (the files in it), a pattern (`in/clicks-*.jsonl.gz`) or a list of them. Each
    is a path (relative: to the folder in which the command runs) or a URI that pyarrow knows. They may come
    in any order, and under any name. Files that are there together are read by their time, then name. Without
    `until` it waits for more, for ever; `until="end"` ends once all files are read that are there when it
    starts.

    `schema` is the rows' type. `format` is `text`, `csv`, `jsonl`, `parquet`, `arrow` (IPC file or stream),
    or `avro`. Without it the name of each file says it, such as `.jsonl.gz`. `FileReplayInput` has the first
    four formats, and says what each may hold. Files ending in `.gz`, `.bz2`, `.zst` and `.lz4` are
    decompressed. A gzip file may have several members.

    - Names that begin with `.` or `_`, or end with `.tmp`, `.part` or another ending of temporary files, are
      passed over. A file is read once it was not changed for `settle`;
    - a file that is changed after it was read is not read again, and a warning names it;
    - `begin="latest"` passes over files that are there when a fresh run starts. A time passes over those that
      were changed before it;
    - with `on_error=SKIP` a line that cannot be read is left out and becomes a dead letter, with file and
      line. So is the rest of a file that is corrupt, and a file that was removed before it was read;
    - an optional column that a file lacks is null, unless the file has one of a similar name.

    The checkpoint keeps which files were read, 16 bytes each. `lateness` is that of records of one file:
    files that are read at the same time hold the watermark back.

    Example:
        >>> import tempfile
        >>> from pathlib import Path
        >>> from typing import NamedTuple
        >>> from ridgeline import Application
        >>> from ridgeline.operators import FileInput
        >>> from ridgeline.testing import CollectorSink, run_local
        >>> class Price(NamedTuple):
        ...     symbol: str
        ...     price: float
        >>> folder = tempfile.TemporaryDirectory()
        >>> size = Path(folder.name, "monday.csv").write_text("price,symbol\n12.3,IBM\n101.25,SAP\n")
        >>> app = Application("prices")
        >>> prices = app.add_operator("prices", FileInput(f"{folder.name}/*.csv", Price, until="end"))
        >>> sink = app.add_operator("sink", CollectorSink(Price))
        >>> app.add_stream("prices", prices.output, sink.input)
        >>> run_local(app).collected("sink")
        [Price(symbol='IBM', price=12.3), Price(symbol='SAP', price=101.25)]
        >>> folder.cleanup()
    """

    progress_unit = "bytes"
    waits_for_unread: ClassVar[bool] = False
    needs_until: ClassVar[bool] = True

    path: str | Path | list[str | Path]
    schema: SchemaType[T]
    format: Format | None = None
    settle: Duration = Field(default=1.0, kw_only=True)
    delimiter: str = Field(default=",", min_length=1, max_length=1, kw_only=True)
    null_values: list[str] = Field(default=["", "NA"], kw_only=True)
    discover_every: Duration = Field(default=1.0, kw_only=True)
    window_bytes: int = Field(default=64 * 2**20, gt=0, kw_only=True)

    def property_faults(self) -> list[tuple[str, object, str]]:
        """Refuse files of no known format, a schema that the format cannot hold, and tails that cannot be."""
        faults = super().property_faults()
        if not self.path:
            faults.append(("path", self.path, "must name a file, a folder or a pattern"))
        if isinstance(self.begin, dict):
            faults.append(("begin", self.begin, 'must be "earliest", "latest" or a time'))
        formats = self._formats()
        if self.format is None and None in formats:
            faults.append(("path", self.path, UNKNOWN))
        return faults + schema_faults(self, formats)

    def source(self) -> Source:
        """The half that lists files."""
        begin = begin_of(self.begin)
        assert not isinstance(begin, dict)  # noqa: S101  it was refused
        every = parse_duration(self.discover_every)
        return FileSource(entries_of(self.path), begin, self.until, parse_duration(self.settle), every)

    def reader(self) -> FileReader:
        """The half that reads files."""
        return FileReader(entries_of(self.path), OpenFiles(self.format, self.delimiter, self.null_values))

    def _formats(self) -> set[Format | None]:
        """The formats that the names of files and patterns say; that of a folder is not known yet."""
        if self.format is not None:
            return {self.format}
        entries = [one.partition("?")[0] if has_query(one) else one for one in entries_of(self.path)]
        names = [entry for entry in entries if "." in entry.rpartition("/")[2]]
        return {format_of(name) for name in names}
