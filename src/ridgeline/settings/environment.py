"""Configuration in variables of the environment: `RIDGELINE__OPERATOR__SUM__PARTITIONS=2`.

`__` stands for a dot, `_` also for a minus, capitals for small letters too. So a variable is read by what the
application has. A variable in which all is written as it is, such as `RIDGELINE__operator__Sum__limit`, wins
over other meanings of it; otherwise several meanings are a fault.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Iterable, Iterator

from ridgeline.api.attributes import attributes_of
from ridgeline.api.errors import Fault, nearest
from ridgeline.api.support.attribute import Scope
from ridgeline.settings.files import PREFIX
from ridgeline.settings.layers import Layer
from ridgeline.settings.targets import TEMPLATE, Target, Targets, is_wild

_PORT_SCOPES = (Scope.INPUT_PORT, Scope.OUTPUT_PORT, Scope.UNIFIER)
_OURS = "RIDGELINE_"
_READ = (
    "CA",
    "CLASS_ARCHIVE",
    "DEBUG",
    "HOME",
    "LOG",
    "NO_CONFIG",
    "PRELOAD",
    "READ_TOKEN",
    "SERVICES",
    "SERVICES_REQUIRED",
    "STORE",
    "TOKEN",
    "TRUST",
)
"""The variables `RIDGELINE_...` that are read, beside those that are configuration."""


def unread_variables(environment: Collection[str]) -> list[str]:
    """A warning for each variable `RIDGELINE_...` that is not read. `environment`: names of variables."""
    # Kubernetes sets these for a service called `ridgeline` or `ridgeline-...`.
    services = [name.removesuffix("SERVICE_HOST") for name in environment if name.endswith("_SERVICE_HOST")]
    passed_over = (PREFIX, *(f"{service}{what}" for service in services for what in ("PORT", "SERVICE_")))
    warnings = []
    for name in sorted(environment):
        rest = name.removeprefix(_OURS)
        if not name.startswith(_OURS) or name.startswith(passed_over) or rest in _READ:
            continue
        close = nearest(rest, _READ)  # without the prefix, by which all of them are alike
        listed = ", ".join(f"`{_OURS}{one}`" for one in _READ)
        hint = (
            f"did you mean `{_OURS}{close}`?"
            if close
            else f"configuration begins with `{PREFIX}`; known beside it are {listed}"
        )
        warnings.append(f"the environment variable `{name}` is not read; {hint}")
    return warnings


def read_variables(layer: Layer, targets: Targets, faults: list[Fault]) -> Layer:
    """A layer of variables with the keys that they stand for; adds a fault for each that stands for none."""
    values: dict[str, object] = {}
    places: dict[str, str] = {}
    for variable, value in layer.values.items():
        keys = _meanings(variable, targets)
        name = f"{layer.origin}{variable}"
        keys = keys or [_unknown(variable, targets)]
        if len(keys) > 1:
            listed = " or ".join(f"`{key}`" for key in keys)
            remedy = f"write it as it is, such as `{layer.origin}{keys[0].replace('.', '__')}`"
            faults.append(Fault(name, f"it could mean {listed}", remedy))
        elif keys[0] in places:
            what = f"`{places[keys[0]]}` says the same, `{keys[0]}`"
            faults.append(Fault(name, what, "keep one of them"))
        else:
            values[keys[0]] = value
            places[keys[0]] = name
    return dataclasses.replace(layer, values=values, places=places, variables=False)


def read_run_variables(layer: Layer) -> Layer:
    """The options of a run in a layer of variables, with the keys that they stand for."""
    keys = {name: _literal(name) for name in layer.values if name.lower().startswith("run__")}
    values = {key: layer.values[name] for name, key in keys.items()}
    places = {key: f"{layer.origin}{name}" for name, key in keys.items()}
    return dataclasses.replace(layer, values=values, places=places, variables=False)


def _meanings(variable: str, targets: Targets) -> list[str]:
    """The keys that a variable can stand for."""
    if is_wild(variable):
        return [_literal(variable)]
    found = list(dict.fromkeys(_keys(variable, targets)))
    exact = [key for key in found if key.replace(".", "__") == variable]
    return exact if len(exact) == 1 else found


def _unknown(variable: str, targets: Targets) -> str:
    """The key of a variable that names nothing, with the operator that it may be about."""
    section, _, rest = variable.partition("__")
    found = [*_split(rest, targets.targets)] if section.lower() == "operator" else []
    if not found:
        return _literal(variable)
    name, inner = max(found, key=lambda split: len(split[0]))
    return f"operator.{name}.{_as_it_is(inner)}"


def _keys(variable: str, targets: Targets, application: str = "") -> Iterator[str]:
    """All keys that a variable can stand for; `application`: behind the name of that application."""
    section, _, rest = variable.partition("__")
    section = section.lower()
    if section == "application" and not application:
        yield from (f"application.{name}" for name in _of_application(rest))
        for _, inner in _split(rest, [targets.application]):
            prefix = f"application.{targets.application}"
            yield from (f"{prefix}.{key}" for key in _keys(inner, targets, targets.application))
    elif application:
        yield from _of_application(variable)
    if section == "operator":
        for name, inner in _split(rest, targets.targets):
            yield from (f"operator.{name}.{key}" for key in _of_operator(inner, targets.targets[name]))
    elif section == "stream":
        for name, inner in _split(rest, targets.streams):
            yield from (f"stream.{name}.{key}" for key in _same(inner, attributes_of(Scope.STREAM)))


def _of_application(text: str) -> Iterator[str]:
    yield from _same(text, [*attributes_of(Scope.APPLICATION), "window"])


def _of_operator(text: str, target: Target) -> Iterator[str]:
    """Keys for `PARTITIONS`, `LIMIT`, `OPTIONS__SUBSCRIBE`, `PORT__DATA__QUEUE_CAPACITY`."""
    yield from _same(text, [TEMPLATE])
    yield from _same(text, attributes_of(Scope.OPERATOR))
    yield from _properties(text, target)
    kind, _, rest = text.partition("__")
    kind = kind.lower()
    if kind == "attr":
        yield from (f"attr.{name}" for name in _same(rest, attributes_of(Scope.OPERATOR)))
    elif kind == "prop":
        yield from (f"prop.{name}" for name in _properties(rest, target))
    elif kind in {"port", "unifier"}:
        ports = target.outputs | (target.inputs if kind == "port" else frozenset())
        known = {name for scope in _PORT_SCOPES for name in attributes_of(scope)}
        for port, inner in _split(rest, ports):
            yield from (f"{kind}.{port}.{name}" for name in _same(inner, known))


def _properties(text: str, target: Target) -> Iterator[str]:
    """Properties, and entries of them."""
    yield from _same(text, target.properties)
    for name, entry in _split(text, target.properties):
        yield f"{name}.{_as_it_is(entry)}"


def _split(text: str, names: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Each name that a text can begin with, and what follows."""
    folded = _fold(text)
    for name in names:
        end = len(_fold(name))
        if folded.startswith(f"{_fold(name)}__") and len(text) > end + 2:
            yield name, text[end + 2 :]


def _same(text: str, names: Iterable[str]) -> Iterator[str]:
    folded = _fold(text)
    return (name for name in names if _fold(name) == folded)


def _fold(name: str) -> str:
    """A name as all ways to write it are compared."""
    return name.upper().replace("-", "_").replace(".", "__")


def _literal(variable: str) -> str:
    """The key of a variable that is written as keys are, or in capitals."""
    section, _, rest = variable.partition("__")
    return f"{section.lower()}.{_as_it_is(rest)}" if rest else section.lower()


def _as_it_is(text: str) -> str:
    """A text with dots; in small letters if it has none."""
    return (text.lower() if text.upper() == text else text).replace("__", ".")
