"""The store of a checkpoint (SeaweedFS) is away while an output writes and reads its segments."""

from __future__ import annotations

import random
import threading
from collections.abc import Sequence
from dataclasses import replace
from typing import Any
from urllib.parse import urlsplit

import pyarrow as pa
import pytest

from ridgeline.api.clock import SystemClock
from ridgeline.api.errors import RidgelineError
from ridgeline.api.support.files import is_unavailable, waiting_for_store
from ridgeline.connect.output_files import Segment, SegmentStore, Written
from ridgeline.connect.sink import Batch, Mark, Sink, SinkContext, SinkUnavailableError
from ridgeline.connect.sink_publisher import SinkPublisher
from support.engine.driven import publisher_context
from support.waiting import PATIENCE_SECONDS

pytestmark = pytest.mark.slow

ROWS = pa.table({"n": list(range(1000))})


def test_a_segment_is_written_once_its_store_is_there_again(seaweedfs: Any) -> None:
    segments = SegmentStore(seaweedfs.uri(seaweedfs.bucket()), "run")
    written: list[Written] = []
    seaweedfs.cut()
    writing = threading.Thread(
        target=lambda: written.append(
            waiting_for_store(lambda: segments.write("table/w0.segment", ROWS, ROWS.schema), SystemClock())
        ),
        daemon=True,
    )
    writing.start()
    writing.join(1.0)
    assert writing.is_alive()
    seaweedfs.mend()
    writing.join(PATIENCE_SECONDS)
    segment = Segment(0, 0, "table/w0.segment", len(ROWS), *written[0])
    seaweedfs.cut()
    with pytest.raises(OSError, match="AWS Error") as raised:
        segments.read(segment)
    assert is_unavailable(raised.value)
    seaweedfs.mend()
    assert segments.read(segment)[0] == ROWS


class Away(Sink):
    """A place that is not reached either."""

    protocol = "idempotent"

    def place(self) -> str:
        return "a place"

    def open(self, context: SinkContext) -> None:
        raise SinkUnavailableError("no route to it")

    def write(self, batches: Sequence[Batch], mark: Mark) -> None:
        raise AssertionError

    def close(self) -> None:
        """Nothing is open."""


def test_small_segments_stay_in_the_commit_until_the_store_is_there_again(seaweedfs: Any) -> None:
    staging = seaweedfs.uri(seaweedfs.bucket())
    segments = SegmentStore(staging, "run")
    publisher = SinkPublisher(Away(), 1 << 30, 0.0)
    context = publisher_context("out", SystemClock())
    publisher.open(replace(context, staging=staging), None)

    def in_the_commit(window: int) -> list[bool]:
        row = pa.table({"n": [random.randbytes(70_000)]})
        written = segments.write(f"out/w{window}.segment", row, row.schema, 100_000)
        state = publisher.stage(window, [(0, f"out/w{window}.segment", 1, *written)])
        publisher.committing()
        publisher.publish(window)
        return [bool(Segment(*one).data) for one in state["waiting"]]

    try:
        seaweedfs.cut()
        assert in_the_commit(0) == [True]
        seaweedfs.mend()
        assert in_the_commit(1) == [False, False]
    finally:
        publisher.abandon()


def test_the_error_of_an_output_shows_no_key_of_its_store(seaweedfs: Any) -> None:
    staging = seaweedfs.uri(seaweedfs.bucket())
    secret = urlsplit(staging).password
    publisher = SinkPublisher(Away(), 1 << 30, 0.0)
    seaweedfs.cut()
    with pytest.raises(RidgelineError, match="`out` cannot write to `s3://") as raised:
        publisher.open(replace(publisher_context("out", SystemClock()), staging=staging), None)
    assert secret
    assert secret not in str(raised.value)
