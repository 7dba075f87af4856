"""Plan each region of an application by itself: its operators, with the ends of the queues that it has."""

from __future__ import annotations

import copy
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from ridgeline.api.application import Application, Node
from ridgeline.api.columns.dead_letter import DeadLetter
from ridgeline.api.columns.schema import Schema
from ridgeline.api.operator import InputOperator, Operator
from ridgeline.plan.graph import Graph, Sink, Stream
from ridgeline.plan.logical import LogicalPlan
from ridgeline.plan.region import IDS, PortRef, QueueEdge, Region


@dataclass(frozen=True, slots=True)
class QueueEnds:
    """Makes the operators at both ends of a queue.

    `writer(edges)`: of all edges of a stream, an operator with the port `input`. `reader(edge, schema)`: an
    input operator with the port `output`.
    """

    writer: Callable[[Sequence[QueueEdge]], Operator]
    reader: Callable[[QueueEdge, Schema], InputOperator]


class RegionPlans:
    """Plans the regions of a valid application, each as an application of its own."""

    def __init__(self, app: Application, whole: LogicalPlan, ends: QueueEnds) -> None:
        self._app = app
        self.whole = whole
        self._ends = ends
        self._partitions = {one.name: max(1, len(one.divided)) for one in whole.operators}

    def application(self, region: Region, number: int = 0) -> Application:
        """The application of which planning leaves this region only. `number`: its ids begin with it."""
        made = copy.copy(self._app)
        made.cut = partial(self._cut, region, number * IDS)
        return made

    def _cut(self, region: Region, first_id: int, graph: Graph) -> Graph:
        """The application by name as far as it is in the region, with the ends of its queues."""
        inside = frozenset(region.operators)
        elsewhere = frozenset(graph.nodes.keys() - inside)
        # a sink that a queue feeds is in another region; a stream that only queues read is made with a writer
        here = graph.without(elsewhere)
        nodes, taker = dict(here.nodes), here.dead_letters
        streams = {name: one for name, one in here.streams.items() if one.sinks}
        schemas = {stream.name: stream.schema for stream in self.whole.streams}
        ends = {end: end for stream in graph.streams.values() for end in stream.sinks}  # with modules' ports
        letters: list[PortRef] = []
        for edge in region.reads:
            schema = Schema(DeadLetter) if edge.letters else schemas[edge.stream]
            reader = self._ends.reader(edge, schema)
            count = 1 if edge.letters else self._partitions[edge.source.operator]
            nodes[edge.reader] = Node(edge.reader, reader, {"partitions": count})
            begin = PortRef(edge.reader, "output")
            if edge.letters:
                letters.append(begin)
            else:
                sinks = {ends[sink]: Sink() for sink in edge.sinks}
                streams[edge.stream] = Stream(edge.stream, begin, sinks)
        for name in dict.fromkeys(edge.writer for edge in region.writes):
            edges = [edge for edge in region.writes if edge.writer == name]
            nodes[name] = Node(name, self._ends.writer(edges))
            entry, first = PortRef(name, "input"), edges[0]
            if first.letters:
                # it follows the partitions of no operator
                nodes[name] = nodes[name].given("port", entry.port, {"partition_parallel": False})
                taker = entry
            else:  # beside the sinks that the stream has here
                stream = streams.get(first.stream, Stream(first.stream, first.source, {}))
                streams[first.stream] = replace(stream, sinks={**stream.sinks, entry: Sink()})
        parts = {name: part for name, part in here.parts.items() if _is_whole(name, inside, elsewhere)}
        rules = (*self.whole.affinity, *(rule for rule, _ in self.whole.given_up))
        named = [(rule, [name for name in rule.operators if name in inside]) for rule in rules]
        return replace(
            here,
            window=graph.window if region.window is None else region.window,
            attributes={**graph.attributes, **region.attributes},
            nodes=nodes,
            streams=streams,
            parts=parts,
            rules=tuple(
                ("", replace(rule, operators=tuple(names)))
                for rule, names in named  # those that attributes say are read from there again
                if not rule.declared and len(names) >= (1 if rule.hosts else 2)
            ),
            regions=(),
            policies=tuple(copy.deepcopy(one) for one in graph.policies if _decides(one, inside)),
            promises=tuple(one for one in graph.promises if not one.operator or one.operator in inside),
            dead_letters=taker,
            letters_of_others=tuple(letters),
            region=region.name,
            first_id=first_id,
            elsewhere=elsewhere,
        )


def _decides(policy: Any, inside: Collection[str]) -> bool:
    """Whether a policy is of operators of the region, or of none in particular."""
    named = getattr(policy, "operators", None) or getattr(policy, "operator", None) or ()
    names: Collection[str] = [named] if isinstance(named, str) else named
    return not names or any(name in inside for name in names)


def _is_whole(module: str, inside: Collection[str], elsewhere: Collection[str]) -> bool:
    """Whether all operators of a module are in the region."""
    own = [name for name in (*inside, *elsewhere) if name.startswith(f"{module}.")]
    return bool(own) and all(name in inside for name in own)
