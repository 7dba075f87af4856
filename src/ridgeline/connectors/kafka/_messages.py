"""Rows as messages: in the containers, in parallel."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ridgeline.api.columns.casting import is_bytes, is_text
from ridgeline.api.columns.schema import Schema
from ridgeline.api.errors import RidgelineError, did_you_mean
from ridgeline.api.times import NO_TIME, Microseconds, column_times
from ridgeline.connectors.kafka._rows import part_of
from ridgeline.connectors.kafka._settings import RegistrySettings
from ridgeline.operators.payloads import PayloadFormat, encoder_of

KEY, VALUE, TIMESTAMP, PARTITION, TOPIC = "key", "value", "timestamp", "partition", "topic"
HEADER = "header."


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

    def made(self, schema: Schema) -> _Making:
        """The function that makes messages of batches. Raises RidgelineError, UnavailableError."""
        return _Making(self, schema)


class _Making:
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
