"""What services need installed: programs of the system, wheels, jars."""

import os
import shutil
import subprocess
import sysconfig
import tempfile
import uuid
import zlib
from pathlib import Path

_FOLDERS = ("usr/sbin", "usr/local/sbin", "usr/local/bin", "opt/homebrew/bin")


class Unavailable(RuntimeError):  # noqa: N818 - the reason is what it says
    """A part that cannot be had here, with the reason."""


def cache_folder() -> Path:
    """Where downloads are kept: `RIDGELINE_SERVICES`, or a folder of the user's cache."""
    if given := os.environ.get("RIDGELINE_SERVICES"):
        return Path(given)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache", "ridgeline", "services")


class Program:
    """A program of the system.

    Args:
        name: of the program.
        package: of Debian, which has it.
        folders: patterns of folders that have it beside those of the PATH; the last in order comes first.
    """

    _remedy = "apt-get install"

    def __init__(self, name: str, package: str, *folders: str) -> None:
        self._name, self.package, self._folders = name, package, (*folders, *_FOLDERS)

    def find(self) -> str | None:
        """The path of the program, or None."""
        for pattern in self._folders:
            for folder in sorted(Path("/").glob(pattern), key=_by_numbers, reverse=True):
                if os.access(folder / self._name, os.X_OK):
                    return str(folder / self._name)
        return shutil.which(self._name)

    @property
    def path(self) -> str:
        """The path of the program. Raises Unavailable if it is not there."""
        if (found := self.find()) is None:
            raise Unavailable(self.missing())
        return found

    def missing(self) -> str | None:
        """None if the program is there."""
        return None if self.find() else f"there is no `{self._name}`; remedy: {self._remedy} {self.package}"


class Wheel(Program):
    """A program that comes as a wheel, into the folder of this environment's programs."""

    _remedy = "pip install"

    def find(self) -> str | None:
        """The path of the program, in this environment or on the PATH, or None."""
        return shutil.which(self._name, path=sysconfig.get_path("scripts")) or shutil.which(self._name)


class Jars:
    """The jars that a `pom.xml` asks for, with all that these need, by Maven into the cache folder.

    Args:
        pom: its file. The jars are resolved once for each content of it.
    """

    def __init__(self, pom: Path) -> None:
        self.what = f"the jars of `{pom.name}`"
        self._name = f"{pom.stem}-{zlib.crc32(pom.read_bytes()):08x}"
        self._goal = ["-f", str(pom), "dependency:copy-dependencies", "-DincludeScope=runtime"]

    @property
    def folder(self) -> Path:
        """Where the files are, or will be."""
        return cache_folder() / self._name

    def missing(self) -> str | None:
        """None if the files are in the cache folder, or can be downloaded when they are first used."""
        if self.folder.is_dir() or shutil.which("mvn"):
            return None
        return f"{self.what} are not in {self.folder}, and there is no `mvn`; remedy: apt-get install maven"

    def install(self) -> None:
        """Download the files, if they are not there. Two processes may do it at once."""
        if self.folder.is_dir():
            return
        if reason := self.missing():
            raise Unavailable(reason)
        # A folder that is then renamed: an interrupted process leaves none that looks whole.
        hidden = self.folder.with_name(f".{self.folder.name}-{uuid.uuid4().hex}")
        hidden.mkdir(parents=True)
        try:
            command = ["mvn", "-q", "-B", *self._goal, f"-DoutputDirectory={hidden}"]
            # Away from all projects.
            ran = subprocess.run(  # noqa: S603 - fixed
                command, cwd=tempfile.gettempdir(), capture_output=True, text=True, check=False
            )
            if ran.returncode:
                raise Unavailable(f"Maven could not get {self.what}: {(ran.stdout + ran.stderr)[-500:]}")
            self._unpack(hidden)
            if not self.folder.is_dir():
                hidden.rename(self.folder)
        except OSError:
            if not self.folder.is_dir():  # else another process was faster
                raise
        finally:
            shutil.rmtree(hidden, ignore_errors=True)

    def _unpack(self, folder: Path) -> None:
        """What is done with the files before they count."""

    @property
    def paths(self) -> list[Path]:
        """The jars, in the order of their names; downloaded now if they are not there. Raises Unavailable."""
        self.install()
        return sorted(self.folder.glob("*.jar"))

    @property
    def class_path(self) -> str:
        """The jars as one class path, for `java -cp`."""
        return os.pathsep.join(map(str, self.paths))


def _by_numbers(folder: Path) -> list[int | str]:
    return [int(part) if part.isdigit() else part for part in folder.parts]


Part = Program | Jars
"""One thing that a service needs: it is there, or is installed."""
