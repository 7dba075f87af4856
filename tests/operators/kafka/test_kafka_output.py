"""`KafkaOutput` against a real broker: what readers of committed records see."""

import json
import random
import threading
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, ClassVar, NamedTuple

import pytest
from confluent_kafka import OFFSET_BEGINNING, Consumer, TopicPartition

from kafka_totals import application as totals_application
from ridgeline import Application, RidgelineError
from ridgeline.api.clock import SystemClock
from ridgeline.connect.window_output import WindowOutput
from ridgeline.connectors.kafka import KafkaInput, KafkaOutput
from ridgeline.connectors.kafka._sink import KafkaSink
from ridgeline.testing import (
    END_WINDOW,
    ConnectorRow,
    ConnectorTarget,
    Faults,
    ListInput,
    connector_checks,
    run_local,
)
from support.operators.kafka_topics import ends, fill, numbers, seen, values
from support.waiting import wait_until

pytestmark = pytest.mark.slow


class Total(NamedTuple):
    key: str
    number: int


class Text(NamedTuple):
    text: str


def totals(count, keys=7, first=0):
    return [Total(f"k{number % keys}", number) for number in range(first, first + count)]


def application(rows, output, partitions=1, name="writing", schema=Total, **attributes):
    app = Application(name, window="20ms")
    app.read("source", ListInput(schema, rows)).write("out", output, partitions=partitions, **attributes)
    return app


def in_windows(rows, size):
    made = []
    for place in range(0, len(rows), size):
        made += [*rows[place : place + size], END_WINDOW]
    return made


def by_key(kafka, topic):
    """The numbers of each key, in the order of the partition, and the partitions of each key."""
    found, where = {}, {}
    for partition, messages in seen(kafka, topic).items():
        for message in messages:
            key = message.key().decode()
            found.setdefault(key, []).append(json.loads(message.value())["number"])
            where.setdefault(key, set()).add(partition)
    assert all(len(places) == 1 for places in where.values())
    return found


@pytest.mark.parametrize("topics", [1, 2, 3, 5])
@pytest.mark.parametrize("partitions", [1, 2, 3, 5])
def test_each_row_is_there_once_in_order_by_key(kafka, topics, partitions):
    topic, rows = kafka.topic(partitions=topics), totals(300)
    run_local(
        application(in_windows(rows, 40), KafkaOutput(topic, key="key", servers=kafka.servers), partitions)
    )
    expected = {f"k{key}": [row.number for row in rows if row.key == f"k{key}"] for key in range(7)}
    assert by_key(kafka, topic) == expected


@pytest.mark.parametrize("seed", range(6))
def test_kafka_to_kafka_with_failures(kafka, seed, tmp_path):
    dice = random.Random(seed)
    source = kafka.topic(partitions=dice.choice([1, 2, 3, 5]))
    topic = kafka.topic(partitions=dice.choice([1, 3]))
    fill(kafka, source, numbers(400))
    app = Application("through", window="20ms")
    read = KafkaInput(source, servers=kafka.servers, schema=Total, key="key", until="end", window_records=37)
    stream = app.read("source", read, partitions=dice.choice([1, 2, 3]))
    stream.write("out", KafkaOutput(topic, key="key", servers=kafka.servers), partitions=dice.choice([1, 2]))
    faults = Faults(seed, quiet=True)
    run_local(app, checkpoint=tmp_path, interleave=seed, faults=faults)
    expected = {f"k{key}": list(range(key, 400, 7)) for key in range(7)}
    assert by_key(kafka, topic) == expected


def test_times_headers_tombstones_and_partitions(kafka):
    class Row(NamedTuple):
        id: int
        text: str
        at: datetime
        trace: str | None
        gone: bool
        place: int

    topic = kafka.topic(partitions=3)
    at = datetime(2026, 1, 1, tzinfo=UTC)
    rows = [Row(1, "a", at, "t", False, 2), Row(2, "b", at, None, True, 0)]
    columns = {"key": "id", "timestamp": "at", "deleted": "gone", "partition": "place"}
    output = KafkaOutput(topic, servers=kafka.servers, headers={"trace": "trace"}, **columns)
    run_local(application(rows, output, schema=Row))
    found = seen(kafka, topic)
    [first], [second] = found[2], found[0]
    assert first.timestamp()[1] == at.timestamp() * 1000
    assert first.headers() == [("trace", b"t")]
    assert json.loads(first.value()) == {"id": 1, "text": "a", "at": "2026-01-01T00:00:00.000000Z"}
    assert (second.key(), second.value(), second.headers()) == (b"2", None, [("trace", None)])


def test_keys_are_where_java_puts_them(kafka):
    """The hash of Java's client for these keys, modulo 5; see `DefaultPartitioner` of Kafka's clients."""
    topic = kafka.topic(partitions=5)
    hashes = {
        "21": -973932308,
        "foobar": -790332482,
        "a-little-bit-long-string": -985981536,
        "a-little-bit-longer-string": -1486304829,
    }
    rows = [Total(key, 0) for key in hashes]
    run_local(application(rows, KafkaOutput(topic, key="key", servers=kafka.servers)))
    where = {m.key().decode(): place for place, messages in seen(kafka, topic).items() for m in messages}
    assert where == {key: (number & 0x7FFFFFFF) % 5 for key, number in hashes.items()}


