"""Check what was added as streams: names, localities, ends."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from ridgeline.api.application import KEEP, AddedStream, Application
from ridgeline.api.attributes import Locality
from ridgeline.api.errors import did_you_mean, listed, shorten
from ridgeline.api.operator import Operator, operator_type
from ridgeline.api.points import InputPoint, OutputPoint
from ridgeline.api.ports import Port
from ridgeline.api.support.duration import FORMS, parse_duration
from ridgeline.plan.draft import FAULTY, Draft, DraftOperator, DraftStream, End, Faults, Through
from ridgeline.plan.validate.application import check_name


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
