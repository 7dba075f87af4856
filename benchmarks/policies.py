"""A policy beside fixed plans and DS2's arithmetic: a count of Zipf-distributed words under changing load.

A tuple costs a wait of a millisecond, not a processor: two cores would decide otherwise. All begin with one
partition and get the same words at the same times; ages are read when a window is published. The best fixed
plan is found by search: each plan runs the whole trace.
"""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from benchmarks.frame import OURS, Benchmark, Figures, Goal, Round
from ridgeline import Application, InputOperator, InputPort, KeyedState, Operator, OutputPort, State
from ridgeline.api.publisher import Publisher
from ridgeline.plan.edits import Repartition
from ridgeline.policies import ApplicationFigures, CriticalPathPolicy, Decision, Policy

STEPS = (200, 1_400, 500)
"""Words a second in each third of the trace."""
COST_SECONDS = 0.001
P50, P99, RATE, CHANGES = "p50 age seconds", "p99 age seconds", "words/s", "changes"
_WORDS = np.random.default_rng(7).zipf(1.3, 20_000) % 10_000
_MOST_IN_A_WINDOW = 400  # back pressure: the rest comes later


class Word(NamedTuple):
    word: int
    created: float


def due(seconds: float, of_all: float) -> int:
    """How many words have come so long after the start."""
    third = of_all / len(STEPS)
    return int(sum(rate * min(max(seconds - n * third, 0.0), third) for n, rate in enumerate(STEPS)))


def came(number: int, of_all: float) -> float:
    """When a word came, in seconds after the start."""
    third = of_all / len(STEPS)
    for n, rate in enumerate(STEPS):
        if number < rate * third:
            return n * third + number / rate
        number -= int(rate * third)
    return of_all


class Words(InputOperator):
    """The trace, by the clock; what the window does not take comes with the next."""

    output = OutputPort(Word)
    seconds: float
    began = State(0.0)
    count = State(0)

    def emit_tuples(self) -> None:
        now = time.time()
        self.began = self.began or now
        end = min(due(now - self.began, self.seconds), self.count + _MOST_IN_A_WINDOW)
        for number in range(self.count, end):
            word = int(_WORDS[number % len(_WORDS)])
            self.output.emit(Word(word, self.began + came(number, self.seconds)))
        self.count = end


class Count(Operator):
    words = InputPort(Word, key="word")
    output = OutputPort(Word)
    counts = KeyedState(int, default=0)

    @words.process
    def add(self, word: Word) -> None:
        time.sleep(COST_SECONDS)
        self.counts[word.word] = self.counts.get(word.word, 0) + 1
        self.output.emit(word)


class Show(Operator):
    words = InputPort(Word)

    @words.process
    def take(self, word: Word) -> None:
        self.context.hand_over(word.created)

    def publisher(self) -> Reader:
        return Reader()


class Reader(Publisher):
    """Ages of words when readers may see them. One process runs one application at a time."""

    groups_windows = True
    ages: list[float]

    def __init__(self) -> None:
        self._staged: list[Any] = []

    def stage(self, window_id: int, values: Sequence[Any]) -> None:
        self._staged += values

    def publish(self, window_id: int) -> None:
        staged, self._staged = self._staged, []
        now = time.time()
        Reader.ages += [now - created for created in staged]


class DS2(Policy):
    """DS2: the partitions that take what arrives at the true rate of one, and nothing else.

    It is told the rate of the trace: what a source emits under back pressure is less than what arrives.
    """

    seconds: float
    every: float = 5.0
    _next: float = 0.0
    _began: float = 0.0

    def decide(self, figures: ApplicationFigures) -> Decision | None:
        """As `Three steps is all you need` has it: from true rates and the sources' rate, in one pass."""
        if figures.at < self._next or figures.windows < 5:
            return None
        self._next = figures.at + self.every
        self._began = self._began or figures.at
        passed = figures.at - self._began
        arriving = due(passed + 1, self.seconds) - due(passed, self.seconds)
        count = figures.operators["count"]
        rates = [one.true_rate for one in count.by_partition if one.true_rate]
        if not rates:
            return None
        wanted = min(max(math.ceil(arriving / float(np.mean(rates))), 1), 4)
        if wanted == count.partitions:
            return None
        return Decision((Repartition("count", wanted),), f"count: {count.partitions} -> {wanted} partitions")


def seconds(of_round: Round) -> float:
    """How long the trace lasts."""
    return 45.0 if of_round.quick else 600.0


def _run(of_round: Round, name: str, partitions: int, policy: Policy | None) -> dict[str, float]:
    lasts = seconds(of_round)
    Reader.ages = []
    app = Application("policies", window="100ms")
    words = app.add_operator("words", Words(seconds=lasts))
    count = app.add_operator("count", Count(), partitions=partitions)
    show = app.add_operator("show", Show())
    app.add_stream("words", words.output, count.words)
    app.add_stream("counted", count.output, show.words)
    if policy is not None:
        app.add_policy(policy)
    with app.start("local[6]", checkpoint=str(of_round.folder / name), quiet=True) as handle:
        begin = time.monotonic()
        while time.monotonic() - begin < lasts and handle.state == "RUNNING":
            time.sleep(0.1)
        ages = np.array(Reader.ages)
        rows = handle.decisions().to_pylist()
    for row in rows:
        of_round.note(f"{name}: {row['note']}; {row['state']}; {row['found'] or row['expected']}")
    p50, p99 = np.percentile(ages, [50, 99])
    changes = sum(row["state"] not in {"ASKED", "REFUSED"} for row in rows)
    found = {P50: float(p50), P99: float(p99), RATE: len(ages) / lasts, CHANGES: float(changes)}
    of_round.note(f"{name}: {', '.join(f'{what} {figure:.3g}' for what, figure in found.items())}")
    return found


def _as_figures(found: dict[str, float]) -> Figures:
    return {name: [value] for name, value in found.items()}


def ours(of_round: Round) -> Figures:
    rest = 4.0 if of_round.quick else 10.0
    return _as_figures(_run(of_round, "policy", 1, CriticalPathPolicy(max_slots=4, cooldown=rest)))


def ds2(of_round: Round) -> Figures:
    rest = 4.0 if of_round.quick else 10.0
    return _as_figures(_run(of_round, "DS2", 1, DS2(seconds=seconds(of_round), every=rest)))


def best_fixed(of_round: Round) -> Figures:
    """The plan of the lowest p99 age among all that there are."""
    found = [_run(of_round, f"fixed {number}", number, None) for number in (1, 2, 3, 4)]
    return _as_figures(min(found, key=lambda one: one[P99]))


BENCHMARKS = (
    Benchmark(
        name="policies",
        title="policies: a count of Zipf-distributed words under changing load",
        contestants={OURS: ours, "DS2": ds2, "best fixed plan": best_fixed},
        goals=[
            Goal(figure=RATE, against="best fixed plan", at_least=0.85),
            Goal(figure=P50, against="best fixed plan", at_most=1.15),
            Goal(figure=P99, against="DS2", at_most=1.0),
            Goal(figure=CHANGES, at_most=3.0 * (len(STEPS) - 1)),
        ],
        rounds=1,
        budget_seconds=4_200,
        part_of_all=False,
    ),
)
