"""How much waits in streams between containers, and whether a further window may begin."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from ridgeline.plan.execution import Plan
from ridgeline.stram.flights import Flight

_MEGABYTE = 2**20


@dataclass(frozen=True, slots=True)
class _Bound:
    """What may wait between containers: `limit` tuples of `sources`, or bytes of their containers.

    `sources`: (physical operator, output port). `producers` and `consumers`: the containers on both sides.
    """

    limit: int
    in_bytes: bool
    sources: frozenset[tuple[int, str]]
    producers: frozenset[int]
    consumers: frozenset[int]

    def waiting(self, flight: Flight) -> int:
        """What has been sent in a window and not been processed by all consumers."""
        if flight.reports.keys() >= self.consumers:
            return 0
        sent = [flight.reports[one] for one in self.producers if one in flight.reports]
        if self.in_bytes:
            return sum(report.window.bytes_out for report in sent)
        return sum(
            count
            for report in sent
            for one in report.operators
            for port, count in one.window.tuples_out.items()
            if (one.window.operator, port) in self.sources
        )


class Waiting:
    """The bounds that `queue_capacity` and `buffer_memory_mb` set; none where nobody gives them."""

    def __init__(self, plan: Plan) -> None:
        home = {one: box.id for box in plan.execution.containers for one in box.operators}
        operators = {one.id: one for one in plan.physical.operators}
        limits = _limits(plan)
        between: dict[tuple[str, str, bool], set[tuple[int, str, int]]] = {}
        for stream in plan.physical.streams if limits else ():
            if home[stream.source] == home[stream.sink]:
                continue
            source, sink = operators[stream.source], operators[stream.sink]
            leaving = source.port if source.slider and source.port else stream.source_port
            entered, left = (sink.name, stream.sink_port, False), (source.name, leaving, True)
            end = (stream.source, stream.source_port, home[stream.sink])
            if entered in limits and not sink.unifier:
                between.setdefault(entered, set()).add(end)
            if left in limits and (source.slider or not source.unifier):
                between.setdefault(left, set()).add(end)
        self._bounds = []
        for port, ends in between.items():
            sources = frozenset((source, leaving) for source, leaving, _ in ends)
            producers = frozenset(home[source] for source, _ in sources)
            consumers = frozenset(container for _, _, container in ends)
            self._bounds.append(_Bound(limits[port], port[-1], sources, producers, consumers))

    def full(self, flights: Iterable[Flight]) -> bool:
        """True if so much waits in a stream that no further window should begin."""
        if not self._bounds:
            return False
        running = [flight for flight in flights if flight.runs]
        return any(sum(map(bound.waiting, running)) >= bound.limit for bound in self._bounds)


def _limits(plan: Plan) -> dict[tuple[str, str, bool], int]:
    """By operator, port and whether tuples leave there: bytes where they do, else tuples."""
    found = {}
    for one in plan.logical.operators:
        for port, attributes in one.ports.items():
            if (limit := attributes.get("queue_capacity")) is not None:
                found[one.name, port, False] = limit
            if (limit := attributes.get("buffer_memory_mb")) is not None:
                found[one.name, port, True] = limit * _MEGABYTE
    return found
