"""The options of the web service, the event log, metrics and traces."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

from ridgeline.api.errors import RidgelineError
from ridgeline.api.support.option import Option
from ridgeline.engine.files.rotation import Rotation
from ridgeline.service.access.options import AccessOptions

PANEL = "Web service and metrics"


@dataclass(frozen=True, slots=True)
class ServiceOptions(AccessOptions):
    """The observers of a run.

    `store`: a folder or URI where an entry says that the application runs, by its `name` (default: its own).

    `port` of the web service: 0 takes a free one, None means no web service. `host` is what it listens on; on
    another address than a loopback one it asks for `token` (default: one is made and shown). `read_token` is
    enough to read. `allow_host`: names besides its own by which requests may ask for it. `event_log` is a
    file as `EventLogWriter` takes it, `event_log_keep` a text as `Rotation.of` takes it. `metrics_file`: as
    `MetricsFile` takes it. `otlp` is the URL of an OpenTelemetry collector that traces of windows are sent
    to.

    Args:
        port (N): Port of the web service; 0: a free one, named at start.
        host (ADDRESS): Where the web service listens. Elsewhere than on a loopback address it asks for a
            token.
        token (TOKEN): What the web service asks for. Not given: one is made where it is needed, and shown at
            start.
        event_log (FILE): Write all events to FILE (`.jsonl`) for `ridgeline replay FILE`. The log of a run
            before is renamed: `FILE.000001.jsonl`.
        event_log_keep (LIMITS): How much of the event log's earlier files is kept: files, size, age
            (`20,10GB,7d`). Default: all.
        metrics_file (FILE): Write the last metrics to FILE (`.prom`) when the run ends, for a textfile
            collector: a run that has failed cannot be scraped.
        otlp (URL): Send traces of windows to an OpenTelemetry collector, `http://localhost:4318`; needs the
            extra `ridgeline[telemetry]`. Default: as `OTEL_EXPORTER_OTLP_ENDPOINT` says. Of all windows
            `OTEL_TRACES_SAMPLER_ARG`, else 1 %, and those that are slow or fail.
        allow_host (NAME): A name by which requests may ask for the web service, such as a proxy's.
        read_token (TOKEN): A second token for the web service, with which everything can be read and nothing
            changed.
        store (URL): A folder or URI for applications by name. The checkpoint is `URL/NAME`, and commands on
            any host find the application (`ridgeline ps --store URL`).
        store_name (NAME): Its name in the store. Default: the application's own.
    """

    port: Annotated[int | None, Option(minimum=0, maximum=65535)] = 0
    host: Annotated[str, Option(panel=PANEL)] = "127.0.0.1"
    token: Annotated[str | None, Option(variable="RIDGELINE_TOKEN", panel=PANEL, repeated=False)] = None
    event_log: Annotated[str | None, Option()] = None
    event_log_keep: Annotated[str, Option(panel=PANEL, setting=True)] = ""
    metrics_file: Annotated[str | None, Option(panel=PANEL, setting=True)] = None
    otlp: Annotated[str | None, Option(panel=PANEL)] = None
    allow_host: Annotated[Sequence[str], Option(panel=PANEL)] = ()
    read_token: Annotated[
        str | None, Option(variable="RIDGELINE_READ_TOKEN", panel=PANEL, setting=True, repeated=False)
    ] = None

    store: Annotated[str | None, Option(panel="Store of applications")] = None
    store_name: Annotated[str | None, Option(panel="Store of applications")] = None

    @property
    def rotation(self) -> Rotation:
        """That of the event log. Raises RidgelineError for what is no limit."""
        try:
            return Rotation.of(self.event_log_keep)
        except ValueError as error:
            raise RidgelineError(f"`--event-log-keep {self.event_log_keep}`: {error}") from None
