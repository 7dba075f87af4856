"""What the cluster does is waited for, longer each time, and counts for nothing up to the patience."""

from dataclasses import replace

from ridgeline.api.errors import Failure
from ridgeline.plan.protocol import EXCHANGE, STORE
from ridgeline.stram.master import Recovery
from ridgeline.stram.patience import Absence, Patience, back_off
from ridgeline.stram.plan_traits import PlanTraits
from ridgeline.stram.slots import GiveUpSlot, Slots, StartSlot
from support.stram.no_rules import NoRules
from support.stram.plans import plan

CUT = Failure("app", "", 0, 7, "slot 1", "its host has acknowledged nothing for 15 s", cluster=True)


def test_waits_double_up_to_ten_seconds():
    assert [back_off(failures) for failures in (0, 1, 2, 3, 4)] == [0, 0, 0.25, 0.5, 1]
    assert back_off(1000) == 10


def test_failures_of_the_cluster_count_as_attempts_only_after_the_patience():
    patience = Patience(90)
    assert all(patience.failed(CUT, now).cluster for now in (0, 5, 20, 89))
    assert patience.wait_until == 90
    late = patience.failed(CUT, 91)
    assert not late.cluster
    assert "the cluster has failed so for 91 s, and no window ran meanwhile" in late.error
    assert late.error.endswith("does the cluster end long tasks?")


def test_slots_that_reached_each_other_before_are_waited_for_thirty_times_as_long():
    between = replace(CUT, callback=EXCHANGE, error="slot 2 cannot reach slot 0")
    never = Patience(20)
    assert [never.failed(between, now).cluster for now in (0, 19, 21)] == [True, True, False]
    assert never.failed(between, 22).error.endswith("see `spark.ridgeline.slots.ports`?")
    before = Patience(20)
    before.window_ran()
    assert [before.failed(between, now).cluster for now in (0, 21, 599, 601)] == [True, True, True, False]


def test_containers_that_move_show_nothing_of_the_network():
    patience = Patience(20)
    patience.moved()
    between = replace(CUT, callback=EXCHANGE)
    assert [patience.failed(between, now).cluster for now in (0, 21)] == [True, False]


def test_a_store_that_does_not_answer_is_never_an_attempt():
    patience = Patience(20)
    away = replace(CUT, callback=STORE)
    assert all(patience.failed(away, now).cluster for now in (0, 30, 1_000_000))
    assert patience.wait_until == 1_000_000.5


def test_a_window_that_ran_ends_the_trouble():
    patience = Patience(90)
    patience.failed(CUT, 0)
    patience.failed(CUT, 80)
    patience.window_ran()
    assert patience.wait_until == 0
    assert patience.failed(CUT, 200).cluster


def test_what_an_operator_did_is_passed_on():
    mine = replace(CUT, operator="sums", cluster=False)
    patience = Patience(0)
    assert patience.failed(mine, 5) is mine
    assert patience.wait_until == 0


def test_no_number_of_cuts_uses_up_the_attempts_of_an_operator():
    failures = Recovery(PlanTraits(plan()).attributes)
    assert [failures.count(7, CUT) for _ in range(50)] == [(0, False)] * 50
    mine = replace(CUT, cluster=False)
    assert [failures.count(7, mine)[1] for _ in range(4)] == [False, False, False, True]


def test_jobs_that_the_cluster_ends_are_asked_for_again_later_each_time_up_to_the_patience():
    slots = Slots(((0,), (1,)), 1, NoRules(), patience_seconds=30)
    slots.start()
    found = [slots.job_ended(1, "executor lost", now)[0] for now in (0, 1, 2, 29, 31)]
    assert [type(one) for one in found] == [StartSlot] * 4 + [GiveUpSlot]
    assert [one.wait_seconds for one in found[:4]] == [0, 0.25, 0.5, 1]
    assert found[4].jobs == 5


def test_jobs_that_an_operator_ends_are_counted():
    slots = Slots(((0,), (1,)), 1, NoRules(), patience_seconds=1000)
    slots.start()
    found = []
    for _ in range(2):
        slots.lost(1, "ValueError in setup", blamed=True)
        found += slots.job_ended(1, "", 0)
    assert [type(one) for one in found] == [StartSlot, GiveUpSlot]


def _said(absence, seconds):
    """What is said each second, by second."""
    found = {}
    for now in range(1000, 1000 + seconds):
        if absence.due(now):
            found[now - 1000] = absence.lasts(now)
            if found[now - 1000][1]:
                break
    return found


def test_no_host_is_said_each_minute_and_ends_after_thirty_times_the_patience():
    absence = Absence(10)
    absence.over()
    said = _said(absence, 1000)
    assert list(said) == [10, 70, 130, 190, 250, 300]
    text = "the run waits for an executor, and ends after 230 s more"
    assert said[70][0] == f"no host has had a core for any slot for 70 s: {text}"
    assert [ends for _, ends in said.values()] == [False] * 5 + [True]
    assert "for 300 s, 30 times the patience; what is committed is kept" in said[300][0]


def test_executors_that_have_never_come_are_waited_for():
    said = _said(Absence(10), 10_000)
    assert len(said) == 167
    assert not any(ends for _, ends in said.values())


def test_cores_that_come_begin_the_wait_anew():
    absence = Absence(10)
    absence.over()
    assert not absence.due(0)
    assert absence.due(10)
    absence.has_cores()
    assert not absence.due(290)
    assert not absence.lasts(301)[1]
