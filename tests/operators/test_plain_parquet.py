"""Parquet files whose columns polars decodes: rows, types and errors are those of Arrow alone."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ridgeline.api.columns.schema import Schema
from ridgeline.api.errors import RidgelineError
from ridgeline.operators import _replay_parquet as reading
from ridgeline.operators._replay_files import ReplayFile
from ridgeline.operators._replay_parquet import ParquetReader

GROUP = 20_000
KINDS = [
    *(pa.int8(), pa.int64(), pa.uint8(), pa.uint64(), pa.float32(), pa.float64(), pa.bool_(), pa.date32()),
    *(pa.string(), pa.large_string(), pa.timestamp("ms"), pa.timestamp("us", "Europe/Berlin")),
    *(pa.timestamp("ns", "UTC"), pa.timestamp("us")),
]


def table_of(rows: int, seed: int, *, nulls: bool) -> pa.Table:
    """Random values of all plain types, their greatest and least ones among them."""
    random = np.random.default_rng(seed)
    columns: dict[str, Any] = {}
    for number, kind in enumerate(KINDS):
        mask = random.random(rows) < 0.1 if nulls else None
        if pa.types.is_boolean(kind):
            values: Any = random.random(rows) < 0.5
        elif pa.types.is_floating(kind):
            values = random.normal(size=rows).astype(kind.to_pandas_dtype())
            values[:5] = [np.nan, np.inf, -np.inf, -0.0, 0.0]
        elif kind in (pa.string(), pa.large_string()):
            words = np.array(["", "a", "ä€😀", "x" * 100, "null", *map(str, range(50))], dtype=object)
            values = words[random.integers(0, len(words), rows)]
        else:
            whole = (
                pa.int32() if pa.types.is_date(kind) else pa.int64() if pa.types.is_timestamp(kind) else kind
            )
            limits = np.iinfo(whole.to_pandas_dtype())
            values = random.integers(
                limits.min, limits.max, rows, dtype=whole.to_pandas_dtype(), endpoint=True
            )
            values[:2] = limits.min, limits.max
            columns[f"c{number}"] = pa.array(values, whole, mask=mask).cast(kind)
            continue
        columns[f"c{number}"] = pa.array(values, kind, mask=mask)
    return pa.table(columns)


def opened(path: Path, schema: pa.Schema) -> ParquetReader:
    """A reader of a file."""
    return ParquetReader(ReplayFile(str(path), str(path), path.stat().st_size), Schema(schema), 0)


def decoded(reader: ParquetReader, place: int, rows: int) -> pa.Table:
    """Rows as they come, in one piece."""
    return pa.Table.from_batches(reader.decode(place, rows)).combine_chunks()


def are_equal(one: pa.ChunkedArray, other: pa.ChunkedArray) -> bool:
    """Whether two columns have the same values. Floats count by their bits: NaN is NaN, -0.0 is not 0.0."""
    if not pa.types.is_floating(one.type):
        return one.equals(other)
    bits = np.uint32 if one.type == pa.float32() else np.uint64
    pair = [column.combine_chunks() for column in (one, other)]
    parts = [column.fill_null(0.0).to_numpy().view(bits) for column in pair]
    return pair[0].is_null().equals(pair[1].is_null()) and bool((parts[0] == parts[1]).all())


@pytest.mark.parametrize("nulls", [False, True])
def test_rows_are_those_that_arrow_reads(tmp_path: Path, nulls: bool) -> None:
    path, table = tmp_path / "rows.parquet", table_of(3 * GROUP, 5, nulls=nulls)
    pq.write_table(table, path, row_group_size=GROUP, compression="zstd")
    with pq.ParquetFile(path) as file:
        expected = file.read(use_threads=False)
    reader = opened(path, table.schema)
    assert reader._plain is not None
    random = np.random.default_rng(8)
    places = sorted(random.integers(0, table.num_rows, 6).tolist())
    for place in [0, *places, GROUP - 1, GROUP, 3 * GROUP - 1, 7]:  # forward, then back
        rows = int(random.integers(1, 2 * GROUP))
        found, wanted = decoded(reader, place, rows), expected.slice(place, rows).combine_chunks()
        assert found.schema.equals(wanted.schema)
        assert [str(column.chunk(0)) for column in found.columns] == [
            str(column.chunk(0)) for column in wanted.columns
        ]
        assert all(map(are_equal, found.columns, wanted.columns))
    assert reader._plain is not None
    reader.close()


@pytest.mark.parametrize(
    "column",
    [
        pa.array([b"\xff"] * GROUP),
        pa.array([[1]] * GROUP),
        pa.array(["a"] * GROUP).dictionary_encode(),
        pa.array([1] * GROUP, pa.decimal128(9, 2)),
        pa.array([1] * GROUP, pa.time64("us")),
        pa.array([1] * GROUP, pa.duration("us")),
    ],
    ids=lambda column: str(column.type),
)
def test_other_columns_are_read_by_arrow(tmp_path: Path, column: pa.Array) -> None:
    path = tmp_path / "rows.parquet"
    pq.write_table(pa.table({"n": pa.array(range(GROUP)), "x": column}), path)
    schema = pq.read_schema(path).remove_metadata()
    reader = opened(path, schema)
    assert reader._plain is None
    assert decoded(reader, 3, 5).equals(pq.read_table(path).slice(3, 5).combine_chunks())
    reader.close()


def test_text_that_is_no_unicode_is_read_by_arrow(tmp_path: Path) -> None:
    path = tmp_path / "rows.parquet"
    text = pa.Array.from_buffers(pa.string(), GROUP, pa.array([b"\xff\xfe"] * GROUP, pa.binary()).buffers())
    pq.write_table(pa.table({"x": text}), path)
    reader = opened(path, pa.schema([("x", pa.string())]))
    assert reader._plain is not None
    with pq.ParquetFile(path) as file:
        assert decoded(reader, 0, 10).column("x").equals(file.read().slice(0, 10).column("x"))
    assert reader._plain is None
    reader.close()


def test_a_file_that_another_took_the_place_of_is_read_from_the_one_that_was_opened(tmp_path: Path) -> None:
    path, other = tmp_path / "rows.parquet", tmp_path / "other.parquet"
    pq.write_table(pa.table({"x": range(GROUP)}), path)
    reader = opened(path, pa.schema([("x", pa.int64())]))
    pq.write_table(pa.table({"x": range(5)}), other)
    other.replace(path)
    assert decoded(reader, 0, GROUP).column("x").to_pylist() == list(range(GROUP))
    reader.close()


def test_damage_is_found_as_arrow_finds_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, table = tmp_path / "rows.parquet", table_of(GROUP, 3, nulls=True)
    pq.write_table(table, path, compression="snappy")
    whole = path.read_bytes()
    random = np.random.default_rng(4)

    def outcome() -> Any:
        try:
            reader = opened(path, table.schema)
            return "read", decoded(reader, 0, GROUP).num_rows
        except RidgelineError as error:
            return "failed", str(error)

    for _ in range(15):
        damaged = bytearray(whole)
        for place in random.integers(0, len(whole), 3):
            damaged[place] ^= int(random.integers(1, 256))
        path.write_bytes(bytes(damaged))
        found = outcome()
        with monkeypatch.context() as patch:
            patch.setattr(reading, "plain_columns", lambda *_: None)
            wanted = outcome()
        assert found == wanted or found[0] == "read"
