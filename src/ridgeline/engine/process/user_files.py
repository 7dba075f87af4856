"""The user's modules, the files beside them and the path, as one archive in the checkpoint folder.

Workers import the modules that the driver has loaded as the archive has them. All else they find as files:
data, and modules that are imported later. A worker that sees the driver's folders uses them as they are, for
others each executor unpacks the archive once. Either way they are real files, so Python's own machinery finds
them: `pkgutil`, `importlib.resources`, `__file__`, compiled modules.
"""

from __future__ import annotations

import functools
import io
import itertools
import json
import os
import site
import stat
import sys
import sysconfig
import zipfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.machinery import EXTENSION_SUFFIXES, SOURCE_SUFFIXES
from pathlib import Path
from typing import NamedTuple

import ridgeline
from ridgeline.api.support import trust
from ridgeline.engine.files.storage import DriverStorage, Storage
from ridgeline.engine.process import shipped_files, shipped_packages
from ridgeline.engine.process.hidden_modules import keep_standard_modules

_MOST_BYTES = 32 << 20
_MOST_FILES = 10_000
_CODE = (*SOURCE_SUFFIXES, *EXTENSION_SUFFIXES)
_MODULES = "modules"
"""The file of the archive with the file of each module that the driver has loaded, by name."""
_BEGINNING = (1980, 1, 1, 0, 0, 0)
"""The time of each file in an archive: the same files are the same bytes."""


@dataclass(frozen=True, slots=True)
class Root:
    """A folder from which the names of the user's modules start.

    Device and inode distinguish it from a folder of the same name on another host.
    """

    folder: str
    device: int
    inode: int


@dataclass(frozen=True, slots=True)
class UserFiles:
    """The user's files: the digest of their archive ("" for none), and where they lie on the driver.

    The archive has the files of `roots[n]` in the folder `n`. `first` and `last`: the entries of the driver's
    search path before and after what is installed. `boot`: which machine the driver runs on.
    """

    sha256: str
    roots: tuple[Root, ...]
    first: tuple[str, ...]
    last: tuple[str, ...]
    boot: str


# The user's own modules that are loaded: neither installed ones nor Python's or Ridgeline's -----------------


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


@functools.lru_cache(maxsize=8192)
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


# The driver's side ------------------------------------------------------------------------------------------


def ship(storage: DriverStorage, epoch: int = 0) -> UserFiles:
    """Write the user's modules, and the files beside them, into the checkpoint folder. Raises OSError."""
    folders, modules, found = _found()
    sha256 = shipped_files.ship(storage, _archive(modules, found), epoch) if found else ""
    first, last = _search_path()
    roots = tuple(Root(folder, *_identity(folder)) for folder in folders)
    return UserFiles(sha256, roots, first, last, _boot())


def _found() -> tuple[list[str], tuple[tuple[str, str], ...], tuple[tuple[str, str, int, int], ...]]:
    """The folders from which names of modules start, the modules that are loaded, and what travels of it.

    Each file has its name, which begins with the number of its folder, its path, time and size. Each module
    has its own name and that of its file.
    """
    modules = list(user_modules().items())
    rooted = [(name, path, root_of(name, path)) for name, path in (*modules, *main_files())]
    folders = list(dict.fromkeys(root for _, _, root in rooted))
    packages = {(root, name.partition(".")[0]) for name, path, root in rooted if _in_package(name, path)}
    loaded = [
        (name, f"{folders.index(root)}/{os.path.relpath(os.path.realpath(path), root)}", path)
        for name, path, root in rooted[: len(modules)]
    ]
    files = itertools.chain((one[1:] for one in loaded), _files(folders, packages))
    return folders, tuple(one[:2] for one in loaded), tuple(_within_bounds(files))


def _in_package(name: str, path: str) -> bool:
    return "." in name or Path(path).name == "__init__.py"


def _files(folders: list[str], packages: Iterable[tuple[str, str]]) -> Iterator[tuple[str, str]]:
    """Name in the archive and path of each file: code first, then the data files of packages in use."""
    data = []
    for number, root in enumerate(folders):
        for _, top in sorted(package for package in packages if package[0] == root):
            for path in _below(f"{root}/{top}"):
                named = f"{number}/{os.path.relpath(path, root)}", path
                if path.endswith(_CODE):
                    yield named
                else:
                    data.append(named)
    for number, root in enumerate(folders):
        for path in _beside(root):
            yield f"{number}/{os.path.relpath(path, root)}", path
    yield from data


def _beside(root: str) -> Iterator[str]:
    """The modules in a folder and in the packages there, which code may import by a computed name."""
    try:
        entries = sorted(os.scandir(root), key=lambda entry: entry.name)
    except OSError:
        return
    for entry in entries:
        if entry.name.endswith(_CODE) and _is_file(entry.path):
            yield entry.path
        elif Path(entry.path, "__init__.py").is_file():
            yield from (path for path in _below(entry.path) if path.endswith(_CODE))


def _below(folder: str) -> Iterator[str]:
    """The files below a folder, without hidden ones and what Python has compiled."""
    for where, folders, names in os.walk(folder):
        folders[:] = sorted(one for one in folders if one != "__pycache__" and not one.startswith("."))
        for name in sorted(names):
            path = os.path.join(where, name)  # noqa: PTH118
            if not name.startswith(".") and not name.endswith(".pyc") and _is_file(path):
                yield path


