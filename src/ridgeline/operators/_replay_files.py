"""The files of a replay, and positions in them."""

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
    """One file of a replay.

    `entry`: the entry of the property `path` that led to it. `path`: its path in that entry's file system.
    `bytes`: its size when it was found.
    """

    entry: str
    path: str
    bytes: int

    def open(self) -> pa.NativeFile:
        """Open the file for random access. Raises RidgelineError if it is gone or may not be read."""
        try:
            return resolve(self.entry)[0].open_input_file(self.path)
        except OSError as error:
            message = (
                f"file `{self.path}` cannot be opened: {error}; "
                "it was there when the replay began: bring it back, or start on a fresh checkpoint"
            )
            raise RidgelineError(message) from error

    def check_size(self, found: int | None = None) -> None:
        """Raise RidgelineError if the size has changed since the file was found.

        Every partition must read the same rows.
        """
        if found is None:
            found = resolve(self.entry)[0].get_file_info(self.path).size
        if found != self.bytes:
            message = (
                f"file `{self.path}` has {found or 'no'} bytes, it had {self.bytes} when the replay began; "
                "bring it back, or start on a fresh checkpoint"
            )
            raise RidgelineError(message)


class Position(NamedTuple):
    """Where the next row is.

    `file`: number of the file; `place`: byte offset in it, or row number for Parquet; `row`: rows passed in
    all files.
    """

    file: int = 0
    place: int = 0
    row: int = 0


class Chunk(Protocol):
    """The next rows of a file, not yet parsed."""

    def __len__(self) -> int: ...

    def read(self, first: int, step: int) -> pa.RecordBatch:
        """Parse every `step`-th row from row `first` on, in the schema of the replay.

        Raises RidgelineError that names file and line.
        """


class Reader(Protocol):
    """A file that is open at a position."""

    def peek(self, rows: int) -> Chunk:
        """Return the next rows, at most `rows`; empty at the end of the file."""

    def skip(self, rows: int) -> None:
        """Pass rows that `peek` returned."""

    @property
    def place(self) -> int:
        """The place of the next row, as in `Position`."""

    def passed(self) -> float:
        """The part of the file that has been passed, in the file's bytes."""

    def close(self) -> None:
        """Close the file."""


def dump_files(files: Sequence[ReplayFile]) -> str:
    """Encode the files as text for the checkpoint."""
    return json.dumps(files)


def load_files(text: str) -> list[ReplayFile]:
    """Decode the text of `dump_files`."""
    return [ReplayFile(*entry) for entry in json.loads(text)]


def find_files(entries: Sequence[str]) -> list[ReplayFile]:
    """Find the files of all entries, in the entries' order; those of one folder or pattern by name.

    Names that begin with `.` or `_` are ignored in folders and patterns. Raises RidgelineError for an entry
    without any file.
    """
    return [found for entry in entries for found in _find(entry)]


def _find(entry: str) -> list[ReplayFile]:
    """The files of one entry: a file, a folder or a pattern. Raises RidgelineError if there is none."""
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
        message = (
            f"nothing to replay in `{entry}`: {what}; "
            "give the `path` of a file, a folder or a pattern such as `data/*.csv`"
        )
        raise RidgelineError(message)
    return sorted(found, key=lambda file: file.path)


def _matches(files: pyarrow.fs.FileSystem, pattern: str, *, local: bool) -> list[pyarrow.fs.FileInfo]:
    """The files that match a pattern. `**` stands for any depth on local disks only."""
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
