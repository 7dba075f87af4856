"""Event logs by hand, in a folder, and a history over them."""

import json
import os
from contextlib import contextmanager
from dataclasses import replace

from ridgeline.measure.events import ApplicationEnded
from ridgeline.service.event_log import EventLogWriter
from ridgeline.service.history.runs import Runs, id_of, logs_in
from ridgeline.service.history.web import serve
from ridgeline.service.http.apex import logical_plan
from support.cli.windows import make_plan, planned, window
from support.service.watched import BASE, Client

PLAN = make_plan()


def events(
    windows=3,
    *,
    plan=PLAN,
    began=1_000.0,
    seconds=0.05,
    end="finished",
    reason="",
    application_id="numbers-1",
):
    """A run of `windows` windows, half a second apart; without an end for `end=None`."""
    begin = replace(planned(plan), at=began, application_id=application_id)
    found = [replace(begin, logical=logical_plan(plan.logical))]
    for number in range(windows):
        found += window(plan, number, at=began + 0.5 * number, seconds=seconds)
    if end is not None:
        found.append(ApplicationEnded(began + 0.5 * windows + 0.1, end, reason))
    return found


def write_log(path, found):
    """An event log with events; returns its path."""
    writer = EventLogWriter(str(path))
    for event in found:
        writer.write(event)
    writer.close()
    return path


def place(log):
    """The path of the run of a log."""
    (found,) = logs_in(log.resolve())
    return f"/run/{id_of(found.path, found.run)}"


def make_old(log):
    """Nothing was written to the log for long."""
    os.utime(log, (1, 1))


class HistoryClient(Client):
    """Asks a history; `run`: the path of a log."""

    def of(self, run, path, status=200):
        """The JSON of a run below the base path."""
        return self.json(f"{place(run)}{BASE}{path}", status)

    def runs(self):
        """The ids of the runs."""
        return [row["id"] for row in self.json("/runs")["runs"]]

    def json(self, path, status=200, method="GET"):
        """The JSON of a path; NaN and Infinity are not accepted."""
        got, headers, body = self.ask(path, method)
        assert got == status, body
        assert headers["content-type"] == "application/json"
        return json.loads(body, parse_constant=lambda text: (_ for _ in ()).throw(AssertionError(text)))

    def whole(self, run):
        """The state that a page gets of a run, and the name of the event after it."""
        _, _, body = self.ask(f"{place(run)}{BASE}/live")
        first, second = body.decode().split("\n\n")[:2]
        assert first.startswith("event: whole\ndata: ")
        return json.loads(first.partition("data: ")[2]), second.partition("\n")[0].removeprefix("event: ")


@contextmanager
def history(*paths, runs=lambda _: False):
    """A client of a history over logs."""
    server = serve(Runs([path.resolve() for path in paths], runs))
    try:
        client = HistoryClient(server.url)
        client.server = server
        yield client
    finally:
        server.close()
