"""Tuples a CPU second of each step of the library: the figures of `docs/costs.md`.

    python -m benchmarks.costs            # all, as a table of Markdown; a minute
    python -m benchmarks.costs parse      # those with this in their name

Each step stands alone between a source that has its batches in memory and a sink that drops what it gets, in
the in-process runner, in one partition. The CPU time of the same application without the step is taken away.
CPU time counts, so a busy machine does little harm; the least of three runs is shown.
"""

from __future__ import annotations

import gc
import sys
import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from pydantic import BaseModel

from ridgeline import Application, InputOperator, InputPort, Operator, OutputPort, State, Stream
from ridgeline.operators import (
    TopN,
    absence,
    aggregate,
    hysteresis,
    rate,
    rolling,
    sequence,
    session,
    sliding,
    streak,
    tumbling,
)
from ridgeline.testing import run_local

ROWS, BATCHES, KEYS, RUNS = 20_000, 10, 1_000, 3
BEGIN = int(datetime(2026, 1, 1, tzinfo=UTC).timestamp() * 1_000_000)
EVENTS = pa.schema(
    [
        ("key", pa.string()),
        ("number", pa.int64()),
        ("value", pa.float64()),
        ("gap", pa.float64()),
        ("json", pa.string()),
        ("csv", pa.string()),
        ("pairs", pa.string()),
        ("log", pa.string()),
        ("time", pa.timestamp("us", "UTC")),
    ]
)


class Short(NamedTuple):
    """Three of the columns."""

    key: str
    number: int
    value: float


class Hit(NamedTuple):
    """A line of a log."""

    path: str
    status: int


class Checked(BaseModel):
    """As pydantic checks a tuple."""

    key: str
    number: int
    value: float


class Batches(InputOperator):
    """A batch a window, without the columns that the step does not need."""

    events = OutputPort(EVENTS, timestamp="time", lateness=0)
    held: list[Any]
    position = State(0)

    def emit_tuples(self) -> None:
        """Emit the next batch."""
        self.events.emit_batch(self.held[self.position])
        self.position += 1
        if self.position == len(self.held):
            self.finish()


class Drop(Operator):
    """Takes batches, and looks at none."""

    data = InputPort(Any, parallel=True)

    @data.process_batch
    def take(self, batch: pa.RecordBatch) -> None:
        """Take a batch."""


def batches() -> list[pa.RecordBatch]:
    """Records of 1,000 keys in the order of their times, a millisecond apart."""
    random, found = np.random.default_rng(7), []
    for number in range(BATCHES):
        keys = [f"key{key}" for key in random.integers(0, KEYS, ROWS).tolist()]
        numbers = random.integers(0, 1_000_000, ROWS).tolist()
        values = random.normal(100, 20, ROWS).round(3).tolist()
        rows = list(zip(keys, numbers, values, strict=True))
        columns = [
            keys,
            numbers,
            values,
            [None if at % 4 == 0 else value for at, value in enumerate(values)],
            [f'{{"key": "{key}", "number": {one}, "value": {value}}}' for key, one, value in rows],
            [f"{key},{one},{value}" for key, one, value in rows],
            [f"key={key} number={one} value={value}" for key, one, value in rows],
            [
                f'10.0.0.1 - - [10/Oct/2025:13:55:36 +0200] "GET /{key} HTTP/1.1" 200 {one}'
                for key, one, _ in rows
            ],
            BEGIN + 1_000 * np.arange(number * ROWS, (number + 1) * ROWS),
        ]
        arrays = [pa.array(column, field.type) for column, field in zip(columns, EVENTS, strict=True)]
        found.append(pa.RecordBatch.from_arrays(arrays, schema=EVENTS))
    return found


Step = Callable[[Stream[Any]], Any]


def _table(events: Stream[Any]) -> Any:
    return events.select("side", "key", other="number").table("table", "key")


def _parse(column: str, form: Any, schema: Any = Short, **options: Any) -> Step:
    return lambda s: s.parse("step", column, form, schema=schema, **options)


def _detect(pattern: Any) -> Step:
    return lambda s: s.group_by("key").detect("step", pattern)


def _format(form: Any, **options: Any) -> Step:
    return lambda s: s.format("step", form, columns=["key", "number", "value"], **options)


def _windowed(windows: Any) -> Step:
    values: dict[str, Any] = {"count": aggregate.count(), "sum": aggregate.sum("value")}
    return lambda s: s.group_by("key").window(windows).aggregate("step", **values)


