import copy
import dataclasses
import pickle
from typing import NamedTuple

import pyarrow as pa
import pytest

from ridgeline.api.operator import port_schema
from ridgeline.testing import ABORT, END_WINDOW, EOF, ListInput


class Pair(NamedTuple):
    a: int
    b: str


@dataclasses.dataclass
class Point:
    x: int
    y: int


def test_it_names_the_column_that_holds_the_times():
    assert ListInput(Pair, []).timestamp_of("output") is None
    assert ListInput(Pair, [], timestamp="b").timestamp_of("output") == "b"


@pytest.mark.parametrize(
    ("schema", "items", "made"),
    [
        (Pair, [(1, "x"), Pair(2, "y")], [Pair(1, "x"), Pair(2, "y")]),
        (Point, [(1, 2), Point(3, 4)], [Point(1, 2), Point(3, 4)]),
        (pa.schema([("a", pa.int64())]), [(1,), {"a": 2}], [{"a": 1}, {"a": 2}]),
        (object, [(1, 2), "x", None], [(1, 2), "x", None]),
    ],
)
def test_plain_tuples_become_the_schema_s(schema, items, made):
    source = ListInput(schema, items)
    assert source.items == made
    assert [type(item) for item in source.items] == [type(item) for item in made]
    assert port_schema(source, "output").type is schema


def test_a_plain_tuple_of_another_length_is_refused_at_once():
    with pytest.raises(TypeError):
        ListInput(Pair, [(1,)])
    with pytest.raises(ValueError, match="shorter"):
        ListInput(Point, [(1,)])


@pytest.mark.parametrize("mark", [END_WINDOW, ABORT, EOF])
def test_marks_are_themselves_everywhere(mark):
    assert pickle.loads(pickle.dumps(mark)) is mark
    assert copy.deepcopy([mark]) == [mark]
    assert repr(mark) in ("END_WINDOW", "ABORT", "EOF")


def test_progress_counts_items():
    source = ListInput(Pair, [(1, "x"), END_WINDOW, (2, "y")])
    source.position = 2
    assert source.progress() == (2.0, 1.0)
