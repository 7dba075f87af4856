from typing import Any, NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ridgeline import PartitionKeys, stable_hash
from ridgeline.api.codec import ColumnCodec, FunctionCodec
from ridgeline.api.columns.schema import Schema
from ridgeline.api.columns.tuples import Tuples
from ridgeline.api.partitioner import assign_keys
from ridgeline.engine.exchange.routing import Splitter
from ridgeline.plan.container_spec import Route
from ridgeline.plan.physical import RoundRobin


class Item(NamedTuple):
    key: int
    number: int


SCHEMA = Schema(Item)
CODEC = ColumnCodec(["key"])
PARTS = st.lists(st.lists(st.integers(0, 20), max_size=6), max_size=5)


def made(keys: list[list[int]], *, batches: bool) -> list[Tuples]:
    numbers = iter(range(1_000))
    rows = [[Item(key, next(numbers)) for key in part] for part in keys if part]
    return [
        Tuples.of_batch(SCHEMA, SCHEMA.encode(part)) if batches else Tuples.of_rows(SCHEMA, part)
        for part in rows
    ]


def route(how: PartitionKeys | RoundRobin | None, codec: Any = CODEC) -> Route:
    return Route(1, "out", 2, "data", 0, SCHEMA, how, codec)


def split(parts: list[Tuples], routes: list[Route], start: int = 0) -> list[list[Tuples]]:
    """What each route gets of all parts."""
    splitter = Splitter(routes)
    splitter.begin(start)
    shares = [splitter.split(part) for part in parts]
    return (
        [[share for share in taken if share is not None] for taken in zip(*shares, strict=True)]
        if shares
        else [[] for _ in routes]
    )


def numbers(selected: list[Tuples]) -> list[int]:
    assert all(len(part) for part in selected)
    return [row.number for part in selected for row in part.rows]


@settings(deadline=None)
@given(PARTS, st.integers(1, 20), st.booleans())
def test_sticky_each_tuple_goes_to_exactly_one_partition_in_order(keys, count, batches):
    taken = split(made(keys, batches=batches), [route(partition) for partition in assign_keys(count)])
    assert sorted(number for selected in taken for number in numbers(selected)) == list(
        range(sum(map(len, keys)))
    )
    for partition, selected in zip(assign_keys(count), taken, strict=True):
        assert numbers(selected) == sorted(numbers(selected))
        assert all(
            stable_hash(row.key) & partition.mask in partition.keys for part in selected for row in part.rows
        )


@settings(deadline=None)
@given(PARTS, st.integers(1, 9), st.booleans())
def test_in_turn_each_tuple_goes_to_exactly_one_partition_in_order(keys, count, batches):
    taken = split(made(keys, batches=batches), [route(RoundRobin(index, count)) for index in range(count)])
    total = sum(map(len, keys))
    assert list(map(numbers, taken)) == [list(range(index, total, count)) for index in range(count)]


@settings(deadline=None)
@given(PARTS, st.integers(1, 9), st.integers(0, 100))
def test_dealing_may_begin_with_any_partition(keys, count, start):
    routes = [route(RoundRobin(index, count)) for index in range(count)]
    taken = list(map(numbers, split(made(keys, batches=True), routes, start)))
    assert taken[start % count][:1] == [0][: sum(map(len, keys))]
    assert sorted(number for selected in taken for number in selected) == list(range(sum(map(len, keys))))
    assert max(map(len, taken)) - min(map(len, taken)) <= 1


@settings(deadline=None)
@given(PARTS)
def test_broadcast_takes_all(keys):
    (taken,) = split(made(keys, batches=False), [route(None)])
    assert numbers(taken) == list(range(sum(map(len, keys))))


def test_the_masks_of_partitions_may_differ():
    """As after a split: one partition kept its key, the other's was halved."""
    keys = [
        PartitionKeys(1, frozenset({0})),
        PartitionKeys(3, frozenset({1})),
        PartitionKeys(3, frozenset({3})),
    ]
    taken = list(map(numbers, split(made([list(range(100))], batches=True), list(map(route, keys)))))
    assert sorted(number for part in taken for number in part) == list(range(100))
    assert all(taken)


def test_several_consumers_of_one_key_get_the_same_each():
    """Two operators of two and three partitions behind one codec, and one that takes all."""
    routes = [*map(route, assign_keys(2)), *map(route, assign_keys(3)), route(None)]
    parts = made([list(range(50)), list(range(30, 80))], batches=True)
    taken = list(map(numbers, split(parts, routes)))
    assert taken[0:2] == list(map(numbers, split(parts, routes[0:2])))
    assert taken[2:5] == list(map(numbers, split(parts, routes[2:5])))
    assert taken[5] == list(range(100))


def test_each_codec_hashes_a_tuple_once():
    class Counting(FunctionCodec):
        calls = 0

        def hash(self, tuple):
            type(self).calls += 1
            return super().hash(tuple)

    codec = Counting(lambda item: item.key)
    split(
        made([[1, 2, 3], [4]], batches=False),
        [route(partition, codec) for count in (4, 2) for partition in assign_keys(count)],
    )
    assert Counting.calls == 4


@pytest.mark.parametrize("how", [RoundRobin(0, 2), assign_keys(2)[0]])
def test_of_an_empty_run_nothing_is_taken(how):
    assert Splitter([route(how)]).split(Tuples.of_rows(SCHEMA, [])) == [None]


def test_a_part_that_goes_to_one_partition_as_a_whole_is_not_copied():
    (part,) = made([[5, 5, 5]], batches=True)
    assert split([part], list(map(route, assign_keys(2)))).count([part]) == 1
