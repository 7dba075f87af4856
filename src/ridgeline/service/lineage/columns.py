"""Which columns of the inputs each column of an output is made of, as far as the plan says it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from ridgeline.api.columns.schema import Schema
from ridgeline.plan.logical import LogicalOperator, LogicalPlan
from ridgeline.service.lineage.datasets import Dataset, datasets_of

_PASSING = frozenset(
    {
        "Deduplicate",
        "Delay",
        "Filter",
        "FilterRows",
        "LatestByKey",
        "LimitRate",
        "Sampler",
        "Sort",
        "Split",
        "Branch",
        "SplitByShare",
        "TopByKey",
        "Union",
        "Validate",
        "WithTimes",
    }
)
"""Operators whose tuples are tuples of their inputs, column by column."""


class Source(NamedTuple):
    """A column of an input. `same`: it is passed on as it is, else something is computed of it."""

    dataset: Dataset
    field: str
    same: bool


Sources = frozenset[Source] | None
"""Where a column comes from; None: not known, since a function made it. Empty: from no dataset."""
Columns = Mapping[str, Sources]


def column_lineage(plan: LogicalPlan) -> dict[str, Columns]:
    """By name of each operator, where the columns of the tuples that it takes come from.

    Expressions are known, and so are operators that only pass tuples on. Columns that typed functions,
    aggregates and joins make are not.
    """
    made: dict[tuple[str, str], Columns] = {}
    taken: dict[str, Columns] = {}
    into: dict[str, list[tuple[str, str]]] = {}
    for stream in plan.streams:
        for sink in stream.sinks:
            into.setdefault(sink.operator, []).append((stream.source.operator, stream.source.port))
    for operator in plan.operators:
        above = [made.get(source, {}) for source in into.get(operator.name, ())]
        inputs = joined(above)
        taken[operator.name] = inputs
        for port, schema in operator.outputs.items():
            made[operator.name, port] = _made(operator, schema, inputs)
    return taken


def names_of(schema: Schema) -> tuple[str, ...]:
    """The columns of a schema; none of a stream of `object`."""
    return () if schema.pickled else tuple(schema.arrow.names)


def joined(above: list[Columns]) -> Columns:
    """The columns of several streams; one that is not known in one of them is not known."""
    found: dict[str, Sources] = {}
    for columns in above:
        for name, sources in columns.items():
            known = found.get(name, frozenset())
            found[name] = None if sources is None or known is None else known | sources
    return found


def _made(operator: LogicalOperator, schema: Schema, inputs: Columns) -> Columns:
    """Where the columns of an output come from."""
    names = names_of(schema)
    one = operator.operator
    if operator.is_input:
        datasets = datasets_of(one)
        return {name: frozenset(Source(dataset, name, same=True) for dataset in datasets) for name in names}
    kinds = {kind.__name__ for kind in type(one).__mro__ if kind.__module__.startswith("ridgeline.operators")}
    if kinds & _PASSING:
        return {name: inputs.get(name) for name in names}
    if "FrameStep" in kinds:
        return _of_expressions(one, operator.inputs, names, inputs)
    return dict.fromkeys(names)


def _of_expressions(
    step: Any, schemas: Mapping[str, Schema], names: tuple[str, ...], inputs: Columns
) -> Columns:
    """Where the columns of a step come from whose columns are expressions."""
    plan = step.plan(schemas["input"])
    found: dict[str, Sources] = {}
    for column in plan.made:
        name = column.field.name
        if column.source is not None:
            found[name] = inputs.get(column.source)
        elif name in plan.roots:
            parts = [inputs.get(root) for root in plan.roots[name]]
            known = [part for part in parts if part is not None]
            whole = len(known) == len(parts)
            found[name] = (
                frozenset(one._replace(same=False) for part in known for one in part) if whole else None
            )
        else:
            found[name] = None
    return {name: found.get(name) for name in names}
