"""Traces of windows by OTLP: which windows are traced, and where their spans are made and sent."""

from __future__ import annotations

import contextlib
import logging
import os
import statistics
import threading
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from ridgeline.api.errors import RidgelineError
from ridgeline.api.support.masking import mask_text, printable
from ridgeline.measure.events import (
    ApplicationEnded,
    ApplicationPlanned,
    RunEvent,
    SparkTrigger,
    WindowCommitted,
    WindowPlanned,
    WindowReported,
    WindowRetried,
    WindowStarted,
)
from ridgeline.measure.trace_ids import is_sampled, run_of, trace_id
from ridgeline.observe.identity import own_host, version
from ridgeline.observe.watch import Watch
from ridgeline.service.options import ServiceOptions

if TYPE_CHECKING:
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import SpanProcessor

_log = logging.getLogger(__name__)
Say = Callable[[str], None]
RATIO, SLOW = 0.01, 3.0
_ENDPOINTS = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")
_EXPORTER = "opentelemetry.exporter.otlp.proto.http"
_INSTALL = "install it: `pip install 'ridgeline[telemetry]'`"

_RECENT = 100
_FEWEST = 10
"""Windows without which no window is slow: the first ones start processes and import code."""
_MEDIAN_WINDOWS = 10
_MOST_UNDER_WAY = 256
_MOST_FAILED = 16

_MOST_WAITING, _BATCH = 64, 16
"""Windows that wait to be sent; then the oldest are dropped. Windows in a request."""
CLOSE_SECONDS = 3.0
"""How long the end of a run waits for the last traces."""


# Settings ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class TraceSettings:
    """Which windows are traced, and where their traces go.

    `endpoint`: the URL of the collector's traces; None: as OpenTelemetry's variables say. `ratio`: the share
    of all windows.
    """

    endpoint: str | None
    ratio: float = RATIO


def traces_of(service: ServiceOptions, say: Say | None = None) -> TraceSettings | None:
    """The settings of a run's traces; None: it has none. `say` gets a line if only the extra is missing.

    Raises RidgelineError for a value that cannot be used.
    """
    found = trace_settings(service.otlp, os.environ)
    if found is None or found.endpoint is not None or _has_exporter():
        return found
    if say is not None:
        say(
            "`OTEL_EXPORTER_OTLP_...` names a collector, but no traces are sent to it: install "
            "`ridgeline[telemetry]`, or set `OTEL_TRACES_EXPORTER=none`"
        )
    return None


def _has_exporter() -> bool:
    """Whether the exporter is installed: many packages bring OpenTelemetry's interface without it."""
    try:
        return find_spec(_EXPORTER) is not None
    except ModuleNotFoundError:
        return False


def trace_settings(otlp: str | None, environment: Mapping[str, str]) -> TraceSettings | None:
    """The settings of a run's traces; None: none are wanted.

    Args:
        otlp: The collector's URL, an option of the run. None: as the variables say, if they say one.
        environment: The variables. `OTEL_TRACES_SAMPLER_ARG` says the share of windows, else it is 0.01.

    Raises:
        RidgelineError: A value that is none.
    """
    wanted = otlp is not None or any(environment.get(name) for name in _ENDPOINTS)
    if not wanted or environment.get("OTEL_SDK_DISABLED", "").strip().lower() == "true":
        return None
    if otlp is None and environment.get("OTEL_TRACES_EXPORTER", "otlp").strip() not in {"", "otlp"}:
        return None
    return TraceSettings(None if otlp is None else _traces_url(otlp), _sampled(environment))


def _traces_url(endpoint: str) -> str:
    """The URL of traces at a collector. Raises RidgelineError for what is no URL."""
    try:
        parts = urlsplit(endpoint)
        _ = parts.port
    except ValueError:  # brackets without an end, a port that is none
        parts = urlsplit("")
    if parts.scheme not in {"http", "https"} or not parts.hostname:
        raise RidgelineError(
            f"an OTLP endpoint is a URL; got `{mask_text(endpoint)}`; did you mean `http://localhost:4318`?"
        )
    return endpoint.rstrip("/") + "/v1/traces" if parts.path in {"", "/"} else endpoint


def _sampled(environment: Mapping[str, str]) -> float:
    """The ratio that the variables of OpenTelemetry name. Raises RidgelineError."""
    given = environment.get("OTEL_TRACES_SAMPLER_ARG", "").strip()
    try:
        ratio = float(given or RATIO)
    except ValueError:
        ratio = -1.0
    if not 0 <= ratio <= 1:
        raise RidgelineError(
            f"`OTEL_TRACES_SAMPLER_ARG={given}` is no share of all windows; give a number from 0 to 1"
        )
    return ratio


