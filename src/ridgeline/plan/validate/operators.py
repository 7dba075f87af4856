"""Check what was added as operators: names, instances, properties, attributes, metrics."""

from __future__ import annotations

import copy
import math
import re
from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any, get_args

from ridgeline.api.application import Node
from ridgeline.api.cells.migrations import faults_of
from ridgeline.api.errors import Faults, did_you_mean, shorten
from ridgeline.api.operator import Operator, operator_type
from ridgeline.api.support.attribute import Scope
from ridgeline.api.support.own_metric import AGGREGATES, MetricKind, MetricOptions
from ridgeline.measure.topology import MetricNode
from ridgeline.plan.build.port_attributes import inherited_by_operator
from ridgeline.plan.build.property_values import decoded, property_faults
from ridgeline.plan.draft import Draft
from ridgeline.plan.logical import LogicalOperator
from ridgeline.plan.validate.attributes import check_attributes, count_application_window

_DIGITS_A_BIT = math.log10(2)


def set_properties(
    faults: Faults,
    owner: str,
    component: Any,
    overrides: Mapping[str, object],
    remedies: Mapping[str, str] = MappingProxyType({}),
) -> bool:
    """Apply overrides to an operator or a module of the draft, called `owner`; validate its properties.

    `remedies`: what to do about properties that are missing, by their names. Returns False with a fault.
    """
    known = set(operator_type(type(component)).properties) - {"context"}
    values = vars(component)
    # entries after whole properties
    for name, value in sorted(overrides.items(), key=lambda given: given[0] not in known):
        with faults.noting(f"{owner}.{name}"):
            values.update([decoded(component, owner, name, value)])
    found = property_faults(component, remedies)
    for name, what, remedy in found:
        option = f" or with `-D {owner}.{name}=...`" if name in known else ""
        faults.add(f"{owner}.{name}" if name else owner, what, f"{remedy}{option}")
    for name in overrides:
        if (digits := _digits_beyond(values.get(name.partition(".")[0]))) and name.partition(".")[0] in known:
            what = f"a number that is given from outside has at most 64 bits; got one of {digits} digits"
            faults.add(f"{owner}.{name}", what, "give one between -2**63 and 2**63 - 1")
    return not found


def _digits_beyond(value: object) -> int:
    """How many digits a whole number has that does not fit into 64 bits, or one within; 0: there is none."""
    if isinstance(value, (list, tuple, set)):
        return max(map(_digits_beyond, value), default=0)
    if isinstance(value, Mapping):
        return max(map(_digits_beyond, value.values()), default=0)
    if isinstance(value, int) and not -(2**63) <= value < 2**63:
        return int(value.bit_length() * _DIGITS_A_BIT) + 1
    return 0


def read_operators(draft: Draft, faults: Faults) -> None:
    """Add all operators to the draft."""
    for node in draft.graph.nodes.values():
        draft.owners[node.name] = _read(draft, faults, node)


def _read(draft: Draft, faults: Faults, node: Node) -> LogicalOperator:
    """Copy an operator, with properties and attributes, into the draft; the author's instance stays as is."""
    where = node.name
    operator = LogicalOperator(where, copy.copy(node.operator))
    values = vars(operator.operator)
    if "_schemas" not in values:
        what = f"`{operator.kind}.__init__` does not call the `__init__` of `Operator`"
        faults.add(where, what, "call `super().__init__(**properties)` in it")
    values["_schemas"] = dict(values.get("_schemas", {}))
    values["_given"] = dict(values.get("_given", {}))
    if node.migrations:
        values["_migrations"] = node.migrations
    for what, remedy in faults_of(operator.operator, operator_type(type(operator.operator)).states):
        faults.add(where, what, remedy)
    operator.sound = set_properties(faults, where, operator.operator, node.properties, node.remedies)
    given = node.attributes
    operator.given = set(given)
    inherited = inherited_by_operator(draft.attributes)
    operator.attributes, operator.doubtful = check_attributes(faults, where, Scope.OPERATOR, given, inherited)
    count_application_window(draft, faults, where, operator.attributes, given, operator.doubtful)
    return operator


