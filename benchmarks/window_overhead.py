"""What a window costs: Ridgeline against a Structured Streaming query written by hand, two stages, two partitions, little data.

    python benchmarks/window_overhead.py [WINDOWS]

Both run in this invocation, one after the other and again (A B A B), each in a process of its own on `local[2]`, with the best settings
that we know (Unix domain sockets, no adaptive execution, a checkpoint manager for local disks). The first third of the windows is warm-up.
Ours commits and writes state; the query by hand logs its offsets and collects.
"""

from __future__ import annotations

import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from itertools import pairwise
from typing import Any, NamedTuple

import pyarrow as pa

TUPLES = 100


def ours(windows: int) -> list[float]:
    """Seconds per window: 2 inputs -> shuffle by key -> 2 keyed counters, state and manifest written."""
    from ridgeline import Application, InputOperator, InputPort, KeyedState, Operator, OutputPort
    from ridgeline.engine.launch import Options, launch
    from ridgeline.measure.events import Event, WindowCommitted
    from ridgeline.plan import plan_application

    class Number(NamedTuple):
        key: int
        value: int

    batch = pa.record_batch([pa.array(range(TUPLES)), pa.array(range(TUPLES))], names=["key", "value"])

    class Numbers(InputOperator):
        output = OutputPort(Number)

        def emit_tuples(self) -> None:
            self.output.emit_batch(batch)

    class Count(Operator):
        data = InputPort(Number, key="key")
        totals = KeyedState(int, default=0)

        @data.process_batch
        def add(self, batch: pa.RecordBatch) -> None:
            keys = batch["key"].to_numpy()
            self.totals.put_many(keys, self.totals.get_many(keys) + 1)

    app = Application("overhead", window=0)
    numbers = app.add_operator("numbers", Numbers(), partitions=2)
    count = app.add_operator("count", Count(), partitions=2)
    app.add_stream("numbers", numbers.output, count.data)
    told: list[Event] = []
    launch(plan_application(app, {}, {}), Options("local[2]", windows=windows), observe=told.append)
    committed = [event for event in told if isinstance(event, WindowCommitted)]
    warm = committed[len(committed) // 3 :]
    phases = ("began", "launched", "returned", "staged", "committed", "published")
    split = {
        after: statistics.median(getattr(event, after) - getattr(event, before) for event in warm) * 1e3
        for before, after in pairwise(phases)
    }
    print("  until: " + ", ".join(f"{name} {value:.1f} ms" for name, value in split.items()), file=sys.stderr)
    return [event.published - event.began for event in committed]


def by_hand(windows: int) -> list[float]:
    """Seconds per micro-batch: rate source -> mapInArrow -> repartition -> mapInArrow -> collect, as a user writes it."""
    from pyspark.sql import SparkSession
    from pyspark.sql import functions as F  # noqa: N812  as everybody calls it

    small = pa.record_batch([pa.array(range(TUPLES)), pa.array(range(TUPLES))], names=["key", "value"])

    def first(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for _batch in batches:
            yield small

    def second(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield pa.record_batch([pa.array([sum(batch.num_rows for batch in batches)])], names=["rows"])

    builder: Any = SparkSession.builder
    manager = "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
    settings = {
        "spark.ui.enabled": "false",
        "spark.log.level": "OFF",
        "spark.python.unix.domain.socket.enabled": "true",
        "spark.sql.streaming.checkpointFileManagerClass": manager,
        "spark.sql.adaptive.enabled": "false",
        "spark.sql.shuffle.partitions": "2",
        "spark.driver.extraJavaOptions": "-Xss16m",
    }
    spark = builder.master("local[2]").config(map=settings).getOrCreate()
    times: list[float] = []
    done = threading.Event()
    last = [time.perf_counter()]

    def each(frame: Any, _batch: int) -> None:
        frame.collect()
        now = time.perf_counter()
        times.append(now - last[0])
        last[0] = now
        if len(times) >= windows:
            done.set()

    source = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 20).option("numPartitions", 2).load()
    frame = source.mapInArrow(first, "key long, value long").repartition(2, F.col("key")).mapInArrow(second, "rows long")
    frame.writeStream.option("checkpointLocation", tempfile.mkdtemp()).foreachBatch(each).start()
    done.wait(600)
    return times[:windows]


def main() -> None:
    """Run both twice, print medians and their ratio."""
    windows = int(sys.argv[1]) if len(sys.argv) > 1 else 300
    found: dict[str, list[float]] = {"ours": [], "by_hand": []}
    for name in ("ours", "by_hand") * 2:
        command = [sys.executable, __file__, "--one", name, str(windows)]
        environment = {**os.environ, "PYSPARK_PYTHON": sys.executable}
        quiet = subprocess.DEVNULL if name == "by_hand" else None
        printed = subprocess.run(command, check=True, stdout=subprocess.PIPE, stderr=quiet, env=environment).stdout
        times = json.loads(printed.splitlines()[-1])
        found[name] += sorted(times[len(times) // 3 :])
    medians = {name: statistics.median(times) * 1e3 for name, times in found.items()}
    print(f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}, {windows} windows")
    for name, times in found.items():
        ordered = sorted(times)
        spread = f"p10 {ordered[len(ordered) // 10] * 1e3:.0f}, p90 {ordered[len(ordered) * 9 // 10] * 1e3:.0f}"
        print(f"{name:>8}: median {medians[name]:.0f} ms ({spread})")
    print(f"   ratio: {medians['ours'] / medians['by_hand']:.2f}")


if __name__ == "__main__":
    if "--one" in sys.argv:
        name, windows = sys.argv[2:4]
        print(json.dumps({"ours": ours, "by_hand": by_hand}[name](int(windows))), flush=True)
        os._exit(0)
    main()
