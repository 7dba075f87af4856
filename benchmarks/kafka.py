"""Kafka to Kafka, exactly once: the age of messages beside Kafka Streams and Flink; and reading.

`kafka-age-1k`, `kafka-age-10k`: three operators (valid ones, counted by key, written) from one topic to
another. The age is from the moment at which a message was due to its result at a reader of committed records,
in a process of its own. Ridgeline runs with the window that gave the least age, and folds no latencies of
operators. Kafka Streams runs with `exactly_once_v2`, its state in memory, its cache off, and the
commit interval that gave the least age. Flink runs as one process, with state in memory and checkpoints in a
folder, at the interval that gave the least age: its transactions end with them. Both need a JDK to compile.
A bare loop in Python says what the broker and its client take: its counts do not survive a crash.

`kafka-in`: a topic is read to its end, and rows are counted. The bare consumer decodes as we do, and waits as
briefly as ours where it has read ahead: librdkafka's default, a second, makes it 5 times slower. Spark's
source reads in micro-batches of as many messages as our windows have. Spark reads the JSON and Python gets
columns as Arrow batches, which is its fastest way; with rows in Python it is slower.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from benchmarks import spark
from benchmarks.flink import OPENS
from benchmarks.frame import Benchmark, Figures, Goal, Round
from benchmarks.regions import Arrived
from ridgeline import Application, InputPort, KeyedState, Operator, OutputPort, Schema
from ridgeline.connectors.kafka import KafkaInput, KafkaOutput
from ridgeline.testing.services.kafka import Kafka

P50, P99, RATE = "p50 age seconds", "p99 age seconds", "messages/s"
_STREAMS = Path(__file__).with_name("kafka_streams")
_FLINK = Path(__file__).with_name("kafka_flink")
_SPARK_KAFKA = Path(__file__).parents[1] / "tests" / "support" / "spark-kafka.xml"
_WARM_SECONDS, _SECONDS = 15.0, 20.0
_MESSAGES = 1_000_000
_WINDOW = "20ms"
"""The width that gave the least age at the 99th percentile: at 1,000 messages a second of "10ms", "15ms" and
"20ms", at 10,000 of "10ms", "20ms" and "35ms"."""
_COMMIT_MILLISECONDS = 5
_CHECKPOINT = "30ms"
"""Flink's shortest interval, 10 ms, makes the age greater: its checkpoints take longer than that."""
_FLINK_SETTINGS = {
    "execution.buffer-timeout.interval": "0ms",
    "execution.checkpointing.storage": "filesystem",
    "state.backend.type": "hashmap",
    "pipeline.object-reuse": "true",
}
_AT_ONCE = 10_000


class Event(NamedTuple):
    number: int
    key: str
    created: float


class Counted(NamedTuple):
    key: str
    count: int
    created: float


class Count(Operator):
    """Count the events of each key."""

    events = InputPort(Event, key="key")
    counted = OutputPort(Counted)
    seen = KeyedState(int, default=0)

    @events.process
    def count(self, event: Event) -> None:
        """One more."""
        self.seen[event.key] += 1
        self.counted.emit(Counted(event.key, self.seen[event.key], event.created))


class Broker(Kafka):
    """A broker with the options of Kafka's own start script; tests have those that start soonest."""

    JAVA_OPTIONS = (
        *("-Xms1g", "-Xmx1g", "-server", "-XX:+UseG1GC", "-XX:MaxGCPauseMillis=20"),
        *("-XX:InitiatingHeapOccupancyPercent=35", "-XX:+ExplicitGCInvokesConcurrent"),
    )


def _ages(of_round: Round, kafka: Any, source: str, target: str, rate: int) -> Figures:
    seconds = 3.0 if of_round.quick else _SECONDS
    words = [kafka.servers, source, target, rate, _WARM_SECONDS, seconds]
    command = [sys.executable, "-m", "benchmarks.kafka_clock", *map(str, words)]
    found = json.loads(subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout)
    if not found:
        raise ValueError("no message was younger than a second: the rate is too high for this machine")
    of_round.note(
        f"{len(found)} messages, {len(found) / seconds:,.0f}/s, the oldest {max(found) * 1e3:.1f} ms"
    )
    p50, p99 = np.percentile(found, [50, 99])
    return {P50: [float(p50)], P99: [float(p99)]}


