"""Nexmark on Spark: our streams beside Spark's own Structured Streaming, where it can run a query.

50,000 events a window, or micro-batch, from the same Parquet files, on two cores, with checkpoints on. Spark
gets the query as SQL over streaming views. It has no streaming form of several distinct counts, of
ROW_NUMBER, of aggregates of aggregates, and of a maximum that is joined with its stream.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa

from benchmarks import ours as ridgeline
from benchmarks import spark
from benchmarks.frame import OURS, Benchmark, Figures, Goal, Round
from benchmarks.nexmark.applications import application, kinds_of
from benchmarks.nexmark.events import FAR_SECONDS, NEAR_SECONDS, OF_50, START, STEP, write
from benchmarks.nexmark.oracle import SQL, count
from benchmarks.nexmark.queries import EURO, QUERIES, SIDE_ROWS
from benchmarks.throughput import Totalled, Totals
from ridgeline import InputPort

EVENTS, WARM, MEASURED, QUICK = 50_000, 6, 20, 4
PARTITIONS = 2
ROW_BY_ROW = ("q0", "q1", "q2", "q10", "q13", "q14", "q21", "q22")
"""Their results are counted: each window has all of its own."""
_BID = "auction, bidder, price, time, extra"
_ID = r"regexp_extract(url, '(&|^)channel_id=([^&]*)', 2)"
_FAR, _NEAR = f"interval {FAR_SECONDS} seconds", f"interval {NEAR_SECONDS} seconds"
BY_SPARK: Mapping[str, str] = {
    "q0": SQL["q0"],
    "q1": f"select auction, bidder, price * {EURO} as price, time, extra from bids",
    "q2": SQL["q2"],
    "q3": f"""select p.name, p.city, p.state, a.id from auctions a join persons p on a.seller = p.id
        and a.time between p.time - {_FAR} and p.time + {_FAR}
        where a.category = 10 and p.state in ('OR', 'ID', 'CA')""",
    "q8": """select p.id, p.name, p.window.start from (
            select id, name, window(time, '10 seconds') as window from persons group by 1, 2, 3
        ) p join (
            select seller, window(time, '10 seconds') as window from auctions group by 1, 2
        ) a on p.id = a.seller and p.window = a.window""",
    "q10": f"""select {_BID}, date_format(time, 'yyyy-MM-dd') as dt,
        date_format(time, 'HH:mm') as hm from bids""",
    "q11": """select bidder, count(*) as bid_count, session_window.start, session_window.end
        from bids group by bidder, session_window(time, '10 seconds')""",
    "q13": f"""select b.auction, b.bidder, b.price, b.time, s.value from bids b
        join side s on b.auction % {SIDE_ROWS} = s.key""",
    "q14": f"""select auction, bidder, price * {EURO} as price, time, extra,
        case when hour(time) between 8 and 18 then 'dayTime'
            when hour(time) <= 6 or hour(time) >= 20 then 'nightTime' else 'otherTime' end as kind,
        length(extra) - length(replace(extra, 'c', '')) as c_counts from bids
        where price * {EURO} > 1000000 and price * {EURO} < 50000000""",
    "q17": """select auction, date_format(time, 'yyyy-MM-dd') as day, count(*) as total_bids,
        count(*) filter (where price < 10000) as rank1_bids,
        count(*) filter (where price >= 10000 and price < 1000000) as rank2_bids,
        count(*) filter (where price >= 1000000) as rank3_bids, min(price) as min_price,
        max(price) as max_price, avg(price) as avg_price, sum(price) as sum_price
        from bids group by auction, date_format(time, 'yyyy-MM-dd')""",
    "q20": f"""select b.*, a.item_name, a.description, a.initial_bid, a.reserve, a.time as time_auction,
        a.expires, a.seller, a.category, a.extra as extra_auction from bids b join auctions a
        on b.auction = a.id and b.time between a.time - {_NEAR} and a.time + {_NEAR} where a.category = 10""",
    "q21": f"""select auction, bidder, price, channel, case lower(channel) when 'apple' then '0'
            when 'google' then '1' when 'facebook' then '2' when 'baidu' then '3' else {_ID} end as channel_id
        from bids where {_ID} <> '' or lower(channel) in ('apple', 'google', 'facebook', 'baidu')""",
    "q22": """select auction, bidder, price, channel, split_part(url, '/', 4) as dir1,
        split_part(url, '/', 5) as dir2, split_part(url, '/', 6) as dir3 from bids""",
}


def rate(name: str) -> str:
    """The figure of a query: the tuples that it reads in a second."""
    return f"{name} tuples/s"


class Counted(Totalled):
    """Counts rows at the driver."""

    data = InputPort(Any, parallel=True)

    @data.process_batch
    def take(self, batch: pa.RecordBatch) -> None:
        """Hand the number over."""
        self.context.hand_over({"rows": len(batch)})


def ours(of_round: Round) -> Figures:
    """All queries, one after the other, each an application of its own on one Spark."""
    return _each(of_round, tuple(QUERIES), _run_ours)


def by_spark(of_round: Round) -> Figures:
    """The queries that Structured Streaming can run, one after the other."""
    session = spark.session("nexmark", spark.ROCKS)
    return _each(of_round, tuple(BY_SPARK), partial(_run_spark, session=session))


def _each(of_round: Round, names: tuple[str, ...], run: Callable[..., list[float]]) -> Figures:
    """Samples of each query by its figure; one that fails says so, and the others run."""
    warm, measured = (1, 3) if of_round.quick else (WARM, MEASURED)
    figures: dict[str, list[float]] = {}
    for name in names:
        folder = of_round.folder / name
        folder.mkdir(parents=True)
        tuples = sum(OF_50[kind] for kind in kinds_of(name)) * EVENTS // 50
        began = time.monotonic()
        try:
            times = run(replace(of_round, folder=folder), name, warm + measured)
        except Exception as error:  # noqa: BLE001  of one query
            of_round.note(f"{name}: {type(error).__name__}: {str(error)[:300]}")
            continue
        figures[rate(name)] = [tuples / seconds for seconds in times[warm:]]
        of_round.note(f"{name}: {time.monotonic() - began:.1f} s in all")
    return figures


def _run_ours(of_round: Round, name: str, windows: int) -> list[float]:
    from pyspark import SparkContext

    Totals.found.clear()
    app = application(name, of_round.data, EVENTS, Counted, PARTITIONS)
    seen = ridgeline.run(of_round, app, windows + 1, context=SparkContext._active_spark_context)  # noqa: SLF001
    if name in ROW_BY_ROW:
        _check(name, of_round.data, windows + 1, Totals.found["rows"])
    return ridgeline.window_times(seen)


def _run_spark(of_round: Round, name: str, batches: int, session: Any) -> list[float]:
    for kind in kinds_of(name):
        folder = str(of_round.data / kind)
        schema = session.read.parquet(folder).schema
        frame = session.readStream.schema(schema).option("maxFilesPerTrigger", 1).parquet(folder)
        frame.withWatermark("time", "0 seconds").createOrReplaceTempView(kind)
    side = session.range(SIDE_ROWS).selectExpr("id as key", "'value-' || id as value")
    side.createOrReplaceTempView("side")
    rows: list[int] = []

    def each(batch: Any, _number: int) -> None:
        if name in ROW_BY_ROW:
            rows.append(batch.count())
        else:
            batch.write.format("noop").mode("overwrite").save()

    mode = "update" if name == "q17" else "append"
    times = spark.batch_times(of_round, session.sql(BY_SPARK[name]), batches, each, outputMode=mode)
    for query in session.streams.active:
        query.stop()
    if name in ROW_BY_ROW:
        _check(name, of_round.data, batches + 1, sum(rows[: batches + 1]))
    return times


def _check(name: str, folder: Path, windows: int, found: int) -> None:
    """Raise ValueError for another number of rows than DuckDB finds in the events of so many windows."""
    until = START.timestamp() * 1_000_000 + windows * EVENTS * STEP
    wanted = count(name, folder, f"epoch_us(time) < {until:.0f}")
    if found != wanted:
        raise ValueError(f"{name} must have {wanted:,} rows; got {found:,}")


def _prepare(of_round: Round) -> None:
    windows = QUICK if of_round.quick else WARM + MEASURED
    write(of_round.data, windows + 4, EVENTS)


BENCHMARKS = (
    Benchmark(
        name="nexmark",
        title="Nexmark: q0 to q22 as streams, 50,000 events a window",
        contestants={OURS: ours, "spark": by_spark},
        goals=[Goal(figure=rate(name), against="spark", at_least=1.0) for name in BY_SPARK],
        prepare=_prepare,
        rounds=1,
        budget_seconds=900,
        part_of_all=False,
    ),
)
