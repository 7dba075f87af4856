"""Write docs/operators.md from docstrings, ports and properties: `python scripts/write_operators_page.py`."""

from __future__ import annotations

import enum
import inspect
import typing
from pathlib import Path
from types import NoneType, UnionType
from typing import Any

from pydantic.fields import FieldInfo

import ridgeline.operators
from ridgeline.api.columns.schema import Schema
from ridgeline.api.module import Module
from ridgeline.api.operator import REQUIRED, Operator, Unifier, operator_type
from ridgeline.api.support.properties import property_types
from ridgeline.cli.library import connectors
from ridgeline.connect import PartitionedInput, PartitionedOutput

PAGE = Path(__file__).parents[1] / "docs" / "operators.md"
BASES = (PartitionedInput, PartitionedOutput)
"""Their properties are described once."""
USUAL = {"in `input`", "out `output`"}
"""Ports that are not listed."""
HEAD = """# The library of operators

```
ridgeline library window               # those that say this word
ridgeline library --describe Windowed  # all of one: ports, state, partitions, and an example
ridgeline run app.py -D totals.lateness=5s
```

One section per file of `ridgeline.operators` and room of `ridgeline.connectors`, made from the code by
`python scripts/write_operators_page.py`. Ports are `input` and `output` unless others are listed. A property
without a default is required, or None where it may be. [Configuration](guide/configuration.md) says how they
are set.

"""


def render() -> str:
    """The page's text."""
    sections: dict[str, list[str]] = {}
    for name in ridgeline.operators.__all__:
        kind = getattr(ridgeline.operators, name)
        if inspect.isclass(kind) and issubclass(kind, (Operator, Module)) and not issubclass(kind, Unifier):
            sections.setdefault(kind.__module__.rpartition(".")[2], []).append(_describe(kind))
    for one in connectors():
        package = one.module.rpartition(".")[2]
        sections.setdefault(package, [f"`from {one.module} import ...`\n"]).append(_describe(one.thing))
    shared = "".join(f"- of each `{base.__name__}`: {', '.join(_properties(base))}\n" for base in BASES)
    return (
        HEAD
        + shared
        + "".join(f"\n## {stem}\n\n" + "\n".join(parts) for stem, parts in sorted(sections.items()))
    )


def _describe(kind: type[Operator | Module]) -> str:
    declared = operator_type(kind)
    description = (inspect.getdoc(kind) or "").partition("\n\n")[0]
    ports = [f"in `{name}`{_schema(port.declared)}" for name, port in declared.inputs.items()]
    ports += [f"out `{name}`{_schema(port.declared)}" for name, port in declared.outputs.items()]
    own = _properties(kind)
    for base in BASES:
        if issubclass(kind, base):
            given = _properties(base)
            rest = f"those of each `{base.__name__}`"
            own = [one for one in own if one not in given]
            own = [f"{', '.join(own)}. Also {rest}" if own else rest]
    facts = [] if set(ports) <= USUAL else [f"- ports: {', '.join(ports)}\n"]
    facts += [f"- properties: {', '.join(own)}\n"] if own else []
    return f"`{kind.__name__}`: {description}\n" + "".join(["\n", *facts] if facts else [])


def _schema(declared: Any) -> str:
    return "" if declared is Any else f" ({Schema(declared).describe()})"


def _properties(kind: type[Operator | Module]) -> list[str]:
    types = property_types(kind)
    return [
        f"`{name}: {(kind_of := _type(types[name]))}{_default(default, kind_of)}`{_rule(default)}"
        for name, default in operator_type(kind).properties.items()
        if name in types
    ]


def _type(kind: Any) -> str:
    """A type without what checks its values."""
    if kind is Any:
        return "any"
    if typing.get_origin(kind) is typing.Annotated:
        return _type(typing.get_args(kind)[0])
    if typing.get_origin(kind) in (typing.Union, UnionType):
        return "|".join(map(_type, typing.get_args(kind)))
    if typing.get_origin(kind) is typing.Literal:
        return "|".join(map(repr, typing.get_args(kind)))
    text = kind.__name__ if isinstance(kind, type) and not typing.get_args(kind) else str(kind)
    for module in ("typing.", "collections.abc.", "pathlib.", "pyarrow.lib.", "ridgeline.operators."):
        text = text.replace(module, "")
    return text.replace(" | ", "|").replace(NoneType.__name__, "None")


def _default(default: Any, kind: str) -> str:
    if isinstance(default, FieldInfo):
        default = REQUIRED if default.is_required() else default.get_default(call_default_factory=True)
    if default is REQUIRED or (default is None and kind.endswith("None")):
        return ""
    return f" = {default.name if isinstance(default, enum.Enum) else repr(default)}"


def _rule(default: Any) -> str:
    """What pydantic checks beside the type."""
    rules = default.metadata if isinstance(default, FieldInfo) else ()
    signs = {
        "gt": ">",
        "ge": ">=",
        "lt": "<",
        "le": "<=",
        "min_length": "length >=",
        "max_length": "length <=",
    }
    found = [
        f"{sign} {getattr(rule, name)}"
        for rule in rules
        for name, sign in signs.items()
        if getattr(rule, name, None) is not None
    ]
    return f" ({', '.join(found)})" if found else ""


if __name__ == "__main__":
    PAGE.write_text(render())
