"""Wider types: what makes values of a narrower type those of a wider one, as ints become floats.

Whether a type is wider is decided by its shape (`state_shapes`), so before anything is read.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ridgeline.api.errors import shorten
from ridgeline.api.support.pickling import class_name
from ridgeline.plan.change.state_shapes import (
    ANY,
    LITERAL,
    arguments_of,
    head_of,
    literal_text,
    members,
    without_literals,
)

Function = Callable[[Any], Any]
WIDER: Mapping[str, Sequence[str]] = {"int": ("float",), "bool": ("int", "float")}
"""The types that a type may become, each value exactly."""
_HEADS: Mapping[str, type] = {
    one.__name__: one for one in (int, float, bool, str, bytes, list, tuple, set, frozenset, dict)
}
_REMEDY = "declare the type that it has, or convert it by a function"


def as_float(value: Any) -> Any:
    """An int as a float; another value as it is. Raises ValueError for one that no float equals."""
    if type(value) not in {int, bool}:
        return value
    try:
        found = float(value)
    except OverflowError:
        found = float("inf")
    if found != value:
        raise ValueError(f"{value} cannot be a float: none is equal to it; convert it by a function")
    return found


def as_int(value: Any) -> Any:
    """A bool as an int; another value as it is."""
    return int(value) if type(value) is bool else value


_TO: Mapping[str, Function] = {"float": as_float, "int": as_int}


def widener(old: Any, new: Any) -> Function | None:
    """The function that makes values of one type those of a wider one; None if they stay as they are.

    Types that are not known to be wider stay as they are: whether one may become another is decided before.
    Where a Literal is and its values' type was, the function raises ValueError for other values.
    """
    if old == new or ANY in (old, new):
        return None
    look = _literals_of(new, old)
    olds, news = (
        [one[1] if head_of(one) == LITERAL else one for one in members(kind)] for kind in (old, new)
    )
    found = {}
    for one in olds:
        head = head_of(one)
        kind = _HEADS.get(head)
        if kind is None:
            continue
        same = next((other for other in news if head_of(other) == head), None)
        function = _one(one, same, news)
        if function is not None:
            found[kind] = function
    if not found:
        return look

    def widened(value: Any) -> Any:
        function = found.get(type(value))
        value = value if function is None else function(value)
        return value if look is None else look(value)

    return widened


def looks(old: Any, new: Any) -> bool:
    """Whether values of one type are looked at, as some of them may be none of the other."""
    return old == ANY or _literals_of(new, old) is not None


def _literals_of(new: Any, old: Any = ANY) -> Function | None:
    """The function that raises ValueError for values that are none of the Literals of a type.

    None where all fit that are of the type that was, or where its Literals have no part.
    """
    kinds = members(new)
    allowed: dict[str, set[str]] = {}
    for one in kinds:
        if head_of(one) == LITERAL and one[1] not in kinds:
            allowed.setdefault(one[1], set()).add(one[2])
    if old != ANY:
        plain = {head_of(one) for one in members(old)}
        plain.update(*(WIDER.get(one, ()) for one in list(plain)))
        allowed = {kind: values for kind, values in allowed.items() if kind in plain}
    if not allowed:
        return None
    text = " | ".join(one[2] if head_of(one) == LITERAL else head_of(one) for one in kinds)

    def looked(value: Any) -> Any:
        values = allowed.get("None" if value is None else class_name(type(value)))
        if values is not None and literal_text(value) not in values:
            raise ValueError(f"{shorten(value)} is none of `{text}`; {_REMEDY}")
        return value

    return looked


def narrower(new: Any) -> Function | None:
    """The function that finds values that are none of a type, where they were of any; None if it cannot.

    It raises ValueError for such a value. Values within lists and the like are not looked at.
    """
    heads = [head_of(one) for one in members(without_literals(new))]
    if not all(head in _HEADS or head == "None" for head in heads):
        return None
    kinds = tuple(type(None) if head == "None" else _HEADS[head] for head in heads)
    text = " | ".join(heads)
    look = _literals_of(new)

    def checked(value: Any) -> Any:
        if type(value) is int and float in kinds and int not in kinds:
            return as_float(value)
        is_bool = type(value) is bool and bool not in kinds
        if is_bool or not isinstance(value, kinds):
            raise ValueError(f"{shorten(value)} is no `{text}`; {_REMEDY}")
        return value if look is None else look(value)

    return checked


def _one(old: Any, same: Any, news: Sequence[Any]) -> Function | None:
    """A function that makes values of one type, no union, those of one of several."""
    if same is None:
        wider = next((kind for kind in WIDER.get(head_of(old), ()) if kind in news), None)
        return None if wider is None else _TO[wider]
    before, after = arguments_of(old), arguments_of(same)
    if not before or not after or len(before) != len(after):
        return None
    head = head_of(old)
    if head == "dict":
        return _of_values(widener(before[1], after[1]))
    if head == "tuple" and before[-1] != "...":
        parts = [widener(*pair) for pair in zip(before, after, strict=True)]
        return _of_tuple(parts) if any(parts) else None
    inner = widener(before[0], after[0])
    kind = _HEADS[head]
    return None if inner is None else lambda value: kind(map(inner, value))


def _of_values(inner: Function | None) -> Function | None:
    return None if inner is None else lambda value: {key: inner(one) for key, one in value.items()}


def _of_tuple(parts: Sequence[Function | None]) -> Function:
    def widened(value: Any) -> Any:
        if len(value) != len(parts):
            return value
        return tuple(one if part is None else part(one) for one, part in zip(value, parts, strict=True))

    return widened
