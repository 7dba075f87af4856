import enum
from datetime import UTC, date, datetime, timedelta, timezone, tzinfo
from decimal import Decimal
from fractions import Fraction
from typing import NamedTuple
from uuid import UUID
from zoneinfo import ZoneInfo

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ridgeline.engine.state.keyed_hash import UnstableKeyError, hash_many, hash_one, hash_wanted, routed


class Pair(NamedTuple):
    name: str
    number: int


class Colour(enum.Enum):
    RED = 1
    BLUE = 2


class Size(enum.IntEnum):
    SMALL = 1


class Word(enum.StrEnum):
    ONE = "one"


class Part(float, enum.Enum):
    HALF = 0.5


class Odd(int):
    def __eq__(self, other):
        return False

    __hash__ = int.__hash__


class Nowhere(tzinfo):
    def utcoffset(self, when):
        return None


NAIVE = datetime(2026, 1, 1)  # noqa: DTZ001  what is tested
NUMBERS = (
    st.integers()
    | st.integers(-(2**66), 2**66)
    | st.booleans()
    | st.floats(allow_nan=False)
    | st.decimals(allow_nan=False)
)


@given(NUMBERS)
def test_equal_numbers_have_one_hash(number):
    others = []
    for kind in (int, float, Decimal, bool):
        try:
            others.append(kind(number))
        except (OverflowError, ValueError):
            continue
    assert {hash_one(other) for other in others if other == number} <= {hash_one(number)}


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (("a", 1), Pair("a", 1.0)),
        (1, Size.SMALL),
        ("one", Word.ONE),
        (3, np.int32(3)),
        (2.5, np.float32(2.5)),
        (True, np.True_),
        ("a", np.str_("a")),
        (0.0, -0.0),
        (datetime(2026, 1, 1, 12, tzinfo=UTC), datetime(2026, 1, 1, 14, tzinfo=timezone(timedelta(hours=2)))),
        (NAIVE, NAIVE.replace(fold=1)),
        (NAIVE, NAIVE.replace(tzinfo=Nowhere())),
    ],
)
def test_keys_that_are_equal_have_one_hash(one, other):
    assert one == other
    assert hash_one(one) == hash_one(other) == hash_many([other, other])[0] == routed([one, one])[0]


@pytest.mark.parametrize(
    "kind", [np.int8, np.uint16, np.int64, np.uint64, np.float32, np.float64, np.bool_, ">i4", "U3", "S3"]
)
def test_arrays_have_the_hashes_of_their_values(kind):
    keys = np.array([0, 1, 7], kind)
    assert (
        hash_many(keys).tolist() == hash_many(keys[::-1])[::-1].tolist() == list(map(hash_one, keys.tolist()))
    )


def test_large_numbers_in_arrays_have_the_hashes_of_their_values():
    for keys in (np.array([2**63, 1], np.uint64), np.array([1e30, 2.0, -(2.0**63), np.inf])):
        assert hash_many(keys).tolist() == list(map(hash_one, keys.tolist()))


def test_hashes_never_change_since_they_stand_in_files():
    known = {
        0: 0xE220A8397B1DCDAF,
        1: 0x910A2DEC89025CC1,
        -1: 0xE4D971771B652C20,
        2**64: 0xE220A8397B1DCDAF,
        1.5: 0xD6DAB18E1392608A,
        "key": 0x99F68EF645D4340A,
        b"key": 0x99F68EF645D4340A,
        None: 0x0,
        date(2026, 1, 1): 0x89DB5515B8DE1F50,
        NAIVE: 0x6C0C046FA14B4BC8,
        Decimal("1.1"): 0x5B7F22DF6DD7C898,
        UUID(int=5): 0x564829F54B3F8BDD,
        ("a", 1): 0x535C4597897624D9,
        Colour.RED: 0x910A2DEC89025CC1,
    }
    assert {key: hash_one(key) for key in known} == known


@pytest.mark.parametrize(
    "key",
    [
        float("nan"),
        Decimal("nan"),
        frozenset({1}),
        object(),
        Odd(1),
        Part.HALF,
        Fraction(1, 2),
        datetime(2026, 10, 25, 2, fold=1, tzinfo=ZoneInfo("Europe/Berlin")),
        ("a", frozenset()),
        (1, float("nan")),
    ],
)
def test_a_key_that_has_no_stable_hash_is_refused(key):
    with pytest.raises(UnstableKeyError, match=r"has not the same hash in every process; got "):
        hash_one(key)
    with pytest.raises(UnstableKeyError):
        hash_many([key, key])
    assert len(hash_wanted([key, 1])) == 2
