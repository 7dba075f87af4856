"""A simulated run and a real one of the same plan: slots that are processes, over real sockets."""

import re
import time
from typing import NamedTuple

import pytest
from benchmarks.simulated_costs import Costs, MeasuredCosts, Turn
from benchmarks.simulated_run import ONE_HOST, Cluster, SimulatedRun
from benchmarks.simulated_spark import Failures

from benchmarks import decisions
from ridgeline import Application, InputOperator, InputPort, Operator, OutputPort, State
from ridgeline.engine.driver.checkpoint.folder import Checkpoint
from ridgeline.engine.files.storage import LocalStorage
from ridgeline.engine.state.state_files import window_of
from ridgeline.measure.events import WindowCommitted
from ridgeline.measure.measurement import Measurement
from ridgeline.measure.slot_events import SlotEvent
from ridgeline.observe.plan_topology import planned_event
from ridgeline.plan.planner import plan_application
from support.engine.slot_platform import kill, run_in_processes
from support.measure.reports import container_windows, operator_windows

STAGES = {"read": 30, "keyed": 20, "write": 10}
SLOTS = 6
WINDOWS = 4
WINDOWS_OF_TROUBLE = 200
SHORT_SECONDS, LONG_SECONDS = 0.001, 0.25
LOST_AFTER, LOST_SLOT = 1, 4


class Number(NamedTuple):
    key: int
    value: int


def seconds_of(operator, partition, window_id):
    """One partition of each stage takes long, another one in each window."""
    slow = (7 * window_id + 3) % STAGES[operator]
    return LONG_SECONDS if partition == slow else SHORT_SECONDS


def work(operator):
    context = operator.context
    time.sleep(seconds_of(type(operator).__name__.lower(), context.partition, context.window_id))


class Read(InputOperator):
    output = OutputPort(Number)

    def emit_tuples(self):
        work(self)
        for key in range(20):
            self.output.emit(Number(key, 1))


class Keyed(Operator):
    data = InputPort(Number, key="key")
    output = OutputPort(Number)
    total = State(0)

    @data.process
    def add(self, number):
        self.total += number.value
        self.output.emit(number)

    def end_window(self):
        self.total += 1
        work(self)


class Write(Operator):
    data = InputPort(Number, key="value")
    total = State(0)

    @data.process
    def add(self, number):
        self.total += number.value

    def end_window(self):
        self.total += 1
        work(self)


def application():
    app = Application("both", window=0)
    read = app.add_operator("read", Read(), partitions=STAGES["read"])
    keyed = app.add_operator("keyed", Keyed(), partitions=STAGES["keyed"])
    write = app.add_operator("write", Write(), partitions=STAGES["write"])
    app.add_stream("numbers", read.output, keyed.data)
    app.add_stream("sums", keyed.output, write.data)
    return app


class RealCosts(Costs):
    """What the turns of a real run have taken."""

    def __init__(self, events):
        found = operator_windows(events)
        self._turns = {
            (one.window_id, one.operator): Turn(one.compute_seconds, one.transfer_seconds) for one in found
        }

    def turn(self, window, operator, _role):
        return self._turns[window, operator.id]

    def restart(self):
        return 0.01


class Seen(NamedTuple):
    """What a run came to."""

    windows: list
    slot_of: dict
    states: dict
    paths: list
    latencies: list
    lost: list
    joined: list


def seen(plan, events, folder):
    measurement = Measurement("here")
    measurement.apply(planned_event(plan, at=0.0, application_id="both"))
    for event in events:
        measurement.apply(event)
    windows = [one.window_id for one in events if isinstance(one, WindowCommitted)]
    paths = [measurement.critical_path(window) for window in windows]
    checkpoint = Checkpoint(LocalStorage(str(folder)), "both")
    states = {
        key: (re.search(r"-(c\d+)-", version[-1])[1], window_of(version[-1]))
        for key, version in checkpoint.last().states.items()
    }
    checkpoint.close()
    containers = container_windows(events)
    of_slots = [one for one in events if isinstance(one, SlotEvent)]
    return Seen(
        windows,
        {(one.window_id, one.container): int(one.task[1:].partition("a")[0]) for one in containers},
        states,
        [[step["id"] for step in path["path"]] for path in paths],
        [path["latencyMs"] for path in paths],
        [one.slot for one in of_slots if one.kind == "lost"],
        sorted((one.slot, one.kind) for one in of_slots if one.kind in {"joined", "restarted"}),
    )


