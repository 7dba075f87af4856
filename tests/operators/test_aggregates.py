"""All aggregates against polars, pandas or plain loops: in tumbling, session and rolling windows."""

from __future__ import annotations

import math
import statistics
from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime, time, timedelta
from decimal import Decimal
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ridgeline import Application
from ridgeline.operators import aggregate as agg
from ridgeline.operators import rolling, session, tumbling
from ridgeline.operators.aggregate.exact import TABLE
from ridgeline.testing import ABORT, END_WINDOW, CollectorSink, ListInput, run_local
from support.depth import deep

START = datetime(2026, 1, 1, tzinfo=UTC)


class Trade(NamedTuple):
    symbol: str
    price: float | None
    size: int | None
    venue: str | None
    time: datetime


def joined(one: str, other: str) -> str:
    return f"{one}{other}"


def longest(so_far: int, venue: str) -> int:
    return max(so_far, len(venue))


VALUES = {
    "variance": agg.variance("price"),
    "spread": agg.variance("size", ddof=0),
    "stddev": agg.stddev("price"),
    "unique": agg.count_unique("price"),
    "venues": agg.count_unique("venue"),
    "median": agg.median("price"),
    "quantiles": agg.quantiles("size", [0.0, 0.25, 1.0]),
    "top": agg.top("venue", 2),
    "mode": agg.mode("size"),
    "dearest": agg.max_by("venue", "price"),
    "smallest": agg.min_by("price", "size"),
    "list": agg.collect_list("venue"),
    "set": agg.collect_set("venue"),
    "joined": agg.reduce("venue", joined),
    "longest": agg.reduce("venue", longest, 0, merge=max),
}


def fractions(values: list[Any]) -> list[Fraction]:
    return [Fraction(value) for value in values]


def spread_of(values: list[Any], ddof: int) -> Fraction | None:
    if len(values) <= ddof:
        return None
    exact = fractions(values)
    mean = sum(exact, Fraction(0)) / len(exact)
    return sum(((value - mean) ** 2 for value in exact), Fraction(0)) / (len(exact) - ddof)


def expected(own: list[Trade]) -> dict[str, Any]:
    """Of the trades of a window, in the order of their times."""
    prices = [one.price for one in own if one.price is not None]
    sizes = [one.size for one in own if one.size is not None]
    venues = [one.venue for one in own if one.venue is not None]
    found: dict[str, Any] = dict.fromkeys(VALUES)
    for name, values, ddof in (("variance", prices, 1), ("spread", sizes, 0)):
        spread = spread_of(values, ddof)
        found[name] = None if spread is None else float(spread)
    found["stddev"] = None if found["variance"] is None else statistics.stdev(fractions(prices))
    found["unique"], found["venues"] = len(set(prices)), len(set(venues))
    if prices:
        found["median"] = float(np.quantile(prices, 0.5))
    if sizes:
        ordered = sorted(sizes)
        found["quantiles"] = np.quantile(ordered, [0.0, 0.25, 1.0]).tolist()
        most = max(Counter(sizes).values())
        found["mode"] = min(value for value, count in Counter(sizes).items() if count == most)
    dear = [one for one in own if None not in (one.price, one.venue)]
    found["dearest"] = max(dear, key=lambda one: one.price).venue if dear else None
    small = [one for one in own if None not in (one.price, one.size)]
    found["smallest"] = min(small, key=lambda one: one.size).price if small else None
    counts = sorted(Counter(venues).items(), key=lambda one: (-one[1], one[0]))
    found["top"] = [{"value": value, "count": count} for value, count in counts[:2]]
    found["list"], found["set"] = venues, sorted(set(venues))
    found["joined"] = "".join(venues) if venues else None
    found["longest"] = max(map(len, venues), default=0)
    return found


def application(
    items: list[Any], how: Any, lateness: float, partitions: int, values: Any = None
) -> Application:
    app = Application("trades", window="1s")
    trades = app.read("trades", ListInput(Trade, items, "time", lateness=lateness)).group_by("symbol")
    figures = trades.window(how).aggregate("figures", partitions=partitions, **(values or VALUES))
    figures.write("sink", CollectorSink())
    return app


