"""The tuples of the throughput benchmarks: 64 bytes each, in memory and as Parquet files."""

from __future__ import annotations

import os
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

KEYS = 1_000
PAD_BYTES = 48
ROW = pa.schema([("key", pa.int64()), ("value", pa.int64()), ("pad", pa.binary(PAD_BYTES))])
"""64 bytes: `key` is one of `KEYS`, `value` below 100."""
NUMBERS = pa.schema([("key", pa.int64()), ("value", pa.int64())])
"""What the keyed sums read of it."""


class Number(NamedTuple):
    """A value with a key: a tuple of `NUMBERS`."""

    key: int
    value: int


def rows(count: int, seed: int = 0) -> pa.RecordBatch:
    """So many tuples; the same for the same seed."""
    random = np.random.default_rng(seed)
    pad = pa.Array.from_buffers(
        pa.binary(PAD_BYTES), count, [None, pa.py_buffer(random.bytes(PAD_BYTES * count))]
    )
    return pa.RecordBatch.from_arrays(
        [pa.array(random.integers(0, KEYS, count)), pa.array(random.integers(0, 100, count)), pad], schema=ROW
    )


def write_parquet(folder: Path, files: int, file_rows: int) -> None:
    """Fill a folder with Parquet files of so many tuples each.

    They are names of one file: what is read lies in memory, as what has just arrived does, and in whatever
    order, the sums are the same.
    """
    folder.mkdir(parents=True, exist_ok=True)
    first = folder / "000000.parquet"
    pq.write_table(pa.Table.from_batches([rows(file_rows)]), first)
    for number in range(1, files):
        os.link(first, folder / f"{number:06d}.parquet")


def sums_of(folder: Path, files: int) -> dict[int, int]:
    """The sum of `value` by key over so many of the files: what keyed sums must come to."""
    table = pq.read_table(folder / "000000.parquet", columns=NUMBERS.names)
    sums = np.bincount(table["key"].to_numpy(), weights=table["value"].to_numpy(), minlength=KEYS).astype(
        np.int64
    )
    return dict(enumerate((sums * files).tolist()))
