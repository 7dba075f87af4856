import dataclasses
import sys
import types
from collections import namedtuple
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from typing import Any, NamedTuple

import cloudpickle
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ridgeline import SchemaError
from ridgeline.api.columns.schema import Schema
from ridgeline.api.support.pickling import dumps, loads
from support.depth import deep

INT64 = st.integers(-(2**63), 2**63 - 1)
TIMES = st.datetimes(timezones=st.just(UTC)).map(lambda time: time.replace(fold=0))


class Payment(NamedTuple):
    account: int
    amount: float
    name: str
    valid: bool
    raw: bytes
    time: datetime


class Point(NamedTuple):
    x: int
    y: float | None = None


@dataclasses.dataclass
class Leg:
    start: Point
    seconds: int


class Odd(NamedTuple):
    day: date
    length: timedelta
    at: time
    price: Decimal
    maybe: int | None
    points: list[Point]
    counts: dict[str, int]
    legs: dict[str, Leg]
    times: list[datetime]
    leg: Leg | None


@dataclasses.dataclass(kw_only=True)
class Named:
    b: int
    a: str = "a"


@dataclasses.dataclass
class Worked:
    a: int
    double: int = dataclasses.field(init=False, default=0)

    def __post_init__(self) -> None:
        self.double = 2 * self.a


class Node(NamedTuple):
    children: "list[Node]"


class Strange(NamedTuple):
    value: complex


class Unresolved(NamedTuple):
    value: "Nowhere"  # noqa: F821


class Mixed(NamedTuple):
    value: int | str


LEGS = st.builds(Leg, st.builds(Point, INT64, st.none() | st.floats(allow_nan=False)), INT64)
PAYMENTS = st.builds(Payment, INT64, st.floats(allow_nan=False), st.text(), st.booleans(), st.binary(), TIMES)
ODDS = st.builds(
    Odd,
    st.dates(),
    st.timedeltas(timedelta(-10_000), timedelta(10_000)),
    st.times(),
    st.decimals(-(10**9), 10**9, places=4),
    st.none() | INT64,
    st.lists(st.builds(Point, INT64, st.none())),
    st.dictionaries(st.text(), INT64),
    st.dictionaries(st.text(), LEGS),
    st.lists(TIMES),
    st.none() | LEGS,
)


def types_of(value: Any) -> Any:
    if isinstance(value, (list, tuple)):
        return [type(value), *map(types_of, value)]
    if dataclasses.is_dataclass(value):
        return [type(value), *(types_of(getattr(value, field.name)) for field in dataclasses.fields(value))]
    if isinstance(value, dict):
        return [dict, *((types_of(key), types_of(item)) for key, item in value.items())]
    return (type(value), getattr(value, "tzinfo", None))


@pytest.mark.parametrize(("kind", "rows"), [(Payment, PAYMENTS), (Odd, ODDS), (Leg, LEGS)])
def test_tuples_come_back_equal_and_of_the_same_types(kind, rows):
    @settings(deadline=None, max_examples=deep(12))
    @given(st.lists(rows, max_size=3))
    def check(tuples):
        schema = Schema(kind)
        back = schema.decode(schema.encode(tuples))
        assert back == tuples
        assert types_of(back) == types_of(tuples)

    check()


def test_canonical_knows_what_encoding_would_change():
    now = datetime(2026, 1, 1, tzinfo=UTC)
    good = Payment(1, 1.0, "a", True, b"", now)
    schema = Schema(Payment)
    assert schema.settle([good])[0]
    assert Schema(Leg).settle([Leg(Point(1), 2)])[0] is False
    assert not schema.settle([good._replace(amount=1)])[0]
    assert not schema.settle([good._replace(amount=1)] * 2 + [good])[0]
    assert not Schema(Point).settle([Point(1, 2.0), Point(1, None)])[0]
    assert not schema.settle([good._replace(time=datetime(2026, 1, 1))])[0]  # noqa: DTZ001
    assert not schema.settle([good._replace(time=now.astimezone(timezone(timedelta(hours=1))))])[0]
    assert not schema.settle([tuple(good)])[0]
    assert Schema(Worked).settle([Worked(1)])[0]
    assert not Schema(pa.schema([("a", pa.int64())])).settle([{"a": 1}])[0]
    assert Schema(object).settle([{"a": 1}, None])[0]


