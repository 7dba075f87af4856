"""Sends OpenLineage events of a run in a thread of its own: to a server, or into a file."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from ridgeline.api.clock import Clock, SystemClock
from ridgeline.api.errors import RidgelineError
from ridgeline.api.support.masking import mask_text, printable
from ridgeline.measure.answers.application import OperatorTotalsAnswer
from ridgeline.measure.events import ApplicationEnded, ApplicationPlanned, RunEvent
from ridgeline.plan.logical import LogicalPlan
from ridgeline.service.lineage.documents import RunFacts, run_event
from ridgeline.service.quiet_thread import QuietThread, reason_of

EVERY_SECONDS = 60.0
CLOSE_SECONDS = 3.0
"""How long the end of a run waits until its last event is taken."""
_ENDS = {"finished": "COMPLETE", "stopped": "ABORT", "failed": "FAIL"}
_ENDPOINT = "api/v1/lineage"
INSTALL = "install it: `pip install 'ridgeline[telemetry]'`"
_LOGGER = "urllib3.connectionpool"


class LineageSender:
    """Subscribed to a `Watch`: START, RUNNING every minute and with each plan, then how the run ended.

    Events that are not taken are counted in `failures`. The first of a row is said, and the end of the row
    with their number. No window waits for them.

    Args:
        target: A server's URL, or a file that events are appended to, one JSON object a line. None: as
            OpenLineage's variables say.
        plan: The present plan.
        totals: By operator, the tuples so far.
        say: Called with a line for people.
        now: STRAM's wall clock.
        every_seconds: The time between two events RUNNING.

    Raises:
        RidgelineError: If the extra is not installed, or `target` cannot be used.
    """

    def __init__(
        self,
        target: str | None,
        plan: Callable[[], LogicalPlan],
        totals: Callable[[], Mapping[str, OperatorTotalsAnswer]],
        say: Callable[[str], None],
        *,
        clock: Clock | None = None,
        every_seconds: float = EVERY_SECONDS,
    ) -> None:
        self.failures = 0
        self._in_row = 0
        self._plan = plan
        self._totals = totals
        self._say = say
        self._clock = clock or SystemClock()
        self._every = every_seconds
        self._client = _client(target)
        self._facts: RunFacts | None = None
        self._there = threading.Condition()
        self._next: list[tuple[str, float, str]] = []
        self._closed = False
        self._thread = threading.Thread(target=self._run, name="ridgeline-lineage", daemon=True)
        self._quiet = QuietThread(self._thread, _LOGGER)
        self._thread.start()

    def apply(self, event: RunEvent) -> None:
        """Take an event in: quick, the thread does the rest."""
        if isinstance(event, ApplicationPlanned):
            with self._there:
                first = self._facts is None
                self._facts = self._facts or _facts(event, self._every)
                self._next.append(("START" if first else "RUNNING", event.at, ""))
                self._there.notify()
        elif isinstance(event, ApplicationEnded):
            with self._there:
                self._next.append((_ENDS.get(event.outcome, "FAIL"), event.at, event.reason))
                self._there.notify()

    def close(self) -> None:
        """Send what is left, within 3 s. May be called twice."""
        with self._there:
            self._closed = True
            self._there.notify()
        self._thread.join(CLOSE_SECONDS)
        if self._thread.is_alive() and not self._in_row:
            self._say("the OpenLineage server does not answer: it may not know how the run ended")
        elif self._in_row > 1:
            self._say(f"{self._in_row:,} OpenLineage events in a row were not taken, until the run's end")
        self._quiet.close()

    def _run(self) -> None:
        """Send event by event; RUNNING when there is none for long."""
        while True:
            with self._there:
                if not self._next and not self._closed:
                    self._there.wait(self._every if self._facts is not None else None)
                if self._next:
                    state, at, reason = self._next.pop(0)
                elif self._closed:
                    break
                else:
                    state, at, reason = "RUNNING", self._clock.wall(), ""
            if self._facts is not None:
                self._send(self._facts, state, at, reason)
        self._client.close()

    def _send(self, facts: RunFacts, state: str, at: float, reason: str) -> None:
        """Send an event. One that is not taken is counted; a row of them is said at its begin and its end."""
        self._quiet.last = ""
        try:
            self._client.emit(run_event(state, at, facts, self._plan(), self._totals(), reason))
        except Exception as error:  # noqa: BLE001  lineage must never be the end of a run
            self.failures += 1
            self._in_row += 1
            if self._in_row == 1:
                why = printable(mask_text(reason_of(f"{type(error).__name__}: {error}")))
                self._say(f"OpenLineage event {state} was not taken: {why}; others are tried, and not said")
            return
        if self._in_row:
            plural = "event was" if self._in_row == 1 else "events were"
            self._say(f"OpenLineage events are taken again; {self._in_row:,} {plural} not")
            self._in_row = 0


def _facts(event: ApplicationPlanned, every: float) -> RunFacts:
    return RunFacts(
        event.application,
        event.application_id,
        os.environ.get("OPENLINEAGE_NAMESPACE") or "ridgeline",
        str(event.info.get("user", "unknown")),
        str(event.info.get("version", "unknown")),
        every,
    )


def _client(target: str | None) -> Any:
    """OpenLineage's client. Raises RidgelineError."""
    try:
        from openlineage.client import OpenLineageClient
    except ImportError as error:
        raise RidgelineError(
            f"OpenLineage events need its client, which is not installed; {INSTALL}"
        ) from error
    try:
        client = OpenLineageClient(transport=None if target is None else _transport(target))
    except RidgelineError:
        raise
    except Exception as error:
        what = "the configuration of OpenLineage cannot be used"
        raise RidgelineError(
            f"{what}: {printable(mask_text(str(error)))}; see `OPENLINEAGE_CONFIG`, `OPENLINEAGE_URL`"
        ) from error
    transport: Any = _Masked(client.transport)
    client.transport = transport
    return client


