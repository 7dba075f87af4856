"""The table of `docs/values.md`: type of value by type of column by way in. Each cell is equal, or refused.

Each example is one value for one type of column. It goes in as a tuple, in Arrow batches, in DataFrames, from
Parquet, each also within lists, structs, maps and as their keys. All ways must say the same of it. What comes
in goes on, through blocks, a state, JSON lines and Parquet, and must stay equal.
"""

from __future__ import annotations

import io
import math
import pickle
from collections.abc import Callable, Iterator
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from fractions import Fraction
from functools import cache
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from ridgeline import KeyedState, Operator, OutputPort
from ridgeline.api.columns.casting import cast_exactly
from ridgeline.api.columns.schema import Schema
from ridgeline.api.errors import SchemaError
from ridgeline.engine.exchange import block
from ridgeline.operators._json import json_lines
from ridgeline.operators._sql_engine import QueryError, SqlEngine
from ridgeline.operators.files._parsers import JsonParser
from support.depth import deep

US, NS = pa.timestamp("us"), pa.timestamp("ns")
ZONES = st.sampled_from([None, UTC, timezone(timedelta(hours=14)), timezone(timedelta(hours=-12))])
EDGES = [
    0,
    1,
    -1,
    127,
    255,
    2048,
    2049,
    2**24 + 1,
    2**31,
    2**53,
    2**53 + 1,
    2**60,
    2**63 - 1,
    2**63,
    -(2**63),
]
WHOLE = st.one_of(st.sampled_from([*EDGES, 2**64, 10**18, 10**20]), st.integers(-(2**70), 2**70))
FLOATS = st.one_of(
    st.floats(),
    st.floats(width=32),
    st.sampled_from([0.1, 0.5, -0.0, 1e300, 1e-300, 2.0**24 + 1, 65_520.0, 2.5, 2.0**63, 2.0**70, 1e-40]),
)
DECIMALS = st.one_of(
    st.decimals().filter(lambda value: not value.is_snan()),  # which no dictionary takes as a key
    st.decimals(-(10**22), 10**22, places=20),
    st.sampled_from([*map(Decimal, ("0.1", "0.5", "2", "1E+2", "1.50", "1E-18", "1E-19", "999.99", "1000"))]),
)
TIMES = st.builds(lambda moment, zone: moment.replace(tzinfo=zone), st.datetimes(), ZONES)
NANOSECONDS = st.one_of(st.integers(-(2**62), 2**62), st.sampled_from([1, 1_000, 10**9, 1_001]))
LENGTHS = st.one_of(
    st.timedeltas(),
    st.sampled_from([timedelta(microseconds=2**53 + 1), timedelta(seconds=1), timedelta(days=200_000)]),
)
VALUES: dict[str, st.SearchStrategy[Any]] = {
    "bool": st.booleans(),
    "int": WHOLE,
    "float": FLOATS,
    "Decimal": DECIMALS,
    "Fraction": st.fractions() | st.sampled_from([Fraction(1, 2), Fraction(2)]),
    "str": st.text(max_size=3) | st.sampled_from(["5", "1.5", "true", "2026-01-01", "\ud800"]),
    "bytes": st.binary(max_size=3),
    "datetime": TIMES,
    "date": st.dates(),
    "time": st.builds(lambda hour, zone: hour.replace(tzinfo=zone), st.times(), ZONES),
    "timedelta": LENGTHS,
    "np.int16": st.integers(-(2**15), 2**15 - 1).map(np.int16),
    "np.uint64": st.sampled_from([0, 5, 2**53 + 1, 2**63, 2**64 - 1]).map(np.uint64),
    "np.float32": st.floats(width=32).map(np.float32),
    "np.bool_": st.booleans().map(np.bool_),
    "np.datetime64": NANOSECONDS.map(lambda ns: np.datetime64(ns, "ns")),
    "np.timedelta64": NANOSECONDS.map(lambda ns: np.timedelta64(ns, "ns")),
    "pd.Timestamp": NANOSECONDS.map(pd.Timestamp),
    "pd.Timedelta": NANOSECONDS.map(lambda ns: pd.Timedelta(ns, "ns")),
}
COLUMNS: list[pa.DataType] = [
    *(pa.int8(), pa.int64(), pa.uint64(), pa.float16(), pa.float32(), pa.float64(), pa.bool_()),
    *(pa.string(), pa.large_string(), pa.binary(), pa.binary(2), pa.dictionary(pa.int32(), pa.string())),
    *(pa.timestamp("s"), US, NS, pa.timestamp("us", "UTC"), pa.timestamp("us", "Europe/Berlin")),
    *(pa.date32(), pa.time32("s"), pa.time64("us"), pa.time64("ns")),
    *(pa.duration("s"), pa.duration("us"), pa.duration("ns")),
    *(pa.decimal128(38, 18), pa.decimal128(5, 2), pa.decimal256(50, 20)),
]
FITTING: list[tuple[pa.DataType, list[Any]]] = [
    (pa.int8(), [-128, 127, True, 2.0, Decimal(2), np.int16(5)]),
    (pa.int64(), [2**63 - 1, -(2**63), 2.0**62, np.uint64(5)]),
    (pa.uint64(), [2**64 - 1, 0, np.uint64(2**64 - 1)]),
    (pa.float16(), [0.5, 0.1, 2048, math.nan, math.inf]),
    (pa.float32(), [0.5, 0.1, 2**24, 1e-30, np.float32(0.1), -math.inf]),
    (pa.float64(), [0.1, 1e300, 2**53, 2**60, Decimal("0.5"), np.float32(0.1), math.nan]),
    (pa.bool_(), [True, np.bool_(False)]),
    (pa.string(), ["", "ä", "5"]),
    (pa.dictionary(pa.int32(), pa.string()), ["a"]),
    (pa.binary(), [b"", b"\xff"]),
    (pa.binary(2), [b"ab"]),
    (pa.timestamp("s"), [datetime(2026, 1, 1), datetime(9999, 12, 31, tzinfo=UTC)]),  # noqa: DTZ001
    (US, [datetime.min.replace(tzinfo=UTC), datetime.max.replace(tzinfo=UTC), pd.Timestamp(1_000)]),
    (NS, [datetime(2026, 1, 1, 0, 0, 0, 5), np.datetime64(1, "ns"), pd.Timestamp(1)]),  # noqa: DTZ001
    (pa.timestamp("us", "Europe/Berlin"), [datetime(2026, 6, 1, tzinfo=timezone(timedelta(hours=14)))]),
    (pa.date32(), [date.min, date.max]),
    (pa.time32("s"), [time(1, 2, 3)]),
    (pa.time64("us"), [time(1, 2, 3, 4)]),
    (pa.duration("s"), [timedelta(seconds=5), timedelta(days=10**8)]),
    (pa.duration("us"), [timedelta(microseconds=2**53 + 1), timedelta(microseconds=-1)]),
    (pa.duration("ns"), [timedelta(days=1), np.timedelta64(1, "ns"), pd.Timedelta(1, "ns")]),
    (pa.decimal128(38, 18), [Decimal("12345678901234567890.123456789012345678"), 5, 0.5, True]),
    (pa.decimal128(5, 2), [Decimal("999.99"), 5, Decimal("1.500")]),
    (pa.decimal256(50, 20), [Decimal("1E-20"), 2**64 - 1]),
]


