"""Forms of a line of text that become texts by column: patterns, logs, pairs of key and value."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from datetime import datetime
from io import BytesIO
from typing import Any, Literal

import pyarrow as pa
import pyarrow.csv

from ridgeline.api.columns.nulls import optional_columns
from ridgeline.api.columns.schema import Schema
from ridgeline.api.errors import did_you_mean
from ridgeline.operators._replay_parsers import CsvParser, JsonParser, is_textual

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
        return _json(schema)
    if format == "csv":
        return _csv(schema, delimiter)
    compiled = pattern_of(format, pattern)
    names, read_csv = schema.arrow.names, _texts(schema)
    if compiled is None:
        return lambda lines: read_csv([_pairs(line, names) for line in lines])
    if format == "regex":
        return lambda lines: read_csv([_groups(compiled, line, names) for line in lines])
    may_lack = optional_columns(schema)
    needed = [name for name in _REQUEST if name in names and name not in may_lack]
    return lambda lines: read_csv([_log_values(compiled, line, names, needed) for line in lines])


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


def _json(schema: Schema) -> Parser:
    parser = JsonParser(schema)

    def parse(lines: Sequence[str]) -> pa.RecordBatch:
        # the end of a line within an object is a space; within a text JSON has none
        text = "\n".join(line.replace("\n", " ").replace("\r", " ") for line in lines).encode()
        return parser.parse(text, len(lines))

    return parse


def _csv(schema: Schema, delimiter: str) -> Parser:
    parser = CsvParser(schema, delimiter, [""])
    parser.read_header("", delimiter.join(schema.arrow.names).encode())

    def parse(lines: Sequence[str]) -> pa.RecordBatch:
        if any("\n" in line or "\r" in line or not line for line in lines):
            raise ValueError("a line is empty, or has the end of another in it")
        return parser.parse("\n".join(lines).encode(), len(lines))

    return parse


def _texts(schema: Schema) -> Callable[[Sequence[Sequence[str | None]]], pa.RecordBatch]:
    """Reads rows of texts by the rules of CSV."""
    parser, names = CsvParser(schema, ",", [""]), schema.arrow.names
    parser.read_header("", ",".join(names).encode())
    texts = pa.schema([(name, pa.string()) for name in names])
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


def _groups(pattern: re.Pattern[str], line: str, names: Sequence[str]) -> list[str | None]:
    """The groups of a pattern. Raises ValueError for a line that it does not match."""
    match = pattern.fullmatch(line)
    if match is None:
        raise ValueError("it does not match the pattern")
    return [match[name] or None for name in names]


def _log_values(
    pattern: re.Pattern[str], line: str, names: Sequence[str], needed: Sequence[str]
) -> list[str | None]:
    """The fields of a line of a log. Raises ValueError for one of another form, or without those `needed`."""
    match = pattern.fullmatch(line)
    if match is None:
        raise ValueError("it does not have the form of the format")
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
