"""The options of the web service, the event log and the export of metrics."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

from ridgeline.api.support.option import Option

PANEL = "Web service and metrics"


@dataclass(frozen=True, slots=True)
class ServiceOptions:
    """The observers of a run.

    `port` of the web service: 0 takes a free one, None means no web service. `host` is what it listens on; on
    another address than a loopback one it asks for `token` (default: one is made and shown). `read_token` is
    enough to read. `allow_host`: names besides its own by which requests may ask for it. `event_log` is a
    file as `EventLogWriter` takes it. `otlp_endpoint` is that of an OpenTelemetry collector that metrics are
    sent to, see `OtelExporter`.
    """

    port: Annotated[
        int | None,
        Option(
            metavar="N",
            help="Port of the web service; 0: a free one, named at start.",
            minimum=0,
            maximum=65535,
        ),
    ] = 0
    host: Annotated[
        str,
        Option(
            metavar="ADDRESS",
            help="Where the web service listens. Elsewhere than on a loopback address it asks for a token.",
            panel=PANEL,
        ),
    ] = "127.0.0.1"
    token: Annotated[
        str | None,
        Option(
            metavar="TOKEN",
            variable="RIDGELINE_TOKEN",
            help="What the web service asks for. Not given: one is made where it is needed, and shown "
            "at start.",
            panel=PANEL,
            repeated=False,
        ),
    ] = None
    event_log: Annotated[
        str | None,
        Option(
            metavar="FILE",
            help="Write all events to FILE, `.jsonl` or `.parquet`, for `ridgeline replay FILE`.",
            repeated=False,
        ),
    ] = None
    otlp_endpoint: Annotated[
        str | None,
        Option(
            metavar="URL",
            help="Send metrics to an OpenTelemetry collector, `http://localhost:4318`; needs the extra "
            "`ridgeline[otel]`.",
            panel=PANEL,
        ),
    ] = None
    allow_host: Annotated[
        Sequence[str],
        Option(
            metavar="NAME",
            help="A name by which requests may ask for the web service, such as a proxy's.",
            panel=PANEL,
        ),
    ] = ()
    read_token: Annotated[
        str | None,
        Option(
            metavar="TOKEN",
            variable="RIDGELINE_READ_TOKEN",
            help="A second token for the web service, with which everything can be read and nothing changed.",
            panel=PANEL,
            repeated=False,
        ),
    ] = None
