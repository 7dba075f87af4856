"""Read Arrow IPC and Avro files a batch at a time from any row on."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Any

import pyarrow as pa

from ridgeline.api.columns.schema import Schema
from ridgeline.api.errors import RidgelineError
from ridgeline.operators._replay_files import ReplayFile, checked_columns
from ridgeline.operators._replay_lines import decompressed
from ridgeline.operators._replay_parquet import ParquetChunk

_BATCH_ROWS = 8_192
_MAGIC = b"ARROW1"


class _BatchReader:
    """A file of batches, open at a row. Holds in memory the batch that was decoded last."""

    what = ""

    def __init__(self, file: ReplayFile, schema: Schema, place: int) -> None:
        """Open `file` at row `place`. Raises RidgelineError."""
        self.file = file
        self._schema = schema
        self._raw = file.open()
        self._batches = self._opened()
        self._held: list[pa.RecordBatch] = []
        self.place = 0
        while self.place < place:
            if not (chunk := self.peek(place - self.place)):
                raise RidgelineError(
                    f"file `{file.path}` has shrunk: it was read up to row {place} before; bring it back"
                )
            self.skip(len(chunk))

    def peek(self, rows: int) -> ParquetChunk:
        """Return the next rows, at most `rows`, of one batch; empty at the end of the file.

        Raises RidgelineError for a file that is corrupt.
        """
        while not self._held or not self._held[0].num_rows:
            batch = self._next()
            if batch is None:
                return ParquetChunk(self, self._schema, self.place, 0)
            self._held = [batch]
        return ParquetChunk(self, self._schema, self.place, min(rows, self._held[0].num_rows))

    def decode(self, place: int, rows: int) -> list[pa.RecordBatch]:
        """The rows that `peek` returned last."""
        return [self._held[0].slice(0, rows)] if rows else []

    def skip(self, rows: int) -> None:
        """Pass rows that `peek` returned."""
        if rows:
            self._held = [self._held[0].slice(rows)]
        self.place += rows

    def passed(self) -> float:
        """Bytes read, which is up to a batch more than was passed."""
        return float(self._raw.tell())

    def close(self) -> None:
        """Close the file."""
        self._raw.close()

    def _opened(self) -> Iterator[pa.RecordBatch]:
        """Open the file, and return its batches."""
        raise NotImplementedError

    def _next(self) -> pa.RecordBatch | None:
        try:
            batch = next(self._batches, None)
        except RidgelineError:
            raise
        except Exception as error:
            raise self._corrupt(error) from error
        if batch is not None:
            checked_columns(self.file.path, self._schema, batch.schema.names)
        return batch

    def _corrupt(self, error: Exception) -> RidgelineError:
        msg = f"file `{self.file.path}` is no {self.what} file or corrupt, after row {self.place}: {error}; "
        msg += "mend or remove it, or set `format`"
        return RidgelineError(msg)


class ArrowReader(_BatchReader):
    """An Arrow IPC file, or stream."""

    what = "Arrow IPC"

    def _opened(self) -> Iterator[pa.RecordBatch]:
        """Open the file or stream, by its first bytes, and return its batches. Raises RidgelineError."""
        try:
            is_file = self._raw.read(len(_MAGIC)) == _MAGIC
            self._raw.seek(0)
            if is_file:
                reader = pa.ipc.open_file(self._raw)
                checked_columns(self.file.path, self._schema, reader.schema.names)
                return map(reader.get_batch, range(reader.num_record_batches))
            return _streams(decompressed(self._raw, self.file.path))
        except (OSError, pa.ArrowException) as error:
            self.place = 0
            raise self._corrupt(error) from error


def _streams(source: Any) -> Iterator[pa.RecordBatch]:
    """The batches of an Arrow stream, and of those that follow it. Raises Arrow exceptions, OSError."""
    yield from pa.ipc.open_stream(source)
    while True:
        try:
            following = pa.ipc.open_stream(source)
        except pa.ArrowInvalid as error:
            if "null or length 0" in str(error) and not source.read(1):
                return
            raise
        yield from following


class AvroReader(_BatchReader):
    """An Avro container file. Needs fastavro."""

    what = "Avro"

    def _opened(self) -> Iterator[pa.RecordBatch]:
        """Open the file, and return its records in batches. Raises RidgelineError, also without fastavro."""
        try:
            import fastavro
        except ImportError as error:
            raise RidgelineError(
                "Avro files need fastavro, which is not installed; `pip install fastavro`"
            ) from error
        try:
            records: Any = fastavro.reader(decompressed(self._raw, self.file.path))
        except Exception as error:
            self.place = 0
            raise self._corrupt(error) from error
        return self._converted(records)

    def _converted(self, records: Iterator[Any]) -> Iterator[pa.RecordBatch]:
        """Records in batches, of a damaged file first those before the damage; then raises what was wrong."""
        damage: Exception | None = None
        while damage is None:
            rows: list[Any] = []
            try:
                rows.extend(islice(records, _BATCH_ROWS))
            except Exception as error:  # noqa: BLE001  raised once the records before it were read
                damage = error
            if not rows:
                break
            names = checked_columns(self.file.path, self._schema, list(rows[0]))
            columns = {name: [row[name] for row in rows] for name in names}
            yield pa.RecordBatch.from_pydict(
                {name: self._column(name, values) for name, values in columns.items()}
            )
        if damage is not None:
            raise damage

    def _column(self, name: str, values: list[Any]) -> pa.Array:
        """Values as a column of their own type; Arrow takes dicts for structs if it does not know better."""
        kind = self._schema.arrow.field(name).type
        return pa.array(values, kind if _has_maps(kind) else None)


def _has_maps(kind: pa.DataType) -> bool:
    if pa.types.is_map(kind):
        return True
    return pa.types.is_nested(kind) and any(_has_maps(kind.field(i).type) for i in range(kind.num_fields))
