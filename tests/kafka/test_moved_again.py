"""Topics that change, are made again or lose messages before these are read, and what stops reading."""

import json
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import NamedTuple

import pytest
from confluent_kafka import KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, NewPartitions

from ridgeline import Application, RidgelineError
from ridgeline.api.columns.schema import Schema
from ridgeline.connect import SourceUnavailableError
from ridgeline.connect.reader import ReaderContext, SourceRange
from ridgeline.connectors.kafka import KafkaInput
from ridgeline.testing import CollectorSink, run_local
from support.kafka.reading import Number
from support.operators.kafka_topics import SECONDS, fill, numbers, seen
from support.waiting import wait_until

pytestmark = pytest.mark.slow


def admin(kafka):
    return AdminClient({"bootstrap.servers": kafka.direct_servers, "log_level": 0})


def delete(kafka, topic):
    client = admin(kafka)  # its futures end with it
    client.delete_topics([topic], operation_timeout=SECONDS)[topic].result(SECONDS)


def make_again(kafka, topic, partitions):
    delete(kafka, topic)

    def is_made():
        try:
            return kafka.topic(topic, partitions=partitions)
        except KafkaException:
            return None

    wait_until(is_made, "the topic to be deleted")


def delete_records(kafka, topic, before):
    """As retention does."""
    client = admin(kafka)
    [place] = client.delete_records([TopicPartition(topic, 0, before)]).values()
    place.result(SECONDS)


def test_what_changes_while_no_window_runs(kafka, reading):
    topic = kafka.topic(partitions=2)
    fill(kafka, topic, numbers(10))
    one = reading(kafka, f"^{topic}", when_lost="skip")
    one.until(lambda _: one.offset["records"] == 10, "all messages")
    source = one.enumerator._watching.source
    wait_until(lambda: source._ids.known, "its id")
    client = admin(kafka)
    client.create_partitions([NewPartitions(topic, 4)])[topic].result(SECONDS)
    more = kafka.topic(f"{topic}-more")
    fill(kafka, more, numbers(4))
    fill(kafka, topic, [{"partition": place, "value": {"number": 1}} for place in (2, 3, 3)])
    wait_until(lambda: f"{more}-0" in source._names and f"{topic}-3" in source._names, "new ones to be seen")
    one.until(lambda _: one.offset["records"] == 17, "all of them")
    one.until(lambda _: one.says("reads new source partitions"), "what is said of them")
    make_again(kafka, topic, 1)
    fill(kafka, topic, numbers(6))
    one.until(lambda at: at.get(f"{topic}-0") == 6 and one.offset["records"] == 23, "those of the new one")
    one.until(lambda at: set(at) == {f"{topic}-0", f"{more}-0"}, "only what is there")
    assert one.says(f"partition {topic}-0 is of a topic that was made again")


def test_a_topic_of_a_pattern_that_is_deleted(kafka, reading):
    topic = kafka.topic(partitions=1)
    other = kafka.topic(f"{topic}-other")
    fill(kafka, topic, numbers(10))
    fill(kafka, other, numbers(3))
    one = reading(kafka, f"^{topic}")
    one.until(lambda _: one.offset["records"] == 13, "all messages")
    delete(kafka, other)
    fill(kafka, topic, numbers(5, first=10))
    one.until(lambda at: set(at) == {f"{topic}-0"} and at[f"{topic}-0"] == 15, "the other one to be gone")
    one.until(lambda _: one.says("is gone"), "that it is said")


@pytest.mark.parametrize("pattern", [False, True])
def test_a_topic_that_is_deleted_between_two_runs(kafka, tmp_path, pattern):
    topic = kafka.topic()
    fill(kafka, topic, numbers(5))
    source = KafkaInput(f"^{topic}" if pattern else topic, servers=kafka.servers, schema=Number)
    source.discover_every = "200ms"
    app = Application("items", window="20ms")
    app.read("items", source).write("sink", CollectorSink(Number))
    rows = []
    while len(rows) < 5:
        rows += run_local(app, windows=1, checkpoint=tmp_path).collected("sink")
    delete(kafka, topic)
    if not pattern:
        with pytest.raises(RidgelineError, match=f"topic `{topic}` was deleted; make it again"):
            run_local(app, windows=1000, checkpoint=tmp_path)
        return
    run = run_local(app, windows=1000, checkpoint=tmp_path)
    assert any("is gone" in text for text in texts(run))


