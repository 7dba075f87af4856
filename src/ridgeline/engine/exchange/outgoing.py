"""The messages of a container to others in one attempt at a window."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from ridgeline.api.columns.combined import Combined
from ridgeline.api.columns.tuples import Tuples
from ridgeline.engine.exchange import coded
from ridgeline.engine.exchange.block import Block, Message, PackedTimes, Payload, encode, encode_times
from ridgeline.engine.exchange.key_counts import KeyCounters
from ridgeline.engine.exchange.routing import Splitter
from ridgeline.engine.exchange.shared_blocks import SharedPlace, SharedWriter
from ridgeline.plan.container_spec import ContainerSpec, Route
from ridgeline.plan.physical import Encoding
from ridgeline.plan.protocol import KeyCounts

Emitted = dict[tuple[int, str], list[Tuples]]
"""Tuples by the id of an operator and the name of one of its input ports."""


class Routes:
    """The routes of one container, by operator and port, each port with what splits its tuples.

    Everything that depends on the routes alone is found once, not in each window.
    """

    def __init__(self, spec: ContainerSpec) -> None:
        self.container = spec.id
        self.consumers = spec.consumers
        self.read_by_others = {route.source for route in spec.routes if route.container != spec.id}
        """The operators that other containers read."""
        self._ports: dict[tuple[int, str], list[tuple[int, Route]]] = {}
        for number, route in enumerate(spec.routes):
            self._ports.setdefault((route.source, route.source_port), []).append((number, route))
        self._splitters = {
            port: Splitter([route for _, route in routes]) for port, routes in self._ports.items()
        }

    def of(
        self, operator: int, port: str, start: int, near: Collection[int]
    ) -> tuple[Sequence[tuple[int, Route]], Splitter] | None:
        """The numbered routes of a port and its splitter, ready for a window; None without a stream.

        `near`: the other containers of this process.
        """
        routes = self._ports.get((operator, port))
        if routes is None:
            return None
        splitter = self._splitters[operator, port]
        splitter.begin(start, {self.container, *near})
        return routes, splitter


class Outgoing:
    """Pass tuples on as they are within the container and to those `near`; encode them once for all others.

    `tag` names the attempt, among all of all drivers. `place`: where blocks may lie by reference; None for
    none. `near`: the containers of this process. They get the same `Tuples` as siblings do, which nothing
    changes. `key_bits`: keys are counted by so many bits of their hashes, 0: they are not.
    """

    def __init__(
        self,
        routes: Routes,
        tag: str,
        place: SharedPlace | None,
        near: Collection[int] = (),
        key_bits: int = 0,
    ) -> None:
        self._routes = routes
        self._counters = KeyCounters(key_bits) if key_bits else None
        self._near = near
        self._writer = (
            SharedWriter(place, f"c{routes.container}{tag}") if place and routes.consumers else None
        )
        self._blocks: dict[int, list[Block]] = {}

    @property
    def size_bytes(self) -> int:
        """The size of all blocks."""
        return sum(block.size_bytes for blocks in self._blocks.values() for block in blocks)

    def route(
        self, source: int, emitted: Mapping[str, Sequence[Tuples]], delivered: Emitted, start: int
    ) -> None:
        """Route what an operator emitted by port; what siblings get is added to `delivered`.

        `start`: the partition with which round robin starts.
        """
        for port, parts in emitted.items():
            found = self._routes.of(source, port, start, self._near) if parts else None
            if found is None:
                continue
            routes, splitter = found
            for part in parts:
                packed: dict[tuple[int, int], tuple[Payload, PackedTimes | None]] = {}
                taken = splitter.split(part, self._counters)
                for (number, route), share in zip(routes, taken, strict=True):
                    if share is None:
                        continue
                    if route.container == self._routes.container:
                        delivered.setdefault((route.sink, route.sink_port), []).append(share)
                        continue
                    blocks = self._blocks.setdefault(route.container, [])
                    if route.container in self._near:
                        blocks.append(Block(route.sink, route.sink_port, number, share))
                        continue
                    if isinstance(share, Combined):
                        blocks.append(Block(route.sink, route.sink_port, number, share.packed()))
                        continue
                    form = id(share), id(route.encoding)
                    if form not in packed:
                        packed[form] = self._pack(share, route.encoding)
                    blocks.append(Block(route.sink, route.sink_port, number, *packed[form]))

    def key_counts(self) -> tuple[KeyCounts, ...]:
        """How the tuples that were divided by key are spread over keys, if that is counted."""
        return () if self._counters is None else self._counters.counts()

    def _pack(self, tuples: Tuples, encoding: Encoding | None) -> tuple[Payload, PackedTimes | None]:
        """By the codec of the port that they go to, else by Arrow. Raises RidgelineError."""
        encoded = None if encoding is None else coded.encode(tuples, encoding)
        if self._writer:
            return self._writer.pack(tuples, encoded)
        return encode(tuples) if encoded is None else encoded, encode_times(tuples)

    def messages(
        self,
        marks: Mapping[int, tuple[int, bool]] = {},
        ended: Collection[int] = (),
        controls: Mapping[tuple[int, str], list[Any]] = {},
    ) -> dict[int, Message]:
        """A message for each consumer that gets blocks, by the id of its container.

        The blocks are complete. `marks`, `ended`, `controls`: as of a `Message`; if there are any, each
        consumer gets them.
        """
        if self._writer:
            self._writer.close()
        consumers = self._routes.consumers if marks or ended or controls else self._blocks.keys()
        producer, over = self._routes.container, tuple(ended)
        return {
            consumer: Message(producer, self._blocks.get(consumer, ()), marks, over, controls)
            for consumer in consumers
        }

    def discard(self) -> None:
        """The attempt failed: nothing is sent."""
        if self._writer:
            self._writer.discard()
