"""Checkpoints on any file system that Spark can write, through Hadoop's FileSystem in the driver's JVM."""

from __future__ import annotations

import itertools
import uuid
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager
from typing import Any

from py4j.protocol import Py4JJavaError

from ridgeline.api.errors import CheckpointError
from ridgeline.api.support.masking import mask_text
from ridgeline.engine.files.storage import DriverStorage

_CONDITIONAL = "fs.option.create.conditional.overwrite"
"""Hadoop's option to create a file only if it does not exist. The store checks it; S3A from 3.4.2 on."""
_PERMISSIONS = "fs.capability.paths.permissions"
"""The guarantees of real file systems, such as HDFS, that object stores lack. Their renames are atomic."""
_REFUSED = ("RemoteFileChangedException", "FileAlreadyExistsException")
"""The errors of Hadoop where the condition did not hold."""
ONE_DRIVER = "spark.ridgeline.checkpoint.oneDriver"
"""The user's promise that no two drivers run on a folder, for file systems that could not keep them apart."""


_QUICK = {
    "fs.s3a.attempts.maximum": "1",
    "fs.s3a.connection.establish.timeout": "15s",
    "fs.s3a.connection.timeout": "15s",
    "fs.s3a.retry.interval": "250ms",
    "fs.s3a.retry.limit": "1",
}
"""Of S3A, unless the user sets them: it fails soon, since `PatientStorage` tries again, and says so.

By its own settings it would wait minutes after a cut network is fixed.
"""
_filesystems: dict[tuple[str, str], Any] = {}
"""Those with these settings, by Spark's application and by bucket."""


class HadoopStorage(DriverStorage):
    """A folder of a Hadoop file system, for the driver: journal, epochs, the plan.

    Workers reach the same folder through pyarrow.

    `create` asks an object store to write only if there is no such file, and renames without overwriting on a
    file system such as HDFS. Raises CheckpointError for a file system that can do neither.
    """

    def __init__(self, uri: str, context: Any) -> None:
        self.uri = uri.rstrip("/")
        jvm, configuration = context._jvm, context._jsc.hadoopConfiguration()  # noqa: SLF001  the only way to Hadoop
        self._jvm = jvm
        self._hadoop = jvm.org.apache.hadoop
        self._filesystem = _filesystem(self.uri, context)
        base = self._base = self._filesystem.makeQualified(self._hadoop.fs.Path(self.uri))
        self._conditional = bool(self._filesystem.hasPathCapability(base, _CONDITIONAL))
        self._files: Any = (
            None
            if self._conditional
            else self._hadoop.fs.FileContext.getFileContext(base.toUri(), configuration)
        )
        self._io = jvm.org.apache.commons.io.IOUtils
        self._no_overwrite = context._gateway.new_array(  # noqa: SLF001
            getattr(jvm, "org.apache.hadoop.fs.Options$Rename"), 0
        )
        renames = (
            bool(self._filesystem.hasPathCapability(base, _PERMISSIONS))
            or context.getConf().get(ONE_DRIVER, "") == "true"
        )
        if not (self._conditional or renames):
            what = "its file system cannot create a file only if there is none, so two drivers could commit "
            what += "the same window"
            found = f"{self._filesystem.getClass().getSimpleName()} without `{_CONDITIONAL}`"
            remedy = f"use HDFS, S3A of Hadoop 3.4.2 or newer, or promise by `--conf {ONE_DRIVER}=true` that "
            remedy += "never two drivers run on it"
            raise CheckpointError(
                f"checkpoint folder `{mask_text(self.uri)}`: {what}; found {found}; {remedy}"
            )

    def _path(self, name: str) -> Any:
        return self._hadoop.fs.Path(f"{self.uri}/{name}")

    def read(self, name: str) -> bytes:
        """The whole file."""
        with _translated(name), closing(self._filesystem.open(self._path(name))) as stream:
            return bytes(self._io.toByteArray(stream))

    def write(self, name: str, data: bytes) -> None:
        """Create or overwrite."""
        with _translated(name), closing(self._filesystem.create(self._path(name), True)) as stream:  # noqa: FBT003  Hadoop's
            stream.write(data)

    def create(self, name: str, data: bytes, *, settled: str = "") -> bool:
        """One request with a condition, or a hidden file that is renamed if there is none of that name."""
        return self._create_if_none(name, data) if self._conditional else self._rename_if_none(name, data)

    def _create_if_none(self, name: str, data: bytes) -> bool:
        """Create a file by the store's own check that there is none; False if there is one."""
        builder = self._filesystem.createFile(self._path(name))
        builder.overwrite(True)  # noqa: FBT003  the condition decides; Hadoop need not look beforehand
        builder.must(_CONDITIONAL, True)  # noqa: FBT003
        try:
            with closing(builder.build()) as stream:
                stream.write(data)
        except Py4JJavaError as error:
            kind = error.java_exception.getClass().getSimpleName()
            try:
                found = self.read(name)
            except FileNotFoundError:
                if kind in _REFUSED:  # there was one, which another driver has removed since
                    return False
                raise _as_os_error(error, name) from None
            return found == data and kind not in _REFUSED  # the answer may have been lost
        return True

    def _rename_if_none(self, name: str, data: bytes) -> bool:
        """Create a file by a rename that fails where there is one; False if there is one."""
        folder, _, last = name.rpartition("/")
        hidden = f"{folder}/.{last}.{uuid.uuid4().hex}".lstrip("/")
        self.write(hidden, data)
        try:
            with _translated(name):
                self._files.rename(self._path(hidden), self._path(name), self._no_overwrite)
        except OSError as error:
            self.delete([hidden])
            if isinstance(error, FileExistsError):
                return False
            raise
        return True

    def names(self, folder: str) -> list[str]:
        """Names of visible files."""
        try:
            with _translated(folder):
                found = self._filesystem.listStatus(self._path(folder))
        except FileNotFoundError:
            return []
        names = [status.getPath().getName() for status in found if status.isFile()]
        return sorted(name for name in names if not name.startswith("."))

    def delete(self, names: Iterable[str]) -> None:
        """As many at once as the file system takes; not being there is no error to Hadoop."""
        rest = iter(names)
        with _translated("delete"), closing(self._filesystem.createBulkDelete(self._base)) as bulk:
            size = bulk.pageSize()
            while some := list(itertools.islice(rest, size)):
                paths = self._jvm.java.util.ArrayList()
                for name in some:
                    paths.add(self._filesystem.makeQualified(self._path(name)))
                failed = bulk.bulkDelete(paths)
                if len(failed):
                    raise OSError(f"{some[0]}: {mask_text(str(failed[0].getValue()))}")