def texts(run):
    """What is said to the user."""
    return [event.text for event in run.events if hasattr(event, "text")]


class Item(NamedTuple):
    key: str
    number: int
    gone: bool


def test_a_compacted_table_is_continued_after_its_log_was_compacted(kafka, tmp_path):
    """Offsets are missing then."""
    config = {
        "cleanup.policy": "compact",
        "min.cleanable.dirty.ratio": "0.01",
        "segment.ms": "200",
        "max.compaction.lag.ms": "200",
    }
    topic = kafka.topic(partitions=1, config=config)
    fill(kafka, topic, [{"key": f"k{n % 9}", "value": {"number": n}} for n in range(90)])
    app = Application("items", window="20ms")
    properties = {"key": "key", "deleted": "gone", "window_records": 3}  # the last of a window may be gone
    source = KafkaInput(topic, servers=kafka.servers, schema=Item, **properties)
    app.read("items", source).write("sink", CollectorSink(Item))
    rows = []
    while not rows or rows[-1].number != 89:
        rows += run_local(app, windows=1, checkpoint=tmp_path).collected("sink")
    written = [90]

    def is_compacted():
        messages = [
            {"key": f"k{n % 5}", "value": None if n % 5 == 0 else {"number": n}}
            for n in range(written[0], written[0] + 40)
        ]
        fill(kafka, topic, messages)
        written[0] += 40
        return sum(map(len, seen(kafka, topic).values())) < written[0] // 3

    wait_until(is_compacted, "the topic to be compacted", every=0.5)
    plain = {m.key().decode(): m.value() for own in seen(kafka, topic).values() for m in own}
    last = max(json.loads(value)["number"] for value in plain.values() if value is not None)
    while rows[-1].number != last:
        rows += run_local(app, windows=1, checkpoint=tmp_path).collected("sink")
    table = {row.key: None if row.gone else row.number for row in rows}
    assert {key: n for key, n in table.items() if n is not None} == {
        key: json.loads(value)["number"] for key, value in plain.items() if value is not None
    }


def read_range(kafka, topic, start, end, **properties):
    """What a container reads of a range, and what it says of messages that are gone."""
    source = KafkaInput(topic, servers=kafka.servers, schema=Number, **properties)
    lost, reader = [], source.reader()
    operator = SimpleNamespace(name="numbers", application="app")
    reader.open(
        ReaderContext(operator, Schema(Number), None, skips=False, lost=lambda *one: lost.append(one))
    )
    try:
        found = reader.read_all([SourceRange(f"{topic}-0", start, end)])
        return [row["number"] for _, records in found for row in records.rows.to_pylist()], lost
    finally:
        reader.close()


def test_messages_that_go_before_a_window_reads_them_are_counted(kafka):
    topic = kafka.topic()
    fill(kafka, topic, numbers(20))
    delete_records(kafka, topic, 7)
    with pytest.raises(RidgelineError, match=r"has offsets 7 to 20 now; records from 2 on are gone"):
        read_range(kafka, topic, 2, 12)
    rows, [(partition, count, text)] = read_range(kafka, topic, 2, 12, when_lost="skip")
    assert (rows, partition, count) == ([*range(7, 12)], f"{topic}-0", 5)
    assert f"offsets 2 to 6 of partition {topic}-0 (it has offsets 7 to 20 now: retention" in text
    rows, [(_, count, _)] = read_range(kafka, topic, 2, 5, when_lost="skip")
    assert (rows, count) == ([], 3)


