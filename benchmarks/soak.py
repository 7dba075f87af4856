"""Does anything grow over many windows? `python -m benchmarks.soak [--spark] [--windows N] [--width MS]`.

Every so many windows (`--every`): memory of the driver, the JVM and the workers, the number of files below
the checkpoint, Spark's local folders and /dev/shm, then the JVM's heap after a collection, and the median
time of the windows since the last sample. With a width also how late they began, at the median. The last
quarter of the samples is compared with the first. Ends with 1 if something has grown.
"""

from __future__ import annotations

import argparse
import gc
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from rich.console import Console
from rich.table import Table

from benchmarks.data import Number
from benchmarks.processes import memory_by_kind
from benchmarks.spark import MASTER
from benchmarks.window import Count
from ridgeline import Application, InputOperator, OutputPort, State
from ridgeline.api.context import OperatorContext
from ridgeline.measure.events import RunEvent, WindowCommitted, WindowPlanned

KEYS = 10_000
TUPLES = 100
MEGABYTE = 1e6


class Numbers(InputOperator):
    """A few of the keys in each window; every key comes again and again."""

    output = OutputPort(Number)
    made = State(0)

    def setup(self, context: OperatorContext) -> None:
        self.partition = context.partition

    def emit_tuples(self) -> None:
        keys = (np.arange(self.made, self.made + TUPLES) * 7919 + self.partition) % KEYS
        self.made += TUPLES
        self.output.emit_batch(
            pa.record_batch([pa.array(keys), pa.array(np.ones(TUPLES, np.int64))], names=["key", "value"])
        )


@dataclass(frozen=True)
class Column:
    """A sampled quantity: its unit, and how much it may grow from the first quarter to the last."""

    name: str
    unit: float = 1.0
    growth: float = 0.0
    slack: float = 0.0


COLUMNS = (
    Column("driver MB", MEGABYTE, 0.1, 10),
    Column("JVM MB", MEGABYTE, 0.2, 50),
    Column("workers MB", MEGABYTE, 0.1, 30),
    Column("JVM heap MB", MEGABYTE, 0.1, 5),
    Column("checkpoint files", 1, 0.1, 20),
    Column("Spark files", 1, 0.1, 20),
    Column("shared memory files", 1, 0.1, 20),
    Column("window ms", 1e-3, 0.15, 0.5),
    Column("late ms", 1e-3, 0.15, 5),
)


@dataclass
class Samples:
    """Takes a sample after every so many committed windows; `observe` receives every event."""

    every: int
    folders: dict[str, Path]
    console: Console
    on_schedule: bool = False
    """Windows have a width, and so are due at a time."""
    heap: Callable[[], float] | None = None
    """The JVM's heap in bytes, after a collection."""
    rows: list[tuple[int, dict[str, float]]] = field(default_factory=list)
    _times: list[float] = field(default_factory=list)
    _late: list[float] = field(default_factory=list)
    _last: float = 0.0

    def observe(self, event: RunEvent) -> None:
        if isinstance(event, WindowPlanned):
            self._late.append(event.at - event.due)
        if not isinstance(event, WindowCommitted):
            return
        now = time.perf_counter()
        if self._last:
            self._times.append(now - self._last)
        self._last = now
        if (event.window_id + 1) % self.every == 0:
            self._take(event.window_id + 1)
            self._times, self._late = [], []
            self._last = 0.0  # the time that sampling takes is no window's

    def _take(self, windows: int) -> None:
        taken = {
            name: float(sum(path.is_file() for path in folder.rglob("*")))
            for name, folder in self.folders.items()
            if folder.is_dir()
        }
        taken["window ms"] = statistics.median(self._times)
        if self.on_schedule:
            taken["late ms"] = statistics.median(self._late)
        gc.collect()
        if self.heap is not None:
            taken["JVM heap MB"] = self.heap()
        taken |= {f"{kind} MB": size for kind, size in memory_by_kind().items()}
        self.rows.append((windows, taken))
        sample = ", ".join(
            f"{column.name} {taken[column.name] / column.unit:,.1f}"
            for column in COLUMNS
            if column.name in taken
        )
        self.console.print(f"{windows:>7,} windows: {sample}", highlight=False, soft_wrap=True)


