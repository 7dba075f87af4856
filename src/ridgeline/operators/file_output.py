"""Write Parquet or JSON lines files, exactly once."""

from __future__ import annotations

import contextlib
import hashlib
from pathlib import Path
from typing import Any, Literal

import pyarrow as pa
import pyarrow.parquet as pq
from pydantic import Field

from ridgeline.api.cells.cache import Cache
from ridgeline.api.context import OperatorContext
from ridgeline.api.publisher import Publisher
from ridgeline.api.support.files import is_local, local_path, waiting_for_store
from ridgeline.connect.datasets import Dataset, file_datasets
from ridgeline.connect.output_files import OutputFiles, SummedStream
from ridgeline.connect.window_output import WindowOutput, safe_name, write_failure
from ridgeline.operators._file_publisher import HIDDEN, FilePublisher, Settings
from ridgeline.operators._json import json_lines
from ridgeline.operators._partitioned_files import PartitionedFilePublisher, divided


class FileOutput(WindowOutput):
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
    Hive, Spark and pyarrow read them. The columns are not in the files then. Each folder is published by
    itself, with files and a hidden folder of its own; `roll_bytes` counts for each. Null and the empty text
    go to the folder `country=__HIVE_DEFAULT_PARTITION__`.

    `mode` says what a run on a fresh checkpoint does if the folder is not empty. `append` leaves the files
    that are there. `overwrite` removes the `.parquet` and `.jsonl` files directly in it. `error` refuses. A
    run that continues from its checkpoint always appends.

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
    mode: Literal["append", "overwrite", "error"] = "append"
    partition_by: list[str] | str | None = None

    made = Cache(set[str])  # the hidden folders that were made

    def settle_properties(self) -> None:
        """Make a relative path absolute."""
        self.path = local_path(str(self.path)) if is_local(str(self.path)) else str(self.path)

    def setup(self, context: OperatorContext) -> None:
        """Resolve the file system. Raises RidgelineError if it cannot be reached."""
        self._files = OutputFiles(str(self.path))
        self._on_disk = is_local(str(self.path))
        self._hidden = f"{HIDDEN}/{safe_name(context.name)}-{context.run_id}"

    def write(self, rows: pa.Table) -> None:
        """Write the window's rows as a hidden segment of this attempt; hand its description over.

        Raises RidgelineError if the file system refuses; then nothing of the segment is left.
        """
        if not self.partition_by:
            self.context.hand_over(self._write(rows, self._files.root))
            return
        for name, own in divided(rows, _columns(self.partition_by), self.context.name):
            self.context.hand_over((name, *self._write(own, f"{self._files.root}/{name}")))

    def _write(self, rows: pa.Table, root: str) -> tuple[str, int, int, str, int]:
        """Write a segment for a folder. Returns name, rows, bytes, fingerprint of the columns, checksum."""
        name, folder = f"{self.file_stem}.segment", f"{root}/{self._hidden}"
        lasting = self._lasting(folder)

        def write() -> SummedStream:
            if self.partition_by and folder not in self.made:
                if lasting and not self._files.is_folder(lasting):
                    raise FileNotFoundError(f"`{lasting}` is not there any more")
                self._files.make_folder(folder)
                self.made.add(folder)
            with self._files.writing(f"{folder}/{name}") as out:
                if self.format == "parquet":
                    pq.write_table(rows, out, compression="zstd")
                else:
                    out.write(json_lines(rows))
            return out

        try:
            out = waiting_for_store(write, self.context.clock, lasting=lasting)
        except OSError as error:
            with contextlib.suppress(OSError):
                self._files.delete(f"{folder}/{name}")
            raise write_failure(self.context.name, str(self.path), error) from error
        return name, rows.num_rows, out.size, _fingerprint(rows.schema), out.crc32

    def _lasting(self, folder: str) -> str:
        """A folder that was made before, without which a mount is gone; "" if none is known."""
        if not self._on_disk:
            return ""
        return folder if not self.partition_by or folder in self.made else min(self.made, default="")

    def property_faults(self) -> list[tuple[str, object, str]]:
        """Refuse a column that is named twice."""
        names = _columns(self.partition_by)
        if len(set(names)) < len(names):
            return [("partition_by", names, "must name each column once")]
        return []

    def datasets(self) -> list[Dataset]:
        """The files, as `ridgeline.connect.datasets` names them."""
        return file_datasets(self.path)

    def publisher(self) -> Publisher:
        """The part that runs on the driver."""
        settings = Settings(str(self.path), self.format, self.roll_seconds, self.roll_bytes, self.mode)
        return PartitionedFilePublisher(settings) if self.partition_by else FilePublisher(settings)


def _columns(names: list[str] | str | None) -> list[str]:
    """The columns that `partition_by` names; one alone may be a text."""
    return [names] if isinstance(names, str) else list(names or ())


def _fingerprint(schema: pa.Schema) -> str:
    """A short text that differs if names or types do: segments of different schemas do not share a file."""
    text: Any = "\n".join(f"{field.name}: {field.type}" for field in schema)
    return hashlib.sha256(text.encode()).hexdigest()[:8]
