"""Loops by delay operators, in process: the right numbers, whatever is killed or started anew."""

from collections.abc import Sequence
from random import Random
from typing import NamedTuple

import numpy as np
import pytest

from ridgeline import Application, InputPort, KeyedState, ListState, Operator, OutputPort, State
from ridgeline.api.errors import ContainerAbortError
from ridgeline.engine.files.storage import MemoryStorage
from ridgeline.measure.events import SlotJoined, WindowRetried
from ridgeline.operators import Delay, Map
from ridgeline.plan import plan_application
from ridgeline.plan.show.notes import find_notes
from ridgeline.testing import END_WINDOW, CollectorSink, ListInput, LocalRun, run_local
from support.depth import deep
from support.engine.slot_platform import kill, run_in_processes

Faults = Sequence[tuple[int, int]]
"""Windows and attempts at them."""


class Pair(NamedTuple):
    last: int
    next: int


class Fails(Operator):
    """Dies with its container, or raises, in these attempts at windows."""

    faults: Faults = ()

    def begin_window(self, window_id: int) -> None:
        if (window_id, self.context.attempt) in self.faults:
            if window_id % 2:
                raise ContainerAbortError(self.context.name)
            raise ValueError(f"in attempt {self.context.attempt}")


class Step(Fails):
    """One more number of Fibonacci, up to a limit."""

    pairs = InputPort(Pair)
    steps = OutputPort(Pair)
    limit: int = 1000

    @pairs.process
    def step(self, pair: Pair) -> None:
        if pair.next < self.limit:
            self.steps.emit(Pair(pair.next, pair.last + pair.next))


def fibonacci(
    faults: Faults = (), limit: int = 1000, locality: str | None = None, **attributes
) -> Application:
    app = Application("fibonacci", window="100ms", **attributes)
    step = app.add_operator("step", Step(limit=limit, faults=list(faults)))
    delay = app.add_module("delay", Delay(Pair, first_window=[Pair(0, 1)]))
    sink = app.add_operator("sink", CollectorSink(Pair))
    app.add_stream("again", delay.output, step.pairs, locality=locality)
    app.add_stream("steps", step.steps, delay.input, sink.input, locality=locality)
    return app


class Number(NamedTuple):
    value: int


class Page(NamedTuple):
    name: str
    links: str


class Increase(NamedTuple):
    page: str
    amount: float


class Ranks(Fails):
    """Page ranks: increases are passed on along links until they are small."""

    pages = InputPort(Page, key="name")
    increases = InputPort(Increase, key="page")
    passed_on = OutputPort(Increase)
    ranks = OutputPort(Increase)
    links = KeyedState(str, key=str)
    rank = KeyedState(float, key=str, default=0.0)
    kept_back = KeyedState(float, key=str, default=0.0)
    tolerance: float = 1e-3

    @pages.process
    def add_page(self, page: Page) -> None:
        self.links[page.name] = page.links
        self.kept_back[page.name] += 0.15

    @increases.process
    def add(self, increase: Increase) -> None:
        self.kept_back[increase.page] += increase.amount

    def end_window(self) -> None:
        for page, increase in self.kept_back.changed():
            targets = self.links.get(page)
            if targets is None or increase < self.tolerance:
                continue
            self.kept_back[page] = 0.0
            self.rank[page] += increase
            self.ranks.emit(Increase(page, self.rank[page]))
            for target in targets:
                self.passed_on.emit(Increase(target, 0.85 * increase / len(targets)))


def pages(seed: int) -> list:
    """Six pages, each with links to others, in three windows."""
    random = Random(seed)
    found: list = []
    for name in "abcdef":
        found.append(Page(name, "".join(random.sample("abcdef", random.randint(1, 4)))))
        if name in "bd":
            found.append(END_WINDOW)
    return found


def page_rank(
    given: list, partitions: int, delays: int, faults: Faults = (), tolerance: float = 1e-3
) -> Application:
    app = Application("page_rank", window="100ms", snapshot_interval=3)
    source = app.add_operator("source", ListInput(Page, given))
    ranks = app.add_operator("ranks", Ranks(faults=list(faults), tolerance=tolerance), partitions=partitions)
    delay = app.add_module("delay", Delay(Increase), partitions=delays)
    sink = app.add_operator("sink", CollectorSink(Increase))
    app.add_stream("pages", source.output, ranks.pages)
    app.add_stream("passed_on", ranks.passed_on, delay.input)
    app.add_stream("increases", delay.output, ranks.increases)
    app.add_stream("ranks", ranks.ranks, sink.input)
    return app


def expected_ranks(given: list) -> dict[str, float]:
    """The solution of the linear equations."""
    found = [one for one in given if one is not END_WINDOW]
    names = [page.name for page in found]
    share = np.zeros((6, 6))
    for column, page in enumerate(found):
        for target in page.links:
            share[names.index(target), column] = 0.85 / len(page.links)
    return dict(zip(names, np.linalg.solve(np.eye(6) - share, np.full(6, 0.15)), strict=True))


def last_ranks(*runs: LocalRun) -> dict[str, float]:
    return {one.page: one.amount for run in runs for one in run.collected("sink")}


