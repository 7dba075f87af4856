"""Files whose content does not fit the schema: refused by file and line, or taken exactly as it is."""

from __future__ import annotations

import gzip
import math
import re
from collections.abc import Callable
from datetime import UTC, date, datetime, time, timedelta
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
from support.operators.replayed import Everything, replay, write
from support.operators.replayed import Nested as NestedTimes
from support.testing.shares import share


class Row(NamedTuple):
    id: int
    name: str


class Sparse(NamedTuple):
    id: int | None
    name: str | None


class Number(NamedTuple):
    x: float


class Flag(NamedTuple):
    b: bool


class Day(NamedTuple):
    d: date


class Moment(NamedTuple):
    t: datetime


class Inner(NamedTuple):
    a: int


class Nested(NamedTuple):
    inner: Inner
    some: list[int]


class Both(NamedTuple):
    id: int | None
    name: str
    z: str | None


class Line(NamedTuple):
    name: str


class Mapped(NamedTuple):
    m: dict[str, int]


def rows_of(path: Path, schema: Any, format: str, **properties: Any) -> list[tuple[Any, ...]]:
    part = Driven(FileReplayInput(path=path, schema=schema, format=format, **properties))
    rows: list[tuple[Any, ...]] = []
    while not part.finished:
        rows += [
            tuple(row) if isinstance(row, tuple) else tuple(row.values())
            for batch in part.window()[0]
            for row in Schema(schema).decode(batch)
        ]
    return rows


def together(part: Driven) -> None:
    while not part.finished:
        part.window()


def refused(path: Path, schema: Any, format: str, **properties: Any) -> str:
    with pytest.raises(RidgelineError) as caught:
        rows_of(path, schema, format, **properties)
    return str(caught.value)


BAD_JSON = [
    (b'{"id":1,"name":"a\xff"}', Row, "'utf-8' codec can't decode byte 0xff"),
    (b'{"id":1,"name":"a","other":"\xff"}', Row, "'utf-8' codec can't decode byte 0xff"),
    (b"null", Row, "not one object a line"),
    (b"null", Mapped, "not one object a line"),
    (b'{"id":null,"name":"a"}', Row, "field `id` is null, which"),
    (b'{"id":1,"name":null}', Row, "declare it optional, such as `str | None`"),
    (b'{"id":1}', Row, "field `name` is missing"),
    (b'{"id":1,"nmae":"a"}', Row, "field `name` is missing; did you mean `nmae`?"),
    (b'{"inner":{"a":null},"some":[]}', Nested, "field `inner.a` is null"),
    (b'{"inner":{},"some":[]}', Nested, "field `inner.a` is null"),
    (b'{"inner":null,"some":[]}', Nested, "field `inner` is null"),
    (b'{"inner":{"a":1},"some":[1,null]}', Nested, "field `some[]` is null"),
    (b'{"m":{"a":null}}', Mapped, "field `m{}` is null"),
    (b'{"m":{"a":1},"m":{"a":2}}', Mapped, "`m` is given twice"),
    (b'{"m":{"a":1,"a":2}}', Mapped, "`a` is given twice"),
    (b'{"id":1,"id":1,"name":"a"}', Row, "specified twice"),
    (b'{"id":9223372036854775808,"name":"a"}', Row, "couldn't parse:9223372036854775808"),
    (b'{"id":1.0,"name":"a"}', Row, "couldn't parse:1.0"),
    (b'{"id":true,"name":"a"}', Row, "changed from number to boolean"),
    (b'{"m":{"a":1.5}}', Mapped, "1.5 is not a whole number"),
    (b'{"m":{"a":true}}', Mapped, "True is not a whole number"),
    (b'{"m":{"a":9223372036854775808}}', Mapped, "too large"),
    (b'{"x":1e999}', Number, "Number too big"),
    (b'{"b":1}', Flag, "changed from boolean to number"),
    (b'{"d":"2024-02-31"}', Day, "'2024-02-31'"),
    (b'{"d":"2024-01-31T10:00:00"}', Day, "'2024-01-31T10:00:00'"),
    (b'{"t":"10000-01-01T00:00:00Z"}', Moment, "'10000-01-01T00:00:00Z'"),
    (b'{"t":"2024-01-01T00:00:00.123456789Z"}', Moment, "'2024-01-01T00:00:00.123456789Z'"),
    (b'{"id":1,"name":"\\ud800"}', Row, "surrogate"),
    (b'{"m":{"\\ud800":1}}', Mapped, "surrogates not allowed"),
]


