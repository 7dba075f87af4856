"""What users of a large application wait for: its web service, the command and the page, over real sockets.

The figures are those of a simulated run, asked for by other processes while its driver waits. Times are those
of a clock on the wall, so that other work on the machine shows in them.
"""

from __future__ import annotations

import http.client
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from importlib.util import find_spec
from pathlib import Path

from benchmarks.simulated_run import SimulatedRun
from ridgeline.plan.execution import Plan
from ridgeline.service.http.server import WebServer
from ridgeline.service.http.web import create_app

PATHS = (
    "/ws/v2/stram/info",
    "/ws/v2/stram/sentence",
    "/ws/v2/stram/criticalPath",
    "/ws/v2/stram/progress",
    "/ws/v2/stram/overview",
    "/metrics",
    "/metrics?partitions=true",
    "/ws/v2/stram/physicalPlan/operators",
    "/ws/v2/stram/physicalPlan/containers",
    "/ws/v2/stram/latency",
)
STREAMS: Mapping[str, tuple[str, bytes]] = {
    "the page's first state": ("/ws/v2/stram/live?every=250", b"event: whole"),
}
COMMANDS = (["status"], ["latency"], ["list-operators"], ["list-containers"], ["metrics"])
CHROMIUM = Path("/usr/bin/chromium")
VIEWS = {
    "overview": r"() => /(read|keyed|write)\d+/.test(document.body.innerText)",
    "graph": "() => document.querySelectorAll('[data-node]').length > 0",
}
"""Views of the page, and what is true once they show the application."""
_PATIENCE_SECONDS = 60.0


@contextmanager
def served(driven: SimulatedRun, plan: Plan) -> Iterator[WebServer]:
    """The web service of a run, as long as the block lasts."""
    app = create_app(driven.watch, plan)
    server = WebServer(app)
    try:
        yield server
    finally:
        app.state.pages.close()
        server.close()


def waits(driven: SimulatedRun, plan: Plan) -> Iterator[tuple[str, float, int]]:
    """What is asked for, the seconds until it was there, and its bytes. The driver must wait meanwhile."""
    with served(driven, plan) as server:
        for path in PATHS:
            yield f"`{path}`", *_timed(partial(_get, server, path))
        for what, (path, event) in STREAMS.items():
            yield what, *_timed(partial(_first, server, path, event))
        for arguments in COMMANDS:
            yield f"`ridgeline {' '.join(arguments)}`", *_timed(partial(_run, server, arguments))
        if CHROMIUM.exists() and find_spec("playwright") is not None:
            yield from _views(server)


def _timed(ask: Callable[[], int]) -> tuple[float, int]:
    began = time.perf_counter()
    size = ask()
    return time.perf_counter() - began, size


def _get(server: WebServer, path: str) -> int:
    """The bytes of an answer. Raises RuntimeError if it is none."""
    connection = http.client.HTTPConnection(server.host, server.port, timeout=_PATIENCE_SECONDS)
    try:
        connection.request("GET", path)
        answer = connection.getresponse()
        body = answer.read()
        if answer.status != http.HTTPStatus.OK:
            raise RuntimeError(f"{path} was answered by {answer.status}: {body[:200]!r}")
        return len(body)
    finally:
        connection.close()


def _first(server: WebServer, path: str, wanted: bytes) -> int:
    """The bytes of a stream up to the end of the first event of a kind. Raises RuntimeError without any."""
    connection = http.client.HTTPConnection(server.host, server.port, timeout=_PATIENCE_SECONDS)
    try:
        connection.request("GET", path)
        answer = connection.getresponse()
        size, found = 0, False
        while line := answer.readline():
            size += len(line)
            found = found or line.startswith(wanted)
            if found and line == b"\n":
                return size
        raise RuntimeError(f"{path} ended without `{wanted.decode()}`")
    finally:
        connection.close()


def _run(server: WebServer, arguments: list[str]) -> int:
    """The bytes that a command prints, in a process of its own. Raises CalledProcessError."""
    command = [sys.executable, "-m", "ridgeline", *arguments, server.url]
    with tempfile.TemporaryDirectory() as home:
        given = subprocess.run(
            command, check=True, capture_output=True, timeout=_PATIENCE_SECONDS, env=_environment(home)
        )
    return len(given.stdout)


def _environment(home: str) -> dict[str, str]:
    return {**os.environ, "COLUMNS": "120", "HOME": home}


def _views(server: WebServer) -> Iterator[tuple[str, float, int]]:
    """Open each view in a page of its own, in one browser; the bytes are those of the text that it shows."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=str(CHROMIUM), args=["--no-sandbox", "--disable-gpu"]
        )
        for view, shown in VIEWS.items():
            page = browser.new_page()
            began = time.perf_counter()
            page.goto(f"{server.url}/#/{view}")
            page.wait_for_function(shown, timeout=1_000 * _PATIENCE_SECONDS)
            yield f"the page's {view} in Chromium", time.perf_counter() - began, len(page.inner_text("body"))
            page.close()
        browser.close()
