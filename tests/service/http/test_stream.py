"""Server-sent events: complete overviews, one a window, and nobody waits for a slow client."""

import json
import socket
from contextlib import contextmanager

from ridgeline.measure.events import ApplicationEnded, WindowCommitted
from ridgeline.observe.watch import Watch
from ridgeline.service.http.server import WebServer
from ridgeline.service.http.web import create_app
from support.measure import changing
from support.service.watched import BASE, Now, feed, payments, serving, watched
from support.waiting import PATIENCE_SECONDS


class Events:
    """A client of `/events` that reads when asked to."""

    def __init__(self, host, port, headers=""):
        self.socket = socket.create_connection((host, port), timeout=PATIENCE_SECONDS)
        self.socket.sendall(f"GET {BASE}/events HTTP/1.1\r\nHost: localhost\r\n{headers}\r\n".encode())
        self.file = self.socket.makefile("rb")
        self.status = int(self.file.readline().split()[1])
        while self.file.readline().strip():
            pass
        self.rest = b""

    def _more(self):
        """The next chunk of the body."""
        size = int(self.file.readline(), 16)
        data = self.file.read(size)
        self.file.readline()
        assert size, "the stream is over"
        return data

    def next(self):
        """The next event: its fields, or the text of a comment."""
        while b"\n\n" not in self.rest:
            self.rest += self._more()
        text, _, self.rest = self.rest.partition(b"\n\n")
        if text.startswith(b":"):
            return text.decode()
        fields = dict(line.split(": ", 1) for line in text.decode().split("\n"))
        fields["data"] = json.loads(fields["data"])
        return fields

    def window(self):
        event = self.next()
        assert (event["event"], int(event["id"])) == ("window", event["data"]["windowId"])
        return event["data"]

    @property
    def over(self):
        return not int(self.file.readline(), 16)

    def close(self):
        self.file.close()
        self.socket.close()


@contextmanager
def listening(client, headers=""):
    events = Events(client.host, client.port, headers)
    try:
        yield events
    finally:
        events.close()


def is_one_window(overview):
    """True if all parts of an overview are of the same window."""
    window = overview["windowId"]
    ids = {
        overview["latency"]["windowId"],
        overview["criticalPath"]["windowId"],
        overview["info"]["stats"]["recoveryWindowId"],
    }
    return ids | {row["recoveryWindowId"] for row in overview["operators"]} == {window}


def windows_of(rest):
    """The events that are left, window by window."""
    while rest:
        stop = (
            next(
                (number for number, event in enumerate(rest) if isinstance(event, WindowCommitted)),
                len(rest) - 1,
            )
            + 1
        )
        yield rest[:stop]
        rest = rest[stop:]


def test_the_newest_frame_at_once_then_one_a_window_then_the_end():
    watch, plan, rest, now = watched(until=2)
    with serving(watch, plan) as client, listening(client) as events:
        assert events.window()["windowId"] == 1
        for window_id, window in enumerate(windows_of(rest), 2):
            feed(watch, now, *window)
            overview = events.window()
            assert overview["windowId"] == window_id
            assert is_one_window(overview)
        feed(watch, now, ApplicationEnded(now.seconds, "finished"))
        assert events.next() == {"event": "end", "data": {"state": "FINISHED", "windowId": 4}}
        assert events.over


def test_a_client_that_does_not_read_holds_nobody_up_and_skips_frames():
    windows = 200
    watch, plan, rest, now = watched(payments(windows), until=1)
    with serving(watch, plan) as client, listening(client) as slow, listening(client) as quick:
        assert slow.window()["windowId"] == 0
        assert quick.window()["windowId"] == 0
        seen = []
        for window in windows_of(rest):
            feed(watch, now, *window)  # in this thread: it would hang here
            seen.append(quick.window()["windowId"])
        assert seen == list(range(1, windows))
        feed(watch, now, ApplicationEnded(now.seconds, "finished"))
        late = []
        while (event := slow.next())["event"] == "window":
            assert is_one_window(event["data"])
            late.append(event["data"]["windowId"])
        assert late == sorted(set(late))
        assert late[-1] == windows - 1
        assert watch.subscribers_dropped == 0


def test_clients_hear_of_the_end_although_the_service_ends_with_it():
    watch, plan, rest, now = watched(until=2)
    server = WebServer(create_app(watch, plan))
    events = Events("127.0.0.1", server.port)
    events.window()
    feed(watch, now, *rest, ApplicationEnded(now.seconds, "finished"))
    server.close()
    while (event := events.next())["event"] == "window":
        pass
    assert event == {"event": "end", "data": {"state": "FINISHED", "windowId": 4}}
    assert events.over
    events.close()


def test_clients_that_are_gone_are_forgotten(wait_until):
    watch, plan, rest, now = watched(until=2)
    app = create_app(watch, plan)
    server = WebServer(app)
    try:
        events = Events("127.0.0.1", server.port)
        events.window()
        assert app.state.overviews.clients == 1
        events.close()
        feed(watch, now, *rest)
        wait_until(lambda: not app.state.overviews.clients, "the service to forget its client")
    finally:
        server.close()


def test_frames_go_on_when_the_plan_changes():
    now = Now()
    watch, events = Watch(now), changing.run(2)
    second = next(number for number, event in enumerate(events) if getattr(event, "plan_version", 0) == 2)
    feed(watch, now, *events[:second])
    with serving(watch, None) as client, listening(client) as listener:
        overview = listener.window()
        assert [row["operator"] for row in overview["operators"]] == list(changing.IDS[1])
        assert (overview["change"]["state"], overview["info"]["planVersion"]) == ("QUEUED", 1)
        feed(watch, now, events[second])
        with listening(client) as other:  # the plan that runs now, the window before
            overview = other.window()
            assert [row["operator"] for row in overview["operators"]] == list(changing.IDS[2])
            assert [row["operator"] for row in overview["latency"]["operators"]] == list(changing.IDS[1])
            assert (overview["windowId"], overview["info"]["planVersion"]) == (3, 2)
        number = 4
        for event in events[second + 1 :]:
            feed(watch, now, event)
            if isinstance(event, WindowCommitted):
                overview = listener.window()
                assert overview["windowId"] == overview["latency"]["windowId"] == number
                assert [row["operator"] for row in overview["operators"]] == list(changing.IDS[2])
                assert {row["recoveryWindowId"] for row in overview["operators"]} == {number}
                number += 1
        assert overview["change"]["state"] == "APPLIED"
