"""Slots that stand still, and the spare that runs what they are late with: real processes, without Spark."""

import contextlib
import os
import pickle
import signal
import threading
from types import SimpleNamespace

import pytest

from ridgeline.engine.driver.slots.executor import SlotExecutor
from ridgeline.engine.slot.messages import Reported
from ridgeline.measure.events import StateWarning, WindowCommitted, WindowRetried
from ridgeline.measure.slot_events import SlotEvent
from ridgeline.plan.edits import Repartition
from ridgeline.testing import run_local
from support.engine.applications import Sum
from support.engine.decided import APPLIED, UntilDecided, assert_nothing_lost, states
from support.engine.in_slots import NotedSum, notes, two_stages
from support.engine.on_spark import run_on_spark
from support.engine.slot_platform import kill, run_in_processes
from support.service.live import application

ON = {"speculation": 0.9}


@pytest.fixture
def run(tmp_path):
    """`run(app, **options)`, as `run_in_processes`: two slots and a spare one."""
    return lambda app, **options: run_in_processes(
        app, tmp_path / "checkpoint", **{"places": 3, **ON, **options}
    )


def stored(found):
    """What the sink has got."""
    return sorted(found.collected("store"))


def pid_of(found, slot):
    """The process that is a slot now."""
    return next(one.pid for one in reversed(found.of_slots("joined", "restarted")) if one.slot == slot)


def spare(found):
    """The slot that hosts nothing now."""
    return next((one.slot for one in reversed(found.of_slots("speculated"))), 2)


def active(found):
    """The slots that host containers, as far as events say."""
    slots = {event.slot for event in found.of_slots("joined", "restarted") if event.containers}
    for event in found.of_slots("speculated"):
        slots = slots - {event.slot} | {event.spare}
    return sorted(slots)


class Stops:
    """Stops a slot after each of these windows; it goes on after so many windows more."""

    def __init__(self, *windows, length=20):
        self.windows, self.length = windows, length
        self.stopped = {}
        self.all = []

    def __call__(self, found, event):
        for pid, begun in list(self.stopped.items()):
            if event.window_id >= begun + self.length:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGCONT)
                del self.stopped[pid]
        if event.window_id in self.windows:
            slots = active(found)
            number = slots[len(self.all) % len(slots)]
            pid = pid_of(found, number)
            os.kill(pid, signal.SIGSTOP)
            self.stopped[pid] = event.window_id
            self.all.append((number, pid))


def late(found):
    """The slots whose place the spare took, with their processes; if the machine is busy, others too."""
    return [(one.slot, one.pid) for one in found.of_slots("speculated")]


@pytest.mark.slow
def test_who_was_late_is_the_next_spare_and_its_operators_are_torn_down(run, tmp_path):
    folder = tmp_path / "notes"
    folder.mkdir()
    stops = Stops(30, 200, 370, 540)
    found = run(two_stages(NotedSum(folder=str(folder)), count=7_000), each=stops)
    assert set(stops.all) <= set(late(found))
    hedges = found.of_slots("speculated")
    assert [one.spare for one in hedges] == [2, *(one.slot for one in hedges[:-1])]
    assert len(found.of_slots("joined", "restarted")) == 3, "the same three processes all the time"
    assert len(notes(folder, "setup")) > 2
    assert sorted(notes(folder, "teardown")) == sorted(notes(folder, "setup"))
    assert stored(found) == stored(run_local(two_stages(Sum(), count=7_000)))


def test_a_slot_that_is_killed_while_it_is_late_comes_back_as_the_spare(run):
    stops = Stops(30, 300)

    def stop_and_kill(found, event):
        stops(found, event)
        if event.window_id == 40:
            kill(stops.all[0][1])

    found = run(two_stages(Sum(), count=5_000), each=stop_and_kill)
    assert set(stops.all) <= set(late(found))
    assert [one.pid for one in found.of_slots("lost")] == [stops.all[0][1]]
    assert stored(found) == stored(run_local(two_stages(Sum(), count=5_000)))


def test_a_slot_that_stays_away_is_replaced(run):
    stops = Stops(30, length=10_000_000)
    back = []

    def seen(found, event):
        if isinstance(event, SlotEvent) and event.kind == "restarted":
            back.append(event.slot)
            found.run.stopping = True

    options = {"heartbeat_interval": "100ms", "heartbeat_timeout": "500ms"}
    found = run(two_stages(Sum(), count=10_000_000), each=stops, seen=seen, **options)
    assert back == [stops.all[0][0]]
    assert [one.pid for one in found.of_slots("lost")] == [stops.all[0][1]]
    assert not [one for one in found.retries if "stuck" in one.reason]


