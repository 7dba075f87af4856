import copy
import dataclasses
import pickle
import re
from typing import NamedTuple

import pyarrow as pa
import pytest

from ridgeline.api.columns.schema import Schema
from ridgeline.api.errors import SchemaError
from ridgeline.api.operator import port_schema
from ridgeline.testing import ABORT, END_WINDOW, EOF, ListInput


class Pair(NamedTuple):
    a: int
    b: str


@dataclasses.dataclass
class Point:
    x: int
    y: int


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


@pytest.mark.parametrize("mark", [END_WINDOW, ABORT, EOF])
def test_marks_are_themselves_everywhere(mark):
    assert pickle.loads(pickle.dumps(mark)) is mark
    assert copy.deepcopy([mark]) == [mark]
    assert repr(mark) in ("END_WINDOW", "ABORT", "EOF")


@pytest.mark.parametrize("schema", [Pair, Point, pa.schema([("x", pa.int64()), ("y", pa.int64())])])
def test_a_tuple_of_the_wrong_length_is_refused(schema):
    fields = re.escape(Schema(schema).describe())
    text = rf"^item \(1,\) has 1 value, but the list has tuples of {fields}; give one for each field$"
    with pytest.raises(SchemaError, match=text):
        ListInput(schema, [(1, 2), (1,)])
