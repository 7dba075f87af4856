"""Operators of a container that hand each batch on before they take the next, so that it stays in the cache.

An operator and the only reader of its output make a chain if both take batches. Each of them sees the same
callbacks with the same batches as if one ran after the other.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple

from ridgeline.api.attributes import ProcessingMode
from ridgeline.api.clock import Timeline
from ridgeline.api.columns.combined import can_take_pending
from ridgeline.api.columns.tuples import Tuples
from ridgeline.api.operator import InputOperator
from ridgeline.engine.exchange.outgoing import Emitted
from ridgeline.engine.operator.controls import control_handlers
from ridgeline.engine.operator.runtime import OperatorRuntime
from ridgeline.plan.container_spec import ContainerSpec, Route
from ridgeline.plan.protocol import OperatorReport, WindowRequest

BATCH_ROWS = 4_096
"""Of smaller batches, the change from operator to operator costs more than the cache saves."""


class Chain(NamedTuple):
    """Operators that stand next to each other, with the route between each two."""

    operators: Sequence[OperatorRuntime]
    routes: Sequence[Route]

    def relays(self, request: WindowRequest, delivered: Emitted) -> bool:
        """True if the first operator has several batches, and nothing else has or reads what goes between."""
        if not self.routes:
            return False
        head = self.operators[0].spec
        parts = [part for port in head.inputs for part in delivered.get((head.id, port), ())]
        return (
            len(parts) > 1
            and sum(map(len, parts)) >= BATCH_ROWS * len(parts)
            and not any((route.source, route.source_port) in request.samples for route in self.routes)
            and not any((route.sink, route.sink_port) in delivered for route in self.routes)
        )


class Chains:
    """The chains of a container. Operators defer to the next one of their chain where that takes it."""

    def __init__(self, spec: ContainerSpec, operators: Mapping[int, OperatorRuntime]) -> None:
        self._chains = chains(spec, operators)
        for runtime in operators.values():
            runtime.context.engine.defers = False
        for chain in self._chains:
            for producer, consumer in pairwise(chain.operators):
                handlers = list(consumer.instance.handlers.values())
                producer.context.engine.defers = len(producer.outputs) == 1 and all(
                    can_take_pending(handler) for _, handler in handlers
                )

    def turns(self, request: WindowRequest, delivered: Emitted) -> Iterator[tuple[Chain, bool]]:
        """The chains of a window in their order, each when those before have run; True: it is a `Relay`."""
        for chain in self._chains:
            yield chain, chain.relays(request, delivered)


class Ran(NamedTuple):
    """The report of an operator and what it has emitted, without what it has handed on.

    `began`: when its turn began; None if where the turn before ended. `later`: the seconds that others took
    in the meantime, which count as if they had come after it.
    """

    report: OperatorReport
    emitted: dict[str, list[Tuples]]
    began: float | None
    later: float = 0.0


def chains(spec: ContainerSpec, operators: Mapping[int, OperatorRuntime]) -> list[Chain]:
    """Divide the operators of a container into chains, as long as may be; many are of one operator."""
    found: list[tuple[list[OperatorRuntime], list[Route]]] = []
    for runtime in operators.values():
        route = _link(spec, found[-1][0][-1], runtime) if found else None
        if route is None:
            found.append(([runtime], []))
        else:
            found[-1][0].append(runtime)
            found[-1][1].append(route)
    return [Chain(*parts) for parts in found]


def _link(spec: ContainerSpec, producer: OperatorRuntime, consumer: OperatorRuntime) -> Route | None:
    """The stream by which one operator may hand on to the next; None if there is none."""
    coming = [route for route in spec.routes if route.sink == consumer.spec.id]
    if len(coming) != 1 or len(consumer.spec.inputs) != 1 or coming[0].source != producer.spec.id:
        return None
    (route,) = coming
    going = [
        other
        for other in spec.routes
        if (other.source, other.source_port) == (route.source, route.source_port)
    ]
    if len(going) != 1 or route.route is not None or isinstance(producer.operator, InputOperator):
        return None
    if producer.outputs[route.source_port].port.error or control_handlers(consumer.instance):
        return None
    return route if _takes_batches(producer) and _takes_batches(consumer) else None


def _takes_batches(runtime: OperatorRuntime) -> bool:
    """True if it takes all its tuples as batches, in each streaming window, and never leaves any out."""
    instance = runtime.instance
    return (
        bool(instance.handlers)
        and all(by_batch for by_batch, _ in instance.handlers.values())
        and not runtime.arranges
        and not instance.skips_tuples
        and instance.spec.attributes["processing_mode"] is not ProcessingMode.AT_MOST_ONCE
    )


class Relay:
    """One window of a chain. `on_turn` is called with each operator before its callbacks, for each batch."""

    def __init__(self, chain: Chain, timeline: Timeline, on_turn: Callable[[OperatorRuntime], None]) -> None:
        self._chain = chain
        self._now = timeline.now
        self._on_turn = on_turn
        self._seconds = [0.0] * len(chain.operators)
        self._began = self._since = timeline.now()
        self._turn = 0
        self._timeline = timeline
        self._ended: dict[int, tuple[OperatorReport, dict[str, list[Tuples]]]] = {}
        self._steps: list[Generator[None, None, tuple[OperatorReport, dict[str, list[Tuples]]]]] = []

    def run(self, request: WindowRequest, inputs: Mapping[str, Sequence[Tuples]]) -> list[Ran]:
        """Run the window; `inputs`: those of the first operator. Raises what `OperatorRuntime.run` raises."""
        operators, routes = self._chain
        self._steps = [
            runtime.steps(
                request,
                {routes[place - 1].sink_port: self._handed_on(place - 1)} if place else inputs,
                timeline=self._timeline,
            )
            for place, runtime in enumerate(operators)
        ]
        try:
            for place in range(len(operators)):
                self._begin_turn(place)
                next(self._steps[place])
            while self._forwards(len(operators) - 1):
                pass
        finally:
            for steps in self._steps:
                steps.close()
        self._begin_turn(0)
        return [
            Ran(*self._ended[place], None if place else self._began, math.fsum(self._seconds[place + 1 :]))
            for place in range(len(operators))
        ]

    def _handed_on(self, place: int) -> Iterator[Tuples]:
        """Batches that an operator emits for the next one; runs it as far as needed."""
        consumer, route = self._chain.operators[place + 1], self._chain.routes[place]
        producer = self._chain.operators[place]
        forwards = True
        while forwards:
            self._begin_turn(place)
            forwards = self._forwards(place)
            if forwards:
                parts = producer.hand_on(route.source_port)
            else:
                parts = self._ended[place][1].pop(route.source_port)
            self._begin_turn(place + 1)
            for part in parts:
                consumer.running.arrived(route.sink_port, part)
                yield part

    def _forwards(self, place: int) -> bool:
        """Run the next step of an operator; False if it was the last."""
        try:
            next(self._steps[place])
        except StopIteration as end:
            self._ended[place] = end.value
            return False
        return True

    def _begin_turn(self, place: int) -> None:
        """An operator continues: time counts as its own from now."""
        now = self._now()
        self._seconds[self._turn] += now - self._since
        self._turn, self._since = place, now
        self._on_turn(self._chain.operators[place])
