"""Values of properties and attributes in a document, and what plain data cannot say.

A mapping with one of these keys alone stands for something else:

- `{$import: payments.Quote}`: a class or function,
- `{$env: NAME}`: a text from the environment,
- `{$json: "null"}`: a value of JSON that the form of the file lacks.
"""

from __future__ import annotations

import json
import math
import warnings
from collections.abc import Mapping
from typing import Any

import pydantic

from ridgeline.api.support.masking import is_secret_type, secrets_in
from ridgeline.plan.spec.imports import ImportPathError, import_path, path_of

IMPORT, ENVIRONMENT, JSON = "$import", "$env", "$json"
_SAFE_INTEGER = 2**63


class ValueFaultError(Exception):
    """A value that cannot be read or written: what is wrong, and what to do."""

    def __init__(self, what: str, remedy: str) -> None:
        super().__init__(f"{what}; {remedy}")
        self.what = what
        self.remedy = remedy


def read_value(value: object, environment: Mapping[str, str]) -> Any:
    """A value of a document, with what its marks stand for. Raises ValueFaultError."""
    if isinstance(value, list):
        return [read_value(part, environment) for part in value]
    if not isinstance(value, dict):
        return value
    if len(value) != 1 or next(iter(value)) not in {IMPORT, ENVIRONMENT, JSON}:
        return {key: read_value(part, environment) for key, part in value.items()}
    (mark, name), *_ = value.items()
    if not isinstance(name, str):
        raise ValueFaultError(f"`{mark}` takes a text; got {name!r}", "write a text behind it")
    if mark == IMPORT:
        try:
            return import_path(name)
        except ImportPathError as error:
            raise ValueFaultError(error.what, error.remedy) from error
    if mark == ENVIRONMENT:
        if name not in environment:
            raise ValueFaultError(f"`{name}` is not in the environment", f"set it: `export {name}=...`")
        return environment[name]
    try:
        return json.loads(name)
    except (ValueError, RecursionError) as error:
        raise ValueFaultError(f"the text of `{JSON}` is no JSON: {error}", "mend it") from None


def write_value(name: str, value: object, kind: Any) -> object:
    """A value as plain data from which `read_value` and the type `kind` make an equal one.

    Raises ValueFaultError for what cannot be written.
    """
    if (is_secret_type(kind) and value is not None) or any(secrets_in(name, value)):
        remedy = f"leave it out, and write `{name}: {{{ENVIRONMENT}: NAME}}` into the file"
        raise ValueFaultError("it is a secret, which belongs into no file", remedy)
    try:
        return _plain(value)
    except _NotPlainError:
        return _typed(value, kind)


class _NotPlainError(Exception):
    """A value has no plain form of its own."""


def _plain(value: object) -> object:  # noqa: PLR0911  a case each
    """Plain data as it is, classes and functions as their import path. Raises _NotPlainError."""
    if value is None or type(value) in (bool, int):
        return value
    if isinstance(value, float) and type(value) is float and math.isfinite(value):
        return value
    if (
        isinstance(value, str)
        and type(value) is str
        and not any("\ud800" <= one <= "\udfff" for one in value)
    ):
        return value
    if type(value) is list:
        return [_plain(part) for part in value]
    if isinstance(value, dict) and type(value) is dict and all(type(key) is str for key in value):
        written = {key: _plain(part) for key, part in value.items()}
        if len(written) == 1 and next(iter(written)) in {IMPORT, ENVIRONMENT, JSON}:
            return {JSON: _json(written)}
        return written
    if isinstance(value, type) or callable(value):
        path = path_of(value)
        if path is not None:
            return {IMPORT: path}
    raise _NotPlainError


def _json(value: object) -> str:
    """The JSON of plain data; one with marks inside has none. Raises _NotPlainError."""
    text = json.dumps(value)
    if f'"{IMPORT}"' in text and json.loads(text) != value:
        raise _NotPlainError
    return text


def _typed(value: object, kind: Any) -> object:
    """The JSON that pydantic writes of a value, if it reads back equal. Raises ValueFaultError."""
    if getattr(value, "__name__", "") == "<lambda>":
        remedy = "make it a function of a module, and name that"
        raise ValueFaultError("a lambda has no import path", remedy)
    if callable(value):
        remedy = "define it at the top of a module that can be imported"
        raise ValueFaultError(f"{_kind(value)} cannot be imported by name", remedy)
    what = f"{_kind(value)} has no form in a specification"
    remedy = "give plain values, or a class or function that can be imported"
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            adapter = _adapter(kind)
            written = adapter.dump_python(value, mode="json")
            again = adapter.validate_python(written)
            if type(again) is type(value) and again == value:
                return _plain(written)
    except (pydantic.PydanticUserError, ValueError, TypeError, _NotPlainError):
        pass  # it cannot be written
    raise ValueFaultError(what, remedy)


def _adapter(kind: Any) -> pydantic.TypeAdapter[Any]:
    try:
        return pydantic.TypeAdapter(kind, config=pydantic.ConfigDict(arbitrary_types_allowed=True))
    except pydantic.PydanticUserError:  # a model has a configuration of its own
        return pydantic.TypeAdapter(kind)


def _kind(value: object) -> str:
    return f"a `{type(value).__name__}`"


def without_null(value: object) -> object:
    """A document for a form that has no null, and whole numbers of 64 bits only."""
    if value is None:
        return {JSON: "null"}
    if type(value) is int and not -_SAFE_INTEGER <= value < _SAFE_INTEGER:
        return {JSON: str(value)}
    if isinstance(value, list):
        return [without_null(part) for part in value]
    return {key: without_null(part) for key, part in value.items()} if isinstance(value, dict) else value
