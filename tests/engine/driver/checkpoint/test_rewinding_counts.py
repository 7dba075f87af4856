"""What counts windows counts them after a rewind as if there had been none: as one straight run does."""

from __future__ import annotations

import shutil
from operator import add
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from ridgeline import Application, InputPort, KeyedState, ListState, Operator, OutputPort, State, Unifier
from ridgeline.operators import ConsolidatorKeyVal, RangeKeyVal, SimpleMovingAverage, SumKeyVal, TopN
from ridgeline.testing import END_WINDOW, CollectorSink, ListInput, LocalRun, run_local
from support.depth import DEPTH

WINDOWS = 17
STOPPED = 11
"""So many windows have run before the run is rewound."""
TOLD: list[tuple[int, dict[int, int]]] = []
"""What `told` has noted: a window that is committed, and the keys that were changed by then."""


class Pair(NamedTuple):
    key: int
    value: int


class Average(NamedTuple):
    key: int
    value: float


class Range(NamedTuple):
    key: int
    high: int
    low: int


def pairs_of(window: int) -> list[Pair]:
    """What comes in a window; nothing in some."""
    if window % 5 == 3:
        return []
    return [Pair((window + place * place) % 4, 10 * (7 * window % WINDOWS) + place) for place in range(3)]


class Merged(Operator):
    """Has states of each kind that merge, if it slides, or that last for an application window."""

    pairs = InputPort(Pair, key="key")
    found = OutputPort(Pair)
    sums = KeyedState(int, key=int, default=0, scope="window", merge=add)
    most = State(-1, scope="window", merge=max)
    values = ListState(int, scope="window")

    @pairs.process
    def take(self, pair: Pair) -> None:
        self.sums[pair.key] += pair.value
        self.most = max(self.most, pair.value)
        self.values.append(pair.value)

    def end_window(self) -> None:
        for key, value in self.sums.items():
            self.found.emit(Pair(key, value))
        for value in self.values:
            self.found.emit(Pair(-1, value))
        assert self.most == max(self.values, default=-1)


class TotalUnifier(Unifier):
    """Works at the borders of application windows."""

    input = InputPort(Pair)
    output = OutputPort(Pair)

    def begin_window(self, window_id: int) -> None:
        self.total = 0

    @input.process
    def take(self, pair: Pair) -> None:
        self.total += pair.value

    def end_window(self) -> None:
        self.output.emit(Pair(0, self.total))


class Passed(Operator):
    """Passes tuples on as they come: its unifier waits for the end of the application window."""

    pairs = InputPort(Pair)
    found = OutputPort(Pair, unifier=TotalUnifier)

    @pairs.process
    def take(self, pair: Pair) -> None:
        self.found.emit(pair)


class Told(Operator):
    """Notes after each commit which keys its application window has changed by then."""

    pairs = InputPort(Pair, key="key")
    newest = KeyedState(int, key=int)

    @pairs.process
    def take(self, pair: Pair) -> None:
        self.newest[pair.key] = pair.value

    def committed(self, window_id: int) -> None:
        TOLD.append((window_id, dict(self.newest.changed())))


def application(count: int, slide: int | None, partitions: int) -> Application:
    """All operators have application windows of `count`; those that can slide do so by `slide`."""
    app = Application("counted", window="1s", windows_kept=100, snapshot_interval=3)
    items = [item for window in range(WINDOWS) for item in (*pairs_of(window), END_WINDOW)][:-1]
    source = app.add_operator("source", ListInput(Pair, items))
    lasting: dict[str, Any] = {"partitions": partitions, "application_window_count": count}
    sliding = {**lasting, "slide_by_window_count": slide}
    lossy = {"processing_mode": "AT_MOST_ONCE"}
    made: dict[str, tuple[Operator, str, str, dict[str, Any], type[Any]]] = {
        "sums": (SumKeyVal(), "data", "sum", sliding, Pair),
        "tops": (TopN(size=2, by="value"), "data", "top", sliding, Pair),
        "ranges": (RangeKeyVal(schema=Range), "data", "range", sliding, Range),
        "merged": (Merged(), "pairs", "found", sliding, Pair),
        "totals": (SumKeyVal(cumulative=True), "data", "sum", lasting, Pair),
        "averages": (SimpleMovingAverage(schema=Average, window_size=2), "data", "average", lasting, Average),
        "newest": (ConsolidatorKeyVal(schema=Pair), "in1", "out", lasting, Pair),
        "passed": (Passed(), "pairs", "found", {**lasting, **lossy}, Pair),
    }
    inputs = [app.add_operator("told", Told(), application_window_count=count).pairs]
    for name, (operator, taken, emitted, attributes, row) in made.items():
        one = app.add_operator(name, operator, **attributes)
        mode = lossy if name == "passed" else {}
        sink = app.add_operator(f"{name}_sink", CollectorSink(row), **mode)
        inputs.append(getattr(one, taken))
        app.add_stream(name, getattr(one, emitted), sink.input)
    app.add_stream("source", source.output, *inputs)
    return app


def results(run: LocalRun) -> list[dict[str, list[Any]]]:
    """What each operator has put out, window by window, its rows in order."""
    sinks = [one.name for one in run.plan.logical.operators if one.name.endswith("_sink")]
    return [{name: sorted(run.collected(name, window)) for name in sinks} for window in run.window_ids]


QUICK = [(4, 2, 2), (3, None, 1)]
SLOW = [(1, None, 3), (2, 1, 1), (3, None, 2), (4, 2, 3), (5, 1, 2), (6, 3, 1), (6, 2, 3)]
"""Each width, and each number of partitions with and without a slide."""


@pytest.mark.parametrize(
    ("count", "slide", "partitions"),
    [*QUICK, *(pytest.param(*one, marks=pytest.mark.slow) for one in SLOW)],
)
def test_results_after_a_rewind_to_any_window_are_those_of_one_straight_run(
    tmp_path: Path, count: int, slide: int | None, partitions: int
) -> None:
    app = application(count, slide, partitions)
    TOLD.clear()
    wanted = results(run_local(app))
    told = dict(TOLD)
    assert len(wanted) == WINDOWS
    assert all(any(window[name] for window in wanted) for name in wanted[0])
    run_local(app, checkpoint=tmp_path / "before", windows=STOPPED)
    step = 1 if (count, slide, partitions) in SLOW or DEPTH > 1 else count - 1
    for target in range(0, STOPPED, step):  # at each place in an application window
        folder = tmp_path / f"to {target}"
        shutil.copytree(tmp_path / "before", folder)
        TOLD.clear()
        again = run_local(app, checkpoint=folder, from_window=target)
        assert results(again) == wanted[target + 1 :]
        left_out = again.window_ids[0] - target - 1
        seen = {window - left_out: keys for window, keys in TOLD}
        assert seen == {window: told[window] for window in range(target, WINDOWS)}
