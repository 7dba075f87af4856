"""Consecutive steps as one query of polars, which the last of them runs for all.

A step hands the next one `PendingTuples` in place of a batch. Their query has the steps so far. The last step
runs it: over the columns that the steps read, in one call, and in its own thread. Columns that pass stay the
Arrow arrays that came in.

A query computes the same as its steps one by one. Columns that Arrow would change on the way end it. So do
expressions that polars does not write as data.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa

from ridgeline.api.columns.combined import PendingError, PendingQuery
from ridgeline.api.columns.tuples import Tuples
from ridgeline.api.context import Lent
from ridgeline.operators.frames._columns import Plan
from ridgeline.operators.frames._expressions import expression_of, imported, refuse_other, tree
from ridgeline.operators.frames._types import array_of, frame_of, keeps_values

if TYPE_CHECKING:
    import polars as pl

    from ridgeline.operators.frames._predicate import Predicate

FIRST, EVERY = 3, 32
"""Step by step run the first batches of a query, and of the later ones each of so many."""
_KEPT = 0.75
"""The weight of what was measured before, beside a new measurement."""
_MASK = "mask"


class Step(NamedTuple):
    """A step of a query: the operator whose it is, and how it makes its columns.

    `operator` has the ports `input` and `output`, and `output` has the columns of the plan.
    """

    operator: Any
    plan: Plan


class Shares:
    """The shares of a query's time that its steps have, by measurements. At first they are equal."""

    def __init__(self, count: int) -> None:
        self._sums = [0.0] * count
        self._measured = 0

    def add(self, seconds: Sequence[float]) -> None:
        """Take in a measurement of all steps. The first one, with what is done only once, is replaced."""
        kept = 0.0 if self._measured <= 1 else _KEPT
        self._sums = [kept * before + one for before, one in zip(self._sums, seconds, strict=True)]
        self._measured += 1

    def of(self, seconds: float) -> list[float]:
        """Time divided among the steps."""
        whole = sum(self._sums)
        if whole <= 0:
            return [seconds / len(self._sums)] * len(self._sums)
        return [seconds * one / whole for one in self._sums]


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
        self._wall, self._cpu = Shares(len(operators)), Shares(len(operators))
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
        wall, processor = clock.monotonic() - began, clock.cpu() - cpu
        self._lend(runner, self._wall.of(wall), self._cpu.of(processor), estimated=True)
        return made, mask

    def make(self, source: Tuples) -> pa.RecordBatch:
        """The batch of the result, step by step, for who looks at it; its time is not lent."""
        return self._one_by_one(source)[0]

    def _measured(self, source: Tuples, runner: Any) -> tuple[pa.RecordBatch, pa.Array | None]:
        """`run` one step after the other, each measured."""
        made, mask, wall, cpu = self._one_by_one(source)
        self._wall.add(wall)
        self._cpu.add(cpu)
        self._lend(runner, wall, cpu, estimated=False)
        return made, mask

    def _one_by_one(
        self, source: Tuples
    ) -> tuple[pa.RecordBatch, pa.Array | None, Sequence[float], Sequence[float]]:
        """The result, the mask, and the seconds and processor seconds of each step. Raises PendingError."""
        batch, mask, operator = source.batch, None, self._operators[0]
        clock = operator.context.clock
        wall, cpu = [clock.monotonic()], [clock.cpu()]
        try:
            for operator, plan in self.steps:
                batch = operator.output.conformed(plan.run(batch, alone=True))
                wall.append(clock.monotonic())
                cpu.append(clock.cpu())
            if self._predicate is not None:
                operator = self._filter
                mask = self._predicate.mask(batch, alone=True)
                wall.append(clock.monotonic())
                cpu.append(clock.cpu())
        except BaseException as error:
            raise PendingError(operator, Tuples.of_batch(operator.input.schema, batch)) from error
        return batch, mask, _differences(wall), _differences(cpu)

    def _lend(self, runner: Any, wall: Sequence[float], cpu: Sequence[float], *, estimated: bool) -> None:
        """Note for whom `runner` has spent this time: what it spent for others is not its own."""
        lent = runner.context.engine.lent
        whole = processor = 0.0
        for operator, seconds, cpu_seconds in zip(self._operators, wall, cpu, strict=True):
            if operator is not runner:
                lent.append(Lent(operator.context.operator_id, seconds, cpu_seconds, estimated))
                whole, processor = whole + seconds, processor + cpu_seconds
        lent.append(Lent(runner.context.operator_id, -whole, -processor, estimated))


