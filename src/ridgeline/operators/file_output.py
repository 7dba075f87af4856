"""Write Parquet or JSON lines files, exactly once."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Literal
from urllib.parse import quote

import numpy as np
import pyarrow as pa
import pyarrow.fs
import pyarrow.parquet as pq
from pydantic import Field

from ridgeline.api.context import OperatorContext
from ridgeline.api.errors import RidgelineError, capped, did_you_mean
from ridgeline.api.publisher import Publisher
from ridgeline.api.support.files import is_local
from ridgeline.connect.datasets import AtPath
from ridgeline.connect.output_files import OutputFiles, SummedStream
from ridgeline.connect.window_output import WindowOutput, safe_name
from ridgeline.operators._file_publisher import HIDDEN, FilePublisher
from ridgeline.operators._json import json_lines

_NULL = "__HIVE_DEFAULT_PARTITION__"
_LONGEST_NAME = 255
"""The most bytes of the name of a folder that file systems have."""
_MOST_FOLDERS = 1_000
"""The most folders that a partition writes to in a window: each is a file."""


def divided(rows: pa.Table, columns: Sequence[str], operator: str) -> Iterator[tuple[str, pa.Table]]:
    """The rows of each folder (`country=ch/day=2026-01-01`), in order, without the columns.

    Raises RidgelineError for a column that is not there or cannot name a folder, where none is left, and for
    too many folders.
    """
    for name in columns:
        if name not in rows.column_names:
            advice = did_you_mean(name, rows.column_names)
            msg = f"`{operator}`: `partition_by` names `{name}`, which the stream does not have; {advice}"
            raise RidgelineError(msg)
        if not _names_folders(kind := rows.schema.field(name).type):
            msg = f"`{operator}`: `partition_by` names `{name}`, and a value of {kind} cannot name a folder; "
            msg += "name a column of text, whole numbers, booleans or dates"
            raise RidgelineError(msg)
    if set(columns) == set(rows.column_names):
        msg = f"`{operator}`: `partition_by` names all columns, so that files would have none; "
        msg += "leave one out of it, or write without `partition_by`"
        raise RidgelineError(msg)
    texts = [_folder_names(rows.column(name).combine_chunks(), name) for name in columns]
    names = ["/".join(parts) for parts in zip(*texts, strict=True)]
    order: dict[str, list[int]] = {}
    for row, name in enumerate(names):
        order.setdefault(name, []).append(row)
    if len(order) > _MOST_FOLDERS:
        msg = f"`{operator}`: the rows of a window belong to {len(order)} folders by `partition_by`, "
        msg += f"at most {_MOST_FOLDERS} can be; name columns with fewer values"
        raise RidgelineError(msg)
    kept = rows.drop_columns(list(columns))
    for name in sorted(order):
        yield name, kept.take(pa.array(np.array(order[name])))


def _names_folders(kind: pa.DataType) -> bool:
    return not (pa.types.is_nested(kind) or pa.types.is_floating(kind) or pa.types.is_binary(kind))


def _folder_names(column: Any, name: str) -> list[str]:
    """The name of the folder of each value, as Hive, Spark and pyarrow write and read them.

    Raises ValueError for a value that cannot name one.
    """
    coded = column if pa.types.is_dictionary(column.type) else column.dictionary_encode()
    codes = coded.indices.to_pylist()
    known = {code: None if code is None else coded.dictionary[code].as_py() for code in set(codes)}
    names = {code: _folder_name(name, value) for code, value in known.items()}
    return [names[code] for code in codes]


def _folder_name(column: str, value: Any) -> str:
    """A value as the name of a folder. An empty text is as null, as of Hive. Raises ValueError."""
    text = str(value).lower() if isinstance(value, bool) else str(value)
    made = quote(text, safe=" ").replace(".", "%2E") if text in (".", "..") else quote(text, safe=" ")
    made = f"{quote(column, safe='')}={_NULL if value is None or value == '' else made}"
    if text == _NULL or len(made) > _LONGEST_NAME:
        why = "readers take it for null" if text == _NULL else f"it is longer than {_LONGEST_NAME} bytes"
        what = f"column `{column}` has {capped(repr(value), 100)}, which cannot name a folder: {why}"
        raise ValueError(f"{what}; fix it upstream, or leave such rows out by `on_error=SKIP`")
    return made


class FileOutput(AtPath, WindowOutput):
    """Write the stream to files in a folder, exactly once.

    A reader never sees a row of an uncommitted window, nor the same row in two files.

    `path` is a folder that every host reaches: a path (relative: to the folder in which the command runs) or
    a URI that pyarrow knows. `format`: `parquet` (zstd) or `jsonl`, one object a line, fields in the order of
    the schema. Types that JSON lacks: a timestamp, date or time of day is ISO 8601 text
    (`2026-01-01T00:00:00.000000Z`). A duration is a number of seconds, a decimal text, bytes are base64 text,
    NaN and the infinities null.

    Each window and partition writes a hidden segment. After the commit, all unpublished segments become one
    published file, which appears atomically. This happens when the oldest segment is `roll_seconds` old (0:
    in every window), when they have `roll_bytes` together, and at every orderly end. Published files are
    called `<operator>-<run id>-<first window>-<last window>.<format>`. Readers may move or delete them.

    The hidden folder `.ridgeline` stays, with one empty file for each run. A restarted run that does not find
    it ends with an error: the folder is not mounted, or it is another one (docs/outputs.md).

    `partition_by` names a column, or several, whose values make folders (`country=ch/day=2026-01-01`), as
    Hive, Spark and pyarrow read them. The columns are not in the files then. All folders are published
    together, with a file in each that has rows. Null and the empty text go to the folder
    `country=__HIVE_DEFAULT_PARTITION__`. A row with this text, or one that makes a name of more than 255
    bytes, is an error, or a dead letter with `on_error=SKIP`.

    A run on a fresh checkpoint leaves the files of others in the folder.

    Example:
        >>> import tempfile
        >>> from pathlib import Path
        >>> from typing import NamedTuple
        >>> from ridgeline import Application
        >>> from ridgeline.operators import FileOutput
        >>> from ridgeline.testing import ListInput, run_local
        >>> class Price(NamedTuple):
        ...     symbol: str
        ...     price: float
        >>> folder = tempfile.TemporaryDirectory()
        >>> app = Application("prices")
        >>> prices = app.add_operator("prices", ListInput(Price, [("IBM", 12.3), ("SAP", 101.25)]))
        >>> files = app.add_operator("files", FileOutput(path=folder.name, format="jsonl"))
        >>> app.add_stream("prices", prices.output, files.input)
        >>> run = run_local(app)
        >>> [published] = Path(folder.name).glob("files-*.jsonl")
        >>> print(published.read_text().strip())
        {"symbol":"IBM","price":12.3}
        {"symbol":"SAP","price":101.25}
        >>> folder.cleanup()
    """

    path: str | Path
    format: Literal["parquet", "jsonl"] = "parquet"
    roll_seconds: float = Field(default=10.0, ge=0)
    roll_bytes: int = Field(default=128 * 2**20, gt=0)
    partition_by: list[str] | str | None = None

    def setup(self, context: OperatorContext) -> None:
        """Resolve the file system. Raises RidgelineError if it cannot be reached."""
        self._files = OutputFiles(str(self.path))
        self._on_disk = is_local(str(self.path))
        self._hidden = f"{self._files.root}/{HIDDEN}/{safe_name(context.name)}-{context.run_id}"

    def take(self, batch: pa.RecordBatch) -> None:
        """Keep the rows until the window ends. Raises ValueError for a value that cannot name a folder."""
        for name, column in zip(batch.schema.names, batch.columns, strict=True):
            if name in _columns(self.partition_by) and _names_folders(column.type):
                _folder_names(column, name)
        super().take(batch)

    def write(self, rows: pa.Table) -> None:
        """Write the window's rows as a hidden segment of this attempt; hand its description over.

        Raises RidgelineError if the file system refuses; then nothing of the segment is left.
        """
        if not self.partition_by:
            self.context.hand_over(self._write(rows, f"{self.file_stem}.segment"))
            return
        folders = divided(rows, _columns(self.partition_by), self.context.name)
        for number, (folder, own) in enumerate(folders):
            written = self._write(own, f"{self.file_stem}-f{number}.segment")
            self.context.hand_over((*written, folder))

    def _write(self, rows: pa.Table, name: str) -> tuple[str, int, int, str, int]:
        """Write a segment. Returns its name, rows, bytes, fingerprint of the columns, checksum."""

        def fill(out: SummedStream) -> None:
            if self.format == "parquet":
                pq.write_table(rows, out, compression="zstd")
            else:
                out.write(json_lines(rows))

        path, lasting = f"{self._hidden}/{name}", self._hidden if self._on_disk else ""
        out = self.until_there(lambda: self._files.write(path, fill), self.path, lasting)
        return name, rows.num_rows, out.size, _fingerprint(rows.schema), out.crc32

    def property_faults(self) -> list[tuple[str, object, str]]:
        """Refuse a column that is named twice."""
        names = _columns(self.partition_by)
        if len(set(names)) < len(names):
            return [("partition_by", names, "must name each column once")]
        return []

    def publisher(self) -> Publisher:
        """The part that runs on the driver."""
        return FilePublisher(self, str(self.path), self.format)


def _columns(names: list[str] | str | None) -> list[str]:
    """The columns that `partition_by` names; one alone may be a text."""
    return [names] if isinstance(names, str) else list(names or ())


def _fingerprint(schema: pa.Schema) -> str:
    """A short text that differs if names or types do: segments of different schemas do not share a file."""
    text: Any = "\n".join(f"{field.name}: {field.type}" for field in schema)
    return hashlib.sha256(text.encode()).hexdigest()[:8]
