from typing import Any, NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ridgeline import PartitionKeys, stable_hash
from ridgeline.api.codec import ColumnCodec, FunctionCodec
from ridgeline.api.partitioner import assign_keys
from ridgeline.api.schema import Schema
from ridgeline.api.tuples import Tuples
from ridgeline.engine.routing import Splitter
from ridgeline.engine.spec import Route
from ridgeline.plan.physical import Dealt


class Item(NamedTuple):
    key: int
    number: int


SCHEMA = Schema(Item)
CODEC = ColumnCodec(["key"])
PARTS = st.lists(st.lists(st.integers(0, 20), max_size=6), max_size=5)


def made(keys: list[list[int]], *, batches: bool) -> list[Tuples]:
    numbers = iter(range(1_000))
    rows = [[Item(key, next(numbers)) for key in part] for part in keys if part]
    return [Tuples.of_batch(SCHEMA, SCHEMA.encode(part)) if batches else Tuples.of_rows(SCHEMA, part) for part in rows]


def route(how: PartitionKeys | Dealt | None, codec: Any = CODEC) -> Route:
    return Route(1, "out", 2, "data", 0, SCHEMA, how, codec)


def numbers(selected: list[Tuples]) -> list[int]:
    assert all(len(part) for part in selected)
    return [row.number for part in selected for row in part.rows]


@settings(deadline=None)
@given(PARTS, st.integers(1, 9), st.booleans())
def test_sticky_each_tuple_goes_to_exactly_one_partition_in_order(keys, count, batches):
    splitter = Splitter(made(keys, batches=batches))
    taken = [splitter.select(route(partition)) for partition in assign_keys(count)]
    assert sorted(number for selected in taken for number in numbers(selected)) == list(range(sum(map(len, keys))))
    for partition, selected in zip(assign_keys(count), taken, strict=True):
        assert numbers(selected) == sorted(numbers(selected))
        assert all(stable_hash(row.key) & partition.mask in partition.keys for part in selected for row in part.rows)


@settings(deadline=None)
@given(PARTS, st.integers(1, 9), st.booleans())
def test_in_turn_each_tuple_goes_to_exactly_one_partition_in_order(keys, count, batches):
    splitter = Splitter(made(keys, batches=batches))
    total = sum(map(len, keys))
    assert [numbers(splitter.select(route(Dealt(index, count)))) for index in range(count)] == [
        list(range(index, total, count)) for index in range(count)
    ]


@settings(deadline=None)
@given(PARTS, st.integers(1, 9), st.integers(0, 100))
def test_dealing_may_begin_with_any_partition(keys, count, start):
    splitter = Splitter(made(keys, batches=True), start)
    taken = [numbers(splitter.select(route(Dealt(index, count)))) for index in range(count)]
    assert taken[start % count][:1] == [0][: sum(map(len, keys))]
    assert sorted(number for selected in taken for number in selected) == list(range(sum(map(len, keys))))
    assert max(map(len, taken)) - min(map(len, taken)) <= 1


@settings(deadline=None)
@given(PARTS)
def test_broadcast_takes_all(keys):
    assert numbers(Splitter(made(keys, batches=False)).select(route(None))) == list(range(sum(map(len, keys))))


def test_the_masks_of_partitions_may_differ():
    """As after a split: one partition kept its key, the other's was halved."""
    splitter = Splitter(made([list(range(100))], batches=True))
    keys = [PartitionKeys(1, frozenset({0})), PartitionKeys(3, frozenset({1})), PartitionKeys(3, frozenset({3}))]
    taken = [numbers(splitter.select(route(part))) for part in keys]
    assert sorted(number for part in taken for number in part) == list(range(100))
    assert all(taken)


def test_each_codec_hashes_a_tuple_once():
    class Counting(FunctionCodec):
        calls = 0

        def hash(self, tuple):
            type(self).calls += 1
            return super().hash(tuple)

    codec = Counting(lambda item: item.key)
    splitter = Splitter(made([[1, 2, 3], [4]], batches=False))
    for partition in assign_keys(4):
        splitter.select(route(partition, codec))
    assert Counting.calls == 4


@pytest.mark.parametrize("how", [None, Dealt(0, 2), assign_keys(2)[0]])
def test_nothing_emitted_is_nothing_sent(how):
    assert Splitter([]).select(route(how)) == []


def test_a_part_that_goes_to_one_partition_as_a_whole_is_not_copied():
    (part,) = made([[5, 5, 5]], batches=True)
    assert [Splitter([part]).select(route(keys)) for keys in assign_keys(2)].count([part]) == 1
