"""Changes of the plan in slots that are real processes; only Spark is not there."""

import pytest

from ridgeline.measure.events import SlotJoined, SlotLost
from ridgeline.plan.edits import (
    Repartition,
)
from support.engine.decided import APPLIED, UntilDecided, assert_nothing_lost, states
from support.engine.slot_platform import kill, run_in_processes
from support.engine.staying import staying
from support.service.live import application


@pytest.fixture
def run(tmp_path):
    """`run(app, changes, **options)`: as `run_in_processes`, until some windows after the last change."""

    def run(app, changes, each=None, **options):
        until = UntilDecided(len(changes), each)
        folder = tmp_path / "checkpoint"
        found = run_in_processes(app, folder, changes=changes, each=until, stop=until.stop, **options)
        assert_nothing_lost(found)
        return found

    return run


@pytest.mark.parametrize("places", [2, 6])
def test_repartitions_lose_and_double_nothing(run, places):
    parts = [3, 2, 4, 1]
    changes = {5 + 15 * number: [Repartition("sums", count)] for number, count in enumerate(parts)}
    found = run(application("10ms"), places=places, changes=changes)
    assert states(found) == [APPLIED] * len(parts)
    assert not found.retries
    assert not found.of_type(SlotLost)


@pytest.mark.slow
def test_slots_come_and_go_with_the_containers_and_their_numbers_are_used_again(run):
    changes = {10 + 20 * number: [Repartition("sums", 3 - number % 2 * 2)] for number in range(8)}
    claimed = []
    found = run(
        application("10ms"),
        places=6,
        changes=changes,
        each=lambda found, _: claimed.append(found.platform.claimed),
    )
    assert states(found) == [APPLIED] * 8
    assert max(claimed) <= 6
    assert claimed[-1] == claimed[0]
    numbers = {joined.slot for joined in found.of_type(SlotJoined)}
    assert max(numbers) < 12


@pytest.mark.slow
def test_what_a_change_does_not_touch_keeps_process_instance_and_connection(run, tmp_path):
    folder = tmp_path / "notes"
    folder.mkdir()
    changes = {5 + 10 * number: [Repartition("sums", 1 + number % 3)] for number in range(1, 21)}
    found = run(staying(folder), places=4, changes=changes)
    assert states(found) == [APPLIED] * 20
    assert len(list(folder.glob("setup-*"))) == len(list(folder.glob("teardown-*"))) == 1
    assert len(list(folder.glob("lives-*"))) == 1


def test_a_change_that_is_withdrawn_gives_its_slots_back(run):
    claimed = []

    def seen(found, event):
        if isinstance(event, SlotJoined) and event.slot > 2 and found.asked:
            claimed.append(found.platform.claimed)
            found.run.changes.withdraw(found.asked[0].change.number)

    found = run(application("10ms"), places=6, changes={10: [Repartition("sums", 4)]}, seen=seen)
    assert states(found)[0][0] == "WITHDRAWN"
    assert claimed[0] == 6
    assert found.claimed[-1] == found.claimed[0]
    assert not found.retries


def test_a_new_slot_that_dies_before_the_change_costs_no_window(run):
    killed = []

    def kill_new(found, event):
        if isinstance(event, SlotJoined) and event.containers == 0 and not killed:
            killed.append(event.pid)
            kill(event.pid)

    found = run(application("10ms"), places=6, changes={10: [Repartition("sums", 4)]}, seen=kill_new)
    assert states(found) == [APPLIED]
    assert killed
    assert not found.retries


@pytest.mark.parametrize("which", ["one", "all"])
def test_slots_that_die_while_a_change_is_under_way(run, which):
    """Right after the change was asked for, and again with the commit that makes it official."""
    killed = []

    def each(found, event):
        if event.window_id in {10, 60} or (found.asked and found.asked[0].window == event.window_id):
            pids = {joined.slot: joined.pid for joined in found.of_type(SlotJoined)}
            gone = {lost.pid for lost in found.of_type(SlotLost)} | set(killed)
            living = [pid for slot, pid in pids.items() if pid not in gone and slot < 3]
            chosen = living if which == "all" else living[:1]
            killed.extend(chosen)
            kill(*chosen)

    found = run(
        application("10ms"),
        places=6,
        changes={10: [Repartition("sums", 4)], 60: [Repartition("sums", 2)]},
        each=each,
    )
    assert states(found) == [APPLIED, APPLIED]
