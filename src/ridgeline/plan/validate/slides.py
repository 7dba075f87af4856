"""Check `slide_by_window_count`: that it divides the application window, and that slides can be merged."""

from __future__ import annotations

from typing import Any

from ridgeline.api.cells.merging import merges_of
from ridgeline.api.operator import operator_type
from ridgeline.plan.build.unifiers import unifier_faults
from ridgeline.plan.draft import Draft, DraftOperator, Faults

_NAME = "slide_by_window_count"
_SHOWN = 5


def check_slides(draft: Draft, faults: Faults) -> None:
    """Check each operator whose application window slides."""
    for operator in draft.operators:
        slide = operator.attributes.get(_NAME)
        if slide is None or _NAME in operator.doubtful:
            continue
        _check_count(faults, operator, slide)
        outputs = operator.declared.outputs
        ports = [name for name in outputs if name in operator.touched and not outputs[name].error]
        if not ports and not operator.vague:
            what = f"attribute `{_NAME}` would do nothing: none of its output ports is connected"
            faults.add(operator.port(_NAME), what, "leave it out")
        for port in ports:
            _check_port(faults, operator, port)


def _check_count(faults: Faults, operator: DraftOperator, slide: int) -> None:
    """Add a fault for a slide that does not divide the application window, or is as long."""
    if operator.doubtful & {"application_window", "application_window_count"}:
        return
    count = operator.attributes["application_window_count"]
    if slide < count and count % slide == 0:
        return
    fitting = [number for number in range(1, min(count, 10_000)) if count % number == 0]
    shown = ", ".join(map(str, fitting[-_SHOWN:]))
    what = f"attribute `{_NAME}` must divide the application window and be less than it"
    remedy = f"give one of {shown}" if len(fitting) > 1 else "give 1"
    if count == 1:
        remedy = "give an `application_window_count` of several windows as well"
    faults.add(operator.port(_NAME), f"{what}, {count} windows; got {slide}", remedy)


def _check_port(faults: Faults, operator: DraftOperator, port: str) -> None:
    """Add a fault if nothing can merge what is emitted on a port in several slides."""
    if merges_of(type(operator.operator)):
        return  # its states are merged, not its results
    where, given = f"{operator.port(port)}", f"attribute `{_NAME}`"
    declared: Any = operator.operator.slider_of(port)
    if declared is None:
        what = f"{given}: nothing merges the results of several windows of `{operator.kind}`"
        remedy = "give the port a unifier, `OutputPort(..., unifier=...)`, override `slider_of`, say how its "
        remedy += 'states merge, `State(..., scope="window", merge=...)`, or put an operator with a unifier '
        faults.add(where, what, remedy + "behind it, which slides")
        return
    if declared is not operator.operator.unifier_of(port):
        for what, remedy in unifier_faults(operator.operator, port, operator.outputs.get(port), slides=True):
            faults.add(where, what, remedy)
    kind = declared if isinstance(declared, type) else type(declared)
    lasting = [
        name
        for name, state in operator_type(kind).states.items()
        if state.scope != "window" and name != "_waiting"
    ]
    if lasting:
        what = f"{given}: `{kind.__name__}` keeps `{lasting[0]}` over windows, but gets tuples in several"
        faults.add(
            where, what, f'declare it with `scope="window"`: `{lasting[0]} = State(..., scope="window")`'
        )
