"""Frames: whatever the pieces in which bytes come, whole frames come out; anything else is refused."""

import pickle
import struct
from datetime import UTC, datetime
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pytest

from ridgeline.api.columns.schema import Schema
from ridgeline.api.columns.tuples import Tuples
from ridgeline.api.times import NO_TIME, Span, Times
from ridgeline.engine.exchange import block
from ridgeline.engine.exchange.block import Block, Message, Reference
from ridgeline.engine.exchange.frames import FrameDecoder, encode
from ridgeline.engine.exchange.network import RefusedError


def wire(*frames):
    """The bytes of frames, one after the other."""
    return b"".join(bytes(piece) for frame in frames for piece in encode(*frame))


def plain(frame):
    """A frame in values that can be compared."""
    return frame.kind, bytes(frame.head), [bytes(buffer) for buffer in frame.buffers]


def received(data, sizes, decoder=None):
    """The frames of bytes that come in pieces of these sizes, in turn: by `room` where that is offered."""
    decoder = decoder or FrameDecoder()
    found, begin, number = [], 0, 0
    while begin < len(data):
        size = sizes[number % len(sizes)]
        number += 1
        room = decoder.room()
        if room.nbytes:
            piece = data[begin : begin + min(size, room.nbytes)]
            room[: len(piece)] = piece
            frame = decoder.filled(len(piece))
            found += [frame] if frame else []
        else:
            piece = data[begin : begin + size]
            found += decoder.feed(piece)
        begin += len(piece)
    return found


def test_large_parts_are_neither_joined_nor_copied():
    large = np.arange(100_000)
    pieces = encode(1, b"head", [b"small", large, pa.py_buffer(large), b"tail"])

    assert [np.shares_memory(np.frombuffer(piece, np.uint8), large) for piece in pieces] == [
        False,
        True,
        True,
        False,
    ]


def test_buffers_lie_in_one_memory_at_multiples_of_eight_and_cannot_be_written():
    (frame,) = received(wire((1, b"x" * 13, [b"abc", np.arange(50_000), b""])), [4096])
    addresses = [np.frombuffer(part, np.uint8).ctypes.data for part in (frame.head, *frame.buffers[:2])]

    assert [address % 8 for address in addresses] == [0, 0, 0]
    assert max(addresses) - min(addresses) < 1000
    assert frame.head.readonly
    assert all(buffer.readonly for buffer in frame.buffers)


@pytest.mark.parametrize("rows", [3, 100_000])
def test_arrow_batches_are_read_where_they_lie(rows):
    batch = pa.record_batch([pa.array(range(rows))], names=["value"])
    buffers = []
    head = pickle.dumps({"block": batch.serialize()}, 5, buffer_callback=buffers.append)
    (frame,) = received(wire((1, head, buffers)), [70_000])
    found = pa.ipc.read_record_batch(pickle.loads(frame.head, buffers=frame.buffers)["block"], batch.schema)

    assert found.equals(batch)
    begin = np.frombuffer(frame.buffers[0], np.uint8).ctypes.data
    assert begin <= found["value"].buffers()[1].address < begin + frame.buffers[0].nbytes


@pytest.mark.parametrize("size", [1, 7, 8, 9])
def test_a_part_may_be_of_any_kind_and_shape(size):
    square = np.arange(size * size, dtype=np.int16).reshape(size, size)
    (frame,) = received(wire((1, bytearray(b"head"), [square, memoryview(square), np.empty((0, 3))])), [999])

    assert plain(frame) == (1, b"head", [square.tobytes(), square.tobytes(), b""])


def header(size, mark=b"RLF1", kind=1):
    return struct.pack("<4sHxxQ", mark, kind, size)


