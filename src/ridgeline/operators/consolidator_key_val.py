"""Join of streams by key."""

from __future__ import annotations

from typing import Any, ClassVar

import pyarrow as pa

from ridgeline.api import InputPort, KeyedState, OutputPort, SchemaError
from ridgeline.operators.key_value import FirstColumnCodec, KeyValOperator, check_columns, distinct, last_rows


class ConsolidatorKeyVal(KeyValOperator):
    """Join two to five key-value streams by key into one tuple.

    Inputs: `in1` ... `in5`, each `(key, value, ...)`; ports after the first need not be connected. Output:
    `schema`, whose first column is the key; each other column takes the input column of the same name (names
    must differ between inputs). At the end of the (application) window one tuple is emitted for each key that
    came on any port in it, with the newest value of every column, be it of this window or of one before, and
    None where none has come yet; keys in the order in which they came.

    Partitions: by key, the same on all ports. Round robin is refused with RidgelineError: equal keys would
    not meet. Raises SchemaError for an input column that `schema` lacks.
    """

    emits: ClassVar[str] = "out"

    in1 = InputPort(Any, codec=FirstColumnCodec())
    in2 = InputPort(Any, codec=FirstColumnCodec(), optional=True)
    in3 = InputPort(Any, codec=FirstColumnCodec(), optional=True)
    in4 = InputPort(Any, codec=FirstColumnCodec(), optional=True)
    in5 = InputPort(Any, codec=FirstColumnCodec(), optional=True)
    out = OutputPort(Any)

    newest: KeyedState[Any] = KeyedState(
        tuple
    )  # the values of each key, in the order of the schema's columns after the first

    @in1.process_batch
    def note_1(self, batch: pa.RecordBatch) -> None:
        """Remember the newest values of port `in1`."""
        self._note("in1", batch)

    @in2.process_batch
    def note_2(self, batch: pa.RecordBatch) -> None:
        """Remember the newest values of port `in2`."""
        self._note("in2", batch)

    @in3.process_batch
    def note_3(self, batch: pa.RecordBatch) -> None:
        """Remember the newest values of port `in3`."""
        self._note("in3", batch)

    @in4.process_batch
    def note_4(self, batch: pa.RecordBatch) -> None:
        """Remember the newest values of port `in4`."""
        self._note("in4", batch)

    @in5.process_batch
    def note_5(self, batch: pa.RecordBatch) -> None:
        """Remember the newest values of port `in5`."""
        self._note("in5", batch)

    def _note(self, port: str, batch: pa.RecordBatch) -> None:
        check_columns(batch, 2, None, "ConsolidatorKeyVal")
        columns = self.output_schema().names[1:]
        unknown = [name for name in batch.schema.names[1:] if name not in columns]
        if unknown:
            found = f"got a `schema` with the values {columns}"
            message = f"column `{unknown[0]}` of port `{port}` has no place in the output; {found}; add it, or rename it before"
            raise SchemaError(message)
        keys, index = distinct(batch.column(0))
        self.refuse_strays(keys)
        last = batch.take(pa.array(last_rows(index, len(keys))))
        places = [columns.index(name) for name in batch.schema.names[1:]]
        rows = zip(*(column.to_pylist() for column in last.columns[1:]), strict=True)
        nothing = (None,) * len(columns)
        for key, row in zip(keys.to_pylist(), rows, strict=True):
            values = list(self.newest.get(key, nothing))
            for place, value in zip(places, row, strict=True):
                values[place] = value
            self.newest[key] = tuple(values)

    def end_window(self) -> None:
        """Emit the newest values of the window's keys."""
        changed = dict(self.newest.changed())
        if changed:
            self.emit_columns([list(changed), *map(list, zip(*changed.values(), strict=True))])
