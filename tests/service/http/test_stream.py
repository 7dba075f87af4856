"""Server-sent events: complete overviews, one a window, and nobody waits for a slow client."""

import json
import socket
from contextlib import contextmanager

from ridgeline.measure.events import WindowCommitted
from support.service.watched import BASE, feed, serving, watched
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


def test_who_comes_back_does_not_get_the_same_frame_again():
    watch, plan, rest, now = watched(until=2)
    with serving(watch, plan) as client, listening(client, "Last-Event-ID: 1\r\n") as events:
        feed(watch, now, *next(windows_of(rest)))
        assert events.window()["windowId"] == 2
    with serving(watch, plan) as client:
        assert client.ask(f"{BASE}/events", headers={"Last-Event-ID": "x"})[0] == 400


def test_silence_is_broken_by_comments(monkeypatch):
    monkeypatch.setattr("ridgeline.service.http.stream.OverviewStream.__init__.__defaults__", (0.01,))
    watch, plan, _, _ = watched()
    with serving(watch, plan) as client, listening(client) as events:
        events.window()
        assert events.next() == ": keep-alive"


def test_there_are_not_too_many_clients(monkeypatch):
    monkeypatch.setattr("ridgeline.service.http.stream.MOST_CLIENTS", 1)
    watch, plan, _, _ = watched()
    with serving(watch, plan) as client, listening(client) as events:
        events.window()
        assert client.get("/events", 503)["error"] == "1 clients read events already"


def test_there_are_not_too_many_clients_in_a_burst(wait_until):
    watch, plan, _, _ = watched()
    with serving(watch, plan) as client:
        burst = [socket.create_connection((client.host, client.port)) for _ in range(120)]
        for line in burst:
            line.sendall(f"GET {BASE}/events HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
        answers = [line.recv(12) for line in burst]
        assert answers.count(b"HTTP/1.1 200") == 100
        assert answers.count(b"HTTP/1.1 503") == 20
        for line in burst[:50]:
            line.close()

        def some_place():
            with socket.create_connection((client.host, client.port)) as line:
                line.sendall(f"GET {BASE}/events HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
                return line.recv(12) == b"HTTP/1.1 200"

        wait_until(some_place, "a place of a client that has left")
        for line in burst[50:]:
            line.close()
