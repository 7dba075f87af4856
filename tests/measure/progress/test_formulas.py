import json
import math

import numpy as np
import pytest

from ridgeline.measure.events import RunningOperator
from ridgeline.measure.progress.estimate import NOTHING, UNKNOWN, Basis, Estimate, greatest, total
from ridgeline.measure.progress.estimated import BASES, Estimates, less, plus, times
from ridgeline.measure.topology import OperatorNode, StreamEdge, Topology
from support.measure.partitioned import chain
from support.measure.window_progress import History, even_shares, window_progress

ESTIMATED, EXACT, LOWER = Basis.ESTIMATED, Basis.EXACT, Basis.LOWER_BOUND


def node(
    identity,
    kind="operator",
    container=None,
    stage=0,
    *,
    name=None,
    partition=0,
    partitions=1,
    unifier=False,
    outputs=("out",),
):
    container = identity if container is None else container
    name = name or f"o{identity}"
    inputs = () if kind == "input" else ("in",)
    shape = (partition, partitions, unifier, kind, False, container, stage)
    return OperatorNode(identity, name, name, "Operator", *shape, inputs, tuple(outputs))


def edge(source, sink, source_port="out", sink_port="in"):
    return StreamEdge(f"{source}-{sink}", source, source_port, sink, sink_port)


def known(value, basis=ESTIMATED):
    return Estimate(value, basis)


def near(estimate, value, basis=ESTIMATED):
    return estimate.basis is basis and estimate.value == pytest.approx(value)


# Windows ----------------------------------------------------------------------------------------------------

WORD_COUNT = chain("read", "split", "write")


def test_a_third_done_of_sixty_tuples_of_a_second():
    running = {2: RunningOperator(2, "running", 20.3, {"input": 20}, {"input": 39}, 1, {"output": 20})}
    result = window_progress(WORD_COUNT, running)
    split = result.operators[2]
    assert split.input_remaining == Estimate(39.0)
    assert split.remaining_seconds.value == pytest.approx(40, rel=0.1)
    assert split.remaining_seconds.basis is ESTIMATED
    assert result.wall_seconds.value == result.cpu_seconds.value == split.remaining_seconds.value
    assert result.wall_seconds.basis is LOWER  # nobody knows how long the sink takes
    assert [result.operators[one].state for one in (1, 2, 3)] == ["done", "running", "waiting"]
    assert result.operators[3].input_remaining.value == pytest.approx(60)


def test_earlier_windows_show_what_this_one_cannot():
    history = {3: History(seconds_per_element=0.5, elements=60, seconds=30.0)}
    running = {2: RunningOperator(2, "running", 20.0, {"input": 20}, {"input": 40}, 0, {"output": 20})}
    result = window_progress(WORD_COUNT, running, history)
    assert result.wall_seconds == known(70.0)
    history = {2: History(seconds=5.0), 3: History(seconds=2.0)}
    assert window_progress(WORD_COUNT, {}, history).wall_seconds == Estimate(7.0, LOWER)
    assert window_progress(WORD_COUNT, {}).wall_seconds == UNKNOWN


@pytest.mark.parametrize(
    ("said", "history", "expected"),
    [
        ({"active": 1000}, History(seconds_per_element=0.06), known(40.0)),  # one batch of a thousand
        ({"active": 1000}, History(), UNKNOWN),
        (
            {"active": 10, "active_produced": {"output": 20}, "active_remaining": {"output": 40}},
            History(),
            known(40.0),
        ),
        ({"active": 1, "active_remaining": {"output": -1.0}}, History(), known(math.inf)),
        ({"consumed": {"input": 60}}, History(seconds=50.0, seconds_per_element=1.0), known(30.0)),
        ({"consumed": {"input": 60}}, History(seconds=5.0), known(0.0)),
        ({"consumed": {"input": 60}}, History(), Estimate(0.0, LOWER)),
    ],
)
def test_callbacks_that_report_no_counts(said, history, expected):
    running = {2: RunningOperator(2, "running", 20.0, queued={"input": 0}, **said)}
    found = window_progress(WORD_COUNT, running, {2: history}).operators[2].remaining_seconds
    assert near(found, expected.value, expected.basis)


