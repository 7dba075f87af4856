"""Windows in slots that are real processes, over real sockets; only some tests are on Spark, too."""

import os
import threading

import pytest

from ridgeline.api.errors import FencedError, OperatorError, RidgelineError
from ridgeline.measure.events import StateWarning
from ridgeline.measure.slot_events import SlotEvent
from ridgeline.testing import run_local
from support.engine.applications import FailingSum, Sum, payments_application, sum_application
from support.engine.in_slots import BabblingSum, DyingSum, NotedSum, notes, two_stages
from support.engine.on_spark import run_on_spark
from support.engine.slot_platform import ProcessSlots, kill, run_in_processes


@pytest.fixture
def run(request, tmp_path):
    """`run(app, **options)`, as `run_in_processes`; or as `run_on_spark`, if the parameter is "spark"."""
    if getattr(request, "param", "") != "spark":
        return lambda app, **options: run_in_processes(app, tmp_path / "checkpoint", **options)
    context = request.getfixturevalue("spark_context")
    return lambda app, **options: run_on_spark(app, context, tmp_path / "checkpoint", **options)


SPARK = pytest.mark.spark


def everything(found, *sinks):
    """All that sinks got, sorted: partitions of one window are in no order."""
    return {name: sorted(found.collected(name)) for name in sinks}


@pytest.mark.guide("004", "Computation Model")
@pytest.mark.parametrize(
    ("run", "options"),
    [("", {"places": 1}), ("", {"places": 3}), pytest.param("spark", {}, marks=SPARK)],
    indirect=["run"],
)
def test_results_are_those_of_the_in_process_runner(run, options):
    sinks = ("balance_store", "top_store", "rejected_store")
    found = run(payments_application(), **options)
    assert everything(found, *sinks) == everything(run_local(payments_application()), *sinks)
    assert not found.retries


@pytest.mark.guide("004", "Single Dedicated Thread Execution")
@pytest.mark.parametrize(
    ("run", "windows"),
    [("", 60), pytest.param("", 3_000, marks=pytest.mark.slow), pytest.param("spark", 200, marks=SPARK)],
    indirect=["run"],
)
def test_an_operator_is_set_up_once_and_lives_in_one_process_and_thread(run, tmp_path, windows):
    folder = tmp_path / "notes"
    folder.mkdir()
    found = run(two_stages(NotedSum(folder=str(folder)), count=10 * windows))
    assert len(found.ids) == windows
    lives = notes(folder, "lives")
    assert sorted(partition for partition, _ in lives) == [0, 1]
    assert sorted(notes(folder, "setup")) == sorted(lives)
    assert sorted(notes(folder, "teardown")) == sorted(lives)
    assert os.getpid() not in {pid for _, pid in lives}
    joined = found.of_slots("joined")
    assert {pid for _, pid in lives} <= {event.pid for event in joined}
    assert all(f": process {one.pid} on `{one.host}` hosts " in one.text for one in joined)
    assert not found.of_slots("lost", "restarted")
    for size in found.of_slots("sized"):
        assert size.text.startswith(f"containers live in {size.slots} slots, ")


@pytest.mark.parametrize("run", ["", pytest.param("spark", marks=SPARK)], indirect=True)
def test_killed_slots_cost_nothing_but_attempts(run):
    killed = []

    def kill_next(found, event):
        if event.window_id in {3, 20, 40}:
            slots = {joined.slot: joined.pid for joined in found.of_slots("joined", "restarted")}
            killed.append(slots[len(killed) % len(slots)])
            kill(killed[-1])

    found = run(two_stages(Sum(), count=800), each=kill_next)
    assert [event.pid for event in found.of_slots("lost")] == killed
    assert len(found.of_slots("restarted")) == 3
    assert {
        one.text.partition(f": process {one.pid} on `{one.host}`")[0] for one in found.of_slots("lost")
    } <= {
        "slot 0 is lost",
        "slot 1 is lost",
    }
    for slot in range(2):
        seen = [one.kind for one in found.of_slots("joined", "lost", "restarted") if one.slot == slot]
        assert seen == ["joined", *["lost", "restarted"] * len(seen)][: len(seen)]
    assert found.ids == list(range(80))
    assert everything(found, "store") == everything(run_local(two_stages(Sum(), count=800)), "store")


def test_all_slots_killed_at_once_cost_one_attempt(run):
    def kill_all(found, event):
        if event.window_id == 5:
            kill(*(joined.pid for joined in found.of_slots("joined", "restarted")[:2]))

    found = run(two_stages(Sum(), recovery_attempts=1), each=kill_all)
    assert len(found.of_slots("lost")) == 2
    assert everything(found, "store") == everything(run_local(two_stages(Sum())), "store")


def test_a_slot_that_is_lost_between_windows_is_back_before_the_next_one(run):
    stop = threading.Event()

    def kill_first(found, _event):
        kill(found.of_slots("joined", "restarted")[0].pid)

    def stop_once_it_is_back(_found, event):
        if isinstance(event, SlotEvent) and event.kind == "restarted":
            stop.set()

    found = run(sum_application(), window="600s", each=kill_first, seen=stop_once_it_is_back, stop=stop)
    assert found.ids == [0]
    assert not found.retries


