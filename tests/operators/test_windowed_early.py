"""Early results of windows, those of whole days of a time zone, and hostile times, by hand."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any, NamedTuple
from zoneinfo import ZoneInfo

import polars as pl
import pytest

from ridgeline import Application
from ridgeline.engine.files.storage import MemoryStorage
from ridgeline.operators import Windowed, aggregate, sliding, tumbling
from ridgeline.testing import ABORT, END_WINDOW, CollectorSink, ListInput, run_local
from support.testing.shares import share

START = datetime(2026, 1, 1, tzinfo=UTC)


class Sale(NamedTuple):
    shop: str
    cents: int
    time: datetime | None


def at(second: float) -> datetime:
    return START + timedelta(seconds=second)


def sale(second: float, cents: int, shop: str = "a") -> Sale:
    return Sale(shop, cents, at(second))


VALUES = {
    "start": aggregate.window_start(),
    "end": aggregate.window_end(),
    "sum": aggregate.sum("cents"),
    "final": aggregate.is_final(),
}


def application(items: list[Any], how: Any, lateness: float = 0, **properties: Any) -> Application:
    app = Application("sales", window="1s")
    windowed = Windowed(how, key="shop", **{"values": VALUES, **properties})
    sales = app.read("source", ListInput(Sale, items, "time", lateness))
    sales.process("windowed", windowed, partitions=2).write("sink", CollectorSink())
    app.stream(windowed.late).write("late", CollectorSink(Sale))
    return app


def sums(items: list[Any], how: Any, **properties: Any) -> list[list[tuple[float, float, int, bool]]]:
    """By window (start, end, sum, final), in seconds since the start; the same if each has a new driver."""
    app = application(items, how, **properties)
    run = run_local(app)
    rows = [run.collected("sink", window) for window in range(run.windows_committed)]
    if "early" not in properties:  # a new driver has a new clock here
        storage = MemoryStorage()
        for window, expected in enumerate(rows):
            assert run_local(app, checkpoint=storage, windows=1).collected("sink", window) == expected
    return [
        [(seconds(row["start"]), seconds(row["end"]), row["sum"], row["final"]) for row in one]
        for one in rows
    ]


def seconds(time: datetime) -> float:
    return (time - START).total_seconds()


STREAM = [
    sale(1, 1), sale(2, 2), END_WINDOW,
    sale(3, 4), ABORT, END_WINDOW,
    END_WINDOW,
    sale(4, 8), sale(5, 16), END_WINDOW,
    sale(6, 32), sale(12, 64), END_WINDOW,
    sale(13, 128),
]  # fmt: skip


def test_early_results_by_the_clock() -> None:
    """Windows are a second wide: the clock is read with the first record, and two seconds later."""
    assert sums(STREAM, tumbling(10), early="2s") == [
        [],
        [],
        [(0, 10, 7, False)],
        [],
        [(0, 10, 63, True), (10, 20, 64, False)],
        [(10, 20, 192, True)],
    ]


@pytest.mark.parametrize(
    ("how", "start", "end"),
    [
        # Clocks of Sao Paulo went from 23:59 to 01:00, Samoa left a day out, Lord Howe's go half an hour.
        (tumbling("1d", zone="America/Sao_Paulo"), "2018-11-04T03:00", "2018-11-05T02:00"),
        (tumbling("1d", zone="Pacific/Apia"), "2011-12-30T10:00", "2011-12-31T10:00"),
        (tumbling("1d", zone="Australia/Lord_Howe"), "2026-04-04T13:00", "2026-04-05T13:30"),
        (tumbling("1w", zone="Europe/Berlin"), "2026-03-22T23:00", "2026-03-29T22:00"),
        (tumbling("1w"), "2026-03-23T00:00", "2026-03-30T00:00"),
        (tumbling("1d", zone="Europe/Berlin", offset="6h"), "2026-03-28T05:00", "2026-03-29T04:00"),
        (tumbling("1d", offset="6h"), "2026-03-28T06:00", "2026-03-29T06:00"),
        (tumbling("1h", offset="15m"), "2026-03-28T05:15", "2026-03-28T06:15"),
        (tumbling("1mo"), "2028-02-01T00:00", "2028-03-01T00:00"),
        (tumbling("1mo", zone="Europe/Berlin"), "2026-02-28T23:00", "2026-03-31T22:00"),
        (tumbling("1mo", zone="Asia/Kolkata", offset="14d"), "2026-02-14T18:30", "2026-03-14T18:30"),
        (tumbling("1q", zone="America/New_York"), "2026-01-01T05:00", "2026-04-01T04:00"),
        (tumbling("1y"), "1969-01-01T00:00", "1970-01-01T00:00"),
    ],
)
def test_where_days_and_weeks_begin(how: Any, start: str, end: str) -> None:
    first, after = (datetime.fromisoformat(one).replace(tzinfo=UTC) for one in (start, end))
    inside = [first, first + (after - first) / 2, after - timedelta(microseconds=1)]
    around = [first - timedelta(microseconds=1), after]
    run = run_local(application([Sale("a", 1, time) for time in sorted(around + inside)], how))
    rows = [(row["start"], row["end"], row["sum"]) for row in run.collected("sink")]
    assert rows[1] == (first, after, 3)
    assert [row[2] for row in rows] == [1, 3, 1]
    assert (rows[0][1], rows[2][0]) == (first, after)


@pytest.mark.parametrize(
    ("size", "slide", "zone"),
    share(
        2,
        [("1mo", "1mo"), ("1q", "1q"), ("1y", "3mo"), ("2y", "2y")],
        ["UTC", "Europe/Berlin", "Australia/Lord_Howe"],
        spread=True,
    ),
)
def test_months_are_those_of_polars(zone: str, size: str, slide: str) -> None:
    random = Random(size + zone)
    base = datetime(1967, 11, 1, tzinfo=UTC)
    sales = [Sale("a", 1, base + timedelta(hours=random.randrange(24 * 365 * 9))) for _ in range(200)]
    run = run_local(application(sorted(sales, key=lambda sale: sale.time), sliding(size, slide, zone=zone)))
    found = [(row["start"], row["end"], row["sum"]) for row in run.collected("sink")]
    frame = pl.DataFrame({"time": [sale.time for sale in sales]}).sort("time")
    windows = frame.with_columns(pl.col("time").dt.convert_time_zone(zone)).group_by_dynamic(
        "time", every=slide, period=size, include_boundaries=True, start_by="window"
    )
    bounds = windows.agg(n=pl.len()).select("_lower_boundary", "_upper_boundary", "n").rows()
    assert sum(row[2] for row in found) == 200 * (4 if size != slide else 1)
    assert set(bounds) <= set(found)
    assert len(bounds) >= len(found) - 3, "polars begins with the first record, not with all its windows"


def test_state_of_months_is_none_of_days() -> None:
    """A month counts 31 days where lengths are compared, but its windows begin elsewhere."""
    assert repr(tumbling("1mo")) != repr(tumbling("31d"))


def test_sliding_days_of_a_zone_hold_each_record_as_often() -> None:
    berlin = ZoneInfo("Europe/Berlin")
    noon = datetime(2026, 3, 29, 12, tzinfo=berlin)
    rows = run_local(application([Sale("a", 1, noon)], sliding("3d", "1d", zone="Europe/Berlin"))).collected(
        "sink"
    )
    days = [[row[name].astimezone(berlin).day for name in ("start", "end")] for row in rows]
    assert days == [[27, 30], [28, 31], [29, 1]]


def test_hostile_times_are_late_and_nothing_is_lost() -> None:
    far = datetime(8000, 1, 1, tzinfo=UTC)
    naive = datetime(2026, 1, 1, 0, 0, 3)  # noqa: DTZ001  a time without a zone is UTC
    items = [
        Sale("a", 1, None),
        Sale("a", 2, datetime(9999, 12, 31, tzinfo=UTC)),
        Sale("a", 4, datetime(1, 1, 1, tzinfo=UTC)),
        Sale("a", 8, far),
        Sale("a", 16, naive),
        END_WINDOW,
        sale(4, 32),
        END_WINDOW,
        sale(11, 64),
    ]
    run = run_local(application(items, tumbling(10, zone=None), lateness=0))
    assert [row["sum"] for row in run.collected("sink")] == [48, 64, 8]
    assert [one.cents for one in run.collected("late")] == [1, 2, 4]
    rows = {row["operator"]: row for row in run.watch.watermarks()["operators"]}
    assert sum(row["lateRecords"] for row in rows.values()) == 3
    assert rows["source"]["recordsAhead"] == 2
    found = run_local(application(items, tumbling("1d", zone="Europe/Berlin"))).collected("sink")
    assert [row["sum"] for row in found] == [112, 8]