def test_what_earlier_windows_emitted_at_their_end_is_still_to_come():
    history = {2: History(outputs_per_element={"output": 0.1})}
    running = {2: RunningOperator(2, "running", 1.0, {"input": 20}, {"input": 30}, 0, {"output": 0})}
    for past, value in ((history, 5.0), ({}, 0.0)):
        split = window_progress(WORD_COUNT, running, past).operators[2]
        assert split.output_remaining["output"].value == pytest.approx(value)


def test_infinite_work_spreads_to_those_it_feeds():
    running = {
        1: RunningOperator(
            1, "running", 2.0, active=1, active_produced={"output": 4}, active_remaining={"output": -1.0}
        ),
        2: RunningOperator(2, "waiting", 1.0, {"input": 2}, {}, 0, {"output": 0}),
    }
    result = window_progress(chain("a", "b", "c", stages=[0, 0, 0]), running)
    assert result.operators[1].remaining_seconds.infinite
    assert result.operators[2].remaining_seconds.infinite
    assert result.operators[3].input_remaining.value == 0  # 0 of infinitely many get through, as far as known
    assert result.wall_seconds.infinite


# Input operators --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("work", "history", "seconds", "outputs"),
    [
        ((30.0, 60.0), History(), 20.0, 200.0),  # all that remains of the source
        ((130.0, 1e6), History(work=90.0, work_before=100.0), 20.0, 200.0),  # the window's share
        ((130.0, 15.0), History(work=90.0, work_before=100.0), 5.0, 50.0),  # the source ends before
        ((130.0, None), History(work=90.0, work_before=100.0), 20.0, 200.0),
        ((130.0, -1.0), History(work=90.0, work_before=100.0), 20.0, 200.0),
        (None, History(seconds=25.0, outputs_per_element={"output": 300}), 15.0, 200.0),
        ((0.0, 7.0), History(seconds=25.0, outputs_per_element={"output": 300}), 15.0, 200.0),
    ],
)
def test_input_operators(work, history, seconds, outputs):
    said = RunningOperator(1, "running", 10.0, active=1, active_produced={"output": 100}, work=work)
    found = window_progress(WORD_COUNT, {1: said}, {1: history}).operators[1]
    assert near(found.remaining_seconds, seconds)
    assert near(found.output_remaining["output"], outputs)


def test_an_input_operator_that_says_nothing_is_unknown():
    said = RunningOperator(1, "running", 10.0, active=1, active_produced={"output": 100})
    found = window_progress(WORD_COUNT, {1: said}).operators[1]
    assert found.remaining_seconds == UNKNOWN
    assert found.output_remaining["output"] == Estimate(0.0, LOWER)
    endless = RunningOperator(
        1, "running", 10.0, active=1, active_produced={"output": 100}, work=(100.0, -1.0)
    )
    assert window_progress(WORD_COUNT, {1: endless}).operators[1].remaining_seconds.infinite


# Shapes -----------------------------------------------------------------------------------------------------


def partitioned():
    """An input, two partitions of a counter, one sink: the partitions side by side, the sink last."""
    nodes = (
        node(1, "input", 0, 0),
        node(2, container=1, stage=1, name="count", partition=0, partitions=2),
        node(3, container=2, stage=1, name="count", partition=1, partitions=2),
        node(4, "output", 3, 2, outputs=()),
    )
    return Topology(nodes, (edge(1, 2), edge(1, 3), edge(2, 4), edge(3, 4)))


