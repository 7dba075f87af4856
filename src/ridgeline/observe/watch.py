"""Thread-safe measurement: one thread reports events, others read metrics, subscribers get every event."""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import wraps
from typing import Concatenate, ParamSpec, TypeVar

from ridgeline.measure.answers.changes import ChangeFiguresAnswer, DecisionAnswer, MarkAnswer, PromiseAnswer
from ridgeline.measure.answers.operators import (
    MetricHistoryAnswer,
    MetricsAnswer,
)
from ridgeline.measure.answers.progress import OutputAnswer
from ridgeline.measure.deciding.figures import ApplicationFigures, Keys
from ridgeline.measure.deciding.period import application_figures
from ridgeline.measure.events import (
    ApplicationEnded,
    RunEvent,
    WindowCommitted,
)
from ridgeline.measure.measurement import Measurement
from ridgeline.measure.registry.scrape import Scrape
from ridgeline.measure.topology import Topology
from ridgeline.measure.trace_ids import run_of, trace_text

_log = logging.getLogger(__name__)
Subscriber = Callable[[RunEvent], None]
_MOST_WAITING = 64
"""Events that may wait to be folded: some windows."""

_Given = ParamSpec("_Given")
_Answer = TypeVar("_Answer")


def _asked(
    ask: Callable[Concatenate[Measurement, _Given], _Answer],
) -> Callable[Concatenate[Watch, _Given], _Answer]:
    """What `Measurement` answers, as a method of `Watch`: as of all events that were reported.

    Each question has its types and words there, and is not spelled again.
    """

    @wraps(ask)
    def answer(self: Watch, /, *args: _Given.args, **kwargs: _Given.kwargs) -> _Answer:
        with self._settled() as figures:
            return ask(figures, *args, **kwargs)

    return answer


