"""Topologies and windows for tests: the events of a window in slots, with chosen times."""

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import pytest
from hypothesis import strategies as st

from ridgeline.measure.events import ContainerWindow, OperatorWindow, WindowCommitted
from ridgeline.measure.latency.blame import blame_chains, since_trigger
from ridgeline.measure.latency.critical_path import slot_paths
from ridgeline.measure.latency.operator_latency import latencies
from ridgeline.measure.latency.window import NOTHING, Windows, WindowTimes
from ridgeline.measure.topology import OperatorNode, StreamEdge, Topology
from support.measure.latency_by_hand import by_operator, latencies_by_hand
from support.measure.reports import container_windows, of_reports, operator_windows

BASE = 1_700_000_000.0
SEED_MS = {"A": 0, "B": 5, "C": 100, "D": 30, "E": 20, "F": 2}
SEED_STREAMS = ["AB", "AC", "BD", "CE", "CF"]
SEED_PLACES = {"A": (0, 0), "B": (1, 1), "C": (2, 1), "D": (3, 2), "E": (4, 2), "F": (5, 2)}


def graph(places, streams, *, unifiers=(), names=None):
    """Operators by title with (container, stage), ids from 1 in that order; streams as pairs of titles."""
    ids = {title: number for number, title in enumerate(places, 1)}
    sources, sinks = {stream[0] for stream in streams}, {stream[1] for stream in streams}
    names = {title: (names or {}).get(title, title) for title in places}
    partitions = defaultdict(list)
    for title in places:
        if title not in unifiers:
            partitions[names[title]].append(title)
    nodes = []
    for title, (container, stage) in places.items():
        kind = "input" if title not in sinks else "operator" if title in sources else "output"
        same = partitions[names[title]]
        partition = same.index(title) if title in same else 0
        shape = partition, len(same), title in unifiers, kind, False, container, stage
        nodes.append(OperatorNode(ids[title], names[title], title, "Operator", *shape))
    edges = [
        StreamEdge(f"{source}-{sink}", ids[source], "output", ids[sink], "input") for source, sink in streams
    ]
    return Topology(tuple(nodes), tuple(edges))


def seed_graph(*, fused=False):
    """The latency article's figure: A -> {B, C}, B -> D, C -> {E, F}."""
    return graph(dict.fromkeys(SEED_PLACES, (0, 0)) if fused else SEED_PLACES, SEED_STREAMS)


def ids(topology):
    return {node.title: node.id for node in topology.operators}


def container_window(container, task, *times):
    """A container's times: entered, turn, restored, ran, written, received."""
    return ContainerWindow(BASE, 0, 0, container, "", 1, task, *times)


def operator_window(operator, container, began, ended, *seconds):
    """An operator's times: turn and end, then compute, wait and transfer; 10 tuples in, 5 out."""
    counts = {"input": 10}, {"output": 5}
    return OperatorWindow(BASE, 0, 0, operator, container, "", began, ended, *seconds, *counts)


def operator_ended(window, operator, seconds, tuples_in=None, tuples_out=None, at=0.0, **more):
    """An operator's window of which only the compute time and the tuples matter."""
    times = 0.0, 0.0, seconds, 0.0, 0.0
    counts = tuples_in or {}, tuples_out or {}
    return OperatorWindow(at, window, 0, operator, operator - 1, "h", *times, *counts, **more)


@dataclass(frozen=True, slots=True)
class SimulatedTimes(WindowTimes):
    """A window with the reports that it is made of, by id."""

    containers: Mapping[int, ContainerWindow] = field(default_factory=dict)
    operators: Mapping[int, OperatorWindow] = field(default_factory=dict)

    def __post_init__(self):
        reports = *self.containers.values(), *self.operators.values()
        object.__setattr__(self, "reported", of_reports(*reports) if reports else NOTHING)


