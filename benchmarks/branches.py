"""One source, a Python step, three branches and four sinks, beside four Structured Streaming queries.

A window is two files. Sinks write Parquet files, each window's as soon as it is committed. The queries cannot
share the step.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator, Mapping
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset
import pyarrow.parquet as pq

from benchmarks import spark
from benchmarks.data import NUMBERS, Number, write_parquet
from benchmarks.frame import OURS, WARM_UP, Benchmark, Figures, Goal, Round
from benchmarks.throughput import PARTITIONS, RATE, Totalled, Totals, check, rates_of_ours, slow_windows
from ridgeline import Application, InputPort, OutputPort
from ridgeline.operators import FileOutput, FileReplayInput, Filter, Map

FILES = 2
"""In a window."""
FILE_ROWS = 50_000
WINDOW_ROWS = FILES * FILE_ROWS
MEASURED = 30
SINKS = {"high": "high", "low": "low", "brief": "brief", "archive": "brief"}
"""Which branch each of the sinks takes."""
_LIMIT = 500
calls = 0
"""How often `score` was called in this process."""


class Scored(NamedTuple):
    """The step's result."""

    key: int
    value: int
    score: int


BRIEF = pa.schema([("key", pa.int64()), ("score", pa.int64())])


def score(key: int, value: int) -> int:
    """The step: a microsecond or two of plain Python."""
    global calls  # noqa: PLW0603  what it is for
    calls += 1
    found = key
    for digit in str(value * 7919):
        found = (found * 31 + ord(digit)) % 1009
    return found


def is_high(batch: pa.RecordBatch) -> pa.Array:
    """The first branch."""
    return pc.greater_equal(batch["score"], _LIMIT)


def is_low(batch: pa.RecordBatch) -> pa.Array:
    """The second branch."""
    return pc.less(batch["score"], _LIMIT)


def brief(batch: pa.RecordBatch) -> pa.RecordBatch:
    """The third branch."""
    return batch.select(BRIEF.names)


class Score(Totalled):
    """The shared step; counts its calls."""

    numbers = InputPort(Number)
    scored = OutputPort(Scored)

    def begin_window(self, window_id: int) -> None:
        """Remember where the calls stand."""
        self.before = calls

    @numbers.process
    def add_score(self, number: Number) -> None:
        """Take the step."""
        self.scored.emit(Scored(number.key, number.value, score(number.key, number.value)))

    def end_window(self) -> None:
        """Say how often it was taken."""
        self.context.hand_over({"calls": calls - self.before})


def ours(of_round: Round) -> Figures:
    """One application: the step has two partitions, and what is behind it runs where it does."""
    app = Application("branches", window=0)
    files = app.add_operator(
        "files",
        FileReplayInput(path=of_round.data, schema=Number, format="parquet", rows_per_window=WINDOW_ROWS),
    )
    step = app.add_operator("step", Score(), partitions=PARTITIONS)
    branches = {
        "high": app.add_operator("high", Filter(batch_predicate=is_high), partition_parallel=True),
        "low": app.add_operator("low", Filter(batch_predicate=is_low), partition_parallel=True),
        "brief": app.add_operator("brief", Map(schema=BRIEF, batch_function=brief), partition_parallel=True),
    }
    app.add_stream("numbers", files.output, step.numbers)
    app.add_stream("scored", step.scored, *(branch.data for branch in branches.values()))
    for branch, operator in branches.items():
        sinks = [
            app.add_operator(
                f"{name}-files",
                FileOutput(path=of_round.folder / name, roll_seconds=0.0),
                partition_parallel=True,
            )
            for name, taken in SINKS.items()
            if taken == branch
        ]
        app.add_stream(branch, operator.output, *(sink.input for sink in sinks))
    windows = of_round.windows(MEASURED)
    figures = rates_of_ours(of_round, app, windows, lambda _window: WINDOW_ROWS)
    check("calls of the shared step", Totals.found, {"calls": windows * WINDOW_ROWS})
    of_round.note(
        f"the shared step was called {Totals.found['calls']:,} times for {windows * WINDOW_ROWS:,} tuples"
    )
    _check_sinks(of_round, windows)
    return figures


