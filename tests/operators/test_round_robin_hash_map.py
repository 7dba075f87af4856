from typing import NamedTuple

import pytest

from ridgeline import OperatorError, SchemaError
from ridgeline.operators import RoundRobinHashMap
from support.operators.one_operator import collect


class Word(NamedTuple):
    word: str


class Point(NamedTuple):
    x: int
    y: int


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


def test_keys_and_schema_must_agree():
    with pytest.raises(
        SchemaError,
        match=r"the columns of `schema` must be the `keys` \['a', 'b'\]; got \['x', 'y'\]; "
        r"rename one or the other",
    ):
        RoundRobinHashMap(keys=["a", "b"], schema=Point)


def test_tuples_of_several_columns_are_refused():
    with pytest.raises(
        OperatorError,
        match=r"`RoundRobinHashMap` takes tuples of one column; got \['x', 'y'\]; put a `Map` before it",
    ):
        collect(RoundRobinHashMap(keys=["a"]), {"data": (Point, [[Point(1, 2)]])}, "map")
