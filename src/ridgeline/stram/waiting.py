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
        logical = {one.name: one for one in plan.logical.operators}
        between: dict[tuple[str, str, bool], list[tuple[int, str, int]]] = {}
        for stream in plan.physical.streams:
            if home[stream.source] == home[stream.sink]:
                continue
            source, sink = operators[stream.source], operators[stream.sink]
            end = (stream.source, stream.source_port, home[stream.sink])
            if not sink.unifier:
                between.setdefault((sink.name, stream.sink_port, False), []).append(end)
            if not source.unifier:
                between.setdefault((source.name, stream.source_port, True), []).append(end)
        self._bounds = []
        for (name, port, leaves), ends in between.items():
            attribute = "buffer_memory_mb" if leaves else "queue_capacity"
            limit = logical[name].ports[port].get(attribute)
            if limit is not None:
                sources = frozenset((source, leaving) for source, leaving, _ in ends)
                self._bounds.append(
                    _Bound(
                        limit * _MEGABYTE if leaves else limit,
                        leaves,
                        sources,
                        frozenset(home[source] for source, _ in sources),
                        frozenset(container for _, _, container in ends),
                    )
                )

    def full(self, flights: Iterable[Flight]) -> bool:
        """True if so much waits in a stream that no further window should begin."""
        if not self._bounds:
            return False
        running = [flight for flight in flights if flight.runs]
        return any(sum(map(bound.waiting, running)) >= bound.limit for bound in self._bounds)