def ours(of_round: Round, *, rate: int) -> Figures:
    """The age with Ridgeline."""
    with Broker() as kafka:
        source, target = kafka.topic(partitions=2), kafka.topic(partitions=2)
        app = Application("kafka-age", window=_WINDOW, metrics_recording_level="OFF")
        events = app.read("events", KafkaInput(source, servers=kafka.servers, schema=Event))
        counted = events.filter("valid", "number >= 0").process("count", Count())
        counted.write("out", KafkaOutput(target, key="key", servers=kafka.servers))
        folder = str(of_round.folder / "checkpoint")
        with app.start(spark.MASTER, port=None, quiet=True, checkpoint=folder):
            return _ages(of_round, kafka, source, target, rate)


def streams(of_round: Round, *, rate: int) -> Figures:
    """The age with Kafka Streams."""
    from ridgeline.testing.services.parts import Jars

    class_path = Jars(_STREAMS / "pom.xml").class_path
    with Broker() as kafka:
        source, target = kafka.topic(partitions=2), kafka.topic(partitions=2)
        java = shutil.which("java") or "java"
        command = [java, "-Xmx512m", "-cp", class_path, str(_STREAMS / "Totals.java"), f"totals-{source}"]
        command += [kafka.servers, source, target, str(_COMMIT_MILLISECONDS), str(of_round.folder)]
        with _running(command):
            return _ages(of_round, kafka, source, target, rate)


def flink(of_round: Round, *, rate: int, every: str = _CHECKPOINT) -> Figures:
    """The age with Flink. `every`: the interval of checkpoints, which end transactions."""
    from ridgeline.testing.services.parts import Jars

    class_path = Jars(_FLINK / "pom.xml").class_path
    classes = of_round.folder / "classes"
    subprocess.run(["javac", "-cp", class_path, "-d", classes, _FLINK / "Counts.java"], check=True)
    settings = {"execution.checkpointing.interval": every, **_FLINK_SETTINGS}
    with Broker() as kafka:
        source, target = kafka.topic(partitions=2), kafka.topic(partitions=2)
        command = ["java", "-Xmx1g", *OPENS, "-cp", f"{classes}:{class_path}", "Counts"]
        command += [kafka.servers, source, target, str(of_round.folder)]
        command += [f"{name}={value}" for name, value in settings.items()]
        with _running(command):
            return _ages(of_round, kafka, source, target, rate)


def bare(of_round: Round, *, rate: int) -> Figures:
    """The age with a bare loop in Python: a bound for programs in Python."""
    with Broker() as kafka:
        source, target = kafka.topic(partitions=2), kafka.topic(partitions=2)
        command = [sys.executable, "-m", "benchmarks.kafka_bare", kafka.servers, source, target]
        with _running(command):
            return _ages(of_round, kafka, source, target, rate)


@contextmanager
def _running(command: list[str]) -> Iterator[None]:
    """A process that is ended with the block."""
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        yield
    finally:
        process.terminate()
        with suppress(subprocess.TimeoutExpired):
            process.wait(20)
        process.kill()


# Reading ---------------------------------------------------------------------------------------------------


class Sink(Operator):
    """Counts rows."""

    rows = InputPort(Event)

    def begin_window(self, window_id: int) -> None:
        """Nothing yet."""
        self.counted = 0

    @rows.process_batch
    def take(self, batch: pa.RecordBatch) -> None:
        """Count a batch."""
        self.counted += batch.num_rows

    def end_window(self) -> None:
        """Hand over what there was."""
        self.context.hand_over(self.counted)

    def publisher(self) -> Arrived:
        """The driver's half."""
        return Arrived()


def _filled(kafka: Any, count: int) -> str:
    """A topic with messages."""
    from confluent_kafka import Producer

    topic: str = kafka.topic(partitions=2)
    producer = Producer({"bootstrap.servers": kafka.servers, "linger.ms": 20})
    for number in range(count):
        value = b'{"number":%d,"key":"k%d","created":%d.5}' % (number, number % 100, number)
        while True:
            try:
                producer.produce(topic, value, b"k%d" % (number % 100))
            except BufferError:
                producer.poll(0.05)
            else:
                break
    producer.flush(60)
    return topic


