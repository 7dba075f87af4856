"""Check what was added as streams: names, localities, ends; connect dead letters."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import replace

from ridgeline.api.attributes import Locality, OnError
from ridgeline.api.columns.dead_letter import NAME
from ridgeline.api.errors import Faults, listed
from ridgeline.plan.draft import Draft, free_name
from ridgeline.plan.graph import Graph, Sink, Stream
from ridgeline.plan.graphs import reachable, successors
from ridgeline.plan.logical import LogicalOperator
from ridgeline.plan.region import PortRef
from ridgeline.plan.validate.attributes import member_of, read_port


def read_streams(draft: Draft, faults: Faults) -> None:
    """Add all streams to the draft, with valid localities."""
    for given in draft.graph.streams.values():
        places: dict[str, Locality | None] = {"None": None}
        for sink in given.sinks.values():  # one fault for all sinks that have the same
            if (text := repr(sink.locality)) not in places:
                places[text] = member_of(faults, given.name, "locality", Locality, sink.locality)
        sinks = {end: replace(one, locality=places[repr(one.locality)]) for end, one in given.sinks.items()}
        draft.put(replace(given, sinks=sinks))
    _check_sharing(faults, draft.graph)


def _check_sharing(faults: Faults, graph: Graph) -> None:
    """Refuse two streams on one port."""
    begin, end = defaultdict[PortRef, list[str]](list), defaultdict[PortRef, list[str]](list)
    for stream in graph.streams.values():
        for sink in stream.sinks:
            end[sink].append(stream.name)
        if stream.source is not None:
            begin[stream.source].append(stream.name)
    for port, names in (*begin.items(), *end.items()):
        if len(names) > 1:
            where = "begin at this output port" if port in begin else "end at this input port"
            remedy = "give each stream an input port of its own, or merge them in an operator before it"
            if port in begin:
                remedy = f'make one stream with all sinks: `add_stream("{names[0]}", {port}, ...)`'
            faults.add(str(port), f"{len(names)} streams {where}: {listed(names)}", remedy)


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
        _connect(draft, faults, end)
    for operator in draft.operators:
        if NAME in operator.touched and NAME not in operator.declared.outputs:
            _settle(draft, faults, operator)


def _connect(draft: Draft, faults: Faults, end: PortRef) -> None:
    """Add the streams that end at this port; faults if there are none, or if they cannot end there."""
    taker = draft.owners[end.operator]
    taker.touched.add(end.port)
    after = {taker.name, *reachable(taker.name, successors(draft.owners, draft.pairs()))}
    leaving = [one for one in draft.operators if one.name not in after and _leaves_out(one)]
    letters = [(one.operator, one) for one in draft.graph.letters_of_others]
    count = len(letters) + len(leaving)
    letters += [(f"{one.name}_{NAME}", PortRef(one.name, NAME)) for one in leaving if NAME not in one.touched]
    for name, source in letters:
        draft.put(Stream(free_name(name, draft.streams), source, {end: Sink()}))
    if not count:
        faults.add(NAME, "no operator leaves tuples out, so there are no dead letters", _REMEDY)
    elif end.port not in taker.entered:
        what = "streams take the dead letters of every operator elsewhere, so nothing is left for it"
        faults.add(str(end), what, "leave out `dead_letters`, or one of these streams")
    if count and end.port in taker.followed:
        what = "its partitions follow those of one operator, but it takes the dead letters of several"
        faults.add(str(end), what, "leave `partition_parallel` out")


def _leaves_out(operator: LogicalOperator) -> bool:
    """True if it may leave tuples out, and has a port for them that is not its author's."""
    skips = operator.attributes.get("on_error") is OnError.SKIP and operator.may_leave_out
    return skips and NAME in operator.declared.every_output and NAME not in operator.declared.outputs


def _settle(draft: Draft, faults: Faults, operator: LogicalOperator) -> None:
    """Give a port of dead letters that is connected its attributes, and refuse one that would do nothing."""
    if not _leaves_out(operator) and "on_error" not in operator.doubtful:
        faults.add(operator.port(NAME), "the operator leaves no tuple out, so nothing comes here", _REMEDY)
    read_port(draft, faults, operator, NAME, {}, {})