def _differences(readings: Sequence[float]) -> list[float]:
    return [after - before for before, after in pairwise(readings)]


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

    `needed`: the columns that it reads. `stages`: the expressions that do not read each other's columns.
    `made`: for each column of the result its name, the column of the input that it is, and else that of the
    query. `mask`: the column of the query with the predicate.
    """

    needed: Sequence[str]
    stages: Sequence[Sequence[pl.Expr]]
    made: Sequence[tuple[str, str | None, str]]
    mask: str | None

    def run(self, batch: pa.RecordBatch) -> tuple[pa.RecordBatch, pa.Array | None]:
        """The result of a batch, and the mask. Raises what polars raises for a value."""
        frame = self.query(frame_of(batch.select(self.needed)))
        arrays = [
            batch.column(source) if source is not None else array_of(frame[name])
            for _, source, name in self.made
        ]
        names = [name for name, _, _ in self.made]
        return pa.RecordBatch.from_arrays(arrays, names), array_of(frame[self.mask]) if self.mask else None

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
        return _Composing(steps[0].plan).of(steps, predicate)
    except BaseException as error:  # noqa: BLE001  of polars: what it cannot compose runs step by step
        refuse_other(error)
        return None


class _Apart(Exception):  # noqa: N818  no error: it ends the attempt
    """Steps cannot be one query."""


class _Composing:
    """Makes one query of steps over the columns that the first one gets.

    Each column that a step computes has a name of its own in the query, so none replaces another one.
    """

    def __init__(self, first: Plan) -> None:
        self._empty = first.empty
        sources = first.columns.names
        self._used = set(sources)
        self._named: dict[str, str] = {name: name for name in sources}
        """By name of a column as the next step sees it, its name in the query."""
        self._stage = dict.fromkeys(sources, 0)
        """By name in the query, the stage that computes it, from 1; 0: it comes in."""
        self._sources = frozenset(sources)
        self._types: dict[str, Any] = {}
        self._needed: dict[str, None] = {}
        self._stages: list[list[pl.Expr]] = []

    def of(self, steps: Sequence[Step], predicate: Predicate | None) -> _Common:
        """The query. Raises _Apart, and what polars raises."""
        for _, plan in steps:
            self._add_step(plan)
        mask = None
        if predicate is not None:
            if predicate.function is not None:
                raise _Apart
            mask = self._add(predicate.expression, _MASK, imported().Boolean, predicate.needed)
        made = []
        for name in self._named:
            inner = self._named[name]
            made.append((name, inner if inner in self._sources else None, inner))
        if not self._needed or not made:
            raise _Apart  # polars would not know how many rows there are
        common = _Common(tuple(self._needed), self._stages, made, mask)
        found = common.query(self._empty.select(common.needed)).schema
        if any(found[name] != kind for name, kind in self._types.items()):
            raise _Apart
        return common

    def _add_step(self, plan: Plan) -> None:
        """Add the columns that a step computes, and name its result for the next one. Raises _Apart."""
        if plan.functions:
            raise _Apart
        for name, dtype in plan.empty.schema.items():
            inner = self._named[name]
            if inner not in self._sources and self._types[inner] != dtype:
                raise _Apart  # a batch in between would have changed its type
        computed: dict[str, str] = {}
        for expression, names in zip(plan.expressions, plan.computed, strict=True):
            if len(names) != 1 or expression.meta.has_multiple_outputs():
                raise _Apart
            (name,) = names
            computed[name] = self._add(expression, name, plan.dtypes[name], plan.roots[name])
        self._named = {
            made.field.name: self._named[made.source]
            if made.source is not None
            else computed[made.field.name]
            for made in plan.made
        }

    def _add(self, expression: pl.Expr, name: str, dtype: Any, roots: Sequence[str]) -> str:
        """Add an expression to the first stage that has all that it reads; returns its name in the query."""
        inner = name
        number = 1
        while inner in self._used:
            inner, number = f"{name}_{number}", number + 1
        self._used.add(inner)
        read = [self._named[root] for root in roots]
        self._needed |= dict.fromkeys(one for one in read if one in self._sources)
        stage = 1 + max((self._stage[one] for one in read), default=0)
        self._stage[inner], self._types[inner] = stage, dtype
        if len(self._stages) < stage:
            self._stages.append([])
        self._stages[stage - 1].append(_reading(expression, self._named).alias(inner))
        return inner


def _reading(expression: pl.Expr, names: Mapping[str, str]) -> pl.Expr:
    """The expression over the query's columns. In it they still have the names that the author gave them.

    `names`: by the author's name of a column, its name in the query. Raises _Apart if it is no data.
    """
    node = tree(expression)
    if node is None:
        raise _Apart
    if all(names[root] == root for root in expression.meta.root_names()):
        return expression
    return expression_of(json.dumps(_renamed(node, names)))


def _renamed(node: Any, names: Mapping[str, str]) -> Any:
    """A node of an expression that reads other columns, by aliases: fields and functions see the old names.

    Literals stay. Raises _Apart where polars ignores aliases.
    """
    if isinstance(node, list):
        return [_renamed(one, names) for one in node]
    if not isinstance(node, dict):
        return node
    if "KeepName" in node:
        raise _Apart
    name = node.get("Column")
    if isinstance(name, str):
        return node if names[name] == name else {"Alias": [{"Column": names[name]}, name]}
    return {kind: part if kind == "Literal" else _renamed(part, names) for kind, part in node.items()}
