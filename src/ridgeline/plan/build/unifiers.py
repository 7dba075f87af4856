"""The unifier of a port, and cascades of unifiers."""

from __future__ import annotations

import copy
from typing import Any

from ridgeline.api.cells.keyed_declaration import Lifetimes
from ridgeline.api.codec import StreamCodec
from ridgeline.api.columns.schema import Schema
from ridgeline.api.errors import SchemaError, shorten
from ridgeline.api.operator import Operator, PassThroughUnifier, Unifier, operator_type, port_schema
from ridgeline.api.state import KeyedState
from ridgeline.plan.build.callbacks import callback_faults
from ridgeline.plan.build.property_values import property_faults


def make_unifier(operator: Operator, port: str, *, slides: bool = False) -> Operator:
    """Create the unifier of an operator's port, or what merges its slides, with validated properties."""
    declared = operator.slider_of(port) if slides else operator.unifier_of(port)
    declared = PassThroughUnifier if declared is None else declared
    unifier = declared() if isinstance(declared, type) else copy.copy(declared)
    property_faults(unifier)
    unifier.settle_properties()
    return unifier


def lasting_states(unifier: type) -> list[str]:
    """The states that a class of unifiers keeps for longer than an application window."""
    states = operator_type(unifier).states
    return [name for name, state in states.items() if state.scope != "window" and name != "_waiting"]


def unifier_ports(unifier: Operator) -> tuple[str, str]:
    """The names of its input and its output port."""
    declared = operator_type(type(unifier))
    (entry,), (leaving,) = declared.inputs, declared.outputs
    return entry, leaving


def unifier_faults(
    operator: Operator, port: str, schema: Schema | None, *, slides: bool = False
) -> list[tuple[str, str]]:
    """Find what is wrong with the unifier of a port with `schema` (None: not known): (what, remedy).

    `slides`: with what merges its slides.
    """
    declared: Any = operator.slider_of(port) if slides else operator.unifier_of(port)
    if declared is None:
        return []
    kind = declared if isinstance(declared, type) else type(declared)
    if not issubclass(kind, Unifier) and declared is not operator:
        shown = f"`{kind.__name__}`" if issubclass(kind, Operator) else shorten(declared)
        remedy = "derive it from `Unifier`, with one input port and one output port"
        return [(f"its unifier {shown} is no `Unifier`", remedy)]
    try:
        unifier = declared() if isinstance(declared, type) else copy.copy(declared)
    except TypeError as error:
        what = f"its unifier `{kind.__name__}` cannot be made: {error}"
        return [(what, f"give an instance, `unifier={kind.__name__}(...)`")]
    faults = [(f"its unifier: {what}", remedy) for _, what, remedy in property_faults(unifier)]
    ports = operator_type(kind)
    faults += [(f"its unifier: {what}", remedy) for _, what, remedy in callback_faults(unifier)]
    if len(ports.inputs) != 1 or len(ports.outputs) != 1:
        counts = f"{len(ports.inputs)} input ports and {len(ports.outputs)} output ports"
        return [*faults, (f"its unifier `{kind.__name__}` has {counts}", "give it one of each")]
    for name in (*ports.inputs, *ports.outputs):
        try:
            own = port_schema(unifier, name)
        except SchemaError as error:
            faults.append((f"port `{name}` of its unifier `{kind.__name__}`: {error}", "declare a schema"))
            continue
        if own is not None and schema is not None and own != schema:
            what = f"port `{name}` of its unifier `{kind.__name__}` has the schema {own.describe()}"
            what += f", but the port has {schema.describe()}"
            difference = schema.difference(own) or f"`{own.name}` is not `{schema.name}`"
            faults.append((f"{what}: {difference}", "a unifier takes and gives what the port gives"))
    return faults


def merges_by_key(operator: Operator, port: str) -> tuple[str, StreamCodec] | None:
    """The input port and the codec of a unifier that merges key by key, of an operator's port.

    None for a unifier without a key, and for one with state that is not kept by key. None for the operator
    itself: the key of its port says how it is divided, not how its results are merged.
    """
    declared = operator.unifier_of(port)
    kind = declared if isinstance(declared, type) else type(declared)
    if not issubclass(kind, Unifier):
        return None
    ports = operator_type(kind)
    ((name, entry),) = ports.inputs.items()
    own = [state for name, state in ports.states.items() if name != "_waiting"]
    if entry.codec is None or not all(isinstance(state, (KeyedState, Lifetimes)) for state in own):
        return None
    return name, entry.codec


Limits = int | tuple[int, ...] | None
"""How many streams a unifier of a cascade merges at most: one number for all levels, or one a level."""


def cascade(count: int, limits: Limits) -> list[list[int]]:
    """The levels of intermediate unifiers that merge `count` partitions into at most so many streams.

    A level is a list of group sizes. A group of several is merged by one unifier; a group of one is passed
    on. With one number a level, the last one is that of all further levels and of the final unifier.

    >>> cascade(5, 2), cascade(4, 4), cascade(4, None)
    ([[2, 2, 1], [2, 1]], [], [])
    >>> cascade(16, (4, 2)), cascade(16, (2, 4))
    ([[4, 4, 4, 4], [2, 2]], [[2, 2, 2, 2, 2, 2, 2, 2], [4, 4]])
    """
    if limits is None:
        return []
    steps = limits if isinstance(limits, tuple) else (limits,)
    levels: list[list[int]] = []
    while count > steps[-1]:
        limit = steps[min(len(levels), len(steps) - 1)]
        full, rest = divmod(count, limit)
        levels.append([limit] * full + [rest] * bool(rest))
        count = len(levels[-1])
    return levels
