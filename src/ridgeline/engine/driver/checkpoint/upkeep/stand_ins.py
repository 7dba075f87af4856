"""Classes that stand for those of an application that cannot be imported here, made of a checkpoint's schema.

So states can be read where the application's code is not. No code of users runs.
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
    """Let pickles find a class for each one, by its name as `class_name` says it, whose module is not here.

    Not for several threads at once.
    """
    made: dict[str, ModuleType] = {}
    try:
        for name, shape in classes.items():
            module, _, path = name.rpartition(":")
            if module and (module in made or not _is_here(module)):
                kind = _made(path.rpartition(".")[2], shape)
                if kind is not None:
                    kind.__module__, kind.__qualname__ = module, path
                    _put(made.setdefault(module, ModuleType(module)), path, kind)
                    sys.modules[module] = made[module]
        yield
    finally:
        for module in made:
            sys.modules.pop(module, None)


def _is_here(module: str) -> bool:
    with suppress(Exception):  # a module of users may raise anything
        importlib.import_module(module)
        return True
    return False


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
