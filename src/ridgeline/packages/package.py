"""A package: a wheel, or a zip file with the content of one, whose entry points are applications.

Reading one runs no code of it. Running one runs its author's code, as installing and importing it does. So it
is not checked for bad intent, but that it is whole, that it fits here, and that it stays in its folder.
"""

from __future__ import annotations

import configparser
import errno
import hashlib
import importlib.metadata
import re
import shlex
import shutil
import struct
import sys
import zipfile
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.machinery import all_suffixes
from pathlib import Path, PurePosixPath
from typing import Any

from packaging.metadata import InvalidMetadata, Metadata
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import InvalidWheelFilename, canonicalize_name, parse_wheel_filename
from packaging.version import Version

from ridgeline.api.errors import PackageError, did_you_mean
from ridgeline.api.support.masking import printable
from ridgeline.plan.spec.form import form_of

APPLICATIONS = "ridgeline.applications"
"""The group of entry points: `shop = "shop.app:application"`, or `shop = "shop:shop.yaml"` for a file."""
CONFIGURATIONS = "ridgeline.configurations"
"""The group of entry points that name configuration: `production = "shop:production.yaml"`."""
DEFAULTS = "defaults"
"""The configuration set that always holds."""
LARGEST_BYTES = 1 << 30
"""The largest package, unpacked."""
_LARGEST_DOCUMENT = 1 << 20
_ENTRY = re.compile(r"(?P<module>\w+(?:\.\w+)*):(?P<object>[\w-]+(?:\.[\w-]+)*)\s*(?:\[(?P<extras>.*)\])?")
_RESERVED = frozenset(
    "_cloudpickle cloudpickle numpy py4j pyarrow pydantic pydantic_core pyspark ridgeline".split()  # noqa: SIM905
)
"""Modules that driver and workers have loaded before a package is there, beside Python's own."""
_BUILD = "build the package again (`pip wheel --no-deps .`)"
_NAMED = "write `package.module:function`, or `package:FILE.yaml` for a file in the package"
_TAGS_SHOWN = 3
_DAMAGED = (
    zipfile.BadZipFile,
    zlib.error,
    struct.error,
    EOFError,
    IndexError,
    NotImplementedError,
    RuntimeError,
    ValueError,
)


@dataclass(frozen=True, slots=True)
class PackagedApplication:
    """An application of a package: `object` in `module`, or `file` in the package.

    `extras`: of the package, whose requirements it needs too.
    """

    name: str
    module: str
    object: str
    file: str | None
    extras: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Package:
    """The metadata of a package. `requirements`: texts of `Requires-Dist`; `tags`: None for any platform.

    `configurations`: files in the package by the names of its configuration sets, the defaults among them.
    """

    path: Path
    sha256: str
    name: str
    version: str
    summary: str
    applications: Mapping[str, PackagedApplication]
    configurations: Mapping[str, str]
    requirements: Sequence[Requirement]
    requires_python: SpecifierSet | None
    tags: frozenset[Any] | None
    modules: frozenset[str]

    @property
    def title(self) -> str:
        """Name and version, for messages."""
        return f"`{self.name}` {self.version}"

    def check_fit(self) -> None:
        """Raise PackageError for a package that cannot run here, with all that it lacks."""
        if misfits := list(self.misfits()):
            raise PackageError(
                f"package {self.title} does not fit here: {'; '.join(misfits)}; get one that is built for it"
            )
        lacking = [need for need in self.needs() if not need.met]
        if lacking:
            found = ", ".join(
                f"`{need.requirement}` ({f'{need.found} is' if need.found else 'not'} installed)"
                for need in lacking
            )
            wanted = " ".join(shlex.quote(need.requirement.partition(";")[0].strip()) for need in lacking)
            raise PackageError(
                f"package {self.title} requires what is not here: {found}; run `pip install {wanted}`"
            )
        for module in sorted(self.modules & sys.modules.keys()):
            where = getattr(sys.modules[module], "__file__", None) or "Python itself"
            raise PackageError(
                f"package {self.title} has a module `{module}`, which is loaded here already from `{where}`; "
                "give it another name"
            )

    def application(self, name: str | None = None) -> PackagedApplication:
        """The application of that name, or the only one. Raises PackageError naming those that there are."""
        if name is None and len(self.applications) == 1:
            return next(iter(self.applications.values()))
        if name is None:
            names = ", ".join(f"`{one}`" for one in self.applications)
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

    def needs(self) -> Iterator[Need]:
        """The requirements that hold for this Python and platform, each with what is installed."""
        extras = {"", *(extra for one in self.applications.values() for extra in one.extras)}
        for one in self.requirements:
            if one.marker is not None and not any(one.marker.evaluate({"extra": extra}) for extra in extras):
                continue
            try:
                found: str | None = importlib.metadata.version(canonicalize_name(one.name))
            except importlib.metadata.PackageNotFoundError:
                found = None
            met = found is not None and one.specifier.contains(found, prereleases=True)
            yield Need(str(one), found, met)


