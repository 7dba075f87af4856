"""The packages of the application: they reach workers whole, as files in the checkpoint folder.

A worker unpacks a package once for all processes of its executor, and puts the folder on its path. So code,
data files and compiled modules are found as on the driver, and plain pickle works on instances of the
package's classes. Where a worker shares the driver's host, it takes what the driver has unpacked.
"""

from __future__ import annotations

import importlib
import os
import shutil
import sys
import tempfile
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

from ridgeline.api.support import trust
from ridgeline.engine.files.storage import DriverStorage, Storage
from ridgeline.engine.process import shipped_files

_REFUSAL = "the unpacked package", "set `spark.local.dir` to a folder of your own"
_here: dict[str, tuple[Path, Path]] = {}
"""File and folder of each package of this process, by digest."""


@dataclass(frozen=True, slots=True)
class ShippedPackage:
    """A package in the checkpoint folder: its digest, and where the driver has unpacked it."""

    sha256: str
    folder: str


def use(sha256: str, file: Path, folder: Path) -> None:
    """Import from an unpacked package in this process; `ship` sends it to others."""
    _here[sha256] = file, folder
    _put_on_path(folder)


def folders() -> tuple[str, ...]:
    """Where the packages of this process are unpacked, each with a slash at its end."""
    return tuple(f"{os.path.realpath(folder)}/" for _, folder in _here.values())


def has(module: ModuleType | None) -> bool:
    """True if a module comes from a package of this process."""
    path = getattr(module, "__file__", None)
    return path is not None and os.path.realpath(path).startswith(folders() or ("//",))


def ship(storage: DriverStorage, epoch: int = 0) -> tuple[ShippedPackage, ...]:
    """Write the packages of this process into the checkpoint folder. Raises OSError."""
    for file, _ in _here.values():
        shipped_files.ship(storage, file.read_bytes(), epoch)
    return tuple(ShippedPackage(sha256, str(folder)) for sha256, (_, folder) in _here.items())


def receive(storage: Storage, packages: tuple[ShippedPackage, ...], epoch: int = 0) -> None:
    """Make the modules of packages importable. Raises OSError, PackageError, UntrustedError."""
    for package in packages:
        if package.sha256 not in _here:
            _put_on_path(_unpacked(storage, package, epoch))


def _put_on_path(folder: Path) -> None:
    """The folder's modules are found before installed ones, as for a script."""
    if str(folder) not in sys.path:
        sys.path.insert(0, str(folder))
        importlib.invalidate_caches()


def _unpacked(storage: Storage, package: ShippedPackage, epoch: int) -> Path:
    """Where the package is unpacked on this host."""
    drivers = Path(package.folder)
    if drivers.is_dir() and trust.is_trusted(str(drivers)):
        return drivers
    from ridgeline.packages.package import unpack

    return unpacked_once(storage, package.sha256, epoch, unpack)


def unpacked_once(
    storage: Storage, sha256: str, epoch: int, unpack: Callable[[Path, str, Path], object]
) -> Path:
    """Where an archive of the checkpoint folder is unpacked on this host, for all processes of an executor.

    `epoch`: of the driver that wrote it. `unpack(archive, sha256, folder)` does it, into a folder that is not
    there yet.
    Raises OSError, UntrustedError, and what `unpack` raises.
    """
    parent = Path(os.environ.get("SPARK_LOCAL_DIRS", "").split(",")[0] or tempfile.gettempdir())
    home = parent / f"ridgeline-packages-{os.geteuid()}"
    trust.private_folder(str(home), *_REFUSAL)
    folder = home / sha256
    if not folder.is_dir():
        _unpack(shipped_files.read(storage, sha256, epoch), sha256, folder, unpack)
    trust.check_entry(str(folder), *_REFUSAL)
    return folder


def _unpack(data: bytes, sha256: str, folder: Path, unpack: Callable[[Path, str, Path], object]) -> None:
    """Unpack under a name of this process's own, then rename it: others never see half of it."""
    hidden = folder.with_name(f".{uuid.uuid4().hex}")
    hidden.mkdir(mode=0o700)
    try:
        (hidden / "package").write_bytes(data)
        unpack(hidden / "package", sha256, hidden / "files")
        try:
            (hidden / "files").rename(folder)
        except OSError:
            if not folder.is_dir():  # else another process was first
                raise
    finally:
        shutil.rmtree(hidden, ignore_errors=True)
