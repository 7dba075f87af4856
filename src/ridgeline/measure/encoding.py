"""Events as plain data for event logs and heartbeats, and back."""

from __future__ import annotations

import dataclasses
import functools
import types
import typing
from collections.abc import Mapping
from typing import Any

from ridgeline.measure.events import EVENT_TYPES, RunEvent


def to_dict(event: Any) -> dict[str, Any]:
    """An event as plain data for JSON; `event` names its type."""
    return {
        "event": type(event).__name__,
        **{field.name: _plain(getattr(event, field.name)) for field in dataclasses.fields(event)},
    }


def from_dict(data: Mapping[str, Any]) -> RunEvent:
    """The event of plain data.

    Raises ValueError naming what does not fit; fields that are unknown here are ignored, for newer logs.
    """
    name = data.get("event")
    kind = EVENT_TYPES.get(name) if isinstance(name, str) else None
    if kind is None:
        msg = f"`{name}` is no event; known are {', '.join(EVENT_TYPES)}"
        raise ValueError(msg)
    return typing.cast("RunEvent", _build(kind, data, str(name)))


def _plain(value: object) -> Any:
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, (tuple, list)):
        return [_plain(item) for item in value]
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: _plain(getattr(value, field.name)) for field in dataclasses.fields(value)}
    return value


@functools.cache
def _fields(kind: type) -> Mapping[str, tuple[Any, bool]]:
    """Type and necessity of a dataclass's fields."""
    hints = typing.get_type_hints(kind)
    return {
        field.name: (
            hints[field.name],
            field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING,
        )
        for field in dataclasses.fields(kind)
    }


def _build(kind: type, data: Any, where: str) -> Any:
    """A dataclass of plain data; `where` names it in errors. Raises ValueError."""
    if not isinstance(data, Mapping):
        msg = f"`{where}` must be an object; got {type(data).__name__}"
        raise ValueError(msg)  # noqa: TRY004  what a reader of logs catches
    values = {}
    for name, (hint, required) in _fields(kind).items():
        if name in data:
            values[name] = _read(hint, data[name], f"{where}.{name}")
        elif required:
            msg = f"`{where}.{name}` is missing"
            raise ValueError(msg)
    return kind(**values)


def _read(hint: object, value: object, where: str) -> Any:
    """A value of the annotated type from plain data. Raises ValueError."""
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin is types.UnionType:
        if value is None and type(None) in arguments:
            return None
        return _read(next(argument for argument in arguments if argument is not type(None)), value, where)
    if origin is tuple:
        return _read_tuple(arguments, value, where)
    if origin is not None and issubclass(origin, Mapping):
        if not isinstance(value, Mapping):
            msg = f"`{where}` must be an object; got {value!r:.40}"
            raise ValueError(msg)
        return {str(key): _read(arguments[1], item, f"{where}.{key}") for key, item in value.items()}
    if dataclasses.is_dataclass(hint):
        return _build(typing.cast("type", hint), value, where)
    return _scalar(hint, value, where)


def _read_tuple(arguments: tuple[object, ...], value: object, where: str) -> Any:
    if not isinstance(value, (list, tuple)):
        msg = f"`{where}` must be a list; got {value!r:.40}"
        raise ValueError(msg)  # noqa: TRY004  what a reader of logs catches
    if arguments[-1] is Ellipsis:
        return tuple(_read(arguments[0], item, where) for item in value)
    if len(value) != len(arguments):
        msg = f"`{where}` must have {len(arguments)} items; got {len(value)}"
        raise ValueError(msg)
    return tuple(_read(argument, item, where) for argument, item in zip(arguments, value, strict=True))


def _scalar(hint: Any, value: Any, where: str) -> Any:
    if hint is Any or type(value) is hint:
        return value
    if hint is float and type(value) is int:
        return float(value)
    msg = f"`{where}` must be {hint.__name__}; got {value!r:.40}"
    raise ValueError(msg)
