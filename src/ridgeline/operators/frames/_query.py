"""Consecutive steps as one query of polars, which the last of them runs for all.

A step hands the next one `PendingTuples` in place of a batch. Their query has the steps so far. The last step
runs it: over the columns that the steps read, in one call, and in its own thread. Columns that pass stay the
Arrow arrays that came in.

A query computes the same as its steps one by one. Columns that Arrow would change on the way end it. So do
expressions that polars does not write as data.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import chain, pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa

from ridgeline.api.columns.combined import PendingError, PendingQuery
from ridgeline.api.columns.tuples import Tuples
from ridgeline.api.context import Lent
from ridgeline.operators.frames._columns import Plan
from ridgeline.operators.frames._expressions import imported, refuse_other, tree
from ridgeline.operators.frames._types import array_of, frame_of, keeps_values

if TYPE_CHECKING:
    import polars as pl

    from ridgeline.operators.frames._predicate import Predicate

FIRST, EVERY = 3, 32
"""Step by step run the first batches of a query, and of the later ones each of so many."""
_KEPT = 0.75
"""The weight of what was measured before, beside a new measurement."""
_MASK = "\1mask"
"""The column of a query with the predicate; no other has such a name."""


class Step(NamedTuple):
    """A step of a query: the operator whose it is, and how it makes its columns.

    `operator` has the ports `input` and `output`, and `output` has the columns of the plan.
    """

    operator: Any
    plan: Plan


Spent = Sequence[tuple[float, float]]
"""Seconds and processor seconds of each step."""


class Shares:
    """The shares of a query's times that its steps have, by measurements. At first they are equal."""

    def __init__(self, count: int) -> None:
        self._sums: Spent = [(0.0, 0.0)] * count
        self._measured = 0

    def add(self, spent: Spent) -> None:
        """Take in a measurement of all steps. The first one, with what is done only once, is replaced."""
        kept = 0.0 if self._measured <= 1 else _KEPT
        both = zip(self._sums, spent, strict=True)
        self._sums = [(kept * one[0] + other[0], kept * one[1] + other[1]) for one, other in both]
        self._measured += 1

    def of(self, wall: float, cpu: float) -> Spent:
        """Times divided among the steps."""
        walls, cpus = (sum(sums) for sums in zip(*self._sums, strict=True))
        equal = 1 / len(self._sums)
        return [
            (wall * (one / walls if walls > 0 else equal), cpu * (own / cpus if cpus > 0 else equal))
            for one, own in self._sums
        ]