@pytest.mark.parametrize(
    ("data", "reason", "text"),
    [
        (b"GET / HTTP/1.1\r\n\r\n", "malformed", "a frame begins with b'RLF1'; got b'G"),
        (b"R", None, ""),
        (b"RX", "malformed", "a frame begins with b'RLF1'; got b'RX'"),
        (header(1 << 40), "too large", "a frame has at most 1073741824 bytes; it says 1099511627776"),
        (header((1 << 64) - 1), "too large", "it says 18446744073709551615"),
        (header(0), "malformed", "a frame has at least 16 bytes; it says 0"),
        (header(16) + struct.pack("<QQ", 0, 0), "malformed", "cannot have 0 parts"),
        (header(16) + struct.pack("<QQ", 2, 0), "malformed", "cannot have 2 parts"),
        (header(16) + struct.pack("<QQ", (1 << 64) - 1, 0), "malformed", "cannot have 1844674407370955"),
        (header(16) + struct.pack("<QQ", 1, 1), "malformed", "must have 16 bytes in all; they have 24"),
        (header(24) + struct.pack("<QQQ", 1, 0, 0), "malformed", "must have 24 bytes in all; they have 16"),
        (header(16) + struct.pack("<QQ", 1, (1 << 64) - 8), "malformed", "must have 16 bytes in all"),
    ],
)
def test_what_is_no_frame_is_refused(data, reason, text):
    for sizes in ([len(data)], [1]):
        if reason is None:
            assert received(data, sizes) == []
            continue
        with pytest.raises(RefusedError, match=r".") as refused:
            received(data, sizes)
        assert refused.value.reason == reason
        assert text in str(refused.value)


def test_a_frame_beyond_the_limit_is_not_made():
    with pytest.raises(ValueError, match=r"a frame has at most 1000 bytes .*; got 1040 in 2; divide it"):
        encode(1, b"", [bytes(1016)], 1000)


class Trade(NamedTuple):
    symbol: str
    price: float | None
    time: datetime
    tags: list[str]


def test_a_slice_is_sent_without_what_it_was_cut_from():
    schema = Schema(pa.schema([("text", pa.string())]))
    batch = schema.encode([{"text": str(n) * 1_000} for n in range(100)])
    payload = block.encode(Tuples.of_batch(schema, batch.slice(7, 1)))
    assert payload.size < 2_000
    assert block.decode(schema, payload).rows == [{"text": "7" * 1_000}]


def test_a_message_can_be_copied():
    message = Message(
        3,
        [Block(1, "data", 0, pa.py_buffer(b"abc")), Block(2, "data", 4, Reference("file", 64, 8), "time")],
    )
    assert message.copied() == message


def test_a_large_message_is_divided_and_its_order_kept():
    half = pa.py_buffer(bytes(block.PIECE_BYTES // 2))
    far = Reference("file", 0, 10 * block.PIECE_BYTES)
    blocks = [Block(number, "data", 0, half if number % 2 else far) for number in range(11)]
    parts = list(Message(3, blocks).divided())
    assert [[sent.sink for sent in part.blocks] for part in parts] == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9, 10]]
    assert [part.producer for part in parts] == [3, 3, 3]
    assert list(Message(3, []).divided()) == [Message(3, [])]


SCHEMA = Schema(Trade)
TRADES = [
    Trade("IBM", 1.5, datetime(2026, 1, 1, tzinfo=UTC), ["a"]),
    Trade("", None, datetime(1, 1, 1, tzinfo=UTC), []),
]
TWO = np.array([7, NO_TIME])


def crossed(times):
    sent = Tuples.of_rows(SCHEMA, TRADES, times)
    one = Block(1, "data", 0, block.encode(sent), block.encode_times(sent))
    got = Message(0, [one]).copied().blocks[0]
    return got, block.decode(SCHEMA, got.payload, got.times)


@pytest.mark.parametrize(
    "times", [Times(TWO), Times(TWO, np.array([3, NO_TIME])), Span(7, 7).of_each(2), Span(7, 3).of_each(2)]
)
def test_times_cross_with_their_tuples(times):
    _, got = crossed(times)
    assert got.times.newest.tolist() == times.newest.tolist()
    assert (got.times.oldest is None) == (times.oldest is None)
    assert times.oldest is None or got.times.oldest.tolist() == times.oldest.tolist()
    assert got.take(np.array([0])).times.newest.tolist() == [7]


def test_a_column_is_not_sent_twice():
    sent, got = crossed("time")
    assert sent.times == "time"
    assert got.times.newest.tolist() == [1_767_225_600_000_000, int(TRADES[1].time.timestamp()) * 1_000_000]


def test_nothing_is_sent_where_there_are_no_times_and_little_where_they_are_all_the_same():
    assert crossed(None)[0].times is None
    assert not crossed(None)[1].timed
    assert [part.size for part in crossed(Span(7, 3).of_each(2))[0].times] == [8, 8]
    size = crossed(None)[0].size_bytes
    assert [crossed(times)[0].size_bytes - size for times in ("time", Times(TWO), Span(7, 3).of_each(2))] == [
        0,
        16,
        16,
    ]
