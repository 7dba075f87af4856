"""Loops by delay operators, in process: the right numbers, whatever is killed or started anew."""

from collections.abc import Sequence
from random import Random
from typing import NamedTuple

import numpy as np
import pytest

from ridgeline import Application, InputPort, KeyedState, Operator, OutputPort
from ridgeline.api.errors import ContainerAbortError
from ridgeline.engine.files.storage import MemoryStorage
from ridgeline.measure.events import WindowRetried
from ridgeline.operators import Delay
from ridgeline.plan import plan_application
from ridgeline.plan.show.notes import find_notes
from ridgeline.testing import END_WINDOW, CollectorSink, ListInput, LocalRun, run_local
from support.depth import deep

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
