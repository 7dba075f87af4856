"""What measuring costs: throughput with measurement off, on, and on while its web service is scraped every second.

    python benchmarks/measurement_cost.py [ROUNDS [WINDOWS]]

Two applications on `local[2]`: `hop` (64-byte tuples from a generator to a counter in another container) and `sum` (keyed running sum of
1,000 keys, batch form, a shuffle before it). All variants run in one Spark session, in turn and again, so that they share its mood. `on` is
the default level with heartbeats; `times` is `on` with a declared record time on every tuple, so that ages are measured too. The first
third of each run's windows is left out. The ratio of a round is off's median window time divided by the variant's; what is printed is the
median of the rounds' ratios and their quartiles: single runs differ by some percent whatever is measured.
"""

from __future__ import annotations

import contextlib
import platform
import statistics
import sys
import threading
import urllib.request
from collections.abc import Iterator
from datetime import datetime
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from ridgeline import Application, InputOperator, InputPort, KeyedState, Operator, OutputPort
from ridgeline.engine.launch import Options
from ridgeline.engine.session import start_context
from ridgeline.measure.events import Event, WindowCommitted
from ridgeline.plan import plan_application
from ridgeline.service.measured import ServiceOptions, run_measured

ROWS = 200_000
KEYS = 1_000


class Row(NamedTuple):
    """64 bytes."""

    key: int
    time: datetime
    a: int
    b: int
    c: int
    d: int
    e: int
    value: int


def batch() -> pa.RecordBatch:
    """One window's tuples; their times lie within the last second."""
    numbers = pa.array(np.arange(ROWS))
    now = np.datetime64(datetime.now(), "us")  # noqa: DTZ005  a load, not a time
    times = pa.array(now - np.arange(ROWS).astype("timedelta64[us]"), pa.timestamp("us", "UTC"))
    return pa.record_batch([pa.array(np.arange(ROWS) % KEYS), times, *[numbers] * 6], names=Row._fields)


BATCH = batch()


class Plain(InputOperator):
    """Tuples without record times."""

    output = OutputPort(Row)

    def emit_tuples(self) -> None:
        """A window's tuples."""
        self.output.emit_batch(BATCH)


class Timed(InputOperator):
    """Tuples with record times."""

    output = OutputPort(Row, timestamp="time")

    def emit_tuples(self) -> None:
        """A window's tuples."""
        self.output.emit_batch(BATCH)


class Count(Operator):
    """Counts and forgets."""

    data = InputPort(Row)

    @data.process_batch
    def count(self, batch: pa.RecordBatch) -> None:
        """Look at the size."""
        self.seen = batch.num_rows


class Sum(Operator):
    """Keyed running sum."""

    data = InputPort(Row, key="key")
    totals = KeyedState(int, default=0)

    @data.process_batch
    def add(self, batch: pa.RecordBatch) -> None:
        """Add what each key got."""
        sums = np.bincount(batch["key"].to_numpy(), weights=batch["value"].to_numpy(), minlength=KEYS).astype(np.int64)
        keys = np.arange(KEYS)
        self.totals.put_many(keys, self.totals.get_many(keys) + sums)


def application(sink: type[Operator], *, timed: bool) -> Application:
    """Generator -> sink in another container."""
    app = Application("cost", window=0)
    source = app.add_operator("source", Timed() if timed else Plain())
    taken = app.add_operator("sink", sink())
    app.add_stream("rows", source.output, taken.data, locality="NODE_LOCAL")
    return app


@contextlib.contextmanager
def scraping(urls: list[str]) -> Iterator[None]:
    """Ask for metrics and the critical path every second, as a monitoring system does."""
    over = threading.Event()

    def scrape() -> None:
        while not over.wait(1.0):
            for url in urls:
                with contextlib.suppress(OSError), urllib.request.urlopen(url, timeout=5) as answer:
                    answer.read()

    thread = threading.Thread(target=scrape, daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def run(context: Any, sink: type[Operator], variant: str, windows: int) -> list[float]:
    """Seconds from one warm window to the next, of one variant."""
    level = "OFF" if variant == "off" else "INFO"
    plan = plan_application(application(sink, timed=variant == "times"), {}, {"metrics_recording_level": level})
    told: list[Event] = []
    urls: list[str] = []

    def started(_run: Any, _watch: Any, url: str | None) -> None:
        if url:
            urls.extend([f"{url}/metrics", f"{url}/ws/v2/stram/criticalPath"])

    service = ServiceOptions(port=0 if variant == "scraped" else None)
    with scraping(urls):
        run_measured(plan, Options("local[2]", windows=windows), service, observe=told.append, context=context, started=started)
    began = [event.began for event in told if isinstance(event, WindowCommitted)]
    return np.diff(began)[windows // 3 :].tolist()  # from begin to begin: folding comes after a window's commit


def main() -> None:
    """Run all variants in turn, `ROUNDS` times; print medians and ratios."""
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 8
    windows = int(sys.argv[2]) if len(sys.argv) > 2 else 60
    context = start_context("cost", "local[2]", {}, streaming=False, local_checkpoint=True)
    print(f"{platform.machine()}, Python {platform.python_version()}, {rounds} rounds of {windows} windows of {ROWS:,} tuples")
    for name, sink in (("hop", Count), ("sum", Sum)):
        found: dict[str, list[float]] = {"off": [], "on": [], "scraped": [], "times": []}
        run(context, sink, "off", windows)  # warm the session up
        for number in range(rounds):
            for variant in [*list(found)[number % 4 :], *list(found)[: number % 4]]:
                found[variant].append(statistics.median(run(context, sink, variant, windows)))
        for variant, medians in found.items():
            median = statistics.median(medians)
            low, ratio, high = np.percentile(np.array(found["off"]) / np.array(medians), [25, 50, 75])
            rate = f"{ROWS / median / 1e6:.2f} M tuples/s"
            print(
                f"{name:>4} {variant:>8}: {median * 1e3:6.1f} ms a window, {rate}, ratio {ratio:.3f} ({low:.3f} to {high:.3f})", flush=True
            )
    context.stop()


if __name__ == "__main__":
    main()
