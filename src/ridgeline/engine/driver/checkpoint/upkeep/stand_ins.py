"""Classes that stand for those of an application, made of a checkpoint's schema.

So states can be read where the application's code is not. Where it is, it does not run either. A module is
imported only for a class that the schema does not describe, or that says itself how it is pickled.
"""

from __future__ import annotations

import ast
import importlib
import sys
from collections import namedtuple
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from enum import Enum
from types import ModuleType
from typing import Any

from ridgeline.plan.change.state_shapes import Shape


@contextmanager
def stand_ins(classes: Mapping[str, Shape]) -> Iterator[None]:
    """Let pickles find a class for each one, by its name as `class_name` says it, whose module is not loaded.

    Not for several threads at once.
    """
    made: dict[str, ModuleType] = {}
    try:
        for name, shape in classes.items():
            module, _, path = name.rpartition(":")
            if not module or (module in sys.modules and module not in made):
                continue
            kind = _made(path.rpartition(".")[2], shape)
            if kind is not None:
                kind.__module__, kind.__qualname__ = module, path
                _put(made.setdefault(module, _StandIn(module)), path, kind)
                sys.modules[module] = made[module]
        yield
    finally:
        for module, one in made.items():
            if sys.modules.get(module) is one:
                del sys.modules[module]


class _StandIn(ModuleType):
    """A module of which only some classes are known; for others the real one is imported."""

    def __getattr__(self, name: str) -> Any:
        """A class of the real module. Raises AttributeError, ImportError, what the module raises."""
        if name.startswith("__"):
            raise AttributeError(name)
        del sys.modules[self.__name__]
        try:
            return getattr(importlib.import_module(self.__name__), name)
        finally:
            sys.modules[self.__name__] = self


def _put(module: ModuleType, path: str, kind: type) -> None:
    """Set a class in a module, within the classes that its path names."""
    *outer, last = path.split(".")
    place: Any = module
    for name in outer:
        if not hasattr(place, name):
            setattr(place, name, type(name, (), {}))
        place = getattr(place, name)
    setattr(place, last, kind)


def _made(name: str, shape: Shape) -> Any:
    """A class of a shape; None if its pickles need its own code."""
    if shape.get("own"):
        return None
    if shape["kind"] == "NamedTuple":
        fields = [field for field, *_ in shape["fields"]]
        return namedtuple(name, fields)  # noqa: PYI024  made of a schema
    if shape["kind"] == "Enum":
        with suppress(ValueError, SyntaxError):
            return Enum(name, {member: ast.literal_eval(value) for member, value in shape["members"]})
        return None
    if shape["kind"] in {"dataclass", "model"}:
        return _with_fields(name, tuple(field for field, *_ in shape["fields"]))
    return None


def _with_fields(name: str, fields: Sequence[str]) -> type:
    """A class whose instances take the state that pickles have of a dataclass, or of pydantic or attrs."""

    def set_state(self: Any, state: Any) -> None:
        if (
            isinstance(state, tuple) and len(state) == len(fields) and not isinstance(state[-1], dict)
        ) or isinstance(state, list):
            state = dict(zip(fields, state, strict=True))
        elif isinstance(state, tuple):
            state = {**(state[0] or {}), **(state[1] or {})}
        vars(self).update(state.get("__dict__", state))

    def values(self: Any) -> tuple[Any, ...]:
        return tuple(vars(self).get(field) for field in fields)

    return type(
        name,
        (),
        {
            "__setstate__": set_state,
            "__eq__": lambda self, other: type(self) is type(other) and values(self) == values(other),
            "__hash__": lambda self: hash(values(self)),
            "__repr__": lambda self: f"{name}({', '.join(map(repr, values(self)))})",
        },
    )
