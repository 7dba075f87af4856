"""Lead the tuples that operators leave out to the operator that takes them."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from ridgeline.api.application import Application
from ridgeline.api.attributes import OnError
from ridgeline.api.columns.dead_letter import NAME
from ridgeline.api.support.attribute import Scope
from ridgeline.plan.build.partitioning import parallel_ports
from ridgeline.plan.build.port_attributes import inherited_by_port, inherited_by_unifier
from ridgeline.plan.draft import Draft, DraftOperator, DraftStream, End, Faults
from ridgeline.plan.validate.attributes import check_attributes

_REMEDY = "set `on_error=SKIP` for operators that may leave tuples out, or remove it"


def skip_for_dead_letters(app: Application, given: Mapping[str, object]) -> None:
    """Let operators leave tuples out where the application takes dead letters and says nothing of errors.

    Who names a place for them wants them there. `app` is a copy without modules, `given` what is set from
    outside. Where `on_error` is said of anything, in code or outside, nothing is changed.
    """
    said: list[Mapping[str, object]] = [app.attributes]
    said += [added.attributes for added in app.operators]
    said += [added.attributes for added in app.regions]
    said += [added.attributes for added in app.attributes_set]
    outside = any(str(key).rpartition(".")[2] == "on_error" for key in given)
    if app.dead_letter_port is not None and not outside and not any("on_error" in one for one in said):
        app.attributes = {**app.attributes, "on_error": OnError.SKIP}


def connect_dead_letters(draft: Draft, faults: Faults, app: Application) -> None:
    """Add a stream for each operator that leaves tuples out, and whose dead letters go nowhere yet.

    All lead to the port that `Application.dead_letters` was given. It is the only one where several streams
    may end. Operators after it leave tuples out as before.
    """
    for what, remedy in app.dead_letter_faults:
        faults.add(NAME, what, remedy)
    point = app.dead_letter_port
    taker = None if point is None else draft.owners.get(id(point.operator))
    if point is not None and taker is not None:
        _connect(draft, faults, taker, point.name, _coming_in(draft, app))
    for operator in draft.operators:
        if NAME in operator.touched and NAME not in operator.declared.outputs:
            _settle(draft, faults, operator)


def _coming_in(draft: Draft, app: Application) -> list[End]:
    """The ports by which dead letters of other regions come in."""
    owners = [(draft.owners.get(id(point.operator)), point.name) for point in app.dead_letter_sources]
    return [End(owner, name) for owner, name in owners if owner is not None]


def _connect(
    draft: Draft, faults: Faults, taker: DraftOperator, port: str, coming_in: Collection[End]
) -> None:
    """Add the streams that end at this port; faults if there are none, or if they cannot end there."""
    taker.touched.add(port)
    after = _after(draft, taker)
    count = len(coming_in)
    for end in coming_in:
        end.operator.touched.add(end.port)
        stream = DraftStream(end.operator.name, end, [End(taker, port)], [None])
        draft.streams.append(stream)
        taker.entered.setdefault(port, stream)
    for operator in draft.operators:
        if operator.index in after or not _leaves_out(operator):
            continue
        count += 1
        if NAME in operator.touched:
            continue
        operator.touched.add(NAME)
        name = f"{operator.name}_{NAME}"
        stream = DraftStream(name, End(operator, NAME), [End(taker, port)], [None])
        draft.streams.append(stream)
        taker.entered.setdefault(port, stream)
    if count and port not in taker.entered:
        what = "streams take the dead letters of every operator elsewhere, so nothing is left for it"
        faults.add(taker.port(port), what, "leave out `dead_letters`, or one of these streams")
    if not count:
        faults.add(NAME, "no operator leaves tuples out, so there are no dead letters", _REMEDY)
    elif parallel_ports(taker.operator, taker.ports, [port]):
        what = "its partitions follow those of one operator, but it takes the dead letters of several"
        faults.add(taker.port(port), what, "leave `partition_parallel` out")


def _leaves_out(operator: DraftOperator) -> bool:
    """True if it may leave tuples out, and has a port for them that is not its author's."""
    skips = operator.attributes.get("on_error") is OnError.SKIP and operator.may_leave_out
    return skips and NAME in operator.declared.every_output and NAME not in operator.declared.outputs


def _after(draft: Draft, first: DraftOperator) -> Collection[int]:
    """The numbers of an operator and of all that it leads to: streams from there would be a cycle."""
    found, todo = {first.index}, [first.index]
    pairs = draft.pairs()
    while todo:
        at = todo.pop()
        more = {sink for source, sink in pairs if source == at} - found
        found |= more
        todo += more
    return found


def _settle(draft: Draft, faults: Faults, operator: DraftOperator) -> None:
    """Give a port of dead letters that is connected its attributes, and refuse one that would do nothing."""
    if not _leaves_out(operator) and "on_error" not in operator.doubtful:
        faults.add(operator.port(NAME), "the operator leaves no tuple out, so nothing comes here", _REMEDY)
    inherited = inherited_by_port(operator.declared, NAME, operator.attributes)
    operator.ports[NAME], _ = check_attributes(
        faults, f"{operator.name}.port.{NAME}", Scope.OUTPUT_PORT, {}, inherited
    )
    inherited = inherited_by_unifier(operator.attributes, draft.attributes)
    operator.unifiers[NAME], _ = check_attributes(
        faults, f"{operator.name}.unifier.{NAME}", Scope.UNIFIER, {}, inherited
    )
