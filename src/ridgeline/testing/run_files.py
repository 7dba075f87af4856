"""A run of another process, as files in a folder: one side of a comparison of two versions."""

from __future__ import annotations

import json
import pickle
from collections.abc import Iterator, Mapping
from pathlib import Path

import pyarrow as pa

from ridgeline.api.columns.schema import Schema
from ridgeline.api.errors import RidgelineError
from ridgeline.testing.captured import Captured, Port
from ridgeline.testing.list_input import END_WINDOW
from ridgeline.testing.matching import Row

_INDEX, _ROWS, _FED, _TUPLES = "index.json", "rows", "fed.json", "tuples"


def write_side(captured: Captured, folder: Path, fed: Mapping[str, str] | None = None) -> None:
    """Write what a run has captured, for `Side` of another process. Raises OSError.

    `fed`: by the name of each input operator that a list has replaced, its own output port. The list's has
    another name.
    """
    own = fed or {}

    def named(port: Port) -> Port:
        return Port(port.operator, own.get(port.operator, port.port))

    places: list[tuple[str, str, int, int, int, int]] = []
    with (folder / _ROWS).open("wb") as file:
        for port in captured.ports:
            for window in captured.windows:
                rows = captured.compared(port, window)
                if rows:
                    offset = file.tell()
                    file.write(pickle.dumps(rows, 5))
                    places.append((*named(port), window, offset, file.tell() - offset, len(rows)))
    index = {
        "ports": [named(port) for port in captured.ports],
        "ordered": sorted(map(named, captured.ordered)),
        "upstream": {name: [named(port) for port in ports] for name, ports in captured.upstream.items()},
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


def write_fed(captured: Captured, folder: Path, *, ended: bool) -> None:
    """Write what the input operators of a run have emitted, for `Fed`. `ended`: all of them have finished.

    Raises OSError.
    """
    places: list[tuple[str, int, int, int]] = []
    ports = [port for port in captured.ports if port.operator in captured.inputs]
    with (folder / _TUPLES).open("wb") as file:
        for port in ports:
            for window in captured.windows:
                batches = captured.of_window(port, window)
                if batches:
                    offset = file.tell()
                    with pa.ipc.new_stream(file, batches[0].schema) as stream:
                        for batch in batches:
                            stream.write_batch(batch)
                    places.append((port.operator, window, offset, file.tell() - offset))
    index = {"inputs": sorted(captured.inputs), "windows": captured.windows, "ended": ended, "places": places}
    (folder / _FED).write_text(json.dumps(index))


class Fed:
    """The files of `write_fed` in `folder`, which only the user may write to. Raises OSError."""

    def __init__(self, folder: Path) -> None:
        index = json.loads((folder / _FED).read_text())
        self.inputs: list[str] = index["inputs"]
        self.windows: list[int] = index["windows"]
        self.ended: bool = index["ended"]
        self._places = {(name, window): (offset, size) for name, window, offset, size in index["places"]}
        self._tuples = folder / _TUPLES

    def lists(self, schemas: Mapping[str, Schema]) -> dict[str, list[object]]:
        """The tuples of each input operator, as `run_local(inputs=)` takes them, by these schemas.

        Raises RidgelineError if the tuples of one do not fit.
        """
        return {name: list(self._items(name, schema)) for name, schema in schemas.items()}

    def _items(self, name: str, schema: Schema) -> Iterator[object]:
        """The tuples of one input, with a mark between windows; `lists` calls it."""
        for number, window in enumerate(self.windows):
            if number:
                yield END_WINDOW
            offset, size = self._places.get((name, window), (0, 0))
            if not size:
                continue
            with self._tuples.open("rb") as file:
                file.seek(offset)
                table = pa.ipc.open_stream(file.read(size))
                if not table.schema.equals(schema.arrow):
                    msg = f"the input `{name}` emits other columns than in the version before, so what that "
                    msg += "has emitted cannot be fed to it; compare without `--state`"
                    raise RidgelineError(msg)
                for batch in table:
                    yield from schema.decode(batch)
        if not self.ended:
            yield END_WINDOW  # more would come: it has not finished
            yield END_WINDOW
