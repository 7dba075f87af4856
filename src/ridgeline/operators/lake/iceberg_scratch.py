"""Scratch tables of Iceberg: each is in the namespace of the user's table, and has files of its own."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from ridgeline.connect.scratch import SCRATCH, ScratchPlace
from ridgeline.operators._scratch import KEY, WHO, copied, divided, left_out, rows_of
from ridgeline.operators.lake.delta_scratch import LEFT_OUT
from ridgeline.operators.lake.iceberg import IcebergTable, explaining, pyiceberg

if TYPE_CHECKING:
    from ridgeline.operators.lake.iceberg_output import IcebergOutput


class ScratchTables:
    """The scratch tables of a namespace."""

    def __init__(self, output: IcebergOutput) -> None:
        self._namespace = output.table.rpartition(".")[0]
        self._named = IcebergTable(output.table, output.catalog, output.properties)

    def table(self, name: str) -> str:
        """The name of a table with its namespace."""
        return f"{self._namespace}.{name}"

    def has_namespace(self) -> bool:
        """Whether the namespace is there. Raises RidgelineError, SinkUnavailableError."""
        with self.catalog() as catalog:
            return bool(catalog.namespace_exists(self._namespace))

    def left(self) -> list[str]:
        """The names of all of them. Raises RidgelineError, SinkUnavailableError."""
        with self.catalog() as catalog:
            try:
                names = [found[-1] for found in catalog.list_tables(self._namespace)]
            except pyiceberg().exceptions.NoSuchNamespaceError:
                names = []
        return sorted(name for name in names if name.startswith(SCRATCH))

    def remove(self, names: Sequence[str], *, with_namespace: bool = False) -> None:
        """Remove those that are there with their files, and the namespace if nothing else is in it.

        Raises RidgelineError, SinkUnavailableError.
        """
        missing = pyiceberg().exceptions
        with self.catalog() as catalog:
            for name in names:
                with contextlib.suppress(missing.NoSuchTableError):
                    table = catalog.load_table(self.table(name))
                    catalog.drop_table(self.table(name))
                    _remove_files(table, name)
            if with_namespace:
                with contextlib.suppress(missing.NoSuchNamespaceError, missing.NamespaceNotEmptyError):
                    catalog.drop_namespace(self._namespace)

    @contextlib.contextmanager
    def catalog(self) -> Iterator[Any]:
        """The catalog; errors within are turned into those of sinks."""
        with explaining(WHO, self._named.place), contextlib.closing(self._named.catalog()) as catalog:
            yield catalog


def _remove_files(table: Any, name: str) -> None:
    """Remove the folder of a table that was dropped, if it bears the name of the table."""
    from pyiceberg.io.pyarrow import PyArrowFileIO

    location = table.location().rstrip("/")
    if not isinstance(table.io, PyArrowFileIO) or not location.rpartition("/")[2].startswith(name):
        return
    scheme, host, path = PyArrowFileIO.parse_location(location)
    with contextlib.suppress(FileNotFoundError):
        table.io.fs_by_scheme(scheme, host).delete_dir(path)


class IcebergScratch(ScratchPlace):
    """A table in the namespace of the user's. Its marks are in it."""

    why_no_relay = "it has a catalog and a store, each with an address of its own"

    def __init__(self, output: IcebergOutput, name: str) -> None:
        self._output, self._name = output, name
        self._tables = ScratchTables(output)
        self._makes_namespace = not self._tables.has_namespace()
        self.upserts = bool(output.key)
        self.notes = (
            f"written to a table of its own beside `{output.table}`",
            *left_out(output, LEFT_OUT),
            *divided(output),
        )

    def output(self, relay: int | None = None) -> IcebergOutput:
        """One that writes to the table."""
        changed = {"table": self._tables.table(self._name), "create": True, **LEFT_OUT}
        key = KEY if self.upserts else ()
        by = KEY if self._output.partition_by else ()
        made: IcebergOutput = copied(self._output, key=key, partition_by=by, **changed)
        return made

    def rows(self) -> Sequence[tuple[Any, ...]]:
        """The rows of the table's newest snapshot."""
        with self._tables.catalog() as catalog:
            try:
                return rows_of(catalog.load_table(self._tables.table(self._name)).scan().to_arrow())
            except pyiceberg().exceptions.NoSuchTableError:
                return []

    def remove(self) -> None:
        """Remove the table, and the namespace if it was not there before."""
        self._tables.remove([self._name], with_namespace=self._makes_namespace)
