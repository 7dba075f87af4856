"""The operators that sources of Python define, found without running them."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from importlib import import_module
from pathlib import Path
from typing import NamedTuple

from ridgeline.api.operator import Operator
from ridgeline.packages.zipped import LARGEST_DOCUMENT, ZippedFiles, unpacked_paths


class FoundOperator(NamedTuple):
    """An operator: `module.Class`, and the first paragraph of its docstring."""

    name: str
    doc: str


def operators_of_package(path: Path) -> list[FoundOperator]:
    """The operators that a package defines. Raises PackageError."""
    with ZippedFiles(path) as files:
        return operators_in(
            {
                ".".join(Path(to).with_suffix("").parts): files.read(name)
                for name, to in unpacked_paths(files).items()
                if to.endswith(".py")
            }
        )


def operators_of_file(path: Path) -> list[FoundOperator]:
    """The operators that a Python file defines, also from bases in the files beside it. Raises OSError."""
    found = operators_in({one.stem: one.read_bytes() for one in path.parent.glob("*.py")})
    return [one for one in found if one.name.startswith(f"{path.stem}.")]


def operators_in(sources: Mapping[str, bytes]) -> list[FoundOperator]:
    """The operators of modules, by the modules' names. What cannot be parsed has none."""
    classes: dict[str, ast.ClassDef] = {}
    names: dict[str, str] = {}
    for file, source in sources.items():
        module = file.removesuffix(".__init__")
        try:
            tree = ast.parse(source[:LARGEST_DOCUMENT])
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            continue
        for node in tree.body:
            if isinstance(node, ast.ClassDef):
                classes[f"{module}.{node.name}"] = node
            elif isinstance(node, (ast.Import, ast.ImportFrom)):
                names |= {f"{module}.{local}": full for local, full in _imported(file, node)}
    return [
        FoundOperator(name, " ".join((ast.get_docstring(node) or "").partition("\n\n")[0].split()))
        for name, node in sorted(classes.items())
        if not node.name.startswith("_") and _is_operator(name, classes, names, frozenset())
    ]


def _imported(file: str, node: ast.Import | ast.ImportFrom) -> Iterator[tuple[str, str]]:
    """The local and the full names of what is imported."""
    for one in node.names:
        if isinstance(node, ast.Import):
            first = one.name.partition(".")[0]
            yield one.asname or first, one.name if one.asname else first
        else:
            above = file.split(".")[: -node.level] if node.level else []
            yield one.asname or one.name, ".".join([*above, *filter(None, [node.module]), one.name])


def _is_operator(
    name: str, classes: Mapping[str, ast.ClassDef], names: Mapping[str, str], seen: frozenset[str]
) -> bool:
    """Whether a full name is that of an operator: of the library, or of a class that derives from one."""
    if name in seen:
        return False
    if name in classes:
        module = name.rpartition(".")[0]
        bases = (ast.unparse(base).partition("[")[0] for base in classes[name].bases)
        return any(_is_operator(f"{module}.{base}", classes, names, seen | {name}) for base in bases)
    for known in sorted((one for one in names if f"{name}.".startswith(f"{one}.")), key=len, reverse=True):
        return _is_operator(names[known] + name[len(known) :], classes, names, seen | {name})
    module, _, last = name.rpartition(".")
    if module.partition(".")[0] != "ridgeline":
        return False
    found = getattr(import_module(module), last, None)
    return isinstance(found, type) and issubclass(found, Operator)
