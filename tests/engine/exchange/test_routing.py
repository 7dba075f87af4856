from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ridgeline import PartitionKeys, Schema, StreamCodec, Tuples, stable_hash
from ridgeline.api.codec import ColumnCodec, FunctionCodec
from ridgeline.api.columns.combined import Combined
from ridgeline.api.partitioner import assign_keys
from ridgeline.engine.exchange.key_counts import (
    KeyCounters,
    key_text,
    packed_cells,
    unpacked_cells,
)
from ridgeline.engine.exchange.routing import Splitter
from ridgeline.operators import Windowed, aggregate, tumbling
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
    return Route("s", 1, "out", 2, "data", SCHEMA, how, codec)


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


@pytest.mark.parametrize("others", [((1, 0), (3, 1), (3, 3)), ((3, 0), (3, 2), (5, 1), (5, 5))])
def test_the_masks_of_partitions_may_differ(others):
    """As after a split: one partition kept its key, the other's was halved. Or no mask has all bits."""
    keys = [PartitionKeys(mask, frozenset({key})) for mask, key in others]
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


class Sold(NamedTuple):
    shop: str
    cents: int
    time: datetime


SOLD = Schema(Sold)
SHOPS = ColumnCodec(["shop"])


def sold(shops: list[str]) -> Tuples:
    """Sales of these shops, a second each."""
    start = datetime(2026, 1, 1, tzinfo=UTC)
    rows = [Sold(shop, place, start + timedelta(seconds=place)) for place, shop in enumerate(shops)]
    return Tuples.of_batch(SOLD, SOLD.encode(rows), "time")


def combining_routes(containers: list[int]) -> list[Route]:
    combiner = Windowed(tumbling("1h"), key="shop", values={"n": aggregate.count()}).combiner(())
    keys = assign_keys(len(containers)) if len(containers) > 1 else [None]
    return [
        Route("s", 1, "out", number, "input", SOLD, own, SHOPS, None, combiner, container)
        for number, (container, own) in enumerate(zip(containers, keys, strict=True))
    ]


def test_keys_are_counted_tuple_by_tuple_where_partial_results_are_sent() -> None:
    part = sold([f"shop {place * place % 7}" for place in range(6_000)])
    counts = []
    for here in (None, {0}):
        splitter, counters = Splitter(combining_routes([1, 2, 3])), KeyCounters(6)
        splitter.begin(0, here)
        shares = splitter.split(part, counters)
        counts.append(counters.counts())
        assert sum(len(share) for share in shares if share is not None) == 6_000
        assert all(isinstance(share, Combined) == (here is not None) for share in shares if share is not None)
    assert counts[0] == counts[1]


def test_what_stays_in_the_process_of_one_partition_is_not_combined() -> None:
    part = sold(["a", "b"] * 3_000)
    for containers, here, combined in (([1], {1}, False), ([1], {0}, True), ([1, 2], {1, 2}, True)):
        splitter = Splitter(combining_routes(containers))
        splitter.begin(0, here)
        shares = [share for share in splitter.split(part) if share is not None]
        assert [isinstance(share, Combined) for share in shares] == [combined] * len(shares), containers


def test_a_sender_rests_where_combining_does_not_pay() -> None:
    """Of batches with many keys ever fewer are looked at; of few keys each is combined again."""
    many, few = sold([f"shop {place}" for place in range(5_000)]), sold(["a", "b"] * 2_500)
    splitter = Splitter(combining_routes([1, 2]))
    splitter.begin(0, {0})

    def combines(part: Tuples) -> bool:
        return any(isinstance(share, Combined) for share in splitter.split(part))

    assert not any(combines(many) for _ in range(1 + 1 + 1 + 3 + 1))
    assert [combines(few) for _ in range(9)] == [False] * 7 + [True] * 2


def test_readers_of_one_key_get_partial_results_or_tuples_as_each_takes_them() -> None:
    part = sold([f"shop {place % 5}" for place in range(6_000)])
    taking = [
        Route("s", 1, "out", 9, "input", SOLD, own, SHOPS, container=one)
        for one, own in enumerate(assign_keys(2))
    ]
    for routes in ([*combining_routes([1, 2]), *taking], [*taking, *combining_routes([1, 2])]):
        splitter, counters = Splitter(routes), KeyCounters(6)
        splitter.begin(0, {0})
        shares = splitter.split(part, counters)
        of_sink: dict[bool, int] = {False: 0, True: 0}
        for one, share in zip(routes, shares, strict=True):
            assert isinstance(share, Combined) == (one.combiner is not None) or share is None
            of_sink[one.combiner is not None] += 0 if share is None else len(share)
        assert of_sink == {False: 6_000, True: 6_000}
        assert [counts.tuples for counts in counters.counts()] == [6_000]