def test_partitions_get_their_share():
    topology = partitioned()
    said = {1: RunningOperator(1, "running", 3.0, active=1, active_produced={"out": 30}, work=(30.0, 70.0))}
    history = {2: History(seconds_per_element=0.1), 3: History(seconds_per_element=0.1)}
    even = window_progress(topology, said, history)
    assert all(near(even.operators[one].input_remaining, 50.0) for one in (2, 3))
    shares = {edge(1, 2): known(0.8), edge(1, 3): known(0.2)}
    seen = window_progress(topology, said, history, shares)
    assert [seen.operators[one].input_remaining.value for one in (2, 3)] == pytest.approx([80.0, 20.0])
    assert seen.cpu_seconds.value == pytest.approx(7.0 + 8.0 + 2.0)
    assert seen.wall_seconds.value == pytest.approx(7.0 + 8.0)  # the partitions run side by side


def test_one_stream_to_several_consumers_is_no_share_and_unifiers_count_by_whom_they_feed():
    nodes = (
        node(1, "input", name="a", partitions=2),
        node(2, "input", name="a", partition=1, partitions=2),
        node(3, name="a", unifier=True),
        node(4, name="a", unifier=True),
        node(5, name="a", unifier=True),
        node(6, name="b", partitions=2),
        node(7, name="b", partition=1, partitions=2),
        node(8, name="c"),
    )
    edges = (
        *(edge(source, sink) for sink in (3, 4, 5) for source in (1, 2)),
        edge(3, 6),
        edge(4, 7),
        edge(5, 8),
    )
    shares = even_shares(Topology(nodes, edges))
    assert shares[edge(1, 3)] == shares[edge(2, 4)] == known(0.5)
    assert shares[edge(1, 5)] == shares[edge(5, 8)] == Estimate(1.0)


def test_what_runs_says_that_those_that_it_reads_from_are_done():
    said = {
        1: RunningOperator(1, "running", 3.0, active=1, active_produced={"out": 30}, work=(30.0, 70.0)),
        2: RunningOperator(2, "running", 1.0, {"in": 10}, {"in": 40}, 0, {"out": 10}),
    }
    result = window_progress(partitioned(), said)
    assert result.operators[1].remaining_seconds == NOTHING
    assert result.operators[2].remaining_seconds == known(4.0)
    assert result.operators[3].state == "unknown"
    assert result.operators[3].input_remaining.basis is LOWER  # the input's last report is older than its end
    assert result.containers[2] == UNKNOWN
    assert result.operators[4].state == "waiting"
    beside = Topology(
        (node(1, "input", 0), node(2, "input", 1), node(3, container=2, stage=1)), (edge(1, 3),)
    )
    said = {2: RunningOperator(2, "running", 1.0), 3: RunningOperator(3, "running", 1.0)}
    states = [one.state for one in window_progress(beside, said).operators.values()]
    assert states == ["done", "running", "running"]  # another branch of an earlier stage runs on


def test_two_parents_in_one_port_and_in_one_container():
    nodes = (node(1, "input", 0), node(2, "input", 0), node(3, "output", 0, outputs=()))
    topology = Topology(nodes, (edge(1, 3), edge(2, 3)))
    said = {
        1: RunningOperator(1, "done", 3.0, produced={"out": 30}),
        2: RunningOperator(2, "running", 1.0, active=1, active_produced={"out": 5}, work=(1.0, 3.0)),
        3: RunningOperator(3, "waiting"),
    }
    result = window_progress(topology, said, {3: History(seconds_per_element=1.0)})
    assert result.operators[3].buffered == Estimate(35.0)
    assert result.operators[3].input_remaining == known(50.0)
    assert result.wall_seconds == known(3.0 + 50.0)


def test_time_passes_between_heartbeats():
    running = {2: RunningOperator(2, "running", 20.0, {"input": 20}, {"input": 40}, 0, {"output": 20})}
    later = window_progress(WORD_COUNT, running, ages={1: 0.5}).operators[2]
    assert (later.seconds_spent, later.remaining_seconds) == (20.5, known(39.5))
    assert window_progress(WORD_COUNT, running, ages={1: 50.0}).operators[2].remaining_seconds == known(0.0)