# Which windows ----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ChosenWindow:
    """A window that is traced: its events, and what is known to read them.

    `why`: `ratio`, `slow` or `failed`. `median`: seconds that the last windows took, 0 if that is not known.
    `failure`: why it was never committed; empty if it was. `at`: when it was chosen.
    """

    plan: ApplicationPlanned
    window_id: int
    events: tuple[RunEvent, ...]
    why: str
    median: float
    at: float
    failure: str = ""

    @property
    def trace(self) -> int:
        """The id of its trace."""
        return trace_id(run_of(self.plan.application_id), self.window_id)


class WindowTraces:
    """Subscribed to a `Watch`: keeps the events of windows until it is known whether they are traced.

    An event costs the thread that reports it a look into a dictionary. A window that is chosen goes to
    `take`, which must be as quick.
    """

    def __init__(self, settings: TraceSettings, take: Callable[[ChosenWindow], None]) -> None:
        self._settings = settings
        self._take = take
        self._plan: ApplicationPlanned | None = None
        self._run = ""
        self._windows: dict[int, list[RunEvent]] = {}
        self._faulty: set[int] = set()
        """Windows under way of which an attempt failed, or that an operator lost."""
        self._recent: deque[float] = deque(maxlen=_RECENT)
        self._median, self._until = 0.0, _FEWEST
        """The median of these, and how many windows there are until it is computed again."""
        self._waiting: ChosenWindow | None = None
        """The last one that was chosen, where Spark's own account of it is to come."""
        self._triggers = False
        self._handlers: Mapping[type, Callable[[Any], None]] = {
            ApplicationPlanned: self._planned,
            WindowPlanned: self._keep,
            WindowStarted: self._keep,
            WindowRetried: self._retried,
            WindowReported: self._reported,
            SparkTrigger: self._triggered,
            WindowCommitted: self._committed,
            ApplicationEnded: self._ended,
        }

    def apply(self, event: RunEvent) -> None:
        """Take an event in; calls come one at a time."""
        handler = self._handlers.get(type(event))
        if handler is not None:
            handler(event)

    def _planned(self, event: ApplicationPlanned) -> None:
        self._plan = event
        self._run = run_of(event.application_id)

    def _reported(self, event: WindowReported) -> None:
        kept = self._windows.get(event.window_id)
        if kept is not None:
            kept.append(event)
        if event.dropped:
            self._faulty.add(event.window_id)

    def _retried(self, event: WindowRetried) -> None:
        self._keep(event)
        if not event.final:
            self._faulty.add(event.window_id)

    def _keep(self, event: WindowPlanned | WindowStarted | WindowRetried) -> None:
        kept = self._windows.get(event.window_id)
        if kept is None:
            kept = self._windows[event.window_id] = []
            if len(self._windows) > _MOST_UNDER_WAY:
                del self._windows[next(iter(self._windows))]
        kept.append(event)

    def _triggered(self, event: SparkTrigger) -> None:
        """Spark's account of a window comes before or after its commit."""
        self._triggers = True
        waiting = self._waiting
        if waiting is not None and waiting.window_id == event.window_id:
            self._waiting = None
            self._take(replace(waiting, events=(*waiting.events[:-1], event, waiting.events[-1])))
        elif event.window_id in self._windows:
            self._windows[event.window_id].append(event)

    def _committed(self, event: WindowCommitted) -> None:
        """Decide on a window, and let it go."""
        events = self._windows.pop(event.window_id, [])
        self._release()
        if self._plan is None:
            return
        latency = max(0.0, event.committed - event.began)
        median = self._median
        self._recent.append(latency)
        self._until -= 1
        if self._until <= 0:
            self._median, self._until = statistics.median(self._recent), _MEDIAN_WINDOWS
        why = self._why(event, latency, median)
        if not why:
            return
        kept = (*events, event)
        chosen = ChosenWindow(self._plan, event.window_id, kept, why, median, event.at)
        if self._triggers and not any(isinstance(one, SparkTrigger) for one in events):
            self._waiting = chosen
        else:
            self._take(chosen)

    def _why(self, event: WindowCommitted, latency: float, median: float) -> str:
        """Why a window is traced, empty if it is not."""
        if event.window_id in self._faulty:
            self._faulty = {window for window in self._faulty if window > event.window_id}
            return "failed"
        if median and latency > SLOW * median:
            return "slow"
        sampled = is_sampled(trace_id(self._run, event.window_id), self._settings.ratio)
        return "ratio" if sampled else ""

    def _ended(self, event: ApplicationEnded) -> None:
        """Windows that a failure has left under way are traced as far as they came."""
        self._release()
        if self._plan is None or event.outcome != "failed":
            return
        left = [
            (window, events)
            for window, events in sorted(self._windows.items())
            if any(isinstance(one, WindowStarted) for one in events)
        ]
        self._windows.clear()
        for window, events in left[:_MOST_FAILED]:
            reason = event.reason or "the run failed"
            self._take(ChosenWindow(self._plan, window, tuple(events), "failed", 0.0, event.at, reason))

    def _release(self) -> None:
        """Let go of a window for whose account by Spark there was time enough."""
        waiting, self._waiting = self._waiting, None
        if waiting is not None:
            self._take(waiting)


