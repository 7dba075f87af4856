"""Shared keys: each tuple goes to exactly one sharer, and all get about as much."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pytest

from ridgeline import PartitionKeys, Schema, Tuples
from ridgeline.api.codec import ColumnCodec
from ridgeline.engine.exchange.routing import Splitter
from ridgeline.plan.container_spec import Route


class Number(NamedTuple):
    key: int
    place: int


SCHEMA = Schema(Number)
CODEC = ColumnCodec(["key"])


def splitter(operators):
    """One of several operators on one stream, each with the keys of its partitions."""
    routes = [
        Route(1, "output", 10 * number + place, "data", 2, SCHEMA, keys, CODEC, None, f"op{number}.data")
        for number, parts in enumerate(operators)
        for place, keys in enumerate(parts)
    ]
    return Splitter(routes)


def parts(owners, shared, partitions):
    """Keys of partitions by cells' owners; cells in `shared` belong to all."""
    return [
        PartitionKeys(
            len(owners) - 1,
            frozenset(c for c, owner in enumerate(owners) if owner == one and c not in shared),
            frozenset(shared),
        )
        for one in range(partitions)
    ]


def places(taken):
    return [[] if one is None else [row.place for row in one.rows] for one in taken]


def test_a_hot_key_is_dealt_out_so_that_all_get_as_much():
    cell = int(CODEC.hashes(Tuples.of_rows(SCHEMA, [Number(7, 0)]))[0]) & 15
    owners = [number % 4 for number in range(16)]
    made = splitter([parts(owners, {cell}, 4)])
    made.begin(2)
    random = np.random.default_rng(1)
    rows = [Number(7 if one < 0.6 else int(one * 1e6), 0) for one in random.random(4_000)]
    sizes = np.zeros(4, int)
    for begin in range(0, 4_000, 100):
        sizes += [len(own) for own in places(made.split(Tuples.of_rows(SCHEMA, rows[begin : begin + 100])))]
    assert sizes.sum() == 4_000
    assert sizes.max() - sizes.min() <= 1


@pytest.mark.parametrize("start", range(4))
def test_few_tuples_begin_with_another_partition_in_each_window(start):
    cell = int(CODEC.hashes(Tuples.of_rows(SCHEMA, [Number(7, 0)]))[0]) & 15
    made = splitter([parts([number % 4 for number in range(16)], {cell}, 4)])
    made.begin(start)
    sizes = [len(own) for own in places(made.split(Tuples.of_rows(SCHEMA, [Number(7, 0)])))]
    assert sizes.index(1) == start
