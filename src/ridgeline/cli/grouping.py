"""Options that several commands share, or that belong together: a dataclass stands for its fields."""

from __future__ import annotations

import dataclasses
import inspect
import typing
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any

from typer.models import ArgumentInfo

from ridgeline.cli.errors import reporting_errors


def command(function: Callable[..., None], *, without: Collection[str] = ()) -> Callable[..., None]:
    """A function that typer can make a command of: `function`, with errors reported.

    A parameter whose annotation is a dataclass becomes its fields: arguments in its place, options at the
    end. The function gets one object with their values. `without`: fields that are no options here, so that
    they have their defaults.
    """
    hints = typing.get_type_hints(function, include_extras=True)
    here: list[inspect.Parameter] = []
    last: list[inspect.Parameter] = []
    groups: dict[str, tuple[type, tuple[str, ...]]] = {}
    for name, parameter in inspect.signature(function).parameters.items():
        kind = hints[name]
        if not dataclasses.is_dataclass(kind):
            here.append(_keyword(name, kind, parameter.default))
            continue
        members = {one.name: one for one in options_of(kind) if one.name not in without}
        groups[name] = typing.cast("type", kind), tuple(members)
        for one in members.values():
            (here if _is_argument(one.annotation) else last).append(one)

    def run(**given: Any) -> None:
        with reporting_errors():
            grouped = {
                name: kind(**{member: given.pop(member) for member in members})
                for name, (kind, members) in groups.items()
            }
            function(**given, **grouped)

    parameters = [*here, *last]
    made: Any = run
    made.__name__, made.__doc__ = function.__name__, function.__doc__
    made.__signature__ = inspect.Signature(parameters)
    made.__annotations__ = {one.name: one.annotation for one in parameters}
    return run


def options_of(group: Any) -> Iterator[inspect.Parameter]:
    """The fields of a dataclass as parameters: those of a class before those of its bases."""
    hints = typing.get_type_hints(group, include_extras=True)
    fields: Mapping[str, Any] = {field.name: field for field in dataclasses.fields(group)}
    names = [name for kind in group.__mro__ for name in vars(kind).get("__annotations__", ())]
    for name in dict.fromkeys(names):
        default = fields[name].default
        yield _keyword(
            name, hints[name], inspect.Parameter.empty if default is dataclasses.MISSING else default
        )


def _keyword(name: str, kind: Any, default: Any) -> inspect.Parameter:
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=kind)


def _is_argument(annotation: Any) -> bool:
    return any(isinstance(one, ArgumentInfo) for one in typing.get_args(annotation)[1:])