@pytest.fixture(scope="module")
def both(tmp_path_factory):
    """The same application in a real run and in a simulated one, in which the turns take as long."""
    folder = tmp_path_factory.mktemp("both")
    pids = {}

    def note(_run, event):
        if isinstance(event, SlotEvent) and event.kind in {"joined", "restarted"}:
            pids[event.slot] = event.pid

    def kill_one(_run, event):
        if event.window_id == LOST_AFTER:
            kill(pids[LOST_SLOT])

    attributes = {"windows_in_flight": 1, "window_work": "1h"}
    real = run_in_processes(
        application(), folder / "real", places=SLOTS, windows=WINDOWS, seen=note, each=kill_one, **attributes
    )
    plan = plan_application(application(), {}, attributes)
    simulated = folder / "simulated"
    simulated.mkdir()
    cluster = Cluster({ONE_HOST: SLOTS}, RealCosts(real.events), works=0.0)
    driven = SimulatedRun(plan, simulated, cluster)
    events = []
    driven.watch.subscribe(events.append)
    killed = []

    def kill_simulated():
        if not killed and driven.run.master.committed == LOST_AFTER:
            killed.append(LOST_SLOT)
            driven.spark.kill(LOST_SLOT)

    driven.beside.append(kill_simulated)
    driven.drive(WINDOWS)
    driven.close()
    return seen(plan, real.events, folder / "real"), seen(plan, events, simulated / "checkpoint")


def test_a_simulated_run_is_as_a_real_one(both):
    real, simulated = both
    assert simulated.windows == real.windows == list(range(WINDOWS))
    assert len(real.slot_of) == WINDOWS * sum(STAGES.values())
    assert simulated.slot_of == real.slot_of
    assert simulated.lost == real.lost == [LOST_SLOT]
    assert simulated.joined == real.joined
    assert len(real.states) == STAGES["keyed"] + STAGES["write"]
    assert simulated.states == real.states
    assert simulated.paths == real.paths
    least = 1e3 * len(STAGES) * LONG_SECONDS
    assert all(least <= latency for latency in [*real.latencies, *simulated.latencies])


@pytest.mark.parametrize("part", ["placement", "run", "limit"])
def test_decisions_are_timed(part, capsys):
    decisions.main(["100", "--windows", "6", "--part", part, "--profile"])
    printed = capsys.readouterr().out
    assert "100 containers on 10 hosts" in printed
    if part == "run":
        assert "| a window begins: it is sent to all slots | " in printed
        assert "| a slot is lost: what follows for slots | 1 |" in printed
        assert "| answers: `/` is answered | 1 |" in printed


@pytest.mark.slow
def test_slots_and_hosts_fail_and_all_windows_are_committed(tmp_path):
    """Failures every minute or two, and hosts that stay away for longer than the run waits for them."""
    plan = plan_application(decisions.application(1))
    failures = Failures(slot_hours=3.0, host_hours=0.2, away_seconds=(40.0, 60.0))
    places = {f"host{number}": 10 for number in range(10)}
    cluster = Cluster(places, MeasuredCosts.shipped(), failures, works=0.0, small_bytes=100, seed=1)
    driven = SimulatedRun(plan, tmp_path, cluster)
    events = []
    driven.watch.subscribe(events.append)
    began = []

    def begin():
        if not began and driven.run.master.committed >= 1:
            began.append(driven.trouble.begin())

    driven.beside.append(begin)
    driven.drive(WINDOWS_OF_TROUBLE)
    driven.close()
    committed = [one.window_id for one in events if isinstance(one, WindowCommitted)]
    assert committed == list(range(WINDOWS_OF_TROUBLE))
    assert driven.trouble.slots > 1
    assert driven.trouble.hosts > 0
    assert {"reduced", "sized"} <= {one.kind for one in events if isinstance(one, SlotEvent)}
