"""A package: a wheel, or a zip file with the content of one, whose entry points are applications."""

from __future__ import annotations

import base64
import csv
import hashlib
import importlib.metadata
import io
import re
import shlex
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from packaging.metadata import InvalidMetadata, Metadata
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import InvalidWheelFilename, canonicalize_name, parse_wheel_filename
from packaging.version import Version

from ridgeline.api.errors import PackageError, did_you_mean
from ridgeline.packages.applications import (
    APPLICATIONS,
    CONFIGURATIONS,
    DEFAULTS,
    PackagedApplication,
    application_of,
    configuration_of,
)
from ridgeline.packages.zipped import AGAIN, ZippedFiles, fault, importable, unpacked_paths

_RESERVED = frozenset(
    {
        "_cloudpickle",
        "cloudpickle",
        "numpy",
        "py4j",
        "pyarrow",
        "pydantic",
        "pydantic_core",
        "pyspark",
        "ridgeline",
    }
)
"""Modules that driver and workers have loaded before a package is there, beside Python's own."""
_BUILD = "build the package again (`pip wheel --no-deps .`)"
_TAGS_SHOWN = 3
_ALGORITHMS = frozenset({"sha256", "sha384", "sha512"})
_UNLISTED = ("RECORD", "RECORD.jws", "RECORD.p7s")


@dataclass(frozen=True, slots=True)
class Package:
    """The metadata of a package. `requirements`: texts of `Requires-Dist`; `tags`: None for any platform.

    `configurations`: files in the package by the names of its configuration sets, the defaults among them.
    `paths`: where each of its files is when it is unpacked.
    """

    path: Path
    size_bytes: int
    sha256: str
    name: str
    version: str
    summary: str
    applications: Mapping[str, PackagedApplication]
    configurations: Mapping[str, str]
    requirements: Sequence[Requirement]
    requires_python: SpecifierSet | None
    tags: frozenset[Any] | None
    paths: Mapping[str, str]
    modules: frozenset[str]

    @property
    def title(self) -> str:
        """Name and version, for messages."""
        return f"`{self.name}` {self.version}"

    @property
    def extras(self) -> tuple[str, ...]:
        """The extras that any of its applications needs."""
        return tuple(dict.fromkeys(extra for one in self.applications.values() for extra in one.extras))

    def check_fit(self) -> None:
        """Raise PackageError for a package that cannot run here, with all that it lacks."""
        if misfits := list(self.misfits()):
            raise PackageError(
                f"package {self.title} does not fit here: {'; '.join(misfits)}; get one that is built for it"
            )
        lacking = [need for need in needs(self.requirements, self.extras) if not need.met]
        if lacking:
            found = ", ".join(
                f"`{need.requirement}` ({f'{need.found} is' if need.found else 'not'} installed)"
                for need in lacking
            )
            wanted = (need.requirement.partition(";")[0].strip() for need in lacking)
            raise PackageError(
                f"package {self.title} requires what is not here: {found}; run {_command(wanted)}"
            )
        for module in sorted(self.modules & sys.modules.keys()):
            where = getattr(sys.modules[module], "__file__", None) or "Python itself"
            what = (
                f"package {self.title} has a module `{module}`, which is loaded here already from `{where}`"
            )
            raise PackageError(f"{what}; give it another name")

    def application(self, name: str | None = None) -> PackagedApplication:
        """The application of that name, or the only one. Raises PackageError naming those that there are."""
        if name is None and len(self.applications) == 1:
            return next(iter(self.applications.values()))
        names = ", ".join(f"`{one}`" for one in self.applications)
        if name is None:
            raise PackageError(
                f"package {self.title} has {len(self.applications)} applications; give one of {names}: "
                f"`{self.path.name}:NAME`"
            )
        if name not in self.applications:
            near = did_you_mean(name, self.applications)
            raise PackageError(f"package {self.title} has no application `{name}`; {near}")
        return self.applications[name]

    def configuration_sets(self, name: str | None = None) -> list[str]:
        """The files of the defaults, if there are any, and of the set `name`. Raises PackageError."""
        found = [self.configurations[DEFAULTS]] if DEFAULTS in self.configurations else []
        if name is None:
            return found
        sets = [one for one in self.configurations if one != DEFAULTS]
        if name not in sets:
            remedy = did_you_mean(name, sets) if sets else "leave `--conf-set` out"
            raise PackageError(f"package {self.title} has no configuration set `{name}`; {remedy}")
        return [*found, self.configurations[name]]

    def misfits(self) -> Iterator[str]:
        """Why the package does not fit Python and platform here: what it asks for, and what there is."""
        here = Version(".".join(map(str, sys.version_info[:3])))
        if self.requires_python is not None and not self.requires_python.contains(here, prereleases=True):
            yield f"it needs Python {self.requires_python}; here is Python {here}"
        if self.tags is not None:
            from packaging.tags import sys_tags

            if self.tags.isdisjoint(sys_tags()):
                shown = ", ".join(sorted(map(str, self.tags))[:_TAGS_SHOWN])
                yield f"it is built for {shown}; here is {next(sys_tags())}"


