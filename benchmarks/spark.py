"""Spark as the alternatives use it: `local[2]` with the best known settings, and timed micro-batches."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from itertools import pairwise
from typing import Any

from benchmarks.frame import Round

MASTER = "local[2]"
SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.log.level": "OFF",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.extraJavaOptions": "-Xss16m",
    "spark.hadoop.fs.file.impl": "org.apache.hadoop.fs.RawLocalFileSystem",
    "spark.locality.wait": "0",
    "spark.python.unix.domain.socket.enabled": "true",
    "spark.shuffle.compress": "false",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.adaptive.streaming.stateless.enabled": "false",
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.streaming.checkpointFileManagerClass": (
        "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
    ),
    "spark.sql.streaming.noDataMicroBatches.enabled": "false",
    "spark.sql.streaming.pollingDelay": "1ms",
    "spark.sql.streaming.metricsEnabled": "false",
}
_STATE = "org.apache.spark.sql.execution.streaming.state"
ROCKS = {
    "spark.sql.streaming.stateStore.providerClass": f"{_STATE}.RocksDBStateStoreProvider",
    "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
}
"""For queries with state."""
OUR_DAEMON = {"spark.python.daemon.module": "ridgeline.engine.spark.daemon"}
"""Workers forked with all imports done and no full collection after each task: our own daemon."""


def session(name: str, *more: dict[str, str]) -> Any:
    """A SparkSession with these settings."""
    from pyspark.sql import SparkSession

    from ridgeline.engine.spark.java import find_java

    find_java()
    builder: Any = SparkSession.builder
    settings = dict(SETTINGS)
    for settings_more in more:
        settings |= settings_more
    return builder.master(MASTER).appName(name).config(map=settings).getOrCreate()


def batch_times(
    of_round: Round, frame: Any, batches: int, each: Callable[[Any, int], None], **options: str
) -> list[float]:
    """Seconds from the end of one micro-batch to that of the next: all that a batch takes.

    `each(batch, number)` is called for every micro-batch. `options` of the writer; `outputMode` among them.
    Raises RuntimeError if the query ends before `batches` are done.
    """
    ends: list[float] = []
    done = threading.Event()

    def measured(batch: Any, number: int) -> None:
        each(batch, number)
        ends.append(time.perf_counter())
        if len(ends) > batches:
            done.set()

    mode = options.pop("outputMode", "append")
    writer = (
        frame.writeStream.option("checkpointLocation", str(of_round.folder / "checkpoint"))
        .outputMode(mode)
        .options(**options)
    )
    query = writer.foreachBatch(measured).start()
    while not done.wait(0.5):
        if not query.isActive:
            raise RuntimeError(
                f"the query ended after {len(ends)} of {batches} batches: {str(query.exception())[:500]}"
            )
    return [after - before for before, after in pairwise(ends[: batches + 1])]
