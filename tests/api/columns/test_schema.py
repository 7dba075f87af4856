import dataclasses
from collections import namedtuple
from datetime import date, time
from typing import Any, NamedTuple

import pyarrow as pa
import pytest

from ridgeline import SchemaError
from ridgeline.api.columns.schema import Schema
from ridgeline.api.support.pickling import dumps, loads


class Point(NamedTuple):
    x: int
    y: float | None = None


@dataclasses.dataclass
class Leg:
    start: Point
    seconds: int


class Node(NamedTuple):
    children: "list[Node]"


class Strange(NamedTuple):
    value: complex


class Unresolved(NamedTuple):
    value: "Nowhere"  # noqa: F821


class Mixed(NamedTuple):
    value: int | str


GIVE_ANOTHER = (
    "give a NamedTuple, a dataclass, an attrs class, a pydantic model, a TypedDict, "
    "a `pyarrow.Schema`, a `polars.Schema` or `object`"
)


@pytest.mark.parametrize(
    ("declared", "text"),
    [
        (int, f"<class 'int'> cannot be a schema; {GIVE_ANOTHER}"),
        ({"a": int}, f"{{'a': <class 'int'>}} cannot be a schema; {GIVE_ANOTHER}"),
        (
            namedtuple("Bare", "a"),  # noqa: PYI024
            "field `a` of `Bare` has no type; use `typing.NamedTuple` with annotations",
        ),
        (Unresolved, "the types of `Unresolved` cannot be resolved: name 'Nowhere' is not defined"),
        (Node, "has type `Node`, which contains itself, so it has no column type; use a port of `object`"),
    ],
)
def test_what_cannot_be_a_schema_is_refused(declared, text):
    with pytest.raises(SchemaError) as error:
        Schema(declared)
    assert text in str(error.value)


@pytest.mark.parametrize(
    ("declared", "start", "instead"),
    [
        (Strange, "`Strange.value` has type <class 'complex'>", "use two fields of float"),
        (Mixed, "`Mixed.value` has type int | str", "a column has one type; use that, a field for each, or"),
    ],
)
def test_a_field_of_a_type_without_a_column_is_refused(declared, start, instead):
    with pytest.raises(SchemaError) as error:
        Schema(declared)
    assert str(error.value).startswith(f"{start}, which has no column type; {instead}")


@pytest.mark.parametrize(
    ("row", "text"),
    [
        (
            Point("one", 1.0),
            "Point(x='one', y=1.0) does not fit Point(x: int64, y: double): `x` must be",
        ),
        (Point(1.5), "`x` must be int64; got 1.5 (1.5 is not a whole number)"),
        ((1,), "(1,) does not fit Point(x: int64, y: double); emit a `Point` (1 values instead of 2)"),
        ({"x": 1, "y": 2.0}, "not fit Point(x: int64, y: double); emit a `Point` (a dict is no tuple)"),
        (None, "None does not fit Point(x: int64, y: double); emit a `Point` (a NoneType is no tuple)"),
    ],
)
def test_a_tuple_that_does_not_fit_is_named_with_its_column(row, text):
    with pytest.raises(SchemaError) as error:
        Schema(Point).encode([Point(1, 2.0), row, Point("later")])
    assert text in str(error.value)


class Text(NamedTuple):
    name: str


@pytest.mark.parametrize(("value", "kind"), [(1, "int"), (1.5, "float"), (["a"], "list"), (object, "type")])
def test_what_is_no_text_is_named_by_its_type(value, kind):
    with pytest.raises(
        SchemaError, match=rf"`name` must be string; got .* \(it is of type `{kind}`, not text\)"
    ):
        Schema(Text).encode([Text("a"), Text(value)])
    encoded = Schema(Text).encode([Text("a"), Text(pa.scalar("b"))])
    assert Schema(Text).decode(encoded) == [Text("a"), Text("b")]


class Odd(NamedTuple):
    day: date
    hour: time
    items: list[int]


@pytest.mark.parametrize(
    ("row", "text"),
    [
        (Odd("x", time(), []), "`day` must be .*a str is no date or time"),
        (Odd(date.min, 5, []), "`hour` must be .*a number is no date or time"),
        (Odd(date.min, time(), 5), "`items` must be "),
    ],
)
def test_what_is_no_date_time_or_list_is_named(row, text):
    with pytest.raises(SchemaError, match=text):
        Schema(Odd).encode([row])


