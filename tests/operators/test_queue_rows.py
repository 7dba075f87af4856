"""Rows and their times as batches of a queue: the same times come out, whatever forms they have."""

from random import Random

import numpy as np
import pyarrow as pa
import pytest

from ridgeline.api.columns.schema import Schema
from ridgeline.api.columns.tuples import Tuples
from ridgeline.api.times import NO_TIME, Times
from ridgeline.operators._queue_files import as_stream
from ridgeline.operators._queue_rows import divided_times, plain_schema, united, with_times

SCHEMA = pa.schema(
    [
        ("number", pa.int64()),
        ("kind", pa.dictionary(pa.int32(), pa.string())),
        ("at", pa.timestamp("ns", "Europe/Berlin")),
        ("__newest", pa.int64()),
    ]
)
KINDS = "none", "column", "same", "newest", "both", "one"


def made(random, kind, first):
    """A batch, and the newest and oldest time of each row."""
    count = random.randrange(1, 9)
    at = [random.choice([None, random.randrange(-(10**9), 10**9)]) for _ in range(count)]
    numbers = range(first, first + count)
    columns = [
        pa.array(numbers),
        pa.array([random.choice("abc") for _ in numbers]).dictionary_encode(),
        pa.array([None if time is None else time * 1000 + 999 for time in at], SCHEMA.field("at").type),
        pa.array([7] * count),
    ]
    batch = pa.RecordBatch.from_arrays(columns, schema=SCHEMA.with_metadata({"ridgeline.times": "newest"}))
    if kind == "none":
        return batch, Tuples.of_batch(Schema(SCHEMA), batch), [(NO_TIME, NO_TIME)] * count
    if kind == "column":
        found = [NO_TIME if time is None else time for time in at]
        return batch, Tuples.of_batch(Schema(SCHEMA), batch, "at"), list(zip(found, found, strict=True))
    newest = np.array([random.choice([NO_TIME, random.randrange(10**6)]) for _ in numbers], np.int64)
    if kind == "one":
        newest = np.broadcast_to(np.int64(5), count)
    oldest = np.where(newest == NO_TIME, NO_TIME, newest - 3) if kind in {"both", "one"} else None
    times = Times(newest, oldest)
    return (
        batch,
        Tuples.of_batch(Schema(SCHEMA), batch, times),
        list(zip(newest.tolist(), (newest if oldest is None else oldest).tolist(), strict=True)),
    )


@pytest.mark.parametrize("seed", range(60))
def test_rows_and_times_come_back(seed):
    random = Random(seed)
    kinds = random.choice([[random.choice(KINDS)], KINDS])
    stored, expected, rows = [], [], []
    for _ in range(random.randrange(1, 6)):
        batch, tuples, times = made(random, random.choice(kinds), len(expected))
        stored.append(with_times(batch, tuples))
        expected += times
        rows += batch.to_pylist()
    batches = list(pa.ipc.open_stream(as_stream(united(stored))))

    found = []
    for batch in batches:
        plain, times = divided_times(batch)
        assert plain.schema.equals(SCHEMA)
        found += [(row, *time) for row, time in zip(plain.to_pylist(), pairs(plain, times), strict=True)]
    assert found == [(row, *time) for row, time in zip(rows, expected, strict=True)]
    assert plain_schema(batches[0]).equals(SCHEMA, check_metadata=True)


def pairs(batch, times):
    if isinstance(times, str):
        times = Tuples.of_batch(Schema(SCHEMA), batch, times).times
    if times is None:
        return [(NO_TIME, NO_TIME)] * len(batch)
    oldest = times.newest if times.oldest is None else times.oldest
    return list(zip(times.newest.tolist(), oldest.tolist(), strict=True))
