"""Which files a replay reads, and where it is in them."""

from __future__ import annotations

import glob
import json
from collections.abc import Sequence
from pathlib import PurePosixPath
from typing import NamedTuple, Protocol

import pyarrow as pa
import pyarrow.fs

from ridgeline.api.errors import RidgelineError
from ridgeline.api.files import is_local, resolve

_WILDCARDS = frozenset("*?[")


class ReplayFile(NamedTuple):
    """One file: the `path` property's entry that led to it, its path in that entry's file system, and its bytes when it was found."""

    entry: str
    path: str
    bytes: int

    def open(self) -> pa.NativeFile:
        """The file for reading at any place. Raises RidgelineError if it is gone or may not be read."""
        try:
            return resolve(self.entry)[0].open_input_file(self.path)
        except OSError as error:
            message = (
                f"file `{self.path}` cannot be opened: {error}; "
                "it was there when the replay began: bring it back, or start on a fresh checkpoint"
            )
            raise RidgelineError(message) from error

    def check_size(self, found: int | None = None) -> None:
        """Raise RidgelineError if the file has another size than when it was found: every partition must read the same rows."""
        if found is None:
            found = resolve(self.entry)[0].get_file_info(self.path).size
        if found != self.bytes:
            message = (
                f"file `{self.path}` has {found or 'no'} bytes, it had {self.bytes} when the replay began; "
                "bring it back, or start on a fresh checkpoint"
            )
            raise RidgelineError(message)


class Position(NamedTuple):
    """Where the next row is: number of the file, place in it (a byte offset, or a row number for Parquet), and rows passed in all files."""

    file: int = 0
    place: int = 0
    row: int = 0


class Chunk(Protocol):
    """Some rows that come next in a file; not yet parsed."""

    def __len__(self) -> int: ...

    def read(self, first: int, step: int) -> pa.RecordBatch:
        """Every `step`-th row from row `first` on, in the schema of the replay.

        Raises RidgelineError naming file and line.
        """


class Reader(Protocol):
    """A file that is open at a place."""

    def peek(self, rows: int) -> Chunk:
        """The next rows, at most so many; empty at the end of the file."""

    def skip(self, rows: int) -> None:
        """Go on by rows that were peeked."""

    @property
    def place(self) -> int:
        """Where the next row is."""

    def passed(self) -> float:
        """How much of the file has been passed, in the file's bytes."""

    def close(self) -> None:
        """Close the file."""


def dump_files(files: Sequence[ReplayFile]) -> str:
    """As text, for the checkpoint."""
    return json.dumps(files)


def load_files(text: str) -> list[ReplayFile]:
    """The files in the text of `dump_files`."""
    return [ReplayFile(*entry) for entry in json.loads(text)]


def find_files(entries: Sequence[str]) -> list[ReplayFile]:
    """The files of all entries, in their order; those of one folder or pattern by name.

    Names that begin with a `.` or `_` are passed over in folders and patterns. Raises RidgelineError for an
    entry without any file.
    """
    return [found for entry in entries for found in _find(entry)]


def _find(entry: str) -> list[ReplayFile]:
    files, path = resolve(entry)
    kinds = pyarrow.fs.FileType
    try:
        info = files.get_file_info(path)
        if info.type == kinds.File:
            return [ReplayFile(entry, path, info.size)]
        if info.type == kinds.Directory:
            infos, what = files.get_file_info(pyarrow.fs.FileSelector(path)), "the folder has no files"
        elif _WILDCARDS & set(path):
            infos, what = _matches(files, path, local=is_local(entry)), "no file matches"
        else:
            infos, what = [], "there is no such file"
    except OSError as error:
        message = (
            f"`{entry}` cannot be read: {error}; let the user that runs it read there, or give another `path`"
        )
        raise RidgelineError(message) from error
    shown = [info for info in infos if info.type == kinds.File and not info.base_name.startswith((".", "_"))]
    found = [ReplayFile(entry, info.path, info.size) for info in shown]
    if not found:
        message = f"nothing to replay in `{entry}`: {what}; give the `path` of a file, a folder or a pattern such as `data/*.csv`"
        raise RidgelineError(message)
    return sorted(found, key=lambda file: file.path)


def _matches(files: pyarrow.fs.FileSystem, pattern: str, *, local: bool) -> list[pyarrow.fs.FileInfo]:
    if local:
        paths = glob.glob(pattern, recursive=True)  # noqa: PTH207  a pattern, not a path
        return list(files.get_file_info(paths)) if paths else []
    parts = PurePosixPath(pattern).parts
    plain = next(number for number, part in enumerate(parts) if _WILDCARDS & set(part))
    selector = pyarrow.fs.FileSelector(
        str(PurePosixPath(*parts[:plain])), recursive=plain < len(parts) - 1, allow_not_found=True
    )
    infos = files.get_file_info(selector)
    return [
        info
        for info in infos
        if len(PurePosixPath(info.path).parts) == len(parts) and PurePosixPath(info.path).match(pattern)
    ]
