"""Partitioners as data: class, positional arguments, properties."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any

from ridgeline.api.errors import described, shorten
from ridgeline.api.partitioner import Partitioner
from ridgeline.plan.same_values import same_value
from ridgeline.plan.spec.imports import ImportPathError, import_path, path_of
from ridgeline.plan.spec.values import ValueFaultError, write_value

_KEYS = {"class", "arguments", "properties"}


def read_partitioner(spec: Mapping[str, Any]) -> Partitioner:
    """A partitioner from its `class`, `arguments` and `properties`. Raises ValueFaultError.

    Example:
        >>> read_partitioner({"class": "ridgeline.StickyPartitioner", "arguments": ["payments"]})
        StickyPartitioner(ports=('payments',))
    """
    path, arguments, properties = spec.get("class"), spec.get("arguments", []), spec.get("properties", {})
    sound = isinstance(path, str) and isinstance(arguments, (list, tuple)) and isinstance(properties, Mapping)
    if spec.keys() - _KEYS or not sound:
        raise ValueFaultError(
            f"a partitioner is an object with `class` and `properties`; got {shorten(dict(spec))}",
            "name its class: `payments.ByRegion`",
        )
    try:
        kind = import_path(str(path))
    except ImportPathError as error:
        raise ValueFaultError(error.what, error.remedy) from error
    if not (isinstance(kind, type) and issubclass(kind, Partitioner)):
        raise ValueFaultError(f"`{path}` is no `Partitioner`", "name a subclass of `Partitioner`")
    try:
        return kind(*arguments, **properties)
    except Exception as error:
        raise ValueFaultError(
            f"`{kind.__name__}` cannot be made of its properties: {described(error)}", "give other properties"
        ) from error


def write_partitioner(partitioner: Partitioner) -> dict[str, Any]:
    """Plain values from which `read_partitioner` makes an equal partitioner. Raises ValueFaultError."""
    kind, values = type(partitioner), vars(partitioner)
    path = path_of(kind)
    if path is None:
        raise ValueFaultError(
            f"`{kind.__name__}` cannot be imported by name",
            "define it at the top of a module that can be imported",
        )
    found: dict[str, Any] = {"class": path}
    for name, parameter in inspect.signature(kind).parameters.items():
        if name in values and parameter.kind is parameter.VAR_POSITIONAL:
            found["arguments"] = [write_value(name, one, Any) for one in values[name]]
        elif name in values:
            found.setdefault("properties", {})[name] = write_value(name, values[name], Any)
    if not same_value(read_partitioner(found), partitioner):
        raise ValueFaultError(
            f"a `{kind.__name__}` is not made anew by what it was given",
            "keep the arguments of `__init__` under their names",
        )
    return found
