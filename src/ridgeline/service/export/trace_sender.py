"""Sends the traces of windows by OTLP, in a thread of its own that no window waits for."""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from ridgeline.api.clock import Clock, SystemClock
from ridgeline.api.errors import RidgelineError
from ridgeline.api.support.masking import mask_text, printable
from ridgeline.measure.tracing.counts import TraceCounts
from ridgeline.measure.tracing.exemplars import Exemplar, Exemplars
from ridgeline.measure.tracing.ids import span_id
from ridgeline.observe.identity import own_host, version
from ridgeline.service.export.trace_spans import Link, WindowSpans, as_otel, window_spans
from ridgeline.service.export.trace_windows import ChosenWindow
from ridgeline.service.quiet_thread import QuietThread

if TYPE_CHECKING:
    from opentelemetry.sdk.resources import Resource

_log = logging.getLogger(__name__)
MOST_WINDOWS = 64
MOST_EVENTS = 100_000
"""Of windows that wait to be sent. Then the oldest are dropped."""
CLOSE_SECONDS = 3.0
"""How long the end of a run waits for the last traces."""
_BATCH_SECONDS = 5.0
"""How long a window waits for others that are sent with it."""
_BATCH_WINDOWS = 32
_BATCH_EVENTS = 2_000
_FIRST_WAIT_SECONDS = 5.0
_LONGEST_WAIT_SECONDS = 60.0
_LOGGER = "opentelemetry.exporter.otlp.proto.http.trace_exporter"
INSTALL = "install it: `pip install 'ridgeline[telemetry]'`"


class _Built(NamedTuple):
    """A window with its spans, and as later ones refer to it."""

    chosen: ChosenWindow
    made: WindowSpans
    link: Link


class TraceSender:
    """Makes spans of chosen windows and exports them, until `close`.

    Few windows wait at a time; those that are dropped are counted in `counts`. A collector that does not
    answer is said once by `say`, and so is that it answers again. It is asked again after 5 s, then less
    often.

    Args:
        endpoint: The URL of the collector's traces; None: as OpenTelemetry's variables say.
        exemplars: Takes the windows that the collector has. counts: Counts what was sent and dropped.
        say: Called with a line for people. headers: Headers to send, for an API key. region: The part of the
        application that runs, if it has several.

    Raises:
        RidgelineError: If the extra is not installed, or a variable of OpenTelemetry cannot be used.
    """

    def __init__(
        self,
        endpoint: str | None,
        exemplars: Exemplars,
        counts: TraceCounts,
        say: Callable[[str], None],
        *,
        headers: Mapping[str, str] | None = None,
        clock: Clock | None = None,
        region: str = "",
    ) -> None:
        self._region = region
        self._exemplars = exemplars
        self._counts = counts
        self._say = say
        self._clock = clock or SystemClock()
        self._refusals = _Refusals()
        self._export = _exporter(endpoint, headers, self._refusals)
        self._waiting: deque[ChosenWindow] = deque()
        self._events = 0
        self._there = threading.Condition()
        self._stop = threading.Event()
        self._resource: tuple[str, Resource] | None = None
        self._before: Link | None = None
        self._failed = 0
        self._left = False
        """Whether the run has ended before an answer came."""
        self._under_way = 0
        self._thread = threading.Thread(target=self._run, name="ridgeline-traces", daemon=True)
        self._reasons = QuietThread(self._thread, _LOGGER)
        self._thread.start()

    def take(self, chosen: ChosenWindow) -> None:
        """Let a window be sent. Returns at once; if too much waits, the oldest is dropped."""
        with self._there:
            self._waiting.append(chosen)
            self._events += len(chosen.events)
            while len(self._waiting) > 1 and (
                len(self._waiting) > MOST_WINDOWS or self._events > MOST_EVENTS
            ):
                self._events -= len(self._waiting.popleft().events)
                self._counts.dropped += 1
            self._there.notify()

    def close(self) -> None:
        """Send what waits, and end: within 3 s, whatever the collector does. May be called twice."""
        with self._there:
            first = not self._stop.is_set()
            self._stop.set()
            self._there.notify()
        if not first:
            return
        if not self._failed:
            self._thread.join(CLOSE_SECONDS)
        self._export.shutdown()
        self._thread.join(0.2)
        with self._there:
            self._left = self._thread.is_alive()
            self._counts.dropped += len(self._waiting) + self._left * self._under_way
            self._waiting.clear()
        self._reasons.close()
        if self._counts.dropped:
            self._say(f"{self._counts.dropped:,} traces of windows were dropped: see `traces_dropped_total`")

    def _run(self) -> None:
        """Send batch by batch."""
        wait = _FIRST_WAIT_SECONDS
        while batch := self._next():
            if self._send(batch):
                wait = _FIRST_WAIT_SECONDS
            elif self._stop.is_set():
                return
            else:
                self._clock.wait(wait, self._stop)
                wait = min(2 * wait, _LONGEST_WAIT_SECONDS)

    def _next(self) -> list[ChosenWindow]:
        """The oldest windows that wait, as one request can have; none once the run has ended."""
        batch: list[ChosenWindow] = []
        events = 0
        with self._there:
            self._there.wait_for(lambda: self._waiting or self._stop.is_set())
            self._there.wait_for(self._is_due, _BATCH_SECONDS)
            while self._waiting and len(batch) < _BATCH_WINDOWS:
                events += len(self._waiting[0].events)
                if batch and events > _BATCH_EVENTS:
                    break
                batch.append(self._waiting.popleft())
                self._events -= len(batch[-1].events)
            self._under_way = len(batch)
        return batch

    def _is_due(self) -> bool:
        """True if a request is not to wait for more windows."""
        enough = len(self._waiting) >= _BATCH_WINDOWS or self._events >= _BATCH_EVENTS
        return enough or self._stop.is_set()

    def _send(self, batch: Sequence[ChosenWindow]) -> bool:
        """Send windows in one request; False if the collector has not taken it."""
        from opentelemetry.sdk.trace.export import SpanExportResult

        self._reasons.last = ""
        built, spans = self._built(batch)
        taken = not built
        if built:
            try:
                taken = self._export.export(spans) is SpanExportResult.SUCCESS
            except Exception as error:  # noqa: BLE001  traces must never be the end of a run
                self._reasons.last = f"{type(error).__name__}: {error}"
        if not taken:
            self._refused(len(built))
        elif built:
            self._taken(built, len(spans))
        return taken

    def _built(self, batch: Sequence[ChosenWindow]) -> tuple[list[_Built], list[Any]]:
        """The spans of windows. One of which none can be made is dropped, and logged."""
        from opentelemetry.sdk.util.instrumentation import InstrumentationScope

        scope = InstrumentationScope("ridgeline", version())
        built: list[_Built] = []
        spans: list[Any] = []
        before = self._before
        for chosen in batch:
            try:
                made = window_spans(chosen)
                spans += as_otel(chosen, made.spans, self._resource_of(chosen), scope, before)
            except Exception:  # noqa: BLE001  a fault of ours costs a trace and no more
                self._counts.dropped += 1
                _log.exception("no trace can be made of window %s", chosen.window_id)
                continue
            run, window = chosen.plan.application_id, chosen.window_id
            before = Link(chosen.trace, span_id(run, window), window)
            built.append(_Built(chosen, made, before))
        return built, spans

    def _refused(self, windows: int) -> None:
        """Count windows that were not taken, and say why if those before were."""
        if self._left:
            return  # the end of the run has counted them
        self._counts.dropped += windows
        self._failed += 1
        if self._failed == 1:
            reason = printable(mask_text(self._reasons.last or "it does not answer"))
            self._say(
                f"the OpenTelemetry collector takes no traces: {reason}; they are dropped until it does, "
                "and windows are not held up"
            )

    def _taken(self, built: Sequence[_Built], spans: int) -> None:
        """Note windows that the collector has."""
        if self._failed:
            self._say("the OpenTelemetry collector takes traces again")
            self._failed = 0
        refused, why = self._refusals.take()
        self._counts.exported += len(built)
        self._counts.spans_refused += refused
        if refused and self._counts.spans_refused == refused:
            reason = printable(mask_text(why)) or "it does not say why"
            self._say(
                f"the OpenTelemetry collector refused {refused} of {spans} spans of a request: {reason}"
            )
        self._before = built[-1].link
        for chosen, made, link in () if refused else built:  # a trace that is not whole is no example
            if made.latency is None:
                continue
            ids = f"{link.trace:032x}", f"{link.span:016x}"
            self._exemplars.add_window(Exemplar(*ids, made.latency, chosen.at))
            self._exemplars.add_operators(
                [(series, Exemplar(*ids, latency, chosen.at)) for series, latency in made.operators]
            )

    def _resource_of(self, chosen: ChosenWindow) -> Resource:
        """The run as OpenTelemetry's resource. `OTEL_SERVICE_NAME` and `OTEL_RESOURCE_ATTRIBUTES` count."""
        run = chosen.plan.application_id
        if self._resource is None or self._resource[0] != run:
            self._resource = run, resource_of(chosen.plan.application, run, self._region)
        return self._resource[1]