def close(found: Any, wanted: Any) -> bool:
    """Equal; floats to 14 digits, as the oracle may round twice."""
    if isinstance(wanted, float) and isinstance(found, float):
        return (math.isnan(wanted) and math.isnan(found)) or found == pytest.approx(
            wanted, rel=1e-14, abs=1e-300
        )
    return bool(found == wanted)


def check(rows: list[dict[str, Any]], windows: list[tuple[str, list[Trade]]]) -> None:
    """`windows`: the key and the trades of each, in the order of keys, starts and ends."""
    rows = sorted(rows, key=lambda row: (row["symbol"], row["window_start"], row["window_end"]))
    assert [row["symbol"] for row in rows] == [symbol for symbol, _ in windows]
    for row, (_, own) in zip(rows, windows, strict=True):
        for name, wanted in expected(own).items():
            assert close(row[name], wanted), (name, row[name], wanted, own)


@st.composite
def streams(draw: st.DrawFn) -> tuple[list[list[Trade]], float]:
    """Windows of trades and the lateness that their order takes; no two of a symbol have the same time."""
    count = draw(st.integers(1, 30))
    seconds = draw(
        st.lists(
            st.integers(0, draw(st.sampled_from([40, 200]))), min_size=count, max_size=count, unique=True
        )
    )
    if draw(st.booleans()):
        seconds.sort()
    prices = st.none() | st.sampled_from([0.0, -0.0, 1.5, -2.0, 0.1, 1e16, 1e-9, 3.0, 4.0])
    trades = [
        Trade(
            draw(st.sampled_from("ab")),
            draw(prices),
            draw(st.none() | st.integers(-5, 5) | st.integers(-(2**40), 2**40)),
            draw(st.none() | st.sampled_from(["x", "yy", "zzz"])),
            START + timedelta(seconds=second),
        )
        for second in seconds
    ]
    lateness = max(max(seconds[: place + 1]) - second for place, second in enumerate(seconds))
    cuts = sorted(draw(st.lists(st.integers(0, count), max_size=6)))
    return [trades[a:b] for a, b in zip([0, *cuts], [*cuts, count], strict=True)], float(lateness)


def by_minute(trades: list[Trade]) -> list[tuple[Any, list[Trade]]]:
    found: dict[Any, list[Trade]] = {}
    for one in trades:
        found.setdefault((one.symbol, one.time.replace(second=0)), []).append(one)
    return sorted(found.items(), key=lambda one: one[0])


def by_session(trades: list[Trade]) -> list[tuple[Any, list[Trade]]]:
    found: list[tuple[Any, list[Trade]]] = []
    for one in sorted(trades, key=lambda one: (one.symbol, one.time)):
        same = found and found[-1][0][0] == one.symbol
        if same and one.time - found[-1][1][-1].time < timedelta(seconds=10):
            found[-1][1].append(one)
        else:
            found.append(((one.symbol,), [one]))
    return found


def by_record(trades: list[Trade], size: int | None) -> list[tuple[Any, list[Trade]]]:
    found = []
    for symbol in sorted({one.symbol for one in trades}):
        own = [one for one in trades if one.symbol == symbol]
        for place, one in enumerate(own):
            before = own[: place + 1]
            span = timedelta(seconds=30)
            members = before[-size:] if size else [old for old in before if old.time > one.time - span]
            found.append(((symbol,), members))
    return found


HOW: dict[str, tuple[Any, Callable[[list[Trade]], Any]]] = {
    "tumbling": (tumbling("1m"), by_minute),
    "session": (session("10s"), by_session),
    "rolling": (rolling("30s"), lambda trades: by_record(trades, None)),
    "rolling_by_count": (rolling(count=4), lambda trades: by_record(trades, 4)),
}


