"""Values of files come out equal, or are refused, whichever parser reads them."""

from __future__ import annotations

import json
import math
from datetime import datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ridgeline.api import RidgelineError
from ridgeline.api.columns.schema import Schema
from ridgeline.operators import FileOutput, FileReplayInput
from support.operators.harness import Driven, Published

US = pa.timestamp("us")
TEXTS: list[tuple[Any, str, Any]] = [
    (pa.int64(), "0x10", None),
    (pa.int64(), "0X1f", None),
    (pa.int64(), "1.0", None),
    (pa.int64(), "1e2", None),
    (pa.uint8(), "300", None),
    (pa.int64(), "9223372036854775807", 2**63 - 1),
    (pa.float64(), "1e400", None),
    (pa.float64(), "-1e400", None),
    (pa.float64(), "1e-400", None),
    (pa.float64(), "0." + 400 * "0" + "1", None),
    (pa.float64(), "9007199254740993", None),
    (pa.float64(), "9007199254740992", 2.0**53),
    (pa.float64(), "9007199254740993.0", 2.0**53),
    (pa.float64(), "1152921504606846976", 2.0**60),
    (pa.float64(), "1e300", 1e300),
    (pa.float64(), "0.1", 0.1),
    (pa.float64(), "0e-400", 0.0),
    (pa.float64(), "5e-324", 5e-324),
    (pa.float64(), "Infinity", math.inf),
    (pa.float64(), "0x10", None),
    (pa.float32(), "1e300", None),
    (pa.float32(), "16777217", None),
    (pa.float32(), "16777217.0", None),
    (pa.float32(), "1e-60", None),
    (pa.float32(), "0.5", 0.5),
    (pa.float16(), "70000", None),
    (pa.float16(), "0.5", 0.5),
    (pa.decimal128(38, 18), "1234567890123456.78", Decimal("1234567890123456.78")),
    (pa.decimal128(38, 18), "12345678901234567890.25", Decimal("12345678901234567890.25")),
    (pa.decimal128(38, 18), "0.1234567890123456789", None),
    (pa.decimal128(38, 18), "147573952589676412927.018344622154019", None),
    (pa.decimal256(50, 20), "-0.21086839288727100000", Decimal("-0.210868392887271")),
    (pa.uint64(), "-0", None),
    (pa.decimal128(38, 18), "1e3", Decimal(1000)),
    (pa.decimal128(5, 2), "1000", None),
    (pa.decimal128(5, 2), "1.250", Decimal("1.25")),
    (pa.duration("us"), "9007199254.740993", timedelta(microseconds=2**53 + 1)),
    (pa.duration("us"), "0.0000001", None),
    (pa.duration("s"), "1.5", None),
    (pa.duration("s"), "2", timedelta(seconds=2)),
]


def read(path: Path, schema: pa.Schema, format: str) -> Any:
    """The values of the column `v`; None if the file is refused."""
    try:
        found = Driven(FileReplayInput(path=path, schema=schema, format=format)).window()[0]
    except RidgelineError:
        return None
    return [value for batch in found for value in batch.column("v").to_pylist()]


@pytest.mark.parametrize(("kind", "text", "value"), TEXTS)
def test_csv_and_json_take_and_refuse_the_same_texts_of_numbers(
    tmp_path: Path, kind: pa.DataType, text: str, value: Any
) -> None:
    wanted = None if value is None else [value]
    csv, plain, deep = (tmp_path / name for name in ("a.csv", "a.jsonl", "b.jsonl"))
    csv.write_text(f"v,t\n{text},0x\n")
    assert read(csv, pa.schema([("v", kind)]), "csv") == wanted
    plain.write_text(f'{{"v":{text},"m":{{"k":{text}}},"l":[{{"x":{text}}}]}}\n')
    beside = pa.field("m", pa.map_(pa.string(), kind))
    assert read(plain, pa.schema([("v", kind)]), "jsonl") == wanted
    assert read(plain, pa.schema([("v", kind), beside]), "jsonl") == wanted
    listed = pa.schema([("v", kind), ("l", pa.list_(pa.struct([("x", kind)])))])
    assert read(plain, listed, "jsonl") == wanted
    deep.write_text(f'{{"v":{{"k":{text}}}}}\n{{"v":{{}}}}\n{{"v":null}}\n')
    inside = None if wanted is None else [[("k", value)], [], None]
    assert read(deep, pa.schema([("v", pa.map_(pa.string(), kind))]), "jsonl") == inside
    deep.write_text(f'{{"v":[{text},null]}}\n{{"v":[]}}\n{{"v":null}}\n')
    inside = None if wanted is None else [[value, None], [], None]
    for lists in (pa.list_(kind), pa.large_list(kind)):
        assert read(deep, pa.schema([("v", lists)]), "jsonl") == inside


ODD = [
    *["1", "-0", "1.5", "1e3", "true", '"1"', '"1.5"', '"x"', "[1]", '{"a":1}', "NaN", "Inf", "null", '""'],
    *[
        '"2026-01-01"',
        '"2026-01-01T00:00:00.5Z"',
        '"2026-01-01T00:00:00+02:00"',
        '"2026-W01-1"',
        '"20260101"',
    ],
    *['"12:34:56.1234567"', '"12:34"', '"12:34:56+02:00"', '"2026-01-01T00:00:00.1234567"', '"YQ=="', '"a"'],
]
KINDS = [
    *[pa.int64(), pa.int8(), pa.float64(), pa.float32(), pa.bool_(), pa.string(), pa.binary(), pa.date32()],
    *[US, pa.timestamp("s"), pa.timestamp("us", "UTC"), pa.time64("us"), pa.time32("s"), pa.duration("us")],
    *[pa.decimal128(38, 18), pa.list_(pa.int64()), pa.struct([("a", pa.int64())]), pa.large_string()],
    pa.dictionary(pa.int8(), pa.string()),
]