def test_times_without_a_zone_are_utc_and_others_become_it():
    schema = Schema(NamedTuple("T", [("time", datetime)]))
    rows = [(datetime(2026, 1, 1, 12),), (datetime(2026, 1, 1, 12, tzinfo=timezone(timedelta(hours=2))),)]  # noqa: DTZ001
    first, second = schema.decode(schema.encode(rows))
    assert repr(first.time) == "datetime.datetime(2026, 1, 1, 12, 0, tzinfo=datetime.timezone.utc)"
    assert second.time == datetime(2026, 1, 1, 10, tzinfo=UTC)


class Period(NamedTuple):
    first: date | None
    at: datetime | None


def test_dates_and_times_come_back_whatever_the_year_and_if_they_are_missing():
    schema = Schema(Period)
    ends = [
        Period(date.min, datetime.min.replace(tzinfo=UTC)),
        Period(date.max, datetime.max.replace(tzinfo=UTC)),
    ]
    for rows in (ends, [*ends, Period(None, None)], [Period(None, None)]):
        back = schema.decode(schema.encode(rows))
        assert back == rows
        assert types_of(back) == types_of(rows)
    assert schema.decode(schema.encode(ends).slice(1)) == ends[1:]
    with pytest.raises(OverflowError):
        schema.decode(
            pa.RecordBatch.from_arrays(
                [pa.array([10_000_000], pa.date32()), pa.array([0], schema.arrow[1].type)],
                schema=schema.arrow,
            )
        )


def test_dataclasses_of_keywords_and_with_worked_out_fields():
    assert Schema(Named).decode(Schema(Named).encode([Named(a="x", b=1)])) == [Named(a="x", b=1)]
    assert Schema(Worked).arrow.names == ["a", "double"]
    other = Worked(4)
    other.double = 5
    back = Schema(Worked).decode(Schema(Worked).encode([Worked(4), other]))
    assert [(row.a, row.double) for row in back] == [(4, 8), (4, 5)]


def test_an_arrow_schema_has_dictionaries_as_tuples():
    schema = Schema(
        pa.schema(
            [("a", pa.int32()), ("b", pa.list_(pa.string())), ("c", pa.dictionary(pa.int8(), pa.string()))]
        )
    )
    rows = [{"a": 1, "b": ["x", None], "c": "red"}, {"a": None, "b": None, "c": None}]
    assert schema.decode(schema.encode(rows)) == rows
    category = "dictionary<values=string, indices=int8, ordered=0>"
    assert schema.describe() == f"pyarrow.Schema(a: int32, b: list<item: string>, c: {category})"


def test_object_takes_any_value():
    schema = Schema(object)
    rows = [1, None, {"a": {1, 2}}, Point(1)]
    assert schema.decode(schema.encode(rows)) == rows
    assert schema.describe() == schema.name == "object"


GIVE_ANOTHER = (
    "give a NamedTuple, a dataclass, an attrs class, a pydantic model, a TypedDict, "
    "a `pyarrow.Schema`, a `polars.Schema` or `object`"
)


@pytest.mark.parametrize(
    ("declared", "text"),
    [
        (int, f"<class 'int'> cannot be a schema; {GIVE_ANOTHER}"),
        ({"a": int}, f"{{'a': <class 'int'>}} cannot be a schema; {GIVE_ANOTHER}"),
        ([1], f"[1] cannot be a schema; {GIVE_ANOTHER}"),
        (
            namedtuple("Bare", "a"),  # noqa: PYI024
            "field `a` of `Bare` has no type; use `typing.NamedTuple` with annotations",
        ),
        (
            Unresolved,
            (
                "the types of `Unresolved` cannot be resolved: name 'Nowhere' is not defined; "
                "define them at module level"
            ),
        ),
        (
            Node,
            (
                "`Node.children.children` has type `Node`, which contains itself, so it has no column type; "
                "use a port of `object`"
            ),
        ),
    ],
)
def test_what_cannot_be_a_schema_is_refused(declared, text):
    with pytest.raises(SchemaError) as error:
        Schema(declared)
    assert str(error.value) == text


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
            (
                "Point(x='one', y=1.0) does not fit Point(x: int64, y: double): "
                "`x` must be int64; got 'one' (Could not convert"
            ),
        ),
        (
            Point(2**63),
            "does not fit Point(x: int64, y: double): `x` must be int64; got 9223372036854775808 (",
        ),
        (Point(1.5), "`x` must be int64; got 1.5 (1.5 is not a whole number)"),
        ((1,), "(1,) does not fit Point(x: int64, y: double); emit a `Point` (1 values instead of 2)"),
        (
            {"x": 1, "y": 2.0},
            "{'x': 1, 'y': 2.0} does not fit Point(x: int64, y: double); emit a `Point` (a dict is no tuple)",
        ),
        ("ab", "'ab' does not fit Point(x: int64, y: double); emit a `Point` (a str is no tuple)"),
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


