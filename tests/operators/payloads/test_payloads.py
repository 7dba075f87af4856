"""Payloads of messages: each format against the library that defines it, with wrong ones among them."""

import json
import random
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from io import BytesIO
from types import SimpleNamespace
from typing import NamedTuple
from uuid import UUID

import fastavro
import pyarrow as pa
import pytest
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory, timestamp_pb2

from ridgeline import RidgelineError, Schema
from ridgeline.operators.files._typed_files import AvroReader
from ridgeline.operators.payloads import decode, decoder_of, encoder_of
from ridgeline.operators.payloads._avro import avro_schema_of
from ridgeline.operators.payloads._protobuf import indexes_of, read_indexes, written_indexes
from support.testing.shares import share


class Place(NamedTuple):
    city: str
    zone: int


class Order(NamedTuple):
    id: str
    cents: int
    weight: float
    paid: bool
    note: str | None
    time: datetime
    tags: list[str]
    counts: dict[str, int]
    place: Place


SCHEMA = Schema(Order)


def orders(count, seed=0):
    dice = random.Random(seed)
    return [
        Order(
            f"o{number}",
            dice.choice([0, -1, 2**62, dice.randrange(10**6)]),
            dice.choice([0.0, -0.0, 1e300, 0.1]),
            dice.random() < 0.5,
            dice.choice([None, "", "zwölf", 'a "b"\n', "\0"]),
            datetime(2026, 1, 1, tzinfo=UTC) + timedelta(microseconds=dice.randrange(10**12)),
            [dice.choice(["a", "", "ü"]) for _ in range(dice.randrange(3))],
            {key: dice.randrange(9) for key in sorted(dice.sample("xyz", dice.randrange(3)))},
            Place(dice.choice(["Bern", "Oslo"]), dice.randrange(3)),
        )
        for number in range(count)
    ]


def file_of(messages):
    """A file descriptor with the messages of the tests."""
    file = descriptor_pb2.FileDescriptorProto(name="shop.proto", package="shop", syntax="proto3")
    file.dependency.append("google/protobuf/timestamp.proto")
    other = file.message_type.add(name="Other")
    other.field.add(name="x", number=1, type="TYPE_INT32", label="LABEL_OPTIONAL")
    order = file.message_type.add(name="Order")
    kinds = {"id": "STRING", "cents": "INT64", "weight": "DOUBLE", "paid": "BOOL", "note": "STRING"}
    for number, (name, kind) in enumerate(kinds.items(), 1):
        field = order.field.add(name=name, number=number, type=f"TYPE_{kind}", label="LABEL_OPTIONAL")
        if name == "note":
            field.proto3_optional = True
            field.oneof_index = 0
            order.oneof_decl.add(name="_note")
    message = {"type": "TYPE_MESSAGE", "label": "LABEL_OPTIONAL"}
    order.field.add(name="time", number=6, type_name=".google.protobuf.Timestamp", **message)
    order.field.add(name="tags", number=7, type="TYPE_STRING", label="LABEL_REPEATED")
    entry = order.nested_type.add(name="CountsEntry")
    entry.options.map_entry = True
    entry.field.add(name="key", number=1, type="TYPE_STRING", label="LABEL_OPTIONAL")
    entry.field.add(name="value", number=2, type="TYPE_INT64", label="LABEL_OPTIONAL")
    order.field.add(
        name="counts",
        number=8,
        type="TYPE_MESSAGE",
        label="LABEL_REPEATED",
        type_name=".shop.Order.CountsEntry",
    )
    place = order.nested_type.add(name="Place")
    place.field.add(name="city", number=1, type="TYPE_STRING", label="LABEL_OPTIONAL")
    place.field.add(name="zone", number=2, type="TYPE_INT64", label="LABEL_OPTIONAL")
    order.field.add(name="place", number=9, type_name=".shop.Order.Place", **message)
    pool = descriptor_pool.DescriptorPool()
    pool.AddSerializedFile(timestamp_pb2.DESCRIPTOR.serialized_pb)
    pool.Add(file) if hasattr(pool, "Add") else pool.AddSerializedFile(file.SerializeToString())
    return [pool.FindMessageTypeByName(name) for name in messages]


(ORDER,) = file_of(["shop.Order"])
OPTIONS = {"json": {}, "avro": {}, "protobuf": {"message": ORDER}}


