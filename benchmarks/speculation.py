"""How long windows take while slots stand still now and then, with a spare slot and without.

A random slot gets SIGSTOP for some seconds, again and again. The work is waiting, not a processor: three
slots and Spark share two cores. Each window's result is checked.
"""

from __future__ import annotations

import contextlib
import os
import random
import signal
import threading
import time
from collections import Counter
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from benchmarks.frame import Benchmark, Figures, Goal, Round
from ridgeline import Application, InputOperator, InputPort, KeyedState, Operator, OutputPort, State
from ridgeline.api.publisher import Publisher
from ridgeline.measure.events import RunEvent, WindowCommitted, WindowRetried
from ridgeline.measure.slot_events import SlotEvent

P50, P99 = "p50 window seconds", "p99 window seconds"
SECONDS = 45.0
"""How long an application runs, once it is warm."""
STOPPED_SECONDS, APART_SECONDS = 5.0, 9.0
"""So long a slot stands still, and so long it is from one such time to the next."""
TUPLES, KEYS = 50, 50
WORK_SECONDS = 0.03
"""What a partition of a stage waits in each window."""
_MASTER = "local[3]"


class Keyed(NamedTuple):
    key: int
    value: int


class Numbers(InputOperator):
    """So many numbers a window in each of two partitions."""

    output = OutputPort(Keyed)
    position = State(0)

    def emit_tuples(self) -> None:
        values = (self.position + np.arange(TUPLES)) * 2 + self.context.partition
        self.output.emit_batch(
            pa.record_batch([pa.array(values % KEYS), pa.array(values)], names=["key", "value"])
        )
        self.position += TUPLES


class Count(Operator):
    """Passes numbers on, each plus how often its key has come before."""

    data = InputPort(Keyed, key="key")
    output = OutputPort(Keyed)
    counts = KeyedState(int, default=0)

    @data.process
    def add(self, one: Keyed) -> None:
        self.output.emit(Keyed(one.value % 7, one.value + self.counts[one.key]))
        self.counts[one.key] += 1

    def end_window(self) -> None:
        time.sleep(WORK_SECONDS)


class Totals(Operator):
    """Hands over the total of all that has come, in each window."""

    data = InputPort(Keyed, key="key")
    total = State(0)

    @data.process
    def add(self, one: Keyed) -> None:
        self.total += one.value

    def end_window(self) -> None:
        time.sleep(WORK_SECONDS)
        self.context.hand_over((self.context.partition, self.total))

    def publisher(self) -> Publisher:
        return Reader()


class Reader(Publisher):
    """What readers see of each window. One process runs one application."""

    groups_windows = True
    seen: dict[int, list[tuple[int, int]]]

    def __init__(self) -> None:
        Reader.seen = {}

    def stage(self, window_id: int, values: Sequence[Any]) -> None:
        if window_id in Reader.seen:
            raise ValueError(f"window {window_id} is staged again")
        Reader.seen[window_id] = list(values)

    def publish(self, window_id: int) -> None:
        pass


def check() -> None:
    """Raise ValueError unless each window has what plain Python has."""
    counts, total = [0] * KEYS, 0
    for window_id, values in sorted(Reader.seen.items()):
        for number in range(window_id * 2 * TUPLES, (window_id + 1) * 2 * TUPLES):
            total += number + counts[number % KEYS]
            counts[number % KEYS] += 1
        if len(values) != 2 or sum(part for _, part in values) != total:
            raise ValueError(f"window {window_id} has {values}, which should add up to {total}")
    if sorted(Reader.seen) != list(range(len(Reader.seen))):
        raise ValueError("windows are missing")