def grown(column: Column, values: list[float]) -> tuple[float, float, bool]:
    """Medians of the first and last quarter of the samples, in the column's unit, and whether it has grown.

    >>> grown(Column("files", 1, 0.1, 20), [100, 110, 90, 100, 100, 100, 141, 141])
    (105.0, 141.0, True)
    """
    quarter = max(1, len(values) // 4)
    first, last = (statistics.median(part) / column.unit for part in (values[:quarter], values[-quarter:]))
    return first, last, last > first * (1 + column.growth) + column.slack


def show(console: Console, samples: Samples) -> bool:
    """The table of first against last; whether nothing has grown."""
    if len(samples.rows) < 4:
        console.print("too few samples to compare: at least 4 are needed", style="yellow")
        return True
    table = Table(title=f"{samples.rows[-1][0]:,} windows")
    for name in ("", "first quarter", "last quarter", "most"):
        table.add_column(name, justify="right" if name else "left")
    table.add_column("")
    flat = True
    for column in COLUMNS:
        values = [taken[column.name] for _, taken in samples.rows if column.name in taken]
        if not values:
            continue
        first, last, has_grown = grown(column, values)
        flat &= not has_grown
        verdict = "[red]grown[/]" if has_grown else "[green]flat[/]"
        table.add_row(
            column.name, *(f"{value:,.1f}" for value in (first, last, max(values) / column.unit)), verdict
        )
    console.print(table)
    return flat


def application(width_ms: float = 0) -> Application:
    app = Application("soak", window=f"{width_ms}ms" if width_ms else 0)
    numbers = app.add_operator("numbers", Numbers(), partitions=2)
    count = app.add_operator("count", Count(), partitions=2)
    app.add_stream("numbers", numbers.output, count.data)
    return app


def on_spark(windows: int, width_ms: float, work: Path, samples: Samples) -> None:
    """In slots, with everything that `ridgeline run` does."""
    from ridgeline.engine.driver.run.launch import Options
    from ridgeline.engine.spark.session import start_context
    from ridgeline.plan import plan_application
    from ridgeline.service.measured import ServiceOptions, run_measured

    context = start_context(
        "soak", MASTER, {"spark.local.dir": str(work / "spark")}, streaming=False, local_checkpoint=True
    )
    runtime: Any = context._jvm.java.lang.Runtime.getRuntime()  # noqa: SLF001  what a driver has to ask the JVM with

    def heap() -> float:
        runtime.gc()
        return float(runtime.totalMemory() - runtime.freeMemory())

    samples.heap = heap
    options = Options(MASTER, checkpoint=str(work / "checkpoint"), windows=windows)
    try:
        run_measured(
            plan_application(application(width_ms), {}, {}),
            options,
            ServiceOptions(),
            observe=samples.observe,
            context=context,
        )
    finally:
        context.stop()


def in_process(windows: int, work: Path, samples: Samples) -> None:
    """The same containers, state files, journal and figures, in this process, on the machine's clock."""
    from ridgeline.api.clock import SystemClock
    from ridgeline.engine.driver.checkpoint.folder import Checkpoint
    from ridgeline.engine.driver.run.run import ApplicationRun
    from ridgeline.engine.files.storage import open_storage
    from ridgeline.observe.identity import own_host, run_info
    from ridgeline.observe.plan_topology import planned_event
    from ridgeline.observe.watch import Watch
    from ridgeline.plan import plan_application
    from ridgeline.testing.local_executor import LocalExecutor

    plan = plan_application(application(), {}, {})
    clock = SystemClock()
    storage = open_storage(str(work / "checkpoint"))
    checkpoint = Checkpoint(storage, plan.logical.application)
    watch = Watch(clock.wall, own_host())
    watch.subscribe(samples.observe)
    watch.observe(
        planned_event(
            plan, at=clock.wall(), application_id=checkpoint.run_id, info=run_info("in process", storage.uri)
        )
    )
    executor = LocalExecutor(plan, storage, clock, checkpoint.run_id)

    def no_publisher(operator: str) -> Any:
        raise AssertionError(operator)

    run = ApplicationRun(plan, checkpoint, executor, clock, no_publisher, watch.observe)
    try:
        while run.next_window < windows:
            run.window(run.next_window)
    finally:
        run.close(orderly=True)


def main() -> int:
    """Run it; 0 if nothing has grown."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.soak", description="Many windows: memory, files and window time stay flat."
    )
    parser.add_argument("--spark", action="store_true", help="on Spark, `local[2]`; default: in this process")
    parser.add_argument(
        "--windows", type=int, default=20_000, metavar="N", help="windows in all (default: %(default)s)"
    )
    parser.add_argument(
        "--width",
        type=float,
        default=0,
        metavar="MS",
        help="a window begins every so many ms, with `--spark`; default: as fast as they get",
    )
    parser.add_argument(
        "--every",
        type=int,
        default=500,
        metavar="N",
        help="windows between two samples (default: %(default)s)",
    )
    arguments = parser.parse_args()
    console = Console(width=None if sys.stdout.isatty() else 160)
    work = Path(tempfile.mkdtemp(prefix="ridgeline-soak-"))
    folders = {
        "checkpoint files": work / "checkpoint",
        "Spark files": work / "spark",
        "shared memory files": Path("/dev/shm"),
    }
    samples = Samples(arguments.every, folders, console, on_schedule=arguments.width > 0)
    try:
        if arguments.spark:
            on_spark(arguments.windows, arguments.width, work, samples)
        else:
            in_process(arguments.windows, work, samples)
    except KeyboardInterrupt:
        console.print("interrupted: what there is until here", style="yellow")
    finally:
        shutil.rmtree(work, ignore_errors=True)
    return 0 if show(console, samples) else 1


if __name__ == "__main__":
    sys.exit(main())