class Weight(NamedTuple):
    slope: float


class Point(NamedTuple):
    x: float
    y: float


class Descend(Fails):
    """Fits a line through the origin: each turn takes one step along the gradient."""

    points = InputPort(Point)
    weights = InputPort(Weight)
    steps = OutputPort(Weight)
    seen = ListState()
    slope = State(0.0)

    @points.process
    def add(self, point: Point) -> None:
        self.seen.append(point)

    @weights.process
    def descend(self, weight: Weight) -> None:
        gradient = sum((weight.slope * x - y) * x for x, y in self.seen) / len(self.seen)
        self.slope = weight.slope - 0.1 * gradient
        if abs(gradient) > 1e-9:
            self.steps.emit(Weight(self.slope))


@pytest.mark.parametrize("interleave", [None, 1])
def test_a_loop_runs_until_nothing_is_left_in_it(interleave):
    run = run_local(fibonacci(windows_in_flight=4), interleave=interleave)
    assert [pair.last for pair in run.collected("sink")] == [
        1, 1, 2, 3, 5, 8, 13, 21, 34, 55, 89, 144, 233, 377, 610, 987,
    ]  # fmt: skip
    assert [run.collected("sink", window)[0].last for window in (0, 1, 7)] == [1, 1, 21]
    assert run.window_ids[-1] == 16, "one more window: it leaves nothing in the delay"


def test_an_endless_loop_ends_after_the_windows_that_were_asked_for():
    run = run_local(fibonacci(limit=10**30), windows=60)
    assert run.windows_committed == 60
    assert run.collected("sink")[-1].last == 1548008755920


@pytest.mark.parametrize("seed", range(deep(3)))
def test_kills_and_restarts_change_no_number_of_a_loop(seed):
    random = Random(seed)
    windows = random.sample(range(17), 6)
    faults = [(window, attempt) for window in windows for attempt in range(random.randint(1, 2))]
    storage = MemoryStorage()
    runs, ended = [], False
    while not ended:
        some = run_local(
            fibonacci(faults),
            checkpoint=storage,
            windows=random.randint(1, 9),
            interleave=random.choice([None, seed]),
        )
        runs.append(some)
        ended = bool(some.window_ids) and some.window_ids[-1] >= 16
    found = [pair.last for run in runs for pair in run.collected("sink")]
    assert found == [pair.last for pair in run_local(fibonacci()).collected("sink")]
    retries = [event for run in runs for event in run.events if isinstance(event, WindowRetried)]
    assert len(retries) >= len(faults)
    again = run_local(fibonacci(), checkpoint=storage)
    assert again.collected("sink") == []


