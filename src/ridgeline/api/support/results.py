"""The results of Python functions: types, whether they are values at all, errors of a call."""

from __future__ import annotations

import collections.abc
import functools
import inspect
import typing
from collections.abc import Callable
from functools import wraps
from typing import Any, ParamSpec, TypeVar

from ridgeline.api.errors import shorten

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
    called = _called(function)
    try:
        kind = typing.get_type_hints(called).get("return")
    except (NameError, TypeError):
        return None
    if many:
        arguments = typing.get_args(kind)
        kind = arguments[0] if typing.get_origin(kind) in _MANY and arguments else None
    return None if kind is type(None) or kind is Any else kind


def deferred(function: object, *, many: bool = False) -> str:
    """Why calling a function gives no result, as the rule of a fault; "": it gives one.

    `many`: a function that yields its results is fine.

    >>> async def ask(order):
    ...     return order
    >>> deferred(ask)
    'must not be an `async def`, which nothing awaits here; `enrich` takes one'
    """
    called = _called(function)
    if inspect.iscoroutinefunction(called):
        return "must not be an `async def`, which nothing awaits here; `enrich` takes one"
    if inspect.isasyncgenfunction(called):
        return "must not be an `async def` that yields; collect a list, and use `enrich`"
    if inspect.isgeneratorfunction(called) and not many:
        return "must return its result, but it yields; `flat_map` takes functions that yield"
    return other_arguments(function)


def other_arguments(function: object) -> str:
    """Why a function cannot be called with a tuple alone, as the rule of a fault; "": it can, or who knows.

    >>> other_arguments(lambda left, right: left)
    'must take one argument, the tuple; it has the parameters (left, right)'
    """
    if not callable(function):
        return ""
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):  # made in C
        return ""
    try:
        signature.bind(None)
    except TypeError:
        names = ", ".join(str(one.replace(annotation=one.empty)) for one in signature.parameters.values())
        return f"must take one argument, the tuple; it has the parameters ({names})"
    return ""


def _called(function: Any) -> Any:
    """The function with the annotations: of a `functools.partial` the one within, of an object its call."""
    while isinstance(function, functools.partial):
        function = function.func
    return function if hasattr(function, "__annotations__") else type(function).__call__


P = ParamSpec("P")
Made = TypeVar("Made")


def names_call(function: Callable[P, Made]) -> Callable[P, Made]:
    """A function whose ValueError begins with its call: such values are made before any step has a name.

    >>> @names_call
    ... def share(q: float) -> float:
    ...     raise ValueError("it is more than 1")
    >>> share(q=1.5)
    Traceback (most recent call last):
    ValueError: `share(q=1.5)`: it is more than 1
    """

    @wraps(function)
    def call(*values: P.args, **named: P.kwargs) -> Made:
        try:
            return function(*values, **named)
        except ValueError as error:
            given = [shorten(value) for value in values]
            given += [f"{name}={shorten(value)}" for name, value in named.items()]
            raise ValueError(f"`{function.__name__}({', '.join(given)})`: {error}") from None

    return call
