"""Where the files of a package are when it is unpacked, and which modules that makes."""

from __future__ import annotations

from collections.abc import Iterable
from importlib.machinery import all_suffixes

from ridgeline.packages.zipped import ZippedFiles, fault

_MODULES = ("purelib", "platlib")
_UNUSED = ("headers", "scripts")


def unpacked_paths(files: ZippedFiles) -> dict[str, str]:
    """The path of each file by its name, all from the one folder that is put on the path.

    Scripts and headers, which only an installed package has use for, are left out. Raises PackageError.
    """
    found: dict[str, str] = {}
    for name in files.names:
        first, _, rest = name.partition("/")
        if not first.endswith(".data"):
            found[name] = name
            continue
        scheme, _, path = rest.partition("/")
        if scheme in _MODULES and path:
            found[name] = path
        elif scheme not in _UNUSED:
            remedy = "put data files beside the modules, and read them by `importlib.resources`"
            raise fault(files.path, f"has `{name}`, which is for the environment of Python itself", remedy)
    if len(set(found.values())) < len(found):
        raise fault(files.path, "has two files for one place", "build it again")
    return found


def importable(paths: Iterable[str]) -> frozenset[str]:
    """The names of the modules and packages on the top level."""
    names = set()
    for path in paths:
        if any(path.endswith(suffix) for suffix in all_suffixes()):
            first = path.partition("/")[0]
            names.add(first.partition(".")[0])
    return frozenset(names)
