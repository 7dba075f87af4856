"""Paths and URIs as pyarrow file systems: the local disk, `file:`, `s3:`/`s3a:`, `hdfs:`, `gs:`, `abfs:`."""

from __future__ import annotations

import os
from urllib.parse import unquote, urlsplit

import pyarrow.fs

from ridgeline.api.errors import RidgelineError
from ridgeline.api.masking import mask_text

_ALIASES = {"s3a": "s3", "s3n": "s3"}


def is_local(uri: str) -> bool:
    """True for a plain path or a `file:` URI."""
    scheme = urlsplit(uri).scheme
    return len(scheme) <= 1 or scheme == "file"  # one letter: a Windows drive


def local_path(uri: str) -> str:
    """The absolute path of a plain path or `file:` URI."""
    path = unquote(urlsplit(uri).path) if uri.startswith("file:") else uri
    return os.path.abspath(os.path.expanduser(path))  # noqa: PTH100, PTH111  plain strings here


def resolve(uri: str) -> tuple[pyarrow.fs.FileSystem, str]:
    """The file system of a path or URI, and the path in it. Raises RidgelineError if pyarrow cannot reach it."""
    if is_local(uri):
        return pyarrow.fs.LocalFileSystem(), local_path(uri)
    scheme = urlsplit(uri).scheme
    try:
        filesystem, path = pyarrow.fs.FileSystem.from_uri(_ALIASES.get(scheme, scheme) + uri[len(scheme) :])
    except (OSError, ValueError, pyarrow.ArrowException) as error:
        remedy = "give a path, or a URI such as `file:`, `s3a:` or `hdfs:` whose client libraries are installed"
        msg = f"`{mask_text(uri)}` cannot be reached: {mask_text(str(error))}; {remedy}"
        raise RidgelineError(msg) from error
    return filesystem, path
