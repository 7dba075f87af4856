"""Join of streams by key."""

from __future__ import annotations

from typing import Any, ClassVar

import pyarrow as pa

from ridgeline.api import InputPort, KeyedState, OutputPort, SchemaError, SchemaType
from ridgeline.operators._shaped import T, handed_on
from ridgeline.operators.key_value import (
    FirstColumnCodec,
    KeyValOperator,
    check_columns,
    distinct,
    last_rows,
)


class ConsolidatorKeyVal(KeyValOperator[T]):
    """Join two to five key-value streams by key into one tuple.

    Inputs: `in1` ... `in5`, each `(key, value, ...)`; `in2` to `in5` are optional. Output: `schema`, whose
    first column is the key. Each other column takes the input column of the same name; names must differ
    between inputs. At the end of the (application) window one tuple is emitted for each key that came on any
    port. Keys are emitted in the order in which they came. A tuple has the newest value of every column, also
    from earlier windows, and None where no value has come yet. Raises SchemaError for an input column that
    `schema` lacks.

    Partitions: by key, the same on all ports. Round robin is refused with RidgelineError: equal keys would
    not meet.

    Example:
        >>> from typing import NamedTuple
        >>> from ridgeline import Application
        >>> from ridgeline.operators import ConsolidatorKeyVal
        >>> from ridgeline.testing import CollectorSink, ListInput, run_local
        >>> class Price(NamedTuple):
        ...     symbol: str
        ...     price: float
        >>> class Volume(NamedTuple):
        ...     symbol: str
        ...     shares: int
        >>> class Quote(NamedTuple):
        ...     symbol: str
        ...     price: float | None
        ...     shares: int | None
        >>> app = Application("quotes")
        >>> prices = app.add_operator("prices", ListInput(Price, [("IBM", 3.0), ("SAP", 9.0)]))
        >>> volumes = app.add_operator("volumes", ListInput(Volume, [("IBM", 70)]))
        >>> join = app.add_operator("join", ConsolidatorKeyVal(schema=Quote))
        >>> sink = app.add_operator("sink", CollectorSink(Quote))
        >>> app.add_stream("prices", prices.output, join.in1)
        >>> app.add_stream("volumes", volumes.output, join.in2)
        >>> app.add_stream("quotes", join.out, sink.input)
        >>> for quote in run_local(app).collected("sink"):
        ...     print(quote)
        Quote(symbol='IBM', price=3.0, shares=70)
        Quote(symbol='SAP', price=9.0, shares=None)
    """

    emits: ClassVar[str] = "out"

    in1 = InputPort(Any, codec=FirstColumnCodec())
    in2 = InputPort(Any, codec=FirstColumnCodec(), optional=True)
    in3 = InputPort(Any, codec=FirstColumnCodec(), optional=True)
    in4 = InputPort(Any, codec=FirstColumnCodec(), optional=True)
    in5 = InputPort(Any, codec=FirstColumnCodec(), optional=True)
    out = OutputPort[T](Any)

    schema: SchemaType[T]

    newest = KeyedState(tuple)  # the values of each key, in the order of the schema's columns after the first

    def _note(self, port: str, batch: pa.RecordBatch) -> None:
        """Merge the newest row of each key in a batch of `port` into `newest`.

        Raises SchemaError for a column that the output lacks.
        """
        check_columns(batch, 2, None, "ConsolidatorKeyVal")
        columns = self.output_schema().names[1:]
        unknown = [name for name in batch.schema.names[1:] if name not in columns]
        if unknown:
            found = f"got a `schema` with the values {columns}"
            raise SchemaError(
                f"column `{unknown[0]}` of port `{port}` has no place in the output; {found}; "
                "add it, or rename it before"
            )
        keys, index = distinct(batch.column(0))
        self.refuse_strays(keys)
        last = batch.take(pa.array(last_rows(index, len(keys))))
        places = [columns.index(name) for name in batch.schema.names[1:]]
        rows = zip(*(column.to_pylist() for column in last.columns[1:]), strict=True)
        nothing, joined = (None,) * len(columns), []
        for key, row in zip(keys.to_pylist(), rows, strict=True):
            values = list(self.newest.get(key, nothing))
            for place, value in zip(places, row, strict=True):
                values[place] = value
            self.newest[key] = tuple(values)
            joined.append(values)
        if joined:
            self.check_fit([keys, *map(list, zip(*joined, strict=True))])

    _note_1 = handed_on(in1, _note, "in1")
    _note_2 = handed_on(in2, _note, "in2")
    _note_3 = handed_on(in3, _note, "in3")
    _note_4 = handed_on(in4, _note, "in4")
    _note_5 = handed_on(in5, _note, "in5")

    def end_window(self) -> None:
        """Emit the newest values of the keys that came in the window."""
        self.emit_values(dict(self.newest.changed()))
