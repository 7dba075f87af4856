"""`KafkaInput` against a real broker."""

import json
import random
from datetime import UTC, datetime
from typing import NamedTuple

import pytest
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient, NewPartitions

from ridgeline import Application, RidgelineError
from ridgeline.api.clock import SystemClock
from ridgeline.connect import SourceContext, SourceUnavailableError
from ridgeline.connectors.kafka import KafkaInput, KafkaRecord
from ridgeline.testing import CollectorSink, run_local
from support import services
from support.operators.kafka_topics import SECONDS, fill, numbers, producer

pytestmark = pytest.mark.slow


class Number(NamedTuple):
    number: int


class Placed(NamedTuple):
    number: int
    key: str
    topic: str
    where: int
    offset: int
    at: datetime
    trace: str | None


def application(source, schema, partitions=1, **attributes):
    app = Application("reading", window="20ms")
    read = app.read("source", source, partitions=partitions, **attributes)
    read.write("sink", CollectorSink(schema))
    return app


def read_all(kafka, topic, partitions=1, schema=Number, on_error=None, **properties):
    """What a run emits that ends with what is there."""
    source = KafkaInput(topic, servers=kafka.servers, schema=schema, until="end", **properties)
    attributes = {} if on_error is None else {"on_error": on_error}
    app = application(source, KafkaRecord if schema is None else schema, partitions, **attributes)
    return run_local(app)


@pytest.mark.parametrize("topics", [1, 2, 3, 5])
@pytest.mark.parametrize("partitions", [1, 2, 3, 5])
def test_each_message_is_emitted_once_in_order(kafka, topics, partitions):
    topic = kafka.topic(partitions=topics)
    fill(kafka, topic, numbers(500))
    metadata = {"where": "partition", "at": "timestamp", "trace": "header.t"}
    metadata |= {name: name for name in ("offset", "topic")}
    run = read_all(kafka, topic, partitions, Placed, metadata=metadata, key="key")
    rows = run.collected("sink")
    assert sorted(row.number for row in rows) == list(range(500))
    assert all(row.key == f"k{row.number % 7}" and row.topic == topic and row.trace is None for row in rows)
    for place in range(topics):
        own = [row.offset for row in rows if row.where == place]
        assert own == list(range(len(own)))


def test_a_message_as_it_is(kafka):
    topic = kafka.topic()
    message = {
        "key": b"\xff",
        "value": b"\x00",
        "timestamp": 1_767_225_600_000,
        "headers": [("a", b"1"), ("b", None)],
    }
    fill(kafka, topic, [message, {"value": None}])
    first, second = read_all(kafka, topic, schema=None).collected("sink")
    at = datetime(2026, 1, 1, tzinfo=UTC)
    assert first == KafkaRecord(topic, 0, 0, at, b"\xff", b"\x00", [("a", b"1"), ("b", None)])
    assert (second.key, second.value, second.headers, second.offset) == (None, None, [], 1)


def test_messages_that_do_not_fit(kafka):
    topic = kafka.topic()
    bad = {3: b"{", 7: None, 8: b'{"number":"x"}'}
    fill(kafka, topic, [{"value": bad.get(number, {"number": number})} for number in range(12)])
    run = read_all(kafka, topic, on_error="SKIP")
    assert [row.number for row in run.collected("sink")] == [n for n in range(12) if n not in bad]
    with pytest.raises(RidgelineError, match=f"`source`: record 3 of `{topic}-0` cannot be read"):
        read_all(kafka, topic)


def test_a_tombstone_deletes(kafka):
    class Customer(NamedTuple):
        id: int
        country: str
        since: datetime
        note: str | None
        gone: bool

    topic = kafka.topic(config={"cleanup.policy": "compact"})
    value = {"country": "CH", "since": "2026-01-01T00:00:00Z", "note": "x"}
    fill(
        kafka,
        topic,
        [{"key": "1", "value": value}, {"key": "2", "value": value}, {"key": "1", "value": None}],
    )
    rows = read_all(kafka, topic, schema=Customer, key="id", deleted="gone").collected("sink")
    at = datetime(2026, 1, 1, tzinfo=UTC)
    assert rows[:2] == [Customer(1, "CH", at, "x", False), Customer(2, "CH", at, "x", False)]
    assert rows[2] == Customer(1, "", datetime(1970, 1, 1, tzinfo=UTC), None, True)


