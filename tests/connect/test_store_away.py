"""The store of a checkpoint (moto) is away while an output writes and reads its segments."""

from __future__ import annotations

import threading
from typing import Any

import pyarrow as pa
import pytest

from ridgeline.api.clock import SystemClock
from ridgeline.api.support.files import is_unavailable, waiting_for_store
from ridgeline.connect.segment_store import Segment, SegmentStore, Written
from support.waiting import PATIENCE_SECONDS

pytestmark = pytest.mark.slow

ROWS = pa.table({"n": list(range(1000))})


def test_a_segment_is_written_once_its_store_is_there_again(moto: Any) -> None:
    segments = SegmentStore(moto.uri(moto.bucket()), "run")
    written: list[Written] = []
    moto.cut()
    writing = threading.Thread(
        target=lambda: written.append(
            waiting_for_store(lambda: segments.write("table/w0.segment", ROWS, ROWS.schema), SystemClock())
        ),
        daemon=True,
    )
    writing.start()
    writing.join(1.0)
    assert writing.is_alive()
    moto.mend()
    writing.join(PATIENCE_SECONDS)
    segment = Segment(0, 0, "table/w0.segment", len(ROWS), *written[0])
    moto.cut()
    with pytest.raises(OSError, match="AWS Error") as raised:
        segments.read(segment)
    assert is_unavailable(raised.value)
    moto.mend()
    assert segments.read(segment)[0] == ROWS
