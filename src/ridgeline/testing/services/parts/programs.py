"""Programs of the system, by Debian's packages or by what is there, and modules of Python."""

import importlib.util
import os
import shutil
import sys
import sysconfig
from abc import abstractmethod
from collections.abc import Sequence
from pathlib import Path

from ridgeline.testing.services.parts.part import Part, Unavailable, failed


class Executable(Part):
    """A program."""

    @abstractmethod
    def find(self) -> str | None:
        """The path of the program, or None."""

    @property
    def path(self) -> str:
        """The path of the program. Raises Unavailable if it is not there."""
        if (found := self.find()) is None:
            raise Unavailable(self.missing())
        return found


class PipInstalled(Part):
    """A part that pip installs.

    Args:
        name: of the program or module.
        requirement: for pip.
    """

    def __init__(self, name: str, requirement: str) -> None:
        self._name = name
        self._requirement = requirement

    def install(self) -> None:
        """Install it by pip, into this environment, if it is not there."""
        if self.missing() is None:
            return
        command = [sys.executable, "-m", "pip", "install", "--quiet", self._requirement]
        if (printed := failed(command)) is not None:
            raise Unavailable(f"pip could not install `{self._requirement}`: {printed[-500:]}")
        importlib.invalidate_caches()


class Program(Executable):
    """A program of the system.

    Args:
        name: of the program.
        package: of Debian, which has it.
        folders: patterns of folders that have it beside those of the PATH; the last in order comes first.
    """

    def __init__(self, name: str, package: str, *folders: str) -> None:
        self._name = name
        self._package = package
        self._folders: Sequence[str] = (
            *folders,
            "usr/sbin",
            "usr/local/sbin",
            "usr/local/bin",
            "opt/homebrew/bin",
        )

    def find(self) -> str | None:
        """The path of the program, or None."""
        for pattern in self._folders:
            for folder in sorted(Path("/").glob(pattern), key=_by_numbers, reverse=True):
                if os.access(folder / self._name, os.X_OK):
                    return str(folder / self._name)
        return shutil.which(self._name)

    def missing(self) -> str | None:
        """None if the program is there."""
        return None if self.find() else f"there is no `{self._name}` (Debian's package `{self._package}`)"

    def install(self) -> None:
        """Install the package by `apt-get`, as root only, if the program is not there."""
        if self.find():
            return
        apt = shutil.which("apt-get")
        if apt is None or os.geteuid() != 0:
            why = "there is no `apt-get`" if apt is None else "that needs root"
            raise Unavailable(f"{self.missing()}, and {why}: install it yourself")
        install = [apt, "install", "--yes", "--no-install-recommends", self._package]
        environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
        printed: str | None = None
        for command in (install, [apt, "update"], install):
            printed = failed(command, environment=environment)
            if command is install and printed is None and self.find():
                return
        printed = "it is installed now, without the program" if printed is None else printed[-500:]
        raise Unavailable(f"`apt-get` could not install `{self._package}`: {printed}")


class Wheel(Executable, PipInstalled):
    """A program that comes as a wheel, into the folder of this environment's programs."""

    def find(self) -> str | None:
        """The path of the program, in this environment or on the PATH, or None."""
        return shutil.which(self._name, path=sysconfig.get_path("scripts")) or shutil.which(self._name)

    def missing(self) -> str | None:
        """None if the program is there."""
        return None if self.find() else f"there is no `{self._name}` (the package `{self._requirement}`)"


class Module(PipInstalled):
    """A module of Python, by its distribution."""

    def missing(self) -> str | None:
        """None if the module can be imported."""
        found = importlib.util.find_spec(self._name) is not None
        return None if found else f"there is no module `{self._name}` (`{self._requirement}`)"


def _by_numbers(folder: Path) -> list[int | str]:
    return [int(part) if part.isdigit() else part for part in folder.parts]
