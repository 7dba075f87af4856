"""A NaN among numbers: what aggregates make of it, against polars and pandas, as docs/values.md says."""

from __future__ import annotations

import math
import warnings
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

import pandas as pd
import polars as pl
import pytest

from ridgeline import Application
from ridgeline.operators import aggregate as agg
from ridgeline.operators import rolling, tumbling
from ridgeline.testing import END_WINDOW, CollectorSink, ListInput, run_local

START = datetime(2026, 1, 1, tzinfo=UTC)
NAN = math.nan


class Number(NamedTuple):
    key: str
    x: float
    y: float
    time: datetime


GROUPS = {
    "mixed": [NAN, 1.0, -2.5, NAN, 3.0, 3.0],
    "first": [NAN, 5.0, 7.0],
    "last": [5.0, 7.0, NAN],
    "middle": [5.0, NAN, 7.0, 9.0],
    "only": [NAN, NAN],
    "single": [NAN],
    "none": [0.0, -0.0, 4.0],
    "endless": [math.inf, NAN, -math.inf],
}
NUMBERS = [
    Number(key, x, float(place), START + timedelta(seconds=place))
    for key, values in GROUPS.items()
    for place, x in enumerate(values)
]
AS_POLARS = {
    "count": (agg.count("x"), pl.col("x").count()),
    "sum": (agg.sum("x"), pl.col("x").sum()),
    "mean": (agg.mean("x"), pl.col("x").mean()),
    "variance": (agg.variance("x"), pl.col("x").var()),
    "stddev": (agg.stddev("x", ddof=0), pl.col("x").std(ddof=0)),
    "min": (agg.min("x"), pl.col("x").min()),
    "max": (agg.max("x"), pl.col("x").max()),
    "first": (agg.first("x"), pl.col("x").first()),
    "last": (agg.last("x"), pl.col("x").last()),
    "unique": (agg.count_unique("x"), pl.col("x").n_unique()),
    "sketched": (agg.count_unique("x", exact=False), pl.col("x").n_unique()),
    "list": (agg.collect_list("x"), pl.col("x")),
    "set": (agg.collect_set("x"), pl.col("x").unique().sort()),
}
AS_PANDAS: dict[str, tuple[Any, Any]] = {
    "min": (agg.min("x"), pd.Series.min),
    "max": (agg.max("x"), pd.Series.max),
    "median": (agg.median("x"), pd.Series.median),
    "quantile": (agg.quantile("x", 0.8), lambda x: x.quantile(0.8)),
    "sketched": (agg.quantile("x", 0.0, exact=False), lambda x: x.quantile(0.0, "lower")),
}
"""Pandas takes a NaN for a value that is missing."""


def same(found: Any, wanted: Any) -> bool:
    """True for equal values; all NaN are equal, sums within the last digits."""
    if isinstance(wanted, list):
        return len(found) == len(wanted) and all(map(same, found, wanted))
    if found is None or wanted is None:
        return found is wanted
    return (math.isnan(found) and math.isnan(wanted)) or found == pytest.approx(wanted)


def results(values: dict[str, Any], way: str) -> dict[str, dict[str, Any]]:
    """The last result of each group, by group."""
    apart = [item for number in NUMBERS for item in (number, END_WINDOW)]
    app = Application("numbers", window="1s")
    source = app.read("numbers", ListInput(Number, apart, "time", lateness="1h")).group_by("key")
    windows = {"tumbling": tumbling("1h"), "rolling": rolling("1h")}
    steps = source.window(windows[way]) if way in windows else source
    steps.aggregate("figures", **values, partitions=2).write("sink", CollectorSink())
    return {row["key"]: row for row in run_local(app).collected("sink")}


@pytest.mark.parametrize("way", ["tumbling", "rolling", "running"])
def test_aggregates_take_a_nan_as_polars_does(way: str) -> None:
    found = results({name: ours for name, (ours, _) in AS_POLARS.items()}, way)
    frame = pl.DataFrame(NUMBERS, list(Number._fields), orient="row")
    wanted = frame.group_by("key").agg(**{name: theirs for name, (_, theirs) in AS_POLARS.items()})
    for row in wanted.iter_rows(named=True):
        for name in AS_POLARS:
            assert same(found[row["key"]][name], row[name]), (
                row["key"],
                name,
                found[row["key"]][name],
                row[name],
            )


@pytest.mark.parametrize("way", ["tumbling", "rolling", "running"])
def test_quantiles_and_extremes_pass_over_a_nan_as_pandas_does(way: str) -> None:
    found = results({name: ours for name, (ours, _) in AS_PANDAS.items()}, way)
    for key, values in GROUPS.items():
        for name, (_, theirs) in AS_PANDAS.items():
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # of a mean of nothing
                wanted = theirs(pd.Series(values))
            assert same(found[key][name], wanted), (key, name, found[key][name], wanted)


@pytest.mark.parametrize("smallest", [False, True])
def test_a_nan_is_last_among_the_largest_and_the_smallest(*, smallest: bool) -> None:
    read = Application("top").read("numbers", ListInput(Number, NUMBERS))
    (*_, last) = (
        read.group_by("key")
        .top("top", 6, by="x", smallest=smallest)
        .filter("mixed", "key = 'mixed'")
        .collect()[-6:]
    )
    assert math.isnan(last["x"])
