"""Which worker hangs: looks at workers at given times; no process and no thread."""

import os
import socket
import threading
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from ridgeline.engine.driver.heartbeats import Heartbeats, Worker
from ridgeline.engine.driver.run import run
from ridgeline.engine.driver.slots.health import Hangs, SlotHealth
from ridgeline.engine.process import black_box
from ridgeline.measure.events import ContainerHeartbeat, RunningOperator, StateWarning
from ridgeline.plan.planner import plan_application
from ridgeline.stram.slots import Member
from ridgeline.testing import SteppingClock
from support.engine.applications import Number, Sum, sum_application
from support.engine.in_slots import two_stages
from support.engine.slot_platform import run_in_processes
from support.stram.attempts import attempts_of, send
from support.waiting import wait_until

CLOCK_ONLY = ContainerHeartbeat(0.0, -1, "worker-1", 11, 0.0)
ENDED = "its worker process 11 on `worker-1` was silent for {} s and was ended"


def watching(plan, process):
    """Hangs of a plan whose containers all live in one process."""
    return Hangs(plan, "run-1", attempts_of(plan), lambda _container: process)


def end(made, window_id, attempt, now=0.0):
    for container in made._attempts.stages:
        made._attempts.reported(window_id, attempt, container, now)


def hangs(**attributes):
    plan = plan_application(sum_application(), attributes={"heartbeat_timeout": "10s", **attributes})
    made = watching(plan, None)
    send(made._attempts, 7, 100.0, 1)
    return made, {operator.name: operator.id for operator in plan.physical.operators}


def beat(operator, window_id=7, attempt=1, consumed=3, produced=0):
    """A heartbeat of a worker where an operator runs."""
    running = RunningOperator(
        operator, "running", consumed={"numbers": consumed}, produced={"sums": produced}
    )
    waiting = RunningOperator(99, "waiting")
    return ContainerHeartbeat(
        0.0, 1, "worker-1", 11, 0.0, window_id, attempt, 0.0, (waiting, running), "in users_code"
    )


def looks(made, workers, begin, end):
    """What is found, second by second."""
    return [made.look(workers(second - 100.0), float(second)) for second in range(begin, end)]


def test_a_silent_worker_is_found_once_the_window_has_run_for_as_long():
    made, ids = hangs()
    found = looks(made, lambda seconds: [Worker(seconds, beat(ids["total"]))], 101, 111)
    assert found[:-1] == [None] * 9
    failure = found[-1].failure
    assert (found[-1].host, found[-1].pid) == ("worker-1", 11)
    place = failure.operator, failure.partition, failure.window_id, failure.callback
    assert place == ("total", 0, 7, "its turn")
    assert failure.error.startswith(ENDED.format(10))
    assert failure.error.endswith("if that is honest work, raise the attribute `heartbeat_timeout`")
    assert failure.traceback == "in users_code"


def test_a_worker_that_was_silent_before_the_window_gets_the_same_time():
    made, _ = hangs()
    found = looks(made, lambda seconds: [Worker(500 + seconds, CLOCK_ONLY)], 101, 111)
    assert found[:-1] == [None] * 9
    assert found[-1].failure.operator == ""
    assert str(found[-1].failure).startswith("application `sums` failed in window 7 in `a worker`: ")


def test_workers_that_are_heard_of_are_left_alone_however_long_the_window():
    made, ids = hangs()
    heard = [Worker(1.0, beat(ids["total"])), Worker(9.9, CLOCK_ONLY)]
    assert looks(made, lambda _: heard, 101, 400) == [None] * 299


def test_a_driver_that_was_stopped_itself_reads_heartbeats_first():
    made, ids = hangs()
    assert looks(made, lambda _: [Worker(1.0, beat(ids["total"]))], 101, 105) == [None] * 4
    silent = [Worker(300.0, beat(ids["total"]))]
    assert made.look(silent, 400.0) is None
    assert made.look(silent, 401.0) is None
    assert made.look([Worker(11.0, beat(ids["total"]))], 406.0) is None