def _transport(target: str) -> Any:
    """The transport to a URL or into a file. Raises RidgelineError."""
    from openlineage.client.transport.file import FileConfig, FileTransport
    from openlineage.client.transport.http import HttpConfig, HttpTransport

    if "://" not in target:
        path = Path(target).absolute()
        try:
            with path.open("a"):
                pass
        except OSError as error:
            raise RidgelineError(
                f"`--openlineage {target}` cannot be written: {error.strerror}; give a file or a server's URL"
            ) from error
        return FileTransport(FileConfig(log_file_path=str(path), append=True))
    try:
        parts = urlsplit(target)
        whole = parts.scheme in {"http", "https"} and bool(parts.hostname) and parts.port != 0
        server, path_of = f"{parts.scheme}://{parts.netloc}", parts.path.strip("/")
    except ValueError:
        whole, server, path_of = False, "", ""
    if not whole:
        raise RidgelineError(
            f"`--openlineage {mask_text(target)}` is no URL; did you mean `http://localhost:5000`?"
        )
    settings: dict[str, Any] = {
        "url": server,
        "endpoint": path_of or os.environ.get("OPENLINEAGE_ENDPOINT") or _ENDPOINT,
    }
    if key := os.environ.get("OPENLINEAGE_API_KEY"):
        settings["auth"] = {"type": "api_key", "apiKey": key}
    return HttpTransport(HttpConfig.from_dict(settings))


class _Masked:
    """A transport whose events have no password in the URLs of the source code: that of git may have one."""

    def __init__(self, transport: Any) -> None:
        self._transport = transport

    @property
    def kind(self) -> Any:
        """The kind of the transport."""
        return self._transport.kind

    def emit(self, event: Any) -> Any:
        """Send an event."""
        place = (event.job.facets or {}).get("sourceCodeLocation")
        if place is not None:
            place.url = mask_text(place.url)
            place.repoUrl = None if place.repoUrl is None else mask_text(place.repoUrl)
        return self._transport.emit(event)

    def close(self, timeout: float = -1) -> bool:
        """End it."""
        return bool(self._transport.close(timeout))
