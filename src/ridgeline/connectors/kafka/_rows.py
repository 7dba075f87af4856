"""Rows of records, as the input makes them, and records of rows, as the output sends them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from ridgeline.api.columns.casting import is_bytes, is_text
from ridgeline.api.columns.nulls import optional_columns
from ridgeline.api.columns.schema import Schema
from ridgeline.api.errors import RidgelineError, did_you_mean
from ridgeline.api.times import NO_TIME, Microseconds, column_times
from ridgeline.connectors.kafka._client import RegistrySettings
from ridgeline.operators._kinds import zero
from ridgeline.operators.payloads import Decoder, PayloadFormat, Registry, decode, decoder_of, encoder_of

HEADER = "header."
METADATA = ("topic", "partition", "offset", "timestamp", "key", "value", "headers")
"""The contents of columns beside the fields of a value; and `header.NAME`."""
_TOMBSTONE = "it is a tombstone (a null value); name a column of booleans by `deleted`"
_NO_TIME: int = np.iinfo(np.int64).min


class Header(NamedTuple):
    """A header of a message of Kafka.

    Example:
        >>> Header("trace", b"7f").name
        'trace'
    """

    name: str
    value: bytes | None


class KafkaRecord(NamedTuple):
    """A message of Kafka as it is: what `KafkaInput` emits without a `schema`.

    `timestamp`: of its producer, or of the broker. `value` is None in a tombstone.

    Example:
        >>> from datetime import UTC, datetime
        >>> at = datetime(2026, 1, 1, tzinfo=UTC)
        >>> KafkaRecord("orders", 0, 5, at, b"ann", b"{}", []).offset
        5
    """

    topic: str
    partition: int
    offset: int
    timestamp: datetime
    key: bytes | None
    value: bytes | None
    headers: list[Header]


class Rows(NamedTuple):
    """Messages as rows. `times`: microseconds since 1970. `bad`: the messages that do not fit, and why."""

    batch: pa.RecordBatch
    times: npt.NDArray[np.int64]
    bad: Mapping[int, str]


class RowsMaker(NamedTuple):
    """The properties of a `KafkaInput` that say how a message becomes a row.

    `key`: the columns that the key has. `metadata`: what other columns hold. `deleted`: the column that says
    that it is a tombstone.
    """

    format: PayloadFormat
    key: Sequence[str]
    key_format: PayloadFormat
    metadata: Mapping[str, str]
    deleted: str | None
    registry: RegistrySettings | None
    message: Any
    written: Any

    def faults(self, schema: Schema) -> list[tuple[str, object, str]]:
        """Columns that the schema lacks or that are named twice, and formats that cannot have them."""
        names = schema.arrow.names
        faults: list[tuple[str, object, str]] = []
        given = [("key", name) for name in self.key] + [("metadata", name) for name in self.metadata]
        given += [("deleted", self.deleted)] if self.deleted is not None else []
        for place, (what, name) in enumerate(given):
            if name not in names:
                faults.append((what, name, f"names no column of `schema`; {did_you_mean(str(name), names)}"))
            elif name in [other for _, other in given[:place]]:
                faults.append((what, name, "names a column that is filled already"))
        for name, what in self.metadata.items():
            if what not in METADATA and not what.startswith(HEADER):
                rule = (
                    f"must be one of {', '.join(METADATA)}, or `header.NAME`; {did_you_mean(what, METADATA)}"
                )
                faults.append((f"metadata.{name}", what, rule))
        if not faults:
            try:
                self._decoders(schema, None)
            except RidgelineError as error:
                faults.append(("format", self.format, f"does not fit `schema`: {error}"))
        return faults

    def made(self, schema: Schema) -> Callable[[Sequence[Any]], Rows]:
        """The function that makes rows of messages. It may raise UnavailableError, of the registry."""
        return _MakingRows(self, schema, self.registry.client() if self.registry else None)

    def value_schema(self, schema: Schema) -> Schema:
        """The columns of the value."""
        others = {*self.key, *self.metadata, *([] if self.deleted is None else [self.deleted])}
        return part_of(schema, [name for name in schema.arrow.names if name not in others])

    def _decoders(self, schema: Schema, registry: Registry | None) -> tuple[Decoder | None, Decoder | None]:
        """Those of value and key; None where neither has columns. Raises RidgelineError."""
        of_value, of_key = self.value_schema(schema), part_of(schema, self.key)
        value = key = None
        if len(of_value.arrow):
            own = registry if self.format in ("avro", "protobuf", "json") else None
            value = decoder_of(
                self.format, of_value, registry=own, message=self.message, written=self.written
            )
        if self.key:
            own = registry if self.key_format == "avro" else None
            key = decoder_of(self.key_format, of_key, registry=own)
        return value, key


def part_of(schema: Schema, names: Sequence[str]) -> Schema:
    """Some columns of a schema, which may be null where they may be there."""
    optional = optional_columns(schema)
    fields = [schema.arrow.field(name).with_nullable(name in optional) for name in names]
    return Schema(pa.schema(fields))


class _MakingRows:
    """Makes rows of the messages of one partition."""

    def __init__(self, maker: RowsMaker, schema: Schema, registry: Registry | None) -> None:
        self._maker, self._schema = maker, schema
        self._value, self._key = maker._decoders(schema, registry)  # noqa: SLF001  its own half
        self._value_names = maker.value_schema(schema).arrow.names
        self._optional = optional_columns(schema)
        self._fillers = {field.name: _filler(field, field.name in self._optional) for field in schema.arrow}

    def __call__(self, messages: Sequence[Any]) -> Rows:
        """The rows of the messages that fit, in their order."""
        values: list[Any] = [message.value() for message in messages]
        bad: dict[int, str] = {}
        columns: dict[str, tuple[pa.Array, npt.NDArray[np.int64]]] = {}
        if self._value is not None:
            payloads = {row: value for row, value in enumerate(values) if value is not None}
            if len(payloads) < len(values) and self._maker.deleted is None:
                bad.update((row, _TOMBSTONE) for row, value in enumerate(values) if value is None)
            self._decode(self._value, self._value_names, payloads, len(values), columns, bad)
        if self._key is not None:
            keys = [message.key() for message in messages]
            payloads = {row: key for row, key in enumerate(keys) if key is not None}
            self._decode(self._key, self._maker.key, payloads, len(keys), columns, bad)
            if len(payloads) < len(keys) and not set(self._maker.key) <= self._optional:
                bad.update((row, "it has no key") for row, key in enumerate(keys) if key is None)
        for name, what in self._maker.metadata.items():
            columns[name] = self._metadata(what, name, messages, bad), _ALL
        good = np.array([row for row in range(len(messages)) if row not in bad], np.int64)
        arrays = [self._column(field, columns, good, values) for field in self._schema.arrow]
        stamps = np.array([message.timestamp()[1] for message in messages], np.int64)[good]
        times = np.where(stamps >= 0, stamps * 1_000, _NO_TIME)
        return Rows(pa.RecordBatch.from_arrays(arrays, schema=self._schema.arrow), times, bad)

    def _decode(
        self,
        decoder: Decoder,
        names: Sequence[str],
        payloads: Mapping[int, bytes],
        count: int,
        columns: dict[str, tuple[pa.Array, npt.NDArray[np.int64]]],
        bad: dict[int, str],
    ) -> None:
        """Decode payloads, by row, into columns, each with the place of every one of `count` rows in it."""
        here = list(payloads)
        decoded = decode(decoder, list(payloads.values()))
        bad.update((here[row], reason) for row, reason in decoded.bad.items() if here[row] not in bad)
        rows = [here[row] for row in decoded.rows]
        places = _ALL
        if len(rows) < count:
            places = np.full(count, -1, np.int64)
            places[rows] = np.arange(len(rows))
        for name in names:
            columns[name] = decoded.batch.column(name), places

    def _column(
        self,
        field: pa.Field,
        columns: Mapping[str, tuple[pa.Array, npt.NDArray[np.int64]]],
        good: npt.NDArray[np.int64],
        values: Sequence[Any],
    ) -> pa.Array:
        """A column of the rows that fit; filled where a message has no such part."""
        if field.name == self._maker.deleted:
            return pa.array([values[row] is None for row in good], field.type)
        array, places = columns[field.name]
        if places is _ALL and len(array) == len(good):
            return array
        if places is _ALL:
            return array.take(pa.array(good))
        found = places[good]
        if len(found) and found.min() < 0:
            array = pa.concat_arrays([array, self._fillers[field.name]])
            found[found < 0] = len(array) - 1
        return array.take(pa.array(found))

    def _metadata(self, what: str, name: str, messages: Sequence[Any], bad: dict[int, str]) -> pa.Array:
        """A column of where messages are, of their keys as they are, or of headers."""
        kind = self._schema.arrow.field(name).type
        if what in ("topic", "partition", "offset"):
            return pa.array([getattr(message, what)() for message in messages], kind)
        if what == "timestamp":
            stamps = [stamp if (stamp := message.timestamp()[1]) >= 0 else None for message in messages]
            if pa.types.is_integer(kind):
                return pa.array(stamps, kind)
            return pa.array(stamps, pa.timestamp("ms", "UTC")).cast(kind)
        if what == "headers":
            return pa.array(
                [[Header(*one)._asdict() for one in message.headers() or ()] for message in messages], kind
            )
        if what in ("key", "value"):
            found = [getattr(message, what)() for message in messages]
        else:
            header = what.removeprefix(HEADER)
            found = [
                next((value for key, value in reversed(message.headers() or ()) if key == header), None)
                for message in messages
            ]
        return self._plain(found, kind, name, what, bad)

    def _plain(self, found: list[Any], kind: Any, name: str, what: str, bad: dict[int, str]) -> pa.Array:
        """Bytes as they are, or as text."""
        for row, value in enumerate(found):
            if value is None and name not in self._optional:
                bad.setdefault(row, f"it has no {what}, and `{name}` may not be null")
            elif is_text(kind) and value is not None:
                try:
                    found[row] = value.decode()
                except UnicodeDecodeError as error:
                    bad.setdefault(row, f"its {what} is no UTF-8: {error}")
                    found[row] = None
        return pa.array(found, kind)


_ALL = np.empty(0, np.int64)
"""The places of rows in a column that has one of each."""


def _filler(field: pa.Field, optional: bool) -> pa.Array:  # noqa: FBT001  of one field
    """The value of a column in a tombstone: null, or the type's zero where null is not allowed."""
    return pa.array([None if optional else zero(field.type)], field.type)


