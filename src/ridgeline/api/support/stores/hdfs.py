"""HDFS by pyarrow and `libhdfs`: one connection per cluster and process, which stays open."""

from __future__ import annotations

import ctypes
import errno
import os
import re
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import parse_qsl, unquote, urlsplit, urlunsplit

import pyarrow as pa
import pyarrow.fs

from ridgeline.api.errors import RidgelineError
from ridgeline.api.support.masking import mask_text
from ridgeline.api.support.stores.delegating import DelegatingFiles

SCHEMES = frozenset({"hdfs", "viewfs"})
_OWN = "fs.hdfs.impl.disable.cache=true&fs.viewfs.impl.disable.cache=true"
_open: dict[str, pyarrow.fs.FileSystem] = {}
_lock = threading.Lock()
_Result = TypeVar("_Result")
_WITHOUT_NUMBER = 255
"""The error number of `libhdfs` for all exceptions of Java that it has none for: most are of the network."""
_NO_TICKET = re.compile(
    r"SIMPLE authentication is not enabled|Client cannot authenticate via|Failed to find any Kerberos tgt"
    r"|[Tt]icket expired|credentials have been revoked"
)
_library: list[Any] = []
"""The `libhdfs` of this process, once it was looked for; None if it does not say what Java has said."""


def hdfs(uri: str) -> tuple[pyarrow.fs.FileSystem, str]:
    """Return the file system of a URI such as `hdfs://host:8020/in?user=shop`, and the path in it.

    An open file of pyarrow does not keep its file system open: that is closed once it is garbage. So there is
    one for each cluster and user, kept until the process ends. It is a client of its own (`disable.cache`),
    which no other code of the process can close.
    Raises OSError, ValueError or pyarrow.ArrowException if it cannot be reached.
    """
    _leave_signals()
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


def _leave_signals() -> None:
    """Let the Java machine of this process leave Ctrl-C and SIGTERM to Python: by itself it ends at them."""
    given = os.environ.get("LIBHDFS_OPTS", "")
    if "-Xrs" not in given.split():
        os.environ["LIBHDFS_OPTS"] = f"{given} -Xrs".strip()


class HdfsFiles(DelegatingFiles):
    """pyarrow's HDFS, with errors that say what Java has said.

    `libhdfs` calls a missing file an input/output error, and most other errors have one number. So `said`
    asks for the exception, by which it is known that a name node is away, for example.
    """

    kind = "hdfs"

    def done(self, do: Callable[[], _Result]) -> _Result:
        """Do something with the files. Raises as `said`."""
        return said(do)

    def opened(self, mode: str, do: Callable[[], pa.NativeFile]) -> pa.NativeFile:
        """Open a file whose errors say what Java has said."""
        return pa.PythonFile(_Stream(said(do)), mode=mode)

    def get_file_info(self, paths: Sequence[str]) -> list[pyarrow.fs.FileInfo]:
        """Kind, size and time of the files at these paths. Raises OSError if HDFS is away.

        pyarrow takes each failure for a missing file. Then the root is missing, too, and to list it raises
        what has failed. Once HDFS has answered the paths are asked for again: it may have come back only now.
        """
        found = super().get_file_info(paths)
        if not any(map(_is_missing, found)):
            return found
        if any(map(_is_missing, super().get_file_info(["/"]))):
            super().get_file_info_selector(pyarrow.fs.FileSelector("/"))
        return super().get_file_info(paths)

    def get_file_info_selector(self, selector: pyarrow.fs.FileSelector) -> list[pyarrow.fs.FileInfo]:
        """List a folder; nothing if it is missing and may be. Raises FileNotFoundError else."""
        try:
            found: list[pyarrow.fs.FileInfo] = super().get_file_info_selector(selector)
        except FileNotFoundError:
            if not selector.allow_not_found:
                raise
            return []
        return found

    def delete_file(self, path: str) -> None:
        """Delete a file. Raises FileNotFoundError."""
        self._on(path, lambda: self.files.delete_file(path))

    def move(self, src: str, dest: str) -> None:
        """Rename a file; one that is there is replaced. Raises FileNotFoundError."""
        self._on(src, lambda: self.files.move(src, dest))

    def copy_file(self, src: str, dest: str) -> None:
        """Copy a file. Raises FileNotFoundError."""
        self._on(src, lambda: self.files.copy_file(src, dest))

    def _on(self, path: str, do: Callable[[], None]) -> None:
        """Do something with a file. If that fails and the file is missing, raises FileNotFoundError."""
        try:
            said(do)
        except OSError as error:
            if not any(map(_is_missing, self.get_file_info([path]))):
                raise
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path) from error


def _is_missing(info: pyarrow.fs.FileInfo) -> bool:
    return bool(info.type == pyarrow.fs.FileType.NotFound)


class _Stream:
    """An open file, whose errors say what Java has said."""

    def __init__(self, file: pa.NativeFile) -> None:
        self._file = file

    def __getattr__(self, name: str) -> Any:
        """What the file has; a method raises as `said`."""
        found = getattr(self._file, name)
        return (lambda *given: said(lambda: found(*given))) if callable(found) else found


def said(do: Callable[[], _Result]) -> _Result:
    """Do something with HDFS. An error without a number of its own says what Java has said, as OSError.

    Its text begins with the name of Java's exception, as that of errors of Hadoop in the driver does. Raises
    RidgelineError where HDFS wants to know the user by Kerberos, and there is no ticket.
    """
    try:
        return do()
    except OSError as error:
        if error.errno not in (_WITHOUT_NUMBER, errno.EROFS, errno.EACCES):
            raise
        cause = mask_text(_last_cause())
        if _NO_TICKET.search(cause):
            remedy = "get a ticket with `kinit`, or set `KRB5PRINCIPAL` and `KRB5KEYTAB`, on all hosts"
            raise RidgelineError(
                f"HDFS asks for a user by Kerberos, and there is no valid ticket: {cause}; {remedy}"
            ) from error
        if (
            not cause
            or error.errno == errno.EACCES
            or (error.errno == errno.EROFS and "SafeMode" not in cause)
        ):
            raise
        raise OSError(f"{cause} ({error.strerror or error})") from error


def _last_cause() -> str:
    """The last exception of Java in this thread, as "ConnectException: Connection refused"; "" if unknown."""
    if not _library:
        _library.append(_found_library())
    if _library[0] is None:
        return ""
    text = _library[0].hdfsGetLastExceptionRootCause()
    return text.decode(errors="replace").strip() if text else ""


def _found_library() -> Any:
    """The `libhdfs` that pyarrow has loaded, as it is asked; None if there is none that can be."""
    try:
        lines = Path("/proc/self/maps").read_text().splitlines()
    except OSError:
        return None
    for path in {line.split(maxsplit=5)[5] for line in lines if "libhdfs" in line}:
        library = ctypes.CDLL(path)
        if hasattr(library, "hdfsGetLastExceptionRootCause"):
            library.hdfsGetLastExceptionRootCause.restype = ctypes.c_char_p
            return library
    return None
