"""The user's own modules that are loaded: neither installed ones nor Python's or Ridgeline's.

What they import later, by whatever name, lies beside them and travels with them (`user_files.py`).
"""

from __future__ import annotations

import os
import site
import sys
import sysconfig
from collections.abc import Iterator, Sequence
from functools import lru_cache
from pathlib import Path

import ridgeline
from ridgeline.engine.process import shipped_packages


def user_modules() -> dict[str, str]:
    """Path of the user's modules by name."""
    installed = installed_folders()
    return {
        name: path
        for name, module in sys.modules.copy().items()  # other threads import meanwhile
        if name != "__main__" and (path := getattr(module, "__file__", None)) and is_users(path, installed)
    }


def is_users(path: str, installed: Sequence[str] | None = None) -> bool:
    """True for a Python file that is neither installed nor part of Python or Ridgeline."""
    folders = installed_folders() if installed is None else tuple(installed)
    return path.endswith(".py") and not _resolved(path).startswith(folders) and Path(path).is_file()


@lru_cache(maxsize=8192)
def _resolved(path: str) -> str:
    """Where a file lies. Remembered: a process asks for all that it has loaded, twice a start."""
    return os.path.realpath(path)  # `Path.resolve` takes three times as long


def installed_folders() -> tuple[str, ...]:
    """Where Python, what is installed and the application's packages lie, each with a slash at its end."""
    folders = [
        *site.getsitepackages(),
        site.getusersitepackages(),
        sysconfig.get_path("stdlib"),
        sysconfig.get_path("platstdlib"),
    ]
    ours = str(Path(ridgeline.__file__).parent)
    resolved = (f"{Path(folder).resolve()}/" for folder in [*folders, ours])
    return (*resolved, *shipped_packages.folders())


def main_files() -> Iterator[tuple[str, str]]:
    """Name and path of the program, or of a file where a notebook would lie. It is pickled, no module."""
    main = sys.modules.get("__main__")
    path = getattr(main, "__file__", None)
    if path and path.endswith(".py") and Path(path).is_file():
        yield "__main__", path
    elif getattr(main, "In", None):
        yield "__main__", str(Path.cwd() / "notebook.py")


def root_of(name: str, path: str) -> str:
    """The folder that a module's absolute name starts from: `/x` for module `a.b` in `/x/a/b.py`."""
    depth = name.count(".") + (Path(path).name == "__init__.py")
    folders = Path(_resolved(path)).parents
    return str(folders[min(depth, len(folders) - 1)])