RECORD_METADATA = {name: name for name in METADATA}
"""Each field of a `KafkaRecord`."""


KEY, VALUE, TIMESTAMP, PARTITION, TOPIC = "key", "value", "timestamp", "partition", "topic"


class MessageMaker(NamedTuple):
    """The properties of a `KafkaOutput` that say how a row becomes a message."""

    topic: str
    format: PayloadFormat
    key: Sequence[str]
    key_format: PayloadFormat
    headers: Mapping[str, str]
    timestamp: str | None
    partition: str | None
    topic_column: str | None
    deleted: str | None
    registry: RegistrySettings | None
    message: Any
    written: Any

    def check(self, columns: pa.Schema, operator: str) -> None:
        """Raise RidgelineError for properties that the columns of the stream do not fit."""
        given: dict[str, Sequence[str]] = {"key": self.key, "headers": list(self.headers.values())}
        single: dict[str, tuple[str | None, Callable[[pa.DataType], bool], str]] = {
            "timestamp": (self.timestamp, pa.types.is_timestamp, "a timestamp"),
            "partition": (self.partition, pa.types.is_integer, "a whole number"),
            "topic_column": (self.topic_column, is_text, "text"),
            "deleted": (self.deleted, pa.types.is_boolean, "a boolean"),
        }
        given |= {what: [name] for what, (name, _, _) in single.items() if name is not None}
        for what, names in given.items():
            for name in names:
                if name not in columns.names:
                    hint = did_you_mean(name, columns.names)
                    raise RidgelineError(
                        f"`{operator}`: `{what}` names `{name}`, which the stream does not have; {hint}"
                    )
        for what, (column, fits, wanted) in single.items():
            if column is not None and not fits(kind := columns.field(column).type):
                raise RidgelineError(
                    f"`{operator}`: `{what}` names `{column}`, which is {kind}, not {wanted}"
                )
        for header, name in self.headers.items():
            kind = columns.field(name).type
            if not (is_text(kind) or is_bytes(kind)):
                raise RidgelineError(
                    f"`{operator}`: header `{header}` is column `{name}` of {kind}; give text or bytes"
                )
        if not self.value_names(columns):
            raise RidgelineError(
                f"`{operator}`: no column is left for the value of messages; keep one beside key and headers"
            )

    def value_names(self, columns: pa.Schema) -> list[str]:
        """The columns of the value: all but those of headers, topic, partition and tombstones.

        Those of the key are in it, but where the value is one column as it is.
        """
        others = {*self.headers.values(), self.partition, self.topic_column, self.deleted}
        names = [name for name in columns.names if name not in others]
        if self.format in ("text", "bytes"):
            return [name for name in names if name not in self.key and name != self.timestamp]
        return names

    def made(self, schema: Schema) -> _MakingMessages:
        """The function that makes messages of batches. Raises RidgelineError, UnavailableError."""
        return _MakingMessages(self, schema)


