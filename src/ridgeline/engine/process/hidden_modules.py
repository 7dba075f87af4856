"""Files of the user's with the name of a module of Python's or of an installed package.

The user's folder comes first on the search path, so such a file hides the other module from all code.
"""

from __future__ import annotations

import contextlib
import importlib
import site
import sys
import sysconfig
from collections.abc import Iterator
from functools import cache
from importlib.machinery import PathFinder
from pathlib import Path

_WITH_EFFECTS = frozenset({"__main__", "antigravity", "idlelib", "test", "this", "turtledemo"})


def keep_standard_modules(folder: str) -> None:
    """Load the modules of Python's that files in a folder would hide, before the folder is searched."""
    for name in sorted(_names(folder) & sys.stdlib_module_names - _WITH_EFFECTS - sys.modules.keys()):
        path = list(sys.path)
        sys.path[:] = [entry for entry in path if not _is_same(entry, folder)]
        try:
            with contextlib.suppress(Exception):  # not there on this machine, such as `tkinter`
                importlib.import_module(name)
        finally:
            sys.path[:] = path


def hidden_by(name: str, folder: str) -> str | None:
    """The file of the module of Python's or of an installed package that a file in the folder hides."""
    try:
        spec = PathFinder.find_spec(name, [entry for entry in sys.path if not _is_same(entry, folder)])
    except (ImportError, ValueError):
        return None
    origin = None if spec is None else spec.origin
    if name in sys.stdlib_module_names:
        return origin or name
    return origin if origin is not None and origin.startswith(_installed()) else None


def hint(error: BaseException) -> str:
    """The remedy if an error arises because one module hides another; "" if it does not."""
    if isinstance(error, ImportError):
        name, path = (error.name or "").partition(".")[0], error.path
    elif isinstance(error, AttributeError):
        name = str(getattr(error.obj, "__name__", "")).partition(".")[0]
        path = getattr(error.obj, "__file__", None)
    else:
        return ""
    if not name:
        return ""
    for folder in dict.fromkeys(str(Path(entry).absolute()) for entry in sys.path):
        if folder.startswith(_installed()) or name not in _names(folder) or hidden_by(name, folder) is None:
            continue
        file = _file(name, folder)
        if path is not None and not _lies_in(path, folder):
            return f"`{file}` has the name of `{name}`, which is imported in its place; rename the file"
        if name not in sys.stdlib_module_names:
            return f"`{file}` hides the package `{name}`; rename it"
    return ""


def _names(folder: str) -> frozenset[str]:
    """The names of the modules and packages that lie in a folder."""

    def found() -> Iterator[str]:
        for entry in Path(folder).iterdir():
            if entry.suffix == ".py":
                yield entry.stem
            elif (entry / "__init__.py").is_file():
                yield entry.name

    try:
        return frozenset(found())
    except OSError:
        return frozenset()


def _file(name: str, folder: str) -> str:
    file = Path(folder, f"{name}.py")
    return str(file if file.is_file() else file.with_suffix(""))


def _is_same(entry: str, folder: str) -> bool:
    return Path(entry).absolute() == Path(folder).absolute()


def _lies_in(path: str | None, folder: str) -> bool:
    return path is not None and Path(folder).absolute() in Path(path).absolute().parents


@cache
def _installed() -> tuple[str, ...]:
    folders = [*site.getsitepackages(), site.getusersitepackages(), sysconfig.get_path("stdlib")]
    return tuple(folders)
