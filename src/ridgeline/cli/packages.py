"""Packages in the command: an application of one, and what a package has."""

from __future__ import annotations

import atexit
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ridgeline.cli.errors import CommandError
from ridgeline.cli.output import answer

if TYPE_CHECKING:
    from ridgeline.packages.package import Package, PackagedApplication
    from ridgeline.settings.layers import Layer

_SUFFIXES = (".whl", ".zip")


def is_package(path: str) -> bool:
    """True for the name of a package's file."""
    return path.lower().endswith(_SUFFIXES)


# Loading ----------------------------------------------------------------------------------------------------


def unpack_application(path: Path, name: str | None) -> tuple[PackagedApplication, Path]:
    """The application of a package, and where the package is unpacked and imported from until the end.

    Raises PackageError for a package that cannot be used here, before any code of it has run.
    """
    package, folder = _in_use(path.resolve())
    return package.application(name), folder


def unpacked(path: Path) -> Path:
    """The folder that a package is unpacked to, and imported from, until the end. Raises PackageError."""
    return _in_use(path.resolve())[1]


def layers_of(target: str, conf_set: str | None) -> list[Layer]:
    """Layers of the package that APP names, lowest first: its defaults, then a configuration set.

    Nothing for what is no package. Raises CommandError, ValidationError; PackageError for no such set.
    """
    file = Path(target) if Path(target).is_file() else Path(target.rpartition(":")[0])
    if not is_package(file.name):
        if conf_set is not None:
            raise CommandError(
                f"`--conf-set {conf_set}` names a part of a package, which `{target}` is not; leave it out"
            )
        return []
    from ridgeline.settings.documents import read_included_first
    from ridgeline.settings.layers import PACKAGE, Layer, flat

    package, folder = _in_use(file.resolve())
    several = len(package.applications) > 1  # then a part of it may be for another one
    found = []
    for name in package.configuration_sets(conf_set):
        for path, document in read_included_first(folder / name):
            origin = f"{file.name}/{path.relative_to(folder.resolve())}"
            found.append(Layer(PACKAGE, origin, flat(document), strict=not several))
            if key := next((key for key in found[-1].values if key.startswith("run.")), None):
                what = f"package {package.title} says `{key}` in `{origin}`, which is for who runs it"
                raise CommandError(f"{what}; put it into a file for `--conf-file`")
    return found


@cache
def _in_use(path: Path) -> tuple[Package, Path]:
    """Check a package and unpack it, once a process."""
    from ridgeline.engine.process import shipped_packages
    from ridgeline.packages.package import open_package
    from ridgeline.packages.unpacked import UnpackedPackage

    package = open_package(path)
    package.check_fit()
    unpacked = UnpackedPackage(path, package.sha256)
    atexit.register(unpacked.close)
    shipped_packages.use(package.sha256, unpacked.file, unpacked.files)
    return package, unpacked.files


# Commands ---------------------------------------------------------------------------------------------------


def show_package(file: str, *, as_json: bool) -> None:
    """Show what a package is. Raises CommandError, PackageError."""
    from ridgeline.packages.package import open_package

    if not is_package(file):
        raise CommandError(f"`{file}` is no package; give a wheel (`.whl`), or a zip file with its content")
    package = open_package(Path(file))
    info: dict[str, Any] = {
        "name": package.name,
        "version": package.version,
        "summary": package.summary or None,
        "file": str(package.path),
        "sha256": package.sha256,
        "applications": [
            {"name": one.name, "from": f"{one.module}:{one.object}"} for one in package.applications.values()
        ],
        "configurationSets": list(package.configurations),
        "requirements": [
            {"requirement": one.requirement, "installed": one.found, "met": one.met}
            for one in package.needs()
        ],
        "misfits": list(package.misfits()),
    }
    answer(info, _lines(info), as_json=as_json)


def _lines(info: dict[str, Any]) -> list[str]:
    """The lines that `library --package` prints, from its JSON."""
    lines = [f"{info['name']} {info['version']}" + (f": {info['summary']}" if info["summary"] else "")]
    lines += [f"file: {info['file']}", f"sha256: {info['sha256']}", "applications:"]
    lines += [f"  {one['name']}: {one['from']}" for one in info["applications"]]
    if info["configurationSets"]:
        lines.append("configuration sets: " + ", ".join(info["configurationSets"]))
    if info["requirements"]:
        lines.append("requirements:")
    for one in info["requirements"]:
        found = "not installed" if one["installed"] is None else f"{one['installed']} is installed"
        lines.append(f"  {one['requirement']}: {'met' if one['met'] else 'NOT MET'}, {found}")
    return [*lines, *(f"does not fit: {why}" for why in info["misfits"])]
