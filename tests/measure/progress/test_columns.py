"""The progress of many operators at once is that of one after the other, over random plans and events."""

import json
import math

from hypothesis import given, settings
from hypothesis import strategies as st

from ridgeline.measure.events import (
    ContainerHeartbeat,
    OperatorWindow,
    RunningOperator,
    SourceProgress,
    WindowCommitted,
    WindowPlanned,
    WindowStarted,
)
from ridgeline.measure.progress.fold import ProgressFold
from support.depth import deep
from support.measure.partitioned import Plan

ALL_AT_ONCE, ONE_BY_ONE = 0, 1_000_000
WIDTH = 1.0


@st.composite
def plans(draw):
    plan, names = Plan(), []
    for number in range(draw(st.integers(2, 5))):
        sources = draw(st.lists(st.sampled_from(names), max_size=2, unique=True)) if names else []
        kind = "operator" if sources else "input"
        plan.operator(
            f"o{number}",
            draw(st.sampled_from([1, 2, 3])),
            [(source, draw(st.booleans())) for source in sources],
            kind,
        )
        names.append(f"o{number}")
    return plan.topology


counts = st.integers(-1, 40)
amounts = st.floats(0, 50) | st.sampled_from([-1.0, 0.0, math.inf, math.nan])
by_port = st.dictionaries(st.sampled_from(["in", "in0", "in1"]), counts, max_size=2)
produced = st.dictionaries(st.sampled_from(["out", "out", "errors"]), counts, max_size=2)


@st.composite
def reports(draw, number):
    """What an operator says of itself in a heartbeat, sound or not."""
    return RunningOperator(
        number,
        draw(st.sampled_from(["waiting", "running", "running", "done"])),
        draw(st.floats(0, 5)),
        draw(by_port),
        draw(by_port),
        draw(st.integers(0, 3)),
        draw(produced),
        draw(produced),
        draw(st.dictionaries(st.sampled_from(["out", "errors"]), amounts, max_size=2)),
        draw(st.none() | st.tuples(st.floats(0, 90), st.none() | st.floats(-1, 90))),
        draw(st.dictionaries(st.just("out"), st.floats(1e9, 2e9) | st.just(math.inf), max_size=1)),
        draw(st.none() | st.floats(0, 6)),
        draw(st.none() | st.floats(0, 90)),
    )


@st.composite
def stories(draw):
    """A plan, and what happens: calls of the fold, each followed by a question."""
    topology = draw(plans())
    said, at = [], 100.0
    for window in range(draw(st.integers(1, 4))):
        said.append(("window_planned", WindowPlanned(at, window, 0, at)))
        for attempt in range(draw(st.sampled_from([1, 1, 1, 2]))):
            said.append(("window_started", WindowStarted(at, window, attempt)))
            for _ in range(draw(st.integers(0, 5))):
                at += draw(st.floats(0.01, 2.0))
                container = draw(st.sampled_from(list(topology.containers)))
                running = [draw(reports(one)) for one in topology.containers[container]]
                beat = ContainerHeartbeat(at, container, "h", container, at, window, attempt, 0.0, running)
                said.append(("heartbeat", beat))
        ended = [draw(ends(node, window, at)) for node in topology.operators if draw(st.integers(0, 9))]
        if ended:
            said.append(("operators_ended", ended))
        for node in topology.operators:
            if node.kind == "input" and draw(st.booleans()):
                consumed, left = draw(st.floats(0, 90)), draw(st.none() | st.floats(-1, 90))
                said.append(("source", SourceProgress(at, window, node.id, consumed, left)))
        at += 0.1
        if draw(st.integers(0, 5)):
            times = [at] * 7
            said.append(("window_committed", WindowCommitted(at, window, 1, *times)))
    return topology, said


came = st.dictionaries(st.sampled_from(["in", "in0", "in1"]), st.integers(0, 40), max_size=2)
sent = st.dictionaries(st.sampled_from(["out", "errors"]), st.integers(0, 40), max_size=2)


@st.composite
def ends(draw, node, window, at):
    seconds, inputs = draw(st.floats(0, 3)), draw(came)
    times = at, at, seconds, 0.0, 0.0
    event = OperatorWindow(at, window, 0, node.id, node.container, "h", *times, inputs, draw(sent))
    event.end_seconds = draw(st.floats(0, seconds))
    return event


def same(one, other, path=""):
    """Equal but for the rounding of sums in another order."""
    if isinstance(one, dict):
        assert list(one) == list(other), path
        for name in one:
            same(one[name], other[name], f"{path}.{name}")
    elif isinstance(one, list):
        assert len(one) == len(other), path
        for number, (first, second) in enumerate(zip(one, other, strict=True)):
            same(first, second, f"{path}[{number}]")
    elif isinstance(one, float) and isinstance(other, float | int):
        assert math.isclose(one, other, rel_tol=1e-7, abs_tol=1e-7), (path, one, other)
    else:
        assert one == other, path


def figures(value):
    """All numbers in an answer, but for times of records."""
    if isinstance(value, dict):
        for name, item in value.items():
            yield from figures(item) if name != "oldestInFlight" else ()
    elif isinstance(value, list):
        for item in value:
            yield from figures(item)
    elif isinstance(value, (int, float)):
        yield value


@settings(deadline=None, max_examples=deep(10))
@given(stories())
def test_all_at_once_says_what_one_by_one_says(story):
    topology, said = story
    folds = [ProgressFold(WIDTH, few=few) for few in (ALL_AT_ONCE, ONE_BY_ONE)]
    for fold in folds:
        fold.planned(topology)
    for name, event in said:
        for fold in folds:
            getattr(fold, name)(event)
        at = event[0].at if isinstance(event, list) else event.at
        one, other = (fold.progress(at + 0.25) for fold in folds)
        same(one, other, name)
        assert all(0 <= number < math.inf for number in figures(json.loads(json.dumps(one, allow_nan=False))))