def test_an_application_says_how_many_messages_were_gone(kafka, tmp_path):
    """They go while it runs, behind what its client has read ahead."""
    topic = kafka.topic(config={"segment.bytes": "1048576"})
    fill(
        kafka, topic, [{"value": {"number": n, "pad": "x" * 2000}} for n in range(400)], batch_num_messages=1
    )
    options = {"queued.min.messages": 1, "queued.max.messages.kbytes": 1, "fetch.message.max.bytes": 4000}
    source = KafkaInput(
        topic, servers=kafka.servers, schema=Number, when_lost="skip", options=options, until="end"
    )
    source.window_records = 10

    def lose(row):
        if row.number == 15:
            delete_records(kafka, topic, 300)
        return True

    app = Application("items", window="20ms", windows_in_flight=1)
    app.read("items", source).filter("losing", lose).write("sink", CollectorSink(Number))
    run = run_local(app)
    rows = [row.number for row in run.collected("sink")]
    said = [text for text in texts(run) if "gone" in text]
    assert rows[-100:] == list(range(300, 400))
    assert rows == sorted(set(rows))
    assert said, "records are lost without a word"
    assert f"`items`: {400 - len(rows)} records so far were gone before a window read them" in said[-1]


def test_messages_larger_than_a_fetch(kafka):
    topic = kafka.topic(config={"max.message.bytes": "4000000"})
    messages = [{"value": {"number": n, "pad": "x" * size}} for n, size in enumerate((10, 3_000_000, 10))]
    fill(kafka, topic, messages, message_max_bytes=4_000_000)
    options = {"fetch.message.max.bytes": 1000, "message.max.bytes": 1000, "fetch.max.bytes": 1000}
    rows, _ = read_range(kafka, topic, 0, 3, options=options)
    assert rows == [0, 1, 2]


def test_times_that_the_broker_gives(kafka):
    topic = kafka.topic(config={"message.timestamp.type": "LogAppendTime"})
    before = datetime.now(UTC)
    fill(kafka, topic, [{"value": {"number": n}, "timestamp": 1000 * n + 1} for n in range(3)])
    after = datetime.now(UTC)

    class At(NamedTuple):
        number: int
        at: datetime

    def read(**properties):
        source = KafkaInput(
            topic, servers=kafka.servers, schema=At, metadata={"at": "timestamp"}, until="end", **properties
        )
        app = Application("items", window="20ms")
        app.read("items", source).write("sink", CollectorSink(At))
        return run_local(app).collected("sink")

    step = timedelta(milliseconds=1)
    assert [row.number for row in read()] == [0, 1, 2]
    assert all(before - step <= row.at <= after + step for row in read(begin=before - step))
    assert read(begin=after + timedelta(seconds=1)) == []


def test_a_message_that_the_client_does_not_take_is_said(kafka):
    topic = kafka.topic(config={"max.message.bytes": "4000000"})
    fill(kafka, topic, [{"value": {"number": 0, "pad": "x" * 3_000_000}}], message_max_bytes=4_000_000)
    options = {"receive.message.max.bytes": 1_000_000, "fetch.max.bytes": 500_000, "message.max.bytes": 1000}
    with pytest.raises(SourceUnavailableError, match=r"nothing of .*-0 from 0 on: .*receive\.message\.max"):
        read_range(kafka, topic, 0, 1, options=options)


@pytest.mark.parametrize("count", [3, 500])
def test_a_topic_that_is_made_again_is_noticed(kafka, reading, count):
    topic = kafka.topic()
    fill(kafka, topic, numbers(10))
    fails, skips = reading(kafka, topic), reading(kafka, topic, when_lost="skip")
    for one in (fails, skips):
        one.until(lambda at: at == {f"{topic}-0": 10}, "all messages")
        wait_until(lambda one=one: one.enumerator._watching.source._ids.known, "its id")
    make_again(kafka, topic, 1)
    fill(kafka, topic, numbers(count))
    with pytest.raises(RidgelineError, match=f"topic `{topic}` is not the one .*: it was made again"):
        fails.until(lambda _: False, "the error")
    skips.until(lambda at: skips.says("made again") and at == {f"{topic}-0": count}, "all of the new one")
    assert skips.says(f"partition {topic}-0 is of a topic that was made again")
    assert skips.says("it continues with record 0")
    assert skips.offset["records"] == 10 + count
