"""A file system of pyarrow around another one, for stores that need more than pyarrow gives."""

from __future__ import annotations

import errno
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import pyarrow as pa
import pyarrow.fs

_Result = TypeVar("_Result")


class DelegatingFiles(pyarrow.fs.FileSystemHandler):
    """Passes everything on to `files`. A subclass overrides what it does otherwise."""

    kind = ""

    def __init__(self, files: pyarrow.fs.FileSystem) -> None:
        self.files = files

    def __eq__(self, other: object) -> bool:
        return isinstance(other, type(self)) and self.files == other.files

    __hash__ = None  # type: ignore[assignment]

    def done(self, do: Callable[[], _Result]) -> _Result:
        """Do something with the files."""
        return do()

    def opened(self, mode: str, do: Callable[[], pa.NativeFile]) -> pa.NativeFile:
        """Open a file for reading ("r") or writing ("w")."""
        return self.done(do)

    def get_type_name(self) -> str:
        """The name of the kind of file system."""
        return self.kind

    def normalize_path(self, path: str) -> str:
        """The path as it is."""
        return path

    def get_file_info(self, paths: Sequence[str]) -> list[pyarrow.fs.FileInfo]:
        """Kind, size and time of the files at these paths."""
        return self.done(lambda: list(self.files.get_file_info(list(paths))))

    def get_file_info_selector(self, selector: pyarrow.fs.FileSelector) -> list[pyarrow.fs.FileInfo]:
        """The files and folders in a folder."""
        return self.done(lambda: list(self.files.get_file_info(selector)))

    def create_dir(self, path: str, recursive: bool) -> None:  # noqa: FBT001  pyarrow's
        """Make a folder, unless it is there."""
        self.done(lambda: self.files.create_dir(path, recursive=recursive))

    def delete_dir(self, path: str) -> None:
        """Delete a folder with all that is in it. Raises FileNotFoundError."""
        self.done(lambda: self.files.delete_dir(path))

    def delete_dir_contents(self, path: str, missing_dir_ok: bool = False) -> None:  # noqa: FBT001, FBT002
        """Delete all that is in a folder."""
        self.done(lambda: self.files.delete_dir_contents(path, missing_dir_ok=missing_dir_ok))

    def delete_root_dir_contents(self) -> None:
        """Refuse: it would delete all files of the store. Raises PermissionError."""
        raise PermissionError(errno.EPERM, f"all files of {self.kind} are not deleted")

    def delete_file(self, path: str) -> None:
        """Delete a file. Raises FileNotFoundError."""
        self.done(lambda: self.files.delete_file(path))

    def move(self, src: str, dest: str) -> None:
        """Rename a file; one that is there is replaced. Raises FileNotFoundError."""
        self.done(lambda: self.files.move(src, dest))

    def copy_file(self, src: str, dest: str) -> None:
        """Copy a file. Raises FileNotFoundError."""
        self.done(lambda: self.files.copy_file(src, dest))

    def open_input_stream(self, path: str) -> pa.NativeFile:
        """Open a file to read it from its beginning. Raises FileNotFoundError."""
        return self.opened("r", lambda: self.files.open_input_file(path))

    def open_input_file(self, path: str) -> pa.NativeFile:
        """Open a file to read it at any place. Raises FileNotFoundError."""
        return self.opened("r", lambda: self.files.open_input_file(path))

    def open_output_stream(self, path: str, metadata: Any) -> pa.NativeFile:
        """Make a file, or replace it."""
        return self.opened(
            "w", lambda: self.files.open_output_stream(path, compression=None, metadata=metadata)
        )

    def open_append_stream(self, path: str, metadata: Any) -> pa.NativeFile:
        """Open a file to write at its end."""
        return self.opened(
            "w", lambda: self.files.open_append_stream(path, compression=None, metadata=metadata)
        )