@dataclass(frozen=True, slots=True)
class Need:
    """A requirement that holds here. `found`: the installed version, None if there is none."""

    requirement: str
    found: str | None
    met: bool


def fault(path: Path, what: str, remedy: str) -> PackageError:
    """The error to raise for a package's file."""
    return PackageError(f"package `{path}` {printable(what)}; {remedy}")


def open_package(path: Path) -> Package:
    """Read the metadata of a package. Runs no code of it.

    Raises PackageError for what is damaged, would lie outside of its folder, or has no application.
    """
    with _opened(path) as file:
        paths = _paths_in(path, file)
        if damaged := file.testzip():
            raise fault(path, f"is damaged in `{damaged}`", "build it again, or copy it again")
        info = _info_folder(path, paths)
        metadata = _metadata(path, file, f"{info}/METADATA")
        entries = _entries(path, file, f"{info}/entry_points.txt")
        if not entries[APPLICATIONS]:
            raise fault(
                path,
                f"has no entry point in the group `{APPLICATIONS}`",
                f'name one there: `[project.entry-points."{APPLICATIONS}"]`, `shop = "shop.app:application"`',
            )
        with path.open("rb") as whole:
            digest = hashlib.file_digest(whole, "sha256").hexdigest()
        return Package(
            path,
            digest,
            str(metadata.name),
            str(metadata.version),
            metadata.summary or "",
            {name: _application(path, paths, name, value) for name, value in entries[APPLICATIONS].items()},
            {
                name: _configuration(path, paths, name, value)
                for name, value in entries[CONFIGURATIONS].items()
            },
            tuple(metadata.requires_dist or ()),
            metadata.requires_python,
            _tags(path, metadata),
            _modules(path, paths),
        )


def unpack(path: Path, sha256: str, folder: Path) -> None:
    """Unpack a package into a folder, which is made. Raises PackageError, OSError."""
    with path.open("rb") as opened:
        if hashlib.file_digest(opened, "sha256").hexdigest() != sha256:
            raise fault(path, "is not what it was: its digest differs", "start again")
    folder.mkdir(mode=0o700)
    with _opened(path) as file:
        for target, name in _paths_in(path, file).items():
            place = folder / target
            place.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            with file.open(name) as source, place.open("xb") as copy:
                shutil.copyfileobj(source, copy, 1 << 20)
            place.chmod(0o600)


@contextmanager
def _opened(path: Path) -> Iterator[zipfile.ZipFile]:
    """A package's file, to be read in the block. Raises PackageError if it is none, or damaged."""
    try:
        file = zipfile.ZipFile(path)
    except OSError as error:
        raise fault(
            path, f"cannot be read: {error.strerror or error}", "name a file that you may read"
        ) from None
    except _DAMAGED as error:
        raise fault(
            path, f"is no zip file, or damaged: {error}", "build it again, or copy it again"
        ) from None
    with file:
        try:
            yield file
        except PackageError:
            raise
        except OSError as error:
            if error.errno != errno.EINVAL:  # a place before the file's beginning
                raise
            raise fault(path, "is damaged", "build it again, or copy it again") from None
        except _DAMAGED as error:
            raise fault(path, f"is damaged: {error}", "build it again, or copy it again") from None


def _paths_in(path: Path, file: zipfile.ZipFile) -> dict[str, zipfile.ZipInfo]:
    """The files by their paths in the one folder that is put on the path. Raises PackageError.

    Scripts and headers, which only an installed package has use for, are left out.
    """
    members = [one for one in file.infolist() if not one.is_dir()]
    if sum(one.file_size for one in members) > LARGEST_BYTES:
        raise fault(path, f"has more than {LARGEST_BYTES:,} bytes", "leave data out of it")
    found: dict[str, zipfile.ZipInfo] = {}
    for member in members:
        name = member.filename
        parts = PurePosixPath(name).parts
        if name.startswith("/") or ".." in parts:
            raise fault(path, f"has a file that would lie outside of it: `{name}`", "use another one")
        target = name
        if parts[0].endswith(".data"):
            scheme, target = parts[1:2], "/".join(parts[2:])
            if scheme in {("scripts",), ("headers",)}:
                continue
            if scheme not in {("purelib",), ("platlib",)} or not target:
                raise fault(
                    path,
                    f"has `{name}`, which is for the environment of Python itself",
                    "put data files beside the modules, and read them by `importlib.resources`",
                )
        if target in found:
            raise fault(path, f"has two files for `{target}`", _BUILD)
        found[target] = member
    return found


def _text(path: Path, file: zipfile.ZipFile, name: str) -> str:
    """A file of the metadata; "" if there is none. Raises PackageError."""
    if name not in file.NameToInfo:
        return ""
    if file.getinfo(name).file_size > _LARGEST_DOCUMENT:
        raise fault(path, f"has more than {_LARGEST_DOCUMENT:,} bytes in `{name}`", _BUILD)
    return file.read(name).decode("utf-8")


