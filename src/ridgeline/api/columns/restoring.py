"""Instances restored from the values of their fields, as pickle does: no constructor of the class runs.

So a tuple comes out of a batch as it went in. `__init__`, `__new__` and `__post_init__` ran where an operator
made it; they may change values, refuse them, or want arguments that are no fields (`InitVar`).
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Collection, Sequence
from itertools import chain
from typing import Any

from ridgeline.api.columns.struct_types import is_named_tuple, is_pydantic, struct_fields

_HEAP_TYPE = 1 << 9
"""The flag of classes that Python code made (`Py_TPFLAGS_HEAPTYPE`)."""


def restorer(kind: Any) -> Callable[[Sequence[Any]], Any]:
    """The function that makes a NamedTuple or dataclass of the values of its fields, in their order."""
    if is_named_tuple(kind):
        return functools.partial(tuple.__new__, kind)
    if is_pydantic(kind):
        return functools.partial(_model, kind, list(struct_fields(kind)))
    if is_plain(kind):
        return lambda values: kind(*values)
    new, initialise = allocator(kind), _twin(kind).__init__

    def restore(values: Sequence[Any]) -> object:
        made = new(kind)
        initialise(made, *values)
        return made

    return restore


def allocator(kind: Any) -> Callable[..., Any]:
    """The `__new__` that makes an instance without any code of users: that of the first base built in."""
    made: Callable[..., Any] = next(base for base in kind.__mro__ if not base.__flags__ & _HEAP_TYPE).__new__
    return made


def _model(kind: Any, names: Sequence[str], values: Sequence[Any]) -> object:
    """A pydantic model with these values, which no validator has seen."""
    made = kind.__new__(kind)
    private = {name: one.get_default() for name, one in kind.__private_attributes__.items()}
    object.__setattr__(made, "__dict__", dict(zip(names, values, strict=True)))
    object.__setattr__(made, "__pydantic_fields_set__", set(names))
    object.__setattr__(made, "__pydantic_extra__", None)
    object.__setattr__(made, "__pydantic_private__", private or None)
    return made


def is_plain(kind: Any) -> bool:
    """True for a dataclass whose constructor sets its fields, in their order, and does nothing else."""
    if is_pydantic(kind):
        return False
    own, plain = getattr(kind.__init__, "__code__", None), _twin(kind).__init__.__code__
    return kind.__new__ is object.__new__ and all(
        getattr(own, part, None) == getattr(plain, part)
        for part in ("co_code", "co_names", "co_varnames", "co_argcount")
    )


@functools.lru_cache(maxsize=1024)
def _twin(kind: Any) -> Any:
    """A dataclass with the same fields, whose `__init__` sets them in any object and does nothing else."""
    own = kind.__setattr__ is not object.__setattr__  # then that of `object` sets fields, as if frozen
    fields = [(name, Any) for name in struct_fields(kind)]
    return dataclasses.make_dataclass(f"{kind.__name__}Fields", fields, frozen=own)


def further_attributes(kind: Any, rows: Sequence[Any], fields: Collection[str]) -> list[str]:
    """Attributes that instances of a dataclass have beside its fields, which would be lost on the way.

    Values of `functools.cached_property` do not count, nor those of Python (`__orig_class__`).
    """
    if not kind.__dictoffset__:
        return []
    if is_plain(kind) and set(map(len, map(vars, rows))) <= {len(fields)}:
        return []  # it has set all fields, and nothing else
    found = set(chain.from_iterable(map(vars, rows)))
    return sorted(
        name
        for name in found.difference(fields)
        if not name.startswith("__") and not isinstance(_in_class(kind, name), functools.cached_property)
    )


def _in_class(kind: type, name: str) -> object:
    return next((vars(base)[name] for base in kind.__mro__ if name in vars(base)), None)
