from typing import NamedTuple

import numpy as np
import pytest

from ridgeline.api.columns.schema import Schema
from ridgeline.api.columns.tuples import Tuples, concatenate


class Pair(NamedTuple):
    key: int
    value: float


class Couple(NamedTuple):
    key: int
    value: float


SCHEMA = Schema(Pair)
ROWS = [Pair(1, 1.0), Pair(2, 2.0), Pair(3, 3.0)]


def test_rows_and_batch_are_made_from_one_another():
    by_rows, by_batch = Tuples.of_rows(SCHEMA, ROWS), Tuples.of_batch(SCHEMA, SCHEMA.encode(ROWS))
    assert len(by_rows) == len(by_batch) == 3
    assert by_rows.rows == by_batch.rows == ROWS
    assert by_rows.batch.equals(by_batch.batch)
    assert by_batch.rows is by_batch.rows


@pytest.mark.parametrize(
    "tuples", [Tuples.of_rows(SCHEMA, ROWS), Tuples.of_batch(SCHEMA, SCHEMA.encode(ROWS))]
)
def test_take_keeps_the_order_asked_for(tuples):
    assert tuples.take(np.array([2, 0])).rows == [ROWS[2], ROWS[0]]
    assert len(tuples.take(np.array([], dtype=np.int64))) == 0


def test_a_consumer_gets_its_own_class():
    tuples = Tuples.of_rows(SCHEMA, ROWS)
    assert tuples.read_as(SCHEMA) is tuples
    assert tuples.read_as(Schema(Couple)).rows[0] == Couple(1, 1.0)
    assert type(tuples.read_as(Schema(Couple)).rows[0]) is Couple
    assert tuples.read_as(Schema(tuples.schema.arrow)).rows[0] == {"key": 1, "value": 1.0}


def test_a_consumer_of_objects_gets_the_producer_s_tuples():
    read = Tuples.of_batch(SCHEMA, SCHEMA.encode(ROWS)).read_as(Schema(object))
    assert read.rows == ROWS
    assert Tuples.of_batch(Schema(object), read.batch).rows == ROWS


def test_concatenate_keeps_order_whatever_the_parts_are():
    rows, batch = Tuples.of_rows(SCHEMA, ROWS[:1]), Tuples.of_batch(SCHEMA, SCHEMA.encode(ROWS[1:]))
    assert concatenate(SCHEMA, [rows]) is rows
    assert concatenate(SCHEMA, [rows, rows]).rows == [ROWS[0]] * 2
    assert concatenate(SCHEMA, [rows, batch]).rows == ROWS
    assert concatenate(SCHEMA, [batch.take(np.array([], dtype=np.int64))] * 2).rows == []
