"""Values of properties and attributes in a document, and what plain data cannot say.

A mapping with one of these keys alone stands for something else:

- `{$import: payments.Quote}`: a class or function,
- `{$env: NAME}`: a text from the environment.

Partitioners are data, too: class, positional arguments, properties.
"""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import math
import sys
import warnings
from collections.abc import Iterable, Mapping
from types import ModuleType
from typing import Any

import pydantic

from ridgeline.api.errors import FaultError, described, did_you_mean, shorten
from ridgeline.api.partitioner import Load, Partitioner
from ridgeline.api.support.masking import is_secret_type, secrets_in
from ridgeline.plan.same_values import same_value

_SCRIPT = "__main__"
APP_PREFIX = "ridgeline_app_"
"""Of the module that an application's file becomes, if something else has the name of the file."""


class ValueFaultError(FaultError):
    """A value that cannot be read or written."""


class ImportPathError(ValueFaultError):
    """An import path names nothing that can be had."""


def import_path(path: str) -> Any:
    """The object that `package.module.Name` names; its module is imported, nothing else is run.

    Raises ImportPathError.
    """
    parts = path.split(".")
    if len(parts) < 2 or not all(part.isidentifier() for part in parts):  # noqa: PLR2004  module and name
        what = f"`{path}` is no import path"
        raise ImportPathError(what, "write `package.module.Name`")
    found: Any = _module(parts[0], path)
    for number, part in enumerate(parts[1:], 2):
        if isinstance(found, ModuleType) and not hasattr(found, part):
            if number < len(parts) and hasattr(found, "__path__"):
                found = _module(".".join(parts[:number]), path)
                continue
            names = [name for name in vars(found) if not name.startswith("_")]
            what = f"the module `{found.__name__}` has no `{part}`"
            if found.__name__ == _SCRIPT:
                what = f"the script that runs has no `{part}`"
                raise ImportPathError(what, "run the script that defines it, or put it into a module")
            raise ImportPathError(what, did_you_mean(part, names) if names else "look at the module")
        if not hasattr(found, part):
            raise ImportPathError(f"`{'.'.join(parts[: number - 1])}` has no `{part}`", "look at the module")
        found = getattr(found, part)
    return found


def import_class(path: str, base: type) -> Any:
    """The class that a path names, a subclass of `base`. Raises ValueFaultError."""
    kind = import_path(path)
    if not (isinstance(kind, type) and issubclass(kind, base)):
        raise ValueFaultError(f"`{path}` is no `{base.__name__}`", f"name a subclass of `{base.__name__}`")
    return kind


def made_of(kind: Any, properties: Mapping[str, Any], arguments: Iterable[Any] = ()) -> Any:
    """An instance of a class with these properties, and arguments before them. Raises ValueFaultError."""
    try:
        return kind(*arguments, **properties)
    except Exception as error:
        what = f"`{kind.__name__}` cannot be made of its properties: {described(error)}"
        raise ValueFaultError(what, "give other properties") from error


def class_path(kind: type, *, of_script: bool = False) -> str:
    """The import path of a class, as `path_of`. Raises ValueFaultError if it has none."""
    path = path_of(kind, of_script=of_script)
    if path is None:
        what = f"its class `{kind.__name__}` cannot be imported by name"
        raise ValueFaultError(what, "define it at the top of a module that can be imported")
    return path


def _module(name: str, path: str) -> ModuleType:
    """Import a module. Raises ImportPathError."""
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name == name:
            what = f"there is no module `{name}`, which `{path}` names"
            if name.startswith(APP_PREFIX):
                what = f"there is no file `{name.removeprefix(APP_PREFIX)}.py`, which `{path}` names"
                raise ImportPathError(what, "put it beside the specification, or on PYTHONPATH") from None
            remedy = "put it beside the specification, on PYTHONPATH, or install what has it"
            raise ImportPathError(what, f"{remedy}{_near(name)}") from None
        what = f"the module `{name}` needs `{error.name}`, which is not installed"
        raise ImportPathError(what, f"install what has `{error.name}`") from None
    except (Exception, SystemExit) as error:
        what = f"the module `{name}` fails when it is imported: {type(error).__name__}: {error}"
        raise ImportPathError(what, "fix the module") from error


def _near(name: str) -> str:
    known = {loaded.partition(".")[0] for loaded in sys.modules.copy()}
    hint = did_you_mean(name, known)
    return f"; {hint}" if hint.startswith("did you mean") else ""


