"""Avro: single records without a file's header, plain or with a registry's framing."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from io import BytesIO
from typing import Any

import pyarrow as pa

from ridgeline.api.columns.casting import is_list, is_text
from ridgeline.api.columns.nulls import optional_columns
from ridgeline.api.columns.schema import Schema
from ridgeline.api.errors import RidgelineError, SchemaError, did_you_mean
from ridgeline.connect.extras import library
from ridgeline.operators._kinds import family
from ridgeline.operators.payloads._columns import RecordColumns, RowEncoder
from ridgeline.operators.payloads._registry import FRAMED, RegisteredSchema, Registry, frame, framed_id

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_UNITS = {"s": "millis", "ms": "millis", "us": "micros"}


def _fastavro() -> Any:
    """The library. Raises RidgelineError if it is not installed."""
    return library("fastavro", "Avro needs fastavro, which cannot be imported", "kafka")


def parsed_schema(declared: Any, before: Sequence[str] = ()) -> Any:
    """An Avro schema for fastavro. `before`: texts of the schemas that it refers to.

    `declared`: a text of JSON, or what JSON gives. A UUID is the text that it is written as. Raises
    RidgelineError for what is none.
    """
    fastavro = _fastavro()
    named: dict[str, Any] = {}
    try:
        for text in before:
            fastavro.parse_schema(json.loads(text, object_hook=_without_uuid), named)
        text = declared if isinstance(declared, str) else json.dumps(declared)
        return fastavro.parse_schema(json.loads(text, object_hook=_without_uuid), named)
    except (ValueError, KeyError, TypeError, fastavro.schema.SchemaParseException) as error:
        raise RidgelineError(f"this is no Avro schema: {error}") from error


def _without_uuid(part: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in part.items() if (name, value) != ("logicalType", "uuid")}


class AvroDecoder:
    """Decodes messages of one record each into the columns of a schema.

    `written`: the Avro schema that they were written with. With a `registry` each message says which. Raises
    RidgelineError for a schema that is none, and without fastavro.

    Example:
        >>> from typing import NamedTuple
        >>> from ridgeline import Schema
        >>> class Order(NamedTuple):
        ...     id: str
        ...     cents: int
        >>> encode = AvroEncoder(Schema(Order).arrow, avro_schema_of(Schema(Order), "Order"))
        >>> values = encode(Schema(Order).encode([Order("a", 5)]))
        >>> decode = AvroDecoder(Schema(Order), avro_schema_of(Schema(Order), "Order"))
        >>> decode(values).to_pylist()
        [{'id': 'a', 'cents': 5}]
    """

    def __init__(
        self, schema: Schema, written: Any = None, registry: Registry | None = None, *, framed: bool = False
    ) -> None:
        self._read = _fastavro().schemaless_reader
        self._columns = RecordColumns(schema)
        self._single = schema.arrow.names[0] if len(schema.arrow) == 1 else None
        self._registry = registry
        self._framed = framed or registry is not None
        self._written = None if registry is not None else parsed_schema(written)
        self._parsed: dict[int, Any] = {}

    def __call__(self, values: Sequence[bytes]) -> pa.RecordBatch:
        """The batch. Raises ValueError, or what Arrow raises, if one does not fit; UnavailableError."""
        return self._columns.batch(list(map(self._record, values)))

    def _record(self, value: bytes) -> Any:
        """The record of a message. Raises ValueError."""
        schema, source = self._schema_of(value), BytesIO(value)
        source.seek(FRAMED if self._framed else 0)
        try:
            record = self._read(source, schema, None)
        except (EOFError, IndexError, StopIteration, UnicodeDecodeError, ValueError, OverflowError) as error:
            raise ValueError(
                f"it is no Avro of its schema: {type(error).__name__} {error}".rstrip()
            ) from error
        if source.tell() != len(value):
            raise ValueError(f"it has {len(value) - source.tell()} bytes more than its Avro schema says")
        if isinstance(record, dict):
            return record
        if self._single is not None:
            return {self._single: record}
        raise ValueError("it is no record of Avro")

    def _schema_of(self, value: bytes) -> Any:
        """The schema that a message was written with. Raises ValueError if it is none of Avro."""
        number = framed_id(value) if self._framed else None
        if self._registry is None or number is None:
            return self._written
        if number not in self._parsed:
            found = self._registry.by_id(number)
            if found.kind != "AVRO":
                raise ValueError(f"its schema, id {number}, is {found.kind}, not Avro")
            self._parsed[number] = _parsed_of(self._registry, found)
        return self._parsed[number]


def _parsed_of(registry: Registry, found: RegisteredSchema) -> Any:
    return parsed_schema(found.text, [one.text for one in registry.referred(found)])


class AvroEncoder(RowEncoder):
    """Encodes each row of a batch as a record of Avro, behind the framing of a schema's id if there is one.

    `columns`: what batches have. Raises RidgelineError for columns that the Avro schema does not have.
    """

    def __init__(self, columns: pa.Schema, schema: Any, schema_id: int | None = None) -> None:
        self._write = _fastavro().schemaless_writer
        self._schema = parsed_schema(schema)
        super().__init__("the Avro schema", b"" if schema_id is None else frame(schema_id))
        fields = self._schema.get("fields") if isinstance(self._schema, dict) else None
        self._single = columns.names[0] if fields is None and len(columns) == 1 else None
        if self._single is None:
            names = [field["name"] for field in fields or ()]
            lacking = next((name for name in columns.names if name not in names), None)
            if lacking is not None:
                raise RidgelineError(
                    f"the Avro schema has no field `{lacking}`; {did_you_mean(lacking, names)}"
                )

    def encoded(self, record: Mapping[str, Any]) -> bytes:
        """The record of a row."""
        sink = BytesIO()
        self._write(sink, self._schema, record if self._single is None else record[self._single])
        return sink.getvalue()


def registered_encoder(
    columns: Schema, name: str, subject: str, registry: Registry, declared: Any = None
) -> AvroEncoder:
    """An encoder with the registry's latest schema of a subject, or with one that is registered now.

    `declared`: the Avro schema to register; None: the latest, or else one made of the columns.
    """
    if declared is None and (latest := registry.latest(subject)) is not None:
        return AvroEncoder(columns.arrow, _parsed_of(registry, latest), latest.id)
    schema = avro_schema_of(columns, name) if declared is None else declared
    text = schema if isinstance(schema, str) else json.dumps(schema)
    return AvroEncoder(columns.arrow, schema, registry.register(subject, "AVRO", text))


# The Avro schema of columns -----------------------------------------------------------------------------


def avro_schema_of(schema: Schema, name: str) -> dict[str, Any]:
    """The Avro schema of columns. Raises SchemaError for a type or a name that Avro does not have.

    Example:
        >>> import pyarrow as pa
        >>> from ridgeline import Schema
        >>> found = avro_schema_of(Schema(pa.schema([("cents", pa.int64())])), "Order")
        >>> found["name"], found["fields"]
        ('Order', [{'name': 'cents', 'type': ['null', 'long'], 'default': None}])
    """
    optional = optional_columns(schema)
    clean = re.sub(r"\W", "_", name)
    record = clean if _NAME.fullmatch(clean) else f"_{clean}"
    return _record(record, [(field, field.name in optional) for field in schema.arrow])


def _record(name: str, fields: Sequence[tuple[pa.Field, bool]]) -> dict[str, Any]:
    """The record of fields, each with whether it may be null. Raises SchemaError."""
    made = []
    for field, optional in fields:
        if not _NAME.fullmatch(field.name):
            raise SchemaError(f"`{field.name}` is no name of a field in Avro; rename the column")
        kind = _type(field.type, f"{name}_{field.name}")
        if optional:
            made.append({"name": field.name, "type": ["null", kind], "default": None})
        else:
            made.append({"name": field.name, "type": kind})
    return {"type": "record", "name": name, "fields": made}


def _nullable(field: pa.Field, name: str) -> Any:
    kind = _type(field.type, name)
    return ["null", kind] if field.nullable else kind


def _type(kind: Any, name: str) -> Any:
    """The Avro type of an Arrow type. `name`: of a record within."""
    if pa.types.is_dictionary(kind):
        return _type(kind.value_type, name)
    if is_list(kind):
        return {"type": "array", "items": _nullable(kind.value_field, name)}
    if pa.types.is_map(kind) and is_text(kind.key_type):
        return {"type": "map", "values": _nullable(kind.item_field, name)}
    if pa.types.is_struct(kind):
        return _record(name, [(field, field.nullable) for field in kind])
    found = family(kind)
    if found == "decimal":
        return {"type": "bytes", "logicalType": found, "precision": kind.precision, "scale": kind.scale}
    made = _TYPES.get(str(kind)) or _TYPES.get(found)
    if found == "timestamp":
        local = "" if kind.tz else "local-"
        made = {"type": "long", "logicalType": f"{local}timestamp-{_UNITS.get(kind.unit)}"}
    if made is None or getattr(kind, "unit", "") == "ns":
        raise SchemaError(f"Avro has no type for {kind}; cast the column, or leave it out")
    return made


_TYPES: Mapping[str, Any] = {
    "boolean": "boolean",
    **dict.fromkeys(("int8", "int16", "int32", "uint8", "uint16"), "int"),
    **dict.fromkeys(("uint32", "int64"), "long"),
    **dict.fromkeys(("halffloat", "float"), "float"),
    "double": "double",
    "text": "string",
    "bytes": "bytes",
    "date": {"type": "int", "logicalType": "date"},
    "time": {"type": "long", "logicalType": "time-micros"},
}
"""The types of Avro, by a type of Arrow or its family."""
