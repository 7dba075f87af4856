"""The properties of operators: their types, and the validation of their values."""

from __future__ import annotations

import contextlib
import copy
import typing
import warnings
import weakref
from collections.abc import Iterator
from typing import Any

import pydantic

from ridgeline.api.errors import did_you_mean
from ridgeline.api.operator import REQUIRED, Operator, operator_type
from ridgeline.api.support.masking import MASK, is_secret_type
from ridgeline.api.support.secrets.providers import with_providers


def property_types(cls: type) -> dict[str, Any]:
    """The annotated types of an operator's properties, resolved.

    Raises NameError for a type that cannot be resolved.
    """
    names = [name for name in operator_type(cls).properties if name != "context"]
    hints = typing.get_type_hints(cls, include_extras=True)
    return {name: hints[name] for name in names}


_MODELS: weakref.WeakKeyDictionary[type, tuple[dict[str, Any], type[pydantic.BaseModel]]] = (
    weakref.WeakKeyDictionary()
)


def _model(cls: type[Operator]) -> tuple[dict[str, Any], type[pydantic.BaseModel]]:
    """The types of an operator's properties, and the model that checks them. Computed once per class.

    Raises NameError for a type that cannot be resolved, PydanticUserError for one as of `_checked`.
    """
    if cls not in _MODELS:
        declared = operator_type(cls).properties
        hints = property_types(cls)
        fields: dict[str, Any] = {
            name: (kind, ... if declared[name] is REQUIRED else declared[name])
            for name, kind in hints.items()
        }
        config = pydantic.ConfigDict(  # `extra` reaches the dataclasses and TypedDicts inside
            arbitrary_types_allowed=True, protected_namespaces=(), extra="forbid"
        )
        with warnings.catch_warnings():
            warnings.filterwarnings(
                "ignore", "Field name .* shadows", UserWarning
            )  # `schema` and the like are good names of properties
            try:
                model = pydantic.create_model(cls.__name__, __config__=config, **fields)
            except pydantic.errors.PydanticUserError:
                fields = {name: (_checked(kind, config), value) for name, (kind, value) in fields.items()}
                model = pydantic.create_model(cls.__name__, __config__=config, **fields)
            _MODELS[cls] = hints, model
    return _MODELS[cls]


def _checked(kind: Any, config: pydantic.ConfigDict) -> Any:
    """A type as pydantic checks it; `Any`, which is not checked, if it cannot check this one.

    Raises PydanticUserError for a TypedDict of `typing` before Python 3.12.
    """
    try:
        pydantic.create_model("Property", __config__=config, value=(kind, ...))
    except pydantic.errors.PydanticUserError as error:
        if error.code == "typed-dict-version":  # a wrong value would pass on this Python alone
            raise
        return Any
    return kind


def check_properties(operator: Operator) -> tuple[dict[str, Any], list[tuple[str, object, str]]]:
    """Validate all properties: their values, and faults as (property, value, rule).

    Strings are converted, as on a command line. If there is a fault of a value, no values are returned.
    """
    declared = operator_type(type(operator))
    values = vars(operator)
    given = values.get("_given", {})
    faults = [
        (
            name,
            value,
            f"there is no such property; {did_you_mean(name, set(declared.properties) - {'context'})}",
        )
        for name, value in given.items()
        if name not in declared.properties and name != "context"
    ]
    try:
        hints, model = _model(type(operator))
    except NameError as error:
        return {}, [*faults, ("", None, f"the types of its properties cannot be resolved: {error}")]
    except pydantic.errors.PydanticUserError:
        rule = "a `TypedDict` of `typing` is not checked before Python 3.12"
        return {}, [*faults, ("", None, f"{rule}; take that of `typing_extensions`")]
    current = {name: values[name] for name in hints if name in values}
    try:
        checked = model(**current)
    except pydantic.ValidationError as error:
        for loc, value, rule in _problems(current, error):
            name = ".".join(map(str, loc)) or "properties"
            secret = value is not REQUIRED and is_secret_type(hints.get(str(loc[0])))
            faults.append((name, MASK if secret else value, rule))
        return {}, faults
    validated = {name: with_providers(getattr(checked, name), name) for name in hints}
    probe = copy.copy(operator)
    vars(probe).update(validated)
    return validated, [*faults, *probe.property_faults()]


_Place = tuple[int | str, ...]


def _problems(given: Any, error: pydantic.ValidationError) -> Iterator[tuple[_Place, Any, str]]:
    """What is wrong, where, and with which value: one for a value that is of no type of a union.

    Pydantic has an error for each of these types, and their names in the places.
    """
    unions: dict[_Place, dict[str, Any]] = {}
    for problem in error.errors():
        place, value, depth = problem["loc"], given, 0
        rule = problem["msg"][0].lower() + problem["msg"][1:]
        with contextlib.suppress(KeyError, IndexError, TypeError):
            for part in place:
                value = value[part]
                depth += 1
        if problem["type"] == "missing" and depth + 1 == len(place):
            yield place, REQUIRED, "is required"
        elif depth == len(place):
            yield place, problem["input"], rule
        else:
            unions.setdefault(place[:depth], {})[rule] = value
    for place, rules in unions.items():
        text = " or ".join(rules).replace(" or input should be ", " or ")
        yield place, next(iter(rules.values())), text.replace("a dictionary or an instance", "an instance")
