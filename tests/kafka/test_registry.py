"""Avro and Protobuf by a registry of schemas: evolution, wrong ids, a registry that is away."""

import json
import threading
import urllib.request
from io import BytesIO
from typing import NamedTuple

import fastavro
import pytest
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

from ridgeline import Application, RidgelineError
from ridgeline.connectors.kafka import KafkaInput, KafkaOutput
from ridgeline.testing import CollectorSink, ListInput, run_local
from support.operators.kafka_topics import fill, seen

pytestmark = pytest.mark.slow


class Order(NamedTuple):
    id: str
    cents: int


class Noted(NamedTuple):
    id: str
    cents: int
    note: str | None


ROWS = [Order(f"o{number}", number * 100) for number in range(40)]
V1 = {
    "type": "record",
    "name": "Order",
    "fields": [{"name": "id", "type": "string"}, {"name": "cents", "type": "long"}],
}
V2 = {**V1, "fields": [*V1["fields"], {"name": "note", "type": ["null", "string"], "default": None}]}


def order_message():
    """The class of a Protobuf message."""
    file = descriptor_pb2.FileDescriptorProto(name="orders.proto", package="orders", syntax="proto3")
    message = file.message_type.add(name="Order")
    message.field.add(name="id", number=1, type="TYPE_STRING", label="LABEL_OPTIONAL")
    message.field.add(name="cents", number=2, type="TYPE_INT64", label="LABEL_OPTIONAL")
    pool = descriptor_pool.DescriptorPool()
    pool.AddSerializedFile(file.SerializeToString())
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("orders.Order"))


ORDER = order_message()
FORMATS = {"avro": {}, "protobuf": {"message": ORDER}}


def write(kafka, registry, topic, rows, schema=Order, **properties):
    app = Application("writing", window="20ms")
    output = KafkaOutput(topic, servers=kafka.servers, registry=registry.url, **properties)
    app.read("source", ListInput(schema, rows)).write("out", output)
    return run_local(app)


def read(kafka, registry, topic, schema=Order, on_error=None, **properties):
    app = Application("reading", window="20ms")
    source = KafkaInput(
        topic, servers=kafka.servers, schema=schema, registry=registry.url, until="end", **properties
    )
    attributes = {} if on_error is None else {"on_error": on_error}
    app.read("orders", source, **attributes).write("sink", CollectorSink(schema))
    return run_local(app)


def asked(registry, path, body=None):
    """An answer of the registry, by its own interface."""
    data = None if body is None else json.dumps(body).encode()
    headers = {"Content-Type": "application/vnd.schemaregistry.v1+json"}
    request = urllib.request.Request(registry.direct_url + path, data, headers)
    with urllib.request.urlopen(request) as answer:
        return json.load(answer)


def registered(registry, subject, schema):
    return asked(registry, f"/subjects/{subject}/versions", {"schema": json.dumps(schema)})["id"]


def framed(number, schema, record):
    sink = BytesIO()
    sink.write(b"\0" + number.to_bytes(4, "big"))
    fastavro.schemaless_writer(sink, fastavro.parse_schema(schema), record)
    return sink.getvalue()


@pytest.mark.parametrize("format", FORMATS)
def test_there_and_back(kafka, registry, format):
    topic = kafka.topic(partitions=2)
    write(kafka, registry, topic, ROWS, format=format, key="id", **FORMATS[format])
    assert sorted(read(kafka, registry, topic, format=format, **FORMATS[format]).collected("sink")) == sorted(
        ROWS
    )
    known = asked(registry, f"/subjects/{topic}-value/versions/latest")
    messages = [message.value() for own in seen(kafka, topic).values() for message in own]
    assert {message[:5] for message in messages} == {b"\0" + known["id"].to_bytes(4, "big")}
    if format == "avro":
        parsed = fastavro.parse_schema(json.loads(known["schema"]))
        found = [fastavro.schemaless_reader(BytesIO(message[5:]), parsed, None) for message in messages]
    else:
        assert known["schemaType"] == "PROTOBUF"
        found = [ORDER.FromString(message[6:]) for message in messages]  # the first message of its file
        found = [{"id": one.id, "cents": one.cents} for one in found]
    assert sorted(Order(**one) for one in found) == sorted(ROWS)


def test_schemas_evolve(kafka, registry):
    topic = kafka.topic()
    first, second = (registered(registry, f"{topic}-value", schema) for schema in (V1, V2))
    assert first != second
    records = [{"id": "a", "cents": 1}, {"id": "b", "cents": 2, "note": "x"}, {"id": "c", "cents": 3}]
    numbers = [(first, V1), (second, V2), (first, V1)]
    fill(
        kafka, topic, [{"value": framed(*one, record)} for one, record in zip(numbers, records, strict=True)]
    )
    expected = [Noted("a", 1, None), Noted("b", 2, "x"), Noted("c", 3, None)]
    assert read(kafka, registry, topic, Noted, format="avro").collected("sink") == expected
    old = read(kafka, registry, topic, Order, format="avro").collected("sink")
    assert old == [Order(one.id, one.cents) for one in expected]
    # Rows of the old columns are written with the latest schema, which has a default for the rest.
    write(kafka, registry, topic, [Order("d", 4)], format="avro")
    assert seen(kafka, topic)[0][-1].value()[:5] == b"\0" + second.to_bytes(4, "big")
    last = read(kafka, registry, topic, Noted, format="avro").collected("sink")[-1]
    assert last == Noted("d", 4, None)


def test_a_schema_that_is_not_compatible_is_refused(kafka, registry):
    topic = kafka.topic()
    subject = f"{topic}-value"
    registered(registry, subject, V1)
    body = json.dumps({"compatibility": "BACKWARD"}).encode()
    headers = {"Content-Type": "application/json"}
    url = f"{registry.direct_url}/config/{subject}"
    urllib.request.urlopen(urllib.request.Request(url, body, headers, method="PUT")).close()
    wrong = {**V1, "fields": [{"name": "id", "type": "int"}, {"name": "cents", "type": "long"}]}
    with pytest.raises(RidgelineError, match=r"`out`.*registry.* 409 .*not compatible.*correct the schema"):
        write(kafka, registry, topic, ROWS[:1], format="avro", avro_schema=wrong)


def test_ids_that_the_registry_does_not_know(kafka, registry):
    topic = kafka.topic()
    number = registered(registry, f"{topic}-value", V1)
    good = framed(number, V1, {"id": "a", "cents": 1})
    values = [good, framed(4_000_000, V1, {"id": "b", "cents": 2}), b"{}", good + b"x", good]
    fill(kafka, topic, [{"value": value} for value in values])
    run = read(kafka, registry, topic, format="avro", on_error="SKIP")
    assert run.collected("sink") == [Order("a", 1)] * 2
    assert run.errors("orders") == 3
    with pytest.raises(RidgelineError, match=f"record 1 of `{topic}-0` .*no schema of id 4000000"):
        read(kafka, registry, topic, format="avro")


@pytest.mark.parametrize("half", ["input", "output"])
def test_a_registry_that_is_away_is_waited_for(kafka, registry, half):
    topic = kafka.topic()
    if half == "input":
        write(kafka, registry, topic, ROWS, format="avro")
    registry.cut()
    mending = threading.Timer(3.0, registry.mend)
    mending.start()
    if half == "output":
        write(kafka, registry, topic, ROWS, format="avro")
    mending.join()
    assert read(kafka, registry, topic, format="avro").collected("sink") == ROWS
