"""Sends the traces of windows by OTLP, in a thread of its own that no window waits for."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

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

MOST_WINDOWS = 64
MOST_EVENTS = 100_000
"""Of windows that wait to be sent. Then the oldest are dropped."""
CLOSE_SECONDS = 3.0
"""How long the end of a run waits for the last traces."""
_FIRST_WAIT_SECONDS = 5.0
_LONGEST_WAIT_SECONDS = 60.0
_LOGGER = "opentelemetry.exporter.otlp.proto.http.trace_exporter"
INSTALL = "install it: `pip install 'ridgeline[telemetry]'`"


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
            self._counts.dropped += len(self._waiting) + self._left
            self._waiting.clear()
        self._reasons.close()
        if self._counts.dropped:
            self._say(f"{self._counts.dropped:,} traces of windows were dropped: see `traces_dropped_total`")

    def _run(self) -> None:
        """Send window by window."""
        wait = _FIRST_WAIT_SECONDS
        while (chosen := self._next()) is not None:
            if self._send(chosen):
                wait = _FIRST_WAIT_SECONDS
            elif self._stop.is_set():
                return
            else:
                self._clock.wait(wait, self._stop)
                wait = min(2 * wait, _LONGEST_WAIT_SECONDS)

    def _next(self) -> ChosenWindow | None:
        """The oldest window that waits; None once there is none and the run has ended."""
        with self._there:
            while not self._waiting and not self._stop.is_set():
                self._there.wait()
            if not self._waiting:
                return None
            chosen = self._waiting.popleft()
            self._events -= len(chosen.events)
            return chosen

    def _send(self, chosen: ChosenWindow) -> bool:
        """Send a window; False if the collector has not taken it."""
        from opentelemetry.sdk.trace.export import SpanExportResult
        from opentelemetry.sdk.util.instrumentation import InstrumentationScope

        self._reasons.last = ""
        made, spans, taken = None, 0, False
        try:
            made = window_spans(chosen)
            scope = InstrumentationScope("ridgeline", version())
            ours = as_otel(chosen, made.spans, self._resource_of(chosen), scope, self._before)
            spans = len(ours)
            taken = self._export.export(ours) is SpanExportResult.SUCCESS
        except Exception as error:  # noqa: BLE001  traces must never be the end of a run
            self._reasons.last = f"{type(error).__name__}: {error}"
        if made is None or not taken:
            self._refused()
            return False
        if self._failed:
            self._say("the OpenTelemetry collector takes traces again")
            self._failed = 0
        self._taken(chosen, made, spans)
        return True

    def _refused(self) -> None:
        """Count a window that was not taken, and say why if the one before was."""
        if self._left:
            return  # the end of the run has counted it
        self._counts.dropped += 1
        self._failed += 1
        if self._failed == 1:
            reason = printable(mask_text(self._reasons.last or "it does not answer"))
            self._say(
                f"the OpenTelemetry collector takes no traces: {reason}; they are dropped until it does, "
                "and windows are not held up"
            )

    def _taken(self, chosen: ChosenWindow, made: WindowSpans, spans: int) -> None:
        """Note a window that the collector has."""
        refused, why = self._refusals.take()
        self._counts.exported += 1
        self._counts.spans_refused += refused
        if refused and self._counts.spans_refused == refused:
            reason = printable(mask_text(why)) or "it does not say why"
            self._say(f"the OpenTelemetry collector refused {refused} of {spans} spans of a window: {reason}")
        run, window = chosen.plan.application_id, chosen.window_id
        self._before = Link(chosen.trace, span_id(run, window), window)
        if made.latency is None or refused:
            return
        ids = f"{chosen.trace:032x}", f"{self._before.span:016x}"
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
        msg = f"traces need OpenTelemetry, which is not installed; {INSTALL}"
        raise RidgelineError(msg) from error
    session = requests.Session()
    session.hooks["response"].append(refusals.look)
    try:
        return OTLPSpanExporter(
            endpoint=endpoint, headers=None if headers is None else dict(headers), session=session
        )
    except (ValueError, OSError) as error:
        msg = f"a variable `OTEL_EXPORTER_OTLP_...` cannot be used: {printable(mask_text(str(error)))}"
        raise RidgelineError(msg) from error
