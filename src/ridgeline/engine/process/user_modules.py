"""The user's own modules: those that are loaded, and those that their functions may import in a worker.

The imports of a function are found by its `import` statements, without running anything. A name is resolved
as in the importing file's own folder, whichever folder the command runs in. First come its neighbours (and
the packages above it), then the path. Installed packages and Python's own modules are not the user's; modules
that are found by a computed name, and data files, travel beside them (`user_files.py`).
"""

from __future__ import annotations

import ast
import contextlib
import importlib.util
import os
import site
import sys
import sysconfig
import threading
from collections.abc import Iterator, Sequence
from functools import lru_cache
from importlib.machinery import EXTENSION_SUFFIXES, SOURCE_SUFFIXES
from pathlib import Path

import ridgeline
from ridgeline.engine.process import shipped_packages

_PARSING = threading.Lock()
_TRIES = 20


def user_sources() -> dict[str, tuple[str, str]]:
    """Path and text of the user's modules by name: loaded ones, and those reachable by import statements."""
    installed = installed_folders()
    found = {name: (path, _text(path)) for name, path in _loaded(installed)}
    waiting = [(name, path, text) for name, (path, text) in found.items()] + list(_main())
    finder = _Finder(installed)
    while waiting:
        name, path, text = waiting.pop()
        package = name if Path(path).name == "__init__.py" else name.rpartition(".")[0]
        for imported in sorted(imported_names(text, package)):
            for module, origin in finder.find(imported, root_of(name, path)):
                if module not in found:
                    found[module] = (origin, _text(origin))
                    waiting.append((module, *found[module]))
    return found


@lru_cache(maxsize=4096)
def imported_names(text: str, package: str) -> frozenset[str]:
    """The full names that the import statements of a file may import; `package` resolves relative imports.

    Of `from a import b` both `a` and `a.b`: `b` may be a module. None of a file that cannot be parsed.
    """
    try:
        tree = _parsed(text)
    except (SyntaxError, ValueError, RecursionError):
        return frozenset()
    found: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = _base(node, package)
            if base:
                found.add(base)
                found.update(f"{base}.{alias.name}" for alias in node.names if alias.name != "*")
    return frozenset(found)


def _parsed(text: str) -> ast.Module:
    """The tree of a file. Raises as `ast.parse`.

    Python 3.11 counts the depth of trees for all threads together. A thread that parses beside another one,
    such as that of another region, or of a notebook, may get a SystemError about it. It tries again.
    """
    for _ in range(_TRIES):
        with _PARSING, contextlib.suppress(SystemError):
            return ast.parse(text)
    return ast.parse(text)


def _base(node: ast.ImportFrom, package: str) -> str:
    """The module that is imported from; "" if a relative import leaves the top package."""
    if not node.level:
        return node.module or ""
    parents = package.split(".") if package else []
    kept = parents[: len(parents) - (node.level - 1)]
    if not kept or node.level > len(parents):
        return ""
    return ".".join([*kept, *([node.module] if node.module else [])])


class _Finder:
    """Finds modules of the user's as Python would, without importing anything."""

    def __init__(self, installed: Sequence[str]) -> None:
        self._installed = tuple(installed)
        self._known: dict[tuple[str, str], list[tuple[str, str]]] = {}
        self._listed: dict[str, frozenset[str]] = {}

    def find(self, name: str, root: str) -> list[tuple[str, str]]:
        """Names and paths of a user's module and its parent packages, if they exist; `root` comes first."""
        if (name, root) not in self._known:
            self._known[name, root] = list(self._find(name, root))
        return self._known[name, root]

    def _find(self, name: str, root: str) -> Iterator[tuple[str, str]]:
        parts = name.split(".")
        if parts[0] in sys.stdlib_module_names:
            return
        folders = [root, *sys.path] if root else sys.path
        for end, part in enumerate(parts, 1):
            origin, folders = self._look(part, folders)
            if origin is not None:
                if not is_users(origin, self._installed):
                    return
                yield ".".join(parts[:end]), origin

    def _look(self, part: str, folders: Sequence[str]) -> tuple[str | None, list[str]]:
        """The file of a module in the first folder that has one, and where its own modules are.

        A folder without `__init__.py` has no file.
        """
        spread = []
        for folder in folders:
            names = self._names(folder)
            base = os.path.join(folder, part)  # noqa: PTH118  called thousands of times, as all here
            if part in names and "__init__.py" in self._names(base):
                return os.path.join(base, "__init__.py"), [base]  # noqa: PTH118
            for suffix in (*SOURCE_SUFFIXES, *EXTENSION_SUFFIXES):
                if f"{part}{suffix}" in names and Path(file := f"{base}{suffix}").is_file():
                    return file, []
            if part in names and Path(base).is_dir():
                spread.append(base)
        return None, spread

    def _names(self, folder: str) -> frozenset[str]:
        """The entries of a folder, listed once."""
        if folder not in self._listed:
            try:
                self._listed[folder] = frozenset(os.listdir(folder or "."))  # noqa: PTH208
            except OSError:
                self._listed[folder] = frozenset()
        return self._listed[folder]


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


def _loaded(installed: Sequence[str]) -> Iterator[tuple[str, str]]:
    for name, module in sys.modules.copy().items():  # other threads import meanwhile
        path = getattr(module, "__file__", None)
        if name != "__main__" and path and is_users(path, installed):
            yield name, path


def main_files() -> Iterator[tuple[str, str]]:
    """Name and path of the program, or of a file where a notebook would lie."""
    yield from dict.fromkeys((name, path) for name, path, _ in _main())


def _main() -> Iterator[tuple[str, str, str]]:
    """The program or the cells of a notebook: pickled, not distributed as modules; what they import is."""
    main = sys.modules.get("__main__")
    path = getattr(main, "__file__", None)
    if path and path.endswith(".py") and Path(path).is_file():
        yield "__main__", path, _text(path)
        return
    for cell in getattr(main, "In", ()):
        if isinstance(cell, str):
            kept = "\n".join(line for line in cell.splitlines() if not line.lstrip().startswith(("%", "!")))
            yield "__main__", str(Path.cwd() / "notebook.py"), kept


def root_of(name: str, path: str) -> str:
    """The folder that a module's absolute name starts from: `/x` for module `a.b` in `/x/a/b.py`."""
    depth = name.count(".") + (Path(path).name == "__init__.py")
    folders = Path(_resolved(path)).parents
    return str(folders[min(depth, len(folders) - 1)])


def _text(path: str) -> str:
    """A file as Python reads it, in the encoding that it declares."""
    raw = Path(path).read_bytes()
    try:
        return importlib.util.decode_source(raw)
    except (SyntaxError, UnicodeDecodeError):  # it cannot be imported here either; what imports it says so
        return raw.decode("utf-8", "replace")
