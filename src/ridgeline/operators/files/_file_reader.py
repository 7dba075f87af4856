"""The half of `FileInput` in a container: it reads files of all formats up to a number of bytes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Literal, TypeAlias

import pyarrow as pa

from ridgeline.api.columns.schema import Schema
from ridgeline.api.errors import RidgelineError
from ridgeline.connect.reader import ReaderContext, SourceRange, SourceReader
from ridgeline.operators.files._lines import LineParser, LineReader, compression
from ridgeline.operators.files._listing import InputFile
from ridgeline.operators.files._parsers import CsvParser, JsonParser, TextParser
from ridgeline.operators.files._typed_files import (
    ArrowReader,
    AvroReader,
    ParquetReader,
    TypedReader,
)

Reader: TypeAlias = LineReader | TypedReader
"""A file that is open at a place: a byte of lines, or the number of a row."""
Format = Literal["text", "csv", "jsonl", "parquet", "arrow", "avro"]
_ENDINGS: dict[str, Format] = {
    "txt": "text",
    "text": "text",
    "log": "text",
    "csv": "csv",
    "json": "jsonl",
    "jsonl": "jsonl",
    "ndjson": "jsonl",
    "parquet": "parquet",
    "arrow": "arrow",
    "arrows": "arrow",
    "feather": "arrow",
    "ipc": "arrow",
    "avro": "avro",
}
_TYPED = {"parquet": ParquetReader, "arrow": ArrowReader, "avro": AvroReader}
UNKNOWN = "the name of a file does not say its format; give `format`"


def format_of(path: str) -> Format | None:
    """The format that the ending of a name stands for, before that of a compression; None for another."""
    stem = path.rpartition(".")[0] if compression(path) else path
    name = stem.rpartition("/")[2]
    return _ENDINGS.get(name.rpartition(".")[2].lower()) if "." in name else None


_LEFT_OUT = "left out"
"""The note of a file of which the rest cannot be read."""
_CHUNK_ROWS = 65_536
_MOST_OPEN = 16


class OpenFiles:
    """Files that stay open from window to window.

    `form`: the format of all; None: the name of each says it. `delimiter`, `null_values`: of CSV.
    """

    def __init__(self, form: Format | None, delimiter: str, null_values: Sequence[str]) -> None:
        self._form, self._delimiter, self._null_values = form, delimiter, null_values
        self._open: dict[str, Reader] = {}

    def at(self, file: InputFile, place: int, lines: int, schema: Schema) -> Reader:
        """The file, open at a place: that where it is open already, or it is opened there.

        `lines`: how many are before the place. `schema`: of the rows. Raises RidgelineError for a file that
        cannot be read, or whose format is not known.
        """
        known = self._open.get(file.path)
        if known is not None and (known.file, known.place) == (file, place):
            return known
        self.close(file)
        if len(self._open) >= _MOST_OPEN:
            self.close(next(iter(self._open.values())).file)
        reader = self._open[file.path] = self._opened(file, place, lines, schema)
        return reader

    def _opened(self, file: InputFile, place: int, lines: int, schema: Schema) -> Reader:
        """Open a file for `at`, by its format. Raises as it."""
        form = self._form or format_of(file.path)
        if form is None:
            raise RidgelineError(f"`{file.path}`: {UNKNOWN}")
        if form in _TYPED:
            return _TYPED[form](file, schema, place)
        parser: LineParser
        if form == "csv":
            parser = CsvParser(schema, self._delimiter, self._null_values)
        else:
            parser = TextParser(schema) if form == "text" else JsonParser(schema)
        return LineReader(file, parser, place, lines)

    @property
    def passed(self) -> float:
        """The bytes passed of the files that are open."""
        return sum(reader.passed() for reader in self._open.values())

    def close(self, file: InputFile) -> None:
        """Close a file, if it is open."""
        if file.path in self._open:
            self._open.pop(file.path).close()

    def close_all(self) -> None:
        """Close all files."""
        for reader in list(self._open.values()):
            self.close(reader.file)


class FileReader(SourceReader):
    """Reads files up to a number of bytes, as they are on the disk.

    The note of a file is the exact place of its next row, and the number of lines before it.
    """

    def __init__(self, entries: Sequence[str], files: OpenFiles) -> None:
        self._entries, self._files = entries, files

    def open(self, context: ReaderContext) -> None:
        """Files are opened when they are read."""
        self._context = context

    def close(self) -> None:
        """Close all files."""
        self._files.close_all()

    def read(self, part: SourceRange) -> Iterator[pa.RecordBatch]:
        """Read a file up to a number of bytes, or up to its end. Raises RidgelineError that names it."""
        if part.note == _LEFT_OUT:
            return
        passed, size, entry = part.end
        whole = passed == size
        place, lines = part.note or (0, 0)
        file = InputFile(self._entries[entry], part.partition, size, may_grow=True)
        try:
            reader = self._files.at(file, place, lines, self._context.schema)
            while whole or reader.passed() < passed:
                if not (rows := reader.peek(_CHUNK_ROWS)):
                    break
                sifted = reader.sift(rows, strict=not self._context.skips)
                yield from sifted.batches
                for one in sifted.unread:
                    self._context.operator.leave_out(one.text, one.error)
                reader.skip(rows)
            part.note = [reader.place, reader.lines]
        except RidgelineError as error:
            if not self._context.skips:
                raise
            self._context.operator.leave_out(part.partition, f"the rest of the file is left out: {error}")
            self._files.close(file)
            part.note = _LEFT_OUT
        if whole:
            self._files.close(file)  # it is opened again if it grows before it is closed
