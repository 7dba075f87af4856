from datetime import UTC, datetime
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pytest

from ridgeline.api.schema import Schema
from ridgeline.api.tuples import Tuples
from ridgeline.engine import block
from ridgeline.engine.block import Block, Message


class Trade(NamedTuple):
    symbol: str
    price: float | None
    time: datetime
    tags: list[str]


COLOUR = pa.dictionary(pa.int8(), pa.string())
NESTED = pa.schema([("colours", pa.list_(COLOUR)), ("best", pa.struct([("colour", COLOUR)]))])
SCHEMAS = {
    "named tuple": (
        Schema(Trade),
        [Trade("IBM", 1.5, datetime(2026, 1, 1, tzinfo=UTC), ["a"]), Trade("", None, datetime(1, 1, 1, tzinfo=UTC), [])],
    ),
    "object": (Schema(object), [{"a": 1}, None, {1, 2}]),
    "dictionary": (Schema(pa.schema([("colour", COLOUR), ("n", pa.int64())])), [{"colour": "red", "n": 1}, {"colour": None, "n": 2}]),
    "nested dictionary": (
        Schema(NESTED),
        [{"colours": ["red", "blue", "red"], "best": {"colour": "red"}}, {"colours": None, "best": None}],
    ),
}


@pytest.mark.parametrize(("schema", "rows"), SCHEMAS.values(), ids=SCHEMAS)
@pytest.mark.parametrize("count", [0, 1, 2])
def test_tuples_cross_a_border_unchanged(schema, rows, count):
    sent = Tuples.of_batch(schema, schema.encode(rows[:count]))
    got = block.decode(schema, block.encode(sent))
    assert got.rows == rows[:count]
    assert got.batch.equals(sent.batch)


def test_a_slice_is_sent_without_what_it_was_cut_from():
    schema = Schema(pa.schema([("text", pa.string())]))
    batch = schema.encode([{"text": str(n) * 1_000} for n in range(100)])
    payload = block.encode(Tuples.of_batch(schema, batch.slice(7, 1)))
    assert len(payload) < 2_000
    assert block.decode(schema, payload).rows == [{"text": "7" * 1_000}]


def test_a_message_is_bytes_on_its_way():
    message = Message(3, "t7", [Block(1, "data", 0, b"abc"), Block(2, "data", 4, b"")])
    assert Message.decode(message.encode()) == message
    assert Message.decode(Message(0, "t", []).encode()).blocks == []


def test_taking_from_a_block_copies_nothing_else():
    schema, rows = SCHEMAS["named tuple"]
    got = block.decode(schema, block.encode(Tuples.of_rows(schema, rows)))
    assert got.take(np.array([1])).rows == rows[1:]