def test_a_compacted_topic_is_a_table(kafka):
    class Customer(NamedTuple):
        id: str
        country: str
        gone: bool

    class Order(NamedTuple):
        customer: str

    people, orders = kafka.topic(config={"cleanup.policy": "compact"}), kafka.topic()
    fill(kafka, people, [{"key": key, "value": {"country": "CH"}} for key in ("ann", "bob")])
    fill(kafka, people, [{"key": "bob", "value": None}])
    fill(kafka, orders, [{"value": {"customer": key}} for key in ("ann", "bob", "cyd")])
    app = Application("shop", window="20ms")
    source = KafkaInput(people, servers=kafka.servers, schema=Customer, key="id", deleted="gone", until="end")
    table = app.read("customers", source).table("by_id", key="id", deleted="gone")
    bought = app.read("orders", KafkaInput(orders, servers=kafka.servers, schema=Order, until="end"))
    bought.join("known", table, on={"customer": "id"}, how="left").write("sink", CollectorSink())
    found = {row["customer"]: row["country"] for row in run_local(app).collected("sink")}
    assert found == {"ann": "CH", "bob": None, "cyd": None}


def test_several_topics_and_patterns(kafka):
    first, second = kafka.topic(), kafka.topic(partitions=2)
    other = kafka.topic(f"x-{first}")
    for topic, start in ((first, 0), (second, 100), (other, 200)):
        fill(kafka, topic, numbers(10, first=start))
    rows = read_all(kafka, [first, second]).collected("sink")
    assert sorted(row.number for row in rows) == [*range(10), *range(100, 110)]
    rows = read_all(kafka, f"^x-{first}$").collected("sink")
    assert [row.number for row in rows] == list(range(200, 210))


def test_a_topic_that_is_not_there(kafka):
    topic = kafka.topic()
    with pytest.raises(RidgelineError, match=f"no topic `{topic}x`.*did you mean `{topic}`"):
        read_all(kafka, f"{topic}x")


@pytest.mark.parametrize(
    ("begin", "first"), [("earliest", 0), ("latest", 10), (1_000_005, 5), (9_000_000, 10)]
)
def test_where_it_begins(kafka, begin, first):
    topic = kafka.topic()
    fill(kafka, topic, [{"value": {"number": n}, "timestamp": (1_000_000 + n) * 1000} for n in range(10)])
    begin = begin if isinstance(begin, str) else datetime.fromtimestamp(begin, UTC)
    rows = read_all(kafka, topic, begin=begin).collected("sink")
    assert [row.number for row in rows] == list(range(first, 10))
    assert len(read_all(kafka, topic, begin={f"{topic}-0": 7}).collected("sink")) == 3


def rows_of(app, checkpoint, count, most=200, **arguments):
    """The rows of runs that continue each other, until there are so many."""
    rows = []
    for _ in range(most):
        rows += run_local(app, checkpoint=checkpoint, windows=1, **arguments).collected("sink")
        if len(rows) >= count:
            return rows
    raise AssertionError(len(rows))


def test_partitions_that_are_added_and_topics_that_come(kafka, tmp_path):
    topic = kafka.topic(partitions=2)
    fill(kafka, topic, numbers(20))
    source = KafkaInput(f"^{topic}", servers=kafka.servers, schema=Number, discover_every="20ms")
    app = application(source, Number, 2)
    rows = rows_of(app, tmp_path, 20)
    admin = AdminClient({"bootstrap.servers": kafka.direct_servers, "log_level": 0})
    admin.create_partitions([NewPartitions(topic, 4)])[topic].result(SECONDS)
    fill(kafka, topic, numbers(20, first=20))
    rows += rows_of(app, tmp_path, 20)
    fill(kafka, kafka.topic(f"{topic}-more", partitions=3), numbers(20, first=40))
    rows += rows_of(app, tmp_path, 20)
    assert sorted(row.number for row in rows) == list(range(60))


def test_a_window_emits_what_it_has_read_whatever_comes_after_it(kafka, tmp_path):
    """A driver that dies after each window: what a window had read and not emitted would be lost."""
    topic = kafka.topic(partitions=2)
    rows = []
    for first in range(0, 60, 4):
        fill(kafka, topic, numbers(4, first=first))
        source = KafkaInput(topic, servers=kafka.servers, schema=Number)
        rows += rows_of(application(source, Number), tmp_path, 4)
    assert sorted(row.number for row in rows) == list(range(60))


def test_records_that_retention_has_taken(kafka, tmp_path):
    topic = kafka.topic()
    fill(kafka, topic, numbers(10))
    source = KafkaInput(topic, servers=kafka.servers, schema=Number)
    rows_of(application(source, Number), tmp_path, 10)
    fill(kafka, topic, numbers(10, first=10))
    admin = AdminClient({"bootstrap.servers": kafka.direct_servers, "log_level": 0})
    [place] = admin.delete_records([TopicPartition(topic, 0, 15)]).values()
    place.result(SECONDS)
    with pytest.raises(RidgelineError, match=f"records 10 to 14 of partition {topic}-0 are gone"):
        rows_of(application(source, Number), tmp_path, 5)
    source = KafkaInput(topic, servers=kafka.servers, schema=Number, when_lost="skip")
    rows = rows_of(application(source, Number), tmp_path, 5)
    assert [row.number for row in rows] == list(range(15, 20))
    source = KafkaInput(topic, servers=kafka.servers, schema=Number)
    with pytest.raises(RidgelineError, match="cannot go back so far: records 10 to 14"):
        run_local(application(source, Number), checkpoint=tmp_path, from_window=0)