def taken_apart(times):
    """A window with the reports that its event is of."""
    containers = {one.container: one for one in container_windows([times.reported])}
    operators = {one.operator: one for one in operator_windows([times.reported])}
    known = times.commit, times.due, NOTHING, times.trigger, times.plan_version
    return SimulatedTimes(*known, containers, operators)


def run(  # every argument is a duration of the model
    topology,
    compute_ms,
    *,
    tasks=None,
    launch_ms=0.0,
    restore_ms=0.0,
    decode_ms=0.0,
    transfer_ms=0.0,
    state_ms=0.0,
    driver_ms=(0.0, 0.0, 0.0, 0.0, 0.0, 0.0),
    window_id=0,
    trigger=None,
    began=BASE,
    due=None,
    queued=None,
):
    """A window in slots: each container runs once its producers are written and its slot is free.

    `tasks`: of a container, its slot (default: one each). `queued`: milliseconds that an operator's slot is
    busy with earlier windows. `launch_ms`: of requests and messages on their way. `driver_ms`: to planned, to
    launched, from the last container to returned, to staged, to committed, to published."""
    tasks = tasks or {}
    planned = began + driver_ms[0] / 1000
    launched = planned + driver_ms[1] / 1000
    containers, operators = {}, {}
    free, written = defaultdict(float), {}
    for container in topology.containers_in_order:
        members, task = topology.containers[container], tasks.get(container, f"t{container}")
        ready = max((written[one] for one in topology.producers[container]), default=launched)
        ready += launch_ms / 1000
        turn = max(ready, free[task]) + (queued or {}).get(topology.by_id[members[0]].title, 0) / 1000
        restored = turn + restore_ms / 1000
        at = restored + decode_ms / 1000
        for operator in members:
            seconds = compute_ms[topology.by_id[operator].title] / 1000
            ended = at + seconds + transfer_ms / 1000
            operators[operator] = operator_window(
                operator, container, at, ended, seconds, at - restored, transfer_ms / 1000
            )
            at = ended
        written[container] = free[task] = end = at + state_ms / 1000
        containers[container] = container_window(container, task, turn, turn, restored, at, end, end)
        containers[container].ready = ready
    returned = max(written.values(), default=launched) + driver_ms[2] / 1000
    staged = returned + driver_ms[3] / 1000
    committed = staged + driver_ms[4] / 1000
    published = committed + driver_ms[5] / 1000
    due = began if due is None else due
    driver = (began, planned, launched, returned, staged, committed, published)
    commit = WindowCommitted(published, window_id, 1, *driver)
    return SimulatedTimes(commit, due, NOTHING, trigger, 0, containers, operators)


def operator_latencies(topology, times, **known):
    """The latency of every operator that reported, by id; `known`: as `latencies_by_hand` takes it.

    They are those that one finds one by one, also where the window is one of several.
    """
    behind = known.get("behind", 0)
    others = {name: value for name, value in known.items() if name != "behind"}
    several = latencies(Windows(topology, [times, times]), behind=[behind, 0], **others)
    alone = latencies(Windows(topology, [times]), behind=[behind], **others)
    found = by_operator(topology, several, 0)
    assert by_operator(topology, alone, 0) == found
    assert behind or by_operator(topology, several, 1) == found
    expected = latencies_by_hand(topology, times, **known)
    assert found.keys() == expected.keys()
    for operator, latency in expected.items():
        assert found[operator] == pytest.approx(latency, abs=1e-6), operator
    return found


def of_window(topology, times, find):
    """What is found of a window from its arrays: the same as of several windows that are not alike."""
    windows = Windows(topology, [times, replace(times, containers={}, operators={}), times])
    alone = Windows(topology, [times])
    [found] = find(alone, slot_paths(alone))
    assert [find(windows, slot_paths(windows))[number] for number in (0, 2)] == [found, found]
    return found


def blame_chain(topology, times):
    return since_trigger(times, of_window(topology, times, blame_chains))


