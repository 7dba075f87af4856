"""Row groups of Parquet whose numbers polars decodes: the same rows as by Arrow, and the same faults."""

from __future__ import annotations

import random
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ridgeline import RidgelineError
from ridgeline.api.columns.schema import Schema
from ridgeline.operators import _parquet_columns
from ridgeline.operators._parquet_columns import PolarsColumns
from ridgeline.operators._replay_files import ReplayFile
from ridgeline.operators._replay_parquet import ParquetReader

ROWS = 40_000
KINDS = [pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64()]
TIMES = [pa.timestamp(unit, zone) for unit in ("ms", "us") for zone in (None, "UTC", "Europe/Berlin")]


@pytest.fixture
def decoded(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """The columns that polars decoded of each row group."""
    found, read = list[list[str]](), PolarsColumns.read

    def spy(columns: PolarsColumns, group: int, begin: int) -> dict[str, pa.Array]:
        made = read(columns, group, begin)
        found.append(list(made))
        return made

    monkeypatch.setattr(PolarsColumns, "read", spy)
    return found


def table(seed: int, rows: int = ROWS) -> pa.Table:
    draw, chance = np.random.default_rng(seed), random.Random(seed)
    columns: dict[str, Any] = {}
    for kind in KINDS:
        limits = np.iinfo(kind.to_pandas_dtype())
        few = chance.random() < 0.5
        least, most = (0, 9) if few else (limits.min, limits.max)
        values = draw.integers(least, most, rows, kind.to_pandas_dtype(), endpoint=True)
        nulls = draw.random(rows) < 0.1 if chance.random() < 0.5 else None
        columns[str(kind)] = pa.array(values, kind, mask=nulls)
    floats = draw.normal(size=rows)
    floats[::7], floats[::11], floats[::13] = np.nan, -0.0, np.inf
    columns["double"] = pa.array(floats, mask=draw.random(rows) < 0.1)
    columns["float"] = pa.array(floats.astype(np.float32))
    columns.update({str(kind): pa.array(draw.integers(-(10**12), 10**12, rows), kind) for kind in TIMES})
    columns["text"] = pa.array([f"t{number}" for number in draw.integers(0, 50, rows)])
    columns["truth"] = pa.array(floats > 0)
    columns["nothing"] = pa.nulls(rows, pa.int64())
    names = chance.sample(sorted(columns), len(columns))
    return pa.table({name: columns[name] for name in names})


def read(path: Path, schema: pa.Schema, place: int = 0, size: int = 15_000) -> list[pa.RecordBatch]:
    reader = ParquetReader(ReplayFile(str(path), str(path), path.stat().st_size), Schema(schema), place)
    found = []
    while len(chunk := reader.peek(size)):
        found.append(chunk.read(0, 1))
        reader.skip(len(chunk))
    reader.close()
    return found


def bits(rows: pa.Table) -> pa.Table:
    """The rows, floats as the integers with their bits: so NaN equals NaN, and 0.0 not -0.0."""
    columns = []
    for column in rows.combine_chunks().columns:
        whole = pa.concat_arrays(column.chunks)
        if pa.types.is_floating(whole.type):
            values = whole.fill_null(0).to_numpy()
            whole = pa.array(
                values.view(f"i{values.itemsize}"), mask=whole.is_null().to_numpy(zero_copy_only=False)
            )
        columns.append(whole)
    return pa.table(columns, rows.schema.names)


@pytest.mark.parametrize("seed", range(6))
def test_rows_are_those_that_arrow_reads(seed: int, tmp_path: Path, decoded: list[list[str]]) -> None:
    written, path = table(seed, 100_000), tmp_path / "rows.parquet"
    plain = {"use_dictionary": False, "column_encoding": {"int64": "DELTA_BINARY_PACKED"}}
    pq.write_table(
        written,
        path,
        row_group_size=[ROWS, 33_000, 10**6][seed % 3],
        compression=["snappy", "none"][seed % 2],
        data_page_version=["1.0", "2.0"][seed % 2],
        **(plain if seed > 2 else {}),
    )
    place = [0, 1, 39_999, 60_000][seed % 4]
    found = pa.Table.from_batches(read(path, written.schema, place, [9_999, 150_000][seed % 2]))
    expected = written.slice(place)
    assert found.schema == written.schema
    assert bits(found) == bits(expected)
    assert decoded[0]
    assert set(decoded[0]).isdisjoint({"text", "truth", str(TIMES[2]), str(TIMES[5])})


def test_small_row_groups_and_other_codecs_are_read_by_arrow(
    tmp_path: Path, decoded: list[list[str]]
) -> None:
    written = table(1)
    written_so: dict[str, Any] = {"small": {"row_group_size": 5_000}, "gzip": {"compression": "gzip"}}
    for name, options in written_so.items():
        path = tmp_path / f"{name}.parquet"
        pq.write_table(written, path, **options)
        assert bits(pa.Table.from_batches(read(path, written.schema))) == bits(written)
    assert not any(decoded)


def test_a_file_in_its_place_is_not_read(tmp_path: Path, decoded: list[list[str]]) -> None:
    rows = pa.table({"number": np.arange(3 * ROWS)})
    path, other = tmp_path / "rows.parquet", tmp_path / "other.parquet"
    pq.write_table(rows, path, row_group_size=ROWS)
    pq.write_table(pa.table({"number": -np.arange(3 * ROWS)}), other, row_group_size=ROWS)
    reader = ParquetReader(ReplayFile(str(path), str(path), path.stat().st_size), Schema(rows.schema), 0)
    found = []
    while len(chunk := reader.peek(ROWS)):
        found += chunk.read(0, 1).column(0).to_pylist()
        reader.skip(len(chunk))
        if other.exists():
            other.replace(path)
    assert found == list(range(3 * ROWS))
    assert decoded == [["number"], []]


def test_damage_is_said_as_arrow_says_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = pa.table({"number": np.arange(2 * ROWS) * 7919})
    path = tmp_path / "rows.parquet"
    pq.write_table(rows, path, row_group_size=ROWS)
    held = bytearray(path.read_bytes())
    start = pq.ParquetFile(path).metadata.row_group(1).column(0).dictionary_page_offset or 0
    held[start : start + 40] = bytes(40)
    path.write_bytes(held)

    def fault() -> str:
        with pytest.raises(RidgelineError) as error:
            read(path, rows.schema)
        return str(error.value).partition(": ")[2]

    said = fault()
    monkeypatch.setattr(_parquet_columns, "_LEAST_ROWS", 10**9)
    assert said == fault()


def test_without_polars_arrow_reads_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    written, path = table(3), tmp_path / "rows.parquet"
    pq.write_table(written, path)
    monkeypatch.setitem(sys.modules, "polars", None)
    assert bits(pa.Table.from_batches(read(path, written.schema))) == bits(written)
