"""Check ports that need the order of a key's tuples: that no operator before them loses it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ridgeline.api.attributes import RecordingLevel
from ridgeline.api.errors import Faults, did_you_mean, listed, shorten
from ridgeline.api.ports import Order
from ridgeline.plan.build.key_agreement import determines, key_of, shown_key
from ridgeline.plan.draft import Draft
from ridgeline.plan.logical import End, LogicalOperator
from ridgeline.plan.validate.attributes import member_of

_NEEDS = "it needs the tuples of a key in order"


def check_order(draft: Draft, faults: Faults) -> None:
    """Refuse ports whose order is lost, declared orders that are none, and promises of unknown columns."""
    for operator in draft.operators:
        _check_promises(faults, operator)
        reported: set[tuple[str, str]] = set()
        for name in operator.declared.inputs:
            order = _order_of(draft, faults, operator, name)
            if order is None or name not in operator.entered:
                continue
            for at, what, remedy in _losses(operator, name, order):
                if (at, what) not in reported:  # another port may have the same operators before it
                    reported.add((at, what))
                    faults.add(operator.port(name), f"{_NEEDS}, but {what}", remedy)


def _order_of(draft: Draft, faults: Faults, operator: LogicalOperator, name: str) -> Order | None:
    """The order that an input port needs; None for none, or if what is declared is faulty."""
    declared: Any = operator.declared.inputs[name].order
    if declared is None:
        return None
    order = member_of(faults, operator.port(name), "order", Order, declared)
    if order is Order.BY_TIME and draft.attributes.get("metrics_recording_level") is RecordingLevel.OFF:
        what = "the port takes its tuples in the order of their times, but they have none at "
        what += "`metrics_recording_level` OFF"
        faults.add(operator.port(name), what, "set it to INFO, or leave it out")
    return order


def _check_promises(faults: Faults, operator: LogicalOperator) -> None:
    """Refuse `divided_by` with columns that the port's tuples do not have."""
    for name, port in operator.declared.outputs.items():
        schema = operator.outputs.get(name)
        if schema is None or not port.divided_by:
            continue
        columns = [] if schema.pickled else schema.arrow.names
        for column in port.divided_by:
            if column not in columns:
                what = f"its `divided_by` names the column {_named(column)}, which is not in"
                remedy = did_you_mean(str(column), columns) if columns else "leave it out"
                faults.add(operator.port(name), f"{what} {schema.describe()}", remedy)


def _losses(operator: LogicalOperator, port: str, order: Order) -> Iterator[tuple[str, str, str]]:
    """Where the order of a port's tuples is lost: (name of the operator, what is wrong, remedy) each."""
    todo = [(operator, port, port not in operator.followed)] if order is Order.KEPT else []
    seen: set[tuple[str, bool]] = set()
    while todo:
        at, entered, merged = todo.pop()
        source = at.entered[entered]
        if source is None or (source.operator.name, merged) in seen:
            continue
        seen.add((source.operator.name, merged))
        lost = list(_round_robin(source.operator, operator))
        yield from lost
        if merged and not lost:
            yield from _scattered(source, operator, _key(operator, port))
        followed = source.operator.followed
        todo += [(source.operator, name, merged or name not in followed) for name in source.operator.entered]
    yield from _round_robin(operator, operator)


def _round_robin(at: LogicalOperator, operator: LogicalOperator) -> Iterator[tuple[str, str, str]]:
    ports = sorted({port for part in at.divided for port in part.round_robin})
    if ports and (at.partitions or 1) > 1:
        which = "it" if at is operator else f"`{at.name}` before it"
        keyed = f"declare `{ports[0]} = InputPort(..., key=...)` in `{at.kind}`"
        remedy = f"{keyed}, or give `{at.name}` one partition"
        yield at.name, f"{which} is divided round robin among {at.partitions} partitions", remedy


def _scattered(source: End, operator: LogicalOperator, mine: object) -> Iterator[tuple[str, str, str]]:
    """Say why the partitions of an operator, which are merged, may each have tuples of one key."""
    at, count = source.operator, source.operator.partitions or 1
    if count == 1 or at.followed:
        return
    sort = f"or let `{operator.name}` take them by their times, `InputPort(..., order=Order.BY_TIME)`"
    promised = at.declared.every_output[source.port].divided_by
    if promised or at.is_input:
        if not promised:
            what = f"each of the {count} partitions of `{at.name}` before it may emit tuples of one key"
            remedy = f"give `{at.name}` one partition, promise that a key comes from one partition, "
            yield at.name, what, f"{remedy}`{source.port} = OutputPort(..., divided_by=...)`, {sort}"
        elif not determines(mine, promised):
            what = f"`{at.name}` before it is divided by {listed(list(promised))}, not by {shown_key(mine)}"
            yield at.name, what, f"divide both by one key, give `{at.name}` one partition, {sort}"
        return
    divided = [name for name in at.declared.inputs if any(name in part.keys for part in at.divided)]
    if not divided and at.divided:
        what = f"each of the {count} partitions of `{at.name}` before it gets all tuples"
        yield at.name, what, f"give `{at.name}` one partition, {sort}"
    for name in divided:
        if not determines(mine, theirs := _key(at, name)):
            what = f"`{at.name}` before it is divided by {shown_key(theirs)}, not by {shown_key(mine)}"
            yield at.name, what, f"divide both by one key, give `{at.name}` one partition, {sort}"


def _key(operator: LogicalOperator, port: str) -> object:
    return key_of(operator.declared.inputs[port].codec, operator.inputs.get(port))


def _named(column: object) -> str:
    return f"`{column}`" if isinstance(column, str) else shorten(column)