def test_a_row_that_is_too_large(kafka):
    topic = kafka.topic(config={"max.message.bytes": "2000"})

    rows = [Text("a"), Text("b" * 5000), Text("c"), END_WINDOW, Text("d" * 2_000_000), Text("e")]
    output = KafkaOutput(topic, servers=kafka.servers)
    with pytest.raises(
        RidgelineError, match=r"`out` cannot write a row of window 0: Kafka refuses it.*on_error=SKIP"
    ):
        run_local(application(rows, output, schema=Text))
    assert values(kafka, topic) == []
    run_local(application(rows, output, schema=Text, on_error="SKIP"))
    assert [one["text"] for one in values(kafka, topic)] == ["a", "c", "e"]


@pytest.mark.parametrize("transactional", [True, False])
@pytest.mark.parametrize(("bad", "options"), [(1, {"linger.ms": 50}), (5, {"linger.ms": 50}), (50, None)])
def test_good_rows_are_kept_where_others_are_refused(kafka, transactional, bad, options):
    """With `options` the broker refuses a batch, without them the client the bad rows."""
    topic = kafka.topic(config={"max.message.bytes": "2000"})

    long = [Text("b" * (5000 + number)) for number in range(bad)]
    first, second = long[: bad // 2 + 1], long[bad // 2 + 1 :]
    rows = [Text("a"), *first, Text("c"), *second, Text("d"), END_WINDOW, Text("e")]
    options = {} if options is None else {"message.max.bytes": 1_000_000, **options}
    output = KafkaOutput(topic, servers=kafka.servers, options=options, transactional=transactional)
    run_local(application(rows, output, schema=Text, on_error="SKIP"))
    found = [one["text"] for one in values(kafka, topic)]
    assert set(found) == {"a", "c", "d", "e"}
    assert len(found) == 4 or not transactional
    with pytest.raises(
        RidgelineError, match=r"`out` cannot write a row of window 0.*value b'..text.....bbbb"
    ):
        run_local(application(rows, output, schema=Text))


def test_topics_that_are_not_there(kafka):
    topic = kafka.topic()
    output = KafkaOutput(f"{topic}x", servers=kafka.servers)
    with pytest.raises(
        RidgelineError, match=rf"no topic `{topic}x`.*topic_partitions.*did you mean `{topic}`"
    ):
        run_local(application(totals(3), output))
    options = {"cleanup.policy": "compact"}
    properties = {"servers": kafka.servers, "topic_partitions": 3, "topic_options": options}
    with pytest.raises(RidgelineError, match=r"give it a .key."):
        run_local(application(totals(3), KafkaOutput(f"{topic}x", **properties)))
    output = KafkaOutput(f"{topic}x", key="key", **properties)
    run_local(application(totals(30), output))
    assert len(seen(kafka, f"{topic}x")) == 3
    assert len(values(kafka, f"{topic}x")) == 30


def test_columns_that_are_not_there_are_said(kafka):
    topic = kafka.topic()
    output = KafkaOutput(topic, servers=kafka.servers, headers={"h": "kay"})
    with pytest.raises(RidgelineError, match=r"`headers` names `kay`.*did you mean `key`"):
        run_local(application(totals(3), output))


def test_without_transactions_all_see_it(kafka):
    topic = kafka.topic(partitions=2)
    output = KafkaOutput(topic, key="key", servers=kafka.servers, transactional=False)
    run_local(application(in_windows(totals(50), 7), output))
    assert sorted(one["number"] for one in values(kafka, topic, "read_uncommitted")) == list(range(50))


class Cut(KafkaSink):
    """Its third transaction loses the broker before it gets its mark."""

    kafka: ClassVar[Any]
    marks: ClassVar[int]
    opened: ClassVar[int]

    def open(self, context):
        Cut.opened += 1
        super().open(context)

    def _send_mark(self, mark):
        Cut.marks += 1
        if Cut.marks == 3:
            Cut.kafka.kill()
        return super()._send_mark(mark)


class CutOutput(KafkaOutput):
    def sink(self):
        made = super().sink()
        return Cut(made._set, made._maker)


def test_a_client_that_hangs_is_left_behind(kafka, monkeypatch):
    """The client's call does not mind its timeout while the coordinator of the group is away."""
    monkeypatch.setattr("ridgeline.connectors.kafka._sink._SECONDS", 3.0)
    monkeypatch.setattr("ridgeline.connectors.kafka._sink._HANGS_SECONDS", 1.0)
    topic, rows = kafka.topic(), totals(12)
    Cut.kafka, Cut.marks, Cut.opened = kafka, 0, 0

    def again():
        wait_until(lambda: Cut.opened > 1, "a new client")
        kafka.restart()

    starting = threading.Thread(target=again)
    starting.start()
    output = CutOutput(topic, key="key", servers=kafka.servers, drain_seconds=120)
    run_local(application(in_windows(rows, 2), output), clock=SystemClock())
    starting.join()
    assert sorted(one["number"] for one in values(kafka, topic)) == list(range(12))


class Late(KafkaSink):
    """Its second transaction is open until the broker has aborted it, as if the driver had stood still."""

    kafka: ClassVar[Any]
    marks: ClassVar[int]

    def _send_mark(self, mark):
        found = super()._send_mark(mark)
        Late.marks += 1
        if Late.marks == 2:
            topic = self._maker.topic
            self._producer.flush(60)
            whole = ends(Late.kafka, topic, "read_uncommitted")[0]
            wait_until(lambda: ends(Late.kafka, topic)[0] >= whole, "the broker to abort it")
        return found


class LateOutput(KafkaOutput):
    def sink(self):
        made = super().sink()
        return Late(made._set, made._maker)


def test_a_transaction_that_the_broker_aborts_is_written_again_and_said(kafka):
    topic, rows = kafka.topic(), totals(8)
    Late.kafka, Late.marks = kafka, 0
    output = LateOutput(topic, servers=kafka.servers, options={"transaction.timeout.ms": 2000})
    run = run_local(application(in_windows(rows, 2), output), clock=SystemClock())
    assert sorted(one["number"] for one in values(kafka, topic)) == list(range(8))
    said = [event.text for event in run.events if "Kafka has aborted" in getattr(event, "text", "")]
    assert len(said) == 1, said
    assert said[0].startswith("`out`: Kafka has aborted a transaction before its commit")
    assert "its rows are written again" in said[0]


_PARTITIONS = 2
_MOST_BYTES = 200_000


class Topic(ConnectorTarget):
    why_not_down = "the client connects to the addresses that brokers announce"

    def __init__(self, kafka: Any, *, transactional: bool) -> None:
        self.kafka, self.topic = kafka, kafka.topic(partitions=_PARTITIONS)
        self.transactional = transactional

    def output(self) -> WindowOutput:
        return KafkaOutput(
            self.topic, servers=self.kafka.servers, key="key", format="json", transactional=self.transactional
        )

    def poison(self) -> ConnectorRow | None:
        return ConnectorRow(10**6, 99, "poison " * 10 * _MOST_BYTES, 1.0)

    def consumer(self, isolation: str) -> Consumer:
        return Consumer(
            {
                "bootstrap.servers": self.kafka.direct_servers,
                "group.id": f"{self.topic}.reader",
                "enable.auto.commit": False,
                "isolation.level": isolation,
            }
        )

    def rows(self) -> Sequence[Any]:
        """What a reader of committed records finds, once no transaction is open."""
        every, committed = self.consumer("read_uncommitted"), self.consumer("read_committed")
        places = [TopicPartition(self.topic, number, OFFSET_BEGINNING) for number in range(_PARTITIONS)]

        def ends(consumer: Consumer) -> list[int]:
            return [consumer.get_watermark_offsets(place, 30.0)[1] for place in places]

        try:
            wait_until(lambda: ends(every) == ends(committed), "transactions to end", every=0.02)
            committed.assign(places)
            found, last = [], ends(committed)

            def is_read() -> bool:
                message = committed.poll(0.1)
                if message is not None and message.error() is None:
                    row = json.loads(message.value())
                    found.append((row["id"], row["key"], row["text"], row["value"]))
                at = [place.offset for place in committed.position(places)]
                return all(one >= end or not end for one, end in zip(at, last, strict=True))

            wait_until(is_read, "all rows", every=0)
        finally:
            every.close()
            committed.close()
        return found


@pytest.mark.slow
@pytest.mark.parametrize("transactional", [True, False])
def test_kafka_keeps_its_guarantee(kafka: Any, transactional: bool) -> None:
    guarantee = "exactly once" if transactional else "at least once"
    report = connector_checks(lambda: Topic(kafka, transactional=transactional), guarantee=guarantee)
    assert report.guarantee == guarantee


def test_totals_by_country_and_minute(kafka, tmp_path):
    source, begin = kafka.topic(partitions=2), datetime(2026, 1, 1, 12, tzinfo=UTC)
    rows = [
        ("CH" if number % 3 else "NO", number, begin + timedelta(seconds=number)) for number in range(200)
    ]
    orders = [
        {"value": {"country": c, "cents": n, "time": t.isoformat()}, "partition": n % 2} for c, n, t in rows
    ]
    fill(kafka, source, [*orders, {"value": b"{", "partition": 0}])
    app = totals_application(kafka.servers, source, f"{source}-totals")
    run_local(app, properties={"orders.until": "end"}, checkpoint=tmp_path)
    expected = {}
    for country, cents, time in rows:
        if cents > 0:
            start = time.replace(second=0)
            count, total = expected.get((country, start), (0, 0))
            expected[country, start] = count + 1, total + cents
    found = values(kafka, f"{source}-totals")
    assert len(found) == len(expected)
    got = {
        (one["country"], datetime.fromisoformat(one["window_start"])): (one["orders"], one["cents"])
        for one in found
    }
    assert got == expected
