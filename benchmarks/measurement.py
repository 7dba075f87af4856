"""Cost of measuring: throughput with measurement off, on, and on while the web service is scraped.

Two applications: `hop` (64-byte tuples from a generator to a counter in another container) and `sum` (keyed
running sum of 1,000 keys, batch form, a shuffle before it). All variants run in one Spark session, in turn,
so that they share its mood: single runs differ by some percent whatever is measured. `on` is the default
level with heartbeats; `times` is `on` with a declared record time on every tuple, so that ages are measured
too.
"""

from __future__ import annotations

import contextlib
import json
import statistics
import threading
import time
import urllib.request
from collections.abc import Iterator
from datetime import datetime
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from benchmarks.frame import Benchmark, Figures, Goal, Round
from benchmarks.spark import MASTER
from ridgeline import Application, InputOperator, InputPort, KeyedState, Operator, OutputPort

ROWS = 200_000
KEYS = 1_000
VARIANTS = ("off", "on", "scraped", "times")
LEAST = 0.97
"""Of the throughput without measurement."""
LEAST_SAMPLED = 0.99
"""Of the throughput without samples."""


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
        sums = np.bincount(batch["key"].to_numpy(), weights=batch["value"].to_numpy(), minlength=KEYS).astype(
            np.int64
        )
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


def run(context: Any, sink: type[Operator], variant: str, windows: int) -> float:
    """Tuples a second of one variant; the first third of its windows is left out."""
    from ridgeline.engine.driver.run.launch import Options
    from ridgeline.measure.events import RunEvent, WindowCommitted
    from ridgeline.plan import plan_application
    from ridgeline.service.measured import ServiceOptions, run_measured

    level = "OFF" if variant == "off" else "INFO"
    plan = plan_application(
        application(sink, timed=variant == "times"), {}, {"metrics_recording_level": level}
    )
    events: list[RunEvent] = []
    urls: list[str] = []

    def started(_run: Any, _watch: Any, web: Any) -> None:
        if web is not None:
            urls.extend([f"{web.url}/metrics", f"{web.url}/ws/v2/stram/criticalPath"])

    service = ServiceOptions(port=0 if variant == "scraped" else None)
    with scraping(urls):
        run_measured(
            plan,
            Options(MASTER, windows=windows),
            service,
            observe=events.append,
            context=context,
            started=started,
        )
    began = [event.began for event in events if isinstance(event, WindowCommitted)]
    seconds = np.diff(began)[
        windows // 3 :
    ].tolist()  # from begin to begin: folding comes after a window's commit
    return ROWS / statistics.median(seconds)


def variants(of_round: Round, sink: type[Operator]) -> Figures:
    """Each variant in turn, and again in another order."""
    from ridgeline.engine.spark.session import start_context

    context = start_context("cost", MASTER, {}, streaming=False, local_checkpoint=True)
    windows = 12 if of_round.quick else 60
    run(context, sink, "off", windows)  # warm the session up
    found: dict[str, list[float]] = {variant: [] for variant in VARIANTS}
    for number in range(len(VARIANTS)):
        for variant in (*VARIANTS[number:], *VARIANTS[:number]):
            found[variant].append(run(context, sink, variant, windows))
    return {f"{variant}: tuples/s": rates for variant, rates in found.items()}


SLICES = 160
SLICE_SECONDS = 0.25
TAKEN_SECONDS = 5.0
"""A worker sends what was sampled this often."""
DEPTH = 12
"""Functions of a user between the operator's callback and the line that works."""


class _Known(NamedTuple):
    """What the sampler reads of an operator's context."""

    operator_id: int = 7
    partition: int = 0


def _work(lines: list[str], depth: int = DEPTH) -> int:
    """Parse some lines of JSON, so many calls deep."""
    if depth:
        return _work(lines, depth - 1)
    return sum(len(json.loads(line)["text"]) for line in lines)


def sampling(of_round: Round) -> Figures:
    """Units of work a second of an operator's thread that is sampled, and of one that is not, in turn."""
    from ridgeline.api.clock import SystemClock
    from ridgeline.engine.process import worker_output
    from ridgeline.engine.process.line_sampler import LineSampler

    lines = [json.dumps({"number": number, "text": "x" * (number % 90)}) for number in range(20)]
    found: dict[bool, list[float]] = {False: [], True: []}
    shares: list[float] = []

    def slice_of(*, on: bool) -> None:
        sampler = LineSampler(SystemClock())
        if on:
            sampler.start()
        thread = next((one for one in threading.enumerate() if one.name == "ridgeline-lines"), None)
        clock = None if thread is None else time.pthread_getcpuclockid(thread.ident or 0)
        sampler.begin()
        worker_output.enter_operator(worker_output.CurrentOperator("worker", _Known()))  # type: ignore[arg-type]
        begun, done = time.perf_counter(), 0
        while (took := time.perf_counter() - begun) < SLICE_SECONDS:
            _work(lines)
            done += 1
        if on and not len(shares) % round(TAKEN_SECONDS / SLICE_SECONDS):
            sampler.take()
            sampler.take_stacks()
            took = time.perf_counter() - begun
        worker_output.leave_operator()
        sampler.end()
        found[on].append(done / took)
        if clock is not None:
            shares.append(time.clock_gettime(clock) / took)
        sampler.stop()
        if thread is not None:
            thread.join()

    def turns() -> None:
        slices = 16 if of_round.quick else SLICES
        for number in range(slices):
            for on in (bool(number % 2), not number % 2):
                slice_of(on=on)

    worker = threading.Thread(target=turns)
    worker.start()
    worker.join()
    ratios = [one / other for one, other in zip(found[True], found[False], strict=True)]
    given = {"off: units/s": found[False], "on: units/s": found[True]}
    return {**given, "on/off": [statistics.median(ratios)], "sampler/core": [statistics.fmean(shares)]}


BENCHMARKS = (
    Benchmark(
        name="measurement",
        title="what measuring costs: 200,000 tuples a window, measured in several ways against not at all",
        contestants={"hop": partial(variants, sink=Count), "sum": partial(variants, sink=Sum)},
        goals=[
            Goal(
                figure=f"{variant}: tuples/s",
                of=name,
                against=name,
                against_figure="off: tuples/s",
                at_least=LEAST,
            )
            for name in ("hop", "sum")
            for variant in VARIANTS[1:]
        ],
        budget_seconds=230,
        part_of_all=False,
    ),
    Benchmark(
        name="sampling",
        title="what it costs to look at an operator's lines and stacks 50 times a second, beside not to",
        contestants={"ours": sampling},
        goals=[
            Goal(figure="on/off", at_least=LEAST_SAMPLED),
            Goal(figure="sampler/core", at_most=1.0 - LEAST_SAMPLED),
        ],
        budget_seconds=120,
        part_of_all=False,
    ),
)
