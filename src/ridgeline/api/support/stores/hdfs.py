"""HDFS by pyarrow and `libhdfs`: one connection per cluster and process, which stays open."""

from __future__ import annotations

import errno
import os
import threading
from collections.abc import Callable, Sequence
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit, urlunsplit

import pyarrow as pa
import pyarrow.fs

SCHEMES = frozenset({"hdfs", "viewfs"})
_OWN = "fs.hdfs.impl.disable.cache=true&fs.viewfs.impl.disable.cache=true"
_open: dict[str, pyarrow.fs.FileSystem] = {}
_lock = threading.Lock()


def hdfs(uri: str) -> tuple[pyarrow.fs.FileSystem, str]:
    """Return the file system of a URI such as `hdfs://host:8020/in?user=shop`, and the path in it.

    An open file of pyarrow does not keep its file system open: that is closed once it is garbage. So there is
    one for each cluster and user, kept until the process ends. It is a client of its own (`disable.cache`),
    which no other code of the process can close.
    Raises OSError, ValueError or pyarrow.ArrowException if it cannot be reached.
    """
    parts = urlsplit(uri)
    query = f"{parts.query}&{_OWN}" if parts.query else _OWN
    place = urlunsplit((parts.scheme, parts.netloc, "/", query, ""))
    with _lock:
        if place not in _open:
            if parts.netloc:
                files, _ = pyarrow.fs.FileSystem.from_uri(place)
            else:  # the cluster of `core-site.xml`, which pyarrow does not take from a URI
                files = pyarrow.fs.HadoopFileSystem("default", 0, extra_conf=dict(parse_qsl(query)))
            _open[place] = pyarrow.fs.PyFileSystem(HdfsFiles(files))
        return _open[place], unquote(parts.path) or "/"


class HdfsFiles(pyarrow.fs.FileSystemHandler):
    """pyarrow's HDFS, with FileNotFoundError where `libhdfs` calls a missing file an input/output error."""

    def __init__(self, files: pyarrow.fs.FileSystem) -> None:
        self._files = files

    def __eq__(self, other: object) -> bool:
        return isinstance(other, HdfsFiles) and self._files == other._files

    __hash__ = None  # type: ignore[assignment]

    def get_type_name(self) -> str:
        """The name of the kind of file system."""
        return "hdfs"

    def normalize_path(self, path: str) -> str:
        """The path as it is."""
        return path

    def get_file_info(self, paths: Sequence[str]) -> list[pyarrow.fs.FileInfo]:
        """Kind, size and time of the files at these paths."""
        return list(self._files.get_file_info(list(paths)))

    def get_file_info_selector(self, selector: pyarrow.fs.FileSelector) -> list[pyarrow.fs.FileInfo]:
        """The files and folders in a folder."""
        return list(self._files.get_file_info(selector))

    def create_dir(self, path: str, recursive: bool) -> None:  # noqa: FBT001  pyarrow's
        """Make a folder, unless it is there."""
        self._files.create_dir(path, recursive=recursive)

    def delete_dir(self, path: str) -> None:
        """Delete a folder with all that is in it. Raises FileNotFoundError."""
        self._files.delete_dir(path)

    def delete_dir_contents(self, path: str, missing_dir_ok: bool = False) -> None:  # noqa: FBT001, FBT002
        """Delete all that is in a folder."""
        self._files.delete_dir_contents(path, missing_dir_ok=missing_dir_ok)

    def delete_root_dir_contents(self) -> None:
        """Refuse: it would delete all files of the cluster. Raises PermissionError."""
        raise PermissionError(errno.EPERM, "all files of an HDFS are not deleted")

    def delete_file(self, path: str) -> None:
        """Delete a file. Raises FileNotFoundError."""
        self._on(path, lambda: self._files.delete_file(path))

    def move(self, src: str, dest: str) -> None:
        """Rename a file; one that is there is replaced. Raises FileNotFoundError."""
        self._on(src, lambda: self._files.move(src, dest))

    def copy_file(self, src: str, dest: str) -> None:
        """Copy a file. Raises FileNotFoundError."""
        self._on(src, lambda: self._files.copy_file(src, dest))

    def open_input_stream(self, path: str) -> pa.NativeFile:
        """Open a file to read it from its beginning. Raises FileNotFoundError."""
        return self._files.open_input_stream(path, compression=None)

    def open_input_file(self, path: str) -> pa.NativeFile:
        """Open a file to read it at any place. Raises FileNotFoundError."""
        return self._files.open_input_file(path)

    def open_output_stream(self, path: str, metadata: Any) -> pa.NativeFile:
        """Make a file, or replace it."""
        return self._files.open_output_stream(path, compression=None, metadata=metadata)

    def open_append_stream(self, path: str, metadata: Any) -> pa.NativeFile:
        """Open a file to write at its end."""
        return self._files.open_append_stream(path, compression=None, metadata=metadata)

    def _on(self, path: str, do: Callable[[], None]) -> None:
        """Do something with a file. If that fails and the file is missing, raises FileNotFoundError."""
        try:
            do()
        except OSError as error:
            if self._files.get_file_info(path).type is not pyarrow.fs.FileType.NotFound:
                raise
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path) from error
