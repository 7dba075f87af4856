"""Inputs that wait for their tuples: asked again and again in a window, woken by threads of their own."""

import threading

import pytest

import socket_lines
from ridgeline import Application
from ridgeline.engine.driver.run import triggers
from ridgeline.testing import CollectorSink, run_local
from support.engine.applications import Number
from support.engine.pushed import FedByTwos, Lines, Sender, fed
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


def test_no_window_begins_before_something_comes_and_then_one_begins_at_once(tmp_path, monkeypatch):
    """The next window is held back for an hour, or until `wake`."""
    monkeypatch.setattr(triggers, "IDLE_WINDOW_SECONDS", 3_600.0)
    port, stop, senders = free_port(), threading.Event(), []

    def look(run, event):
        if not senders:
            senders.append(Sender(["one", "two"], port))
        if sum(numbers(run)) == 2:
            stop.set()

    app = Application("lines", window="2ms")
    source = app.add_operator("lines", socket_lines.LineInput(port=port))
    behind = app.add_operator("behind", Lines())
    app.add_stream("lines", source.lines, behind.lines)
    app.add_stream("numbers", behind.numbers, app.add_operator("sink", CollectorSink(Number)).input)
    alarm = threading.Timer(300, stop.set)
    alarm.start()
    run = run_in_processes(app, tmp_path / "checkpoint", stop=stop, each=look, places=2)
    alarm.cancel()
    senders[0].end()
    assert sum(numbers(run)) == 2
    assert len(run.ids) < 20
