"""Inputs that wait for their tuples: asked again and again in a window, woken by threads of their own."""

import threading

import pytest

import socket_lines
from ridgeline import Application
from ridgeline.engine.driver.run import triggers
from ridgeline.testing import CollectorSink, run_local
from support.engine.applications import Number
from support.engine.pushed import FedByTwos, Sender, Slow, fed
from support.engine.slot_platform import run_in_processes
from support.ports import free_port


def numbers(run, window=None):
    return [number.value for number in run.collected("sink", window)]


@pytest.mark.guide("004", "InputOperator")
def test_it_is_asked_until_it_has_nothing():
    app, feed = fed()
    feed.put(1, 2, 3, None)
    assert numbers(run_local(app), 0) == [1, 2, 3]
    assert feed.heard == ["setup", "teardown"]


def test_a_window_has_no_more_than_it_may_have():
    app, feed = fed(FedByTwos)
    feed.put(1, 2, 3, 4, 5, None)
    run = run_local(app)
    assert [numbers(run, window) for window in run.window_ids] == [[1, 2], [3, 4], [5]]


def lines(port, behind, window="20ms", **attributes):
    """Lines from a socket, what stands behind them, and a sink for how many it got at once."""
    app = Application("lines", window=window)
    source = app.add_operator("lines", socket_lines.LineInput(port=port))
    behind = app.add_operator("behind", behind, **attributes)
    sink = app.add_operator("sink", CollectorSink(Number))
    app.add_stream("lines", source.lines, behind.lines)
    app.add_stream("numbers", behind.numbers, sink.input)
    return app


def run_lines(app, folder, port, count, *, each=None, until=0, **options):
    """Run in slots until it has taken so many lines, and window `until` is over; the run and its sender."""
    stop = threading.Event()
    sender = Sender([f"line {number}" for number in range(count)], port)

    def look(run, event):
        if each:
            each(run, event)
        if sum(numbers(run)) >= count and run.ids[-1] >= until:
            stop.set()

    try:
        run = run_in_processes(app, folder / "checkpoint", stop=stop, each=look, **options)
    finally:
        sender.end()
    return run, sender


def test_no_window_begins_before_something_comes_and_then_one_begins_at_once(tmp_path, monkeypatch):
    """The next window is held back for an hour, or until `wake`."""
    monkeypatch.setattr(triggers, "IDLE_WINDOW_SECONDS", 3_600.0)
    port, stop, senders = free_port(), threading.Event(), []

    def look(run, event):
        if not senders:
            senders.append(Sender(["one", "two"], port))
        if sum(numbers(run)) == 2:
            stop.set()

    app = lines(port, Slow(), window="2ms")
    alarm = threading.Timer(300, stop.set)
    alarm.start()
    run = run_in_processes(app, tmp_path / "checkpoint", stop=stop, each=look, places=2)
    alarm.cancel()
    senders[0].end()
    assert sum(numbers(run)) == 2
    assert len(run.ids) < 20


@pytest.mark.slow
def test_a_million_lines_at_full_speed_through_a_slow_consumer(tmp_path):
    """Nothing is lost, and memory stays what the queue and the windows in flight hold."""
    notes, port = tmp_path / "notes", free_port()
    app = lines(port, Slow(seconds=0.005, notes=str(notes)), window="50ms")
    run, _ = run_lines(app, tmp_path, port, 1_000_000, places=2)
    assert sum(numbers(run)) == 1_000_000
    assert not run.retries
    mebibytes = [int(line) for line in notes.read_text().splitlines()]
    assert mebibytes[-1] - mebibytes[len(mebibytes) // 4] < 20
