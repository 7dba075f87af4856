"""An output operator that keeps what it gets."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from ridgeline.api.operator import Operator
from ridgeline.api.ports import InputPort
from ridgeline.api.publisher import Publisher
from ridgeline.api.schema import Schema, holds_pickles


class CollectorSink(Operator):
    """Keeps the tuples of committed windows in the memory of the driver; `run.collected(name)` gives them back as `schema`'s tuples.

    Without a schema, as dictionaries (the values themselves if the stream is of `object`).
    """

    input = InputPort(Any)

    def __init__(self, schema: Any = Any) -> None:
        super().__init__()
        if schema is not Any:
            self.declare_schema("input", schema)

    @input.process_batch
    def collect(self, batch: pa.RecordBatch) -> None:
        """Hand a batch over to the driver."""
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, batch.schema) as stream:
            stream.write_batch(batch)
        self.context.hand_over(sink.getvalue().to_pybytes())

    def publisher(self) -> Collector:
        """The driver's half."""
        return Collector(self.port_schema("input"))


class Collector(Publisher):
    """The batches of committed windows, by window."""

    def __init__(self, schema: Schema | None) -> None:
        self.schema = schema
        self.windows: dict[int, list[pa.RecordBatch]] = {}
        self._staged: list[pa.RecordBatch] = []

    def stage(self, window_id: int, values: Sequence[Any]) -> None:
        """Open the batches."""
        self._staged = [batch for value in values for batch in pa.ipc.open_stream(value)]

    def publish(self, window_id: int) -> None:
        """Keep them."""
        if self._staged:
            self.windows[window_id] = self._staged
            self._staged = []

    def tuples(self, window: int | None) -> list[Any]:
        """The tuples of one window, or of all in order."""
        chosen = [window] if window is not None else sorted(list(self.windows))  # noqa: C414  a copy: windows may come meanwhile
        batches = [batch for window_id in chosen for batch in self.windows.get(window_id, [])]
        return [row for batch in batches for row in (self.schema or _schema_of(batch)).decode(batch)]


def collected(publishers: Mapping[str, Publisher], operator: str, window: int | None) -> list[Any]:
    """What a CollectorSink of a run got, of one window or of all.

    Raises KeyError naming the collectors that there are.
    """
    collectors = {
        name: publisher for name, publisher in publishers.items() if isinstance(publisher, Collector)
    }
    if operator not in collectors:
        msg = f"`{operator}` is not a CollectorSink; there are {sorted(collectors)}"
        raise KeyError(msg)
    return collectors[operator].tuples(window)


def _schema_of(batch: pa.RecordBatch) -> Schema:
    """The schema of a batch whose port takes whatever comes: `object` for pickled values, else its columns."""
    return Schema(object) if holds_pickles(batch) else Schema(batch.schema)
