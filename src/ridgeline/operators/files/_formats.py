"""The formats of files: by name, and the reader of each."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

from ridgeline.api.columns.schema import Schema
from ridgeline.api.errors import RidgelineError
from ridgeline.operators._replay_files import Reader
from ridgeline.operators._replay_lines import LineParser, LineReader, compression
from ridgeline.operators._replay_parquet import ParquetReader
from ridgeline.operators._replay_parsers import CsvParser, JsonParser, TextParser
from ridgeline.operators.files._batch_readers import ArrowReader, AvroReader

Format = Literal["text", "csv", "jsonl", "parquet", "arrow", "avro"]
LINES = ("text", "csv", "jsonl")
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
UNKNOWN = "the name of a file does not say its format; give `format`"


def format_of(path: str) -> Format | None:
    """The format that the ending of a name stands for, before that of a compression; None for another."""
    stem = path.rpartition(".")[0] if compression(path) else path
    name = stem.rpartition("/")[2]
    return _ENDINGS.get(name.rpartition(".")[2].lower()) if "." in name else None


class Opener:
    """Opens files of a format, in the schema of the rows."""

    def __init__(
        self,
        format: Format | None,
        schema: Schema,
        delimiter: str,
        null_values: Sequence[str],
    ) -> None:
        self._format, self._schema = format, schema
        self._delimiter, self._null_values = delimiter, null_values

    def open(self, file: Any, place: int, lines: int) -> Reader:
        """Open a file at a place. `lines`: how many lines are before it.

        Raises RidgelineError for a file that cannot be read, or whose format is not known.
        """
        form = self._format or format_of(file.path)
        if form is None:
            raise RidgelineError(f"`{file.path}`: {UNKNOWN}")
        if form == "parquet":
            return ParquetReader(file, self._schema, place)
        if form == "arrow":
            return ArrowReader(file, self._schema, place)
        if form == "avro":
            return AvroReader(file, self._schema, place)
        parser: LineParser
        if form == "csv":
            parser = CsvParser(self._schema, self._delimiter, self._null_values)
        else:
            parser = TextParser(self._schema) if form == "text" else JsonParser(self._schema)
        return LineReader(file, parser, place, lines)