@pytest.mark.parametrize(
    ("run", "how"),
    [
        ("", "kill"),
        pytest.param("spark", "kill", marks=SPARK),
        pytest.param("spark", "exit", marks=SPARK),
    ],
    indirect=["run"],
)
def test_an_operator_that_ends_its_process_is_named_and_its_window_runs_again(run, tmp_path, how):
    folder = tmp_path / "notes"
    folder.mkdir()
    found = run(two_stages(DyingSum(folder=str(folder), bad=5, deaths=1, how=how)))
    assert "operator `total`" in found.retries[0].reason
    assert "its worker process died: it was killed" in found.retries[0].reason
    assert everything(found, "store") == everything(run_local(two_stages(Sum())), "store")


def test_an_operator_that_always_ends_its_process_fails_the_application(run, tmp_path):
    folder = tmp_path / "notes"
    folder.mkdir()
    dying = DyingSum(folder=str(folder), bad=5, how="exit")
    found, error = run(two_stages(dying, recovery_attempts=2), expect=OperatorError)
    assert (error.failure.operator, error.failure.window_id) == ("total", 5)
    assert "ended by `os._exit`" in error.failure.error
    assert found.ids == [0, 1, 2, 3, 4]


def test_an_operator_that_raises_runs_again_from_the_last_commit(run, tmp_path):
    folder = tmp_path / "notes"
    folder.mkdir()
    found = run(sum_application(FailingSum(bad=55, failures=1, folder=str(folder))))
    assert found.retries[0].window_id == 5
    assert "cannot add 55" in found.retries[0].reason
    assert found.collected("store") == run_local(sum_application()).collected("store")
    assert not found.of_slots("lost")


def test_a_driver_that_fails_after_another_has_taken_over_says_so(run, tmp_path):
    """The other driver may have caused it: it removes files that only this one needs."""

    def take_over(_found, event):
        if event.window_id == 2:
            (tmp_path / "checkpoint" / "epochs" / "00000002").touch()

    app = sum_application(FailingSum(bad=35), recovery_attempts=0)
    found, error = run(app, each=take_over, windows_in_flight=1, expect=FencedError)
    assert "was taken over by another driver; this one stops, nothing is lost" in str(error)
    assert "cannot add 35" in str(error.__cause__)
    assert found.ids == [0, 1, 2]


def test_a_slot_that_cannot_be_understood_is_not_said_to_have_been_killed(run):
    found = run(two_stages(BabblingSum()))
    assert "was given up: " in found.retries[0].reason
    assert "killed" not in found.retries[0].reason
    assert len(found.of_slots("lost")) == 1
    assert everything(found, "store") == everything(run_local(two_stages(Sum())), "store")


def test_slots_that_never_come_fail_the_application_with_the_reason(run):
    once = dict.fromkeys(["numbers.recovery_attempts", "store.recovery_attempts"], 1)
    app = two_stages(Sum(), recovery_attempts=1)

    def impatient(found):
        found.platform.patience_seconds = 0.0

    found, error = run(app, stillborn=True, started=impatient, expect=OperatorError, **once)
    assert "was lost 2 times in a row, the last time so: exit code 7" in error.failure.error
    assert error.failure.window_id == 0
    assert error.failure.callback.startswith("slot ")
    assert found.ids == []


def test_a_slot_that_cannot_make_its_containers_fails_the_application_with_the_reason(run, tmp_path):
    def remove_plan(found, event):
        if event.window_id == 3:
            for plan in (tmp_path / "checkpoint" / "plans").iterdir():
                plan.unlink()
            kill(found.of_slots("joined", "restarted")[0].pid)

    once = dict.fromkeys(["numbers.recovery_attempts", "store.recovery_attempts"], 1)
    app = two_stages(Sum(), recovery_attempts=1)
    found, error = run(app, each=remove_plan, expect=OperatorError, **once)
    assert error.failure.callback == "making its containers"
    assert "plans/" in error.failure.error
    assert found.ids[:4] == [0, 1, 2, 3]


@pytest.mark.parametrize("lost", [[0], [1, 2]])
def test_the_containers_of_a_host_that_is_gone_for_good_go_on_in_the_slots_that_are_left(run, lost):
    def lose(found, event):
        if event.window_id == 5:
            found.platform.lose(len(lost))
            kill(*(joined.pid for joined in found.of_slots("joined", "restarted") if joined.slot in lost))

    found = run(two_stages(Sum()), places=3, each=lose)
    slots = {1: "1 slot", 2: "2 slots"}[3 - len(lost)]
    text = f"Spark has cores for {slots} only: all containers of 3 slots live there now"
    assert [event.text for event in found.of_slots("reduced")] == [text]
    assert everything(found, "store") == everything(run_local(two_stages(Sum())), "store")
    assert not found.of_slots("restarted")


