"""The same two stages as a query by hand: `two_stages_by_hand.py CHECKPOINT`.

Ends after its first micro-batch.
"""

import sys
import threading
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
from pyspark.sql import functions as F  # noqa: N812  as everybody calls it

from benchmarks import spark

BATCH = pa.record_batch([pa.array(range(50)), pa.array(range(50))], names=["key", "value"])
FAST_START = {"spark.driver.extraJavaOptions": "-Xss16m -XX:TieredStopAtLevel=1 -XX:+UseSerialGC"}


def first(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for _batch in batches:
        yield BATCH


def second(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    yield pa.record_batch([pa.array([sum(batch.num_rows for batch in batches)])], names=["rows"])


def main() -> None:
    done = threading.Event()

    def collect(batch: Any, _number: int) -> None:
        if done.is_set():
            return
        batch.collect()
        done.set()

    source = (
        spark.session("two-stages", FAST_START)
        .readStream.format("rate-micro-batch")
        .option("rowsPerBatch", 2)
    )
    numbers = source.option("numPartitions", 2).load().mapInArrow(first, "key long, value long")
    counts = numbers.repartition(2, F.col("key")).mapInArrow(second, "rows long")
    query = counts.writeStream.option("checkpointLocation", sys.argv[1]).foreachBatch(collect).start()
    while not query.awaitTermination(0.1) and not (done.is_set() and query.lastProgress):
        pass


if __name__ == "__main__":
    main()