def _is_file(path: str) -> bool:
    """No pipes and devices: reading one may never end."""
    try:
        return stat.S_ISREG(os.stat(path).st_mode)  # noqa: PTH116
    except OSError:
        return False


def _within_bounds(files: Iterable[tuple[str, str]]) -> Iterator[tuple[str, str, int, int]]:
    """Each file once, with its time and size, as many as may travel."""
    installed, seen, left = installed_folders(), set(), _MOST_BYTES
    for name, path in files:
        if name in seen or (path.endswith(".py") and not is_users(path, installed)):
            continue
        seen.add(name)
        found = os.stat(path)  # noqa: PTH116
        if found.st_size <= left and len(seen) <= _MOST_FILES:
            left -= found.st_size
            yield name, path, found.st_mtime_ns, found.st_size


@functools.lru_cache(maxsize=1)
def _archive(modules: tuple[tuple[str, str], ...], files: tuple[tuple[str, str, int, int], ...]) -> bytes:
    """The files as they are; made once for all plans, as long as none changes."""
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        for name, path, _, _ in files:
            try:
                content = Path(path).read_bytes()
            except OSError:  # may not be read, or has gone meanwhile
                continue
            archive.writestr(zipfile.ZipInfo(name, _BEGINNING), content, zipfile.ZIP_DEFLATED)
        there = set(archive.namelist())
        known = {name: file for name, file in modules if file in there}
        archive.writestr(zipfile.ZipInfo(_MODULES, _BEGINNING), json.dumps(known), zipfile.ZIP_DEFLATED)
    return made.getvalue()


def _search_path() -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The user's entries of `sys.path`: those before what is installed, and those after."""
    installed = installed_folders()
    scripts = os.path.dirname(os.path.realpath(sys.executable))  # noqa: PTH120
    first: list[str] = []
    last: list[str] = []
    ours = first
    for entry in sys.path:
        path = os.path.abspath(entry)  # noqa: PTH100  "" is where the command runs
        if f"{os.path.realpath(path)}/".startswith(installed):
            ours = last
        elif os.path.exists(path) and path not in (scripts, os.path.dirname(sys.executable)):  # noqa: PTH110, PTH120
            ours.append(path)
    return tuple(first), tuple(last)


def _identity(folder: str) -> tuple[int, int]:
    try:
        found = os.stat(folder)  # noqa: PTH116
    except OSError:
        return 0, 0
    return found.st_dev, found.st_ino


@functools.cache
def _boot() -> str:
    """An identity of this machine since its start; "" if there is none."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    except OSError:
        return ""


# The worker's side ------------------------------------------------------------------------------------------


class Source(NamedTuple):
    """A module of the driver's: its path there, where that is here, and its text as it was there."""

    path: str
    here: str
    text: bytes


def receive(storage: Storage, files: UserFiles, epoch: int = 0) -> dict[str, Source]:
    """Make the driver's search path this process's; returns the modules that it has loaded.

    Raises OSError, UntrustedError.
    """
    same_machine = bool(files.boot) and files.boot == _boot()
    places = {root.folder: root.folder for root in files.roots if same_machine and _is_here(root)}
    if len(places) < len(files.roots) and files.sha256:
        unpacked = shipped_packages.unpacked_once(storage, files.sha256, epoch, _extract)
        for number, root in enumerate(files.roots):
            places.setdefault(root.folder, str(unpacked / str(number)))
    _use_path(files, places, same_machine=same_machine)
    if not files.sha256:
        return {}
    sources = {}
    with zipfile.ZipFile(io.BytesIO(shipped_files.read(storage, files.sha256, epoch))) as archive:
        for module, file in json.loads(archive.read(_MODULES)).items():
            number, _, name = file.partition("/")
            folder = files.roots[int(number)].folder
            sources[module] = Source(f"{folder}/{name}", f"{places[folder]}/{name}", archive.read(file))
    return sources


def _is_here(root: Root) -> bool:
    """True for the driver's own folder, unless others could have put something into it."""
    return _identity(root.folder) == (root.device, root.inode) and trust.is_trusted(root.folder)


def _extract(archive: Path, _sha256: str, folder: Path) -> None:
    with zipfile.ZipFile(archive) as found:
        found.extractall(folder)


def _use_path(files: UserFiles, places: Mapping[str, str], *, same_machine: bool) -> None:
    """Insert the driver's entries that are found here; without that of where the command ran, if not one."""

    def here(entries: Iterable[str]) -> list[str]:
        found = []
        for entry in entries:
            if place := places.get(os.path.realpath(entry)):
                found.append(place)
            elif same_machine and trust.is_trusted(entry) and os.path.exists(entry):  # noqa: PTH110
                found.append(entry)
        return found

    first, last = here(files.first), here(files.last)
    if same_machine and not sys.flags.safe_path and sys.path and sys.path[0] in ("", os.getcwd()):  # noqa: PTH109
        del sys.path[0]  # where the command ran: `python -m` adds it
    for entry in first:
        keep_standard_modules(entry)
    sys.path[:0] = [entry for entry in dict.fromkeys(first) if entry not in sys.path]
    sys.path += [entry for entry in dict.fromkeys(last) if entry not in sys.path]
