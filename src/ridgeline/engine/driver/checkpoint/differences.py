"""Differences of JSON values: `patched(old, difference(old, new))` is `new`.

Values are of JSON's types; a tuple is a list. A difference is JSON too: `{"is": value}`, for lists
`{"keep": [first, last], "put": [...]}`, for objects `{"set": {...}, "change": {key: difference}, "drop":
[...]}` with the parts that are needed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import compress, count
from operator import is_not
from typing import Any

_LISTS = (list, tuple)


def difference(old: Any, new: Any) -> dict[str, Any]:
    """The difference that turns `old` into `new`. Values that are the same object are not looked into."""
    if isinstance(old, dict) and isinstance(new, dict):
        return _of_objects(old, new)
    if isinstance(old, _LISTS) and isinstance(new, _LISTS):
        first = common(old, new)
        last = min(common(old[::-1], new[::-1]), min(len(old), len(new)) - first)
        return {"keep": [first, last], "put": new[first : len(new) - last]}
    return {"is": new}


def patched(old: Any, change: Mapping[str, Any]) -> Any:
    """`old` as the difference `change` says; what did not change is shared with `old`.

    Raises LookupError or TypeError if it is no difference of `old`.
    """
    if "is" in change:
        return change["is"]
    if "put" in change:
        first, last = change["keep"]
        if first + last > len(old):
            raise IndexError(f"{first} and {last} of {len(old)} items")
        return [*old[:first], *change["put"], *old[len(old) - last :]]
    result = dict(old)
    for key in change.get("drop", ()):
        del result[key]
    result |= change.get("set", {})
    for key, inner in change.get("change", {}).items():
        result[key] = patched(result[key], inner)
    return result


def same(one: Any, other: Any) -> bool:
    """Whether two values are the same JSON: 1, 1.0 and true are not."""
    if one is other:
        return True
    if isinstance(one, str):
        return isinstance(other, str) and one == other
    if isinstance(one, dict):
        return (
            isinstance(other, dict)
            and one.keys() == other.keys()
            and all(same(value, other[key]) for key, value in one.items())
        )
    if isinstance(one, _LISTS):
        return isinstance(other, _LISTS) and len(one) == len(other) and common(one, other) == len(one)
    if isinstance(one, float):
        return isinstance(other, float) and repr(one) == repr(other)  # NaN is NaN, -0.0 is not 0.0
    return type(one) is type(other) and bool(one == other)


def _of_objects(old: Mapping[str, Any], new: Mapping[str, Any]) -> dict[str, Any]:
    """The difference of two objects, without the parts that are empty."""
    parts: dict[str, Any] = {}
    if put := {key: value for key, value in new.items() if key not in old}:
        parts["set"] = put
    if changed := {
        key: difference(old[key], value)
        for key, value in new.items()
        if key in old and not same(old[key], value)
    }:
        parts["change"] = changed
    if gone := [key for key in old if key not in new]:
        parts["drop"] = gone
    return parts


def common(one: Sequence[Any], other: Sequence[Any]) -> int:
    """How many items two lists have in common from their beginning. Same objects cost next to nothing."""
    for number in compress(count(), map(is_not, one, other)):
        if not same(one[number], other[number]):
            return number
    return min(len(one), len(other))