def test_a_topic_that_is_made_again_between_runs_with_more_messages(kafka, tmp_path):
    topic = kafka.topic()
    fill(kafka, topic, numbers(5))
    source = KafkaInput(f"^{topic}.*", servers=kafka.servers, schema=Number, when_lost="skip")
    rows_of(application(source, Number), tmp_path, 5)
    late = kafka.topic(f"{topic}-late")  # one that the first window has not seen
    fill(kafka, late, numbers(5))
    rows_of(application(source, Number), tmp_path, 5)
    admin = AdminClient({"bootstrap.servers": kafka.direct_servers, "log_level": 0})
    for first, one in ((100, topic), (200, late), (300, late)):
        admin.delete_topics([one])[one].result(SECONDS)
        kafka.topic(one)
        fill(kafka, one, numbers(20, first=first))
        fails = KafkaInput(f"^{topic}.*", servers=kafka.servers, schema=Number)
        with pytest.raises(RidgelineError, match=f"topic `{one}` is not the one .*: it was made again, and"):
            rows_of(application(fails, Number), tmp_path, 1)
        rows = rows_of(application(source, Number), tmp_path, 20)
        assert [row.number for row in rows] == list(range(first, first + 20))


def test_another_cluster_has_other_topics(kafka, tmp_path):
    """Offsets may be the same there: topics that are copied to it have other ids."""
    topic = kafka.topic()
    fill(kafka, topic, numbers(5))
    source = KafkaInput(topic, servers=kafka.servers, schema=Number)
    rows_of(application(source, Number), tmp_path, 5)
    with services.kafka() as other:
        other.topic(topic)
        fill(other, topic, numbers(8))
        moved = KafkaInput(topic, servers=other.servers, schema=Number)
        rows = rows_of(application(moved, Number), tmp_path, 3)
    assert [row.number for row in rows] == [5, 6, 7]


def test_a_group_shows_the_lag(kafka):
    topic = kafka.topic(partitions=2)
    fill(kafka, topic, numbers(20))
    read_all(kafka, topic, group=f"g-{topic}")
    mine = Consumer({"bootstrap.servers": kafka.direct_servers, "group.id": f"g-{topic}", "log_level": 0})
    found = mine.committed([TopicPartition(topic, place) for place in range(2)], timeout=SECONDS)
    mine.close()
    assert sum(place.offset for place in found) == 20


def test_random_topics_equal_a_plain_reader(kafka):
    dice = random.Random(11)
    topic = kafka.topic(partitions=3)
    writer = producer(kafka, transactional_id=topic)
    writer.init_transactions(SECONDS)
    expected, number = {place: [] for place in range(3)}, 0
    for _ in range(25):
        writer.begin_transaction()
        batch = []
        for _ in range(dice.choice([0, 1, 3, 40])):
            place = dice.randrange(3)
            writer.produce(topic, json.dumps({"number": number}).encode(), partition=place)
            batch.append((place, number))
            number += 1
        writer.flush(SECONDS)
        if dice.random() < 0.3:
            writer.abort_transaction(SECONDS)
        else:
            writer.commit_transaction(SECONDS)
            for place, one in batch:
                expected[place].append(one)
    for partitions in (1, 2, 3):
        for limit in (1, 7, 1_000_000):
            run = read_all(kafka, topic, partitions, window_records=limit)
            found = [row.number for row in run.collected("sink")]
            for own in expected.values():
                assert [one for one in found if one in set(own)] == own
            assert len(found) == sum(map(len, expected.values()))
    every = read_all(kafka, topic, isolation="read_uncommitted").collected("sink")
    assert sorted(row.number for row in every) == list(range(number))


@pytest.mark.slow
def test_a_network_that_hangs_is_no_answer(kafka):
    """The client answers with an offset of its own then, not with an error."""
    topic = kafka.topic(partitions=2)
    fill(kafka, topic, numbers(10))
    source = KafkaInput(topic, servers=kafka.servers, schema=Number).source()
    source.open(
        SourceContext("app", "source", "run", SystemClock(), lambda: None, print, "memory:", memory=None)
    )
    names = source.partitions()
    before = source.ends(0.0)
    assert set(before) == set(names)
    kafka.cut(hang=True)
    with pytest.raises(SourceUnavailableError, match="no answer within"):
        source.ends(0.0)
    kafka.mend()
    source.close()
    source.open(source._context)
    assert source.resume(before) == before