class Query(PendingQuery):
    """Steps over batches of the columns that the first of them gets, and perhaps the predicate of a filter.

    It is made once for the plans of its steps, and the query without the last one keeps it. A step whose
    properties have changed has a new plan, and so another query.

    `filtering`: the filter and its predicate.
    """

    def __init__(self, steps: Sequence[Step], filtering: tuple[Any, Predicate] | None = None) -> None:
        self.steps = tuple(steps)
        self._filter: Any
        self._predicate: Predicate | None
        self._filter, self._predicate = filtering or (None, None)
        operators = [step.operator for step in steps] + ([self._filter] if filtering else [])
        self._operators: Sequence[Any] = operators
        self._common = _common(self.steps, self._predicate) if len(operators) > 1 else None
        self.can_be_followed = filtering is None and _can_be_followed(*steps[-1])
        """Whether the next step may compute its columns from these without a batch in between."""
        self._shares = Shares(len(operators))
        self._runs = 0
        self._next: tuple[object, Query | None] | None = None

    @classmethod
    def first(cls, operator: Any, plan: Plan) -> Query | None:
        """The query of one step; None if no other step can be joined to it."""
        if plan.query is None:
            made = cls([Step(operator, plan)])
            plan.query = (made if made.can_be_followed else None,)
        found: Query | None = plan.query[0]
        return found

    def then(self, operator: Any, plan: Plan) -> Query | None:
        """The query with one more step; None if that must run by itself."""
        return self._follow(plan, lambda: Query([*self.steps, Step(operator, plan)]))

    def filtered(self, operator: Any, predicate: Predicate) -> Query | None:
        """The query with the predicate of a filter; None if that must run by itself."""
        return self._follow(predicate, lambda: Query(self.steps, (operator, predicate)))

    def _follow(self, key: object, make: Callable[[], Query]) -> Query | None:
        if self._next is None or self._next[0] is not key:
            made = make()
            self._next = key, None if made._common is None else made  # noqa: SLF001  of its own class
        return self._next[1]

    def run(self, source: Tuples, runner: Any = None) -> tuple[pa.RecordBatch, pa.Array | None]:
        """The batch of the result, and for each row whether the predicate is true.

        In the callback of `runner`, an operator: by default the last of the query. Time that it spends for
        others is lent to them. If the query fails, the steps run one by one, so the one at fault is named.
        Raises PendingError.
        """
        runner = self._operators[-1] if runner is None else runner
        number, self._runs = self._runs, self._runs + 1
        if self._common is None or number < FIRST or number % EVERY == 0:
            return self._measured(source, runner)
        clock = runner.context.clock
        began, cpu = clock.monotonic(), clock.cpu()
        try:
            made, mask = self._common.run(source.batch)
            made = self.steps[-1].operator.output.conformed(made)
        except BaseException as error:  # noqa: BLE001  of polars, which has panics beside exceptions
            refuse_other(error)
            found = self._measured(source, runner)
            self._common = None  # its steps succeed, so it is not the same
            return found
        spent = self._shares.of(clock.monotonic() - began, clock.cpu() - cpu)
        self._lend(runner, spent, estimated=True)
        return made, mask

    def make(self, source: Tuples) -> pa.RecordBatch:
        """The batch of the result, step by step, for who looks at it; its time is not lent."""
        return self._one_by_one(source)[0]

    def _measured(self, source: Tuples, runner: Any) -> tuple[pa.RecordBatch, pa.Array | None]:
        """`run` one step after the other, each measured."""
        made, mask, spent = self._one_by_one(source)
        self._shares.add(spent)
        self._lend(runner, spent, estimated=False)
        return made, mask

    def _one_by_one(self, source: Tuples) -> tuple[pa.RecordBatch, pa.Array | None, Spent]:
        """The result, the mask, and the times of each step. Raises PendingError."""
        batch, mask, operator = source.batch, None, self._operators[0]
        clock = operator.context.clock
        readings = [(clock.monotonic(), clock.cpu())]
        try:
            for operator, plan in self.steps:
                batch = operator.output.conformed(plan.run(batch, alone=True))
                readings.append((clock.monotonic(), clock.cpu()))
            if self._predicate is not None:
                operator = self._filter
                mask = self._predicate.mask(batch, alone=True)
                readings.append((clock.monotonic(), clock.cpu()))
        except BaseException as error:
            raise PendingError(operator, Tuples.of_batch(operator.input.schema, batch)) from error
        return batch, mask, [(end[0] - begin[0], end[1] - begin[1]) for begin, end in pairwise(readings)]

    def _lend(self, runner: Any, spent: Spent, *, estimated: bool) -> None:
        """Note for whom `runner` has spent this time: what it spent for others is not its own."""
        lent = runner.context.engine.lent
        whole = processor = 0.0
        for operator, (seconds, cpu_seconds) in zip(self._operators, spent, strict=True):
            if operator is not runner:
                lent.append(Lent(operator.context.operator_id, seconds, cpu_seconds, estimated))
                whole, processor = whole + seconds, processor + cpu_seconds
        lent.append(Lent(runner.context.operator_id, -whole, -processor, estimated))


def _can_be_followed(operator: Any, plan: Plan) -> bool:
    """True if what a step computes would be the same in a batch, as its port has it."""
    columns = operator.output.schema
    if plan.functions or not isinstance(columns.type, pa.Schema):
        return False
    fields = [made.field for made in plan.made]
    return (
        columns.arrow.names == [field.name for field in fields]
        and all(
            port.type == field.type and (port.nullable or not field.nullable)
            for port, field in zip(columns.arrow, fields, strict=True)
        )
        and all(map(keeps_values, plan.dtypes.values()))
    )


