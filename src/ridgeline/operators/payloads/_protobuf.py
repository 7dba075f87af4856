"""Protobuf: messages of one class, plain or with a registry's framing."""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa

from ridgeline.api.columns.casting import is_list, is_text
from ridgeline.api.columns.schema import Schema
from ridgeline.api.errors import RidgelineError, did_you_mean
from ridgeline.connect.extras import imported, library
from ridgeline.operators.payloads._columns import RecordColumns, RowEncoder
from ridgeline.operators.payloads._registry import FRAMED, Registry, frame, framed_id

_TIMESTAMP, _DURATION = "google.protobuf.Timestamp", "google.protobuf.Duration"


def message_class(declared: Any) -> Any:
    """The class of a Protobuf message.

    `declared`: a generated class, a text such as "shop_pb2:Order", or a descriptor of a message. Raises
    RidgelineError for anything else, and without protobuf.
    """
    library("google.protobuf", "Protobuf needs protobuf, which cannot be imported", "kafka")
    from google.protobuf import descriptor, message, message_factory

    found = imported(declared) if isinstance(declared, str) else declared
    if isinstance(found, descriptor.Descriptor):
        return message_factory.GetMessageClass(found)
    if isinstance(found, type) and issubclass(found, message.Message):
        return found
    raise RidgelineError(
        f"{declared!r} is no class of Protobuf messages; give a generated class, or `module:Class`"
    )


class ProtobufDecoder:
    """Decodes messages of one class into the columns of a schema: fields by name.

    A field that is not set is null where its presence is known, else its default. An enumeration is its name
    in a column of text, else its number. `framed`: behind a schema's id and the message's indexes.

    Raises RidgelineError for a column that the message does not have.
    """

    def __init__(self, schema: Schema, declared: Any, *, framed: bool = False) -> None:
        self._class = message_class(declared)
        self._columns = RecordColumns(schema)
        self._framed = framed
        self._indexes = indexes_of(self._class.DESCRIPTOR)
        fields = _fields_of(self._class.DESCRIPTOR, schema.arrow.names)
        self._getters = [(field.name, _getter(fields[field.name], field.type)) for field in schema.arrow]

    def __call__(self, values: Sequence[bytes]) -> pa.RecordBatch:
        """The batch. Raises ValueError, or what Arrow raises, if one does not fit."""
        return self._columns.batch(list(map(self._record, values)))

    def _record(self, value: bytes) -> dict[str, Any]:
        from google.protobuf.message import DecodeError

        body = self._unframed(value) if self._framed else value
        try:
            message = self._class.FromString(body)
        except (DecodeError, RuntimeError) as error:
            raise ValueError(f"it is no {self._class.DESCRIPTOR.full_name}: {error}") from error
        return {name: get(message) for name, get in self._getters}

    def _unframed(self, value: bytes) -> memoryview | bytes:
        framed_id(value)
        indexes, start = read_indexes(value, FRAMED)
        if indexes != self._indexes:
            name = self._class.DESCRIPTOR.full_name
            raise ValueError(
                f"its message has the indexes {indexes} in its schema, not {self._indexes} of {name}"
            )
        return value[start:]


def _fields_of(descriptor: Any, names: Sequence[str]) -> Mapping[str, Any]:
    """The fields of a message. Raises RidgelineError if it lacks one of these names."""
    fields: Mapping[str, Any] = descriptor.fields_by_name
    for name in names:
        if name not in fields:
            raise RidgelineError(
                f"the message {descriptor.full_name} has no field `{name}`; {did_you_mean(name, fields)}"
            )
    return fields


def _getter(field: Any, kind: Any) -> Callable[[Any], Any]:
    """The function that reads a field of a message as a value for a column of a type."""
    name, convert = field.name, _converter(field, kind)
    if _is_map(field):
        return lambda message: {key: convert(item) for key, item in getattr(message, name).items()}
    if _is_repeated(field):
        return lambda message: [convert(item) for item in getattr(message, name)]
    if field.has_presence:
        return lambda message: convert(getattr(message, name)) if message.HasField(name) else None
    return lambda message: convert(getattr(message, name))


def _converter(field: Any, kind: Any) -> Callable[[Any], Any]:
    """The function that makes a single value of a field fit a column."""
    if _is_map(field):
        field = field.message_type.fields_by_name["value"]
        kind = kind.item_type if pa.types.is_map(kind) else kind
    elif _is_repeated(field):
        kind = kind.value_type if is_list(kind) else kind
    if field.enum_type is not None and is_text(kind):
        names = {value.number: value.name for value in field.enum_type.values}
        return lambda number: names.get(number, str(number))
    if field.message_type is None:
        return lambda value: value
    whole = field.message_type.full_name
    if whole == _TIMESTAMP:
        return lambda value: value.ToDatetime(UTC)
    if whole == _DURATION:
        return lambda value: value.ToTimedelta()
    inner = {part.name: part.type for part in kind} if pa.types.is_struct(kind) else {}
    fields = field.message_type.fields_by_name
    getters = [(name, _getter(fields[name], part)) for name, part in inner.items() if name in fields]
    return lambda message: {name: get(message) for name, get in getters}


