"""Check what goes by time: timers, times to live, slides, what they call, and where their times come from."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from ridgeline.api.cells.keyed_declaration import KeyedState
from ridgeline.api.errors import Faults
from ridgeline.api.operator import Operator, lateness_seconds
from ridgeline.api.timers import Timers
from ridgeline.plan.build.callbacks import method_faults
from ridgeline.plan.build.unifiers import lasting_states, unifier_faults
from ridgeline.plan.draft import Draft
from ridgeline.plan.logical import LogicalOperator


def check_times(draft: Draft, faults: Faults) -> None:
    """Check all operators that go by time: with windows, timers, keys with a time to live, `end_of_input`."""
    for operator in draft.operators:
        need = operator.operator.needs_times()
        _check_need(faults, operator, need)
        for name, state in operator.declared.states.items():
            if isinstance(state, Timers):
                _check_handler(faults, operator, name, state)
            if isinstance(state, KeyedState) and _goes_by_record(state) and not need:
                _check_record_time(faults, operator, name, timers=isinstance(state, Timers))
        if operator.is_input and type(operator.operator).end_of_input is not Operator.end_of_input:
            what = f"`{operator.kind}` overrides `end_of_input`, which is not called of an input operator"
            faults.add(operator.name, what, "do it before `self.finish()`")


def _goes_by_record(state: KeyedState) -> bool:
    """True if a declaration needs record times."""
    if isinstance(state, Timers):
        return state.by == "record"
    return state.ttl_microseconds > 0 and state.ttl_by == "record"


def _check_handler(faults: Faults, operator: LogicalOperator, name: str, timers: Timers) -> None:
    """Refuse timers that call nothing, or a method that cannot be called so."""
    for other in timers.doubled:
        what = f"`{other}` of `{operator.kind}` is never called: another method is decorated for `{name}`"
        faults.add(operator.name, what, "let one method call the other")
    if not timers.handler:
        remedy = f"decorate a method with it: `@{name}.expired`, `def expire(self, key, when)`, "
        remedy += "above other decorators"
        faults.add(operator.name, f"nothing is called when a timer of `{name}` expires", remedy)
        return
    for _, what, remedy in method_faults(operator.operator, timers.handler, ("key", "when")):
        faults.add(operator.name, f"timers `{name}`: {what}", remedy)


def _check_record_time(faults: Faults, operator: LogicalOperator, name: str, *, timers: bool) -> None:
    """Refuse what goes by record time where no watermark comes."""
    what = f"timers `{name}` go" if timers else f"the `ttl` of `{name}` goes"
    other = '`by="clock"`' if timers else '`ttl_by="clock"`'
    if operator.is_input:
        why = "but an input operator gets no records, so it has no watermark"
        faults.add(operator.name, f"{what} by record time, {why}", f"declare {other}")
    elif not _has_watermark([operator]):
        why = "but no input operator upstream promises a `lateness`, so time never passes"
        remedy = f'declare `OutputPort(..., timestamp="column", lateness="5s")` there, or {other} here'
        faults.add(operator.name, f"{what} by record time, {why}", remedy)


def _check_need(faults: Faults, operator: LogicalOperator, need: str) -> None:
    """Refuse an operator that needs times at a port which no watermark reaches."""
    for name, source in operator.entered.items() if need else ():
        if source is None or _has_watermark([source.operator]):
            continue
        schema = operator.inputs.get(name)
        columns = [] if schema is None or schema.pickled else schema.arrow
        times = [field.name for field in columns if pa.types.is_timestamp(field.type)]
        column = times[0] if times else "column"
        why = "but no step upstream declares both `timestamp` and `lateness`"
        what = f"`{operator.kind}` {need} by their times, {why}"
        given = f'`timestamp="{column}", lateness="5s"`'
        remedy = f'give an input {given}, or add the step `with_times("{column}", lateness="5s")` before it'
        faults.add(operator.port(name), what, remedy)


def _has_watermark(reached: list[LogicalOperator]) -> bool:
    """True if one of the operators or upstream makes a watermark, or if faults hide that."""
    for at in reached:  # grows
        try:
            if lateness_seconds(at.operator) is not None:
                return True
        except ValueError:
            return True  # its `lateness` is no duration, which is a fault already
        if not at.is_input and not at.entered:
            return True  # it is not connected, which is a fault already
        for source in at.entered.values():
            if source is None:
                return True
            if source.operator not in reached:
                reached.append(source.operator)
    return False


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
        if not ports:
            what = f"attribute `{_NAME}` would do nothing: none of its output ports is connected"
            faults.add(operator.port(_NAME), what, "leave it out")
        for port in ports:
            _check_port(faults, operator, port)


def _check_count(faults: Faults, operator: LogicalOperator, slide: int) -> None:
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


def _check_port(faults: Faults, operator: LogicalOperator, port: str) -> None:
    """Add a fault if nothing can merge what is emitted on a port in several slides."""
    where, given = f"{operator.port(port)}", f"attribute `{_NAME}`"
    declared: Any = operator.operator.slider_of(port)
    if declared is None:
        what = f"{given}: nothing merges the results of several windows of `{operator.kind}`"
        remedy = "give the port a unifier, `OutputPort(..., unifier=...)`, override `slider_of`, or put an "
        faults.add(where, what, f"{remedy}operator with a unifier behind it, which slides")
        return
    if declared is not operator.operator.unifier_of(port):
        for what, remedy in unifier_faults(operator.operator, port, operator.outputs.get(port), slides=True):
            faults.add(where, what, remedy)
    kind = declared if isinstance(declared, type) else type(declared)
    if lasting := lasting_states(kind):
        what = f"{given}: `{kind.__name__}` keeps `{lasting[0]}` over windows, but gets tuples in several"
        remedy = f'declare it with `scope="window"`: `{lasting[0]} = State(..., scope="window")`'
        faults.add(where, what, remedy)