@pytest.mark.parametrize("how", HOW)
def test_aggregates_equal_those_of_plain_loops(how: str) -> None:
    windows_of, members_of = HOW[how]

    @settings(deadline=None, max_examples=deep(10), suppress_health_check=[HealthCheck.too_slow])
    @given(streams(), st.sampled_from([1, 2, 3, 5]), st.lists(st.booleans(), min_size=7, max_size=7))
    def run(stream: tuple[list[list[Trade]], float], partitions: int, kills: list[bool]) -> None:
        windows, lateness = stream
        items = [
            item
            for window, kill in zip(windows, kills, strict=False)
            for item in (*window, *[ABORT] * kill, END_WINDOW)
        ]
        values = VALUES if lateness == 0 else {name: one for name, one in VALUES.items() if name != "joined"}
        found = run_local(application(items, windows_of, lateness, partitions, values)).collected("sink")
        trades = sorted((one for window in windows for one in window), key=lambda one: one.time)
        for row in found:
            row.setdefault("joined", None)
        members = [(key[0], own) for key, own in members_of(trades)]
        if "joined" not in values:  # a function sees batches in the order in which they come
            rows = sorted(found, key=lambda row: (row["symbol"], row["window_start"], row["window_end"]))
            for row, (_, own) in zip(rows, members, strict=True):
                row["joined"] = expected(own)["joined"]
        check(found, members)

    run()


WORDS = st.lists(st.sampled_from([f"w{number}" for number in range(9)]), max_size=60)