def _as_of_now(
    ask: Callable[Concatenate[Measurement, float, _Given], _Answer],
) -> Callable[Concatenate[Watch, _Given], _Answer]:
    """As `_asked`, of what has to be told the time."""

    @wraps(ask)
    def answer(self: Watch, /, *args: _Given.args, **kwargs: _Given.kwargs) -> _Answer:
        with self._settled() as figures:
            return ask(figures, self._now(), *args, **kwargs)

    return answer


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
        self.traced = False
        """Whether windows have traces."""
        self._now = now
        self._measurement = Measurement(own_host)
        self._waiting: deque[RunEvent] = deque()
        """Events that are not folded yet, for the lock's holder to take."""
        self._fault: Exception | None = None
        """The error of folding one, which the next call that reports an event raises."""
        self._lock = threading.Lock()
        self._order = threading.RLock()
        self._subscribers: Mapping[int, tuple[Subscriber, frozenset[type] | None]] = {}
        """With the kinds of events that each wants, None for all."""
        self._wanting: dict[type, list[tuple[int, Subscriber]]] = {}
        """Those that want a kind of event, as far as one came. Both are replaced as a whole: who calls
        subscribers holds no lock."""
        self._subscribed = 0

    # Events in ----------------------------------------------------------------------------------------------

    def observe(self, event: RunEvent) -> None:
        """Take an event in, and call all subscribers with it, in this thread.

        It is folded before the next answer, by `settle`, when too many wait or when the application ends;
        readers are waited for only then. All subscribers get the events of all threads in the same order.
        Raises what folding an event has raised since the last call.
        """
        kind = type(event)
        with self._order:  # one step for all threads, so that the folds and all subscribers see one order
            self._waiting.append(event)
            wanting = self._wanting.get(kind)
            for number, subscriber in self._who_wants(kind) if wanting is None else wanting:
                try:
                    subscriber(event)
                except Exception:  # noqa: BLE001  a subscriber must not fail the run
                    self.subscribers_dropped += self._unsubscribe(number)
                    name = getattr(subscriber, "__qualname__", type(subscriber).__name__)
                    _log.exception("subscriber `%s` has failed and is not called any more", name)
        if len(self._waiting) > _MOST_WAITING:
            with self._lock:
                self._fold_window()
        if isinstance(event, ApplicationEnded):  # the last call, so what folding raises is raised here
            with self._settled():
                pass
        fault, self._fault = self._fault, None
        if fault is not None:
            raise fault

    def _who_wants(self, kind: type) -> Sequence[tuple[int, Subscriber]]:
        """The subscribers that are called with events of a kind."""
        known = self._wanting  # first: it is replaced last
        found = known[kind] = [
            (number, subscriber)
            for number, (subscriber, kinds) in self._subscribers.items()
            if kinds is None or kind in kinds
        ]
        return found

    def settle(self) -> bool:
        """Fold the oldest window that waits: to be called when there is time.

        True if more wait. False, too, if nothing was done: a reader reads, and folds all that waits.
        """
        if not self._waiting or not self._lock.acquire(blocking=False):
            return False
        try:
            self._fold_window()
        finally:
            self._lock.release()
        return bool(self._waiting)

    def _fold_window(self) -> None:
        """Fold what waits up to the next commit; the caller holds the lock."""
        while self._waiting and not isinstance(self._fold(), WindowCommitted):
            pass

    def _fold(self) -> RunEvent:
        """Fold the oldest event that waits, and return it; the caller holds the lock.

        What cannot be folded is left out.
        """
        event = self._waiting.popleft()
        try:
            self._measurement.apply(event)
        except Exception as error:  # noqa: BLE001  raised by the next `observe`
            self._fault = error
        return event

    @contextmanager
    def _settled(self) -> Iterator[Measurement]:
        """The figures as of all events that were reported."""
        with self._lock:
            for _ in range(len(self._waiting)):  # not `while`: events that come meanwhile must not hold it up
                self._fold()
            yield self._measurement

    def subscribe(
        self, callback: Subscriber, kinds: Collection[type[RunEvent]] | None = None
    ) -> Callable[[], None]:
        """Call `callback` with every event from now on, after it is folded.

        `kinds`: the events that it wants; None: all of them. A window of a large application has thousands of
        events, so who wants few of them should say so.

        The callback must be quick, and must not wait for a thread that reports events. One that raises is
        counted and called no more. Returns a function that ends the subscription; it may be called twice.
        """
        with self._lock:
            number = self._subscribed
            self._subscribed += 1
            wanted = None if kinds is None else frozenset(kinds)
            self._subscribers = {**self._subscribers, number: (callback, wanted)}
            self._wanting = {}

        def unsubscribe() -> None:
            self._unsubscribe(number)

        return unsubscribe

    def _unsubscribe(self, number: int) -> bool:
        """End a subscription; False if it has ended before."""
        with self._lock:
            known = number in self._subscribers
            self._subscribers = {other: one for other, one in self._subscribers.items() if other != number}
            self._wanting = {}
        return known

    # Answers out --------------------------------------------------------------------------------------------

    def now(self) -> float:
        """STRAM's wall clock."""
        return self._now()

    @property
    def topology(self) -> Topology:
        """The present plan's operators and streams."""
        with self._settled() as figures:
            return figures.topology

    info = _as_of_now(Measurement.info)
    run = _asked(Measurement.run)
    summary = _asked(Measurement.summary)
    operators = _as_of_now(Measurement.operators)
    operator = _as_of_now(Measurement.operator)
    containers = _as_of_now(Measurement.containers)
    container = _as_of_now(Measurement.container)
    streams = _asked(Measurement.streams)
    latency = _as_of_now(Measurement.latency)
    latencies = _as_of_now(Measurement.latencies)
    critical_path = _asked(Measurement.critical_path)
    record_age = _as_of_now(Measurement.record_age)
    progress = _as_of_now(Measurement.progress)
    source = _asked(Measurement.source)
    watermarks = _as_of_now(Measurement.watermarks)
    watermark_marks = _as_of_now(Measurement.watermark_marks)
    lines = _as_of_now(Measurement.lines)

    def own_metrics(self, operator: str | None = None) -> MetricsAnswer:
        """The metrics that operators declare, of all operators or of one."""
        with self._settled() as figures:
            return {"metrics": figures.own_metrics.all(operator)}

    def metric_history(self, operator: str, metric: str, limit: int | None = None) -> MetricHistoryAnswer:
        """A metric that an operator declares, over the last windows."""
        with self._settled() as figures:
            return figures.own_metrics.history(operator, metric, limit)

    def changes(self, limit: int | None = None) -> list[ChangeFiguresAnswer]:
        """The last changes that were requested, by their numbers."""
        with self._settled() as figures:
            return figures.changes.rows(limit)

    def decisions(self, limit: int | None = None) -> list[DecisionAnswer]:
        """The last decisions of policies and listeners, by their numbers."""
        with self._settled() as figures:
            return figures.decisions.rows(limit)

    def outputs(self) -> list[OutputAnswer]:
        """The results of output operators that readers may see."""
        with self._settled() as figures:
            return figures.counts.outputs.rows()

    def marks(self, limit: int | None = None) -> list[MarkAnswer]:
        """The last things that happened, the newest last."""
        with self._settled() as figures:
            return figures.marks.rows(limit)

    def promises(self) -> list[PromiseAnswer]:
        """The promises of the application: kept or broken, and since when."""
        with self._settled() as figures:
            return figures.counts.promises.rows(self._now())

    window_latencies = _asked(Measurement.window_latencies)
    take_ages = _asked(Measurement.take_ages)
    operator_totals = _asked(Measurement.operator_totals)
    keep_figures = _asked(Measurement.keep_figures)
    operator_history = _as_of_now(Measurement.operator_history)
    application_history = _as_of_now(Measurement.application_history)

    def application_figures(
        self,
        seconds: float = 10.0,
        *,
        changing: bool = False,
        keys: Keys | None = None,
        slots: int | None = None,
        cores: int | None = None,
    ) -> ApplicationFigures:
        """The figures of the last `seconds` seconds for those who decide.

        `keys`: of a run that counts them. `slots`: how many its containers could have. `cores`: processors
        that these share.
        """
        with self._settled() as figures:
            return application_figures(
                figures, self._now(), seconds, changing=changing, key_loads=keys, slots=slots, cores=cores
            )

    clocks = _asked(Measurement.clocks)
    windows = _asked(Measurement.windows)
    window = _asked(Measurement.window)

    def trace_of(self, _operator: str, window_id: int) -> str | None:
        """The id of a window's trace, None if windows have none. With regions: of the operator's window."""
        plan = self._measurement.plan
        if not self.traced or plan is None or window_id < 0:
            return None
        return trace_text(run_of(plan.application_id), window_id)

    overview = _as_of_now(Measurement.overview)

    def scrapes(self) -> list[tuple[str, Scrape]]:
        """The name of each region, empty for the only one, and what its metrics are made of; as `scrape`."""
        return [("", self.scrape())]

    def scrape(self) -> Scrape:
        """All that metrics are made of, of one moment."""
        with self._settled() as measurement:
            now, counts = self._now(), measurement.counts
            return Scrape(
                measurement.overview(now, latencies=False),
                measurement.containers(now),
                measurement.latency_totals(),
                measurement.window_totals(),
                measurement.age_totals(),
                measurement.watermarks(now),
                replace(counts, slots=counts.slots.copy(), kinds=counts.kinds.copy()),
                measurement.changes.counts.copy(),
                measurement.changes.held_seconds,
                self.subscribers_dropped,
                measurement.own_metrics.all(),
                measurement.topology.metrics,
            )
