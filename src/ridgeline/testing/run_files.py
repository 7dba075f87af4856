"""A run of another process, as files in a folder: one side of a comparison of two versions."""

from __future__ import annotations

import json
import pickle
from pathlib import Path

from ridgeline.testing.captured import Captured, Port
from ridgeline.testing.matching import Row

_INDEX, _ROWS = "index.json", "rows"


def write_side(captured: Captured, folder: Path) -> None:
    """Write what a run has captured, for `Side` of another process. Raises OSError."""
    places: list[tuple[str, str, int, int, int, int]] = []
    with (folder / _ROWS).open("wb") as file:
        for port in captured.ports:
            for window in captured.windows:
                rows = captured.compared(port, window)
                if rows:
                    offset = file.tell()
                    file.write(pickle.dumps(rows, 5))
                    places.append((*port, window, offset, file.tell() - offset, len(rows)))
    index = {
        "ports": captured.ports,
        "ordered": sorted(captured.ordered),
        "upstream": captured.upstream,
        "inputs": sorted(captured.inputs),
        "windows": captured.windows,
        "places": places,
    }
    (folder / _INDEX).write_text(json.dumps(index))


class Side:
    """The files of `write_side` in `folder`, which only the user may write to: rows are unpickled.

    Rows of a window are read when they are asked for. Raises OSError.
    """

    def __init__(self, folder: Path) -> None:
        index = json.loads((folder / _INDEX).read_text())
        self.ports = [Port(*port) for port in index["ports"]]
        self.ordered = {Port(*port) for port in index["ordered"]}
        self.upstream = {name: [Port(*port) for port in ports] for name, ports in index["upstream"].items()}
        self.inputs = set[str](index["inputs"])
        self.windows: list[int] = index["windows"]
        self._places = {
            (Port(operator, port), window): (offset, size, count)
            for operator, port, window, offset, size, count in index["places"]
        }
        self._rows = folder / _ROWS

    def of_window(self, port: Port, window: int) -> bytes:
        """The rows of a port in a window, pickled; empty for none."""
        offset, size, _ = self._places.get((port, window), (0, 0, 0))
        with self._rows.open("rb") as file:
            file.seek(offset)
            return file.read(size)

    def count(self, port: Port, window: int) -> int:
        """How many rows these are."""
        return self._places.get((port, window), (0, 0, 0))[2]

    def compared(self, port: Port, window: int) -> list[Row]:
        """The rows of a port in a window."""
        pickled = self.of_window(port, window)
        rows: list[Row] = pickle.loads(pickled) if pickled else []
        return rows