STEPS: dict[str, dict[str, Step]] = {
    "Steps of a stream": {
        '`filter("number > 500000")`': lambda s: s.filter("step", "number > 500000"),
        "`with_columns`, two sums": lambda s: s.with_columns("step", a="number + 1", b="value * 2"),
        "`select`, three columns": lambda s: s.select("step", "key", "number", "value"),
        "`filter` with a Python function": lambda s: s.filter("step", lambda row: row["number"] > 500_000),
        "`map` with a Python function": lambda s: s.map(
            "step", lambda row: Short(row["key"], row["number"] + 1, row["value"]), Short
        ),
        "`flat_map` with a Python function": lambda s: s.flat_map(
            "step", lambda row: (Short(row["key"], row["number"], row["value"]),), Short
        ),
        "`split`, `branch` by a text": lambda s: s.split("step", "number > 500000")[0],
        "`rename`, `drop`": lambda s: s.rename("step", {"number": "count"}),
        "`cast`, one column": lambda s: s.cast("step", {"number": float}),
        "`transform`, a filter and a column": lambda s: s.transform("step", _half),
        "`union` with itself": lambda s: s.union("step", s),
        "`with_times`": lambda s: s.with_times("step", "time", lateness="1s"),
        "`enrich`, an `async def` function that waits for nothing": lambda s: s.enrich("step", _waits, Short),
        "`app.sql`, a filter": lambda s: s.app.sql(
            "step", "select key, number from s where value > 100", s=s
        ),
        "`app.sql`, a group": lambda s: s.app.sql(
            "step", "select key, sum(value) as v from s group by key", s=s
        ),
        "`sample(0.1)`": lambda s: s.sample("step", 0.1),
        "`limit_rate`": lambda s: s.limit_rate("step", 1e9),
        "`deduplicate`": lambda s: s.deduplicate("step", "number"),
        '`deduplicate(within="1m")`': lambda s: s.deduplicate("step", "key", within="1m"),
        "`top(10)`": lambda s: s.process("step", TopN(size=10, by="number")),
        "`sort_within`": lambda s: s.sort_within("step", key="key"),
    },
    "Windows, 1,000 keys": {
        "`aggregate` without a window": lambda s: s.group_by("key").aggregate("step", n=aggregate.count()),
        "tumbling, 1 min": _windowed(tumbling("1m")),
        "sliding, 1 min every 15 s": _windowed(sliding("1m", "15s")),
        "session, 2 s": _windowed(session("2s")),
        "rolling, 100 records": _windowed(rolling(count=100)),
    },
    "Joins, 1,000 keys": {
        "`join` with a table that changes as often": lambda s: s.join("step", _table(s), "key"),
        "`table` alone": lambda s: _table(s).changes,
        '`join_in_window(tumbling("1s"))` with itself': lambda s: s.join_in_window(
            "step", s.select("side", "key", "time", other="number"), "key", tumbling("1s")
        ),
        '`join_within("1s")` with itself': lambda s: s.join_within(
            "step", s.select("side", "key", "time", other="number"), "key", "1s"
        ),
        "`join_as_of` with itself": lambda s: s.join_as_of(
            "step", s.select("side", "key", "time", other="number"), "key"
        ),
    },
    "Parse": {
        "JSON": _parse("json", "json"),
        "CSV": _parse("csv", "csv"),
        "`key=value`": _parse("pairs", "key_value"),
        "lines of a web server's log": _parse("log", "common_log", schema=Hit),
        "regular expression": _parse(
            "pairs", "regex", pattern=r"key=(?P<key>\S+) number=(?P<number>\S+) value=(?P<value>\S+)"
        ),
    },
    "Format": {
        "JSON": _format("json"),
        "CSV": _format("csv"),
    },
    "Shaping": {
        "`validate` with pydantic": lambda s: s.select("three", "key", "number", "value").validate(
            "step", Checked
        ),
        "`fill_forward`": lambda s: s.fill_forward("step", "gap", key="key"),
    },
    "Patterns, 1,000 keys": {
        "`hysteresis`": _detect(hysteresis("value", above=130, below=70)),
        "`streak`, a text": _detect(streak("value > 130", 3)),
        '`absence("5s")`': _detect(absence("5s")),
        "`sequence`, two texts": _detect(sequence("value < 70", "value > 130", within="10s")),
        '`rate(20, within="10s")`': _detect(rate(20, within="10s")),
    },
    "Others": {
        "`predict` with a function of columns": lambda s: s.predict("step", _twice, ["value"]),
        "`predict` with a model of scikit-learn": lambda s: s.predict("step", _line(), ["value", "number"]),
        "`script`": lambda s: s.script("step", "def process(row):\n    return row\n"),
    },
}


def _half(frame: Any) -> Any:
    import polars as pl

    return frame.filter(pl.col("number") > 500_000).with_columns(half=pl.col("value") / 2)


async def _waits(row: dict[str, Any]) -> Short:
    return Short(row["key"], row["number"], row["value"])


def _line() -> Any:
    from sklearn.linear_model import LinearRegression

    random = np.random.default_rng(1)
    features = random.normal(size=(100, 2))
    return LinearRegression().fit(features, features.sum(axis=1))


def _twice(values: Any) -> Any:
    return values["value"] * 2 if hasattr(values, "columns") else np.asarray(values)[:, 0] * 2


def cpu_seconds(held: list[pa.RecordBatch], step: Step) -> float:
    """Of one run of an application with a step, or with what stands for none."""
    app = Application("costs", window=0)
    made = step(app.read("events", Batches(held=held)))
    made.write("drop", Drop())
    gc.collect()
    began = time.process_time()
    run_local(app)
    return time.process_time() - began


def _rate(seconds: float) -> str:
    """Tuples a second, with two digits."""
    found = ROWS * BATCHES / max(seconds, 1e-9)
    for unit, size in (("M", 1e6), ("k", 1e3)):
        if found >= size:
            return f"{float(f'{found / size:.2g}'):g} {unit}"
    return f"{found:.0f}"


def main(wanted: str) -> None:
    """Print the tables."""
    held = batches()
    bare = min(cpu_seconds(held, lambda stream: stream) for _ in range(RUNS))
    for title, steps in STEPS.items():
        chosen = {name: step for name, step in steps.items() if wanted in f"{title} {name}".lower()}
        if not chosen:
            continue
        sys.stdout.write(f"\n## {title}\n\n| step | tuples a CPU second |\n|---|---|\n")
        for name, step in chosen.items():
            try:
                seconds = min(cpu_seconds(held, step) for _ in range(RUNS)) - bare
                sys.stdout.write(f"| {name} | {_rate(seconds)} |\n")
            except Exception as error:  # noqa: BLE001  the others are measured
                sys.stdout.write(f"| {name} | failed: {error} |\n")
            sys.stdout.flush()


if __name__ == "__main__":
    main(sys.argv[1].lower() if len(sys.argv) > 1 else "")
