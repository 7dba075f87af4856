"""Thread-safe measurement: one thread reports events, others read metrics, subscribers get every event."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from dataclasses import dataclass

from ridgeline.measure.age.record_age import AgeTotals
from ridgeline.measure.answers.application import (
    FrameAnswer,
    InfoAnswer,
    PendingInfoAnswer,
    RunAnswer,
    RunSummaryAnswer,
)
from ridgeline.measure.answers.operators import (
    ContainerAnswer,
    OperatorAnswer,
    RecordAgesAnswer,
    StreamAnswer,
    ThroughputAnswer,
)
from ridgeline.measure.answers.progress import ProgressAnswer
from ridgeline.measure.answers.windows import (
    CriticalPathAnswer,
    LatencyAnswer,
    WindowAnswer,
    WindowSummaryAnswer,
)
from ridgeline.measure.events import RunEvent
from ridgeline.measure.latency.totals import LatencyTotal, WindowTotal
from ridgeline.measure.measurement import Measurement
from ridgeline.measure.topology import OperatorNode, Topology

_log = logging.getLogger(__name__)
Subscriber = Callable[[RunEvent], None]


@dataclass(frozen=True, slots=True)
class Scrape:
    """All that a metrics system gets, of one moment; its counters count from the start of the run."""

    frame: FrameAnswer
    last_window: WindowSummaryAnswer | None
    containers: list[ContainerAnswer]
    latencies: list[tuple[OperatorNode, LatencyTotal]]
    windows: WindowTotal
    ages: list[tuple[OperatorNode, str, AgeTotals]]
    slots_lost: int
    slots_restarted: int
    compactions: int
    state_warnings: int
    heartbeats_unsent: int
    subscribers_dropped: int


class Watch:
    """The figures of a running application. Thread-safe; every answer is of one moment.

    Answers are plain data for JSON, those of `ridgeline.measure.measurement.Measurement`. Unknown names, ids
    and windows raise KeyError.

    Args:
        now: STRAM's wall clock, seconds since 1970.
        own_host: The host where STRAM runs; its clock needs no correction.
    """

    def __init__(self, now: Callable[[], float], own_host: str = "") -> None:
        self.subscribers_dropped = 0
        """How many subscribers have raised an error and get no events any more."""
        self._now = now
        self._measurement = Measurement(own_host)
        self._lock = threading.Lock()
        self._order = threading.RLock()
        self._subscribers: dict[int, Subscriber] = {}
        self._subscribed = 0

    # Events in ----------------------------------------------------------------------------------------------

    def observe(self, event: RunEvent) -> None:
        """Fold an event, then call all subscribers with it, in this thread.

        All subscribers get the events of all threads in the same order.
        """
        with self._order:
            with self._lock:
                self._measurement.apply(event)
                subscribers = list(self._subscribers.items())
            for number, subscriber in subscribers:
                try:
                    subscriber(event)
                except Exception:  # noqa: BLE001  a subscriber must not fail the run
                    with self._lock:
                        self.subscribers_dropped += self._subscribers.pop(number, None) is not None
                    name = getattr(subscriber, "__qualname__", type(subscriber).__name__)
                    _log.exception("subscriber `%s` has failed and is not called any more", name)

    def subscribe(self, callback: Subscriber) -> Callable[[], None]:
        """Call `callback` with every event from now on, after it is folded.

        The callback must be quick, and must not wait for a thread that reports events. One that raises is
        counted and called no more. Returns a function that ends the subscription; it may be called twice.
        """
        with self._lock:
            number = self._subscribed
            self._subscribed += 1
            self._subscribers[number] = callback

        def unsubscribe() -> None:
            with self._lock:
                self._subscribers.pop(number, None)

        return unsubscribe

    # Answers out --------------------------------------------------------------------------------------------

    @property
    def topology(self) -> Topology:
        """The present plan's operators and streams."""
        with self._lock:
            return self._measurement.topology

    def info(self) -> InfoAnswer | PendingInfoAnswer:
        """The application as a whole: who, since when, state, `stats`."""
        with self._lock:
            return self._measurement.info(self._now())

    def run(self) -> RunAnswer:
        """How far the run is, as of its last window."""
        with self._lock:
            return self._measurement.run()

    def summary(self) -> RunSummaryAnswer:
        """What the run adds up to: its windows, its operators, what failed."""
        with self._lock:
            return self._measurement.summary()

    def operators(self) -> list[OperatorAnswer]:
        """All physical operators."""
        with self._lock:
            return self._measurement.operators(self._now())

    def operator(self, operator_id: int) -> OperatorAnswer:
        """One physical operator."""
        with self._lock:
            return self._measurement.operator(self._now(), operator_id)

    def containers(self) -> list[ContainerAnswer]:
        """All containers."""
        with self._lock:
            return self._measurement.containers(self._now())

    def container(self, container_id: int) -> ContainerAnswer:
        """One container."""
        with self._lock:
            return self._measurement.container(self._now(), container_id)

    def streams(self) -> list[StreamAnswer]:
        """The physical streams."""
        with self._lock:
            return self._measurement.streams()

    def latency(self, window_id: int | None = None) -> LatencyAnswer:
        """The latencies of all operators in a window (default: the last)."""
        with self._lock:
            return self._measurement.latency(self._now(), window_id)

    def critical_path(self, window_id: int | None = None) -> CriticalPathAnswer:
        """Critical path, slack and blame chain of a window (default: the last)."""
        with self._lock:
            return self._measurement.critical_path(window_id)

    def record_age(self, operator: str | None = None) -> RecordAgesAnswer:
        """The record ages of the last minute, of all operators or of one."""
        with self._lock:
            return self._measurement.record_age(self._now(), operator)

    def progress(self) -> ProgressAnswer:
        """The progress of the window that runs, and of the sources."""
        with self._lock:
            return self._measurement.progress(self._now())

    def throughput(self) -> ThroughputAnswer:
        """The tuples of all operators and ports, in sum and per second."""
        with self._lock:
            return self._measurement.throughput(self._now())

    def windows(self, limit: int | None = None) -> list[WindowSummaryAnswer]:
        """Summaries of the last windows, the newest last."""
        with self._lock:
            return self._measurement.windows(limit)

    def window(self, window_id: int) -> WindowAnswer:
        """All of one window."""
        with self._lock:
            return self._measurement.window(window_id)

    def frame(self) -> FrameAnswer:
        """All that a view shows, of one moment."""
        with self._lock:
            return self._measurement.frame(self._now())

    def scrape(self) -> Scrape:
        """All that metrics are made of, of one moment."""
        with self._lock:
            now, measurement = self._now(), self._measurement
            latencies, windows = measurement.latency_totals()
            last = next(iter(measurement.windows(1)), None)
            frame = measurement.frame(now, latencies=False)
            return Scrape(
                frame,
                last,
                measurement.containers(now),
                latencies,
                windows,
                measurement.age_totals(),
                measurement.slots_lost,
                measurement.slots_restarted,
                measurement.compactions,
                measurement.state_warnings,
                measurement.heartbeats_unsent,
                self.subscribers_dropped,
            )
