"""Durable queues on an object store: an S3 that answers as S3 does (SeaweedFS)."""

import math
import time
import uuid
from random import Random
from types import SimpleNamespace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ridgeline import RidgelineError
from ridgeline.api.clock import SystemClock
from ridgeline.api.support.files import resolve, use_s3
from ridgeline.operators import QueueInput, _queue_enumerator, _queue_log
from ridgeline.operators._queue_files import Entry, ObjectFolder, Part, folder_of
from ridgeline.operators._queue_log import LogReader, LogWriter
from ridgeline.testing import run_local
from support import services
from support.depth import deep
from support.operators.queues import (
    check_both_sides,
    check_reading_while_it_is_written,
    orders,
    read_all,
    reader,
    writer,
)
from support.services.fixtures import ready


@pytest.fixture(scope="module")
def server():
    """An S3 that `s3a:` leads to."""
    store = ready(services.seaweedfs)
    use_s3(
        {
            "access_key": store.KEY,
            "secret_key": store.SECRET,
            "endpoint_override": store.direct_endpoint.removeprefix("http://"),
            "scheme": "http",
            "region": store.REGION,
            "allow_bucket_creation": True,
        }
    )
    try:
        resolve("s3a://rows")[0].create_dir("rows")
        yield store
    finally:
        use_s3({})


@pytest.fixture
def path(server):
    return f"s3a://rows/{uuid.uuid4().hex}"


def names(path, folder):
    return folder_of(path).names(folder)


@settings(max_examples=deep(3), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(seed=st.integers(0, 2**32))
def test_stops_kills_and_other_partitions_on_both_sides(tmp_path, path, seed):
    name = uuid.uuid4().hex
    check_both_sides(f"{path}/{name}", tmp_path / name, Random(seed))


def test_a_reader_takes_what_comes_while_it_runs(tmp_path, path):
    check_reading_while_it_is_written(path, tmp_path)


@pytest.fixture
def small_bundles(monkeypatch):
    monkeypatch.setattr(_queue_log, "BUNDLE_ENTRIES", 8)


def test_entries_without_their_bundle_are_read_and_strays_go(tmp_path, path, small_bundles):
    rows = orders(30)
    app = writer(path, rows)
    run_local(app, checkpoint=tmp_path / "writer", windows=20)
    folder = folder_of(path)
    folder.put("log/000000000003.entry", b"half an en")  # of a driver that has died before it was removed
    folder.put("segments/p0-stray.segment", b"rows")
    run_local(app, checkpoint=tmp_path / "writer")

    assert "000000000003.entry" not in names(path, "log")
    assert "p0-stray.segment" not in names(path, "segments")
    assert sorted(read_all(path, tmp_path / "reader")) == sorted(rows)


def test_a_damaged_object_is_named(tmp_path, path):
    run_local(writer(path, orders(2)))
    name = names(path, "segments")[0]
    folder_of(path).put(f"segments/{name}", b"rows")

    with pytest.raises(RidgelineError, match=f"`{path}/segments/{name}` is damaged: it has 4 bytes"):
        read_all(path, tmp_path / "reader")


def test_no_queue_there(path):
    with pytest.raises(RidgelineError, match=r"there is no queue in .*; start the application that writes"):
        run_local(reader(path))


def part(number):
    return Part(0, f"p0-{number}.segment", 0, 10, 1, 0)


def test_where_objects_are_written_in_pieces_a_reader_waits_for_the_whole(tmp_path, small_bundles):
    """As on HDFS, where a file is seen while it is written: those of a folder are the same."""
    folder = ObjectFolder(str(tmp_path))
    folder.make()
    entries = [Entry(number, number, 0.0, number, (part(number),), end=False) for number in range(30)]
    log, found = LogReader(folder, 0), []
    folder.put("log/000000000000.entry", b"[0,0,0.0,0,[[0,")

    assert log.read() == []
    writing = LogWriter(folder)
    assert writing.next == 0
    for entry in entries:
        writing.append([entry], 2**30, 3600.0)
    again = LogWriter(ObjectFolder(str(tmp_path)))
    while len(found) < len(entries):
        found += log.read()
    folder.pool.shutdown()

    assert found == entries
    assert (again.next, again.total) == (30, 29)
    assert [int(name[:12]) for name in folder.names("log") if name.endswith(".jsonl")] == [0, 8, 16]
    assert not list(tmp_path.glob("*.tmp"))


class EndlessLog:
    def __init__(self, _folder, first):
        self.next = first

    def read(self):
        time.sleep(0.001)
        self.next += 1
        return [Entry(self.next - 1, 0, 0.0, self.next, (part(self.next),), end=False)]


def test_a_reader_that_catches_up_says_how_far_it_is(tmp_path, monkeypatch):
    monkeypatch.setattr(ObjectFolder, "look_seconds", 0.01)
    monkeypatch.setattr(_queue_enumerator, "folder_of", ObjectFolder)
    monkeypatch.setattr(_queue_enumerator, "LogReader", EndlessLog)
    operator = QueueInput(path=tmp_path, when_missing="wait")
    here: dict[str, object] = {
        "application": "board",
        "operator": "queue",
        "run_id": "1",
        "clock": SystemClock(),
    }
    context = SimpleNamespace(**here, wake=lambda: None, budget=lambda: math.inf, warn=print)
    queue, offset, deadline = _queue_enumerator.QueueEnumerator(operator), None, time.monotonic() + 20
    queue.open(context, None)
    try:
        while ObjectFolder(str(tmp_path)).registered("board.queue-1").next == 0:
            assert time.monotonic() < deadline
            offset = queue.advance(1, offset)
            queue.committed(1, offset)
            time.sleep(0.01)
    finally:
        queue.close()
