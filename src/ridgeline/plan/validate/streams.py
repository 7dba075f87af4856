"""Check what was added as streams: names, localities, ends; connect dead letters."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from ridgeline.api.application import KEEP, AddedStream, Application
from ridgeline.api.attributes import Locality, OnError
from ridgeline.api.columns.dead_letter import NAME
from ridgeline.api.errors import did_you_mean, listed, shorten
from ridgeline.api.operator import Operator, operator_type
from ridgeline.api.points import InputPoint, OutputPoint
from ridgeline.api.ports import Port
from ridgeline.api.support.attribute import Scope
from ridgeline.api.support.duration import FORMS, parse_duration
from ridgeline.plan.build.port_attributes import inherited_by_port, inherited_by_unifier
from ridgeline.plan.draft import FAULTY, Draft, DraftOperator, DraftStream, End, Faults, Through
from ridgeline.plan.logical import parallel_ports
from ridgeline.plan.validate.application import check_name
from ridgeline.plan.validate.attributes import check_attributes


def read_streams(draft: Draft, faults: Faults, app: Application, owners: dict[int, DraftOperator]) -> None:
    """Add all streams to the draft, with their valid ends."""
    reader = _Reader(draft, faults, app, owners)
    for position, added in enumerate(app.streams, 1):
        reader.read(added, position)
    for name, uses in Counter(str(added.name) for added in app.streams).items():
        if uses > 1 and name:
            faults.add(
                name,
                f"{uses} streams have the name `{name}`",
                "give each stream a name of its own, and all its sinks in one call",
            )
    _check_sharing(draft, faults)


class _Reader:
    """Reads one stream after the other; remembers for which operators a fault was reported."""

    def __init__(
        self, draft: Draft, faults: Faults, app: Application, owners: dict[int, DraftOperator]
    ) -> None:
        self.draft = draft
        self.faults = faults
        self.owners = owners
        self.missing: set[int] = set()
        classes = {
            added.operator
            for added in app.operators
            if isinstance(added.operator, type) and issubclass(added.operator, Operator)
        }
        self.refused = {id(port) for cls in classes for port in _ports(cls)} | {id(cls) for cls in classes}

    def read(self, added: AddedStream, position: int) -> None:
        """Read one call of `add_stream`: add the stream, or faults, to the draft."""
        where = added.name if added.module else check_name(self.faults, "stream", added.name, position)
        stream = DraftStream(where, None, [])
        given = self.localities(where, added)
        self.draft.streams.append(stream)
        for what, remedy in added.faults:
            self.faults.add(where, what, remedy)
        stream.keep, stream.queue = self.keep(where, added), added.queue
        if not added.sinks:
            self.faults.add(
                where, "the stream has no sinks", "name one or more input ports after its output port"
            )
        if (
            isinstance(added.source, InputPoint)
            and added.sinks
            and all(isinstance(sink, OutputPoint) for sink in added.sinks)
        ):
            ends = (added.source, *added.sinks)
            self.swapped(where, [end for end in ends if isinstance(end, (InputPoint, OutputPoint))])
            return
        source = self.end(where, "source", added.source)
        if source is not None:
            stream.source = source
        for sink in added.sinks:
            end = self.end(where, "sink", sink)
            if end is None:
                continue
            if any(end.operator is other.operator and end.port == other.port for other in stream.sinks):
                self.faults.add(where, f"`{end}` is a sink of the stream twice", "name it once")
                continue
            stream.sinks.append(end)
            point = sink.point if isinstance(sink, Through) else sink
            stream.localities.append(given.get(point))
            if point in added.persisted:
                stream.persisted.append(end)
            if any(point is one for one in added.decoupled):
                stream.decoupled.append(end)
            end.operator.entered.setdefault(end.port, stream)

    def keep(self, where: str, added: AddedStream) -> float | str:
        """How long the queue of a decoupled stream keeps rows; the default, and a fault, for no duration."""
        try:
            parse_duration(added.keep)
        except ValueError:
            self.faults.add(where, f"`keep` is {shorten(added.keep)}", f"give {FORMS}")
            return KEEP
        return added.keep

    def localities(self, where: str, added: AddedStream) -> dict[Any, Locality | None]:
        """The locality of each sink; those that are faulty are left out."""
        sinks = [sink.point if isinstance(sink, Through) else sink for sink in added.sinks]
        points = [sink for sink in sinks if isinstance(sink, InputPoint)]
        if not isinstance(added.locality, Mapping):
            points = [point for point in points if point not in added.persisted]
            return dict.fromkeys(points, self.locality(where, added.locality))
        for key in added.locality:
            if key not in sinks and key is not FAULTY:
                shown = f"`{self.name(key)}`" if isinstance(key, (InputPoint, OutputPoint)) else shorten(key)
                names = listed([self.name(point) for point in points])
                what = f"a locality is given for {shown}, which is no sink of the stream"
                self.faults.add(where, what, f"its sinks are {names}")
        return {key: self.locality(where, value) for key, value in added.locality.items()}

    def locality(self, where: str, locality: object) -> Locality | None:
        """The locality; None if there is none, or if it is faulty."""
        names = [member.name for member in Locality]
        if locality is None:
            return None
        name = str(getattr(locality, "name", locality)).upper()
        if name in names:
            return Locality[name]
        self.faults.add(where, f"there is no locality {shorten(locality)}", did_you_mean(name, names))
        return None

    def swapped(self, where: str, points: Sequence[InputPoint | OutputPoint]) -> None:
        """Report a stream whose source, the first of `points`, is an input and whose sinks are outputs."""
        names = [self.name(point) for point in points]
        for point in points:
            if id(point.operator) in self.owners:
                self.owners[id(point.operator)].touched.add(point.name)
        what = f"the stream goes from input port `{names[0]}` to output port {listed(names[1:])}"
        self.faults.add(where, what, f'swap them: `add_stream("{where}", {names[1]}, {names[0]})`')

    def end(self, where: str, role: str, point: Any) -> End | None:
        """Return a valid end of a stream, or None after adding a fault."""
        wanted = OutputPoint if role == "source" else InputPoint
        through: Any = ()
        if isinstance(point, Through):
            point, through = point.point, point.ports
        if point is FAULTY:
            return None
        if isinstance(point, (InputPoint, OutputPoint)):
            owner = self.owners.get(id(point.operator))
            if owner is not None:
                owner.touched.add(point.name)
            if not isinstance(point, wanted):
                have, want = ("an input", "an output") if role == "source" else ("an output", "an input")
                self.faults.add(
                    where,
                    f"the {role} of the stream, `{self.name(point)}`, is {have} port",
                    f"name {want} port there",
                )
                return None
            if owner is None:
                self.absent(where, point)
                return None
            return End(owner, point.name, through)
        self.no_port(where, role, point)
        return None

    def absent(self, where: str, point: InputPoint | OutputPoint) -> None:
        """Report a port of an operator that was not added, once for each operator."""
        if id(point.operator) in self.missing:
            return
        self.missing.add(id(point.operator))
        kind = type(point.operator)
        alike = [
            f"{owner.name}.{point.name}" for owner in self.owners.values() if type(owner.operator) is kind
        ]
        remedy = f"did you mean `{alike[0]}`?" if alike else "add it with `app.add_operator(name, operator)`"
        what = (
            f"port `{point.name}` of the stream belongs to a `{kind.__name__}` that is not in the application"
        )
        self.faults.add(where, what, remedy)

    def no_port(self, where: str, role: str, point: object) -> None:
        """Report an end that is no port, and mark the operator that it may have meant.

        A marked operator gets no further faults about unconnected ports.
        """
        if id(point) in self.refused:
            return
        what = f"the {role} of the stream is {shorten(point)}, which is no port"
        remedy = "name a port of an operator that was added, such as `balances.payments`"
        if isinstance(point, Port):
            what = f"the {role} of the stream is the port `{point.name}` of a class, not of an operator"
            remedy = "take the port of the operator that `add_operator` returned"
        elif isinstance(point, Operator):
            owner = self.owners.get(id(point))
            if owner is not None:
                owner.vague = True
            declared = operator_type(type(point))
            ports: list[str] = [*(declared.outputs if role == "source" else declared.inputs)]
            names = [f"{owner.name if owner else 'operator'}.{name}" for name in ports]
            what = (
                f"the {role} of the stream is the operator "
                f"`{owner.name if owner else type(point).__name__}`, not one of its ports"
            )
            remedy = (
                f"name the port: {listed(names)}"
                if names
                else f"it has no {'output' if role == 'source' else 'input'} port"
            )
        elif isinstance(point, (list, tuple, set)):
            for part in point:
                if isinstance(part, (InputPoint, OutputPoint)) and id(part.operator) in self.owners:
                    self.owners[id(part.operator)].touched.add(part.name)
            what = f"the {role} of the stream is a {type(point).__name__}, not a port"
            remedy = "give the ports one by one: `add_stream(name, source, sink, sink)`"
        self.faults.add(where, what, remedy)

    def name(self, point: InputPoint | OutputPoint) -> str:
        """A port as errors name it."""
        owner = self.owners.get(id(point.operator))
        return f"{owner.name if owner else type(point.operator).__name__}.{point.name}"


def _ports(cls: type[Operator]) -> list[Port]:
    declared = operator_type(cls)
    return [*declared.inputs.values(), *declared.outputs.values()]


def _check_sharing(draft: Draft, faults: Faults) -> None:
    """Refuse two streams on one port. Duplicate stream names have already been reported; skip them."""
    for operator in draft.operators:
        for port in (*operator.declared.every_output, *operator.declared.inputs):
            begin = _names(stream for stream in draft.streams if _is(stream.source, operator, port))
            end = _names(
                stream for stream in draft.streams if any(_is(sink, operator, port) for sink in stream.sinks)
            )
            if len(begin) > 1:
                what = f"{len(begin)} streams begin at this output port: {listed(begin)}"
                remedy = (
                    f'make one stream with all sinks: `add_stream("{begin[0]}", {operator.port(port)}, ...)`'
                )
                faults.add(operator.port(port), what, remedy)
            if len(end) > 1:
                what = f"{len(end)} streams end at this input port: {listed(end)}"
                faults.add(
                    operator.port(port),
                    what,
                    "give each stream an input port of its own, or merge them in an operator before it",
                )


def _is(end: End | None, operator: DraftOperator, port: str) -> bool:
    return end is not None and end.operator is operator and end.port == port


def _names(streams: Any) -> list[str]:
    return list(dict.fromkeys(stream.name for stream in streams))


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