def test_a_spare_that_is_killed_costs_nothing(run):
    def kill_spare(found, event):
        if event.window_id in {30, 60}:
            kill(pid_of(found, spare(found)))

    found = run(two_stages(Sum(), count=2_000), each=kill_spare)
    assert all("was late with" in one.reason for one in found.retries)
    assert len(found.of_slots("lost")) == 2
    assert stored(found) == stored(run_local(two_stages(Sum(), count=2_000)))


def test_the_spare_takes_the_place_of_a_slot_that_is_killed(run):
    killed = []

    def kill_one(found, event):
        # On a busy machine slots are late as well: the spare may be any slot, and may not be ready yet.
        if event.window_id >= 100 and not killed and found.run.executor._slots.spare_is_ready:
            killed.append(pid_of(found, active(found)[0]))
            kill(killed[0])

    found = run(two_stages(Sum(), count=3_000), each=kill_one)
    [lost] = found.of_slots("lost")
    assert [lost.pid] == killed
    after = found.events[found.events.index(lost) :]
    back = next(
        (event for event in after if isinstance(event, SlotEvent) and event.kind in {"joined", "restarted"}),
        None,
    )
    # Nothing begins again if no window was in flight at the kill.
    if (retried := next((one for one in after if isinstance(one, WindowRetried)), None)) and back:
        assert retried.at < back.at, "it began again before a new process was there"
    assert back is None or (back.slot, back.containers) == (lost.slot, 0), "the new process is the spare"
    assert stored(found) == stored(run_local(two_stages(Sum(), count=3_000)))


@pytest.mark.slow
def test_the_plan_changes_while_a_slot_stands_still(run):
    stops = Stops(30, 100, length=20)
    until = UntilDecided(2, stops)
    changes = {10 + 100 * at: [Repartition("sums", count)] for at, count in enumerate([3, 2])}
    found = run(application("2ms"), places=3, each=until, stop=until.stop, changes=changes)
    assert_nothing_lost(found)
    assert states(found) == [APPLIED] * 2
    assert set(stops.all) <= set(late(found))


def test_without_a_core_for_it_there_is_no_spare(run):
    found = run(two_stages(Sum()), places=1)
    warnings = [one.text for one in found.of_type(StateWarning) if one.text.startswith("`speculation`")]
    [warning] = warnings  # a busy machine may add others, such as one of a slow disk
    assert "has no effect: a spare slot needs a core more, and Spark has 1" in warning
    assert len(found.of_slots("joined", "restarted")) == 1
    assert stored(found) == stored(run_local(two_stages(Sum())))


def test_what_a_slot_reports_that_was_late_is_void_once_it_is_the_spare():
    """Another slot runs its windows: a report of it must not count beside that one's."""
    taken = []
    executor = SimpleNamespace(_slots=SimpleNamespace(spare=2), _reported=taken.append)
    for slot in (2, 0):
        SlotExecutor._take_message(executor, None, slot, Reported(pickle.dumps([f"of slot {slot}"])))
    assert taken == ["of slot 0"]


STOPPED_SECONDS = 5.0


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.guide("002", "Speculative Execution")
def test_windows_are_committed_while_a_slot_stands_still(spark_context, tmp_path):
    stop, awake = threading.Event(), threading.Event()
    stopped = []

    def each(found, event):
        if event.window_id == 50:
            slot = next(one for one in found.of_slots("joined", "restarted") if one.containers)
            os.kill(slot.pid, signal.SIGSTOP)
            stopped.append(slot)
            go_on = threading.Timer(STOPPED_SECONDS, lambda: (os.kill(slot.pid, signal.SIGCONT), awake.set()))
            go_on.start()
        elif awake.is_set():
            stopped.append(event.window_id)
            if len(stopped) > 50:
                stop.set()

    found = run_on_spark(
        two_stages(Sum(), count=1 << 40),
        spark_context,
        tmp_path / "checkpoint",
        each=each,
        stop=stop,
        attributes={"speculation": "0.9"},
    )
    slot, first, *_ = stopped
    hedge = found.of_slots("speculated")[0]
    assert (hedge.slot, hedge.pid) == (slot.slot, slot.pid)
    meanwhile = [one for one in found.of_type(WindowCommitted) if 52 < one.window_id < first]
    assert len(meanwhile) > 50
    assert not found.of_slots("lost")
    assert found.ids == list(range(len(found.ids)))
    expected = run_local(two_stages(Sum(), count=10 * len(found.ids))).collected("store")
    assert sorted(found.collected("store")) == sorted(expected)
