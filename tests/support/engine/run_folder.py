"""Runs in a dictionary of files, for tests: what a compactor and a worker do with them."""

import pickle
from typing import Any

from ridgeline.api.state import KeyedCell
from ridgeline.engine.state.keyed_segments import Segment, Segments, SegmentsChange, compact


class RunFolder:
    def __init__(self) -> None:
        self.files: dict[str, bytes] = {}
        self.written: list[str] = []

    def write(self, pieces) -> str:
        name = f"segment{len(self.written)}"
        self.written.append(name)
        self.files[name] = b"".join(pieces(name))
        return name

    def open(self, names) -> Segments:
        return Segments([Segment(self.files[name], f"memory:/state/{name}") for name in names])

    def apply(self, cell: KeyedCell[Any], change: Any) -> None:
        if isinstance(change, SegmentsChange):
            cell.attach(self.open(change.names), change.application_window, change.changed)
        else:
            cell.apply(change)

    def compacted(self, cell: KeyedCell[Any]) -> Any:
        """What stands in the snapshot file: as it is read from there."""
        return pickle.loads(pickle.dumps(compact(cell, self.write) or cell.snapshot()))

    def reattach(self, cell: KeyedCell[Any]) -> SegmentsChange:
        """Compact a cell and go on from the files."""
        change = self.compacted(cell)
        assert isinstance(change, SegmentsChange)
        cell.reset()
        self.apply(cell, change)
        for name in self.files.keys() - set(change.names):
            del self.files[name]
        return change
