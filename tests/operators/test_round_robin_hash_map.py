from typing import NamedTuple

import pytest

from ridgeline import OperatorError
from ridgeline.operators import RoundRobinHashMap
from support.operators.one_operator import collect


class Number(NamedTuple):
    value: int


class Word(NamedTuple):
    word: str


class Point(NamedTuple):
    x: int
    y: int


def numbers(*sizes):
    windows, start = [], 0
    for size in sizes:
        windows.append([Number(i) for i in range(start, start + size)])
        start += size
    return windows


def rows(windows):
    return [[tuple(row.values()) for row in window] for window in windows]


def test_groups_of_three_words():
    class Triple(NamedTuple):
        a: str
        b: str
        c: str

    windows = [[Word("p"), Word("q")], [Word("r"), Word("s")], [Word("t"), Word("u"), Word("v")]]
    got = collect(RoundRobinHashMap(keys=["a", "b", "c"], schema=Triple), {"data": (Word, windows)}, "map")
    assert rows(got) == [[], [("p", "q", "r")], [("s", "t", "u")]]


@pytest.mark.parametrize("partitions", [2, 3])
def test_each_partition_groups_the_values_that_it_gets(partitions):
    windows = numbers(7, 5, 6, 1, 9)
    got = rows(
        collect(
            RoundRobinHashMap(keys=["x", "y"], schema=Point),
            {"data": (Number, windows)},
            "map",
            partitions=partitions,
        )
    )
    carried = [[] for _ in range(partitions)]
    for number, (window, pairs) in enumerate(zip(windows, got, strict=True)):
        expected = []
        for partition in range(partitions):
            in_turn = window[
                (partition - number) % partitions :: partitions
            ]  # each window begins with the next partition
            values = carried[partition] + [row.value for row in in_turn]
            complete = len(values) - len(values) % 2
            expected += list(zip(values[:complete:2], values[1:complete:2], strict=True))
            carried[partition] = values[complete:]
        assert sorted(pairs) == sorted(expected)


def test_tuples_of_several_columns_are_refused():
    with pytest.raises(
        OperatorError,
        match=r"`RoundRobinHashMap` takes tuples of one column; got \['x', 'y'\]; put a `Map` before it",
    ):
        collect(RoundRobinHashMap(keys=["a"]), {"data": (Point, [[Point(1, 2)]])}, "map")
