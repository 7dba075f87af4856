"""Set one entry of a property: `options.subscribe`, where `options` is a dictionary or a pydantic model."""

from __future__ import annotations

import types
import typing
from collections.abc import Iterator, Mapping
from typing import Any

import pydantic

from ridgeline.api.errors import FaultError, did_you_mean
from ridgeline.api.operator import Operator, operator_type
from ridgeline.api.support.properties import property_types


def with_entry(operator: Operator, operator_name: str, path: str, value: object) -> tuple[str, Any]:
    """Return the property that `path` begins with, and its value with the entry added or replaced.

    The rest of the path is a key of a dictionary, dots included, or names fields of models. The operator is
    not changed. Raises FaultError.
    """
    kind = type(operator).__name__
    name, dot, key = path.partition(".")
    known = set(operator_type(type(operator)).properties) - {"context"}
    if name not in known:
        raise FaultError(f"`{kind}` has no property `{name}`", did_you_mean(name, known))
    if not dot or not key:
        remedy = f"write `-D {operator_name}.{name}.key=value`"
        raise FaultError(f"`{path}` of `{kind}` names no entry", remedy)
    try:
        annotation = property_types(type(operator))[name]
    except NameError:  # a fault of its own, see `check_properties`
        annotation = Any
    try:
        return name, _with(annotation, vars(operator).get(name), key, value, f"property `{name}` of `{kind}`")
    except TypeError as error:
        remedy = f"give it as a whole, `-D {operator_name}.{name}=...`"
        raise FaultError(f"property `{name}` of `{kind}` has no entries", remedy) from error


def _with(annotation: object, current: Any, key: str, value: object, where: str) -> dict[str, Any]:
    """Return a dictionary, or a model's fields, with the entry added or replaced.

    Raises FaultError; TypeError for a value that has no entries.
    """
    if isinstance(current, Mapping):
        return {**current, key: value}
    kinds = list(_kinds(annotation))
    model = type(current) if isinstance(current, pydantic.BaseModel) else next(filter(_is_model, kinds), None)
    if model is None:
        if any(isinstance(kind, type) and issubclass(kind, Mapping) for kind in kinds):
            return {key: value}
        raise TypeError
    field, dot, rest = key.partition(".")
    fields = model.model_fields
    if field not in fields and model.model_config.get("extra") != "allow":
        raise FaultError(f"{where} has no field `{field}`", did_you_mean(field, fields))
    values = dict(current) if current is not None else {}
    inner = f"{where.replace('` of', f'.{field}` of', 1)}"
    values[field] = _with(fields[field].annotation, values.get(field), rest, value, inner) if dot else value
    return values


def _kinds(annotation: object) -> Iterator[Any]:
    """The classes that a value may be of."""
    origin = typing.get_origin(annotation)
    if origin in {typing.Union, types.UnionType, typing.Annotated}:
        for part in typing.get_args(annotation):
            yield from _kinds(part)
    else:
        yield origin or annotation


def _is_model(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, pydantic.BaseModel)