@settings(deadline=None, max_examples=deep(6))
@given(st.lists(WORDS, min_size=1, max_size=5), st.sampled_from([1, 2, 3]))
def test_sketches_of_few_values_are_exact(windows: list[list[str]], partitions: int) -> None:
    items = [
        item
        for window in windows
        for item in (*[Trade("a", float(word[1:]), None, word, START) for word in window], END_WINDOW)
    ]
    values = {
        "unique": agg.count_unique("venue", exact=False),
        "top": agg.top("venue", 3, exact=False),
        "q": agg.quantiles("price", [0, 0.5, 1], exact=False),
        "none": agg.median("size", exact=False),
        "no_top": agg.count_unique("size", exact=False),
        "exact_top": agg.top("venue", 3),
    }
    rows = run_local(application(items, tumbling("1m"), 0, partitions, values)).collected("sink")
    words = [word for window in windows for word in window]
    if not words:
        assert rows == []
        return
    (row,) = rows
    assert row["unique"] == len(set(words))
    assert row["top"] == row["exact_top"]
    numbers = sorted(float(word[1:]) for word in words)
    assert row["q"] == [numbers[0], numbers[(len(numbers) + 1) // 2 - 1], numbers[-1]]
    assert row["none"] is None
    assert row["no_top"] == 0


class Odd(NamedTuple):
    key: str
    number: float
    amount: Decimal
    flag: bool
    time: datetime


def test_hostile_values() -> None:
    nan, inf = math.nan, math.inf
    rows = [
        (nan, "1.10", True),
        (inf, "-2.25", False),
        (-0.0, "1.10", True),
        (0.0, "99999999", True),
        (nan, "0", False),
    ]
    items = [
        item
        for number, (value, amount, flag) in enumerate(rows)
        for item in (Odd("a", value, Decimal(amount), flag, START + timedelta(seconds=number)), END_WINDOW)
    ]
    values = {
        "variance": agg.variance("number"),
        "amounts": agg.variance("amount"),
        "flags": agg.stddev("flag", ddof=0),
        "unique": agg.count_unique("number"),
        "set": agg.collect_set("number"),
        "top": agg.top("number", 2),
        "median": agg.median("number"),
        "most": agg.quantile("number", 1),
        "middle": agg.median("amount"),
    }
    source = Application("odd", window="1s").read("odd", ListInput(Odd, items, "time", lateness=0))
    (row,) = source.group_by("key").window(tumbling("1m")).aggregate("figures", **values).collect()
    assert math.isnan(row["variance"])
    assert row["amounts"] == float(spread_of([Decimal(amount) for _, amount, _ in rows], 1) or 0)
    assert row["flags"] == statistics.pstdev([Fraction(flag) for *_, flag in rows])
    assert row["unique"] == 3
    assert row["set"][:2] == [0.0, inf]
    assert math.isnan(row["set"][2])
    assert [(entry["value"], entry["count"]) for entry in row["top"][:1]] == [(0.0, 2)]
    assert row["median"] == 0.0
    assert row["most"] == inf
    assert row["middle"] == 1.1


def test_a_function_takes_what_sessions_that_join_have() -> None:
    def trade(second: int, venue: str) -> Trade:
        return Trade("a", None, None, venue, START + timedelta(seconds=second))

    items = [trade(0, "a"), trade(20, "c"), END_WINDOW, trade(12, "b"), END_WINDOW, trade(99, "d")]
    values = {
        "all": agg.reduce("venue", lambda so_far, venue: so_far + 1, 0, merge=lambda one, other: one + other),
        "text": agg.reduce("venue", joined),
    }
    rows = run_local(application(items, session("15s"), 30, 1, values)).collected("sink")
    assert [(row["all"], row["text"]) for row in rows] == [(3, "acb"), (1, "d")]


@pytest.mark.parametrize(
    ("kind", "values"),
    [
        (pa.time32("s"), [time(1), time(2), None, time(1)]),
        (pa.time64("us"), [time(1), time(2), None, time(1)]),
        (pa.duration("ms"), [timedelta(1), timedelta(2), None, timedelta(1)]),
    ],
)
def test_times_of_day_and_durations_are_counted(kind: pa.DataType, values: list[Any]) -> None:
    items = ListInput(pa.schema([("x", kind)]), [{"x": value} for value in values])
    counts = {"about": agg.count_unique("x", exact=False), "exact": agg.count_unique("x")}
    assert Application("times").read("in", items).aggregate("n", **counts).collect() == [
        {"about": 2, "exact": 2}
    ]


@pytest.mark.parametrize("apart", [False, True])
def test_a_nan_is_chosen_only_where_there_is_no_number(*, apart: bool) -> None:
    prices = {"a": [math.nan, 1.0, 3.0, 3.0, -0.0], "b": [math.nan, math.nan], "c": [0.0, -0.0, math.nan]}
    items: list[Any] = []
    for symbol, given_prices in prices.items():
        for place, price in enumerate(given_prices):
            items += [Trade(symbol, price, place, None, START + timedelta(seconds=place))]
            items += [END_WINDOW] * apart
    app = Application("nan", window="1s")
    trades = app.read("trades", ListInput(Trade, items, "time", lateness="1h")).group_by("symbol")
    chosen = {"most": agg.max_by("size", "price"), "least": agg.min_by("size", "price")}
    trades.window(tumbling("1m")).aggregate("figures", **chosen).write("sink", CollectorSink())
    found = {row["symbol"]: (row["most"], row["least"]) for row in run_local(app).collected("sink")}
    assert found == {"a": (2, 4), "b": (0, 0), "c": (0, 0)}


def test_each_aggregate_has_a_function_and_a_check() -> None:
    kinds = {*TABLE}
    assert kinds == set(agg.__all__) - {"Aggregate", "median"}
    checked = {one.kind for one in VALUES.values()}
    elsewhere = {"count", "sum", "mean", "min", "max", "first", "last", "quantile"}
    elsewhere |= {"is_final", "window_start", "window_end"}
    assert kinds == checked | elsewhere


def test_schemas_say_what_is_never_null() -> None:
    app = Application("trades", window="1s")
    trades = app.read("trades", ListInput(Trade, [], "time", lateness=0)).group_by("symbol")
    schema = trades.window(tumbling("1m")).aggregate("figures", **VALUES).schema
    never = {field.name for field in schema if not field.nullable}
    wanted = {"unique", "venues", "top", "list", "set", "longest", "window_start", "window_end"}
    assert never & set(VALUES) | {"window_start", "window_end"} == wanted
