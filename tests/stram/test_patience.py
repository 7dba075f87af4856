"""What the cluster does is waited for, longer each time, and counts for nothing up to the patience."""

from dataclasses import replace
from types import SimpleNamespace

from ridgeline.api.errors import Failure
from ridgeline.engine.driver.slots.start import Shortage
from ridgeline.plan.protocol import EXCHANGE, STORE
from ridgeline.stram.master import Recovery
from ridgeline.stram.patience import Patience, back_off
from ridgeline.stram.plan_traits import PlanTraits
from ridgeline.stram.slot_resources import Need
from ridgeline.stram.slots import GiveUpSlot, Slots, StartSlot
from ridgeline.stram.windows import InFlightWindow
from support.operators.harness import HandClock
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
    recovery, window = Recovery(PlanTraits(plan()).attributes), InFlightWindow(7)
    assert not any(recovery.count(window, CUT) for _ in range(50))
    assert window.failures == 0
    mine = replace(CUT, cluster=False)
    assert [recovery.count(window, mine) for _ in range(4)] == [False, False, False, True]


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


AWAITED = SimpleNamespace(active=[0], missing=[0], shrink_to=lambda _places: ())


class Short:
    """A shortage with a patience of 10 s, looked at as the executor does it; what is said, by second."""

    def __init__(self, *, were_there=True):
        self.clock, self.cores, self.said, self.end = HandClock(), 0, {}, ""
        platform = SimpleNamespace(patience_seconds=10, present=lambda _without: self.cores)
        self.shortage = Shortage(platform, self.clock, self._say, self._ended)
        if were_there:
            self.shortage.over()
        self.begin = self.clock.seconds
        self.shortage.wait()

    def _say(self, text):
        if text.startswith("no host"):
            self.said[self.clock.seconds - self.begin] = text

    def _ended(self, text):
        self._say(text)
        self.end = text

    def look(self, seconds):
        """Look for so long, or until the end."""
        until = self.clock.seconds + seconds
        while not self.end and self.clock.seconds < until:
            self.clock.seconds += 1
            if self.shortage.due:
                self.shortage.look(AWAITED, {0: Need()}, ())
                self.shortage.wait()
        return self.said


def test_no_host_is_said_each_minute_and_ends_after_thirty_times_the_patience():
    short = Short()
    assert list(short.look(1000)) == [10, 70, 130, 190, 250, 300]
    text = "the run waits for an executor, and ends after 230 s more"
    assert short.said[70] == f"no host has had a core for any slot for 70 s: {text}"
    assert short.said[300] == short.end
    assert "for 300 s, 30 times the patience; what is committed is kept" in short.end


def test_executors_that_have_never_come_are_waited_for():
    short = Short(were_there=False)
    assert len(short.look(10_000)) == 167
    assert not short.end


def test_cores_that_come_begin_the_wait_anew():
    short = Short()
    assert list(short.look(290)) == [10, 70, 130, 190, 250]
    short.cores = 1
    short.look(10)
    short.cores = 0
    assert list(short.look(291))[5:] == [310, 370, 430, 490, 550]
    assert not short.end