_MOST_METRICS = 1_000
_NAME = re.compile(r"[a-zA-Z][a-zA-Z0-9_]{0,99}")
_UNIT = re.compile(r"[a-z][a-z0-9_]{0,29}")
_SUFFIXES = ("_total", "_bucket", "_count", "_sum", "_info", "_created")
"""Suffixes to which Prometheus gives a meaning of its own."""


def check_metrics(draft: Draft, faults: Faults) -> None:
    """Add the faults of all declared metrics."""
    exported: dict[str, tuple[str, MetricOptions]] = {}
    count = 0
    for operator in draft.operators:
        declared = operator.declared.metrics
        count += len(declared)
        for name, options in declared.items():
            where, wrong = operator.port(name), False
            for what, remedy in _faults(options):
                faults.add(where, f"metric `{name}` of `{operator.kind}`: {what}", remedy)
                wrong = True
            if not wrong:
                _check_exported(faults, where, options, exported)
    for part in draft.graph.parts.values():
        for name in part.declared.metrics:
            what = f"the module `{part.kind}` declares the metric `{name}`, which nothing would read"
            faults.add(part.name, what, "declare it in an operator of the module")
    if count > _MOST_METRICS:
        what = f"the operators declare {count} metrics, the most is {_MOST_METRICS}"
        faults.add(draft.graph.name, what, "leave some out: each is kept for 1,000 windows")


def _check_exported(
    faults: Faults, where: str, options: MetricOptions, exported: dict[str, tuple[str, MetricOptions]]
) -> None:
    """Add a fault if another metric has the same name on `/metrics` and means something else there."""
    name = _exported_name(options)
    family = name.removesuffix("_total")
    other, known = exported.setdefault(family, (where, options))
    alike = (options.name, options.kind, options.unit) == (known.name, known.kind, known.unit)
    if not alike:
        what = f"metrics `{other}` and `{where}` are both `{family}` on `/metrics`"
        what += ", and differ in kind or unit"
        faults.add(where, what, "call one of them something else, or declare both alike")


def _exported_name(options: MetricOptions) -> str:
    return MetricNode("", options.name, options.kind, "", unit=options.unit).exported_name


def _faults(options: MetricOptions) -> Iterator[tuple[str, str]]:
    """The faults of a declaration, each with its remedy."""
    if hasattr(Operator, options.name):
        yield "every operator has something of this name", "call it something else"
    ending = next((suffix for suffix in _SUFFIXES if options.name.endswith(suffix)), "")
    if not _NAME.fullmatch(options.name):
        yield "its name cannot be one of Prometheus", "use letters, digits and `_`, at most 100"
    elif ending:
        yield f"names that end in `{ending}` have a meaning in Prometheus", "leave the ending out"
    unit: object = options.unit
    if not isinstance(options.help, str):
        yield f"its help is {shorten(options.help)}", "give a text"
    if not isinstance(unit, str) or (unit and not _UNIT.fullmatch(unit)):
        yield f"its unit {shorten(unit)} cannot be part of a name", "give a word such as `seconds`"
    if type(options.default) not in {int, float} or not math.isfinite(options.default):
        yield f"its default is {shorten(options.default)}", "give a finite `int` or `float`"
    yield from _faults_of_kind(options)


def _faults_of_kind(options: MetricOptions) -> Iterator[tuple[str, str]]:
    """The faults of kind and aggregate."""
    if isinstance(options.aggregate, str):
        if options.aggregate not in AGGREGATES:
            hint = did_you_mean(options.aggregate, AGGREGATES)
            yield f"there is no aggregate {shorten(options.aggregate)}", f"{hint}; or give a function"
    elif not callable(options.aggregate):
        known = ", ".join(AGGREGATES)
        yield f"its aggregate is {shorten(options.aggregate)}", f"give one of {known}, or a function"
    if options.kind not in get_args(MetricKind):
        yield f"there is no kind {shorten(options.kind)}", "give `gauge` or `counter`"
    elif options.cumulative and options.kind != "counter":
        yield "only counters can be `cumulative`", 'add `kind="counter"`'
    elif options.kind == "counter" and isinstance(options.aggregate, str) and options.aggregate != "sum":
        yield f"a counter adds up, but its aggregate is `{options.aggregate}`", "leave `aggregate` out"