def reported(topology, times, hosts, clocks):
    """The window as events: what each container says, on its host's clock (a function of the true time)."""
    at, window, reports = times.commit.at, times.commit.window_id, []
    for number, found in times.containers.items():
        host = hosts[number]
        clock = clocks.get(host, float)
        stamps = [
            clock(at) for at in (found.task_began, found.began, found.restored, found.ran, found.written)
        ]
        reports.append(ContainerWindow(
            at, window, 0, number, host, 1, found.task, *stamps, found.received,
            ready=clock(found.ready),
        ))  # fmt: skip
        for operator in topology.containers[number]:
            own = times.operators[operator]
            durations = own.compute_seconds, own.wait_seconds, own.transfer_seconds
            stamps = clock(own.began), clock(own.ended)
            reports.append(OperatorWindow(at, window, 0, operator, number, host, *stamps, *durations, {}, {}))
    yield of_reports(*reports)
    yield times.commit


@st.composite
def graphs(draw, most=8):
    """Random DAGs as a planner places them: streams stay in a container or go to a later stage."""
    count = draw(st.integers(1, most))
    stage_of = [draw(st.integers(0, 3)) for _ in range(draw(st.integers(1, most)))]
    where = [draw(st.integers(0, len(stage_of) - 1)) for _ in range(count)]
    titles = draw(st.permutations([f"o{number}" for number in range(count)]))
    order = sorted(range(count), key=lambda number: stage_of[where[number]])
    places = {titles[number]: (where[number], stage_of[where[number]]) for number in order}
    placed = list(places.items())
    possible = [
        (source, sink)
        for position, (sink, (container, stage)) in enumerate(placed)
        for source, (other, earlier) in placed[:position]
        if earlier < stage or other == container
    ]
    streams = draw(st.lists(st.sampled_from(possible), unique=True)) if possible else []
    return graph(places, streams)


@st.composite
def runs(draw):
    """A random graph and a window of it that ran in slots."""
    topology = draw(graphs())
    milliseconds = st.integers(0, 50)
    compute = {node.title: draw(milliseconds) for node in topology.operators}
    tasks = {container: draw(st.sampled_from(["t0", "t1", "t2"])) for container in topology.containers}
    names = ["launch_ms", "restore_ms", "decode_ms", "transfer_ms", "state_ms"]
    durations = {name: draw(milliseconds) for name in names}
    return (
        topology,
        run(topology, compute, tasks=tasks, driver_ms=[draw(milliseconds) for _ in range(6)], **durations),
        compute,
    )


@st.composite
def wild_windows(draw, *, slots=False):
    """A random graph and times that fit nothing: clocks that disagree, parts that are missing.

    `slots`: the containers lived in slots, which say when they were busy."""
    topology = draw(graphs())
    second = st.floats(-2.0, 2.0).map(lambda value: BASE + value)
    part = st.floats(0.0, 1.0)
    containers = {
        container: container_window(
            container, draw(st.sampled_from(["t0", "t1"])), *(draw(second) for _ in range(6))
        )
        for container in topology.containers
        if draw(st.integers(0, 4))
    }
    for found in containers.values() if slots else ():
        found.ready = draw(second)
        offsets = sorted(draw(st.lists(st.floats(0.0, 2.0), max_size=6)), reverse=True)
        found.busy = tuple(offsets[: len(offsets) // 2 * 2])
    operators = {
        node.id: operator_window(
            node.id, node.container, draw(second), draw(second), draw(part), draw(part), draw(part)
        )
        for node in topology.operators
        if draw(st.integers(0, 4))
    }
    driver = [draw(second) for _ in range(8)]
    if draw(st.booleans()):
        driver.sort()
    commit = WindowCommitted(driver[-1], 0, 1, *driver[1:])
    return topology, SimulatedTimes(commit, driver[0], NOTHING, None, 0, containers, operators)
