"""Whether two values of properties or attributes are the same, whatever they are."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from ridgeline.api.operator import Operator, operator_type

_DEEPEST = 16


def same_value(one: Any, other: Any, depth: int = 0) -> bool:
    """True if two values are of one class and equal; values of a class without `==` by their attributes.

    1, 1.0 and True are different, NaN is NaN. A value whose `==` raises, or gives no truth value, differs
    from all others but itself.

    >>> same_value([1, {"a": (2.0,)}], [1, {"a": (2.0,)}]), same_value(1, True)
    (True, False)
    """
    if one is other:
        return True
    if type(one) is not type(other) or depth > _DEEPEST:
        return False
    if isinstance(one, Mapping):
        return same_values(one, other, depth)
    if type(one) in {list, tuple}:
        pairs = zip(one, other, strict=True) if len(one) == len(other) else None
        return pairs is not None and all(same_value(left, right, depth + 1) for left, right in pairs)
    if isinstance(one, float):
        return repr(one) == repr(other)
    return _equal(one, other) or (_is_plain(one) and same_values(vars(one), vars(other), depth))


def altered_properties(old: Operator, new: Operator) -> Iterator[str]:
    """The properties whose values differ; of two operators of one class."""
    before, after = vars(old), vars(new)
    for name in operator_type(type(new)).properties:
        is_altered = name in after and not (name in before and same_value(before[name], after[name]))
        if is_altered and name != "context":
            yield name


def _equal(one: Any, other: Any) -> bool:
    try:
        return bool(one == other)
    except Exception:  # noqa: BLE001  code of users, arrays
        return False


def _is_plain(value: Any) -> bool:
    """True for an object that is compared by its attributes."""
    comparing: object = type(value).__eq__
    return comparing is object.__eq__ and hasattr(value, "__dict__") and not callable(value)


def same_values(one: Mapping[Any, Any], other: Mapping[Any, Any], depth: int = 0) -> bool:
    """True if two mappings have the same keys, and the same value for each."""
    return one.keys() == other.keys() and all(
        same_value(value, other[key], depth + 1) for key, value in one.items()
    )