class Wrap(NamedTuple):
    """A place for a value: its type, the value in it, an array of one in it, and the value out of it."""

    name: str
    type: Callable[[pa.DataType], pa.DataType]
    value: Callable[[Any], Any]
    array: Callable[[pa.Array], pa.Array]
    out: Callable[[Any], Any]


ONE = pa.array([0, 1], pa.int32())
WRAPS = [
    Wrap("column", lambda kind: kind, lambda value: value, lambda array: array, lambda out: out),
    Wrap(
        "list",
        pa.list_,
        lambda value: [value],
        lambda array: pa.ListArray.from_arrays(ONE, array),
        lambda out: out[0],
    ),
    Wrap(
        "struct",
        lambda kind: pa.struct([("f", kind)]),
        lambda value: {"f": value},
        lambda array: pa.StructArray.from_arrays([array], names=["f"]),
        lambda out: out["f"],
    ),
    Wrap(
        "map",
        lambda kind: pa.map_(pa.string(), kind),
        lambda value: {"k": value},
        lambda array: pa.MapArray.from_arrays(ONE, pa.array(["k"]), array),
        lambda out: out[0][1],
    ),
    Wrap(
        "key",
        lambda kind: pa.map_(kind, pa.int8()),
        lambda value: {value: 1},
        lambda array: pa.MapArray.from_arrays(ONE, array, pa.array([1], pa.int8())),
        lambda out: out[0][0],
    ),
    Wrap(
        "list of structs of maps",
        lambda kind: pa.list_(pa.struct([("f", pa.map_(pa.string(), kind))])),
        lambda value: [{"f": {"k": value}}],
        lambda array: pa.ListArray.from_arrays(
            ONE,
            pa.StructArray.from_arrays([pa.MapArray.from_arrays(ONE, pa.array(["k"]), array)], names=["f"]),
        ),
        lambda out: out[0]["f"][0][1],
    ),
]


