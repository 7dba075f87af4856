"""Errors of functions that make values, with the call that was wrong."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import ParamSpec, TypeVar

from ridgeline.api.errors import shorten

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
