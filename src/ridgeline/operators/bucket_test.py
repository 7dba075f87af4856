"""Try a new version of an operator on a share of a live stream, beside the old one."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import pyarrow as pa
from pydantic import Field

from ridgeline.api import Application, InputPort, Module, Operator, OutputPort, RidgelineError, State
from ridgeline.api.errors import shorten
from ridgeline.api.operator import operator_type
from ridgeline.operators.flow import Sampler, chosen

Rows = dict[Any, list[Mapping[str, Any]]]


class BucketDifference(NamedTuple):
    """A key whose results differ in a window: those of the old version, and those of the new one.

    Example:
        >>> BucketDifference(3, "IBM", "cents=18", "cents=11").old
        'cents=18'
    """

    window: int
    key: str
    old: str
    new: str


class BucketCounts(NamedTuple):
    """How many keys of the bucket had results in a window, and how many of them differ.

    Example:
        >>> BucketCounts(3, keys=20, different=1).different
        1
    """

    window: int
    keys: int
    different: int


class BucketTest(Module):
    """Give a share of a stream to a new version of an operator, and compare its results with the old one's.

    `old` and `new` are operators with one input port and one output port, error ports aside. A `share`
    of the keys, the bucket, goes to `new`. `key` is their column in the stream, and also in the results if
    there is no `result_key`. `old` still gets everything, and `output` has its results. So nothing
    changes downstream. With `replace=True` the bucket goes to `new` only, `output` has the results of both,
    and nothing is compared.

    `differences` has each key whose results differ in a window, `counts` one tuple for each window with
    results. `tolerance`: floats are equal if they are apart by at most so much, or this part of the larger.
    Inside are the operators `sampler`, `current`, `candidate` and `compare`, whose state has the totals.

    Example:
        >>> from typing import NamedTuple
        >>> from ridgeline import Application
        >>> from ridgeline.operators import BucketTest, Map
        >>> from ridgeline.testing import CollectorSink, ListInput, run_local
        >>> class Price(NamedTuple):
        ...     symbol: str
        ...     cents: int
        >>> old = Map(lambda price: price._replace(cents=price.cents * 2), schema=Price)
        >>> new = Map(lambda price: price._replace(cents=price.cents + price.cents % 7), schema=Price)
        >>> app = Application("prices")
        >>> prices = app.add_operator("prices", ListInput(Price, [("IBM", 3), ("SAP", 9)]))
        >>> bucket = app.add_module("bucket", BucketTest(old, new, key="symbol", share=1.0))
        >>> sink = app.add_operator("sink", CollectorSink(Price))
        >>> differences = app.add_operator("differences", CollectorSink())
        >>> app.add_stream("prices", prices.output, bucket.data)
        >>> app.add_stream("results", bucket.output, sink.input)
        >>> app.add_stream("differences", bucket.differences, differences.input)
        >>> run_local(app).collected("differences")
        [{'window': 0, 'key': 'SAP', 'old': 'cents=18', 'new': 'cents=11'}]
    """

    data = InputPort(Any)
    output = OutputPort(Any)
    differences = OutputPort(BucketDifference, optional=True)
    counts = OutputPort(BucketCounts, optional=True)

    old: Any
    new: Any
    key: str
    share: float = Field(default=0.1, ge=0, le=1)
    seed: int = 0
    replace: bool = False
    result_key: str | None = None
    tolerance: float = Field(default=0.0, ge=0)

    def populate(self, app: Application) -> None:
        """Add both versions, the sampler before the new one, and what compares them."""
        (old_in, old_out), (new_in, new_out) = _ports(self.old), _ports(self.new)
        sampler = app.add_operator("sampler", Sampler(share=self.share, key=self.key, seed=self.seed))
        old, new = app.add_operator("current", self.old), app.add_operator("candidate", self.new)
        key = self.result_key or self.key
        compare = app.add_operator(
            "compare",
            BucketComparison(
                key=key,
                share=self.share,
                seed=self.seed,
                tolerance=self.tolerance,
                compares=not self.replace,
            ),
            partitions=1,
        )
        self.data.connect(sampler.data)
        app.add_stream("bucket", sampler.output, getattr(new, new_in))
        if self.replace:
            app.add_stream("rest", sampler.rest, getattr(old, old_in))
        else:
            self.data.connect(getattr(old, old_in))
        app.add_stream("old", getattr(old, old_out), compare.old)
        app.add_stream("new", getattr(new, new_out), compare.new)
        self.output.connect(compare.output)
        self.differences.connect(compare.differences)
        self.counts.connect(compare.counts)


class BucketComparison(Operator):
    """Compares the results of two versions of an operator by window and key: a part of `BucketTest`.

    It passes on the results of `old`; if it does not compare, those of both.
    """

    old = InputPort(Any)
    new = InputPort(Any)
    output = OutputPort(Any)
    differences = OutputPort(BucketDifference, optional=True)
    counts = OutputPort(BucketCounts, optional=True)

    key: str
    share: float
    seed: int = 0
    tolerance: float = 0.0
    compares: bool = True

    keys = State(0, moves="sum")
    different = State(0, moves="sum")

    def begin_window(self, window_id: int) -> None:
        """No results so far."""
        self.of_old: Rows = defaultdict(list)
        self.of_new: Rows = defaultdict(list)

    @old.process_batch
    def take_old(self, batch: pa.RecordBatch) -> None:
        """Pass results on, and keep those of the bucket."""
        self.output.emit_batch(batch)
        if self.compares:
            mask = chosen([self._column(batch)], self.share, self.seed)
            self._keep(self.of_old, batch.filter(pa.array(mask, pa.bool_())))

    @new.process_batch
    def take_new(self, batch: pa.RecordBatch) -> None:
        """Keep results."""
        if self.compares:
            self._keep(self.of_new, batch)
        else:
            self.output.emit_batch(batch)

    def _column(self, batch: pa.RecordBatch) -> pa.Array:
        if self.key not in batch.schema.names:
            what = f"`{self.context.name}` compares by the key `{self.key}`, which results do not have"
            raise RidgelineError(f"{what}; they have {batch.schema.names}; give `result_key`")
        return batch.column(self.key)

    def _keep(self, rows: Rows, batch: pa.RecordBatch) -> None:
        for key, row in zip(self._column(batch).to_pylist(), batch.to_pylist(), strict=True):
            rows[key].append(row)

    def end_window(self) -> None:
        """Compare, count, and emit what differs."""
        keys = dict.fromkeys([*self.of_old, *self.of_new])
        different = 0
        for key in keys:
            old, new = self.of_old.get(key, []), self.of_new.get(key, [])
            if not self._equal(old, new):
                different += 1
                texts = _texts(self.key, old, new), _texts(self.key, new, old)
                self.differences.emit(
                    BucketDifference(self.context.window_id, shorten(key).strip("'"), *texts)
                )
        if keys:
            self.keys += len(keys)
            self.different += different
            self.counts.emit(BucketCounts(self.context.window_id, len(keys), different))

    def _equal(self, old: list[Mapping[str, Any]], new: list[Mapping[str, Any]]) -> bool:
        """True if two versions have the same results for a key, in any order."""
        return len(old) == len(new) and all(
            one.keys() == other.keys() and all(self._alike(one[name], other[name]) for name in one)
            for one, other in zip(sorted(old, key=_rank), sorted(new, key=_rank), strict=True)
        )

    def _alike(self, one: object, other: object) -> bool:
        if isinstance(one, float) and isinstance(other, float):
            if math.isnan(one) or math.isnan(other):
                return math.isnan(one) and math.isnan(other)
            return math.isclose(one, other, rel_tol=self.tolerance, abs_tol=self.tolerance)
        return one == other


def _rank(row: Mapping[str, Any]) -> tuple[str, ...]:
    """The sort key of rows of one key: all but floats first, then floats in few digits."""
    return tuple(
        sorted(repr(value) for value in row.values() if not isinstance(value, float))
        + [f"{value:.6g}" for value in row.values() if isinstance(value, float)]
    )


def _texts(key: str, rows: list[Mapping[str, Any]], others: list[Mapping[str, Any]]) -> str:
    """Rows of a key in a text, without columns that are the same on both sides."""
    if len(rows) == len(others) == 1 and rows[0].keys() == others[0].keys():
        return ", ".join(
            f"{name}={shorten(value)}" for name, value in rows[0].items() if value != others[0][name]
        )
    return "; ".join(
        ", ".join(f"{name}={shorten(value)}" for name, value in row.items() if name != key) for row in rows
    )


def _ports(operator: Operator) -> Iterator[str]:
    """The names of the only input port and the only output port. Raises RidgelineError."""
    declared = operator_type(type(operator))
    inputs = list(declared.inputs)
    outputs = [name for name, port in declared.outputs.items() if not port.error]
    if len(inputs) != 1 or len(outputs) != 1:
        kind, found = type(operator).__name__, f"inputs {inputs} and outputs {outputs}"
        raise RidgelineError(
            f"`BucketTest` takes operators with one input and one output port; `{kind}` has {found}"
        )
    return iter((inputs[0], outputs[0]))
