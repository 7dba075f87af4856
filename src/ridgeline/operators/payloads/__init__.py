"""The payloads of messages as columns, and back: JSON, Avro, Protobuf, text, bytes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, NamedTuple

import pyarrow as pa

from ridgeline.api.columns.casting import is_bytes, is_text
from ridgeline.api.columns.nulls import refuse_nulls
from ridgeline.api.columns.schema import Schema
from ridgeline.api.errors import RidgelineError
from ridgeline.operators._json import json_lines, value_texts
from ridgeline.operators._texts import convert
from ridgeline.operators.files._parsers import JsonParser
from ridgeline.operators.payloads import _avro, _protobuf
from ridgeline.operators.payloads._avro import AvroDecoder, avro_schema_of
from ridgeline.operators.payloads._protobuf import ProtobufDecoder
from ridgeline.operators.payloads._registry import Registry as Registry
from ridgeline.operators.payloads._registry import UnavailableError as UnavailableError
from ridgeline.operators.validate import fitting

PayloadFormat = Literal["json", "avro", "protobuf", "text", "bytes"]
"""The form of a message's payload."""
Decoder = Callable[[Sequence[bytes]], pa.RecordBatch]
"""Makes a batch of payloads, a row each. Raises ValueError, or what Arrow raises, if one does not fit."""


class Decoded(NamedTuple):
    """Payloads as columns. `rows`: the payloads that fit, in order. `bad`: why the others do not, by row."""

    batch: pa.RecordBatch
    rows: Sequence[int]
    bad: Mapping[int, str]


def decoder_of(
    format: PayloadFormat,
    schema: Schema,
    *,
    registry: Registry | None = None,
    message: Any = None,
    written: Any = None,
    framed: bool = False,
) -> Decoder:
    """The decoder of a format.

    `registry`: payloads are framed with the id of their schema there. `message`: the class of Protobuf
    messages. `written`: the Avro schema of payloads; None: that of the columns. `framed`: they have the
    framing of a registry, whose id is passed over. Raises RidgelineError for columns that the format cannot
    have.
    """
    if format == "json":
        return _json(schema, framed=registry is not None)
    if format == "avro":
        plain = avro_schema_of(schema, schema.name) if written is None and registry is None else written
        return AvroDecoder(schema, plain, registry, framed=framed)
    if format == "protobuf":
        return ProtobufDecoder(schema, message, framed=registry is not None)
    kind = _single(format, schema)
    if format == "text":
        return _texts(schema, kind)
    return lambda values: _checked(schema, pa.array(values, kind))


def _single(format: PayloadFormat, schema: Schema) -> pa.DataType:
    """The type of the one column that a payload is. Raises RidgelineError for others."""
    if len(schema.arrow) != 1:
        raise RidgelineError(
            f"a payload of {format} is one column; {schema.describe()} has {len(schema.arrow)}"
        )
    kind = schema.arrow.field(0).type
    if format == "bytes" and not is_bytes(kind):
        raise RidgelineError(
            f"the column `{schema.arrow.names[0]}` of payloads as they are must be bytes, not {kind}"
        )
    return kind


def decode(decoder: Decoder, values: Sequence[bytes]) -> Decoded:
    """Decode payloads. Those that do not fit are found by halving, so a few of them cost little."""
    found = fitting(range(len(values)), lambda first, end: decoder(values[first:end]))
    batches = found.batches or [decoder([])]
    if len(batches) > 1:
        batches = pa.Table.from_batches(batches).combine_chunks().to_batches()
    return Decoded(batches[0], found.rows.tolist() if found.unread else range(len(values)), found.reasons)


def _json(schema: Schema, *, framed: bool) -> Decoder:
    """The decoder of JSON. `framed`: behind a schema's id."""
    parser = JsonParser(schema)

    def parse(values: Sequence[bytes]) -> pa.RecordBatch:
        if framed:
            values = [value[5:] if value[:1] == b"\0" else value for value in values]
        text = b"\n".join(values)
        if text.count(b"\n") != max(0, len(values) - 1) or b"\r" in text:
            # the end of a line within an object is a space; within a text JSON has none
            text = b"\n".join(value.replace(b"\n", b" ").replace(b"\r", b" ") for value in values)
        return parser.parse(text, len(values))

    return parse


def _texts(schema: Schema, kind: pa.DataType) -> Decoder:
    """UTF-8; a column that is no text has the value that the text says."""

    def read(values: Sequence[bytes]) -> pa.RecordBatch:
        column = pa.array(values, pa.binary()).cast(pa.string())
        plain = pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_boolean(kind)
        return _checked(schema, column.cast(kind) if plain or is_text(kind) else convert(column, kind))

    return read


def _checked(schema: Schema, column: pa.Array) -> pa.RecordBatch:
    batch = pa.RecordBatch.from_arrays([column], schema=schema.arrow)
    refuse_nulls(schema, batch)
    return batch


Encoder = Callable[[pa.RecordBatch], "pa.Array[Any] | Sequence[bytes | None]"]
"""Makes a payload of each row. Raises ValueError that names the first row that does not fit."""


def encoder_of(
    format: PayloadFormat,
    columns: Schema,
    *,
    name: str,
    registry: Registry | None = None,
    subject: str = "",
    message: Any = None,
    written: Any = None,
) -> Encoder:
    """The encoder of a format, for batches of these columns.

    `name`: of the record, where the Avro schema is made of the columns. `registry`: payloads are framed with
    the id that their schema has there under `subject`. `message`: the class of Protobuf messages. `written`:
    the Avro schema; None: the subject's latest, or one made of the columns. Raises RidgelineError for columns
    that the format cannot have, UnavailableError.
    """
    if format == "json":
        return _to_json
    if format == "avro":
        if registry is not None:
            return _avro.registered_encoder(columns, name, subject, registry, written)
        schema = _avro.avro_schema_of(columns, name) if written is None else written
        return _avro.AvroEncoder(columns.arrow, schema)
    if format == "protobuf":
        if registry is not None:
            return _protobuf.registered_encoder(columns, subject, registry, message)
        return _protobuf.ProtobufEncoder(columns.arrow, message)
    _single(format, columns)
    return _to_texts


def _to_json(batch: pa.RecordBatch) -> Sequence[bytes]:
    lines = json_lines(pa.Table.from_batches([batch]))
    return lines.split(b"\n")[:-1]


def _to_texts(batch: pa.RecordBatch) -> pa.Array:
    """The text of each value, as UTF-8. A text and bytes are themselves; null is null."""
    column = batch.column(0)
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    if is_bytes(column.type):
        return column.cast(pa.binary())
    if is_text(column.type) or pa.types.is_integer(column.type):
        return column.cast(pa.string()).cast(pa.binary())
    return pa.array(value_texts(column), pa.string()).cast(pa.binary())