@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_both_parsers_of_json_are_one(tmp_path: Path, kind: pa.DataType) -> None:
    """What pyarrow reads (a field), and what is read line by line (a value of a map)."""
    plain, deep = tmp_path / "a.jsonl", tmp_path / "b.jsonl"
    for text in ODD:
        plain.write_text(f'{{"v":{text}}}\n')
        deep.write_text(f'{{"v":{{"k":{text}}}}}\n')
        found = read(plain, pa.schema([("v", kind)]), "jsonl")
        inside = read(deep, pa.schema([("v", pa.map_(pa.string(), kind))]), "jsonl")
        wanted = None if found is None else [[("k", found[0])]]
        assert repr(inside) == repr(wanted), text


@pytest.mark.parametrize(
    ("kind", "keys"),
    [
        (pa.int64(), '{"1":1,"01":2}'),
        (pa.int64(), '{"+1":1}'),
        (pa.int64(), '{"0x1":1}'),
        (pa.int64(), '{"1.0":1}'),
        (pa.float64(), '{"1":1,"1.0":2}'),
        (pa.float64(), '{"NaN":1,"nan":2}'),
        (pa.decimal128(38, 18), '{"1":1,"1.0":2}'),
        (pa.date32(), '{"2026-01-01":1,"2026-01-01T00:00:00":2}'),
        (pa.timestamp("us", "UTC"), '{"2026-01-01T00:00:00Z":1,"2026-01-01T02:00:00+02:00":2}'),
        (pa.string(), '{"a":1,"a":2}'),
    ],
)
def test_keys_of_a_map_that_would_be_lost_are_refused(tmp_path: Path, kind: pa.DataType, keys: str) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text(f'{{"v":{{}}}}\n{{"v":{keys}}}\n')
    assert read(path, pa.schema([("v", pa.map_(kind, pa.int64()))]), "jsonl") is None
    nested = pa.schema([("v", pa.list_(pa.struct([("m", pa.map_(kind, pa.int64()))])))])
    path.write_text(f'{{"v":[{{"m":{keys}}}]}}\n')
    assert read(path, nested, "jsonl") is None


def test_a_field_that_the_schema_lacks_may_be_anything_beside_a_map_too(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    for text, fits in (("1", True), ('{"a":1,"a":2}', True), ("1e400", False), ('"\\ud800"', False)):
        path.write_text(f'{{"v":1,"m":{{}},"other":{text}}}\n')
        plain = pa.schema([("v", pa.int64())])
        for schema in (plain, plain.append(pa.field("m", pa.map_(pa.string(), pa.int64())))):
            assert read(path, schema, "jsonl") == ([1] if fits else None)


def test_a_map_whose_keys_json_cannot_have_is_refused(tmp_path: Path) -> None:
    kind = pa.map_(pa.struct([("a", pa.int64())]), pa.int64())
    batch = pa.record_batch([pa.array([[({"a": 1}, 2)]], kind)], names=["v"])
    output = FileOutput(path=tmp_path, format="jsonl", roll_seconds=0)
    Published(output, tmp_path)
    with pytest.raises(RidgelineError, match="column `v`: JSON has no keys of type struct<a: int64>"):
        Driven(output).window(batch)


DATES = [datetime(*day) for day in ((2026, 1, 1), (9999, 12, 31, 23, 59, 59), (1, 1, 1), (1677, 1, 1))]  # noqa: DTZ001


def old_parquet(path: Path, **columns: pa.Array) -> Path:
    pq.write_table(pa.table(columns), path, use_deprecated_int96_timestamps=True, row_group_size=2)
    return path


def test_times_of_96_bits_are_read_in_every_year_and_at_every_depth(tmp_path: Path) -> None:
    times = pa.array([*DATES, None], US)
    bounds = pa.array(range(6), pa.int32())
    for column in (
        times,
        pa.ListArray.from_arrays(bounds, times),
        pa.StructArray.from_arrays([times, pa.array(range(5))], names=["t", "n"]),
        pa.MapArray.from_arrays(bounds, pa.array(list("abcde")), times),
        pa.array([None, [DATES[1], None], [], [DATES[2]]], pa.list_(US)),
    ):
        path = old_parquet(tmp_path / "a.parquet", v=column, other=pa.array(range(len(column))))
        assert read(path, pa.schema([("v", column.type)]), "parquet") == column.to_pylist()


def test_times_of_96_bits_that_nanoseconds_cannot_hold_are_refused(tmp_path: Path) -> None:
    path = old_parquet(tmp_path / "a.parquet", v=pa.array(DATES, US))
    assert read(path, pa.schema([("v", pa.timestamp("ns"))]), "parquet") is None


class Line(NamedTuple):
    id: int
    amount: Decimal
    tags: dict[str, Decimal]


def test_a_decimal_keeps_its_digits_beside_a_dictionary(tmp_path: Path) -> None:
    amounts = ["1234567890123456.78", "0.12345678901234567", "12345678901234567890.25"]
    path = tmp_path / "a.jsonl"
    path.write_text("".join(f'{{"id":1,"amount":{a},"tags":{{"x":{a},"y":"{a}"}}}}\n' for a in amounts))
    [batch] = Driven(FileReplayInput(path=path, schema=Line, format="jsonl")).window()[0]
    exact = [json.loads(line, parse_float=Decimal)["amount"] for line in path.read_text().splitlines()]
    assert Schema(Line).decode(batch) == [Line(1, a, {"x": a, "y": a}) for a in exact]