class Number(NamedTuple):
    key: int
    place: int


NUMBERS = Schema(Number)


def splitter(operators):
    """One of several operators on one stream, each with the keys of its partitions."""
    routes = [
        Route(
            *("s", 1, "output", 10 * number + place, "data", NUMBERS, keys, CODEC),
            container=2,
            towards=f"op{number}.data",
        )
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
    cell = int(CODEC.hashes(Tuples.of_rows(NUMBERS, [Number(7, 0)]))[0]) & 15
    owners = [number % 4 for number in range(16)]
    made = splitter([parts(owners, {cell}, 4)])
    made.begin(2)
    random = np.random.default_rng(1)
    rows = [Number(7 if one < 0.6 else int(one * 1e6), 0) for one in random.random(4_000)]
    sizes = np.zeros(4, int)
    for begin in range(0, 4_000, 100):
        sizes += [len(own) for own in places(made.split(Tuples.of_rows(NUMBERS, rows[begin : begin + 100])))]
    assert sizes.sum() == 4_000
    assert sizes.max() - sizes.min() <= 1


@pytest.mark.parametrize("start", range(4))
def test_few_tuples_begin_with_another_partition_in_each_window(start):
    cell = int(CODEC.hashes(Tuples.of_rows(NUMBERS, [Number(7, 0)]))[0]) & 15
    made = splitter([parts([number % 4 for number in range(16)], {cell}, 4)])
    made.begin(start)
    sizes = [len(own) for own in places(made.split(Tuples.of_rows(NUMBERS, [Number(7, 0)])))]
    assert sizes.index(1) == start


class Visit(NamedTuple):
    page: str
    user: int


def visits(pages):
    return Tuples.of_rows(Schema(Visit), [Visit(page, number) for number, page in enumerate(pages)])


def counted(parts, codec, bits=6):
    counters = KeyCounters(bits)
    for part in parts:
        counters.add((7,), codec, codec.hashes(part).astype(np.uint64), part)
    (counts,) = counters.counts()
    return counts


def test_cells_hold_every_tuple():
    pages = [f"page {number * number % 97}" for number in range(5_000)]
    counts = counted([visits(pages[:1_000]), visits(pages[1_000:])], ColumnCodec(["page"]))
    expected = Counter(stable_hash(page) & 63 for page in pages)
    cells = unpacked_cells(counts.cells)
    assert {cell: many for cell, many in enumerate(cells.tolist()) if many} == expected
    assert (counts.sinks, counts.tuples) == ((7,), 5_000)


def test_few_tuples_are_all_looked_at():
    counts = counted([visits(["home", "cart", "home"])], ColumnCodec(["page"]))
    assert counts.sampled == 3
    assert counts.heavy == ((stable_hash("home"), "home", 2), (stable_hash("cart"), "cart", 1))


class ByBank(StreamCodec):
    def hash(self, tuple):
        return stable_hash(tuple.page[:2])


class Broken(StreamCodec):
    def key_columns(self, schema):
        raise RuntimeError


@pytest.mark.parametrize(
    ("codec", "text"),
    [
        (ColumnCodec(["page"]), "home"),
        (ColumnCodec(["page", "user"]), "home, 0"),
        (FunctionCodec(lambda visit: visit.page.upper()), "HOME"),
        (ByBank(), "Visit(page='home', user=0)"),
        (Broken(), "a Visit"),
    ],
)
def test_a_key_has_a_text_for_people(codec, text):
    assert key_text(codec, visits(["home"])) == text


@pytest.mark.parametrize("used", [0, 1, 300, 1_024])
def test_cells_are_packed_and_unpacked(used):
    cells = np.zeros(1_024, np.int64)
    cells[:used] = np.arange(1, used + 1)
    data = packed_cells(cells)
    assert len(data) <= 4 * 1_024
    assert unpacked_cells(data).tolist() == cells.tolist()


@pytest.mark.parametrize("start", range(3))
def test_round_robin_begins_with_another_partition_in_each_window(start):
    taken = split(made([[1]], batches=False), [route(RoundRobin(index, 3)) for index in range(3)], start)
    assert [sum(map(len, shares)) for shares in taken].index(1) == start
