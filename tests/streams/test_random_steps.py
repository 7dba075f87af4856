"""Random steps over random records, nulls, NaN and infinities among them: the results are those of polars."""

from __future__ import annotations

import datetime as dt
import math
import random
from decimal import Decimal
from typing import Any

import polars as pl
import pyarrow as pa
import pytest

from ridgeline import Application
from ridgeline.testing import END_WINDOW, CollectorSink, ListInput, run_local
from support.depth import deep

SCHEMA = pa.schema(
    [
        pa.field("i", pa.int64()),
        pa.field("n", pa.int64(), nullable=False),
        pa.field("f", pa.float64()),
        pa.field("s", pa.string()),
        pa.field("b", pa.bool_()),
        pa.field("t", pa.timestamp("us", "UTC")),
        pa.field("l", pa.list_(pa.int64())),
        pa.field("d", pa.decimal128(12, 2)),
    ]
)
START = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
FLOATS = [0.0, -0.0, math.inf, -math.inf, 1.5, math.nan]
PREDICATES = [
    pl.col("n") > 0,
    pl.col("f") > 0.5,
    pl.col("s").str.contains("a"),
    pl.col("b"),
    pl.col("i").is_null(),
    pl.col("f").is_nan(),
    pl.col("l").list.len() > 1,
    pl.col("d") > 0,
    pl.col("t").dt.hour() > 12,
    (pl.col("n") > 1) | pl.col("b"),
    pl.col("i") == pl.col("n"),
    pl.col("s").is_in(["a", ""]),
]
COLUMNS = {
    "n": [pl.col("n") * 2 + 1],
    "x": [pl.col("i") + pl.col("n"), pl.struct("n", "s"), pl.concat_list("n", "i"), pl.lit("const")],
    "f": [pl.col("f") / pl.col("n"), pl.col("f").round(1)],
    "s": [pl.col("s") + "!", pl.col("s").str.to_uppercase()],
    "y": [pl.coalesce("i", "n"), pl.when(pl.col("b")).then(pl.col("n")).otherwise(pl.col("i"))],
    "l": [pl.col("l").list.reverse()],
    "d": [pl.col("d") * 2],
    "t": [pl.col("t") + pl.duration(hours=1)],
    "q": [pl.col("t").dt.date(), pl.col("t").dt.time(), pl.col("t").dt.convert_time_zone("Europe/Berlin")],
    "c": [pl.col("s").cast(pl.Categorical), pl.col("s").str.split("/"), pl.col("s").cast(pl.Binary)],
    "w": [pl.lit(None, dtype=pl.Int32), pl.col("n").cast(pl.Int8), pl.col("b").cast(pl.Int64)],
}


def record(chance: random.Random) -> dict[str, Any]:
    """A record; each column but one is null now and then."""
    values = {
        "i": chance.choice([0, 1, -1, 2**62, -(2**63), chance.randint(-9, 9)]),
        "f": chance.choice([*FLOATS, chance.random()]),
        "s": chance.choice(["", "a", "ä/b", "x" * 40, "12"]),
        "b": chance.random() < 0.5,
        "t": START + dt.timedelta(microseconds=chance.randint(0, 10**12)),
        "l": [chance.randint(0, 3) for _ in range(chance.randint(0, 3))],
        "d": Decimal(chance.randint(-(10**6), 10**6)) / 100,
    }
    nulls = {name: None if chance.random() < 0.2 else value for name, value in values.items()}
    return {**nulls, "n": chance.randint(-5, 5)}


def plain(value: Any) -> Any:
    """A value as it is compared: a NaN equals another one, 0.0 is not -0.0, zones do not matter."""
    if isinstance(value, float):
        return repr(value)
    if isinstance(value, dict):
        return {name: plain(one) for name, one in value.items()}
    if isinstance(value, list):
        return [plain(one) for one in value]
    if isinstance(value, dt.datetime):
        return value.astimezone(dt.UTC).isoformat()
    return str(value.normalize()) if isinstance(value, Decimal) else value


@pytest.mark.parametrize("seed", range(deep(8)))
def test_results_are_those_of_polars(seed: int) -> None:
    chance = random.Random(seed)
    records = [record(chance) for _ in range(chance.randint(0, 25))]
    items = [item for one in records for item in ([one, END_WINDOW] if chance.random() < 0.2 else [one])]
    frame: Any = pl.from_arrow(pa.Table.from_pylist(records, SCHEMA))
    frame = frame.lazy()
    app = Application("random")
    stream: Any = app.read("in", ListInput(SCHEMA, items))
    partitions = [1, 2, 3, 5][seed % 4]
    for number in range(chance.randint(1, 5)):
        kind, predicate = chance.random(), chance.choice(PREDICATES)
        if kind < 0.6:
            names = chance.sample(list(COLUMNS), chance.randint(1, 3))
            made = {name: chance.choice(COLUMNS[name]) for name in names}
            stream = stream.with_columns(f"step{number}", **made, partitions=partitions)
            frame = frame.with_columns(**made)
        else:
            if kind < 0.8:
                stream = stream.filter(f"step{number}", predicate, partitions=partitions)
            else:
                stream, _ = stream.split(f"step{number}", predicate, partitions=partitions)
            frame = frame.filter(predicate)
    stream.write("out", CollectorSink())
    expected = [[plain(value) for value in row] for row in frame.collect().rows()]
    found = [[plain(value) for value in row.values()] for row in run_local(app).collected("out")]
    assert sorted(map(repr, found)) == sorted(map(repr, expected))
