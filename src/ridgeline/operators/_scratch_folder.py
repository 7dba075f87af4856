"""Scratch folders of `FileOutput`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.json
import pyarrow.parquet as pq

from ridgeline.api.errors import RidgelineError
from ridgeline.connect.output_files import OutputFiles
from ridgeline.connect.scratch import SCRATCH, ScratchPlace
from ridgeline.connect.window_output import write_failure
from ridgeline.operators._scratch import COLUMNS, KEY, TYPES, copied, divided

if TYPE_CHECKING:
    from ridgeline.operators.file_output import FileOutput


class ScratchFolders:
    """The scratch folders beside the folder of an output, on the same file system.

    Raises RidgelineError for a folder that has none above it, such as a bucket.
    """

    def __init__(self, path: str) -> None:
        self._above, slash, name = path.rstrip("/").rpartition("/")
        self._files = OutputFiles(self._above or "/")
        if not slash or not name or self._above.endswith(("/", ":")):
            msg = (
                f"`{path}` is no folder within another one, so there is no room for a scratch folder beside "
            )
            msg += "it; set `path` to a folder in it"
            raise RidgelineError(msg)

    def uri(self, name: str) -> str:
        """The folder of a name."""
        return f"{self._above}/{name}"

    def left(self) -> list[str]:
        """The names of all of them."""
        return [name for name in self._files.names(self._files.root) if name.startswith(SCRATCH)]

    def remove(self, name: str) -> None:
        """Remove one, if it is there. Raises RidgelineError if the file system refuses."""
        try:
            self._files.remove_folder(f"{self._files.root}/{name}")
        except OSError as error:
            raise write_failure(name, self._above, error) from error


class ScratchFolder(ScratchPlace):
    """A folder beside the user's, with files of the same format."""

    why_no_relay = "a folder has no server to cut off"

    def __init__(self, output: FileOutput, name: str) -> None:
        self._output, self._name = output, name
        self._folders = ScratchFolders(str(output.path))
        self._uri = self._folders.uri(name)
        self.notes = divided(output)

    def output(self, relay: int | None = None) -> FileOutput:
        """One that writes to the folder."""
        by = [KEY] if self._output.partition_by else None
        made: FileOutput = copied(self._output, path=self._uri, partition_by=by, mode="append")
        return made

    def rows(self) -> Sequence[tuple[Any, ...]]:
        """The rows of all published files."""
        files = OutputFiles(self._uri)
        found: list[tuple[Any, ...]] = []
        for name in files.names(files.root):
            if name.startswith(f"{KEY}="):
                rows = self._rows_in(files, f"{files.root}/{name}")
                found += [(one, int(name.partition("=")[2]), *others) for one, *others in rows]
        return found + self._rows_in(files, files.root)

    def _rows_in(self, files: OutputFiles, folder: str) -> list[tuple[Any, ...]]:
        """The rows of a folder's published files, and of those in the folders that are merged."""
        found: list[tuple[Any, ...]] = []
        for name in files.names(folder):
            path = f"{folder}/{name}"
            if files.is_file(path):
                found += self._read(files, path, name)
            elif not name.startswith((".", f"{KEY}=")):
                for inner in files.names(path):
                    found += self._read(files, f"{path}/{inner}", inner)
        return found

    def _read(self, files: OutputFiles, path: str, name: str) -> list[tuple[Any, ...]]:
        """The rows of a published file; none of another one."""
        if name.startswith(".") or not name.endswith(self._output.format):
            return []
        with files.reading(path) as stream:
            if self._output.format == "parquet":
                table = pq.read_table(pa.BufferReader(stream.read()))
            else:
                options = pa.json.ParseOptions(explicit_schema=TYPES, newlines_in_values=False)
                table = pa.json.read_json(stream, parse_options=options)
        by = [KEY] if self._output.partition_by else []
        columns = [table.column(one).to_pylist() for one in COLUMNS if one not in by]
        return list(zip(*columns, strict=True))

    def remove(self) -> None:
        """Remove the folder."""
        self._folders.remove(self._name)