def test_errors_of_dataclasses_and_arrow_schemas():
    with pytest.raises(
        SchemaError,
        match=r"^3 does not fit Leg\(start: .*; emit a `Leg` \('int' object has no attribute 'start'\)$",
    ):
        Schema(Leg).encode([3])
    schema = Schema(pa.schema([("a", pa.int64())]))
    with pytest.raises(
        SchemaError, match=r"emit a dictionary of its columns \(keys \['b'\] instead of \['a'\]\)$"
    ):
        schema.encode([{"b": 1}])
    with pytest.raises(
        SchemaError, match=r"emit a dictionary of its columns \('int' object has no attribute 'keys'\)$"
    ):
        schema.encode([1])


def test_a_batch_that_would_lose_something_is_refused():
    schema = Schema(Point)
    with pytest.raises(
        SchemaError,
        match=r"column `x` of an emitted batch is double; the port's schema says int64; Float value 1.5",
    ):
        schema.conform(pa.RecordBatch.from_pydict({"x": [1.5], "y": [1.0]}))
    with pytest.raises(
        SchemaError,
        match=r"^a batch with columns \['x'\] was emitted; "
        r"the port's schema is Point\(x: int64, y: double\); name its",
    ):
        schema.conform(pa.RecordBatch.from_pydict({"x": [1]}))


@dataclasses.dataclass
class Base:
    x: int


@dataclasses.dataclass
class Derived(Base):
    more: str


@pytest.mark.parametrize(
    ("producer", "consumer", "text"),
    [
        (Point, Point, None),
        (Point, object, None),
        (object, Point, "`object` cannot be read as Point(x: int64, y: double)"),
        (Point, pa.schema([("z", pa.int64()), ("y", pa.float64())]), "field 1 is `x` here and `z` there"),
        (Point, pa.schema([("x", pa.int64()), ("y", pa.int64())]), "field `y` is double here"),
        (pa.schema([("x", pa.int64())]), Point, "field `y` is only there"),
        (Derived, Base, None),
        (Base, Derived, "field `more` is only there"),
    ],
)
def test_difference_names_the_first_field_that_differs(producer, consumer, text):
    found = Schema(producer).difference(Schema(consumer))
    assert found is None if text is None else text in found


def test_schemas_are_values():
    assert Schema(Point) == Schema(pa.schema([("x", pa.int64()), ("y", pa.float64())])) != Schema(Leg)
    assert len({Schema(Point), Schema(Point)}) == 1
    assert repr(Schema(Point)) == "Schema(Point)"
    assert loads(dumps(Schema(Point))) == Schema(Point)
    assert Schema(Point) != Schema(object) != 3


class Part(NamedTuple):
    number: int


class Whole(NamedTuple):
    part: Part


def test_a_field_that_is_a_record_takes_its_record_or_a_dictionary_of_exactly_its_fields():
    schema = Schema(Whole)
    assert schema.decode(schema.encode([Whole(Part(1)), Whole({"number": 2})])) == [
        Whole(Part(1)),
        Whole(Part(2)),
    ]  # type: ignore[arg-type]
    for wrong in ({}, {"number": 1, "other": 2}, {"nubmer": 1}, (1,), [1], "x", 1):
        with pytest.raises(SchemaError, match="`part` must be struct<number: int64>"):
            schema.encode([Whole(wrong)])  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "kind",
    [
        pa.schema([("a", pa.int64()), ("b", pa.int64()), ("a", pa.string())]),
        pa.schema([("b", pa.struct([("a", pa.int64()), ("a", pa.int64())]))]),
        pa.schema([("b", pa.list_(pa.list_(pa.struct([("a", pa.int64()), ("a", pa.int64())]))))]),
        pa.schema([("b", pa.map_(pa.string(), pa.struct([("a", pa.int64()), ("a", pa.int64())])))]),
    ],
)
def test_a_column_that_a_schema_has_twice_is_refused(kind: Any) -> None:
    with pytest.raises(SchemaError, match="has the column `a` twice"):
        Schema(kind)