# Sending ----------------------------------------------------------------------------------------------------


@contextlib.contextmanager
def exporting_traces(watch: Watch, service: ServiceOptions, say: Say, region: str = "") -> Iterator[None]:
    """Send traces of windows by OTLP while the block runs, if they are wanted. Raises RidgelineError.

    OpenTelemetry's `BatchSpanProcessor` queues, sends and drops them; no window waits for it. The end waits 3
    s at most. `region`: the part of the application that runs, if it has several.
    """
    settings = traces_of(service, say)
    if settings is None:
        yield
        return
    processor, take = _sending(watch, settings.endpoint, say, region)
    watch.traced = True
    end = watch.subscribe(WindowTraces(settings, take).apply)
    try:
        yield
    finally:
        end()
        closing = threading.Thread(target=processor.shutdown, name="ridgeline-traces-end", daemon=True)
        closing.start()
        closing.join(CLOSE_SECONDS)


def _sending(
    watch: Watch, endpoint: str | None, say: Say, region: str
) -> tuple[SpanProcessor, Callable[[ChosenWindow], None]]:
    """A processor of spans, and what gives it a window. Raises RidgelineError.

    What waits in the processor is a span that stands for its window; the exporter, in the processor's thread,
    makes the others.
    """
    try:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk.trace import ReadableSpan
        from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExportResult
        from opentelemetry.trace import SpanContext, TraceFlags
    except ImportError as error:
        raise RidgelineError(f"traces need OpenTelemetry, which is not installed; {_INSTALL}") from error
    from ridgeline.service.export.trace_spans import otel_spans

    class Pending(ReadableSpan):
        """A window whose spans are not made yet."""

        def __init__(self, chosen: ChosenWindow) -> None:
            flags = TraceFlags(TraceFlags.SAMPLED)
            super().__init__("window", SpanContext(chosen.trace, 1, is_remote=False, trace_flags=flags))
            self.chosen = chosen

    class Exporter(OTLPSpanExporter):
        """Makes the spans of windows, and sends them."""

        refused = False

        def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
            made: list[ReadableSpan] = []
            clocks = watch.clocks()
            for pending in spans:
                chosen = pending.chosen  # type: ignore[attr-defined]  # a `Pending`
                try:
                    made += otel_spans(chosen, clocks, _resource_of(chosen, region), version())
                except Exception:  # noqa: BLE001  a fault of ours costs a trace and no more
                    _log.exception("no trace can be made of window %s", chosen.window_id)
            result = super().export(made) if made else SpanExportResult.SUCCESS
            if (result is not SpanExportResult.SUCCESS) != self.refused:
                self.refused = not self.refused
                how = "no traces; they are dropped until it does" if self.refused else "traces again"
                say(f"the OpenTelemetry collector takes {how}")
            return result

    try:
        processor = BatchSpanProcessor(
            Exporter(endpoint), max_queue_size=_MOST_WAITING, max_export_batch_size=_BATCH
        )
    except (ValueError, OSError) as error:
        raise RidgelineError(
            f"a variable `OTEL_EXPORTER_OTLP_...` cannot be used: {printable(mask_text(str(error)))}"
        ) from error
    return processor, lambda chosen: processor.on_end(Pending(chosen))


def _resource_of(chosen: ChosenWindow, region: str) -> Resource:
    """A run as OpenTelemetry's resource: `service.name` is the application, `service.instance.id` the run.

    `OTEL_SERVICE_NAME` and `OTEL_RESOURCE_ATTRIBUTES` come before it.
    """
    from opentelemetry.sdk.resources import OTELResourceDetector, Resource

    own = {
        "service.name": mask_text(chosen.plan.application),
        "service.namespace": "ridgeline",
        "service.instance.id": chosen.plan.application_id,
        "host.name": own_host(),
    }
    if region:
        own["ridgeline.region"] = mask_text(region)
    return Resource.create({**own, **OTELResourceDetector().detect().attributes})