@pytest.mark.parametrize(("line", "schema", "reason"), BAD_JSON)
def test_a_json_line_that_does_not_fit_is_refused_by_its_number(
    tmp_path: Path, line: bytes, schema: type, reason: str
) -> None:
    good = {
        Row: b'{"id":7,"name":"z"}',
        Nested: b'{"inner":{"a":1},"some":[2]}',
        Mapped: b'{"m":{"k":1}}',
    }.get(schema, b"")
    path = tmp_path / "a.jsonl"
    path.write_bytes(b"\n".join([*[good] * (2 if good else 0), line, *[good] * (2 if good else 0)]) + b"\n")
    text = refused(path, schema, "jsonl")
    number = 3 if good else 1
    assert text.startswith(
        f"line {number}, byte {len(good) * 2 + 2 if good else 0} of `{path}` is not a JSON object "
        f"for {schema.__name__}("
    )
    assert reason in text


def test_json_objects_are_counted_by_lines_not_altogether(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text('{"id":1,"name":"x"}{"id":2,"name":"y"}\n{"id":3,\n"name":"z"}\n{"id":4,"name":"w"}\n')
    assert f"line 1, byte 0 of `{path}` is not a JSON object" in refused(path, Row, "jsonl")
    path.write_text('{"id":3,\n"name":"z"}{"id":4,"name":"w"}\n')
    assert f"line 1, byte 0 of `{path}` is not a JSON object" in refused(path, Row, "jsonl")


def test_json_that_is_exact_is_taken(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_bytes(
        b'\xef\xbb\xbf {"id":1,"name":"x"} '
        b'\r\n\r\n\t{"name":"a\\u0000\\ud83d\\ude00","id":9223372036854775807}'
    )
    assert rows_of(path, Row, "jsonl") == [(1, "x"), (2**63 - 1, "a\x00\U0001f600")]
    path.write_text('{"x":NaN}\n{"x":-Infinity}\n{"x":3}\n')
    nan, infinity, three = [x for (x,) in rows_of(path, Number, "jsonl")]
    assert math.isnan(nan)
    assert (infinity, three) == (-math.inf, 3.0)
    path.write_text('{"t":"0001-01-01T00:00:00Z"}\n{"t":"9999-12-31T23:59:59.999999Z"}\n')
    assert [t.year for (t,) in rows_of(path, Moment, "jsonl")] == [1, 9999]
    path.write_text('{"id":1}\n{"name":"b","id":null}\n')
    assert rows_of(path, Sparse, "jsonl") == [(1, None), (None, "b")]
    path.write_text("")
    assert rows_of(path, Row, "jsonl") == []


def test_an_optional_field_that_looks_misspelt_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text('{"id":1,"nmae":"a"}\n' * 3)
    assert f"`{path}` has the field `name`; did you mean `nmae`? Name the" in refused(path, Sparse, "jsonl")
    path.write_text('{"id":1,"nmae":"a"}\n{"id":2,"name":"b"}\n')
    assert rows_of(path, Sparse, "jsonl") == [(1, None), (2, "b")]
    path.write_text('{"id":1,"colour":"a"}\n')
    assert rows_of(path, Sparse, "jsonl") == [(1, None)]
    arrow = pa.schema([("id", pa.int64()), ("name", pa.string())])
    path.write_text('{"id":1,"Name":"a"}\n')
    assert "has the field `name`; did you mean `Name`?" in refused(path, arrow, "jsonl")


def test_what_an_arrow_schema_says_of_nulls_holds(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text('{"id":null,"name":"a"}\n')
    strict = pa.schema([pa.field("id", pa.int64(), nullable=False), pa.field("name", pa.string())])
    assert "field `id` is null, which its type does not allow" in refused(path, strict, "jsonl")
    path.write_text('{"id":1}\n')
    assert rows_of(path, strict, "jsonl") == [(1, None)]


BAD_CSV: list[tuple[bytes, type, str]] = [
    (b"id,name,id\n1,a,2\n", Row, "column `id` twice; its header is 'id,name,id'; rename one of them"),
    (b"id,nmae\n1,a\n", Row, "has no column `name`; its header is 'id,nmae'; did you mean `nmae`?"),
    (b"id,name\r1,a\r2,b\r", Row, "its lines end with a carriage return alone"),
    (b"id,name\n,a\n", Row, "field `id` is null, which its type does not allow"),
    (b"id,name\nNA,a\n", Row, "field `id` is null, which its type does not allow"),
    (b"id,name\n1,a\xff\n", Row, "invalid UTF8 data"),
    (b"id,name\n9223372036854775808,a\n", Row, "invalid value '9223372036854775808'"),
    (b"id,name\n1.0,a\n", Row, "invalid value '1.0'"),
    (b"id,name\ntrue,a\n", Row, "invalid value 'true'"),
    (b"id,name\n1\n", Row, "Expected 2 columns, got 1"),
    (b"id,name\n1,a,b\n", Row, "Expected 2 columns, got 3"),
    (b"b\nyes\n", Flag, "invalid value 'yes'"),
    (b"d\n2024-02-31\n", Day, "invalid value '2024-02-31'"),
    (b"t\n10000-01-01\n", Moment, "'10000-01-01'"),
]


@pytest.mark.parametrize(("content", "schema", "reason"), BAD_CSV)
def test_csv_that_does_not_fit_is_refused(tmp_path: Path, content: bytes, schema: type, reason: str) -> None:
    path = tmp_path / "a.csv"
    path.write_bytes(content)
    text = refused(path, schema, "csv")
    assert f"`{path}`" in text
    assert reason in text


def test_csv_text_that_cannot_be_null_is_what_it_is(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_bytes(b'\xef\xbb\xbfid,name,z,z\r\n1,,x,y\r\n2,NA,,\r\n3,"",,')
    assert rows_of(path, Row, "csv") == [(1, ""), (2, "NA"), (3, "")]
    assert rows_of(path, Sparse, "csv") == [(1, None), (2, None), (3, "")]

    path.write_text("id,name,z\nNA,NA,NA\n4,,\n")
    assert rows_of(path, Both, "csv") == [(None, "NA", None), (4, "", None)]
    path.write_text('id,name,z\n1,"a",\n2,"b",')
    assert rows_of(path, Both, "csv", rows_per_window=1) == [(1, "a", None), (2, "b", None)]


def parquet(path: Path, table: pa.Table) -> Path:
    pq.write_table(table, path)
    return path


def one(name: str, values: list[Any], kind: pa.DataType | None = None) -> pa.Table:
    return pa.table({name: pa.array(values, kind)})


BAD_PARQUET = [
    (pa.table({"id": [1, None], "name": ["a", "b"]}), Row, "field `id` is null", "row 1"),
    (pa.Table.from_arrays([pa.array([1])] * 3, ["id", "id", "name"]), Row, "the column `id` twice", ""),
    (pa.table({"id": ["1"], "name": ["a"]}), Row, "column `id` of file", "is string, `schema` says int64"),
    (pa.table({"id": [1], "name": [5]}), Row, "column `name` of file", "is int64, `schema` says string"),
    (pa.table({"id": [1.5], "name": ["a"]}), Row, "is double, `schema` says int64", "truncated"),
    (one("b", [5]), Flag, "is int64, `schema` says bool", ""),
    (one("b", ["true"]), Flag, "is string, `schema` says bool", ""),
    (one("d", [1], pa.timestamp("us")), Day, "is timestamp[us], `schema` says date32[day]", ""),
    (one("t", [1], pa.timestamp("ns")), Moment, "is timestamp[ns], `schema` says", "would lose data"),
    (one("t", [1]), Moment, "is int64, `schema` says timestamp[us, tz=UTC]", ""),
    (pa.table({"inner": [{"a": None}], "some": [[1]]}), Nested, "field `inner.a` is null", "row 0"),
]


@pytest.mark.parametrize(("table", "schema", "reason", "detail"), BAD_PARQUET)
def test_parquet_that_would_be_changed_is_refused(
    tmp_path: Path, table: pa.Table, schema: type, reason: str, detail: str
) -> None:
    path = parquet(tmp_path / "a.parquet", table)
    text = refused(path, schema, "parquet")
    assert f"`{path}`" in text
    assert reason in text
    assert detail in text


def test_parquet_that_stays_what_it_is_is_taken(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    table = pa.table(
        {"id": pa.array([1.0, 2.0]), "name": pa.array(["a", "b"]).dictionary_encode(), "other": [None, None]}
    )
    assert rows_of(parquet(path, table), Row, "parquet") == [(1, "a"), (2, "b")]
    assert (
        rows_of(parquet(path, one("t", [date(2024, 1, 1)])), Moment, "parquet")[0][0].isoformat()
        == "2024-01-01T00:00:00+00:00"
    )
    assert rows_of(parquet(path, one("x", [3])), Number, "parquet") == [(3.0,)]


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-30])


def grow(path: Path) -> None:
    path.write_bytes(path.read_bytes() + path.read_bytes().splitlines(keepends=True)[-1])


def replace(path: Path) -> None:
    other = path.with_name("_other")
    other.write_bytes(path.read_bytes()[:-40])
    other.rename(path)


@pytest.mark.parametrize(("format", "change"), share(2, ["text", "csv", "jsonl"], [cut, grow, replace]))
def test_a_file_that_changes_while_it_is_read_is_refused(
    tmp_path: Path, format: str, change: Callable[[Path], None]
) -> None:
    path = tmp_path / f"a.{format}"
    lines = {"text": "{}", "csv": "{}", "jsonl": '{{"name":"{}"}}'}[format]
    path.write_text(
        ("name\n" if format == "csv" else "") + "".join(lines.format(n) + "\n" for n in range(100, 50_000))
    )
    part = Driven(FileReplayInput(path=path, schema=Line, format=format, rows_per_window=20_000))
    part.window()
    change(path)
    with pytest.raises(RidgelineError) as caught:
        together(part)
    found = path.stat().st_size
    assert f"file `{path}` has {found} bytes, it had " in str(caught.value)
    assert "when it was found; bring it back, or start on a fresh checkpoint" in str(caught.value)


DAY = datetime(2026, 1, 1, tzinfo=UTC)


TOOK, MONEY = timedelta(seconds=1.5), Decimal("1.5")
ROW = Everything(1, 0.5, 'ä "quoted"', True, b"\x00\xff", DAY, DAY.date(), time(1, 2, 3), TOOK, MONEY)


@pytest.mark.parametrize(
    ("schema", "row", "format"),
    share(
        2,
        [(Everything, ROW), (NestedTimes, NestedTimes([DAY], {5: Decimal("2.5")}, ROW))],
        ["jsonl", "parquet"],
        spread=True,
    ),
)
def test_what_a_file_output_wrote_comes_back(tmp_path: Path, format: str, schema: type, row: Any) -> None:
    output = FileOutput(path=tmp_path, format=format, roll_seconds=0)
    rows = Schema(schema).encode([row, row])
    Published(output, tmp_path).commit(0, Driven(output).window(rows)[1])
    [[batch], _] = Driven(FileReplayInput(path=tmp_path, schema=schema, format=format)).window()
    assert Schema(schema).decode(batch) == [row, row]


def test_csv_columns_by_name_with_types_nulls_and_other_delimiters(tmp_path: Path) -> None:
    schema = Schema(Everything).arrow
    schema = schema.remove(schema.get_field_index("raw"))
    fields = schema.names
    (tmp_path / "a.csv").write_text(
        "\ufeffnumber;extra;ratio;text;flag;at;day;hour;took;money\n"
        '1;z;0.5;"a;""b""";true;2026-01-01T01:00:00+01:00;2026-01-01;01:02:03;1.5;1.50\n'
        ';NA;-;"-";;2026-01-01;-;;;\n'
        '2;;;";";0;2026-01-01 00:00:00.5;;;;\n',
        encoding="utf-8",
    )
    part = Driven(
        FileReplayInput(
            path=tmp_path / "a.csv", schema=schema, format="csv", delimiter=";", null_values=["", "-"]
        )
    )
    [[batch], _] = part.window()
    first, second, third = batch.to_pylist()
    assert first == {**{name: getattr(ROW, name) for name in fields}, "text": 'a;"b"'}
    assert second == {**dict.fromkeys(fields), "text": "-", "at": DAY}
    at = DAY + timedelta(seconds=0.5)
    assert third == {**dict.fromkeys(fields), "number": 2, "text": ";", "flag": False, "at": at}


def fails(operator: FileReplayInput, *words: str) -> None:
    with pytest.raises(RidgelineError) as caught:
        Driven(operator).rows(5)
    assert all(word in str(caught.value) for word in words), caught.value


def test_files_that_are_missing_or_corrupt(tmp_path: Path) -> None:
    for none in (f"{tmp_path}/no.csv", f"{tmp_path}/*.csv", str(tmp_path)):
        fails(replay(none, "csv"), f"`{none}`: there is no such file, or only", "; give the `path`")
    path = tmp_path / "a.parquet"
    path.write_text("this is not Parquet")
    fails(replay(path, "parquet"), f"file `{path}` is no Parquet file or corrupt, after row 0: ")
    path = tmp_path / "a.text.gz"
    path.write_bytes(gzip.compress(bytes(range(256)).hex().encode() * 10_000)[:-20])
    fails(replay(path, "text"), f"file `{path}` is corrupt or cannot be read, after byte ")
    path.write_bytes(b"not compressed")
    fails(replay(path, "text"), f"file `{path}` is corrupt or cannot be read, after byte 0 of its text: ")
    path = tmp_path / "000.text"
    shrunk = f"file `{path}` has shrunk: it was read up to byte 10 before; bring it back, or start"
    for change, words in (
        (path.unlink, f"file `{path}` cannot be opened: "),
        (lambda: path.write_text("1\n"), shrunk),
    ):
        write(tmp_path, "text", [list(range(10))])
        part = Driven(replay(path, "text", rows_per_window=5), rotate=True)
        part.window()
        change()
        with pytest.raises(RidgelineError, match=f"^{re.escape(words)}"):
            part.window()
