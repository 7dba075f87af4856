"""Events as plain data for event logs and heartbeats, and back."""

from __future__ import annotations

import dataclasses
import functools
import types
import typing
from collections.abc import Callable, Mapping
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
        raise ValueError(f"`{name}` is no event; known are {', '.join(EVENT_TYPES)}")
    try:
        return typing.cast("RunEvent", _builder(kind)(data))
    except (_UnfitError, TypeError):
        return typing.cast("RunEvent", _build(kind, data, str(name)))  # says what does not fit, and where


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


# Reading what fits ------------------------------------------------------------------------------------------

_Reader = Callable[[Any], Any]


class _UnfitError(Exception):
    """A value is not of the annotated type."""


@functools.cache
def _builder(kind: type) -> _Reader:
    """Makes a dataclass of plain data. Raises _UnfitError, TypeError.

    Logs have hundreds of thousands of events, so the types of fields are looked at once.
    """
    readers = [(name, _reader(hint)) for name, (hint, _) in _fields(kind).items()]

    def build(data: Any) -> Any:
        if type(data) is not dict:
            raise _UnfitError
        return kind(**{name: read(data[name]) for name, read in readers if name in data})

    return build


def _reader(hint: Any) -> _Reader:
    """Reads a value of the annotated type. Raises _UnfitError."""
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin is types.UnionType:
        one = _reader(next(argument for argument in arguments if argument is not type(None)))
        return (lambda value: None if value is None else one(value)) if type(None) in arguments else one
    if origin is tuple:
        return _tuple_reader(arguments)
    if origin is not None and issubclass(origin, Mapping):
        inner = _reader(arguments[1])
        return lambda value: {str(key): inner(item) for key, item in _of(dict, value).items()}
    if dataclasses.is_dataclass(hint):
        return _builder(typing.cast("type", hint))
    return _SCALARS.get(hint) or functools.partial(_of, hint)


def _tuple_reader(arguments: tuple[Any, ...]) -> _Reader:
    """Reads a tuple from a list. Raises _UnfitError."""
    if arguments[-1] is Ellipsis:
        one = _reader(arguments[0])
        return lambda value: tuple(map(one, _of(list, value)))
    readers = tuple(map(_reader, arguments))

    def read(value: Any) -> tuple[Any, ...]:
        if len(_of(list, value)) != len(readers):
            raise _UnfitError
        return tuple(one(item) for one, item in zip(readers, value, strict=True))

    return read


def _of(kind: type, value: Any) -> Any:
    """The value, which must be of exactly this type. Raises _UnfitError."""
    if type(value) is kind:
        return value
    raise _UnfitError


_SCALARS: Mapping[Any, _Reader] = {
    Any: lambda value: value,
    float: lambda value: value if type(value) is float else float(_of(int, value)),
}


# Naming what does not fit -----------------------------------------------------------------------------------


def _build(kind: type, data: Any, where: str) -> Any:
    """A dataclass of plain data; `where` names it in errors. Raises ValueError."""
    if not isinstance(data, Mapping):
        raise ValueError(f"`{where}` must be an object; got {type(data).__name__}")  # noqa: TRY004  what a reader of logs catches
    values = {}
    for name, (hint, required) in _fields(kind).items():
        if name in data:
            values[name] = _read(hint, data[name], f"{where}.{name}")
        elif required:
            raise ValueError(f"`{where}.{name}` is missing")
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
            raise ValueError(f"`{where}` must be an object; got {value!r:.40}")
        return {str(key): _read(arguments[1], item, f"{where}.{key}") for key, item in value.items()}
    if dataclasses.is_dataclass(hint):
        return _build(typing.cast("type", hint), value, where)
    return _scalar(hint, value, where)


def _read_tuple(arguments: tuple[object, ...], value: object, where: str) -> Any:
    if not isinstance(value, (list, tuple)):
        raise ValueError(f"`{where}` must be a list; got {value!r:.40}")  # noqa: TRY004  what a reader of logs catches
    if arguments[-1] is Ellipsis:
        return tuple(_read(arguments[0], item, where) for item in value)
    if len(value) != len(arguments):
        raise ValueError(f"`{where}` must have {len(arguments)} items; got {len(value)}")
    return tuple(_read(argument, item, where) for argument, item in zip(arguments, value, strict=True))


def _scalar(hint: Any, value: Any, where: str) -> Any:
    if hint is Any or type(value) is hint:
        return value
    if hint is float and type(value) is int:
        return float(value)
    raise ValueError(f"`{where}` must be {hint.__name__}; got {value!r:.40}")
