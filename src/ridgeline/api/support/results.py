"""Types of results, from the annotations of Python functions."""

from __future__ import annotations

import collections.abc
import typing
from collections.abc import Callable
from typing import Any

_MANY = (
    list,
    tuple,
    set,
    collections.abc.Iterable,
    collections.abc.Iterator,
    collections.abc.Sequence,
    collections.abc.Collection,
    collections.abc.Generator,
)


def returned(function: Callable[..., Any], *, many: bool = False) -> object:
    """The type that a function says it returns; with `many` that of one of its results. None: not known."""
    called = function if hasattr(function, "__annotations__") else type(function).__call__
    try:
        kind = typing.get_type_hints(called).get("return")
    except (NameError, TypeError):
        return None
    if many:
        arguments = typing.get_args(kind)
        kind = arguments[0] if typing.get_origin(kind) in _MANY and arguments else None
    return None if kind is type(None) or kind is Any else kind