def _info_folder(path: Path, paths: Iterable[str]) -> str:
    """The one folder of metadata. Raises PackageError."""
    found = {name.partition("/")[0] for name in paths if name.partition("/")[0].endswith(".dist-info")}
    if len(found) != 1:
        what = f"has {len(found)} folders" if found else "has no folder"
        raise fault(path, f"{what} of metadata (`NAME-VERSION.dist-info`)", _BUILD)
    return found.pop()


def _metadata(path: Path, file: zipfile.ZipFile, name: str) -> Metadata:
    """The metadata, which was read as a whole. Raises PackageError."""
    try:
        metadata = Metadata.from_email(_text(path, file, name), validate=False)
        # read now, so checked now
        _ = (
            metadata.name,
            metadata.version,
            metadata.requires_python,
            metadata.requires_dist,
            metadata.summary,
        )
    except (InvalidMetadata, ExceptionGroup, ValueError, TypeError) as error:
        what = str(getattr(error, "__cause__", None) or error).splitlines()[0][:200]
        raise fault(path, f"has metadata that cannot be read: {what}", _BUILD) from None
    if not metadata.name:
        raise fault(path, "has metadata without a name and a version", _BUILD)
    return metadata


def _tags(path: Path, metadata: Metadata) -> frozenset[Any] | None:
    """The platforms in a wheel's file name; None for a zip file. Raises PackageError."""
    if path.suffix.lower() != ".whl":
        return None
    try:
        return parse_wheel_filename(path.name)[3]
    except InvalidWheelFilename:
        example = f"{metadata.name}-{metadata.version}-py3-none-any.whl"
        raise fault(
            path, "has not the file name of a wheel", f"name it as it was built, such as `{example}`"
        ) from None


def _modules(path: Path, paths: Iterable[str]) -> frozenset[str]:
    """The modules and packages on the top level. Raises PackageError for those that would hide others."""
    code = (one for one in paths if one.endswith(tuple(all_suffixes())))
    modules = frozenset(one.partition("/")[0].partition(".")[0] for one in code)
    if clash := sorted(modules & (sys.stdlib_module_names | _RESERVED)):
        whose = "Ridgeline's own or what it needs" if clash[0] in _RESERVED else "one of Python's own"
        raise fault(path, f"has a module `{clash[0]}`, which is {whose}", "give it another name")
    return modules


def _entries(path: Path, file: zipfile.ZipFile, name: str) -> dict[str, dict[str, str]]:
    """The entry points of applications and of configurations, by name. Raises PackageError."""
    parser = configparser.ConfigParser(delimiters="=", interpolation=None)
    parser.optionxform = str  # type: ignore[assignment,method-assign]  # names keep their capitals
    try:
        parser.read_string(_text(path, file, name))
    except configparser.Error as error:
        raise fault(
            path, f"has entry points that cannot be read: {str(error).splitlines()[0]}", _BUILD
        ) from None
    return {
        group: dict(sorted(parser.items(group))) if parser.has_section(group) else {}
        for group in (APPLICATIONS, CONFIGURATIONS)
    }


def _entry(path: Path, name: str, value: str) -> re.Match[str]:
    found = _ENTRY.fullmatch(value.strip())
    if found is None:
        raise fault(path, f"has an entry point `{name}` with `{value[:80]}`", _NAMED)
    return found


def _file(path: Path, paths: Iterable[str], name: str, entry: re.Match[str]) -> str:
    """The file of the package that an entry point names. Raises PackageError."""
    wanted = f"{entry['module'].replace('.', '/')}/{entry['object']}"
    if wanted not in paths:
        raise fault(path, f"has an entry point `{name}` for `{wanted}`, which it has not", _NAMED)
    return wanted


def _application(path: Path, paths: Iterable[str], name: str, value: str) -> PackagedApplication:
    """The application of an entry point. Raises PackageError."""
    entry = _entry(path, name, value)
    module, named = entry["module"], entry["object"]
    extras = tuple(one.strip() for one in (entry["extras"] or "").split(",") if one.strip())
    if form_of(named) is not None:
        return PackagedApplication(name, module, named, _file(path, paths, name, entry), extras)
    base = module.replace(".", "/")
    if not any(one.startswith((f"{base}.", f"{base}/")) for one in paths):
        raise fault(path, f"has an entry point `{name}` for `{module}`, which it has not", _NAMED)
    return PackagedApplication(name, module, named, None, extras)


def _configuration(path: Path, paths: Iterable[str], name: str, value: str) -> str:
    """The configuration that an entry point names, by its path in the package. Raises PackageError."""
    entry = _entry(path, name, value)
    if form_of(entry["object"]) is None:
        what = f"has an entry point `{name}` for configuration with `{value}`"
        raise fault(path, what, "name a file: `package:FILE.yaml`")
    return _file(path, paths, name, entry)
