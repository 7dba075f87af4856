"""Values that do not fit are refused, with operator and column named; all others arrive unchanged."""

from __future__ import annotations

from collections.abc import Callable
from datetime import date, datetime, time, timedelta, timezone
from decimal import Decimal
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ridgeline import (
    Application,
    InputOperator,
    InputPort,
    Operator,
    OutputPort,
    RidgelineError,
)
from ridgeline.api.errors import OperatorError
from ridgeline.operators import FileReplayInput, Filter, Map, RandomEventGenerator, SparkInput
from ridgeline.testing import CollectorSink, ListInput, run_local
from support.rows import in_a_row

MIN, MAX = datetime.min, datetime.max  # noqa: DTZ901


class Number(NamedTuple):
    n: int


class Text(NamedTuple):
    s: str


class Moment(NamedTuple):
    t: datetime


class Day(NamedTuple):
    d: date


class Money(NamedTuple):
    m: Decimal


def through(
    make: Callable[[], Operator], rows: list[Any], schema: Any = Number, *, partitions: int = 1
) -> list[Any]:
    app = in_a_row(
        Application("values", window="1s"),
        source=ListInput(schema, rows),
        middle=(make(), {"partitions": partitions}),
        sink=CollectorSink(),
    )
    return [
        next(iter(row.values())) if isinstance(row, dict) else row for row in run_local(app).collected("sink")
    ]


def fails(*arguments: Any, **options: Any) -> str:
    with pytest.raises(OperatorError) as caught:
        through(*arguments, **options)
    return str(caught.value)


def everything() -> Filter:
    return Filter(predicate=lambda _: True)


class AtLeast:
    def __init__(self, least: int) -> None:
        self.least = least

    def __call__(self, row: Number) -> bool:
        return row.n >= self.least


def test_properties_are_given_by_position_in_declared_order() -> None:
    assert through(lambda: Filter(None, lambda batch: batch["n"].to_numpy() > 1), [(1,), (2,)]) == [2]
    assert through(lambda: Filter(AtLeast(2), None), [(1,), (2,)]) == [2]
    assert through(lambda: Map(AtLeast(2), schema=object, batch_function=None), [(1,), (2,)]) == [False, True]
    assert SparkInput("rate", {"rowsPerSecond": 5}, schema=Number).options == {"rowsPerSecond": 5}
    assert vars(RandomEventGenerator(5, 9)).items() >= {"minimum": 5, "maximum": 9}.items()
    for make, text in [
        (
            lambda: Filter(AtLeast(1), predicate=AtLeast(2)),
            "`Filter` got `predicate` twice, by position and by name; give it once",
        ),
        (
            lambda: Filter(AtLeast(1), None, 5),
            "`Filter` takes at most 2 by position, `predicate`, `batch_predicate`; got 3",
        ),
        (Filter, "`Filter` needs one of `predicate` and `batch_predicate`; got neither; give one"),
    ]:
        with pytest.raises(TypeError) as caught:
            make()
        assert text in str(caught.value)


REFUSED: list[tuple[Any, Any, str]] = [
    (Text, "\ud800", "`s` must be string; got '\\ud800' ('utf-8' codec can't encode character"),
    (Number, 2**63, "`n` must be int64; got 9223372036854775808"),
    (Number, 10**5_000, "`n` must be int64; got <int whose repr raised ValueError>"),
    (
        Moment,
        MIN.replace(tzinfo=timezone(timedelta(hours=5))),
        "in UTC it is not between the years 1 and 9999",
    ),
    (
        pa.schema([("t", pa.timestamp("ms", "UTC"))]),
        MAX.replace(microsecond=0, tzinfo=timezone(timedelta(hours=-5))),
        "the years 1 and",
    ),
    (
        pa.schema([("t", pa.timestamp("ns"))]),
        datetime(9999, 1, 1),  # noqa: DTZ001
        "`t` must be timestamp[ns]; got datetime.datetime(9999, 1, 1, 0, 0)",
    ),
    (Day, datetime(2024, 1, 1, 5), "a datetime is no date, since it has a time of day"),  # noqa: DTZ001
    (Money, Decimal("NaN"), "`m` must be decimal128(38, 18); got Decimal('NaN')"),
    (Money, Decimal("1e-30"), "`m` must be decimal128(38, 18); got Decimal('1E-30')"),
]


@pytest.mark.guide("004", "Runtime Validations")
@pytest.mark.parametrize("partitions", [1, 2])
@pytest.mark.parametrize(("schema", "value", "text"), REFUSED, ids=range(len(REFUSED)))
def test_a_value_that_its_column_cannot_hold_is_refused_where_it_is_emitted(
    schema: Any, value: Any, text: str, partitions: int
) -> None:
    row = {"t": value} if isinstance(schema, pa.Schema) else (value,)
    error = fails(everything, [row], schema, partitions=partitions)
    assert error.startswith(
        "operator `source` (partition 0) of application `values` failed in window 0 in `emit`: SchemaError: "
    )
    assert text in error


def test_values_at_the_borders_arrive_as_they_are() -> None:
    for schema, values in [
        (Moment, [MIN, MAX, datetime(2024, 1, 1, tzinfo=timezone(timedelta(hours=14)))]),
        (Day, [date.min, date.max]),
        (Money, [Decimal("-99999999999999999999.999999999999999999"), Decimal("1E+19"), Decimal("-0.0")]),
        (Text, ["", "\x00", "a\x00b", "\U0010ffff", "e\u0301"]),
        (Number, [2**63 - 1, -(2**63)]),
        (object, ["\ud800", 10**5_000, float("inf"), MIN, Decimal("sNaN"), {1: [None]}]),
    ]:
        for partitions in (1, 2):
            rows = values if schema is object else [(value,) for value in values]
            arrived = through(everything, rows, schema, partitions=partitions)
            assert len(arrived) == len(values)
            if schema is Moment:
                assert {value.timestamp() for value in arrived[2:]} <= {
                    moment.timestamp() for moment in arrived
                }
            elif schema is not object:
                assert sorted(arrived) == sorted(values)


