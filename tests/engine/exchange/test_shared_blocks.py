"""Blocks by reference: the same tuples as by value, from immutable files; by value where there is no room."""

import errno
import os
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ridgeline.api.columns.schema import Schema
from ridgeline.api.columns.tuples import Tuples
from ridgeline.api.times import NO_TIME, Span, Times
from ridgeline.engine.exchange import block, shared_blocks
from ridgeline.engine.exchange.block import Reference
from ridgeline.engine.exchange.shared_blocks import LostBlockError, SharedPlace, SharedReader, SharedWriter
from support.depth import deep

COLOUR = pa.dictionary(pa.int8(), pa.string())
COLUMNS = {
    "int": (pa.int64(), st.none() | st.integers(-(2**63), 2**63 - 1)),
    "float": (pa.float64(), st.none() | st.floats(allow_nan=False)),
    "bool": (pa.bool_(), st.none() | st.booleans()),
    "text": (pa.string(), st.none() | st.text(max_size=9)),
    "bytes": (pa.binary(), st.none() | st.binary(max_size=9)),
    "pad": (pa.binary(48), st.binary(min_size=48, max_size=48)),
    "colour": (COLOUR, st.none() | st.sampled_from(["red", "green", "blue"])),
    "list": (pa.list_(pa.int32()), st.none() | st.lists(st.integers(-9, 9), max_size=3)),
    "colours": (pa.list_(COLOUR), st.none() | st.lists(st.sampled_from(["red", "blue"]), max_size=3)),
    "struct": (pa.struct([("a", pa.int8()), ("b", pa.string())]), st.none() | st.just({"a": 1, "b": "x"})),
    "map": (pa.map_(pa.string(), pa.int64()), st.none() | st.just([("k", 1)])),
}


@st.composite
def batches(draw):
    """Batches of some columns, as a rule slices of longer ones."""
    names = draw(st.lists(st.sampled_from(sorted(COLUMNS)), min_size=1, max_size=4, unique=True))
    count = draw(st.integers(0, 40))
    arrays = [
        pa.array(draw(st.lists(values, min_size=count, max_size=count)), kind)
        for kind, values in (COLUMNS[name] for name in names)
    ]
    begin = draw(st.integers(0, count))
    return pa.record_batch(arrays, names=names).slice(begin, draw(st.integers(0, count - begin)))


def times_of(count, kind):
    newest = np.arange(count, dtype=np.int64)
    return [
        None,
        Times(newest),
        Times(newest, newest - 5),
        Span(7, 3).of_each(count),
        Times(np.full(count, NO_TIME)),
    ][kind]


@pytest.fixture
def place(tmp_path):
    return SharedPlace(str(tmp_path), 0)


@pytest.fixture
def any_size(monkeypatch):
    monkeypatch.setattr(shared_blocks, "SMALLEST_BYTES", 0)


def numbers(count=10_000, *, begin=0):
    schema = Schema(pa.schema([("n", pa.int64())]))
    return Tuples.of_batch(
        schema, pa.record_batch([pa.array(np.arange(begin, begin + count))], schema=schema.arrow)
    )


def names(folder):
    return [path.name for path in Path(folder).iterdir()]


def opened(schema, packed, reader=None):
    reader = reader or SharedReader()
    payload, times = packed
    return block.decode(schema, reader.open(payload), reader.open_times(times))


@settings(deadline=None, max_examples=deep(25), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.tuples(batches(), st.integers(0, 4)), min_size=1, max_size=4))
def test_by_reference_equals_by_value(place, any_size, sent):
    writer, reader = SharedWriter(place, "file"), SharedReader()
    runs = [Tuples.of_batch(Schema(batch.schema), batch, times_of(len(batch), kind)) for batch, kind in sent]
    packed = [writer.pack(run) for run in runs]
    writer.close()
    for run, one in zip(runs, packed, strict=True):
        assert isinstance(one[0], Reference)
        by_value = block.decode(run.schema, block.encode(run), block.encode_times(run))
        by_reference = opened(run.schema, one, reader)
        by_reference.batch.validate(full=True)
        assert by_reference.batch.equals(by_value.batch)
        assert by_reference.rows == run.rows
        if run.times is None:
            assert by_reference.times is None
        else:
            assert by_reference.times.newest.tolist() == run.times.newest.tolist()
            assert (by_reference.times.oldest is None) == (run.times.oldest is None)
            assert run.times.oldest is None or by_reference.times.oldest.tolist() == run.times.oldest.tolist()


