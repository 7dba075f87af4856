"""The commands that say what is in the library of operators."""

from __future__ import annotations

import inspect
import pkgutil
import re
import textwrap
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any, NamedTuple

from pydantic.fields import FieldInfo

from ridgeline.cli.errors import CommandError
from ridgeline.cli.grouping import option
from ridgeline.cli.output import answer


class Entry(NamedTuple):
    """An operator or a function of the library: its name, its kind, its documentation, where it is from."""

    name: str
    kind: str
    thing: Any
    module: str = "ridgeline.operators"

    @property
    def doc(self) -> str:
        """The docstring, without its example."""
        return (inspect.getdoc(self.thing) or "").partition("\n\nExample:\n")[0]

    @property
    def summary(self) -> str:
        """The first sentence."""
        first = " ".join(self.doc.partition("\n\n")[0].split())
        return first.partition(". ")[0].rstrip(".")

    def matches(self, words: list[str]) -> bool:
        """Whether all words are in the name or the documentation."""
        text = f"{self.name} {self.doc}".lower()
        return all(word in text for word in words)


def entries() -> Iterator[Entry]:
    """The operators, the kinds of windows, the aggregates and what makes up records, in this order."""
    import ridgeline.operators
    from ridgeline.api import Module, Operator, Unifier
    from ridgeline.operators import aggregate, generators

    functions = []
    for name in ridgeline.operators.__all__:
        thing = getattr(ridgeline.operators, name)
        if inspect.isclass(thing):
            if issubclass(thing, (Operator, Module)) and not issubclass(thing, Unifier):
                yield Entry(name, "operator", thing)
        elif inspect.isfunction(thing):
            functions.append(Entry(name, "function", thing))
    yield from connectors()
    yield from functions
    for name in aggregate.__all__:
        if name[0].islower():
            yield Entry(f"aggregate.{name}", "aggregate", getattr(aggregate, name))
    for name, thing in sorted(vars(generators).items()):
        if inspect.isfunction(thing) and thing.__module__ == generators.__name__ and name[0].islower():
            yield Entry(f"generators.{name}", "generator", thing)


def connectors() -> Iterator[Entry]:
    """The operators of outside systems, each imported from the room of its connector."""
    import ridgeline.connectors
    from ridgeline.api import Operator

    for one in pkgutil.iter_modules(ridgeline.connectors.__path__):
        package = import_module(f"ridgeline.connectors.{one.name}")
        for name in package.__all__:
            thing = getattr(package, name)
            if issubclass(thing, Operator):
                yield Entry(name, "operator", thing, package.__name__)


def entries_of(source: str) -> Iterator[Entry]:
    """The operators that a Python file or a package defines. Raises CommandError, PackageError."""
    from ridgeline.api import Operator
    from ridgeline.cli.load import modules_of

    if not Path(source).is_file():
        raise CommandError(f"there is no file `{source}`; name a Python file or a package")
    for module in modules_of(Path(source)):
        for name, thing in vars(module).items():
            own = inspect.isclass(thing) and thing.__module__ == module.__name__
            if own and issubclass(thing, Operator) and not name.startswith("_"):
                yield Entry(f"{module.__name__}.{name}", "operator", thing, module.__name__)


def library(
    search: list[str] | None = None,
    *,
    source: Annotated[str | None, option(called="--from")] = None,
    describe: str | None = None,
    package: str | None = None,
    attributes: bool = False,
    as_json: Annotated[bool, option(called="--json")] = False,
) -> None:
    """List or describe operators, packages, attributes.

    The operators of the library, its windows and aggregates; with words those that say them. Those that have
    the words in their names come first. Only `--from` runs code of a package.

    Examples: `ridgeline library window`, `ridgeline library --describe Windowed`,
    `ridgeline library --attributes`, `ridgeline library --from shop.py`

    Exit codes: 0 done, also if nothing is found, 2 there is no such operator or package.

    Args:
        search ([SEARCH]...): Words that all must be there.
        source (FILE): List the operators of a Python file or a package, whose code runs.
        describe (NAME): Describe one: what it does, its ports and properties, and an example.
        package (FILE): Show what a package (`.whl`, `.zip`) is and has, and whether what it requires is here.
        attributes: List all attributes: what each can be given to, what it takes, its default, what it does.
        as_json: Print JSON instead of text.
    """
    if describe is not None:
        _describe(describe, as_json=as_json)
        return
    if package is not None:
        from ridgeline.cli.packages import show_package

        show_package(package, as_json=as_json)
        return
    if attributes:
        _list_attributes(as_json=as_json)
        return
    words = [word.lower() for word in search or ()]
    listed = entries() if source is None else entries_of(source)
    found = [(one.name, one.kind, one.summary) for one in listed if one.matches(words)]
    found.sort(key=lambda one: not all(word in one[0].lower() for word in words))
    rows = [dict(zip(("name", "kind", "summary"), one, strict=True)) for one in found]
    width = max((len(name) for name, _, _ in found), default=0)
    lines = [f"{name:{width}}  {summary}".rstrip() for name, _, summary in found]
    none = f"nothing in {source or 'the library'} says {' '.join(words)}"
    answer(rows, lines or [none], as_json=as_json)


