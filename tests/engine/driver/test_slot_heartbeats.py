"""Heartbeats of slots: on their own connections, also while a callback runs; what follows from silence."""

import os
import signal
import socket

import pytest

from ridgeline.api.clock import SystemClock
from ridgeline.engine.driver.heartbeats import Heartbeats
from ridgeline.engine.exchange.address import ways_of
from ridgeline.engine.exchange.listening import Listen
from ridgeline.engine.exchange.network import STRAM, Opened, Peer, Received
from ridgeline.engine.exchange.sockets import Sockets
from ridgeline.engine.slot import task as slot_task
from ridgeline.measure.events import MessagesRefused
from ridgeline.testing import run_local
from support.engine.applications import Sum
from support.engine.in_slots import two_stages
from support.engine.slot_platform import run_in_processes


@pytest.fixture
def heard():
    """Heartbeats, and the list of what they lead to."""
    events = []
    heartbeats = Heartbeats(events.append, SystemClock())
    heartbeats.events = events
    return heartbeats


def test_a_driver_that_reads_nothing_is_not_sent_more_and_more():
    stram, slot = (Sockets(peer, Listen(), SystemClock()) for peer in (Peer(STRAM, 1), Peer(0)))
    try:
        slot.connect(stram.me, stram.address)
        there = []
        while len(there) < 2:
            there += [event for one in (stram, slot) for event in one.poll(0.01) if isinstance(event, Opened)]
        sent = [slot_task.send_figures(slot, stram.me, lambda: bytes(10_000)) for _ in range(1_000)]
        assert sent[0]
        assert not sent[-1]
        assert slot.queued_bytes(stram.me) < 2 << 20
        taken = 0
        while taken < sum(sent):
            slot.poll(0.0)
            taken += sum(isinstance(event, Received) for event in stram.poll(0.01))
        assert slot_task.send_figures(slot, stram.me, lambda: b"again")
    finally:
        slot.close(0.0)
        stram.close(0.0)


@pytest.mark.slow
def test_a_slot_that_says_nothing_is_ended(tmp_path, heard):
    """The process is stopped, as native code would stop it that keeps Python's lock."""
    stopped = []

    def stop(run, event):
        if not stopped:
            stopped.append(run.of_slots("joined", "restarted")[-1].pid)
            os.kill(stopped[0], signal.SIGSTOP)

    app = two_stages(Sum(), count=200)
    limits = {"heartbeat_interval": "200ms", "heartbeat_timeout": "6s"}
    run = run_in_processes(app, tmp_path / "checkpoint", heartbeats=heard, each=stop, **limits)
    assert stopped[0] in {event.pid for event in run.of_slots("lost")}
    assert any(
        f"process {stopped[0]}" in retry.reason and "was silent for" in retry.reason for retry in run.retries
    )
    assert sorted(run.collected("store")) == sorted(run_local(app).collected("store"))


def test_a_stranger_is_counted_and_reported_while_windows_go_on(tmp_path, heard):
    strangers = []

    def knock(run, _event):
        if not strangers:
            network = run.run.executor._group._network
            [way] = ways_of(network.address)
            strangers.append(socket.socket(socket.AF_UNIX))
            strangers[0].connect(way.path)
            strangers[0].sendall(b"GET / HTTP/1.1\r\n\r\n")

    run = run_in_processes(
        two_stages(Sum(), count=200), tmp_path / "checkpoint", heartbeats=heard, each=knock
    )
    strangers[0].close()
    assert not run.retries
    [event] = [event for event in heard.events if isinstance(event, MessagesRefused)]
    assert (event.reason, event.count) == ("malformed", 1)