@pytest.mark.parametrize("old", [{"window_id": 6}, {"attempt": 0}])
def test_the_operator_of_an_old_heartbeat_is_not_named(old):
    made, ids = hangs()
    *_, stuck = looks(made, lambda seconds: [Worker(seconds, beat(ids["total"], **old))], 101, 111)
    assert stuck.failure.operator == ""


def test_the_operator_of_a_worker_on_this_host_that_never_reported_it_is_read_from_its_file():
    made, ids = hangs()
    box = black_box.BlackBox()
    box.note(black_box.Turn("run-1", 7, 1, 1, ids["total"]))
    here = replace(CLOCK_ONLY, host=socket.gethostname(), pid=os.getpid())
    *_, stuck = looks(made, lambda seconds: [Worker(seconds, here)], 101, 111)
    assert stuck.failure.operator == "total"
    box.idle()
    send(made._attempts, 7, 100.0, 1, restores=True)
    *_, stuck = looks(made, lambda seconds: [Worker(seconds, here)], 101, 111)
    assert stuck.failure.operator == ""


def test_of_several_windows_in_flight_the_one_that_the_worker_is_in_is_named():
    made, ids = hangs()
    send(made._attempts, 8, 100.0)
    *_, stuck = looks(made, lambda seconds: [Worker(seconds, beat(ids["total"], 8, 0))], 101, 111)
    assert (stuck.failure.operator, stuck.failure.window_id) == ("total", 8)
    end(made, 8, 0)
    assert made.look([Worker(12.0, beat(ids["total"], 8, 0))], 112.0).failure.window_id == 7
    end(made, 7, 1)
    assert made.look([Worker(13.0, beat(ids["total"], 8, 0))], 113.0) is None


def test_windows_that_follow_each_other_without_a_gap_give_a_silent_worker_no_further_time():
    made, _ = hangs()
    end(made, 7, 1)
    found = []
    for second in range(100, 112):
        send(made._attempts, second, float(second))
        end(made, second - 1, 0)
        found.append(made.look([Worker(second - 100.0, CLOCK_ONLY)], float(second)))
    assert found[:10] == [None] * 10
    assert found[10].failure.error.startswith(ENDED.format(10))


def test_a_callback_that_does_nothing_is_found_after_its_timeout():
    made, ids = hangs(**{"total.callback_timeout": "5s"})
    found = looks(made, lambda _: [Worker(0.5, beat(ids["total"]))], 101, 107)
    assert found[:-1] == [None] * 5
    assert found[-1].failure.operator == "total"
    assert (
        "a callback has taken in no tuple and emitted none for 5 s, and its worker process 11 was ended"
        in found[-1].failure.error
    )