def read_ours(of_round: Round) -> Figures:
    """A run that reads the topic to its end: from the commit of its first window to that of its last."""
    count = 50_000 if of_round.quick else _MESSAGES
    with Broker() as kafka:
        topic = _filled(kafka, count)
        app = Application("kafka-in", window="100ms")
        limits = {"until": "end", "window_records": count // 10}
        source = KafkaInput(topic, servers=kafka.servers, schema=Event, **limits)
        rows = app.read("events", source)
        rows.write("sink", Sink())
        folder = str(of_round.folder / "checkpoint")
        with app.start(spark.MASTER, port=None, quiet=True, checkpoint=folder) as handle:
            handle.wait()
    if Arrived.counts[-1] != count:
        raise ValueError(f"{count} messages were written; got {Arrived.counts[-1]}")
    seconds = Arrived.moments[-1] - Arrived.moments[0]
    return {RATE: [(count - Arrived.counts[0]) / seconds]}


def read_bare(of_round: Round) -> Figures:
    """A consumer in a loop, with the decoder and the batches of `KafkaInput`."""
    from confluent_kafka import Consumer, TopicPartition

    from ridgeline.operators.payloads import decode, decoder_of

    count = 50_000 if of_round.quick else _MESSAGES
    with Broker() as kafka:
        topic = _filled(kafka, count)
        consumer = Consumer(
            {
                "bootstrap.servers": kafka.servers,
                "group.id": "bare",
                "enable.auto.commit": False,
                "isolation.level": "read_committed",
                "fetch.queue.backoff.ms": 10,
            }
        )
        decoder = decoder_of("json", Schema(Event))
        consumer.assign([TopicPartition(topic, number, 0) for number in range(2)])
        rows, begun = 0, 0.0
        while rows < count:
            messages = consumer.consume(min(_AT_ONCE, count - rows), 1.0)
            begun = begun or time.monotonic()
            rows += decode(decoder, [message.value() for message in messages]).batch.num_rows
        return {RATE: [count / (time.monotonic() - begun)]}


def read_spark(of_round: Round) -> Figures:
    """Spark's source into Python: from the end of the first micro-batch to that of the last."""
    from pyspark.sql import functions

    from ridgeline.testing.services.parts import Jars

    count = 50_000 if of_round.quick else _MESSAGES
    jars = {"spark.jars": ",".join(map(str, Jars(_SPARK_KAFKA).paths))}
    with Broker() as kafka:
        topic = _filled(kafka, count)
        session = spark.session("kafka-in", jars, spark.OUR_DAEMON)
        options = {
            "kafka.bootstrap.servers": kafka.servers,
            "subscribe": topic,
            "startingOffsets": "earliest",
            "maxOffsetsPerTrigger": str(count // 10),
            "kafka.isolation.level": "read_committed",
        }
        text = functions.col("value").cast("string")
        row = functions.from_json(text, "number long, key string, created double").alias("row")
        rows = session.readStream.format("kafka").options(**options).load().select(row).select("row.*")
        moments: list[float] = []
        counts: list[int] = []

        def counted(batch: Any, _number: int) -> None:
            counts.append(sum(row.rows for row in batch.mapInArrow(_lengths, "rows long").collect()))
            moments.append(time.monotonic())

        writer = rows.writeStream.option("checkpointLocation", str(of_round.folder / "checkpoint"))
        writer.trigger(availableNow=True).foreachBatch(counted).start().awaitTermination()
    if sum(counts) != count:
        raise ValueError(f"{count} messages were written; Spark gave Python {sum(counts)}")
    return {RATE: [(count - counts[0]) / (moments[-1] - moments[0])]}


def _lengths(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The number of rows of each batch."""
    for batch in batches:
        yield pa.RecordBatch.from_pydict({"rows": [batch.num_rows]})


_RATES = {"kafka-age-1k": 1_000, "kafka-age-10k": 10_000}
_AGES = {"ours": ours, "Kafka Streams": streams, "Flink": flink, "bare loop": bare}

BENCHMARKS = (
    *(
        Benchmark(
            name=name,
            title=f"{name}: {rate:,} messages/s from topic to topic, exactly once, by a reader's clock",
            contestants={who: partial(run, rate=rate) for who, run in _AGES.items()},
            goals=[
                Goal(figure=P99, at_most=0.05),
                *(
                    Goal(figure=figure, against=other, at_most=1.0)
                    for other in ("Kafka Streams", "Flink")
                    for figure in (P50, P99)
                ),
            ],
            rounds=2,
            budget_seconds=600,
            part_of_all=False,
        )
        for name, rate in _RATES.items()
    ),
    Benchmark(
        name="kafka-in",
        title="kafka-in: a million messages of JSON read and decoded; a bare consumer, Spark's source",
        contestants={"ours": read_ours, "bare consumer": read_bare, "Spark's source": read_spark},
        goals=[
            Goal(figure=RATE, against="bare consumer", at_least=0.8),
            Goal(figure=RATE, against="Spark's source", at_least=3.0),
        ],
        rounds=2,
        budget_seconds=300,
        part_of_all=False,
    ),
)
