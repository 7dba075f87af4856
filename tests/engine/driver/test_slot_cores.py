"""The wait for executors at the start: as long as more may come, up to the patience, or the run's end."""

import threading
from types import SimpleNamespace

import pytest

from ridgeline import RidgelineError
from ridgeline.api.clock import SystemClock
from ridgeline.engine.driver.slots import spark_slots
from ridgeline.engine.driver.slots.spark_slots import (
    PATIENCE,
    SparkSlots,
    StoppedWaitingError,
    port_range,
)
from ridgeline.engine.spark.cores import held_cores, hold_cores
from ridgeline.testing import SteppingClock
from support.waiting import wait_until


class ArrivingExecutors:
    """A SparkContext, as far as cores are asked for: executors that join at times of a clock."""

    def __init__(self, master, clock, joins, settings):
        self.master = master
        self._clock, self._joins, self._settings = clock, joins, settings
        self._jsc, self._jvm = self, None
        self.asked = 0

    def getConf(self):  # noqa: N802  Spark's name
        return SimpleNamespace(getAll=self._settings.items, get=self._settings.get)

    def sc(self):
        return self

    def statusStore(self):  # noqa: N802  Spark's name
        return self

    def executorList(self, _active):  # noqa: N802  Spark's name
        self.asked += 1
        now = self._clock.monotonic()
        there = [
            SimpleNamespace(id=lambda: "1", maxTasks=lambda cores=cores: cores, hostPort=lambda: "alpha:4000")
            for at, cores in self._joins
            if at <= now
        ]
        return SimpleNamespace(size=lambda: len(there), apply=there.__getitem__)


@pytest.fixture
def slots(monkeypatch):
    """`slots(joins, master, clock, stop, **settings)`: a platform whose executors join at (second, cores)."""
    monkeypatch.setattr(spark_slots, "make_certificate", lambda _jvm: None)  # there is no JVM

    def make(joins, master="yarn", clock=None, stop=None, **settings):
        given = {name.replace("_", "."): value for name, value in settings.items()}
        clock = clock or SteppingClock()
        start = clock.monotonic()
        context = ArrivingExecutors(master, clock, [(start + at, cores) for at, cores in joins], given)
        made = SparkSlots(context, 0, clock, stop)
        made.context, made.start, made.clock = context, start, clock
        return made

    return make


def test_executors_of_one_core_are_waited_for_until_there_are_two(slots):
    platform = slots([(0, 1), (8, 1)])  # YARN starts two if nobody says
    assert platform.claim(3, 0) == 1
    assert 8 <= platform.clock.monotonic() - platform.start < 20
    platform.release()


def test_all_that_join_soon_after_are_taken(slots):
    platform = slots([(0, 1), (8, 1), (9, 1), (10, 1)], spark_executor_instances="4")
    assert platform.claim(3, 0) == 3
    platform.release()


def test_a_region_that_is_changed_takes_cores_that_are_free_and_no_share_of_another(slots):
    one = slots([(0, 5)], "local-cluster[1,5,1024]")
    hold_cores(one.context, 3)
    one, other = (SparkSlots(one.context, 0, one.clock, None, share) for share in (1, 2))
    assert (one.claim(3, 0), other.claim(3, 0)) == (1, 2)
    assert (one.claim_more(3), other.claim_more(1)) == (1, 0)
    other.release()
    assert one.claim_more(1) == 0
    one.release()
    assert held_cores(one._context) == 3
    hold_cores(one._context, -3)


def test_executors_that_are_asked_for_are_waited_for_beyond_the_patience(slots, caplog):
    platform = slots([(0, 1), (500, 1)])
    with caplog.at_level("WARNING"):
        assert platform.claim(3, 0) == 1
    said = [one.getMessage() for one in caplog.records]
    assert said[0] == (
        "slots need 2 cores, and Spark has 1: waiting for executors (the cluster was asked for more)"
    )
    assert len(said) == 9  # each minute
    platform.release()


def test_the_wait_ends_with_the_patience(slots):
    settings = {PATIENCE.replace(".", "_"): "30s", "spark_cores_max": "4"}
    platform = slots([(0, 1), (100, 1)], "spark://host:7077", **settings)
    with pytest.raises(RidgelineError, match=r"slots need 2 cores .*; Spark has 1; give Spark more cores"):
        platform.claim(3, 0)
    assert 30 <= platform.clock.monotonic() - platform.start < 40


@pytest.mark.parametrize(
    ("master", "settings"),
    [
        ("yarn", {"spark_executor_instances": "1"}),
        ("spark://host:7077", {"spark_cores_max": "1"}),
        ("local[1]", {}),
    ],
)
def test_nothing_is_waited_for_if_no_more_may_come(slots, master, settings):
    platform = slots([(0, 1), (8, 1)], master, **settings)
    with pytest.raises(RidgelineError, match=r"slots need 2 cores .*; Spark has 1"):
        platform.claim(3, 0)
    assert platform.clock.monotonic() - platform.start < 8


@pytest.mark.parametrize("joins", [[(0, 1)], []])
def test_a_run_that_is_to_end_waits_no_longer(slots, joins):
    """On a real clock, by an event that is set meanwhile, as signals set it."""
    stop, raised = threading.Event(), []
    platform = slots(joins, clock=SystemClock(), stop=stop, **{PATIENCE.replace(".", "_"): "9999s"})

    def claim():
        try:
            platform.claim(3, 0)
        except StoppedWaitingError as error:
            raised.append(error)

    thread = threading.Thread(target=claim)
    thread.start()
    wait_until(lambda: platform.context.asked >= 2, "the wait for executors")
    stop.set()
    thread.join(60)
    assert not thread.is_alive()
    assert raised


@pytest.mark.parametrize(("text", "ports"), [("", (0, 0)), ("4000", (4000, 4000)), ("1-65535", (1, 65535))])
def test_ports_are_one_or_a_range(text, ports):
    assert port_range(text) == ports


@pytest.mark.parametrize("text", ["0", "x", "2-1", "1-70000", "-5", "1-2-3"])
def test_what_is_no_range_is_refused(text):
    with pytest.raises(RidgelineError, match=r"must be two ports; got `.*`; give them as `40000-40100`"):
        port_range(text)