def _list_attributes(*, as_json: bool) -> None:
    """List all attributes."""
    from ridgeline.api.attributes import ATTRIBUTES
    from ridgeline.api.support.attribute import Scope

    rows: list[dict[str, Any]] = [
        {
            "name": name,
            "scopes": [one for one in Scope if one in attribute.scopes],
            "takes": attribute.takes,
            "default": attribute.default_text or None,
            "help": attribute.help,
        }
        for name, attribute in sorted(ATTRIBUTES.items())
    ]
    lines = []
    for row in rows:
        default = f"; default: {row['default']}" if row["default"] else ""
        lines.append(
            f"{row['name']} ({', '.join(row['scopes'])}): {row['takes']}{default}\n    {row['help']}"
        )
    answer(rows, lines, as_json=as_json)


def _describe(name: str, *, as_json: bool) -> None:
    """Describe an entry of the library. Raises CommandError for an unknown one."""
    from ridgeline.api.errors import did_you_mean

    known = {one.name.lower(): one for one in entries()}
    places = ("", "aggregate.", "generators.")
    one = next(
        (known[f"{place}{name.lower()}"] for place in places if f"{place}{name.lower()}" in known), None
    )
    if one is None:
        hint = did_you_mean(name, [entry.name for entry in known.values()])
        raise CommandError(f"there is no `{name}` in the library; {hint}")
    described = _described(one)
    answer(described, _lines(described), as_json=as_json)


def _described(one: Entry) -> dict[str, Any]:
    """All that is known of an entry, as plain data."""
    from ridgeline.api.columns.schema import Schema
    from ridgeline.api.operator import operator_type

    example = (inspect.getdoc(one.thing) or "").partition("\n\nExample:\n")[2]
    found: dict[str, Any] = {
        "name": one.name,
        "import": f"from {one.module} import {one.name.partition('.')[0]}",
        "description": one.doc,
    }
    if one.kind == "operator":
        declared = operator_type(one.thing)
        ports = {"inputs": declared.inputs, "outputs": declared.outputs}
        for what, given in ports.items():
            found[what] = {
                port: None if declaration.declared is Any else Schema(declaration.declared).describe()
                for port, declaration in given.items()
            }
        found["properties"] = {
            name: _default(default) for name, default in declared.properties.items() if name != "context"
        }
        found["inherited"] = _inherited(one.thing, list(found["properties"]))
    else:
        signature = inspect.signature(one.thing)
        shown = str(signature.replace(return_annotation=inspect.Signature.empty))
        found["call"] = one.name + re.sub(r": '([^']*)'", r": \1", shown)
    return {**found, "example": textwrap.dedent(example).strip()}


def _inherited(thing: type, properties: list[str]) -> str:
    """The paragraphs about these properties in the documentation of the connector that a class is one of."""
    for base in thing.__mro__[1:]:
        if base.__module__.startswith("ridgeline.connect."):
            paragraphs = (inspect.getdoc(base) or "").partition("\n\nExample:\n")[0].split("\n\n")
            if own := [text for text in paragraphs if any(f"`{name}" in text for name in properties)]:
                return "\n\n".join(own)
    return ""


def _default(default: Any) -> str | None:
    """The text of a default; None of a property that must be given."""
    from ridgeline.api.operator import REQUIRED

    if isinstance(default, FieldInfo):
        default = REQUIRED if default.is_required() else default.get_default(call_default_factory=True)
    return None if default is REQUIRED else repr(default)


def _lines(described: dict[str, Any]) -> list[str]:
    """A description as the terminal shows it."""
    lines = [described["name"], "", described["description"], "", described["import"]]
    if "call" in described:
        lines += ["", described["call"]]
    for what in ("inputs", "outputs"):
        if described.get(what):
            lines += ["", f"{what}:"]
            lines += [
                f"  {port}{f': {schema}' if schema else ''}" for port, schema in described[what].items()
            ]
    if described.get("properties"):
        lines += ["", "properties:"]
        lines += [
            f"  {name}: {'required' if default is None else f'default {default}'}"
            for name, default in described["properties"].items()
        ]
    if described.get("inherited"):
        lines += ["", "properties of all such connectors:", "", described["inherited"]]
    if described["example"]:
        lines += ["", "example:", *textwrap.indent(described["example"], "  ").splitlines()]
    return lines