class Stopper:
    """Stops random slots while the application runs, from when it is warm. Follows its events."""

    def __init__(self, of_round: Round, *, stops: bool) -> None:
        self.over = threading.Event()
        self.stopped = 0
        self._warm = threading.Event()
        self._first = of_round.first_warm
        self._seconds = 2 * APART_SECONDS if of_round.quick else SECONDS
        self._stops = stops
        self._pids: dict[int, int] = {}
        self._active: set[int] = set()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def see(self, event: RunEvent) -> None:
        """Note which process is which slot, and which slots host containers."""
        if isinstance(event, SlotEvent) and event.kind in {"joined", "restarted"}:
            self._pids[event.slot] = event.pid
            if event.containers:
                self._active.add(event.slot)
        elif isinstance(event, SlotEvent) and event.kind == "speculated":
            self._active = self._active - {event.slot} | {event.spare}
        elif isinstance(event, WindowCommitted) and event.window_id >= self._first:
            self._warm.set()

    def _run(self) -> None:
        luck = random.Random(15)
        self._warm.wait()
        end = time.monotonic() + self._seconds
        while self._stops and time.monotonic() + STOPPED_SECONDS < end:
            time.sleep(luck.random() * 0.5)
            pid = self._pids[luck.choice(sorted(self._active))]
            os.kill(pid, signal.SIGSTOP)
            time.sleep(STOPPED_SECONDS)
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)
            self.stopped += 1
            time.sleep(max(0.0, min(APART_SECONDS - STOPPED_SECONDS, end - time.monotonic())))
        time.sleep(max(0.0, end - time.monotonic()))
        self.over.set()


def application() -> Application:
    """Two stages of two partitions that wait, in two slots."""
    app = Application("speculation", window="100ms", containers_max_count=2)
    numbers = app.add_operator("numbers", Numbers(), partitions=2)
    count = app.add_operator("count", Count(), partitions=2)
    totals = app.add_operator("totals", Totals(), partitions=2)
    app.add_stream("numbers", numbers.output, count.data)
    app.add_stream("counted", count.output, totals.data)
    return app


def _run(of_round: Round, *, stops: bool, speculation: float | None = None) -> Figures:
    from benchmarks.spark import SETTINGS
    from ridgeline.engine.driver.run.launch import Options
    from ridgeline.plan import plan_application
    from ridgeline.service.measured import ServiceOptions, run_measured

    stopper, events = Stopper(of_round, stops=stops), list[RunEvent]()

    def see(event: RunEvent) -> None:
        events.append(event)
        stopper.see(event)

    given = {} if speculation is None else {"speculation": str(speculation)}
    plan = plan_application(application(), {}, given)
    options = Options(_MASTER, SETTINGS, str(of_round.folder / "checkpoint"), None)
    run_measured(plan, options, ServiceOptions(port=None), observe=see, stop=stopper.over)
    check()
    windows = [event for event in events if isinstance(event, WindowCommitted)]
    times = of_round.warm([event.published - event.began for event in windows])
    counts = {
        "retried": sum(isinstance(event, WindowRetried) for event in events),
        **Counter(event.kind for event in events if isinstance(event, SlotEvent)),
    }
    p50, p99 = np.percentile(times, [50, 99])
    late = sum(one > 2 * p50 for one in times)
    of_round.note(
        f"{stopper.stopped} stops of {STOPPED_SECONDS:g} s, {len(times)} windows, {late} beyond twice p50"
    )
    of_round.note(f"{len(windows)} windows checked; {', '.join(f'{n} {kind}' for kind, n in counts.items())}")
    of_round.note(f"slowest: {', '.join(f'{one:.2f}' for one in sorted(times)[-12:])} s")
    return {P50: [float(p50)], P99: [float(p99)]}


def calm(of_round: Round) -> Figures:
    """Nothing stands still."""
    return _run(of_round, stops=False)


def stopped(of_round: Round) -> Figures:
    """Slots stand still, all windows wait for them."""
    return _run(of_round, stops=True)


def hedged(of_round: Round) -> Figures:
    """Slots stand still, the spare runs what they are late with."""
    return _run(of_round, stops=True, speculation=0.9)


BENCHMARKS = (
    Benchmark(
        name="speculation",
        title="a slot stands still for 5 s now and then: window times with a spare slot and without",
        contestants={"ours": hedged, "without stops": calm, "without speculation": stopped},
        goals=[
            Goal(figure=P99, against="without stops", at_most=3.0),
            Goal(figure=P99, against="without speculation", at_most=0.3),
            Goal(figure=P50, against="without stops", at_most=1.2),
        ],
        rounds=1,
        budget_seconds=240,
        part_of_all=False,
    ),
)
