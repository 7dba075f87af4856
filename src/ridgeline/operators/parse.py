"""Parse a column of texts into columns."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from datetime import datetime
from io import BytesIO
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.csv
from pydantic import Field

from ridgeline.api import RidgelineError, Schema, SchemaError, SchemaType
from ridgeline.api.columns.casting import is_bytes, is_text
from ridgeline.api.columns.nulls import optional_columns
from ridgeline.api.context import OperatorContext
from ridgeline.api.errors import did_you_mean, shorten
from ridgeline.operators._divided import Columns, check_columns, columns_of
from ridgeline.operators._joined import joined_schema
from ridgeline.operators.files._parsers import CsvParser, is_textual
from ridgeline.operators.payloads import Registry, decoder_of
from ridgeline.operators.validate import CheckingOperator, fitting

LineFormat = Literal["json", "csv", "key_value", "regex", "common_log", "combined_log", "syslog", "avro"]
Parser = Callable[[Sequence[Any]], pa.RecordBatch]
"""Makes a batch of lines; raises ValueError if one of them does not fit."""
_COMMON = (
    r'(?P<host>\S+) (?P<ident>\S+) (?P<user>\S+) \[(?P<time>[^\]]+)\] "(?:(?P<method>[A-Z]+) (?P<path>\S+)'
    r'(?: (?P<protocol>[^"]*))?|(?:[^"\\]|\\.)*)" (?P<status>\d{3}) (?P<bytes>\d+|-)'
)
PATTERNS = {
    "common_log": _COMMON,
    "combined_log": _COMMON + r' "(?P<referer>(?:[^"\\]|\\.)*)" "(?P<agent>(?:[^"\\]|\\.)*)"',
    "syslog": r"<(?P<priority>\d{1,3})>1 (?P<time>\S+) (?P<host>\S+) (?P<app>\S+) (?P<process>\S+) "
    r"(?P<id>\S+) (?:-|\[(?P<data>(?:[^\]\\]|\\.)*)\])(?: (?P<message>.*))?",
}
"""Apache's common and combined log formats, and RFC 5424; `-` stands for null.

A request that is none, such as `-` after a timeout or bytes of TLS, has neither method nor path.
"""
_REQUEST = ("method", "path")
_PAIR = re.compile(r'([^\s=]+)=("(?:[^"\\]|\\.)*"|\S*)')
_ESCAPED = re.compile(r"\\(.)")


def pattern_of(format: LineFormat, pattern: str | None) -> re.Pattern[str] | None:
    """The compiled pattern of a format. Raises ValueError for one that cannot be, or has no named groups."""
    text = pattern if format == "regex" else PATTERNS.get(format)
    if text is None:
        return None
    try:
        compiled = re.compile(text)
    except re.error as error:
        raise ValueError(f"must be a regular expression; {error}") from None
    if not compiled.groupindex:
        raise ValueError("must have groups with the columns' names, such as `(?P<user>\\S+)`")
    return compiled


def parser_of(format: LineFormat, schema: Schema, pattern: str | None, delimiter: str) -> Parser:
    """The parser of a format."""
    if format == "json":
        decode = decoder_of("json", schema)
        return lambda lines: decode([line.encode() for line in lines])
    if format == "csv":
        return _csv(schema, delimiter)
    compiled = pattern_of(format, pattern)
    names, read_csv = schema.arrow.names, _texts(schema)
    if compiled is None:
        return lambda lines: read_csv([_pairs(line, names) for line in lines])
    needed: Sequence[str] | None = None
    if format != "regex":
        may_lack = optional_columns(schema)
        needed = [name for name in _REQUEST if name in names and name not in may_lack]
    return lambda lines: read_csv([_groups(compiled, line, names, needed) for line in lines])


def format_faults(format: LineFormat, pattern: str | None, names: Sequence[str]) -> str | None:
    """Why a format cannot give these columns; None if it can."""
    try:
        compiled = pattern_of(format, pattern)
    except ValueError as error:
        return str(error)
    if format == "regex" and compiled is None:
        return "must be given for the format regex"
    groups = compiled.groupindex if compiled is not None else dict.fromkeys(names)
    lacking = next((name for name in names if name not in groups), None)
    return None if lacking is None else f"has no group `{lacking}`; {did_you_mean(lacking, groups)}"


def _csv_parser(schema: Schema, delimiter: str) -> CsvParser:
    parser = CsvParser(schema, delimiter, [""])
    parser.read_header("", delimiter.join(schema.arrow.names).encode())
    return parser


def _csv(schema: Schema, delimiter: str) -> Parser:
    parser = _csv_parser(schema, delimiter)

    def parse(lines: Sequence[str]) -> pa.RecordBatch:
        if any("\n" in line or "\r" in line or not line for line in lines):
            raise ValueError("a line is empty, or has the end of another in it")
        return parser.parse("\n".join(lines).encode(), len(lines))

    return parse


def _texts(schema: Schema) -> Callable[[Sequence[Sequence[str | None]]], pa.RecordBatch]:
    """Reads rows of texts by the rules of CSV."""
    parser = _csv_parser(schema, ",")
    texts = pa.schema([(name, pa.string()) for name in schema.arrow.names])
    options = pyarrow.csv.WriteOptions(include_header=False, quoting_style="needed")

    def parse(rows: Sequence[Sequence[str | None]]) -> pa.RecordBatch:
        columns: Any = zip(*rows, strict=True)
        sink = BytesIO()
        arrays = [
            pa.array(one if is_textual(field.type) else [text or None for text in one], pa.string())
            for field, one in zip(schema.arrow, columns, strict=True)
        ]
        batch = pa.RecordBatch.from_arrays(arrays, schema=texts)
        pyarrow.csv.write_csv(pa.Table.from_batches([batch]), sink, options)
        return parser.parse(sink.getvalue().removesuffix(b"\n"), len(rows))

    return parse


def _pairs(line: str, names: Sequence[str]) -> list[str | None]:
    """The values of `name=value`, which may be quoted. Raises ValueError for a line without any.

    An empty text is null where it can be, as in CSV, unless it is quoted; so are those of a pattern.
    """
    found = dict(_PAIR.findall(line))
    if not found:
        raise ValueError("it has no pair such as `name=value`")
    return [_plain(found.get(name) or None) for name in names]


def _plain(value: str | None) -> str | None:
    if value is not None and value.startswith('"') and value.endswith('"') and len(value) > 1:
        return _ESCAPED.sub(r"\1", value[1:-1])
    return value


def _groups(
    pattern: re.Pattern[str], line: str, names: Sequence[str], needed: Sequence[str] | None
) -> list[str | None]:
    """The groups of a pattern. `needed`: of a log, those that must be there; None: the line is of no log.

    Raises ValueError for a line of another form, or without those.
    """
    match = pattern.fullmatch(line)
    if match is None:
        what = "match the pattern" if needed is None else "have the form of the format"
        raise ValueError(f"it does not {what}")
    if needed is None:
        return [match[name] or None for name in names]
    for name in needed:
        if match[name] is None:
            raise ValueError(
                f"its request has no {name}; a schema with `{name}: str | None` takes such lines"
            )
    return [_log_value(name, match[name]) for name in names]


def _log_value(name: str, value: str | None) -> str | None:
    """A field of a log; Apache's times as ISO 8601 has them."""
    if not value or value == "-":
        return None
    if name == "time" and value[2:3] == "/":
        return datetime.strptime(value, "%d/%b/%Y:%H:%M:%S %z").isoformat()
    return value