class Moment(NamedTuple):
    time: datetime | None
    counts: list[int]
    points: dict[str, Point]


@pytest.mark.parametrize(
    ("row", "text"),
    [
        (
            Moment(1_767_225_600.0, [], {}),
            "`time` must be timestamp[us, tz=UTC]; got 1767225600.0 (a number is no date or time)",
        ),
        (
            Moment(None, [1, 2.0, 2.5], {}),
            "`counts` must be list<item: int64>; got [1, 2.0, 2.5] (2.5 is not a whole number)",
        ),
        (Moment(None, [], {"a": Point(Decimal("0.5"))}), "(0.5 is not a whole number)"),
    ],
)
def test_what_arrow_would_change_in_silence_is_refused(row, text):
    with pytest.raises(SchemaError) as error:
        Schema(Moment).encode([row])
    assert text in str(error.value)
    assert Schema(Moment).decode(Schema(Moment).encode([Moment(None, [2.0], {})])) == [Moment(None, [2], {})]


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


def test_a_batch_is_brought_into_the_port_s_schema():
    schema = Schema(Point)
    batch = pa.RecordBatch.from_arrays([pa.array([1.0, None]), pa.array([1, 2], pa.int8())], names=["y", "x"])
    assert schema.decode(schema.conform(batch)) == [Point(1, 1.0), Point(2, None)]
    same = schema.encode([Point(1)])
    assert schema.conform(same) is same


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


@pytest.mark.parametrize(
    ("producer", "consumer", "text"),
    [
        (Point, Point, None),
        (Point, object, None),
        (Point, pa.schema([("x", pa.int64()), ("y", pa.float64())]), None),
        (object, Point, "`object` cannot be read as Point(x: int64, y: double)"),
        (Point, pa.schema([("z", pa.int64()), ("y", pa.float64())]), "field 1 is `x` here and `z` there"),
        (
            Point,
            pa.schema([("x", pa.int64()), ("y", pa.int64())]),
            "field `y` is double here and int64 there",
        ),
        (Point, pa.schema([("x", pa.int64())]), "field `y` is only here"),
        (pa.schema([("x", pa.int64())]), Point, "field `y` is only there"),
    ],
)
def test_difference_names_the_first_field_that_differs(producer, consumer, text):
    assert Schema(producer).difference(Schema(consumer)) == text


def test_schemas_are_values():
    assert Schema(Point) == Schema(pa.schema([("x", pa.int64()), ("y", pa.float64())])) != Schema(Leg)
    assert len({Schema(Point), Schema(Point)}) == 1
    assert repr(Schema(Point)) == "Schema(Point)"
    assert loads(dumps(Schema(Point))) == Schema(Point)
    assert Schema(Point) != Schema(object) != 3


def test_types_of_a_script_reach_workers_whose_main_module_is_another(monkeypatch):
    script = types.ModuleType("__main__")
    text = """
from __future__ import annotations
from datetime import datetime
from typing import NamedTuple

class Tick(NamedTuple):
    symbol: str
    time: datetime
"""
    monkeypatch.setitem(sys.modules, "__main__", script)
    exec(text, script.__dict__)
    schema = Schema(script.Tick)
    sent = cloudpickle.dumps(schema)

    monkeypatch.setitem(sys.modules, "__main__", types.ModuleType("__main__"))
    there = loads(sent)

    assert there.arrow.equals(schema.arrow)
    assert there.describe() == "Tick(symbol: string, time: timestamp[us, tz=UTC])"


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
