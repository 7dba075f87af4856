"""Jars by Maven, kept in the cache folder."""

import os
import shutil
import subprocess
import uuid
import zlib
from pathlib import Path

from ridgeline.testing.services.parts.part import Part, Unavailable, cache_folder

_SECONDS = 540


class Jars(Part):
    """The jars that a `pom.xml` asks for, with all that these need.

    Args:
        pom: its file. The jars are resolved once for each content of it.
    """

    def __init__(self, pom: Path) -> None:
        self._pom = pom

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

    def missing(self) -> str | None:
        """None if the jars are in the cache folder, or can be downloaded into it when they are first used."""
        if self.folder.is_dir() or shutil.which("mvn"):
            return None
        return f"the jars of `{self._pom.name}` are not in {self.folder}, and there is no `mvn` on the PATH"

    def install(self) -> None:
        """Download the jars by `mvn`, if they are not there. Two processes may do it at once."""
        if self.folder.is_dir():
            return
        maven = shutil.which("mvn")
        if maven is None:
            raise Unavailable(self.missing())
        # Beside the folder, then renamed: an interrupted process leaves nothing that looks whole.
        hidden = self.folder.with_name(f".{self.folder.name}-{uuid.uuid4().hex}")
        hidden.mkdir(parents=True)
        goal = ["dependency:copy-dependencies", f"-DoutputDirectory={hidden}", "-DincludeScope=runtime"]
        command = [maven, "-q", "-B", "-f", str(self._pom), *goal]
        try:
            ran = subprocess.run(  # noqa: S603 - fixed
                command, capture_output=True, text=True, check=False, timeout=_SECONDS
            )
            if ran.returncode:
                printed = (ran.stdout + ran.stderr)[:500]
                message = f"Maven could not resolve the jars of `{self._pom.name}`: {printed}"
                raise Unavailable(message)
            if not self.folder.is_dir():
                hidden.rename(self.folder)
        except OSError:
            if not self.folder.is_dir():  # else another process was faster
                raise
        finally:
            shutil.rmtree(hidden, ignore_errors=True)