class _MakingMessages:
    """Makes messages of batches of one schema."""

    def __init__(self, maker: MessageMaker, schema: Schema) -> None:
        self._maker = maker
        self._names = maker.value_names(schema.arrow)
        registry = maker.registry.client() if maker.registry else None
        self._value = encoder_of(
            maker.format,
            part_of(schema, self._names),
            name=maker.topic,
            registry=registry if maker.format in ("avro", "protobuf") else None,
            subject=f"{maker.topic}-value",
            message=maker.message,
            written=maker.written,
        )
        self._key = None
        if maker.key:
            self._key = encoder_of(
                maker.key_format,
                part_of(schema, maker.key),
                name=f"{maker.topic}_key",
                registry=registry if maker.key_format == "avro" else None,
                subject=f"{maker.topic}-key",
            )

    def __call__(self, batch: pa.RecordBatch, times: Microseconds | None) -> pa.RecordBatch:
        """Key, value, timestamp (milliseconds since 1970, -1 for none) and more. Raises ValueError for a row.

        `times`: those of the records, where no column has them.
        """
        maker, count = self._maker, len(batch)
        values = pa.array(self._value(batch.select(self._names)), pa.binary())
        if maker.deleted is not None:
            gone = batch.column(maker.deleted).fill_null(False)  # noqa: FBT003  a value
            nothing = pa.nulls(count, pa.binary())
            values = pc.if_else(gone, nothing, values)
        columns = {VALUE: values}
        if self._key is not None:
            columns[KEY] = pa.array(self._key(batch.select(maker.key)), pa.binary())
        columns[TIMESTAMP] = pa.array(self._stamps(batch, times), pa.int64())
        if maker.partition is not None:
            columns[PARTITION] = batch.column(maker.partition).cast(pa.int32())
        if maker.topic_column is not None:
            columns[TOPIC] = batch.column(maker.topic_column).cast(pa.string())
        for header, name in maker.headers.items():
            column = batch.column(name)
            text = is_text(column.type)
            columns[HEADER + header] = (
                column.cast(pa.string()).cast(pa.binary()) if text else column.cast(pa.binary())
            )
        return pa.RecordBatch.from_pydict(columns)

    def _stamps(self, batch: pa.RecordBatch, times: Microseconds | None) -> Any:
        """The time of each message in milliseconds; -1 for none, or one before 1970."""
        if self._maker.timestamp is not None:
            newest = column_times(batch.column(self._maker.timestamp))
        elif times is not None:
            newest = times
        else:
            return np.full(len(batch), -1, np.int64)
        return np.where((newest == NO_TIME) | (newest < 0), -1, newest // 1_000)
