"""Counting of keys on demand: requests it from containers while a user wants it, and folds their reports."""

from __future__ import annotations

import math
import threading
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from ridgeline.api.clock import Clock
from ridgeline.engine.exchange.key_counts import unpacked_cells
from ridgeline.measure.deciding.key_load import KEY_BITS, KeyLoad
from ridgeline.plan.build.key_agreement import key_division
from ridgeline.plan.execution import Plan
from ridgeline.plan.protocol import KeyCounts, WindowReport, WindowRequest

if TYPE_CHECKING:
    from ridgeline.measure.deciding.key_load import KeyFold

WANTED_SECONDS = 60.0
"""How long tuples are counted after a request."""
_EVERY_SECONDS = 0.05
_FIRST_WINDOWS = 20
"""How many windows are counted at once, then no more than one in `_EVERY_SECONDS`."""


class KeyCounting:
    """The key loads of a run. `load` may be called by any thread, all else by the run's.

    Without a request it costs nothing.
    """

    def __init__(self, plan: Plan, clock: Clock) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._fold: KeyFold | None = None
        self._until = -math.inf
        self._asked = -math.inf
        self._count = 0
        self.change(plan)

    def change(self, plan: Plan) -> None:
        """Count for another plan from now on."""
        self._plan = plan
        self._names: Mapping[int, str] | None = None
        masks = (keys.mask for one in plan.physical.operators for keys in one.keys.values())
        self._bits = max(KEY_BITS, max(masks, default=0).bit_length())

    def load(self, operator: str, seconds: float) -> KeyLoad | None:
        """How the tuples of a logical operator are spread over keys; None before anything was counted.

        None, too, for one that is not divided by key.
        """
        division = key_division(self._plan, operator, self._bits)
        if division is None:
            return None
        now = self._clock.monotonic()
        with self._lock:
            self._until = now + WANTED_SECONDS
            counted = None if self._fold is None else self._fold.counted(operator, now - seconds)
        if counted is None or len(counted.cells) != 1 << division.bits:
            return None
        return KeyLoad(
            bits=division.bits,
            loads=counted.cells / counted.tuples,
            heavy=counted.heavy,
            tuples=counted.tuples,
            seconds=seconds,
            partitions=division.partitions,
            owners=division.owners,
            shared=division.shared,
            partitioner=division.partitioner,
            fixed=division.fixed,
            alone=division.alone,
        )

    def asked(self, request: WindowRequest) -> WindowRequest:
        """The request, with what is to be counted."""
        if self._until == -math.inf:
            return request
        now = self._clock.monotonic()
        if now > self._until:
            with self._lock:
                self._until, self._fold, self._count = -math.inf, None, 0
            return request
        if self._count >= _FIRST_WINDOWS and now - self._asked < _EVERY_SECONDS:
            return request
        self._asked, self._count = now, self._count + 1
        return replace(request, key_bits=self._bits)

    def take(self, reports: Iterable[WindowReport]) -> None:
        """A window is committed: fold what its reports say of keys."""
        found: dict[str, list[tuple[bool, KeyCounts]]] = {}
        for report in reports:
            for counts in report.keys:
                for operator, direct in self._sinks(counts):
                    found.setdefault(operator, []).append((direct, counts))
        if not found:
            return
        with self._lock:
            if self._fold is None:
                from ridgeline.measure.deciding.key_load import KeyFold

                self._fold = KeyFold()
            for operator, several in found.items():
                there = any(direct for direct, _ in several)
                for direct, counts in several:
                    if direct == there:  # what a unifier has merged counts in place of what came to it
                        self._fold.add(
                            operator,
                            self._clock.monotonic(),
                            unpacked_cells(counts.cells),
                            counts.sampled,
                            counts.heavy,
                        )

    def _sinks(self, counts: KeyCounts) -> dict[tuple[str, bool], None]:
        """The logical operators that tuples went to, each with False if to the unifiers before it."""
        if self._names is None:
            self._names = _names(self._plan)
        known = self._plan.physical.places
        return {
            (self._names[sink], not self._plan.physical.operator(sink).unifier): None
            for sink in counts.sinks
            if sink in known and sink in self._names
        }


def _names(plan: Plan) -> Mapping[int, str]:
    """The logical operator of each partition; of a unifier, the one that it stands before."""
    behind: dict[int, int] = {stream.source: stream.sink for stream in plan.physical.streams}
    found: dict[int, str] = {}
    for one in plan.physical.operators:
        sink = one
        while sink.unifier and sink.id in behind:
            sink = plan.physical.operator(behind[sink.id])
        if not sink.unifier:
            found[one.id] = sink.name
    return found