@pytest.mark.parametrize("seed", [1, 2, *range(3, 1 + deep(2))])
def test_page_ranks_are_those_of_the_equations(seed):
    random = Random(seed)
    given = pages(seed)
    partitions, delays = 1 + seed % 3, 1 + (seed // 2) % 3
    faults = [(window, 0) for window in random.sample(range(15), 4)]
    storage = MemoryStorage()
    before = run_local(
        page_rank(given, partitions, delays, faults), checkpoint=storage, windows=random.randint(1, 12)
    )
    after = run_local(
        page_rank(given, partitions, delays, faults), checkpoint=storage, interleave=random.choice([None, 7])
    )
    assert last_ranks(before, after) == pytest.approx(expected_ranks(given), abs=0.05)
    assert before.retries or after.retries


def test_gradient_descent_gives_the_least_squares():
    points = [Point(1.0, 2.1), Point(2.0, 3.9), END_WINDOW, Point(3.0, 6.2)]
    app = Application("fit", window="100ms")
    source = app.add_operator("source", ListInput(Point, points))
    descend = app.add_operator("descend", Descend(faults=[(2, 0), (5, 0), (8, 0), (9, 0)]))
    delay = app.add_module("delay", Delay(Weight, first_window=[Weight(0.0)]))
    sink = app.add_operator("sink", CollectorSink(Weight))
    app.add_stream("points", source.output, descend.points)
    app.add_stream("weights", delay.output, descend.weights)
    app.add_stream("steps", descend.steps, delay.input, sink.input)
    run = run_local(app)
    assert run.collected("sink")[-1].slope == pytest.approx((2.1 + 7.8 + 18.6) / 14)
    assert len(run.retries) == 4


def test_two_delays_in_a_loop_take_two_windows_and_any_value_goes_through():
    app = Application("twice", window="100ms")
    step = app.add_operator("step", Map(_grown, schema=object))
    first = app.add_module("first", Delay(object))
    second = app.add_module("second", Delay(object, first_window=[{"level": (1,)}]))
    sink = app.add_operator("sink", CollectorSink(object))
    app.add_stream("steps", step.output, first.input, sink.input)
    app.add_stream("on", first.output, second.input)
    app.add_stream("back", second.output, step.data)
    run = run_local(app, windows=5)
    assert [run.collected("sink", window) for window in range(5)] == [
        [{"level": (1, 1)}],
        [],
        [{"level": (1, 1, 1)}],
        [],
        [{"level": (1, 1, 1, 1)}],
    ]


def _grown(one: object) -> object:
    assert isinstance(one, dict)
    return {"level": (*one["level"], 1)}


class Doubled(Operator):
    """Adds what comes in an application window; a sum below 100 goes round again, doubled."""

    numbers = InputPort(Number)
    again = InputPort(Number)
    sums = OutputPort(Number)
    back = OutputPort(Number)
    sum = State(0)

    @numbers.process
    def number(self, number: Number) -> None:
        self.sum += number.value

    @again.process
    def once_more(self, number: Number) -> None:
        self.sum += 2 * number.value

    def end_window(self) -> None:
        if self.sum:
            self.sums.emit(Number(self.sum))
            if self.sum < 100:
                self.back.emit(Number(self.sum))
            self.sum = 0


@pytest.mark.parametrize("count", [1, 2, 3])
def test_a_loop_goes_on_while_application_windows_in_it_are_open(count):
    app = Application("sums", window="100ms")
    source = app.add_operator("source", ListInput(Number, [(1,), END_WINDOW, (2,)]))
    doubled = app.add_operator("doubled", Doubled(), application_window_count=count)
    delay = app.add_module("delay", Delay(Number))
    sink = app.add_operator("sink", CollectorSink(Number), application_window_count=5)
    app.add_stream("numbers", source.output, doubled.numbers)
    app.add_stream("again", delay.output, doubled.again)
    app.add_stream("back", doubled.back, delay.input)
    app.add_stream("sums", doubled.sums, sink.input)
    found = [number.value for number in run_local(app).collected("sink")]
    assert found == ([1, 4, 8, 16, 32, 64, 128] if count == 1 else [3, 6, 12, 24, 48, 96, 192])


def test_large_runs_of_tuples_go_round_whole():
    app = Application("large", window="100ms")
    step = app.add_operator("step", Map(_longer, schema=Text))
    delay = app.add_module("delay", Delay(Text, first_window=[Text("x" * 1000)] * 50), partitions=2)
    sink = app.add_operator("sink", CollectorSink(Text))
    app.add_stream("longer", step.output, delay.input, sink.input)
    app.add_stream("again", delay.output, step.data)
    storage = MemoryStorage()
    run_local(app, windows=3, checkpoint=storage)
    run = run_local(app, windows=3, checkpoint=storage)
    assert [len(one.text) for one in run.collected("sink", 5)] == [1000 + 6 * 20] * 50


class Text(NamedTuple):
    text: str


def _longer(one: Text) -> Text:
    return Text(one.text + "y" * 20)


def test_a_delay_outside_of_a_loop_only_shifts_and_the_plan_says_so():
    app = Application("shift", window="100ms")
    source = app.add_operator("source", ListInput(Pair, [(1, 2), END_WINDOW, (3, 4)]))
    delay = app.add_module("delay", Delay(Pair))
    sink = app.add_operator("sink", CollectorSink(Pair))
    app.add_stream("pairs", source.output, delay.input)
    app.add_stream("later", delay.output, sink.input)
    run = run_local(app)
    assert [run.collected("sink", window) for window in range(4)] == [[], [Pair(1, 2)], [Pair(3, 4)], []]
    plan = plan_application(app)
    assert [str(note) for note in find_notes(plan.logical, plan.physical)] == [
        "`delay`: it is in no loop: its stream comes one window later, nothing else",
        "`delay`: the application runs one window at a time, whatever `windows_in_flight` says",
    ]


@pytest.mark.parametrize("locality", ["THREAD_LOCAL", "NODE_LOCAL"])
def test_localities_of_the_streams_of_a_loop_change_no_number(locality):
    run = run_local(fibonacci(locality=locality))
    assert run.collected("sink")[-1].last == 987


def test_a_loop_has_latencies_a_critical_path_and_no_backlog():
    run = run_local(page_rank(pages(0), 2, 2, tolerance=0.05))
    path = run.critical_path().to_pylist()
    assert {"source", "delay.head[0]", "delay.head[1]"} >= {path[0]["operator"]}
    assert {row["name"] for row in run.latency().to_pylist()} >= {"delay.head", "delay.tail", "ranks"}
    progress = run.watch.progress()
    assert {source["verdict"] for source in progress["sources"]} == {"keeping up"}
    assert progress["application"]["verdict"] == "keeping up"


def test_killed_slots_change_no_rank(tmp_path):
    killed: list[int] = []

    def each(found, event):
        slots = {joined.slot: joined.pid for joined in found.of_type(SlotJoined)}
        due = len(killed) < 2 and event.window_id >= (2, 8)[len(killed)]
        if due and slots[len(killed)] not in killed:
            killed.append(slots[len(killed)])
            kill(killed[-1])

    given = pages(3)
    app = page_rank(given, 3, 2, tolerance=0.01)
    run = run_in_processes(app, folder=tmp_path / "checkpoint", places=2, each=each, window="0s")
    assert killed
    assert last_ranks(run) == pytest.approx(last_ranks(run_local(page_rank(given, 1, 1, tolerance=0.01))))