def there_and_back(format, rows):
    encode = encoder_of(format, SCHEMA, name="Order", **OPTIONS[format])
    values = list(encode(SCHEMA.encode(rows)))
    decoded = decode(decoder_of(format, SCHEMA, **OPTIONS[format]), values)
    return values, decoded


@pytest.mark.parametrize(("count", "format"), share(2, [0, 1, 2, 100], OPTIONS))
def test_rows_come_back_as_they_were(format, count):
    rows = orders(count, seed=count)
    values, decoded = there_and_back(format, rows)
    assert len(values) == count
    assert not decoded.bad
    assert list(decoded.rows) == list(range(count))
    read = [row._replace(counts=dict(sorted(row.counts.items()))) for row in SCHEMA.decode(decoded.batch)]
    assert list(map(repr, read)) == list(map(repr, rows))


@pytest.mark.parametrize("format", OPTIONS)
def test_wrong_payloads_are_left_out_one_by_one(format):
    dice = random.Random(5)
    rows = orders(40)
    values, _ = there_and_back(format, rows)
    wrong = {}
    for row in dice.sample(range(40), 7):
        wrong[row] = dice.choice(
            [b"\xff\xfe\xfd", values[row] + b"\xff", values[row][: len(values[row]) // 2]]
        )
    mixed = [wrong.get(row, value) for row, value in enumerate(values)]
    decoded = decode(decoder_of(format, SCHEMA, **OPTIONS[format]), mixed)
    assert set(decoded.bad) == set(wrong)
    assert SCHEMA.decode(decoded.batch) == [row for place, row in enumerate(rows) if place not in wrong]


def test_json_is_that_of_the_standard_library():
    rows = orders(20)
    values, _ = there_and_back("json", rows)
    for row, value in zip(rows, values, strict=True):
        read = json.loads(value)
        assert (read["id"], read["note"], read["counts"]) == (row.id, row.note, row.counts)
    spread = [json.dumps(json.loads(value), indent=2).replace("\n", "\r\n").encode() for value in values]
    assert SCHEMA.decode(decode(decoder_of("json", SCHEMA), spread).batch) == rows


@pytest.mark.parametrize(
    "wrong",
    [b"", b"null", b"[]", b"{}{}", b'{"id":1}\n{"id":2}', b'{"id":"a"} x', b"\x00{}", b"nan", b'{"id":null}'],
)
def test_json_that_is_no_object_of_the_schema(wrong):
    schema = Schema(pa.schema([pa.field("id", pa.string(), nullable=False)]))
    decoded = decode(decoder_of("json", schema), [b'{"id":"a"}', wrong, b'{"id":"b"}'])
    assert set(decoded.bad) == {1}
    assert decoded.batch.column("id").to_pylist() == ["a", "b"]


def test_avro_is_that_of_fastavro():
    rows = orders(20)
    values, _ = there_and_back("avro", rows)
    schema = fastavro.parse_schema(avro_schema_of(SCHEMA, "Order"))
    for row, value in zip(rows, values, strict=True):
        read = fastavro.schemaless_reader(BytesIO(value), schema, None)
        assert read["id"] == row.id
        assert read["time"] == row.time
        assert read["place"] == row.place._asdict()
        sink = BytesIO()
        fastavro.schemaless_writer(sink, schema, read)
        assert sink.getvalue() == value


def test_avro_has_dates_and_decimals():
    schema = Schema(
        pa.schema(
            [
                pa.field("day", pa.date32(), nullable=False),
                pa.field("moment", pa.time64("us")),
                pa.field("price", pa.decimal128(9, 2)),
                pa.field("raw", pa.binary()),
                pa.field("small", pa.int8()),
                pa.field("local", pa.timestamp("ms")),
            ]
        )
    )
    rows = [
        {
            "day": date(1969, 5, 1),
            "moment": time(23, 59, 59, 999_999),
            "price": Decimal("-12.50"),
            "raw": b"\0\xff",
            "small": -128,
            "local": datetime(2026, 1, 2, 3, 4, 5, 6_000),  # noqa: DTZ001  a column without a zone
        },
        {"day": date(2026, 1, 1), "moment": None, "price": None, "raw": None, "small": None, "local": None},
    ]
    batch = pa.RecordBatch.from_pylist(rows, schema=schema.arrow)
    values = list(encoder_of("avro", schema, name="a b")(batch))
    assert decode(decoder_of("avro", schema), values).batch == batch


def test_a_uuid_of_avro_is_its_text():
    kind = {"type": "string", "logicalType": "uuid"}
    fields = [{"name": "a", "type": ["null", kind]}, {"name": "b", "type": {"type": "array", "items": kind}}]
    written = {"type": "record", "name": "O", "fields": fields}
    row = {"a": str(UUID(int=1)), "b": [str(UUID(int=2))]}
    single, file = BytesIO(), BytesIO()
    fastavro.schemaless_writer(single, fastavro.parse_schema(written), row)
    fastavro.writer(file, written, [row])
    schema = Schema(pa.schema([("a", pa.string()), ("b", pa.list_(pa.string()))]))
    assert decode(decoder_of("avro", schema, written=written), [single.getvalue()]).batch.to_pylist() == [row]
    opened = SimpleNamespace(path="o.avro", open=lambda: file)
    file.seek(0)
    reader = AvroReader(opened, schema, 0)
    [batch] = reader.sift(reader.peek(9), strict=True).batches
    assert batch.to_pylist() == [row]


def test_fields_of_avro_that_the_schema_lacks_are_ignored_and_lacking_ones_are_null():
    written = {
        "type": "record",
        "name": "O",
        "fields": [{"name": "a", "type": "long"}, {"name": "b", "type": "int"}],
    }
    sink = BytesIO()
    fastavro.schemaless_writer(sink, fastavro.parse_schema(written), {"a": 1, "b": 2})
    schema = Schema(pa.schema([("b", pa.int64()), ("c", pa.string())]))
    decoded = decode(decoder_of("avro", schema, written=written), [sink.getvalue()])
    assert decoded.batch.to_pylist() == [{"b": 2, "c": None}]
    needed = Schema(pa.schema([pa.field("aa", pa.int64(), nullable=False)]))
    bad = decode(decoder_of("avro", needed, written=written), [sink.getvalue()]).bad
    assert "field `aa` is missing; did you mean `a`" in bad[0]


def test_faults_of_schemas_are_said():
    with pytest.raises(RidgelineError, match="no Avro schema"):
        decoder_of("avro", SCHEMA, written='{"type": "recrod"}')
    with pytest.raises(RidgelineError, match="has no field `idd`; did you mean `id`"):
        decoder_of("protobuf", Schema(pa.schema([("idd", pa.string())])), message=ORDER)
    with pytest.raises(RidgelineError, match="needs the module `no_such_module`"):
        decoder_of("protobuf", SCHEMA, message="no_such_module:Order")
    with pytest.raises(RidgelineError, match="one column"):
        decoder_of("text", SCHEMA)
    with pytest.raises(RidgelineError, match="must be bytes"):
        decoder_of("bytes", Schema(pa.schema([("v", pa.string())])))
    with pytest.raises(RidgelineError, match="Avro has no type"):
        encoder_of("avro", Schema(pa.schema([("v", pa.duration("s"))])), name="x")


@pytest.mark.parametrize(
    ("kind", "values", "texts"),
    [
        (pa.string(), ["a", "", "ü"], ["a", "", "ü"]),
        (pa.int64(), [1, -5, 2**60], ["1", "-5", str(2**60)]),
        (pa.bool_(), [True, False], ["true", "false"]),
        (pa.float64(), [0.5, 1e300], ["0.5", "1e+300"]),
        (pa.timestamp("us", "UTC"), [datetime(2026, 1, 1, tzinfo=UTC)], ["2026-01-01T00:00:00.000000Z"]),
    ],
)
def test_texts(kind, values, texts):
    schema = Schema(pa.schema([pa.field("v", kind, nullable=False)]))
    batch = pa.RecordBatch.from_pylist([{"v": value} for value in values], schema=schema.arrow)
    made = pa.array(encoder_of("text", schema, name="")(batch), pa.binary()).to_pylist()
    assert made == [text.encode() for text in texts]
    assert decode(decoder_of("text", schema), made).batch == batch
    assert set(decode(decoder_of("text", schema), [*made, b"\xff"]).bad) == {len(made)}


def test_null_texts_are_null():
    schema = Schema(pa.schema([("v", pa.float64())]))
    batch = pa.RecordBatch.from_pylist([{"v": None}, {"v": 1.5}], schema=schema.arrow)
    assert pa.array(encoder_of("text", schema, name="")(batch)).to_pylist() == [None, b"1.5"]


def test_indexes_of_messages():
    first, second, nested = file_of(["shop.Other", "shop.Order", "shop.Order.Place"])
    assert [indexes_of(one) for one in (first, second, nested)] == [[0], [1], [1, 1]]
    for indexes in ([0], [1], [1, 1], [300, 5, 2]):
        assert read_indexes(written_indexes(indexes), 0)[0] == indexes
    for wrong in (b"", b"\x04", b"\x80", b"\x01", b"\xff" * 20):
        with pytest.raises(ValueError, match="indexes"):
            read_indexes(wrong, 0)


def test_enumerations_and_unknown_numbers_of_protobuf():
    file = descriptor_pb2.FileDescriptorProto(name="e.proto", package="e", syntax="proto3")
    colour = file.enum_type.add(name="Colour")
    for number, name in enumerate(("RED", "BLUE")):
        colour.value.add(name=name, number=number)
    file.message_type.add(name="M").field.add(
        name="c", number=1, type="TYPE_ENUM", type_name=".e.Colour", label="LABEL_OPTIONAL"
    )
    pool = descriptor_pool.DescriptorPool()
    pool.AddSerializedFile(file.SerializeToString())
    descriptor = pool.FindMessageTypeByName("e.M")
    make = message_factory.GetMessageClass(descriptor)
    values = [make(c=number).SerializeToString() for number in (0, 1, 7)]
    text = Schema(pa.schema([("c", pa.string())]))
    assert decode(decoder_of("protobuf", text, message=descriptor), values).batch.to_pydict() == {
        "c": ["RED", "BLUE", "7"]
    }
    number = Schema(pa.schema([("c", pa.int32())]))
    assert decode(decoder_of("protobuf", number, message=descriptor), values).batch.to_pydict() == {
        "c": [0, 1, 7]
    }
    batch = pa.RecordBatch.from_pylist([{"c": "BLUE"}], schema=text.arrow)
    assert list(encoder_of("protobuf", text, name="", message=descriptor)(batch)) == [values[1]]
    wrong = pa.RecordBatch.from_pylist([{"c": "BLUE"}, {"c": "GREEN"}], schema=text.arrow)
    with pytest.raises(ValueError, match="row 1 does not fit"):
        encoder_of("protobuf", text, name="", message=descriptor)(wrong)


def test_times_within_a_map_of_protobuf():
    file = descriptor_pb2.FileDescriptorProto(name="t.proto", package="t", syntax="proto3")
    file.dependency.append("google/protobuf/timestamp.proto")
    made = file.message_type.add(name="M")
    entry = made.nested_type.add(name="SeenEntry")
    entry.options.map_entry = True
    entry.field.add(name="key", number=1, type="TYPE_STRING", label="LABEL_OPTIONAL")
    when = {"type": "TYPE_MESSAGE", "type_name": ".google.protobuf.Timestamp"}
    entry.field.add(name="value", number=2, label="LABEL_OPTIONAL", **when)
    made.field.add(
        name="seen", number=1, type="TYPE_MESSAGE", type_name=".t.M.SeenEntry", label="LABEL_REPEATED"
    )
    made.field.add(name="last", number=2, label="LABEL_OPTIONAL", **when)
    pool = descriptor_pool.DescriptorPool()
    pool.AddSerializedFile(timestamp_pb2.DESCRIPTOR.serialized_pb)
    pool.AddSerializedFile(file.SerializeToString())
    options = {"message": pool.FindMessageTypeByName("t.M")}
    kind = pa.timestamp("us", "UTC")
    schema = Schema(pa.schema([("seen", pa.map_(pa.string(), kind)), ("last", kind)]))
    now = datetime(2026, 1, 1, 12, 0, 0, 5, tzinfo=UTC)
    rows = [{"seen": [("a", now)], "last": now}, {"seen": [], "last": None}]
    values = encoder_of("protobuf", schema, name="", **options)(
        pa.RecordBatch.from_pylist(rows, schema=schema.arrow)
    )
    assert decode(decoder_of("protobuf", schema, **options), list(values)).batch.to_pylist() == rows