def _command(texts: Iterable[str]) -> str:
    return f"`pip install {' '.join(shlex.quote(text) for text in texts)}`"


def open_package(path: Path) -> Package:
    """Read the metadata of a package, and check that it is whole. Runs no code of it.

    Raises PackageError for what is damaged, would do harm, or has no application.
    """
    with ZippedFiles(path) as files:
        info = _info_folder(files)
        name, version, metadata = _metadata(files, info)
        tags = _tags(files, info, name, version)
        check_record(files, info, required=path.suffix.lower() == ".whl")
        paths = unpacked_paths(files)
        modules = importable(paths.values())
        _check_modules(files, modules)
        entries = _Entries(files, info).entry_points
        applications = {
            entry.name: application_of(files, paths, entry) for entry in _group(entries, APPLICATIONS)
        }
        if not applications:
            raise fault(
                files.path,
                f"has no entry point in the group `{APPLICATIONS}`",
                (
                    f'name one there: `[project.entry-points."{APPLICATIONS}"]`, '
                    '`shop = "shop.app:application"`'
                ),
            )
        configurations = {
            entry.name: configuration_of(files, paths, entry) for entry in _group(entries, CONFIGURATIONS)
        }
        with path.open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
        return Package(
            path,
            path.stat().st_size,
            digest,
            name,
            version,
            metadata.summary or "",
            applications,
            configurations,
            tuple(metadata.requires_dist or ()),
            metadata.requires_python,
            tags,
            paths,
            modules,
        )


class _Entries(importlib.metadata.Distribution):
    """The metadata in a zip file, as the library reads those of what is installed."""

    def __init__(self, files: ZippedFiles, info: str) -> None:
        self._files = files
        self._info = info

    def read_text(self, filename: str) -> str | None:
        """A file of the metadata, None if there is none."""
        name = f"{self._info}/{filename}"
        return _text(self._files, name) if name in self._files.names else None

    def locate_file(self, path: Any) -> Any:
        """Nothing is installed."""
        return PurePosixPath(path)


def _group(entries: importlib.metadata.EntryPoints, group: str) -> list[importlib.metadata.EntryPoint]:
    return sorted(entries.select(group=group), key=lambda entry: entry.name)


def _text(files: ZippedFiles, name: str) -> str:
    try:
        return files.read(name).decode("utf-8")
    except UnicodeDecodeError:
        raise fault(files.path, f"has bytes in `{name}` that are no UTF-8", _BUILD) from None


def _info_folder(files: ZippedFiles) -> str:
    """The one folder of metadata. Raises PackageError."""
    found = sorted({name.partition("/")[0] for name in files.names if ".dist-info/" in name})
    found = [name for name in found if name.endswith(".dist-info")]
    if len(found) != 1:
        what = f"has {len(found)} folders" if found else "has no folder"
        raise fault(files.path, f"{what} of metadata (`NAME-VERSION.dist-info`)", _BUILD)
    return found[0]


def _metadata(files: ZippedFiles, info: str) -> tuple[str, str, Metadata]:
    """Name, version and the rest of the metadata. Raises PackageError."""
    name = f"{info}/METADATA"
    if name not in files.names:
        raise fault(files.path, f"has no `{name}`", _BUILD)
    try:
        metadata = Metadata.from_email(_text(files, name), validate=False)
        found = str(metadata.name), str(metadata.version)
        _ = metadata.requires_python, metadata.requires_dist, metadata.summary  # read now, so checked now
    except (InvalidMetadata, ExceptionGroup, ValueError, TypeError) as error:
        what = str(getattr(error, "__cause__", None) or error).splitlines()[0][:200]
        raise fault(files.path, f"has metadata that cannot be read: {what}", _BUILD) from None
    if not re.fullmatch(r"[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?", found[0]):
        raise fault(files.path, "has metadata without a name", _BUILD)
    return *found, metadata


