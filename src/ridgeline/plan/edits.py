"""Edits of a plan, of which a change consists, as plain data for checkpoints, requests and logs.

An edit names operators, streams and ports as the application does. It is applied to the application, which is
then planned and validated as a whole (`ridgeline.plan.change.editing`), so an edit says nothing about ids.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import MISSING, dataclass, field, fields
from typing import Any, get_args

from ridgeline.api.errors import ChangeError, did_you_mean, shorten

_NOTHING: Mapping[str, Any] = {}


@dataclass(frozen=True, slots=True)
class SetProperty:
    """Give an operator's property a value; on all partitions. The living instances get it."""

    operator: str
    property: str
    value: Any


@dataclass(frozen=True, slots=True)
class SetAttribute:
    """Give an attribute a value: of an operator, of one of its ports (`port`), or of the unifiers of a port.

    `operator` "": of the application. `value` None: the operator has its default again.
    """

    operator: str
    attribute: str
    value: Any
    port: str = ""
    unifier: bool = False


@dataclass(frozen=True, slots=True)
class Repartition:
    """Give an operator another number of partitions, or another partitioner, or both.

    `partitioner`: its class and properties, as a specification writes an operator. None: that of before.
    """

    operator: str
    partitions: int | None = None
    partitioner: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class AddOperator:
    """Add an operator; `spec`: class, properties, attributes, ports and unifiers, as in a specification."""

    name: str
    spec: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class RemoveOperator:
    """Remove an operator, with its state, and the ends of streams at it."""

    name: str


@dataclass(frozen=True, slots=True)
class ReplaceOperator:
    """Put another operator in the place of one: its streams stay, so does its state if that fits."""

    name: str
    spec: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class RenameOperator:
    """Give an operator another name; it keeps its state."""

    name: str
    new: str


@dataclass(frozen=True, slots=True)
class AddStream:
    """Join an output port to input ports, each as `operator.port`."""

    name: str
    source: str
    sinks: tuple[str, ...]
    locality: str | None = None


@dataclass(frozen=True, slots=True)
class RemoveStream:
    """Remove a stream."""

    name: str


@dataclass(frozen=True, slots=True)
class AddSink:
    """Let an input port, as `operator.port`, read a stream from now on."""

    stream: str
    sink: str
    locality: str | None = None


@dataclass(frozen=True, slots=True)
class RemoveSink:
    """Let an input port read a stream no more."""

    stream: str
    sink: str


Edit = (
    SetProperty
    | SetAttribute
    | Repartition
    | AddOperator
    | RemoveOperator
    | ReplaceOperator
    | RenameOperator
    | AddStream
    | RemoveStream
    | AddSink
    | RemoveSink
)
EDITS: Mapping[str, type[Any]] = {
    re.sub(r"(?<!^)(?=[A-Z])", "-", kind.__name__).lower(): kind for kind in get_args(Edit)
}
"""The edits by the name that requests and checkpoints have for them, as `do`: `set-property`."""
_NAMES = {kind: name for name, kind in EDITS.items()}


def edit_to_json(edit: Edit) -> dict[str, Any]:
    """An edit as JSON values; fields that have their default are left out.

    >>> edit_to_json(Repartition("count", 3))
    {'do': 'repartition', 'operator': 'count', 'partitions': 3}
    """
    found: dict[str, Any] = {"do": _NAMES[type(edit)]}
    for one in fields(edit):
        value = getattr(edit, one.name)
        if one.default is MISSING or value != one.default:
            found[one.name] = list(value) if isinstance(value, tuple) else value
    return found


def edit_of(document: object) -> Edit:
    """The edit that `edit_to_json` wrote, or a user did. Raises ChangeError.

    >>> edit_of({"do": "add-sink", "stream": "quotes", "sink": "audit.input"})
    AddSink(stream='quotes', sink='audit.input', locality=None)
    """
    if not isinstance(document, Mapping) or not isinstance(document.get("do"), str):
        raise ChangeError(f"an edit is an object with `do` and its fields; got {shorten(document)}")
    name = document["do"]
    if name not in EDITS:
        raise ChangeError(f"there is no edit `{name}`; {did_you_mean(name, EDITS)}")
    kind = EDITS[name]
    known = {one.name: one for one in fields(kind)}
    values = {key: value for key, value in document.items() if key != "do"}
    for key in values:
        if key not in known:
            raise ChangeError(f"`{name}` has no field `{key}`; {did_you_mean(str(key), known)}")
    for key, one in known.items():
        if key not in values and one.default is MISSING and one.default_factory is MISSING:
            raise ChangeError(f"`{name}` needs the field `{key}`")
        if key in values:
            values[key] = _checked(name, key, str(one.type), values[key])
    edit: Edit = kind(**values)
    return edit


def _checked(edit: str, key: str, kind: str, value: Any) -> Any:
    """The value of a field, which must be of its type. Raises ChangeError."""
    if kind == "Any" or (value is None and kind.endswith("| None")):
        return value
    base = kind.removesuffix(" | None")
    if base == "tuple[str, ...]" and isinstance(value, (str, list, tuple)):
        value = (value,) if isinstance(value, str) else tuple(value)
        sound = bool(value) and all(isinstance(one, str) for one in value)
    else:
        kinds = {"str": str, "bool": bool, "int": int}
        sound = isinstance(value, kinds.get(base, Mapping)) and (base != "int" or type(value) is not bool)
    if sound:
        return value
    wanted = {"str": "a text", "int": "a whole number", "bool": "true or false", "tuple[str, ...]": "texts"}
    raise ChangeError(f"`{key}` of `{edit}` is {wanted.get(base, 'an object')}; got {shorten(value)}")


@dataclass(frozen=True, slots=True)
class Given:
    """Values and edits of an application from outside. Later ones win: `kept` edits, options, `edits`."""

    properties: Mapping[str, object] = field(default_factory=dict)
    attributes: Mapping[str, object] = field(default_factory=dict)
    edits: tuple[Edit, ...] = ()
    kept: tuple[Edit, ...] = ()