class Parse(CheckingOperator):
    """Parse a column of texts into columns, line by line; texts that do not fit go to an error port.

    Input: a stream with the column `column` of text or bytes (UTF-8). Output: the columns of `schema`; before
    them those of `keep`, which are taken over. Each output row has the time of its input row.

    `format`:

    - "json": an object each. Missing optional fields are null; fields that `schema` lacks are ignored.
    - "csv": values in the order of `schema`, with this `delimiter`.
    - "key_value": `user=ann cents=5 text="a b"`, in any order (logfmt).
    - "regex": `pattern` must match the whole text; its named groups are the columns.
    - "common_log", "combined_log": Apache's. Columns are host, ident, user, time, method, path, protocol,
      status, bytes, and of the second referer and agent. `schema` chooses among them.
    - "syslog": RFC 5424. Columns are priority, time, host, app, process, id, data, message.
    - "avro": bytes, a record each. `written`: the Avro schema that they were written with, default: that of
      `schema`. `framed`: behind the five bytes of a schema registry's framing, which are left out. With
      `registry`, a URL, the schema of each id comes from there. It needs fastavro.

    Values follow the rules of files, see docs/values.md; an empty one is null where it can be. A text that
    does not fit goes to the error port `bad`: all columns of the input, and the `reason`. If no stream reads
    `bad`, it is an error, which names text and reason; with `on_error="SKIP"` the tuple becomes a dead
    letter.

    Partitions: round robin.

    Example:
        >>> from typing import NamedTuple
        >>> from ridgeline import Application
        >>> from ridgeline.operators import Parse
        >>> from ridgeline.testing import CollectorSink, ListInput, run_local
        >>> Line = NamedTuple("Line", [("text", str)])
        >>> Payment = NamedTuple("Payment", [("user", str), ("cents", int)])
        >>> lines = [('{"user": "ann", "cents": 5}',), ('{"user": "bob", "cents": "many"}',)]
        >>> app = Application("payments")
        >>> source = app.add_operator("source", ListInput(Line, lines))
        >>> parse = app.add_operator("parse", Parse("text", "json", schema=Payment))
        >>> sink = app.add_operator("sink", CollectorSink(Payment))
        >>> bad = app.add_operator("bad", CollectorSink())
        >>> app.add_stream("lines", source.output, parse.input)
        >>> app.add_stream("payments", parse.output, sink.input)
        >>> app.add_stream("bad_lines", parse.bad, bad.input)
        >>> run = run_local(app)
        >>> run.collected("sink"), [row["text"] for row in run.collected("bad")]
        ([Payment(user='ann', cents=5)], ['{"user": "bob", "cents": "many"}'])
    """

    column: str
    format: LineFormat = "json"
    schema: SchemaType[Any] = Field(kw_only=True)
    keep: Columns = Field(default=(), kw_only=True)
    pattern: str | None = Field(default=None, kw_only=True)
    delimiter: str = Field(default=",", min_length=1, max_length=1, kw_only=True)
    written: str | dict[str, Any] | None = Field(default=None, kw_only=True)
    framed: bool = Field(default=False, kw_only=True)
    registry: str | None = Field(default=None, kw_only=True)

    def property_faults(self) -> list[tuple[str, object, str]]:
        """Refuse a pattern that does not give the columns of `schema`, and what is of another format."""
        if self.format != "avro":
            for name in ("written", "framed", "registry"):
                if value := getattr(self, name):
                    return [(name, value, "is of the format avro alone")]
            fault = format_faults(self.format, self.pattern, Schema(self.schema).arrow.names)
            given = "pattern" if self.format == "regex" else "schema"
            return [] if fault is None else [(given, self.pattern or self.format, fault)]
        if self.registry is not None and self.written is not None:
            return [("written", self.written, "must be left out with `registry`, which has the schemas")]
        try:
            self._parser(Schema(self.schema))
        except (RidgelineError, ValueError) as error:
            return [("schema" if self.written is None else "written", self.format, f"does not fit: {error}")]
        return []

    def _parser(self, schema: Schema) -> Parser:
        """The parser of texts, or of bytes of Avro. Raises RidgelineError for columns that cannot be."""
        if self.format != "avro":
            return parser_of(self.format, schema, self.pattern, self.delimiter)
        registry = None if self.registry is None else Registry(self.registry)
        return decoder_of("avro", schema, registry=registry, written=self.written, framed=self.framed)

    def derived(self, given: Schema) -> object:
        """The columns that are kept, then those of `schema`. Raises SchemaError for what does not fit."""
        check_columns(given, [self.column, *columns_of(self.keep)], "`column` or `keep`")
        kind = given.arrow.field(self.column).type
        if not (is_text(kind) or is_bytes(kind)):
            raise SchemaError(f"`{self.column}` is {kind}; only text and bytes can be parsed")
        if self.format == "avro" and is_text(kind):
            raise SchemaError(f"`{self.column}` is {kind}; Avro is parsed of bytes")
        kept = columns_of(self.keep)
        if not kept:
            return self.schema
        fields = [given.arrow.field(name) for name in kept]
        return joined_schema(fields, list(Schema(self.schema).arrow), "", "output")

    def setup(self, context: OperatorContext) -> None:
        """Make the parser."""
        self.kept = columns_of(self.keep)
        self.parsed = Schema(self.schema)
        self.parser = self._parser(self.parsed)

    def take(self, batch: pa.RecordBatch) -> None:
        """Emit the rows of the texts of a batch. Raises RidgelineError for bad ones that no stream reads."""
        rows, lines, reasons = self._lines(batch.column(self.column))
        found = fitting(rows, lambda begin, end: self.parser(lines[begin:end]))
        good = self.emit_bad(batch, reasons | found.reasons, lambda row: self._misfit(batch, row))
        if not good:
            return
        table = pa.Table.from_batches(found.batches).combine_chunks()
        columns = [batch.column(name).take(pa.array(good)) for name in self.kept]
        columns += [pa.concat_arrays(column.chunks) for column in table.columns]
        schema = self.output.schema.arrow
        self.output.emit_batch(pa.RecordBatch.from_arrays(columns, schema=schema), rows=np.array(good))

    def _misfit(self, batch: pa.RecordBatch, row: int) -> str:
        text = shorten(batch.column(self.column)[row].as_py())
        return f"{text} is no {self.format} for {self.parsed.describe()}"

    def _lines(self, column: pa.Array) -> tuple[list[int], list[Any], dict[int, str]]:
        """The rows with a text, the texts, and why the other rows have none."""
        rows, lines, reasons = [], [], {}
        decodes = self.format != "avro"
        for row, value in enumerate(column.to_pylist()):
            try:
                line = value.decode() if decodes and isinstance(value, bytes) else value
            except UnicodeDecodeError as error:
                reasons[row] = f"it is no UTF-8: {error}"
                continue
            if not line or (decodes and not line.strip()):
                reasons[row] = "it is null" if line is None else "it is empty"
            else:
                rows.append(row)
                lines.append(line)
        return rows, lines, reasons
