"""The applications and configuration sets that a package's entry points name, read without running them."""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.metadata import EntryPoint

from ridgeline.packages.zipped import LARGEST_DOCUMENT, ZippedFiles, fault
from ridgeline.plan.spec.form import FormError, form_of
from ridgeline.plan.spec.texts import decode, read_document

APPLICATIONS = "ridgeline.applications"
"""The group of entry points: `shop = "shop.app:application"`, or `shop = "shop:shop.yaml"` for a file."""
CONFIGURATIONS = "ridgeline.configurations"
"""The group of entry points that name configuration: `production = "shop:production.yaml"`."""
DEFAULTS = "defaults"
"""The configuration set that always holds."""
_VALUE = re.compile(r"(?P<module>\w+(\.\w+)*):(?P<object>[\w-]+(\.[\w-]+)*)")
_EXTRAS = re.compile(r"\s*\[.*\]\s*$")
_REMEDY = "write `package.module:function`, or `package:FILE.yaml` for a file in the package"


@dataclass(frozen=True, slots=True)
class PackagedApplication:
    """An application of a package: `object` in `module`, or `file` in the package. `doc`: what it is for.

    `extras`: of the package, whose requirements it needs too.
    """

    name: str
    module: str
    object: str
    file: str | None
    doc: str
    extras: tuple[str, ...] = ()


def application_of(files: ZippedFiles, paths: Mapping[str, str], entry: EntryPoint) -> PackagedApplication:
    """The application of an entry point. `paths`: of the package's files by name. Raises PackageError."""
    module, named = _parts(files, entry)
    extras = tuple(entry.extras) if _EXTRAS.search(entry.value) else ()
    if form_of(named) is not None:
        name = _file_of(files, paths, entry, module, named)
        return PackagedApplication(entry.name, module, named, paths[name], _description(files, name), extras)
    base = module.replace(".", "/")
    source = {path: name for name, path in paths.items()}
    name = source.get(f"{base}.py") or source.get(f"{base}/__init__.py") or ""
    if not name and not any(path.startswith((f"{base}.", f"{base}/")) for path in source):
        raise fault(
            files.path, f"has an entry point `{entry.name}` for `{module}`, which it has not", _REMEDY
        )
    return PackagedApplication(entry.name, module, named, None, _docstring(files, name, named), extras)


def configuration_of(files: ZippedFiles, paths: Mapping[str, str], entry: EntryPoint) -> str:
    """The path, within the package, of the configuration that an entry point names. Raises PackageError."""
    module, named = _parts(files, entry)
    if form_of(named) is None:
        raise fault(
            files.path,
            f"has an entry point `{entry.name}` for configuration with `{entry.value}`",
            "name a file: `package:FILE.yaml`",
        )
    return paths[_file_of(files, paths, entry, module, named)]


def _parts(files: ZippedFiles, entry: EntryPoint) -> tuple[str, str]:
    found = _VALUE.fullmatch(_EXTRAS.sub("", entry.value).strip())
    if found is None:
        raise fault(files.path, f"has an entry point `{entry.name}` with `{entry.value[:80]}`", _REMEDY)
    return found["module"], found["object"]


def _file_of(files: ZippedFiles, paths: Mapping[str, str], entry: EntryPoint, module: str, named: str) -> str:
    wanted = f"{module.replace('.', '/')}/{named}"
    for name, path in paths.items():
        if path == wanted:
            return name
    raise fault(files.path, f"has an entry point `{entry.name}` for `{wanted}`, which it has not", _REMEDY)


def _description(files: ZippedFiles, name: str) -> str:
    """The description in a specification. Raises PackageError if it cannot be read."""
    form = form_of(name)
    if form is None:
        return ""
    try:
        found = read_document(decode(files.read(name)), form).get("description", "")
    except FormError as error:
        where = name if error.line is None else f"{name}:{error.line}"
        raise fault(
            files.path, f"has a specification that cannot be read, `{where}`: {error.what}", error.remedy
        ) from None
    return _first_paragraph(found) if isinstance(found, str) else ""


def _docstring(files: ZippedFiles, name: str, named: str) -> str:
    """The first paragraph of the docstring of a function, else of its module; "" if there is none."""
    if not name or not name.endswith(".py"):
        return ""
    try:
        tree = ast.parse(files.read(name)[:LARGEST_DOCUMENT])
        for node in tree.body:
            if isinstance(node, ast.FunctionDef) and node.name == named and (doc := ast.get_docstring(node)):
                return _first_paragraph(doc)
        return _first_paragraph(ast.get_docstring(tree) or "")
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return ""  # running it says what is wrong


def _first_paragraph(text: str) -> str:
    return " ".join(text.strip().partition("\n\n")[0].split())[:500]
