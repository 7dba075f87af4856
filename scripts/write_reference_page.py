"""Write docs/guide/reference.md from the code: `python scripts/write_reference_page.py`."""

from __future__ import annotations

import enum
import inspect
import typing
from pathlib import Path
from types import NoneType, UnionType
from typing import Any

from pydantic.fields import FieldInfo

import ridgeline.operators
from ridgeline.api.operator import REQUIRED, Operator, Unifier, operator_type
from ridgeline.api.support.properties import property_types

PAGE = Path(__file__).parents[1] / "docs" / "guide" / "reference.md"
HEAD = """# Reference: properties

Made from the code by `python scripts/write_reference_page.py`. How they are set:
[configuration.md](configuration.md). Attributes: [attributes.md](../attributes.md).
"""
PROPERTIES = """
## Properties of the library's operators

`-D OPERATOR.PROPERTY=VALUE`. What each does: [operators.md](../operators.md).
"""


def render() -> str:
    """The page's text."""
    text = HEAD + PROPERTIES
    for name in sorted(ridgeline.operators.__all__):
        kind = getattr(ridgeline.operators, name)
        if inspect.isclass(kind) and issubclass(kind, Operator) and not issubclass(kind, Unifier):
            text += _properties(kind)
    return text


def _properties(kind: type[Operator]) -> str:
    declared = operator_type(kind).properties
    types = property_types(kind)
    rows = [
        f"| `{name}` | {_type(types[name])} | {_default(default)} | {_rule(default)} |"
        for name, default in declared.items()
        if name in types
    ]
    if not rows:
        return f"\n### {kind.__name__}\n\nIt has no properties.\n"
    return (
        f"\n### {kind.__name__}\n\n| property | type | default | rule |\n|---|---|---|---|\n"
        + "\n".join(rows)
        + "\n"
    )


def _type(kind: Any) -> str:
    text = "any" if kind is Any else f"`{_plain(kind)}`"
    return text.replace("|", "\\|").replace(NoneType.__name__, "None")


def _plain(kind: Any) -> str:
    """A type without what checks its values."""
    if typing.get_origin(kind) is typing.Annotated:
        return _plain(typing.get_args(kind)[0])
    if typing.get_origin(kind) in (typing.Union, UnionType):
        return " | ".join(map(_plain, typing.get_args(kind)))
    text = kind.__name__ if isinstance(kind, type) and not typing.get_args(kind) else str(kind)
    for module in ("typing.", "collections.abc.", "pathlib.", "pyarrow.lib.", "ridgeline.operators."):
        text = text.replace(module, "")
    return text


def _default(default: Any) -> str:
    if isinstance(default, FieldInfo):
        default = REQUIRED if default.is_required() else default.get_default(call_default_factory=True)
    return "required" if default is REQUIRED else _value(default)


def _value(value: Any) -> str:
    if value is None:
        return ""
    return f"`{value.name}`" if isinstance(value, enum.Enum) else f"`{value!r}`"


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
    return ", ".join(found)


if __name__ == "__main__":
    PAGE.write_text(render())