def resource_of(application: str, run: str, region: str = "") -> Resource:
    """A run as OpenTelemetry's resource: `service.name` is the application, `service.instance.id` the run.

    `OTEL_SERVICE_NAME` and `OTEL_RESOURCE_ATTRIBUTES` come before it.
    """
    from opentelemetry.sdk.resources import OTELResourceDetector, Resource

    own = {
        "service.name": mask_text(application),
        "service.namespace": "ridgeline",
        "service.instance.id": run,
        "host.name": own_host(),
    }
    if region:
        own["ridgeline.region"] = mask_text(region)
    return Resource.create({**own, **OTELResourceDetector().detect().attributes})


class _Refusals:
    """Spans that the collector has refused in answers that say that all is well (`partial_success`)."""

    def __init__(self) -> None:
        self._spans = 0
        self._why = ""

    def look(self, response: Any, *_: Any, **__: Any) -> None:
        """A hook of requests: read an answer."""
        if response.status_code != 200 or not response.content:  # noqa: PLR2004
            return
        from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceResponse

        try:
            found = ExportTraceServiceResponse.FromString(response.content).partial_success
        except Exception:  # noqa: BLE001  no collector's answer, but it was 200
            return
        self._spans += max(0, found.rejected_spans)
        self._why = found.error_message or self._why

    def take(self) -> tuple[int, str]:
        """How many since the last call, and why."""
        found = self._spans, self._why
        self._spans, self._why = 0, ""
        return found


def _exporter(endpoint: str | None, headers: Mapping[str, str] | None, refusals: _Refusals) -> Any:
    """OpenTelemetry's exporter. Raises RidgelineError."""
    try:
        import requests
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    except ImportError as error:
        raise RidgelineError(f"traces need OpenTelemetry, which is not installed; {INSTALL}") from error
    session = requests.Session()
    session.hooks["response"].append(refusals.look)
    try:
        return OTLPSpanExporter(
            endpoint=endpoint, headers=None if headers is None else dict(headers), session=session
        )
    except (ValueError, OSError) as error:
        raise RidgelineError(
            f"a variable `OTEL_EXPORTER_OTLP_...` cannot be used: {printable(mask_text(str(error)))}"
        ) from error