def _tags(files: ZippedFiles, info: str, name: str, version: str) -> frozenset[Any] | None:
    """The platforms in a wheel's file name; None for a zip file. Raises PackageError."""
    if files.path.suffix.lower() != ".whl":
        return None
    try:
        in_name, version_in_name, _, tags = parse_wheel_filename(files.path.name)
    except InvalidWheelFilename:
        raise fault(
            files.path,
            "has not the file name of a wheel",
            f"name it as it was built, such as `{name}-{version}-py3-none-any.whl`",
        ) from None
    if in_name != canonicalize_name(name) or version_in_name != Version(version):
        raise fault(files.path, f"is {name} {version} by its metadata", "name it as it was built")
    wheel = f"{info}/WHEEL"
    found = (
        re.search(r"^Wheel-Version:\s*(\d+)\.", _text(files, wheel), re.MULTILINE)
        if wheel in files.names
        else None
    )
    if found is None or found[1] != "1":
        raise fault(files.path, f"has no `{wheel}` of version 1", _BUILD)
    return tags


def _check_modules(files: ZippedFiles, modules: frozenset[str]) -> None:
    """Refuse modules that would be found in the place of others. Raises PackageError."""
    if clash := sorted(modules & (sys.stdlib_module_names | _RESERVED)):
        whose = "Ridgeline's own or what it needs" if clash[0] in _RESERVED else "one of Python's own"
        raise fault(files.path, f"has a module `{clash[0]}`, which is {whose}", "give it another name")


def check_record(files: ZippedFiles, info: str, *, required: bool) -> None:
    """Compare all files with the list in the folder `info`. Without a list every file is read to its end.

    Raises PackageError.
    """
    unlisted = {f"{info}/{name}" for name in _UNLISTED}
    listed = _listed(files, f"{info}/RECORD", required=required)
    for name in files.names:
        if name in unlisted or listed is None:
            _digest(files, name, "sha256")
            continue
        algorithm, _, digest = listed.pop(name, "").partition("=")
        if algorithm not in _ALGORITHMS:
            raise fault(
                files.path, f"has `{name}`, which its list of files (`RECORD`) has no digest of", AGAIN
            )
        if _digest(files, name, algorithm) != digest.rstrip("="):
            raise fault(files.path, f"has another `{name}` than was built: its digest differs", AGAIN)
    if missing := sorted(set(listed or ()) - unlisted):
        raise fault(files.path, f"lacks `{missing[0]}`, which its list of files (`RECORD`) names", AGAIN)


def _listed(files: ZippedFiles, record: str, *, required: bool) -> dict[str, str] | None:
    """Algorithm and digest of each file in the list; None if there is no list. Raises PackageError."""
    if record not in files.names:
        if required:
            raise fault(files.path, f"has no list of its files (`{record}`)", AGAIN)
        return None
    try:
        rows = list(csv.reader(io.StringIO(files.read(record).decode("utf-8"))))
        return {row[0]: row[1] for row in rows if row}
    except (UnicodeDecodeError, csv.Error, IndexError):
        raise fault(files.path, f"has a list of its files (`{record}`) that cannot be read", AGAIN) from None


def _digest(files: ZippedFiles, name: str, algorithm: str) -> str:
    digest = hashlib.new(algorithm)
    with files.opened(name) as file:
        while block := file.read(1 << 20):
            digest.update(block)
    return base64.urlsafe_b64encode(digest.digest()).decode().rstrip("=")


@dataclass(frozen=True, slots=True)
class Need:
    """A requirement that holds here. `found`: the installed version, None if there is none."""

    requirement: str
    found: str | None
    met: bool


def needs(requirements: Iterable[Requirement], extras: Sequence[str] = ()) -> Iterator[Need]:
    """The requirements that hold for this Python and platform, each with what is installed.

    Those of installed distributions are followed where a requirement asks for their extras.
    """
    waiting = [(requirement, frozenset(extras)) for requirement in requirements]
    seen: set[tuple[str, frozenset[str]]] = set()
    while waiting:
        requirement, chosen = waiting.pop(0)
        if (str(requirement), chosen) in seen or not _holds(requirement, chosen):
            continue
        seen.add((str(requirement), chosen))
        try:
            installed = importlib.metadata.distribution(canonicalize_name(requirement.name))
        except importlib.metadata.PackageNotFoundError:
            yield Need(str(requirement), None, met=False)
            continue
        met = requirement.specifier.contains(installed.version, prereleases=True)
        yield Need(str(requirement), installed.version, met)
        if requirement.extras:
            inner = [Requirement(text) for text in installed.requires or ()]
            asked = frozenset(requirement.extras)
            waiting += [
                (one, asked) for one in inner if one.marker is not None and not _holds(one, frozenset())
            ]


def _holds(requirement: Requirement, extras: frozenset[str]) -> bool:
    """True if a requirement's marker is true here, with one of the extras or none."""
    if requirement.marker is None:
        return True
    return any(requirement.marker.evaluate({"extra": extra}) for extra in extras or [""])