def _is_repeated(field: Any) -> bool:
    return bool(field.is_repeated if hasattr(field, "is_repeated") else field.label == field.LABEL_REPEATED)


def _is_map(field: Any) -> bool:
    return field.message_type is not None and field.message_type.GetOptions().map_entry


class ProtobufEncoder(RowEncoder):
    """Encodes each row of a batch as a message, behind its framing if there is a schema's id.

    Raises RidgelineError for a column that the message does not have.
    """

    def __init__(self, columns: pa.Schema, declared: Any, schema_id: int | None = None) -> None:
        self._class = message_class(declared)
        descriptor = self._class.DESCRIPTOR
        _fields_of(descriptor, columns.names)
        indexes = written_indexes(indexes_of(descriptor))
        framing = b"" if schema_id is None else frame(schema_id) + indexes
        super().__init__(f"the message {descriptor.full_name}", framing)

    def encoded(self, record: Mapping[str, Any]) -> bytes:
        """The message of a row: null, also within, is not set."""
        try:
            message = self._class(**record)
        except TypeError:
            message = self._class(**_with_parts(record))
        value: bytes = message.SerializeToString()
        return value


def _with_parts(value: Any) -> Any:
    """A value with the fields of its times and durations: within maps constructors take nothing else."""
    from google.protobuf.duration_pb2 import Duration
    from google.protobuf.timestamp_pb2 import Timestamp

    if isinstance(value, Mapping):
        return {name: _with_parts(item) for name, item in value.items()}
    if isinstance(value, list):
        return list(map(_with_parts, value))
    made: Any
    if isinstance(value, datetime):
        made = Timestamp()
        made.FromDatetime(value)
    elif isinstance(value, timedelta):
        made = Duration()
        made.FromTimedelta(value)
    else:
        return value
    return {"seconds": made.seconds, "nanos": made.nanos}


def registered_encoder(columns: Schema, subject: str, registry: Registry, declared: Any) -> ProtobufEncoder:
    """An encoder whose schema is registered under a subject. Raises RidgelineError, UnavailableError."""
    from google.protobuf import descriptor_pb2

    made = descriptor_pb2.FileDescriptorProto()
    message_class(declared).DESCRIPTOR.file.CopyToProto(made)
    text = base64.b64encode(made.SerializeToString()).decode()
    return ProtobufEncoder(columns.arrow, declared, registry.register(subject, "PROTOBUF", text))


# The indexes of a message in its file, as a registry's framing has them ----------------------------------


def indexes_of(descriptor: Any) -> list[int]:
    """Where a message stands in its file: its index, and within other messages theirs before."""
    indexes: list[int] = []
    while descriptor.containing_type is not None:
        indexes.insert(0, list(descriptor.containing_type.nested_types).index(descriptor))
        descriptor = descriptor.containing_type
    names = list(descriptor.file.message_types_by_name)
    return [names.index(descriptor.name), *indexes]


def written_indexes(indexes: Sequence[int]) -> bytes:
    """The indexes as zigzag variable-length numbers behind their count; of the first message a zero.

    >>> written_indexes([0]).hex(), written_indexes([1, 0]).hex()
    ('00', '040200')
    """
    if list(indexes) == [0]:
        return b"\0"
    return b"".join(map(_varint, (len(indexes), *indexes)))


def read_indexes(value: bytes, start: int) -> tuple[list[int], int]:
    """The indexes that begin at a byte, and where they end. Raises ValueError if they do not.

    >>> read_indexes(bytes.fromhex("040200"), 0)
    ([1, 0], 3)
    """
    count, place = _read_varint(value, start)
    if count == 0:
        return [0], place
    indexes = []
    for _ in range(count):
        index, place = _read_varint(value, place)
        indexes.append(index)
    return indexes, place


def _varint(number: int) -> bytes:
    number, made = number << 1, bytearray()
    while number > 0x7F:  # noqa: PLR2004  seven bits a byte
        made.append(number & 0x7F | 0x80)
        number >>= 7
    made.append(number)
    return bytes(made)


def _read_varint(value: bytes, place: int) -> tuple[int, int]:
    """The zigzag number that begins at a byte, and where it ends. Raises ValueError."""
    number = shift = 0
    while place < len(value) and shift < 64:  # noqa: PLR2004  bits of a number
        byte = value[place]
        place += 1
        number |= (byte & 0x7F) << shift
        if byte < 0x80:  # noqa: PLR2004  the last byte
            if number & 1:
                break
            return number >> 1, place
        shift += 7
    raise ValueError("it ends within the indexes of its message, or has a wrong one")
