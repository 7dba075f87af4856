"""Write docs/operators.md from docstrings, ports and properties: `python scripts/write_operators_page.py`."""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import Any

from pydantic.fields import FieldInfo

import ridgeline.operators
from ridgeline.api.columns.schema import Schema
from ridgeline.api.module import Module
from ridgeline.api.operator import REQUIRED, Operator, Unifier, operator_type
from ridgeline.cli.library import connectors

PAGE = Path(__file__).parents[1] / "docs" / "operators.md"
HEAD = """# The library of operators

One section per file of `ridgeline.operators` and room of `ridgeline.connectors`, made from the code by
`python scripts/write_operators_page.py`. `ridgeline library --describe NAME` says all of one: what its inputs
and outputs have, its state, its partitions, and an example. Defaults of properties are in brackets.
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
        sections.setdefault(package, [f"`from {one.module} import ...`\n\n"]).append(_describe(one.thing))
    return HEAD + "".join(f"\n## {stem}\n\n" + "\n".join(parts) for stem, parts in sorted(sections.items()))


def _describe(kind: type[Operator | Module]) -> str:
    declared = operator_type(kind)
    description = (inspect.getdoc(kind) or "").partition("\n\n")[0]
    text = f"`{kind.__name__}`: {description}\n"
    ports = [f"in `{name}`{_schema(port.declared)}" for name, port in declared.inputs.items()]
    ports += [f"out `{name}`{_schema(port.declared)}" for name, port in declared.outputs.items()]
    text += f"\n| ports | {', '.join(ports)} |\n|---|---|\n"
    properties = [
        f"`{name}` ({_default(default)})"
        for name, default in declared.properties.items()
        if name != "context"
    ]
    return text + (f"| properties | {', '.join(properties)} |\n" if properties else "")


def _schema(declared: Any) -> str:
    return "" if declared is Any else f" ({Schema(declared).describe()})"


def _default(default: Any) -> str:
    if isinstance(default, FieldInfo):
        default = REQUIRED if default.is_required() else default.get_default(call_default_factory=True)
    return "required" if default is REQUIRED else f"`{default!r}`"


if __name__ == "__main__":
    PAGE.write_text(render())
