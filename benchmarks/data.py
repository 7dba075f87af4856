"""The tuples of the throughput benchmarks: 64 bytes each, in memory and as Parquet files."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

KEYS = 1_000
PAD_BYTES = 48
ROW = pa.schema([("key", pa.int64()), ("value", pa.int64()), ("pad", pa.binary(PAD_BYTES))])
"""64 bytes: `key` is one of `KEYS`, `value` below 100."""
NUMBERS = pa.schema([("key", pa.int64()), ("value", pa.int64())])
"""What the keyed sums read of it."""


def rows(count: int, seed: int = 0) -> pa.RecordBatch:
    """So many tuples; the same for the same seed."""
    random = np.random.default_rng(seed)
    pad = pa.Array.from_buffers(pa.binary(PAD_BYTES), count, [None, pa.py_buffer(random.bytes(PAD_BYTES * count))])
    return pa.RecordBatch.from_arrays(
        [pa.array(random.integers(0, KEYS, count)), pa.array(random.integers(0, 100, count)), pad], schema=ROW
    )


def write_parquet(folder: Path, files: int, file_rows: int) -> None:
    """Fill a folder with Parquet files of so many tuples each.

    They are names of four files that differ: what is read lies in memory, as what has just arrived does, and takes little room on the disk.
    """
    folder.mkdir(parents=True)
    different = [folder / f"{number:06d}.parquet" for number in range(min(4, files))]
    for number, path in enumerate(different):
        pq.write_table(pa.Table.from_batches([rows(file_rows, number)]), path)
    for number in range(len(different), files):
        os.link(different[number % len(different)], folder / f"{number:06d}.parquet")


def read_sums(folder: Path, first: int, last: int) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """The sum of `value` by key over the files number `first` to `last` - 1: what keyed sums must come to."""
    sums = np.zeros(KEYS, np.int64)
    by_file = [_file_sums(folder / f"{number:06d}.parquet") for number in range(min(4, last))]
    for number in range(first, last):
        sums += by_file[number % 4]
    return sums


def _file_sums(path: Path) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    table = pq.read_table(path, columns=NUMBERS.names)
    return np.bincount(table["key"].to_numpy(), weights=table["value"].to_numpy(), minlength=KEYS).astype(np.int64)