def test_a_tentative_watermark_is_the_lowest_in_flight_here_and_before():
    running = {
        1: RunningOperator(1, "running", 1.0, oldest_in_flight={"output": 90.0}),
        2: RunningOperator(2, "waiting", oldest_in_flight={"output": 100.0}),
    }
    topology = chain("a", "b", "c", stages=[0, 0, 0])
    assert window_progress(topology, running).operators[2].oldest_in_flight == {"output": 90.0}
    running[1] = RunningOperator(1, "done", 1.0, oldest_in_flight={"output": 90.0})
    assert window_progress(topology, running).operators[2].oldest_in_flight == {"output": 100.0}


# Estimate ---------------------------------------------------------------------------------------------------


def array(one):
    return Estimates(
        np.array([math.nan if one.value is None else one.value]), np.array([BASES.index(one.basis)], np.int8)
    )


def done(operation, first, second):
    """What is done with arrays of one each, as in formulas."""
    with np.errstate(invalid="ignore"):
        return operation(array(first), array(second)).one(0)


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        (total([Estimate(1.0), Estimate(2.0, ESTIMATED)]), Estimate(3.0, ESTIMATED)),
        (total([Estimate(1.0, LOWER), Estimate(2.0, ESTIMATED)]), Estimate(3.0, LOWER)),
        (total([Estimate(1.0), UNKNOWN, Estimate(2.0)]), Estimate(3.0, LOWER)),
        (greatest([Estimate(1.0), UNKNOWN, Estimate(2.0)]), Estimate(2.0, LOWER)),
        (total([UNKNOWN, UNKNOWN]), UNKNOWN),
        (total([]), NOTHING),
        (greatest([]), NOTHING),
        (done(plus, Estimate(1.0), UNKNOWN), Estimate(1.0, LOWER)),
        (done(plus, UNKNOWN, Estimate(1.0)), Estimate(1.0, LOWER)),
        (done(plus, UNKNOWN, UNKNOWN), UNKNOWN),
        (done(times, NOTHING, UNKNOWN), NOTHING),  # a certain zero times anything is zero
        (done(times, NOTHING, Estimate(math.inf)), NOTHING),
        (done(times, Estimate(math.inf, LOWER), NOTHING), NOTHING),
        (done(times, Estimate(0.0, LOWER), UNKNOWN), UNKNOWN),
        (done(times, Estimate(0.0, LOWER), Estimate(math.inf)), Estimate(0.0, LOWER)),
        (done(times, Estimate(2.0), Estimate(3.0, ESTIMATED)), Estimate(6.0, ESTIMATED)),
        (done(times, Estimate(2.0), UNKNOWN), UNKNOWN),
        (done(times, Estimate(2.0), Estimate(math.inf)), Estimate(math.inf)),
        (less(array(Estimate(5.0)), np.array([2.0])).one(0), Estimate(3.0, ESTIMATED)),
        (less(array(Estimate(5.0, LOWER)), np.array([7.0])).one(0), Estimate(0.0, LOWER)),
        (less(array(Estimate(5.0)), np.array([0.0])).one(0), Estimate(5.0)),
        (less(array(UNKNOWN), np.array([1.0])).one(0), UNKNOWN),
    ],
)
def test_estimates_are_as_good_as_their_weakest_part(found, expected):
    assert found == expected


@pytest.mark.parametrize(
    ("estimate", "expected"),
    [
        (Estimate(2.5, ESTIMATED), {"value": 2.5, "basis": "estimated"}),
        (UNKNOWN, {"value": None, "basis": "unknown"}),
        (Estimate(math.inf, LOWER), {"value": None, "basis": "lower bound", "infinite": True}),
        (Estimate(math.nan), {"value": None, "basis": "unknown"}),
        (Estimate(-1.0), {"value": 0.0, "basis": "exact"}),
    ],
)
def test_json(estimate, expected):
    assert json.loads(json.dumps(estimate.to_json(), allow_nan=False)) == expected