def test_a_run_without_any_host_says_so_and_ends(run):
    def lose(found, event):
        if event.window_id == 5:
            found.platform.lose(2)
            kill(*(joined.pid for joined in found.of_slots("joined", "restarted")))

    found, error = run(two_stages(Sum()), each=lose, expect=OperatorError)
    assert "no host has had a core for any slot" in error.failure.error
    assert "30 times the patience" in error.failure.error
    said = [event.text for event in found.of_type(StateWarning)]
    assert any("the run waits for an executor, and ends after" in text for text in said)
    assert found.ids == list(range(len(found.ids)))


@pytest.mark.parametrize("kills", [True, False])
def test_a_core_that_sparks_own_jobs_need_is_given_back_by_a_slot(run, kills):
    stop = threading.Event()

    def lose(found, event):
        if event.window_id == 5:
            found.platform.places -= 1
            if kills:  # its slot finds another core, the last one
                kill(found.of_slots("joined", "restarted")[0].pid)
        if found.of_slots("reduced"):
            stop.set()

    found = run(two_stages(Sum(), count=10_000), places=3, each=lose, stop=stop, window="20ms")
    assert [event.slots for event in found.of_slots("reduced")] == [2]
    expected = run_local(two_stages(Sum(), count=10_000), windows=len(found.ids))
    assert everything(found, "store") == everything(expected, "store")


@pytest.mark.parametrize("full", [[], ["alpha"]])
def test_slots_of_a_node_local_stream_are_asked_for_on_one_host_and_go_on_elsewhere(run, full):
    app = two_stages(Sum(), locality="NODE_LOCAL")
    found = run(app, places=5, hosts=("alpha", "beta"), full=full)
    near = [slot for slot, hosts in found.platform.jobs.asked if hosts == ("alpha",)]
    moved, misplaced = found.of_slots("moved"), found.of_slots("misplaced")
    if full:
        assert len(moved) + len(misplaced) == 4 * 4
        assert {event.slot for event in misplaced} == set(near)
        assert {one.text for one in moved} == {
            f"slot {slot} is asked for again: a locality or a rule needs it on `alpha`" for slot in near
        }
        assert (
            "`: Spark did not start it on `alpha`, where a locality or a rule needs it" in misplaced[0].text
        )
        assert len(near) == 4 * 4
    else:
        assert not moved + misplaced
        assert len(near) == 4
    assert everything(found, "store") == everything(run_local(two_stages(Sum())), "store")


def test_a_run_that_is_stopped_while_a_slot_is_gone_ends(run):
    stop = threading.Event()

    def kill_and_stop(found, event):
        if event.window_id == 3:
            kill(found.of_slots("joined", "restarted")[0].pid)
            stop.set()

    found = run(two_stages(Sum(), count=10_000), each=kill_and_stop, stop=stop)
    assert found.ids == list(range(len(found.ids)))


class Untidy(FailingSum):
    def teardown(self):
        raise ValueError("nothing to sweep with")


@pytest.mark.guide("004", "Interface - Component")
@pytest.mark.parametrize("bad", [-1, 47])
def test_operators_are_torn_down_however_a_run_ends_and_what_fails_in_it_is_a_warning(run, bad):
    app = sum_application(Untidy(bad=bad), recovery_attempts=0)
    found = run(app, expect=OperatorError if bad >= 0 else None)
    found = found[0] if bad >= 0 else found
    [warning] = [one for one in found.of_type(StateWarning) if "teardown" in one.text]
    assert "operator `total`" in warning.text
    assert "`teardown` failed: ValueError: nothing to sweep with; no result is lost" in warning.text
    assert found.run.master.ended is (bad < 0)


def test_places_for_slots_that_could_not_be_started_are_given_back(run, monkeypatch):
    def refuse(_platform):
        raise RidgelineError("STRAM cannot listen")

    def release(_platform):
        released.append(True)

    released = []
    monkeypatch.setattr(ProcessSlots, "open_network", refuse)
    monkeypatch.setattr(ProcessSlots, "release", release)
    run(two_stages(Sum()), expect=RidgelineError)
    assert released == [True]


@SPARK
@pytest.mark.slow
@pytest.mark.parametrize("run", ["spark"], indirect=True)
def test_a_cluster_that_cancels_the_jobs_of_slots_costs_time_and_no_result(run, spark_context):
    lost, stop = [0], threading.Event()

    def each(found, event):
        now = len(found.of_slots("lost"))
        if now > lost[-1]:
            lost.append(now)
        if len(lost) > 3:
            stop.set()
        elif event.window_id % 200 == 0:  # again and again, as some may hit no job
            spark_context.cancelAllJobs()

    found = run(two_stages(Sum(), count=1_000_000), each=each, stop=stop)
    assert stop.is_set()
    here = run_local(two_stages(Sum(), count=1_000_000), windows=len(found.ids))
    assert everything(found, "store") == everything(here, "store")
