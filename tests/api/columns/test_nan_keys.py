"""Keys that are one: all NaN, wherever they come from; -0.0 and 0.0; equal numbers of different types."""

from __future__ import annotations

import math
import pickle
from collections import Counter
from decimal import Decimal
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pytest

from ridgeline import KeyedState, stable_hash
from ridgeline.api.codec import hash_column
from ridgeline.api.columns.schema import Schema
from ridgeline.api.columns.tuples import Tuples
from ridgeline.api.errors import StateError

ODD = np.frombuffer(b"\x01\x00\x00\x00\x00\x00\xf8\xff")[0]
NANS = [
    float("nan"),
    math.nan,
    -float("nan"),
    np.float64("nan"),
    np.float32("nan"),
    float(ODD),
    Decimal("NaN"),
    complex("nan"),
]


class Reading(NamedTuple):
    key: float
    amount: int


def test_every_nan_goes_to_the_same_partition():
    floats = [float("nan"), -float("nan"), float(ODD)]
    [one] = {stable_hash(nan) for nan in [*floats, np.float32("nan"), Decimal("NaN"), Decimal("-sNaN")]}
    assert set(hash_column(pa.array(floats)).tolist()) == {one}
    assert set(hash_column(pa.array([np.float32("nan")], pa.float32())).tolist()) == {one}
    assert stable_hash(("a", -float("nan"))) == stable_hash(("a", float("nan")))
    assert (
        stable_hash(-0.0)
        == stable_hash(0.0)
        == stable_hash(0)
        == stable_hash(False)
        == stable_hash(Decimal(0))
    )
    assert one not in {stable_hash(None), stable_hash(0)}


def test_all_nans_are_one_key_of_keyed_state():
    cell = KeyedState(int, default=0).cell()
    cell.begin(0)
    for nan in NANS:
        cell[nan] += 1
    assert list(cell.values()) == [len(NANS)]
    assert all(nan in cell and cell.get(nan) == len(NANS) for nan in NANS)
    floats = [float("nan") for _ in range(3)]
    for array in (floats, np.array(floats), pa.array(floats), np.array(floats, object)):
        cell.put_many(array, [7, 8, 9])
        assert cell.get_many(array).tolist() == [9, 9, 9]
        assert len(cell) == 1
    assert cell.setdefault(float("nan"), 3) == 9
    assert cell.pop(float("nan")) == 9
    cell[float("nan")] = 1
    del cell[float("nan")]
    assert not cell
    with pytest.raises(KeyError):
        del cell[float("nan")]


def test_a_restored_state_finds_its_nan():
    cell = KeyedState(int).cell()
    cell.begin(0)
    cell[float("nan")] = 1
    cell["x", cell_nan(cell)] = 3
    other = KeyedState(int).cell()
    other.apply(pickle.loads(pickle.dumps(cell.snapshot())))
    other.begin(1)
    other[float("nan")] = 5
    other["x", cell_nan(other)] = 6
    assert len(other) == len(cell)
    changed = pickle.loads(pickle.dumps(other.changes()))
    cell.begin(1)
    cell.apply(changed)
    assert len(cell) == len(other)
    assert cell[float("nan")] == 5


def cell_nan(cell: Any) -> float:
    return next(key for key in cell if isinstance(key, float))


def test_tuples_of_a_port_have_one_nan():
    rows = [Reading(float("nan"), 1), Reading(1.0, 2), Reading(float("nan"), 3)]
    schema = Schema(Reading)
    for tuples in (Tuples.of_rows(schema, rows), Tuples.of_batch(schema, schema.encode(rows))):
        counts = Counter((row.key, "x") for row in tuples.rows)
        assert sorted(counts.values()) == [1, 2]
    arrow = pa.schema([("key", pa.float64()), ("amount", pa.int64())])
    tuples = Tuples.of_rows(Schema(arrow), [row._asdict() for row in rows])
    assert sorted(Counter((row["key"], "x") for row in tuples.rows).values()) == [1, 2]


def test_a_nan_in_a_tuple_that_equals_no_other_is_refused_at_the_end_of_the_window():
    cell = KeyedState(int).cell()
    cell.begin(0)
    cell["x", float("nan")] = 1
    with pytest.raises(
        StateError,
        match=r"has the key \('x', nan\), in which a NaN stands that equals no other; use `math.nan`",
    ):
        cell.changes()
