"""Applications under a load that changes: `python -m benchmarks.apps.changing_load JOB FILE`.

`JOB` is JSON of a `Job`. What came of it is written to `FILE`. A tuple costs a wait, not a processor: with
two of these, processors would decide otherwise. So many contestants can run side by side.
"""

from __future__ import annotations

import json
import math
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ridgeline import Application, InputOperator, InputPort, KeyedState, Operator, OutputPort, State
from ridgeline.api.publisher import Publisher
from ridgeline.plan.edits import Repartition
from ridgeline.policies import ApplicationFigures, CriticalPathPolicy, Decision, Policy, SkewPolicy

SLOTS = 20
_WORDS = np.random.default_rng(7).zipf(1.3, 20_000) % 10_000
_MOST_IN_A_WINDOW = 2.0
"""Back pressure: a window takes so many times what comes in its width at most; the rest follows later."""
_LEAST_SLEEP = 0.002


@dataclass(frozen=True)
class Job:
    """A contestant: an example, its partitions at the beginning, and who decides: "", "policies" or "ds2"."""

    example: str
    partitions: Mapping[str, int] = field(default_factory=dict)
    decides: str = ""
    rates: Sequence[float] = ()
    step_seconds: float = 10.0
    most: int = 4
    cooldown: float = 5.0

    @property
    def seconds(self) -> float:
        """How long the trace lasts."""
        return len(self.rates) * self.step_seconds

    def due(self, seconds: float) -> int:
        """How many tuples have come so long after the start."""
        step = self.step_seconds
        return int(
            sum(rate * min(max(seconds - n * step, 0.0), step) for n, rate in enumerate(self.rates)) + 1e-6
        )


class Word(NamedTuple):
    word: int
    created: float


class Words(InputOperator):
    """The trace, by the clock; what the window does not take comes with the next."""

    progress_unit = "records"
    output = OutputPort(Word)
    rates: list[float]
    step_seconds: float
    began = State(0.0)
    count = State(0)
    step = State(0)
    _due: int = 0

    def emit_tuples(self) -> None:
        now = time.time()
        self.began = self.began or now
        job = Job("", rates=self.rates, step_seconds=self.step_seconds)
        width = _MOST_IN_A_WINDOW * self.context.window_seconds
        self._due = job.due(now - self.began)
        most = max(self._due - job.due(now - self.began - width), int(self.rates[0] * width))
        end = min(self._due, self.count + most)
        for number in range(self.count, end):
            before, step = job.due(self.step * self.step_seconds), self.step
            while step + 1 < len(self.rates) and number >= job.due((step + 1) * self.step_seconds):
                step += 1
                before = job.due(step * self.step_seconds)
            self.step = step
            came = step * self.step_seconds + (number - before) / self.rates[step]
            self.output.emit(Word(int(_WORDS[number % len(_WORDS)]), self.began + came))
        self.count = end

    def progress(self) -> tuple[float, float]:
        """What was taken, and what waits."""
        return float(self.count), float(self._due - self.count)


class Waiting(Operator):
    """Takes its time for each tuple, and passes it on."""

    words = InputPort(Word, key="word")
    output = OutputPort(Word)
    cost: float
    _owed: float = 0.0

    @words.process
    def take(self, word: Word) -> None:
        self._owed += self.cost
        if self._owed >= _LEAST_SLEEP:
            began = time.monotonic()
            time.sleep(self._owed)
            self._owed -= time.monotonic() - began
        self.output.emit(word)


class Count(Waiting):
    """Counts words besides."""

    counts = KeyedState(int, default=0)

    @Waiting.words.process
    def take(self, word: Word) -> None:
        super().take(word)
        self.counts[word.word] += 1


class Show(Operator):
    words = InputPort(Word)

    @words.process
    def take(self, word: Word) -> None:
        self.context.hand_over(word.created)

    def publisher(self) -> Reader:
        return Reader()


class Reader(Publisher):
    """When words came, and when readers may see them. One process runs one application."""

    groups_windows = True
    seen: list[tuple[float, float]]

    def __init__(self) -> None:
        self._staged: list[Any] = []

    def stage(self, window_id: int, values: Sequence[Any]) -> None:
        self._staged += values

    def publish(self, window_id: int) -> None:
        staged, self._staged = self._staged, []
        now = time.time()
        Reader.seen += [(created, now) for created in staged]


