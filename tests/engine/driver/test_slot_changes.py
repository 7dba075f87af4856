"""Changes of the plan in slots, of processes alone and of Spark."""

import pytest

from ridgeline.measure.slot_events import SlotEvent
from ridgeline.plan.edits import AddOperator, AddSink, RemoveOperator, Repartition
from ridgeline.stram.changes import EditPlan
from support.engine.decided import APPLIED, UntilDecided, assert_nothing_lost, states
from support.engine.on_spark import planner_of, run_on_spark
from support.engine.slot_platform import kill, run_in_processes
from support.engine.staying import staying
from support.service.live import application

ON_SPARK = pytest.param(None, id="spark", marks=pytest.mark.spark)


@pytest.fixture
def run(request, tmp_path):
    """`run(app, *changes, places, **options)`: each change is asked for once the one before is decided.

    It ends some windows after the last one. `places`: of processes; None: on Spark.
    """

    def run(app, *changes, places, each=None, **options):
        left = list(changes)

        def ask(found, event):
            if left and event.window_id > 3 and all(asked.done.is_set() for asked in found.asked):
                found.asked.append(found.run.changes.ask(EditPlan(tuple(left.pop(0))), "test"))
            if each is not None:
                each(found, event)

        until, folder = UntilDecided(len(changes), ask), tmp_path / "checkpoint"
        options |= {"each": until, "stop": until.stop}
        if places is None:
            context = request.getfixturevalue("spark_context")
            found = run_on_spark(app, context, folder, planner=planner_of(app), **options)
        else:
            found = run_in_processes(app, folder, places=places, changes={}, **options)
        assert_nothing_lost(found)
        return found

    return run


def partitions(*counts):
    return [[Repartition("sums", count)] for count in counts]


@pytest.mark.parametrize("places", [2, 6, ON_SPARK])
def test_repartitions_and_operators_that_come_and_go_lose_and_double_nothing(run, places):
    audit = AddOperator("audit", {"class": "support.service.live.Audit"})
    changes = partitions(3, 2, 5, 1)
    changes[1] += [audit, AddSink("numbers", "audit.input")]
    changes[2] += [RemoveOperator("audit")]
    found = run(application("10ms"), *changes, places=places)
    assert states(found) == [APPLIED] * len(changes)
    assert not found.retries
    assert not found.of_slots("lost")


@pytest.mark.slow
def test_slots_come_and_go_with_the_containers_and_their_numbers_are_used_again(run):
    claimed = []
    found = run(
        application("10ms"),
        *partitions(3, 1, 3, 1, 3, 1, 3, 1),
        places=6,
        each=lambda found, _: claimed.append(found.platform.claimed),
    )
    assert states(found) == [APPLIED] * 8
    assert max(claimed) <= 6
    assert claimed[-1] == 3  # one for each container, as at first once all had started
    numbers = {joined.slot for joined in found.of_slots("joined", "restarted")}
    assert max(numbers) < 12


@pytest.mark.slow
@pytest.mark.parametrize("places", [4, ON_SPARK])
def test_what_20_changes_do_not_touch_keeps_process_instance_and_connection(run, tmp_path, places):
    """New slots come, then there are no more cores and containers share them."""
    folder = tmp_path / "notes"
    folder.mkdir()
    found = run(staying(folder), *partitions(*(1 + number % 5 for number in range(1, 21))), places=places)
    assert states(found) == [APPLIED] * 20
    assert not found.of_slots("lost")
    assert len(list(folder.glob("setup-*"))) == len(list(folder.glob("teardown-*"))) == 1
    assert len(list(folder.glob("lives-*"))) == 1


def test_a_change_that_is_withdrawn_gives_its_slots_back(run):
    claimed = []

    def seen(found, event):
        if (
            isinstance(event, SlotEvent)
            and event.kind in {"joined", "restarted"}
            and event.slot > 2
            and found.asked
        ):
            claimed.append(found.platform.claimed)
            found.run.changes.withdraw(found.asked[0].number)

    found = run(application("10ms"), *partitions(4), places=6, seen=seen)
    assert states(found)[0][0] == "WITHDRAWN"
    assert claimed[0] == 6
    assert found.claimed[-1] == found.claimed[0]
    assert not found.retries


def test_a_new_slot_that_dies_before_the_change_costs_no_window(run):
    killed = []

    def kill_new(_found, event):
        if (
            isinstance(event, SlotEvent)
            and event.kind in {"joined", "restarted"}
            and event.containers == 0
            and not killed
        ):
            killed.append(event.pid)
            kill(event.pid)

    found = run(application("10ms"), *partitions(4), places=6, seen=kill_new)
    assert states(found) == [APPLIED]
    assert killed
    assert not found.retries


@pytest.mark.parametrize(
    ("which", "places"), [("one", 6), ("all", 6), pytest.param("one", None, marks=pytest.mark.spark)]
)
def test_slots_that_die_while_a_change_is_under_way(run, which, places):
    """Right after each change was asked for, and with the commit that makes the first one official."""
    asked, killed = [0], []

    def each(found, event):
        now = len(found.asked)
        if now > asked[-1] or (found.asked and found.asked[0].window == event.window_id):
            asked.append(now)
            pids = {joined.slot: joined.pid for joined in found.of_slots("joined", "restarted")}
            gone = {lost.pid for lost in found.of_slots("lost")} | set(killed)
            living = [pid for slot, pid in pids.items() if pid not in gone and slot < 3]
            chosen = living if which == "all" else living[:1]
            killed.extend(chosen)
            kill(*chosen)

    found = run(application("10ms"), *partitions(4, 2, 3), places=places, each=each)
    assert states(found) == [APPLIED] * 3
    assert found.of_slots("lost")
