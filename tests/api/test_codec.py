import contextlib
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ridgeline import StreamCodec, stable_hash
from ridgeline.api.codec import ColumnCodec, FunctionCodec, hash_column
from ridgeline.api.columns.schema import TIMESTAMP, Schema
from ridgeline.api.columns.tuples import Tuples

MILLENNIUM = st.datetimes(datetime(1, 1, 2), datetime(9999, 12, 30), timezones=st.just(UTC))  # noqa: DTZ001
COLUMNS = [
    (pa.int64(), st.integers(-(2**63), 2**63 - 1)),
    (pa.int8(), st.integers(-128, 127)),
    (pa.uint64(), st.integers(0, 2**64 - 1)),
    (pa.string(), st.text()),
    (pa.large_string(), st.text()),
    (pa.binary(), st.binary()),
    (pa.large_binary(), st.binary()),
    (pa.float64(), st.floats(allow_nan=False)),
    (pa.float32(), st.floats(width=32, allow_nan=False)),
    (pa.bool_(), st.booleans()),
    (pa.decimal128(20, 4), st.decimals(-(10**15), 10**15, places=4)),
    (TIMESTAMP, MILLENNIUM),
    (pa.timestamp("us"), MILLENNIUM.map(lambda time: time.replace(tzinfo=None))),
    (pa.timestamp("s"), MILLENNIUM.map(lambda time: time.replace(tzinfo=None, microsecond=0))),
    (pa.timestamp("us", "America/New_York"), MILLENNIUM),
    (pa.date32(), st.dates()),
    (pa.date64(), st.dates()),
    (pa.dictionary(pa.int32(), pa.string()), st.text()),
    (pa.list_(pa.int64()), st.lists(st.integers(-5, 5))),
]


@pytest.mark.parametrize(
    ("kind", "values"), COLUMNS, ids=lambda value: str(value) if isinstance(value, pa.DataType) else ""
)
def test_a_column_hashes_like_its_values(kind, values):
    @settings(deadline=None, max_examples=25)
    @given(st.lists(st.none() | values, max_size=8))
    def check(keys):
        column = pa.array(keys, kind)
        assert hash_column(column).tolist() == [stable_hash(key) for key in keys]
        assert hash_column(column[1:]).tolist() == [stable_hash(key) for key in keys[1:]]

    check()


def test_equal_keys_have_equal_hashes():
    noon = datetime(2026, 1, 1, 12, tzinfo=UTC)
    assert stable_hash(-0.0) == stable_hash(0.0) == stable_hash(0)
    assert hash_column(pa.array([-0.0, 0.0])).tolist() == [stable_hash(0.0)] * 2
    assert (
        stable_hash(noon)
        == stable_hash(noon.astimezone(timezone(timedelta(hours=5))))
        == stable_hash(noon.replace(tzinfo=None))
    )
    assert stable_hash(np.int64(-7)) == stable_hash(-7)
    assert stable_hash(np.str_("x")) == stable_hash("x")
    assert stable_hash((5,)) == stable_hash(5)
    assert stable_hash([1, "a"]) == stable_hash((1, "a")) != stable_hash(("a", 1))
    assert stable_hash(None) == stable_hash(()) == 0


@given(
    st.integers(-(2**70), 2**70)
    | st.floats(allow_nan=False)
    | st.decimals(allow_nan=False)
    | st.integers(-5, 5).map(float)
)
def test_equal_numbers_have_equal_hashes(number):
    same = [number]
    for kind in (int, float, Decimal):
        with contextlib.suppress(OverflowError, ValueError):
            same.append(kind(number))
    equal = [other for other in same if other == number]
    assert {stable_hash(other) for other in equal} == {stable_hash(number)}


def test_decimals_of_any_size_are_keys():
    assert stable_hash(Decimal("1e999999999")) == stable_hash(Decimal("10e999999998"))
    assert stable_hash(Decimal("1e-999999999")) == stable_hash(Decimal("10e-1000000000"))
    assert (
        stable_hash(Decimal("0.5"))
        == stable_hash(0.5)
        != stable_hash(Decimal("0.50000000000000000000000000001"))
    )
    assert isinstance(stable_hash(Decimal("sNaN")), int)


def test_known_hashes_never_change():
    """State on disk is split by these."""
    known = [
        (0, "e220a8397b1dcdaf"),
        (True, "910a2dec89025cc1"),
        (-1, "e4d971771b652c20"),
        ("a", "2c3debbc7335b4ee"),
        (b"a", "2c3debbc7335b4ee"),
        ("ä", "17849747cbac9304"),
        (1.5, "d6dab18e1392608a"),
        (date(2026, 1, 1), "89db5515b8de1f50"),
        (datetime(2026, 1, 1, tzinfo=UTC), "6c0c046fa14b4bc8"),
        ((1, "a"), "2ff89d95511b3068"),
        (None, "0000000000000000"),
    ]
    assert [(key, f"{stable_hash(key):016x}") for key, _ in known] == known


@pytest.mark.parametrize("count", [2, 3, 7])
def test_hashes_spread_over_partitions(count):
    for keys in (range(0, 16_000, 16), [f"SYM{n}" for n in range(1_000)], [n / 8 for n in range(1_000)]):
        sizes = np.bincount([stable_hash(key) % count for key in keys], minlength=count)
        assert sizes.min() > 0.75 * 1_000 / count


@pytest.mark.parametrize("key", [timedelta(1), {"a": 1}, {1}, object()])
def test_what_cannot_be_a_key_is_refused(key):
    known = "int, str, bytes, float, bool, Decimal, date, datetime or a tuple of them"
    text = f"a {type(key).__name__} cannot be a key; use {known}"
    with pytest.raises(TypeError) as error:
        stable_hash(key)
    assert str(error.value) == text


class Trade(NamedTuple):
    symbol: str
    venue: int


TRADES = [Trade("IBM", 1), Trade("AAPL", 2), Trade("IBM", 2)]


@pytest.mark.parametrize("columns", [["symbol"], ["venue", "symbol"]])
@pytest.mark.parametrize("schema", [Schema(Trade), Schema(Schema(Trade).arrow)])
def test_a_column_codec_hashes_tuples_as_it_hashes_batches(columns, schema):
    codec = ColumnCodec(columns)
    rows = TRADES if schema.type is Trade else [trade._asdict() for trade in TRADES]
    tuples = Tuples.of_rows(schema, rows)
    assert codec.hashes(tuples).tolist() == [codec.hash(row) for row in tuples.rows]


def test_a_function_codec_hashes_what_the_function_makes():
    codec = FunctionCodec(lambda trade: trade.symbol)
    assert codec.hashes(Tuples.of_rows(Schema(Trade), TRADES)).tolist() == [
        stable_hash(trade.symbol) for trade in TRADES
    ]
    assert codec.hash(TRADES[0]) == ColumnCodec(["symbol"]).hash(TRADES[0])


class ByVenue(StreamCodec):
    def hash(self, tuple):
        return np.int64(-tuple.venue)


@pytest.mark.guide("002", "Stream Codec")
def test_an_author_s_codec_may_give_any_integer():
    assert ByVenue().hashes(Tuples.of_rows(Schema(Trade), TRADES)).tolist() == [
        2**64 - 1,
        2**64 - 2,
        2**64 - 2,
    ]
    assert ByVenue().hashes(Tuples.of_rows(Schema(Trade), [])).dtype == np.uint64
