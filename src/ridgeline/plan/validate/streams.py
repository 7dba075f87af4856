"""Check what was added as streams: names, localities, ends; connect dead letters."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping
from dataclasses import replace

from ridgeline.api.attributes import Locality, OnError
from ridgeline.api.columns.dead_letter import NAME
from ridgeline.api.errors import listed, shorten
from ridgeline.api.support.duration import FORMS, parse_duration
from ridgeline.plan.draft import Draft, DraftOperator, DraftStream, End, Faults
from ridgeline.plan.graph import Graph, Stream
from ridgeline.plan.graphs import reachable, successors
from ridgeline.plan.logical import parallel_ports
from ridgeline.plan.region import PortRef
from ridgeline.plan.validate.attributes import member_of, read_port


def read_streams(draft: Draft, faults: Faults) -> None:
    """Add all streams to the draft, with their valid ends."""
    for given in draft.graph.streams.values():
        _read(draft, faults, given)
    _check_sharing(faults, draft.graph)


def _read(draft: Draft, faults: Faults, given: Stream) -> None:
    """Add a stream to the draft, and the faults of it."""
    stream = DraftStream(given.name, None, [], queue=given.queue)
    draft.streams.append(stream)
    try:
        parse_duration(given.keep)
        stream.keep = given.keep
    except ValueError:
        faults.add(given.name, f"`keep` is {shorten(given.keep)}", f"give {FORMS}")
    if given.source is not None:
        stream.source = _touched(draft, given.source)
    localities: dict[str, Locality | None] = {}
    for one, sink in given.sinks.items():
        if (text := repr(sink.locality)) not in localities:
            own = sink.locality
            localities[text] = (
                None if own is None else member_of(faults, given.name, "locality", Locality, own)
            )
        end = _touched(draft, one)
        end.locality, end.persisted, end.decoupled = localities[text], sink.persisted, sink.decoupled
        stream.sinks.append(end)
        end.operator.entered.setdefault(end.port, stream)


def _touched(draft: Draft, end: PortRef) -> End:
    """An end of a stream by its operator, which is connected there."""
    owner = draft.owners[end.operator]
    owner.touched.add(end.port)
    return End(owner, end.port, end.through)


def _check_sharing(faults: Faults, graph: Graph) -> None:
    """Refuse two streams on one port."""
    begin, end = defaultdict[PortRef, list[str]](list), defaultdict[PortRef, list[str]](list)
    for stream in graph.streams.values():
        for sink in stream.sinks:
            end[sink].append(stream.name)
        if stream.source is not None:
            begin[stream.source].append(stream.name)
    for port, names in begin.items():
        if len(names) > 1:
            what = f"{len(names)} streams begin at this output port: {listed(names)}"
            remedy = f'make one stream with all sinks: `add_stream("{names[0]}", {port}, ...)`'
            faults.add(str(port), what, remedy)
    for port, names in end.items():
        if len(names) > 1:
            what = f"{len(names)} streams end at this input port: {listed(names)}"
            remedy = "give each stream an input port of its own, or merge them in an operator before it"
            faults.add(str(port), what, remedy)


_REMEDY = "set `on_error=SKIP` for operators that may leave tuples out, or remove it"


def skip_for_dead_letters(graph: Graph, given: Mapping[str, object]) -> Graph:
    """Let operators leave tuples out where the application takes dead letters and says nothing of errors.

    Who names a place for them wants them there. `given`: what is set from outside. Where `on_error` is said
    of anything, in code or outside, nothing is changed.
    """
    said: list[Mapping[str, object]] = [graph.attributes]
    said += [node.attributes for node in graph.nodes.values()]
    said += [added.attributes for added in graph.regions]
    outside = any(str(key).rpartition(".")[2] == "on_error" for key in given)
    if graph.dead_letters is None or outside or any("on_error" in one for one in said):
        return graph
    return replace(graph, attributes={**graph.attributes, "on_error": OnError.SKIP})


def connect_dead_letters(draft: Draft, faults: Faults) -> None:
    """Add a stream for each operator that leaves tuples out, and whose dead letters go nowhere yet.

    All lead to the port that `Application.dead_letters` was given. It is the only one where several streams
    may end. Operators after it leave tuples out as before.
    """
    end = draft.graph.dead_letters
    if end is not None:
        coming_in = [End(draft.owners[one.operator], one.port) for one in draft.graph.letters_of_others]
        _connect(draft, faults, draft.owners[end.operator], end.port, coming_in)
    for operator in draft.operators:
        if NAME in operator.touched and NAME not in operator.declared.outputs:
            _settle(draft, faults, operator)


def _connect(
    draft: Draft, faults: Faults, taker: DraftOperator, port: str, coming_in: Collection[End]
) -> None:
    """Add the streams that end at this port; faults if there are none, or if they cannot end there.

    `coming_in`: the ports by which dead letters of other regions come in.
    """
    taker.touched.add(port)
    after = {taker.index, *reachable(taker.index, successors(len(draft.operators), draft.pairs()))}
    leaving = [one for one in draft.operators if one.index not in after and _leaves_out(one)]
    count = len(coming_in) + len(leaving)
    letters = [(end.operator.name, end) for end in coming_in]
    letters += [(f"{one.name}_{NAME}", End(one, NAME)) for one in leaving if NAME not in one.touched]
    for name, end in letters:
        end.operator.touched.add(end.port)
        stream = DraftStream(name, end, [End(taker, port)])
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


def _settle(draft: Draft, faults: Faults, operator: DraftOperator) -> None:
    """Give a port of dead letters that is connected its attributes, and refuse one that would do nothing."""
    if not _leaves_out(operator) and "on_error" not in operator.doubtful:
        faults.add(operator.port(NAME), "the operator leaves no tuple out, so nothing comes here", _REMEDY)
    read_port(draft, faults, operator, NAME, {}, {})
