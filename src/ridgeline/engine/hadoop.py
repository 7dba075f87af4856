"""Checkpoints on any file system that Spark can write, through Hadoop's FileSystem in the driver's JVM."""

from __future__ import annotations

import uuid
from collections.abc import Iterable
from typing import Any

from py4j.protocol import Py4JJavaError

from ridgeline.api.masking import mask_text
from ridgeline.engine.storage import DriverStorage


class HadoopStorage(DriverStorage):
    """A folder of a Hadoop file system, for the driver: manifests, epochs, the plan. Workers reach the same folder through pyarrow.

    `create` renames a hidden file without overwriting, which HDFS does atomically. Object stores do as well as their connector's rename:
    there the epoch that every commit checks keeps two drivers apart (docs/guarantees.md).
    """

    def __init__(self, uri: str, context: Any) -> None:
        self.uri = uri.rstrip("/")
        jvm, configuration = context._jvm, context._jsc.hadoopConfiguration()  # noqa: SLF001  the only way to Hadoop
        self._hadoop = jvm.org.apache.hadoop
        self._filesystem = self._hadoop.fs.Path(self.uri).getFileSystem(configuration)
        base = self._filesystem.makeQualified(self._hadoop.fs.Path(self.uri))
        self._files = self._hadoop.fs.FileContext.getFileContext(base.toUri(), configuration)
        self._io = jvm.org.apache.commons.io.IOUtils
        self._no_overwrite = context._gateway.new_array(getattr(jvm, "org.apache.hadoop.fs.Options$Rename"), 0)  # noqa: SLF001

    def _path(self, name: str) -> Any:
        return self._hadoop.fs.Path(f"{self.uri}/{name}")

    def read(self, name: str) -> bytes:
        """The whole file."""
        try:
            stream = self._filesystem.open(self._path(name))
            try:
                return bytes(self._io.toByteArray(stream))
            finally:
                stream.close()
        except Py4JJavaError as error:
            raise _translated(error, name) from None

    def write(self, name: str, data: bytes) -> None:
        """Create or overwrite."""
        try:
            stream = self._filesystem.create(self._path(name), True)  # noqa: FBT003  Hadoop's
            try:
                stream.write(data)
            finally:
                stream.close()
        except Py4JJavaError as error:
            raise _translated(error, name) from None

    def create(self, name: str, data: bytes, *, settled: str = "") -> bool:
        """A hidden file, renamed if there is none of that name."""
        folder, _, last = name.rpartition("/")
        hidden = f"{folder}/.{last}.{uuid.uuid4().hex}".lstrip("/")
        self.write(hidden, data)
        try:
            self._files.rename(self._path(hidden), self._path(name), self._no_overwrite)
        except Py4JJavaError as error:
            self.delete([hidden])
            translated = _translated(error, name)
            if isinstance(translated, FileExistsError):
                return False
            raise translated from None
        return True

    def names(self, folder: str) -> list[str]:
        """Names of visible files."""
        try:
            found = self._filesystem.listStatus(self._path(folder))
        except Py4JJavaError as error:
            translated = _translated(error, folder)
            if isinstance(translated, FileNotFoundError):
                return []
            raise translated from None
        names = [status.getPath().getName() for status in found if status.isFile()]
        return sorted(name for name in names if not name.startswith("."))

    def delete(self, names: Iterable[str]) -> None:
        """Delete each; not being there is no error to Hadoop."""
        for name in names:
            try:
                self._filesystem.delete(self._path(name), False)  # noqa: FBT003  Hadoop's
            except Py4JJavaError as error:
                raise _translated(error, name) from None


def _translated(error: Py4JJavaError, name: str) -> OSError:
    """Hadoop's exception as Python's."""
    kind = error.java_exception.getClass().getSimpleName()
    text = f"{name}: {mask_text(str(error.java_exception.getMessage()))}"
    if kind == "FileNotFoundException":
        return FileNotFoundError(text)
    if kind == "FileAlreadyExistsException":
        return FileExistsError(text)
    return PermissionError(text) if kind == "AccessControlException" else OSError(f"{kind}: {text}")