def natural(value: Any) -> pa.Array | None:  # noqa: PLR0911  one type after the other
    """The value in the Arrow type that other libraries give it; None if they have none."""
    types: dict[type, pa.DataType] = {
        bool: pa.bool_(),
        float: pa.float64(),
        bytes: pa.binary(),
        date: pa.date32(),
    }
    try:
        if isinstance(value, pd.Timestamp | pd.Timedelta):
            kind = NS if isinstance(value, pd.Timestamp) else pa.duration("ns")
            return pa.array([value.value], pa.int64()).cast(kind)
        if isinstance(value, np.generic):
            return pa.array(np.array([value]))
        if isinstance(value, datetime):
            aware = value if value.tzinfo else value.replace(tzinfo=UTC)
            return pa.array([aware], pa.timestamp("us", "UTC" if value.tzinfo else None))
        if isinstance(value, time) and value.tzinfo is None:
            return pa.array([value], pa.time64("us"))
        if isinstance(value, Decimal | timedelta | str) or type(value) is int:
            return pa.array([value])
        return pa.array([value], types[type(value)])
    except (pa.ArrowException, OverflowError, KeyError, UnicodeError, TypeError):
        return None


def equal(value: Any, out: Any, kind: pa.DataType) -> bool:  # noqa: PLR0911  one type after the other
    """Whether Python says so. NaN is NaN, and no zone means UTC; narrow floats round fractions."""
    if isinstance(value, datetime | np.datetime64):
        left, right = pd.Timestamp(value) if isinstance(value, np.datetime64) else value, out
        return bool(
            left.replace(tzinfo=left.tzinfo or UTC) == right.replace(tzinfo=right.tzinfo or UTC)
            and getattr(left, "nanosecond", 0) == getattr(right, "nanosecond", 0)
        )
    if type(value) is date and isinstance(out, datetime):  # a batch may cast dates to times
        midnight = datetime.combine(value, time(), UTC)
        return (out if out.tzinfo else out.replace(tzinfo=UTC)) == midnight and kind != pa.date32()
    if isinstance(value, np.timedelta64):
        value = pd.Timedelta(value)
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, int | float | Decimal | Fraction) and not isinstance(out, int | float | Decimal):
        return False
    if value != value or out != out:  # noqa: PLR0124
        return bool(value != value and out != out)  # noqa: PLR0124
    if value == out:
        return True
    width = {pa.float32(): np.float32, pa.float16(): np.float16}.get(kind)
    if width is None or not isinstance(value, float) or math.isinf(value) or value.is_integer():
        return False
    return bool(out == float(width(value)) and math.isfinite(out) and abs(out - value) <= abs(value) / 1024)


@cache
def with_port(schema: pa.Schema) -> type[Operator]:
    """An operator with an output port of this schema."""

    class Operates(Operator):
        out = OutputPort(schema)

    return Operates


def emitted(schema: pa.Schema, batch: Any) -> pa.RecordBatch:
    """What a port with this schema makes of a batch or DataFrame."""
    operator: Any = with_port(schema)()
    operator.out.open()
    operator.out.emit_batch(batch)
    [tuples] = operator.out.drain()
    return block.decode(Schema(schema), block.encode(tuples), None).batch


def ways(value: Any, kind: pa.DataType, wrap: Wrap) -> Iterator[tuple[str, Callable[[], pa.RecordBatch]]]:
    """The ways in that a value has, each with what it makes of it."""
    schema = pa.schema([("v", wrap.type(kind))])
    inside = wrap.value(value)
    yield "tuple", lambda: Schema(schema).encode([{"v": inside}])
    objects = pd.DataFrame({"v": pd.Series([inside], dtype=object)})
    if not (isinstance(value, float) and value != value):  # noqa: PLR0124  which marks what is missing
        yield "pandas objects", lambda: emitted(schema, objects)
    plain = natural(value)
    if plain is None:
        return
    array = wrap.array(plain)
    yield "batch", lambda: emitted(schema, pa.record_batch([array], names=["v"]))
    yield (
        "sliced batch",
        lambda: emitted(schema, pa.record_batch([pa.concat_arrays([array, array])], names=["v"]).slice(1)),
    )
    yield "Parquet", lambda: emitted(schema, stored(pa.table({"v": array})))
    if wrap.name == "column" and not pa.types.is_decimal(plain.type):
        yield "pandas", lambda: emitted(schema, pa.table({"v": plain}).to_pandas())
    if wrap.name in ("column", "list", "struct") and not pa.types.is_decimal(plain.type):
        yield "polars", lambda: emitted(schema, pl.from_arrow(pa.table({"v": array})))


def stored(table: pa.Table) -> pa.Table:
    out = io.BytesIO()
    pq.write_table(table, out)
    return pq.read_table(io.BytesIO(out.getvalue()))


def came(make: Callable[[], pa.RecordBatch], kind: pa.DataType, wrap: Wrap) -> pa.RecordBatch | None:
    """The batch; None if it was refused."""
    try:
        batch = make()
    except SchemaError:
        return None
    assert batch.schema == pa.schema([("v", wrap.type(kind))])
    batch.validate(full=True)
    return batch