def test_small_blocks_go_by_value_and_make_no_file(place):
    writer = SharedWriter(place, "file")
    assert not isinstance(writer.pack(numbers(100))[0], Reference)
    assert not isinstance(
        writer.pack(Tuples.of_batch(numbers().schema, numbers().batch.slice(5, 100)))[0], Reference
    )
    writer.close()
    assert names(place.folder) == []


def test_columns_are_mapped_not_copied(place):
    writer = SharedWriter(place, "file")
    packed = [writer.pack(numbers()), writer.pack(numbers(begin=5))]
    writer.close()
    reader = SharedReader()
    one, two = (opened(numbers().schema, each, reader) for each in packed)
    distance = two.batch.column(0).buffers()[1].address - one.batch.column(0).buffers()[1].address
    assert distance == packed[1][0].offset - packed[0][0].offset


def test_what_an_operator_keeps_outlives_the_file(place):
    writer = SharedWriter(place, "file")
    packed = writer.pack(numbers())
    writer.close()
    kept = opened(numbers().schema, packed).batch.slice(9_990)
    Path(packed[0].path).unlink()
    SharedWriter(place, "file").pack(numbers(begin=77))
    assert kept.column(0).to_pylist() == list(range(9_990, 10_000))


class FullFile:
    """A file whose disk is full in the middle of a block."""

    def __init__(self, file, limit):
        self._file, self._limit = file, limit
        self.closed = False

    def write(self, data):
        if self._file.tell() + memoryview(data).nbytes > self._limit:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return self._file.write(data)

    def __getattr__(self, name):
        return getattr(self._file, name)


def test_a_disk_that_is_full_in_the_middle_of_a_block_loses_nothing(place, monkeypatch):
    real = pa.OSFile
    monkeypatch.setattr(
        pa, "OSFile", lambda path, mode: pa.PythonFile(FullFile(real(path, mode), 200_000), "w")
    )
    writer = SharedWriter(place, "file")
    packed = [writer.pack(numbers()) for _ in range(4)]
    writer.close()
    assert [isinstance(payload, Reference) for payload, _ in packed] == [True, True, False, False]
    assert all(opened(numbers().schema, one).rows == numbers().rows for one in packed)


def test_a_folder_that_is_gone_is_no_hindrance(place, tmp_path):
    tmp_path.rmdir()
    packed = SharedWriter(place, "file").pack(numbers())
    assert opened(numbers().schema, packed).rows == numbers().rows


def test_a_failed_attempt_leaves_no_file(place):
    writer = SharedWriter(place, "file")
    writer.pack(numbers())
    assert names(place.folder) == ["file"]
    writer.discard()
    assert names(place.folder) == []


def test_lost_and_truncated_blocks_are_named(place):
    writer = SharedWriter(place, "file")
    payload, _ = writer.pack(numbers())
    writer.close()
    os.truncate(payload.path, 50_000)
    with pytest.raises(
        LostBlockError,
        match=rf"`{payload.path}` is truncated: it has 50000 bytes, the block ends at 80\d\d\d",
    ):
        SharedReader().open(payload)
    os.truncate(payload.path, 0)
    with pytest.raises(LostBlockError, match=rf"`{payload.path}` "):
        SharedReader().open(payload)
    Path(payload.path).unlink()
    with pytest.raises(LostBlockError, match=rf"`{payload.path}` cannot be opened: .*No such file"):
        SharedReader().open(payload)
