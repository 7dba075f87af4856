"""What an input holds back is restored as it was, whichever of its versions a restart begins with."""

from typing import Any

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from ridgeline.engine.state.held import Chunk, HeldCell

WINDOWS = st.lists(st.tuples(st.integers(0, 9), st.lists(st.integers(1, 4), max_size=2)), max_size=12)


def held(cell: HeldCell) -> list[int]:
    waiting = [value for chunk in cell for value in chunk.batch.column(0).to_pylist()]
    return waiting[len(waiting) - cell.rows :]


@given(WINDOWS)
def test_what_waits_is_restored_as_it_was(windows: list[tuple[int, list[int]]]) -> None:
    """Against a list. A version begins anew where nothing waits, as container states let it."""
    waiting: list[int] = []
    version: list[Any] = []
    cell, number = HeldCell(), 0
    for window, (goes, come) in enumerate(windows):
        cell.begin(window)
        for _ in range(min(goes, len(waiting))):
            cell.go(1)
            waiting.pop(0)
        for rows in come:
            values = range(number, number + rows)
            number += rows
            cell.keep(Chunk("output", pa.record_batch({"value": [*values]}), None))
            waiting += values
        if (change := cell.changes()) is not None:
            version = [change] if cell.snapshot() == (None,) else [*version, change]
        restored, compacted = HeldCell(), HeldCell()
        for one in version:
            restored.apply(one)
        compacted.apply(cell.snapshot())
        assert held(restored) == held(compacted) == held(cell) == waiting