@pytest.mark.parametrize("progress", ["consumed", "produced"])
def test_a_callback_that_goes_on_is_left_alone(progress):
    made, ids = hangs(**{"total.callback_timeout": "5s"})

    def working(seconds):
        return [Worker(0.5, beat(ids["total"], **{progress: int(seconds) // 4}))]

    assert looks(made, working, 101, 200) == [None] * 99


def in_slots(**attributes):
    """Hangs that knows where containers live, with an attempt at window 7 told at 100; operators by name."""
    plan = plan_application(sum_application(), {}, {"window": "1s", "heartbeat_timeout": "10s", **attributes})
    made = watching(plan, ("worker-1", 11))
    send(made._attempts, 7, 100.0, 1)
    return made, {operator.name: operator.id for operator in plan.physical.operators}


def looks_in_slots(made, workers, begin, end, reads=lambda _second: True, **reading):
    seconds = filter(reads, range(begin, end))
    return [made.look(workers(second), float(second), **reading) for second in seconds]


def test_a_slot_that_has_nothing_to_do_is_found_by_the_window_that_it_does_not_end():
    made, _ = in_slots()
    found = looks_in_slots(made, lambda _: [Worker(0.5, CLOCK_ONLY)], 101, 221)
    assert found[:-1] == [None] * 119
    assert (found[-1].host, found[-1].pid, found[-1].failure.window_id) == ("worker-1", 11, 7)
    assert found[-1].failure.error == (
        "it has not ended window 7, and no slot has worked for 120 s, "
        "and its slot's process 11 on `worker-1` was ended; "
        "the attribute `timeout_window_count` allows 120 windows, at least 120 s"
    )


@pytest.mark.parametrize("counts", [{}, {"container": -1, "operators": ()}])
def test_a_slot_at_work_is_not_stuck_however_long_its_callback(counts):
    made, ids = in_slots()
    works = replace(beat(ids["total"]), at_work=True, **counts)
    assert looks_in_slots(made, lambda _: [Worker(0.5, works)], 101, 5_000) == [None] * 4_899


def test_one_record_that_takes_long_is_named_again_and_again():
    made, ids = in_slots()
    stack = 'File "/home/me/app.py", line 3, in run\n  File "/home/me/slow.py", line 9, in slow\n'

    def said(seconds, **more):
        at = replace(beat(ids["total"]), stack=stack)
        report = replace(at.operators[1], callback_seconds=seconds, record="R(key='a')", active=1, **more)
        return [text for _, text in made.long_callbacks([Worker(0.5, replace(at, operators=(report,)))])]

    assert [len(said(float(second))) for second in (9, 10, 39, 41, 1, 10)] == [0, 1, 0, 1, 0, 1]
    [text] = said(120.0)
    assert text == (
        "one record of `total` took 2 min 0 s so far, at line 9 of `slow.py`: R(key='a'); "
        "it goes on; the attribute `callback_timeout` would end it"
    )


def test_slots_are_not_blamed_for_what_the_driver_has_not_read_or_spark_has_not_sent():
    made, _ = in_slots()
    assert looks_in_slots(made, lambda _: [], 101, 400, lambda second: second < 110) == [None] * 9
    assert looks_in_slots(made, lambda _: [], 400, 519) == [None] * 119
    made, _ = in_slots()
    assert looks_in_slots(made, lambda _: [], 101, 400, rows_come=True) == [None] * 299


def test_a_slot_that_was_retired_is_not_silent_and_others_are_still_found():
    plan = plan_application(sum_application(), attributes={"heartbeat_timeout": "10s"})
    clock, attempts, ended = SteppingClock(), attempts_of(plan), []
    send(attempts, 7, clock.monotonic())
    heartbeats = Heartbeats(lambda _event: None, clock)
    for slot in range(2):
        heartbeats.take(slot, replace(CLOCK_ONLY, pid=slot))
    members = {1: Member("worker-1", 1, "")}
    contents = SimpleNamespace(
        application="sums",
        run_id="run-1",
        plan=plan,
        hears=True,
        slots=SimpleNamespace(members=members),
        process_of=lambda _container: None,
    )
    platform = SimpleNamespace(check_alive=lambda: None)
    health = SlotHealth(platform, contents, attempts, heartbeats, clock, lambda _event: None, ended.append)
    for _ in range(11):
        clock.advance(1.0)
        health.check(set(), rows_come=False)
    assert [stuck.pid for stuck in ended] == [1]


class StuckSum(Sum):
    """Hangs in window 3, in each attempt, once it has left a note."""

    numbers = Sum.numbers

    note: str = ""

    def end_window(self):
        if self.context.window_id == 3 and self.context.partition == 0:
            Path(self.note).touch()
            threading.Event().wait()
        self.sums.emit(Number(self.total))


def test_a_stop_does_not_wait_for_a_callback_that_takes_long(tmp_path, monkeypatch):
    """Its slot may have windows before it left to do: which are void depends on how far they were."""
    monkeypatch.setattr(run, "_PATIENCE_SECONDS", 0.05)
    note, stop = tmp_path / "hangs", threading.Event()

    def stop_once_it_hangs():
        wait_until(note.exists, "window 3 to hang")
        stop.set()

    stopping = threading.Thread(target=stop_once_it_hangs)
    stopping.start()
    app = two_stages(StuckSum(note=str(note)), count=100)
    found = run_in_processes(app, tmp_path / "checkpoint", stop=stop)
    stopping.join()
    assert found.ids in ([], [0], [0, 1], [0, 1, 2])
    said = [event.text for event in found.events if isinstance(event, StateWarning)]
    assert f"from window {len(found.ids)} on took too long to wait for: void" in said[-1]