def four_queries(of_round: Round) -> Figures:
    """Four queries, each with the step in `mapInArrow`, a branch and a sink, sharing the slots fairly."""
    session = spark.session(
        "branches", {"spark.scheduler.mode": "FAIR", "spark.sql.streaming.metricsEnabled": "true"}
    )
    windows, warm_up = slow_windows(of_round)
    source = of_round.folder / "source"
    source.mkdir()
    for number in range(windows * FILES):
        os.link(of_round.data / "000000.parquet", source / f"{number:06d}.parquet")
    queries = []
    for name, branch in SINKS.items():
        session.sparkContext.setLocalProperty("spark.scheduler.pool", name)
        numbers = (
            session.readStream.schema("key long, value long")
            .option("maxFilesPerTrigger", FILES)
            .parquet(str(source))
        )
        frame = _branch(numbers.mapInArrow(_scored, "key long, value long, score long"), branch)
        writer = frame.writeStream.format("parquet").option(
            "checkpointLocation", str(of_round.folder / f"{name}-checkpoint")
        )
        queries.append(writer.option("path", str(of_round.folder / name)).trigger(availableNow=True).start())
    for query in queries:
        query.awaitTermination()
    progress = [query.recentProgress for query in queries]
    began = min(_times(of_query[warm_up])[0] for of_query in progress)
    ended = max(_times(of_query[windows - 1])[1] for of_query in progress)
    _check_sinks(of_round, windows)
    return {RATE: [(windows - warm_up) * WINDOW_ROWS / (ended - began).total_seconds()]}


def _branch(scored: Any, branch: str) -> Any:
    if branch == "brief":
        return scored.select("key", "score")
    return scored.where(f"score {'>=' if branch == 'high' else '<'} {_LIMIT}")


def _scored(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        scores = [
            score(key, value)
            for key, value in zip(batch["key"].to_pylist(), batch["value"].to_pylist(), strict=True)
        ]
        yield batch.append_column("score", pa.array(scores, pa.int64()))


def _times(progress: Mapping[str, Any]) -> tuple[datetime, datetime]:
    """When a micro-batch began and ended."""
    began = datetime.fromisoformat(progress["timestamp"])
    return began, began + timedelta(milliseconds=progress["batchDuration"])


def _check_sinks(of_round: Round, windows: int) -> None:
    """Raises ValueError if a sink has not got what it must: so many rows, with that sum of their scores."""
    numbers = pq.read_table(of_round.data / "000000.parquet", columns=NUMBERS.names)
    scores = [
        score(key, value)
        for key, value in zip(numbers["key"].to_pylist(), numbers["value"].to_pylist(), strict=True)
    ]
    high = [value for value in scores if value >= _LIMIT]
    low = [value for value in scores if value < _LIMIT]
    for sink, branch in SINKS.items():
        (expected,) = [
            part for name, part in (("high", high), ("low", low), ("brief", scores)) if name == branch
        ]
        times = windows * FILES
        check(
            f"rows of sink `{sink}`",
            _sums(of_round.folder / sink),
            {"rows": len(expected) * times, "score": sum(expected) * times},
        )


def _sums(folder: Path) -> Counter[str]:
    found: Counter[str] = Counter()
    for batch in pyarrow.dataset.dataset(folder, format="parquet").to_batches(columns=["score"]):
        found.update({"rows": batch.num_rows, "score": pc.sum(batch["score"]).as_py() or 0})
    return found


def _prepare(of_round: Round) -> None:
    write_parquet(of_round.data, (WARM_UP + MEASURED + 2) * FILES, FILE_ROWS)


BENCHMARKS = [
    Benchmark(
        name="branches",
        title=f"one source, 3 branches, 4 sinks, one Python step shared, {WINDOW_ROWS:,} tuples a window",
        contestants={OURS: ours, "four queries": four_queries},
        goals=[Goal(figure=RATE, against="four queries", at_least=2.5)],
        prepare=_prepare,
    )
]
