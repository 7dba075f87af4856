"""Facts of a plan about windows: its inputs, which windows may be the last, how many may be in flight."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from ridgeline.api.attributes import OnError, ProcessingMode
from ridgeline.api.operator import InputOperator, is_stateless
from ridgeline.api.push_input import PushInput
from ridgeline.api.support.loops import DelayHead
from ridgeline.plan.container_spec import tails_of
from ridgeline.plan.execution import Plan
from ridgeline.plan.physical import PhysicalOperator
from ridgeline.stram.windows import InFlightWindow

_MEGABYTE = 2**20


class PlanTraits:
    """The facts of a plan that decisions about its windows need; they do not change."""

    def __init__(self, plan: Plan) -> None:
        operators = plan.physical.operators
        self.inputs = frozenset(
            one.id
            for one in operators
            if isinstance(one.operator, InputOperator) and not isinstance(one.operator, DelayHead)
        )
        pushed = {one.id for one in operators if isinstance(one.operator, PushInput)}
        self.has_push_inputs = bool(pushed)
        self._takes_what_came = self.inputs <= pushed
        self.input_containers = frozenset(
            box.id for box in plan.execution.containers if not self.inputs.isdisjoint(box.operators)
        )
        self.containers = len(plan.execution.containers)
        self.tails = {head: tail.id for head, tail in tails_of(plan.physical).items()}
        """The tail of each head of a delay operator: it reads the tail's state."""
        self.attributes = {one.title: one.attributes for one in operators} | {
            one.name: one.attributes for one in plan.logical.operators
        }
        """The attributes of operators, by logical name and by physical title."""
        self._bounds = _bounds(plan)
        self._window_counts = {one.attributes["application_window_count"] for one in operators}
        self._slides = any(one.slides for one in operators)
        self._loop_counts = _loop_counts(plan, self.tails.values())
        self._resetting = {one.title if one.unifier else one.name for one in operators if _resets_state(one)}

    def is_full(self, windows: Iterable[InFlightWindow]) -> bool:
        """True if a stream has no room for what a further window may send.

        `queue_capacity` and `buffer_memory_mb` set the bounds.
        """
        running = [window for window in windows if window.valid] if self._bounds else []
        return any(sum(map(bound.waiting, running)) >= bound.limit for bound in self._bounds)

    @property
    def counts_windows(self) -> bool:
        """True if an operator's application window has several streaming windows."""
        return self._window_counts != {1}

    @property
    def merges_late(self) -> bool:
        """True if one window may stand for several that are late.

        All inputs take what has come, so the next window has what they would have had; and no operator counts
        windows.
        """
        return self._takes_what_came and not self.tails and not self.counts_windows

    def resets_state(self, operator: str) -> bool:
        """True if this operator's state may be taken back within a window. By logical name, or title."""
        return operator in self._resetting

    def is_last(self, window: InFlightWindow, finished: frozenset[int]) -> bool:
        """True if no window follows. `finished`: the inputs that have by its end.

        Windows follow as long as delay operators have tuples, or operators before them an open application
        window; not for what only the last attempt emits.
        """
        waits = window.delays or any((window.window_id + 1) % count for count in self._loop_counts)
        return finished >= self.inputs and (window.final or not waits)

    def has_open_windows(self, window_id: int) -> bool:
        """True if an operator's application window may continue after this streaming window.

        One that slides does; it may never have been full.
        """
        return self._slides or any((window_id + 1) % count for count in self._window_counts)


def _loop_counts(plan: Plan, tails: Iterable[int]) -> set[int]:
    """The lengths of the application windows of all operators upstream of delay operators."""
    found = set(tails)
    places = plan.physical.places
    for stream in sorted(plan.physical.streams, key=lambda stream: -places[stream.sink]):
        if stream.sink in found:
            found.add(stream.source)
    return {plan.physical.operator(one).attributes["application_window_count"] for one in found}


def _resets_state(operator: PhysicalOperator) -> bool:
    """True if an operator's state may be taken back within a window: to the version in its request."""
    attributes = operator.attributes
    lossy = (
        attributes["on_error"] is OnError.SKIP or attributes["processing_mode"] is ProcessingMode.AT_MOST_ONCE
    )
    return lossy and not is_stateless(operator.operator)


@dataclass(frozen=True, slots=True)
class _Bound:
    """The most that may wait between containers: `limit` tuples of `sources`, or bytes of their containers.

    `sources`: (physical operator, output port). `producers` and `consumers`: the containers on both sides.
    """

    limit: int
    in_bytes: bool
    sources: frozenset[tuple[int, str]]
    producers: frozenset[int]
    consumers: frozenset[int]

    def waiting(self, window: InFlightWindow) -> int:
        """Tuples or bytes that were sent in a window, and that not all consumers have processed."""
        if window.reports.keys() >= self.consumers:
            return 0
        sent = [window.reports[one] for one in self.producers if one in window.reports]
        if self.in_bytes:
            return sum(report.window.bytes_out for report in sent)
        return sum(
            count
            for report in sent
            for one in report.operators
            for port, count in one.window.tuples_out.items()
            if (one.window.operator, port) in self.sources
        )


def _bounds(plan: Plan) -> list[_Bound]:
    """The bounds of `queue_capacity` and `buffer_memory_mb` on streams between containers."""
    home = plan.execution.homes
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
    bounds = []
    for port, ends in between.items():
        sources = frozenset((source, leaving) for source, leaving, _ in ends)
        producers = frozenset(home[source] for source, _ in sources)
        consumers = frozenset(container for _, _, container in ends)
        bounds.append(_Bound(limits[port], port[-1], sources, producers, consumers))
    return bounds


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
