"""A count of words at saturation: `python -m benchmarks.apps.skewed_keys JOB FILE`.

`JOB` is JSON of a `Job`. What came of it is written to `FILE`. A tuple costs a wait, not a processor. So the
partition with the most tuples says how long a window takes, and several applications can run side by side.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from ridgeline import (
    Application,
    InputOperator,
    InputPort,
    KeyedState,
    Operator,
    OperatorContext,
    OutputPort,
    State,
    Unifier,
)
from ridgeline.api.publisher import Publisher
from ridgeline.policies import SkewPolicy

KEYS, DRAWN = 1_000_000, 2_000_000
PARTITIONS = 4
SLOTS = 10
_LEAST_SLEEP = 0.002


@dataclass(frozen=True)
class Job:
    """A contestant. `keys`: "uniform", "hot 0.3" or "zipf 1.3". `size`: tuples a window; `cost`: seconds."""

    keys: str
    seconds: float
    size: int = 1_000
    cost: float = 0.0004
    cooldown: float = 5.0


def draw(keys: str) -> npt.NDArray[np.int64]:
    """The keys of the trace, which begins anew after the last of them."""
    random, (kind, _, exponent) = np.random.default_rng(7), keys.partition(" ")
    if kind == "zipf":
        shares = np.arange(1, KEYS + 1) ** -float(exponent)
        return random.choice(KEYS, DRAWN, p=shares / shares.sum()).astype(np.int64)
    found = random.integers(0, KEYS, DRAWN)
    if kind == "hot":
        found[random.random(DRAWN) < float(exponent)] = 0
    return found


class Word(NamedTuple):
    word: int
    count: int


class Words(InputOperator):
    """As many tuples in each window, however long it takes."""

    output = OutputPort(Word)
    keys: str
    size: int
    count = State(0)
    _words: list[int]

    def setup(self, context: OperatorContext) -> None:
        self._words = draw(self.keys).tolist()

    def emit_tuples(self) -> None:
        for number in range(self.count, self.count + self.size):
            self.output.emit(Word(self._words[number % DRAWN], 1))
        self.count += self.size


class Sum(Unifier):
    """Adds up what several partitions have counted of a word."""

    input = InputPort(Word, key="word")
    output = OutputPort(Word)
    counts = KeyedState(int, scope="window")

    @input.process
    def add(self, word: Word) -> None:
        self.counts[word.word] = self.counts.get(word.word, 0) + word.count

    def end_window(self) -> None:
        for word, count in self.counts.items():
            self.output.emit(Word(word, count))


class Count(Operator):
    """Counts the words of each window, and takes its time for each tuple."""

    words = InputPort(Word, key="word")
    output = OutputPort(Word, unifier=Sum)
    cost: float
    counts = KeyedState(int, scope="window")
    _owed: float = 0.0

    @words.process
    def take(self, word: Word) -> None:
        self.counts[word.word] = self.counts.get(word.word, 0) + word.count
        self._owed += self.cost
        if self._owed >= _LEAST_SLEEP:
            began = time.monotonic()
            time.sleep(self._owed)
            self._owed -= time.monotonic() - began

    def end_window(self) -> None:
        for word, count in self.counts.items():
            self.output.emit(Word(word, count))


class Show(Operator):
    words = InputPort(Word)
    total = State(0, scope="window")

    @words.process
    def take(self, word: Word) -> None:
        self.total += word.count
        self.context.hand_over([word.word, word.count])

    def publisher(self) -> Reader:
        return Reader()


class Reader(Publisher):
    """The counts that readers see, and when they have seen how many tuples. For one application a process."""

    groups_windows = True
    counts = np.zeros(KEYS, np.int64)
    twice = 0
    """Words that came more than once in a window: not merged."""
    seen: list[tuple[float, int]]

    def __init__(self) -> None:
        self._staged: list[Any] = []

    def stage(self, window_id: int, values: Sequence[Any]) -> None:
        words, counts = np.array(values, np.int64).reshape(-1, 2).T
        Reader.twice += len(words) - len(np.unique(words))
        self._staged.append((words, counts))

    def publish(self, window_id: int) -> None:
        staged, self._staged = self._staged, []
        for words, counts in staged:
            np.add.at(Reader.counts, words, counts)
            Reader.seen.append((time.time(), int(counts.sum())))


def application(job: Job) -> Application:
    """Words, counted by four partitions, divided as by default at first."""
    app = Application("skewed", window="20ms")
    words = app.add_operator("words", Words(keys=job.keys, size=job.size))
    count = app.add_operator("count", Count(cost=job.cost), partitions=PARTITIONS)
    show = app.add_operator("show", Show())
    app.add_stream("words", words.output, count.words)
    app.add_stream("counts", count.output, show.words)
    app.add_policy(SkewPolicy(cooldown=job.cooldown, ratio=1.1, patience=60))
    return app


def run(job: Job) -> dict[str, Any]:
    """Run it; how many tuples were seen when, the decisions, whether the counts are those of the trace."""
    Reader.seen = []
    with tempfile.TemporaryDirectory() as folder:
        checkpoint = str(Path(folder, "checkpoint"))
        with application(job).start(f"local[{SLOTS}]", checkpoint=checkpoint, quiet=True) as handle:
            while not Reader.seen:
                if handle.state != "RUNNING":
                    handle.wait(10)  # raises why
                time.sleep(0.05)
            began = Reader.seen[0][0]
            while time.time() - began < job.seconds and handle.state == "RUNNING":
                time.sleep(0.1)
            state = handle.state
            decisions = handle.decisions().to_pylist()
    times, sizes = np.array(Reader.seen).T
    total, words = int(sizes.sum()), draw(job.keys)
    expected = np.bincount(words, minlength=KEYS) * (total // DRAWN)
    expected += np.bincount(words[: total % DRAWN], minlength=KEYS)
    return {
        "job": asdict(job),
        "state": str(state),
        "exact": bool((Reader.counts == expected).all()) and not Reader.twice,
        "total": total,
        "times": (times - began).round(4).tolist(),
        "sizes": sizes.astype(int).tolist(),
        "decisions": [
            {"seconds": row["at"].timestamp() - began}
            | {name: row[name] for name in ("state", "note", "expected", "found")}
            for row in decisions
        ],
    }


if __name__ == "__main__":
    Path(sys.argv[2]).write_text(json.dumps(run(Job(**json.loads(sys.argv[1])))), encoding="utf-8")