class DS2(Policy):
    """DS2: the partitions that take what arrives at the true rate of one, and nothing else.

    It is told the rate of the trace: what a source emits under back pressure is less than what arrives.
    As `Three steps is all you need` has it: from true rates and the sources' rate, in one pass.
    """

    rates: list[float]
    step_seconds: float
    most: int
    every: float = 5.0
    _next: float = 0.0
    _began: float = 0.0

    def decide(self, figures: ApplicationFigures) -> Decision | None:
        """One pass from the source on: what each gets, divided by the true rate of one partition."""
        self._began = self._began or figures.at
        if figures.at < self._next or figures.windows < 5:
            return None
        self._next = figures.at + self.every
        step = min(int((figures.at - self._began) / self.step_seconds), len(self.rates) - 1)
        edits, parts = [], []
        for name, one in figures.operators.items():
            rates = [part.true_rate for part in one.by_partition if part.true_rate]
            if one.is_input or one.is_output or not rates:
                continue
            wanted = min(max(math.ceil(self.rates[step] / float(np.mean(rates))), 1), self.most)
            if wanted != one.partitions:
                edits.append(Repartition(name, wanted))
                parts.append(f"{name} {one.partitions} -> {wanted}")
        return Decision(tuple(edits), f"{', '.join(parts)} partitions") if edits else None


COSTS = {
    "words": {"count": 0.001},
    "article": {"B": 0.00025, "C": 0.005, "D": 0.0015, "E": 0.001, "F": 0.0001},
}
"""Seconds a tuple. Of the article: B to F take 5, 100, 30, 20 and 2 ms for 20 tuples, 0.2 s at 100/s."""


def application(job: Job) -> Application:
    """The count of words, or the article's: A to B and C, B to D, C to E and F."""
    app = Application(job.example, window="200ms" if job.example == "article" else "100ms")
    words = Words(rates=list(job.rates), step_seconds=job.step_seconds)
    if job.example == "words":
        source = app.add_operator("words", words)
        edges = [("words", "count"), ("count", "show")]
        made: dict[str, Any] = {"words": source}
        made["count"] = app.add_operator(
            "count", Count(cost=COSTS["words"]["count"]), partitions=job.partitions.get("count", 1)
        )
        sinks = ["show"]
    else:
        made = {"A": app.add_operator("A", words)}
        for name, cost in COSTS["article"].items():
            made[name] = app.add_operator(name, Waiting(cost=cost), partitions=job.partitions.get(name, 1))
        edges = [("A", "B"), ("A", "C"), ("B", "D"), ("C", "E"), ("C", "F")]
        sinks = [f"show_{name}" for name in "DEF"]
        edges += [(name, f"show_{name}") for name in "DEF"]
    for name in sinks:
        made[name] = app.add_operator(name, Show())
    for name, operator in made.items():
        if behind := [made[sink].words for source, sink in edges if source == name]:
            app.add_stream(f"of_{name}", operator.output, *behind)
    if job.decides == "policies":
        app.add_policy(SkewPolicy(cooldown=job.cooldown))
        app.add_policy(CriticalPathPolicy(max_slots=job.most, cooldown=job.cooldown))
    elif job.decides == "ds2":
        app.add_policy(
            DS2(rates=list(job.rates), step_seconds=job.step_seconds, most=job.most, every=job.cooldown)
        )
    return app


def run(job: Job) -> dict[str, Any]:
    """Run the trace; the tuples that were seen, as arrays, and the decisions."""
    Reader.seen = []
    with tempfile.TemporaryDirectory() as folder:
        checkpoint = str(Path(folder, "checkpoint"))
        with application(job).start(f"local[{SLOTS}]", checkpoint=checkpoint, quiet=True) as handle:
            while not Reader.seen:
                if handle.state != "RUNNING":
                    handle.wait(10)  # raises why
                time.sleep(0.05)
            began = min(created for created, _ in Reader.seen)
            while time.time() - began < job.seconds and handle.state == "RUNNING":
                time.sleep(0.1)
            seen = list(Reader.seen)
            decisions = handle.decisions().to_pylist()
            state = handle.state
    created, shown = np.array(seen).T
    inside = created - began < job.seconds
    return {
        "job": asdict(job),
        "began": began,
        "state": str(state),
        "created": (created[inside] - began).round(4).tolist(),
        "ages": (shown - created)[inside].round(4).tolist(),
        "decisions": [
            {"seconds": row["at"].timestamp() - began}
            | {name: row[name] for name in ("state", "note", "expected", "found")}
            for row in decisions
        ],
    }


if __name__ == "__main__":
    Path(sys.argv[2]).write_text(json.dumps(run(Job(**json.loads(sys.argv[1])))), encoding="utf-8")
