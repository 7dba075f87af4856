"""Scratch tables of Delta: each is a folder beside the user's table, in the same store."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import pyarrow as pa
import pyarrow.fs

from ridgeline.api.errors import RidgelineError
from ridgeline.api.support.files import is_local
from ridgeline.connect.scratch import SCRATCH, ScratchPlace, Server
from ridgeline.connect.secrets import secret_value
from ridgeline.operators._scratch import KEY, POISON, TYPES, WHO, copied, divided, left_out, rows_of
from ridgeline.operators.lake.storage import Store, deltalake, explaining, place

if TYPE_CHECKING:
    from ridgeline.operators.lake.delta_output import DeltaOutput

LEFT_OUT = {"overwrite": False, "delete": None}
"""Properties of outputs to lakes that name columns of the user's."""


class ScratchTables:
    """The scratch tables beside a table.

    Raises RidgelineError for a table in no folder, such as one that is a whole bucket.
    """

    def __init__(self, output: DeltaOutput) -> None:
        self._store = Store(str(output.path), output.storage)
        uri = self._store.uri.rstrip("/")
        self._above, _, name = uri.rpartition("/")
        if not name or self._above.endswith("/"):
            msg = f"`{uri}` lies in no folder, so there is no room for a scratch table beside it; "
            raise RidgelineError(msg + "set `path` to a folder in it")

    def uri(self, name: str) -> str:
        """The table of a name."""
        return f"{self._above}/{name}"

    def left(self) -> list[str]:
        """The names of all of them. Raises RidgelineError, SinkUnavailableError."""
        with explaining(WHO, place("Delta", self._above)):
            found = self._files().get_file_info(pa.fs.FileSelector(self._root, allow_not_found=True))
        names = (str(one.base_name) for one in found)
        return sorted(name for name in names if name.startswith(SCRATCH))

    def remove(self, names: Sequence[str]) -> None:
        """Remove those that are there. Raises RidgelineError, SinkUnavailableError."""
        for name in names:
            path = f"{self._root}/{name}" if self._root else name
            with explaining(WHO, place("Delta", self.uri(name))):
                self._remove(path)

    def _remove(self, path: str) -> None:
        """Remove a folder: file by file where a store has no folders."""
        files = self._files()
        if self._is_local:
            if files.get_file_info(path).type == pa.fs.FileType.Directory:
                files.delete_dir(path)
            return
        selector = pa.fs.FileSelector(path, allow_not_found=True, recursive=True)
        for one in files.get_file_info(selector):
            if one.is_file:
                files.delete_file(one.path)

    @property
    def _is_local(self) -> bool:
        return is_local(self._store.uri)

    @property
    def _root(self) -> str:
        """The folder above in its file system."""
        return self._above if self._is_local else ""

    def _files(self) -> pa.fs.FileSystem:
        if self._is_local:
            return pa.fs.LocalFileSystem()
        deltalake()
        from deltalake.fs import DeltaStorageHandler

        return pa.fs.PyFileSystem(DeltaStorageHandler(self._above, self._store.options()))


class DeltaScratch(ScratchPlace):
    """A table beside the user's. Its marks are in it."""

    def __init__(self, output: DeltaOutput, name: str) -> None:
        self._output, self._name = output, name
        self._tables = ScratchTables(output)
        self._uri = self._tables.uri(name)
        self.upserts = bool(output.key)
        self.server, self.why_no_relay = _address(output)
        self.notes = (
            f"written to a table of its own beside `{output.path}`",
            *left_out(output, LEFT_OUT),
            *divided(output),
        )

    def output(self, relay: int | None = None) -> DeltaOutput:
        """One that writes to the table."""
        storage = dict(self._output.storage)
        if relay is not None:
            storage[_endpoint(self._output) or ""] = f"http://127.0.0.1:{relay}"
        changed = {"path": self._uri, "storage": storage, "create": True, **LEFT_OUT}
        key = KEY if self.upserts else ()
        by = KEY if self._output.partition_by else ()
        made: DeltaOutput = copied(self._output, key=key, partition_by=by, **changed)
        return made

    def rows(self) -> Sequence[tuple[Any, ...]]:
        """The rows of the table's newest version."""
        try:
            return rows_of(self._loaded().to_pyarrow_table())
        except deltalake().exceptions.TableNotFoundError:
            return []

    def _loaded(self) -> Any:
        return Store(self._uri, self._output.storage).load()

    def poison(self) -> tuple[Any, ...]:
        """A row that the table refuses, made with a constraint for it if it is not there."""
        library = deltalake()
        try:
            table = self._loaded()
        except library.exceptions.TableNotFoundError:
            options = Store(self._uri, self._output.storage).options()
            schema = library.Schema.from_arrow(TYPES)
            by = [KEY] if self._output.partition_by else None
            table = library.DeltaTable.create(
                self._uri, schema=schema, partition_by=by, storage_options=options
            )
            table.alter.add_constraint({"small": f"value < {int(POISON[3])}"})
        return POISON

    def remove(self) -> None:
        """Remove the folder."""
        self._tables.remove([self._name])


def _endpoint(output: DeltaOutput) -> str | None:
    """The option that has the address of the store."""
    return next((name for name in output.storage if "endpoint" in name.lower()), None)


def _address(output: DeltaOutput) -> tuple[Server | None, str]:
    """The store's address, if a relay can stand in between; else why not."""
    if is_local(str(output.path)):
        return None, "a folder has no server to cut off"
    name = _endpoint(output)
    parts = urlsplit(secret_value(output.storage[name], f"storage.{name}") if name else "")
    if parts.scheme != "http" or not parts.hostname:
        return None, "a relay stands before stores whose endpoint is given, and without TLS"
    return Server(parts.hostname, parts.port or 80), ""
