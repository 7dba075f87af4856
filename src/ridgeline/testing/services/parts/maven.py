"""Jars and archives by Maven, kept in the cache folder."""

import os
import shutil
import tarfile
import tempfile
import uuid
import zlib
from abc import abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from ridgeline.testing.services.parts.part import Part, Unavailable, cache_folder, failed


class Download(Part):
    """Files that Maven brings into a folder of the cache."""

    @property
    @abstractmethod
    def what(self) -> str:
        """The name of the files, for people."""

    @property
    @abstractmethod
    def folder(self) -> Path:
        """Where the files are, or will be."""

    @abstractmethod
    def _bring(self, maven: str, folder: Path) -> None:
        """Bring the files into a folder. Raises Unavailable."""

    def missing(self) -> str | None:
        """None if the files are in the cache folder, or can be downloaded when they are first used."""
        if self.folder.is_dir() or shutil.which("mvn"):
            return None
        return f"{self.what}: not in {self.folder}, and there is no `mvn` on the PATH"

    def install(self) -> None:
        """Download the files, if they are not there. Two processes may do it at once."""
        if self.folder.is_dir():
            return
        maven = shutil.which("mvn")
        if maven is None:
            raise Unavailable(self.missing())
        with _made_whole(self.folder) as hidden:
            self._bring(maven, hidden)


class Jars(Download):
    """The jars that a `pom.xml` asks for, with all that these need.

    Args:
        pom: its file. The jars are resolved once for each content of it.
    """

    def __init__(self, pom: Path) -> None:
        self._pom = pom

    @property
    def what(self) -> str:
        """The name of its file."""
        return f"the jars of `{self._pom.name}`"

    @property
    def folder(self) -> Path:
        """Where the jars are, or will be."""
        return cache_folder() / f"{self._pom.stem}-{zlib.crc32(self._pom.read_bytes()):08x}"

    @property
    def paths(self) -> list[Path]:
        """The jars, in the order of their names; downloaded now if they are not there. Raises Unavailable."""
        self.install()
        return sorted(self.folder.glob("*.jar"))

    @property
    def class_path(self) -> str:
        """The jars as one class path, for `java -cp`."""
        return os.pathsep.join(map(str, self.paths))

    def _bring(self, maven: str, folder: Path) -> None:
        goal = ["-f", str(self._pom), "dependency:copy-dependencies", "-DincludeScope=runtime"]
        _maven(maven, [*goal, f"-DoutputDirectory={folder}"], self.what)


class Archive(Download):
    """The files of an archive (tar.gz) that is an artifact of Maven.

    Args:
        artifact: `group:artifact:version:tar.gz:classifier`.
    """

    def __init__(self, artifact: str) -> None:
        self._artifact = artifact
        _, name, version, _, classifier = artifact.split(":")
        self._name = f"{name}-{version}-{classifier}"

    @property
    def what(self) -> str:
        """The artifact."""
        return f"`{self._artifact}`"

    @property
    def folder(self) -> Path:
        """Where the files are, or will be."""
        return cache_folder() / self._name

    def file(self, pattern: str) -> Path:
        """The file whose name fits the pattern; downloaded now if it is not there. Raises Unavailable."""
        self.install()
        return next(self.folder.rglob(pattern))

    def _bring(self, maven: str, folder: Path) -> None:
        goal = ["dependency:copy", f"-Dartifact={self._artifact}", "-Dmdep.useBaseVersion=true"]
        _maven(maven, [*goal, f"-DoutputDirectory={folder}"], self.what)
        for packed in folder.glob("*.tar.gz"):
            with tarfile.open(packed) as archive:
                archive.extractall(folder, filter="data")
            packed.unlink()


@contextmanager
def _made_whole(folder: Path) -> Iterator[Path]:
    """A folder to fill, which is then renamed: an interrupted process leaves none that looks whole."""
    hidden = folder.with_name(f".{folder.name}-{uuid.uuid4().hex}")
    hidden.mkdir(parents=True)
    try:
        yield hidden
        if not folder.is_dir():
            hidden.rename(folder)
    except OSError:
        if not folder.is_dir():  # else another process was faster
            raise
    finally:
        shutil.rmtree(hidden, ignore_errors=True)


def _maven(maven: str, goal: Sequence[str], what: str) -> None:
    """Run Maven, away from all projects. Raises Unavailable, with what it printed."""
    printed = failed([maven, "-q", "-B", *goal], cwd=tempfile.gettempdir())
    if printed is not None:
        raise Unavailable(f"Maven could not get {what}: {printed[:500]}")