class RefusedError(RuntimeError):
    pass


class Raising:
    """A value all of whose methods raise."""

    def __repr__(self) -> str:
        raise RefusedError

    __str__ = __repr__

    def __eq__(self, other: object) -> bool:
        raise RefusedError

    def __hash__(self) -> int:
        raise RefusedError


class NotPickled(Raising):
    def __reduce__(self) -> Any:
        raise RefusedError


class RaisingError(Exception):
    def __str__(self) -> str:
        raise RefusedError

    __repr__ = __str__


def test_values_and_exceptions_whose_methods_raise_do_not_hide_the_error() -> None:
    assert len(through(everything, [Raising(), Raising()], object, partitions=2)) == 2
    text = fails(lambda: Filter(lambda row: 1 / 0), [Raising()], object)
    assert "operator `middle`" in text
    assert (
        "ZeroDivisionError: division by zero; the tuple was <Raising whose repr raised RefusedError>" in text
    )
    assert "RefusedError; the tuple was <Raising" in fails(
        lambda: Filter(lambda row: {row}), [Raising()], object
    )

    def fail(row: Any) -> bool:
        raise RaisingError

    assert "RaisingError: <its text cannot be had: RefusedError>; the tuple was 1" in fails(
        lambda: Filter(fail), [1], object
    )
    text = fails(lambda: Map(lambda _: NotPickled(), schema=object), [1], object, partitions=2)
    assert "operator `middle` (partition " in text
    assert "of application `values` failed in window 0 in `emit`: SchemaError: <NotPickled whose repr" in text
    assert "cannot be pickled on its way to another container: RefusedError; emit plain values" in text


class Keyed(Operator):
    data = InputPort(object, key=lambda row: row["key"])
    output = OutputPort(object)

    @data.process
    def take(self, row: Any) -> None:
        self.output.emit(row)


def test_a_key_that_is_none_is_reported_with_the_operator_and_the_tuple() -> None:
    for row, what in [
        ({"key": {}}, "TypeError: a dict cannot be a key; use int, str,"),
        ({"other": 1}, "KeyError: 'key'"),
        ({"key": Raising()}, "TypeError: a Raising cannot be a key"),
    ]:
        text = fails(Keyed, [{"key": 1}, row], object, partitions=2)
        assert (
            "operator `source` (partition 0) of application `values` failed in window 0 in `emit`: "
            "RidgelineError: the key of " in text
        )
        assert f"cannot be computed: {what}" in text
        assert "give the port another `key`" in text
    keys = [Decimal("NaN"), None, True, 1.0, "\ud800", b"", (None, float("nan")), MAX, date.min, 10**40]
    for partitions in (1, 3):
        assert len(through(Keyed, [{"key": key} for key in keys], object, partitions=partitions)) == len(keys)


class Source(ListInput):
    """Emits batches that are beyond what Python's types hold."""

    def emit_tuples(self) -> None:
        self.output.emit_batch(
            pa.RecordBatch.from_arrays([pa.array([2**62], pa.timestamp("us", "UTC"))], names=["t"])
        )
        self.finish()


DAY = 86_400_000_000


class Opens(NamedTuple):
    at: time | None


class Week(NamedTuple):
    at: list[time]


class Date(NamedTuple):
    at: date


def emitted(kind: Any, array: pa.Array) -> list[Any]:
    class Source(InputOperator):
        out = OutputPort(kind)

        def emit_tuples(self) -> None:
            self.out.emit_batch(pa.record_batch({"at": array}))
            self.finish()

    return collected(Source(), "out", kind)


def collected(operator: Any, port: str, kind: Any) -> list[Any]:
    app = Application("times")
    source = app.add_operator("source", operator)
    sink = app.add_operator("sink", CollectorSink(kind))
    app.add_stream("times", getattr(source, port), sink.input)
    return run_local(app).collected("sink")


def times(kind: Any, *values: int | None, unit: str = "us") -> pa.Array:
    of = pa.time64(unit) if unit in ("us", "ns") else pa.time32(unit)
    flat = pa.array(values, of)
    if kind is Week:
        return pa.ListArray.from_arrays(pa.array([0, len(flat)], pa.int32()), flat)
    return flat


@pytest.mark.parametrize("kind", [Opens, Week])
@pytest.mark.parametrize(("value", "unit"), [(DAY, "us"), (-1, "us"), (86_400, "s"), (DAY * 1000, "ns")])
def test_a_time_beyond_its_day_is_refused(kind: Any, value: int, unit: str) -> None:
    with pytest.raises(RidgelineError, match=r"`at.*` has a time of day that is not within a day"):
        emitted(kind, times(kind, 0, value, unit=unit))


@pytest.mark.parametrize("kind", [Opens, Week])
def test_in_parquet_files_too(kind: Any, tmp_path: Path) -> None:
    pq.write_table(pa.table({"at": times(kind, DAY)}), tmp_path / "a.parquet")
    with pytest.raises(RidgelineError, match="not within a day"):
        collected(FileReplayInput(path=tmp_path, format="parquet", schema=kind), "output", kind)


def test_a_date_that_python_does_not_have_is_told() -> None:
    with pytest.raises(OverflowError, match=r"column `at` of Date.* not between the years 1 and 9999"):
        emitted(Date, pa.array([2**30], pa.date32()))