def path_of(thing: Any, *, of_script: bool = False) -> str | None:
    """The import path of a class or function; None if it has none that leads back to it.

    `of_script`: what the script that runs defines has one too, for this process: `__main__.Name`.
    """
    # a class that the library made for properties is made again by its base
    thing = vars(thing).get("_unshaped", thing) if isinstance(thing, type) else thing
    module, name = getattr(thing, "__module__", None), getattr(thing, "__qualname__", None)
    if not isinstance(module, str) or not isinstance(name, str) or (module == _SCRIPT and not of_script):
        return None
    parents = module.split(".")
    for end in range(1, len(parents) + 1):  # the shortest: `ridgeline.operators.FileOutput`
        shorter = ".".join(parents[:end])
        found: Any = sys.modules.get(shorter)
        for part in name.split("."):
            found = getattr(found, part, None)
        if found is thing:
            return f"{shorter}.{name}"
    return None


IMPORT, ENVIRONMENT = "$import", "$env"


def read_value(value: object, environment: Mapping[str, str]) -> Any:
    """A value of a document, with what its marks stand for. Raises ValueFaultError."""
    if isinstance(value, list):
        return [read_value(part, environment) for part in value]
    if not isinstance(value, dict):
        return value
    if len(value) != 1 or next(iter(value)) not in {IMPORT, ENVIRONMENT}:
        return {key: read_value(part, environment) for key, part in value.items()}
    (mark, name), *_ = value.items()
    if not isinstance(name, str):
        raise ValueFaultError(f"`{mark}` takes a text; got {name!r}", "write a text behind it")
    if mark == IMPORT:
        return import_path(name)
    if name not in environment:
        raise ValueFaultError(f"`{name}` is not in the environment", f"set it: `export {name}=...`")
    return environment[name]


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


def _plain(value: object) -> object:
    """Plain data as it is, classes and functions as their import path. Raises _NotPlainError."""
    if value is None or type(value) in (bool, int):
        return value
    if type(value) is float and math.isfinite(value):
        return value
    if type(value) is str and not any("\ud800" <= one <= "\udfff" for one in value):
        return value
    if type(value) is list:
        return [_plain(part) for part in value]
    if type(value) is dict and all(type(key) is str for key in value):
        if len(value) != 1 or next(iter(value)) not in {IMPORT, ENVIRONMENT}:
            return {key: _plain(part) for key, part in value.items()}
    elif isinstance(value, type) or callable(value):
        path = path_of(value)
        if path is not None:
            return {IMPORT: path}
    raise _NotPlainError


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


_KEYS = {"class", "arguments", "properties", "load"}


def read_partitioner(spec: Mapping[str, Any]) -> Partitioner:
    """A partitioner from its `class`, `arguments`, `properties` and `load`. Raises ValueFaultError.

    Example:
        >>> read_partitioner({"class": "ridgeline.StickyPartitioner", "arguments": ["payments"]})
        StickyPartitioner(ports=('payments',))
    """
    path, properties = spec.get("class"), spec.get("properties", {})
    arguments, load = spec.get("arguments", []), spec.get("load", [])
    lists = all(isinstance(one, (list, tuple)) for one in (arguments, load))
    sound = isinstance(path, str) and isinstance(properties, Mapping) and lists
    if spec.keys() - _KEYS or not sound:
        what = f"a partitioner is an object with `class` and `properties`; got {shorten(dict(spec))}"
        raise ValueFaultError(what, "name its class: `payments.ByRegion`")
    made: Partitioner = made_of(import_class(str(path), Partitioner), properties, arguments)
    if load:
        made.load = made_of(Load, {}, (tuple(map(float, shares)) for shares in load))
    return made


def write_partitioner(partitioner: Partitioner) -> dict[str, Any]:
    """Plain values from which `read_partitioner` makes an equal partitioner. Raises ValueFaultError."""
    kind, values = type(partitioner), vars(partitioner)
    found: dict[str, Any] = {"class": class_path(kind)}
    for name, parameter in inspect.signature(kind).parameters.items():
        if name in values and parameter.kind is parameter.VAR_POSITIONAL:
            found["arguments"] = [write_value(name, one, Any) for one in values[name]]
        elif name in values:
            given = values[name] if parameter.kind is parameter.VAR_KEYWORD else {name: values[name]}
            written = {key: write_value(key, one, Any) for key, one in given.items()}
            found["properties"] = {**found.get("properties", {}), **written}
    if partitioner.load != Load():
        found["load"] = [list(partitioner.load.by_partition), list(partitioner.load.by_cell)]
    if not same_value(read_partitioner(found), partitioner):
        what = f"a `{kind.__name__}` is not made anew by what it was given"
        raise ValueFaultError(what, "keep the arguments of `__init__` under their names")
    return found
