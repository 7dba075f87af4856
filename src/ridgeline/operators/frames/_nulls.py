"""Whether a polars expression can be null, given which columns can."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

_NULL_ONLY_OF_NULL = frozenset(
    {"Plus", "Minus", "Multiply", "TrueDivide", "Eq", "NotEq", "Lt", "LtEq", "Gt", "GtEq", "And", "Or", "Xor"}
)
"""Operators that give null only where an operand is null."""
_NEVER_NULL_OPERATORS = frozenset({"EqValidity", "NotEqValidity"})
_COMPARED = frozenset({"Eq", "NotEq", "Lt", "LtEq", "Gt", "GtEq"})
_STRICT = frozenset({"Not", "IsFinite", "IsInfinite", "IsNan", "IsNotNan"})
_TEXT = frozenset({"LenChars", "LenBytes", "Lowercase", "Uppercase", "StartsWith", "EndsWith", "Titlecase"})
_TIME = frozenset({"Year", "Month", "Day", "Hour", "Minute", "Second", "WeekDay", "OrdinalDay", "Quarter"})
_NUMBER = frozenset({"Abs", "Negate"})


def never_null(node: Any, sure: Collection[str]) -> bool:  # noqa: PLR0911  a case each
    """True if an expression is never null. `node`: see `tree`; `sure`: the columns that are never null.

    False where it is not known.
    """
    if not isinstance(node, dict) or len(node) != 1:
        return False
    ((kind, part),) = node.items()
    match kind:
        case "Column":
            return part in sure
        case "Alias":
            return never_null(part[0], sure)
        case "Literal":
            return "Dyn" in part or ("Scalar" in part and "Null" not in part["Scalar"])
        case "BinaryExpr":
            if part["op"] in _NEVER_NULL_OPERATORS:
                return True
            both = never_null(part["left"], sure) and never_null(part["right"], sure)
            return part["op"] in _NULL_ONLY_OF_NULL and both
        case "Ternary":
            return never_null(part["truthy"], sure) and never_null(part["falsy"], sure)
        case "Cast":
            return part["options"] == "Strict" and never_null(part["expr"], sure)
        case "Function":
            return _function(part["function"], part["input"], sure)
    return False


def _function(name: Any, arguments: list[Any], sure: Collection[str]) -> bool:
    """`never_null` of a function, by its name in the tree: a text, or a text within its group."""
    if name in ("FillNull", "Coalesce"):
        return any(never_null(argument, sure) for argument in arguments)
    every = all(never_null(argument, sure) for argument in arguments)
    if isinstance(name, str):
        return every and name in _NUMBER
    if isinstance(name, dict) and len(name) == 1:
        ((group, own),) = name.items()
        if group == "Sql":
            return every and own in ({"Binary": "Div"}, {"Binary": "Mul"})
        if group == "Boolean" and own in ("IsNull", "IsNotNull"):
            return True
        known = {"Boolean": _STRICT, "StringExpr": _TEXT, "TemporalExpr": _TIME}.get(group, frozenset())
        return every and isinstance(own, str) and own in known
    return False


def sure_after(node: Any) -> set[str]:
    """The columns that cannot be null in rows for which a predicate is true."""
    if not isinstance(node, dict) or len(node) != 1:
        return set()
    ((kind, part),) = node.items()
    if kind == "Column":
        return {part}
    if kind == "Function" and part["function"] == {"Boolean": "IsNotNull"}:
        return sure_after(part["input"][0]) if "Column" in part["input"][0] else set()
    if kind == "BinaryExpr" and part["op"] == "And":
        return sure_after(part["left"]) | sure_after(part["right"])
    if kind == "BinaryExpr" and part["op"] in _COMPARED:
        sides = (part["left"], part["right"])
        return {side["Column"] for side in sides if isinstance(side, dict) and "Column" in side}
    return set()
