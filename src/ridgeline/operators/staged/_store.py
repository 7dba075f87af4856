"""Rows that wait in the checkpoint until the windows that read them are committed."""

from __future__ import annotations

import uuid
from collections.abc import Iterator

import pyarrow as pa

from ridgeline.api.errors import RidgelineError
from ridgeline.connect.output_files import OutputFiles

_MEMORY: dict[str, pa.Table] = {}
"""The segments of runs in process whose checkpoint is in memory, by path."""
_NAME = "{:015d}-{:09d}.rows"


class RowStore:
    """Segments of rows in a folder; a segment's name says its first row and how many it has."""

    def __init__(self, folder: str) -> None:
        """Raises RidgelineError if the folder cannot be reached."""
        self.folder = folder
        self._in_memory = folder.startswith("memory:")
        self._files = None if self._in_memory else OutputFiles(folder)
        self._known: list[str] = []

    @staticmethod
    def new(parent: str) -> RowStore:
        """A store in a new folder."""
        store = RowStore(f"{parent}/{uuid.uuid4().hex}")
        if store._files is not None:
            store._files.make_folder(store._files.root)
            store._files.sync_above(store._files.root)
        return store

    def add(self, first: int, rows: pa.Table) -> None:
        """Write rows, of which the first has this number. They survive a power cut. Raises OSError."""
        name = _NAME.format(first, rows.num_rows)
        if self._files is None:
            _MEMORY[f"{self.folder}/{name}"] = rows
            return
        with (
            self._files.writing(f"{self._files.root}/{name}") as out,
            pa.ipc.new_stream(out, rows.schema) as writer,
        ):
            writer.write_table(rows)
        self._files.sync(self._files.root)

    def read(self, first: int, end: int) -> Iterator[pa.Table]:
        """The rows from number `first` up to, and without, `end`. Raises RidgelineError if some are gone."""
        if not any(_span(name)[0] <= first < _span(name)[1] for name in self._known):
            self._known = self._names()
        for name in self._known:
            begin, over = _span(name)
            if begin <= first < over and first < end:
                rows = self._load(name).slice(first - begin, end - first)
                yield rows
                first += rows.num_rows
        if first < end:
            self._known = self._names()
            if any(_span(name)[0] <= first < _span(name)[1] for name in self._known):
                yield from self.read(first, end)
                return
            msg = f"`{self.folder}` has no row {first}, though the driver has written it; "
            msg += "the checkpoint must be in a folder that all hosts share"
            raise RidgelineError(msg)

    def after(self, first: int) -> Iterator[pa.Table]:
        """All rows from number `first` on."""
        self._known = self._names()
        end = max((_span(name)[1] for name in self._known), default=first)
        yield from self.read(first, end) if end > first else ()

    def drop(self, before: int) -> None:
        """Delete segments of which all rows come before a number. Raises OSError."""
        for name in self._names():
            if _span(name)[1] <= before:
                self._delete(name)

    def remove(self) -> None:
        """Delete the folder with all that is in it. Raises OSError."""
        for name in self._names():
            self._delete(name)
        if self._files is not None:
            self._files.remove_folder(self._files.root)

    def _names(self) -> list[str]:
        if self._files is None:
            start = f"{self.folder}/"
            return sorted(path.removeprefix(start) for path in list(_MEMORY) if path.startswith(start))
        return [name for name in self._files.names(self._files.root) if name.endswith(".rows")]

    def _load(self, name: str) -> pa.Table:
        if self._files is None:
            return _MEMORY[f"{self.folder}/{name}"]
        return pa.ipc.open_stream(self._files.read(f"{self._files.root}/{name}")).read_all()

    def _delete(self, name: str) -> None:
        if self._files is None:
            _MEMORY.pop(f"{self.folder}/{name}", None)
        else:
            self._files.delete(f"{self._files.root}/{name}")


def _span(name: str) -> tuple[int, int]:
    """The first row of a segment, and the first one after it."""
    first, _, count = name.removesuffix(".rows").partition("-")
    return int(first), int(first) + int(count)