def _filesystem(uri: str, context: Any) -> Any:
    """Hadoop's file system of a folder; of S3A one that fails soon."""
    configuration = context._jsc.hadoopConfiguration()  # noqa: SLF001  the only way to Hadoop
    hadoop = context._jvm.org.apache.hadoop  # noqa: SLF001
    path = hadoop.fs.Path(uri)
    if not uri.startswith("s3a:"):
        return path.getFileSystem(configuration)
    key = str(context.applicationId), str(path.toUri().getAuthority())
    if key not in _filesystems:
        own = hadoop.conf.Configuration(configuration)
        for name, value in _QUICK.items():
            sources = own.getPropertySources(name)
            if sources is None or all(str(source).endswith("-default.xml") for source in sources):
                own.set(name, value)
        _filesystems[key] = hadoop.fs.FileSystem.newInstance(path.toUri(), own)
    return _filesystems[key]


@contextmanager
def _translated(name: str) -> Iterator[None]:
    """Raise Python's exceptions in place of Hadoop's. `name`: of the file."""
    try:
        yield
    except Py4JJavaError as error:
        raise _as_os_error(error, name) from None


def _as_os_error(error: Py4JJavaError, name: str) -> OSError:
    kind = error.java_exception.getClass().getSimpleName()
    text = f"{name}: {mask_text(str(error.java_exception.getMessage()))}"
    if kind == "FileNotFoundException":
        return FileNotFoundError(text)
    if kind == "FileAlreadyExistsException":
        return FileExistsError(text)
    return PermissionError(text) if kind == "AccessControlException" else OSError(f"{kind}: {text}")