def check(value: Any, kind: pa.DataType, *, fits: bool = False) -> None:
    """One cell of the table, in all ways."""
    said: dict[str, bool] = {}
    for wrap in WRAPS:
        gone_on: list[pa.RecordBatch] = []  # ways that give the same batch go on alike
        for way, make in ways(value, kind, wrap):
            batch = came(make, kind, wrap)
            place = f"{way}, {wrap.name}"
            said[place] = batch is not None
            if batch is not None:
                [row] = Schema(batch.schema).decode(batch)
                out = wrap.out(row["v"])
                assert equal(value, out, kind), (place, kind, value, out)
                if not any(batch.equals(one) for one in gone_on):
                    goes_on(batch, value, kind, wrap)
                    gone_on.append(batch)
    if isinstance(value, date) and not isinstance(value, datetime) and pa.types.is_timestamp(kind):
        said = {place: taken for place, taken in said.items() if place.startswith("tuple")}
    if isinstance(value, float) and value != value and not pa.types.is_floating(kind):  # noqa: PLR0124
        said = {place: taken for place, taken in said.items() if not place.startswith("pandas")}
    assert len(set(said.values())) == 1, (kind, value, said)
    assert not fits or all(said.values()), (kind, value, said)


def goes_on(batch: pa.RecordBatch, value: Any, kind: pa.DataType, wrap: Wrap) -> None:
    """Through a state, JSON lines and Parquet: equal, or refused."""
    [row] = Schema(batch.schema).decode(batch)
    cell, restored = (KeyedState(object, default=None).cell() for _ in range(2))
    cell.begin(0)
    cell["k"] = row["v"]
    cell.changes()
    restored.apply(pickle.loads(pickle.dumps(cell.snapshot())))
    assert equal(value, wrap.out(restored["k"]), kind)
    table = pa.Table.from_batches([batch])
    again = cast_exactly(stored(table).column(0).combine_chunks(), batch.schema[0].type)
    read_back = Schema(batch.schema).decode(pa.record_batch([again], schema=batch.schema))
    assert equal(value, wrap.out(read_back[0]["v"]), kind)
    if isinstance(out := wrap.out(row["v"]), float) and not math.isfinite(out):
        return  # which JSON does not have
    read = JsonParser(Schema(batch.schema)).parse(json_lines(table), 1)
    assert equal(value, wrap.out(Schema(batch.schema).decode(read)[0]["v"]), kind), json_lines(table)


@settings(deadline=None, max_examples=deep(16))  # each run draws others
@example(kind=pa.float64(), value=Decimal("0.1"))
@example(kind=pa.decimal128(38, 18), value=0.1)
@example(kind=pa.float32(), value=1e300)
@example(kind=pa.float32(), value=2.0**24 + 1)
@example(kind=pa.int64(), value="5")
@example(kind=pa.int64(), value=Fraction(1, 2))
@example(kind=US, value=pd.Timestamp(1))
@example(kind=US, value=np.datetime64(1, "ns"))
@example(kind=pa.duration("us"), value=np.timedelta64(1, "ns"))
@example(kind=pa.time64("us"), value=time(1, tzinfo=UTC))
@example(kind=pa.timestamp("s"), value=datetime(2026, 1, 1, 0, 0, 0, 1))  # noqa: DTZ001
@example(kind=pa.int64(), value=np.datetime64(1, "ns"))
@example(kind=pa.date32(), value=datetime(2026, 1, 1))  # noqa: DTZ001
@given(kind=st.sampled_from(COLUMNS), value=st.sampled_from(sorted(VALUES)).flatmap(VALUES.__getitem__))
def test_each_cell_is_equal_or_refused_in_all_ways(kind: pa.DataType, value: Any) -> None:
    check(value, kind)


@pytest.mark.parametrize(("kind", "values"), FITTING, ids=str)
def test_what_fits_is_taken_in_all_ways(kind: pa.DataType, values: list[Any]) -> None:
    for value in values:
        check(value, kind, fits=True)


def test_sql_gives_back_what_it_read_or_refuses() -> None:
    engine = SqlEngine()
    try:
        for kind, values in FITTING:
            for wrap in WRAPS:
                schema = Schema(pa.schema([("v", wrap.type(kind))]))
                for value in values:
                    table = pa.Table.from_batches([schema.encode([{"v": wrap.value(value)}])])
                    try:
                        found = engine.run("select v from t", {"t": table}, 10.0).table
                    except QueryError:
                        continue
                    out = wrap.out(found.column(0)[0].as_py())
                    if isinstance(out, tuple):  # an interval of DuckDB's
                        out = timedelta(days=out.days, microseconds=out.nanoseconds // 1000)
                    assert equal(value, out, kind), (wrap.name, kind, value, out)
    finally:
        engine.close()
