"""Inputs that threads push tuples into, and what stands behind them."""

import threading
from contextlib import suppress
from queue import Queue
from typing import ClassVar

import socket_lines
from ridgeline import Application, InputPort, Operator, OutputPort, PushInput
from ridgeline.testing import CollectorSink
from support.engine.applications import Number


class Feed:
    """What an input in this process takes its numbers from, and what it did."""

    def __init__(self):
        self.queue = Queue()
        self.wake = lambda: None
        self.heard = []
        self.idle = threading.Event()

    def put(self, *numbers):
        for number in numbers:
            self.queue.put(number)
        self.wake()


FEEDS = {}
"""By name."""


class Fed(PushInput):
    """Emits what comes on its feed, so many a call; None is the end."""

    numbers = OutputPort(Number)
    name: str = ""
    at_once: int = 1

    @property
    def feed(self):
        return FEEDS[self.name]

    def setup(self, _context):
        self.feed.heard.append("setup")
        self.feed.wake = self.wake

    def emit_tuples(self):
        for _ in range(min(self.at_once, self.feed.queue.qsize())):
            number = self.feed.queue.get()
            if number is None:
                self.finish()
                return
            self.numbers.emit(Number(number))

    def handle_idle_time(self):
        self.feed.heard.append(f"idle in {self.context.window_id}")
        self.feed.idle.set()

    def teardown(self):
        self.feed.heard.append("teardown")


class FedByTwos(Fed):
    """Its windows have two tuples at most."""

    window_tuples: ClassVar[int] = 2
    numbers = OutputPort(Number)


def fed(kind=Fed, **properties):
    """An application of one input with a feed, and the feed."""
    app, feed = Application("fed"), Feed()
    FEEDS["fed"] = feed
    source = app.add_operator("fed", kind(name="fed", **properties))
    sink = app.add_operator("sink", CollectorSink(Number))
    app.add_stream("numbers", source.numbers, sink.input)
    return app, feed


class Lines(Operator):
    """Emits how many lines it got at once."""

    lines = InputPort(socket_lines.Line)
    numbers = OutputPort(Number)

    @lines.process_batch
    def take(self, batch):
        self.numbers.emit(Number(batch.num_rows))


class Sender:
    """Sends lines from a thread until the application has them all, whatever becomes of connections."""

    def __init__(self, lines, port):
        self.over = threading.Event()
        self._lines = lines
        self._port = port
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self):
        while not self.over.wait(0.02):
            with suppress(OSError, ValueError):
                socket_lines.send(self._lines, port=self._port)

    def end(self):
        self.over.set()
        self._thread.join(900)
