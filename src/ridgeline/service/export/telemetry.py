"""Export of metrics and traces of a run by OTLP, and its lineage, for as long as a block runs."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator
from importlib.util import find_spec

from ridgeline.api.errors import RidgelineError
from ridgeline.observe.answers import Answers
from ridgeline.observe.identity import own_host
from ridgeline.observe.watch import Watch
from ridgeline.plan.logical import LogicalPlan
from ridgeline.service.export.trace_settings import TraceSettings, trace_settings
from ridgeline.service.lineage.wanting import wants_lineage
from ridgeline.service.options import ServiceOptions

Say = Callable[[str], None]
_EXPORTER = "opentelemetry.exporter.otlp.proto.http"


def traces_of(service: ServiceOptions, say: Say | None = None) -> TraceSettings | None:
    """The settings of a run's traces; None: it has none. `say` gets a line if only the extra is missing.

    Raises RidgelineError for a value that cannot be used.
    """
    found = trace_settings(service.otlp, service.trace_ratio, service.trace_slow, os.environ)
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


@contextlib.contextmanager
def exporting_metrics(watch: Answers, service: ServiceOptions, say: Say) -> Iterator[None]:
    """Send metrics by OTLP while the block runs, if an option asks for it. Raises RidgelineError."""
    endpoint = service.otlp_endpoint or service.otlp
    if endpoint is None:
        yield
        return
    from ridgeline.service.export.otel import OtelExporter

    exporter = OtelExporter(watch, endpoint, say=say)
    try:
        yield
    finally:
        exporter.close()


@contextlib.contextmanager
def exporting_traces(watch: Watch, service: ServiceOptions, say: Say, region: str = "") -> Iterator[None]:
    """Send traces of windows by OTLP while the block runs, if they are wanted. Raises RidgelineError.

    `region`: the part of the application that runs, if it has several.
    """
    settings = traces_of(service, say)
    if settings is None:
        yield
        return
    from ridgeline.service.export.trace_sender import TraceSender
    from ridgeline.service.export.trace_windows import WindowTraces

    watch.traced = True
    sender = TraceSender(settings.endpoint, watch.exemplars, watch.traces, say, region=region)
    end = watch.subscribe(WindowTraces(settings, own_host(), sender.take).apply)
    try:
        yield
    finally:
        end()
        sender.close()


@contextlib.contextmanager
def sending_lineage(
    watch: Watch, service: ServiceOptions, plan: Callable[[], LogicalPlan], say: Say
) -> Iterator[None]:
    """Send OpenLineage events while the block runs, if they are wanted.

    `plan`: the present one. An option that cannot be followed raises RidgelineError. A variable of the host
    does not end a run: without the client, or with a wrong value, the reason is said.
    """
    if not wants_lineage(service.openlineage, os.environ):
        yield
        return
    from ridgeline.service.lineage.sender import LineageSender

    try:
        sender = LineageSender(service.openlineage, plan, watch.operator_totals, say)
    except RidgelineError as error:
        if service.openlineage is not None:
            raise
        say(f"no OpenLineage events are sent, though variables of this host ask for them: {error}")
        yield
        return
    end = watch.subscribe(sender.apply)
    try:
        yield
    finally:
        end()
        sender.close()
