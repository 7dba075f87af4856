"""From columns to the payloads of messages."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pyarrow as pa

from ridgeline.api.columns.casting import is_bytes, is_text
from ridgeline.api.columns.schema import Schema
from ridgeline.api.errors import RidgelineError
from ridgeline.operators._json import json_lines
from ridgeline.operators.payloads import _avro, _protobuf
from ridgeline.operators.payloads._registry import Registry
from ridgeline.operators.payloads.decoding import PayloadFormat

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
        return _json
    if format == "avro":
        if registry is not None:
            return _avro.registered_encoder(columns, name, subject, registry, written)
        schema = _avro.avro_schema_of(columns, name) if written is None else written
        return _avro.AvroEncoder(columns.arrow, schema)
    if format == "protobuf":
        if registry is not None:
            return _protobuf.registered_encoder(columns, subject, registry, message)
        return _protobuf.ProtobufEncoder(columns.arrow, message)
    if len(columns.arrow) != 1:
        raise RidgelineError(
            f"a payload of {format} is one column; {columns.describe()} has {len(columns.arrow)}"
        )
    kind = columns.arrow.field(0).type
    if format == "bytes" and not is_bytes(kind):
        raise RidgelineError(
            f"the column `{columns.arrow.names[0]}` of payloads as they are must be bytes, not {kind}"
        )
    return _texts


def _json(batch: pa.RecordBatch) -> Sequence[bytes]:
    lines = json_lines(pa.Table.from_batches([batch]))
    return lines.split(b"\n")[:-1]


def _texts(batch: pa.RecordBatch) -> pa.Array:
    """The text of each value, as UTF-8. A text and bytes are themselves; null is null."""
    column = batch.column(0)
    kind = column.type
    if pa.types.is_dictionary(kind):
        column = column.dictionary_decode()
        kind = column.type
    if is_bytes(kind):
        return column.cast(pa.binary())
    if is_text(kind):
        return column.cast(pa.string()).cast(pa.binary())
    if pa.types.is_integer(kind):
        return column.cast(pa.string()).cast(pa.binary())
    texts = [
        None if value is None else line
        for value, line in zip(column.to_pylist(), _of_json(batch), strict=True)
    ]
    return pa.array(texts, pa.binary())


def _of_json(batch: pa.RecordBatch) -> list[bytes]:
    """The JSON texts of the one column; those of texts without quotes."""
    start = len('{"v":')
    values = [line[start:-1] for line in _json(batch.rename_columns(["v"]))]
    return [value[1:-1] if value[:1] == b'"' else value for value in values]