@dataclass(frozen=True)
class _Common:
    """Steps as one query of polars.

    `needed`: the columns that it reads. `stages`: the expressions of each step. `made`: for each column of
    the result its name, and the column of the input that it is, None for one of the query.
    `masks`: the query has a column with the predicate.
    """

    needed: Sequence[str]
    stages: Sequence[Sequence[pl.Expr]]
    made: Sequence[tuple[str, str | None]]
    masks: bool

    def run(self, batch: pa.RecordBatch) -> tuple[pa.RecordBatch, pa.Array | None]:
        """The result of a batch, and the mask. Raises what polars raises for a value."""
        frame = self.query(frame_of(batch.select(self.needed)))
        arrays = [
            array_of(frame[name]) if source is None else batch.column(source) for name, source in self.made
        ]
        names = [name for name, _ in self.made]
        return pa.RecordBatch.from_arrays(arrays, names), array_of(frame[_MASK]) if self.masks else None

    def query(self, frame: Any) -> Any:
        """The frame with all columns that the steps compute."""
        lazy = frame.lazy()
        for stage in self.stages:
            # one expression after the other: a thread that waits for others has no processor time to show
            lazy = lazy.with_columns_seq(stage)
        return lazy.collect(engine="in-memory", optimizations=_optimizations())


@cache
def _optimizations() -> Any:
    """The changes that polars may make to a query: all columns are computed, also those without a reader."""
    return imported().QueryOptFlags.none(simplify_expression=True)


def _common(steps: Sequence[Step], predicate: Predicate | None) -> _Common | None:
    """Steps as one query; None if they cannot be one."""
    try:
        return _composed([step.plan for step in steps], predicate)
    except BaseException as error:  # noqa: BLE001  of polars: what it cannot compose runs step by step
        refuse_other(error)
        return None


def _composed(plans: Sequence[Plan], predicate: Predicate | None) -> _Common | None:
    """The query, in which each step computes its columns in the place of equal names; None if there is none.

    A column that comes in is not in the query unless an expression reads it. Raises what polars raises.
    """
    sources: dict[str, str] = {name: name for name in plans[0].columns.names}
    """By name of a column as the next step sees it, the column of the input that it is."""
    kinds: dict[str, Any] = {}
    """By name of a column that a step has computed, its type in polars."""
    for plan in plans:
        if plan.functions or not all(map(_is_one_column, plan.expressions)):
            return None
        if any(plan.empty.schema[name] != kind for name, kind in kinds.items()):
            return None  # a batch in between would have changed its type
        computed = {name: plan.dtypes[name] for name, source in plan.passed.items() if source is None}
        kinds = {name: kinds[one] for name, one in plan.passed.items() if one in kinds} | computed
        sources = {name: sources[one] for name, one in plan.passed.items() if one in sources}
    if predicate is not None and predicate.function is not None:
        return None
    read = {*kinds, *(() if predicate is None else predicate.needed)}
    stages: list[list[pl.Expr]] = [] if predicate is None else [[predicate.expression.alias(_MASK)]]
    for plan in reversed(plans):
        kept = {name: one for name, one in plan.passed.items() if one is not None and name in read}
        copies = [imported().col(one).alias(name) for name, one in kept.items() if one != name]
        stages.insert(0, [*copies, *plan.expressions])
        read = {*chain.from_iterable(plan.roots.values()), *kept.values()}
    made = [(name, sources.get(name)) for name in plans[-1].passed]
    if not read or not made:
        return None  # polars would not know how many rows there are
    needed = [name for name in plans[0].columns.names if name in read]
    common = _Common(needed, [one for one in stages if one], made, predicate is not None)
    found = common.query(plans[0].empty.select(needed)).schema
    return common if all(found[name] == kind for name, kind in kinds.items()) else None


def _is_one_column(expression: pl.Expr) -> bool:
    """True if an expression makes one column, whatever the others are, and polars writes it as data."""
    return not expression.meta.has_multiple_outputs() and tree(expression) is not None
