"""Edits in words, as the lines of a session of `ridgeline change` say them."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from ridgeline.api.errors import ChangeError
from ridgeline.plan.edits import (
    AddOperator,
    AddSink,
    AddStream,
    Edit,
    RemoveOperator,
    RemoveSink,
    RemoveStream,
    RenameOperator,
    Repartition,
    ReplaceOperator,
    SetAttribute,
    SetProperty,
)


def partitioner_of(text: str) -> dict[str, Any]:
    """The partitioner that a text names: an import path, or JSON. Raises ChangeError.

    >>> partitioner_of("payments.ByRegion")
    {'class': 'payments.ByRegion'}
    """
    if not text.lstrip().startswith("{"):
        return {"class": text}
    try:
        found: dict[str, Any] = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ChangeError(f"`--partitioner` is no JSON: {error}; write it as JSON") from None
    return found


class Verb(NamedTuple):
    """An edit as a line.

    `words`: what stands behind the name; a word in brackets may be left out. `edit` takes them as texts.
    """

    words: str
    help: str
    edit: Callable[..., Edit]


def _stream(name: str, source: str, output: str, sink: str, port: str) -> Edit:
    return AddStream(name, f"{source}.{output}", (f"{sink}.{port}",))


def _repartition(operator: str, partitions: str, partitioner: str = "") -> Edit:
    if not partitions.isdecimal():
        raise ChangeError(f"`{partitions}` is no number of partitions; give a whole number")
    return Repartition(operator, int(partitions), partitioner_of(partitioner) if partitioner else None)


def _port_attribute(operator: str, port: str, name: str, value: str) -> Edit:
    return SetAttribute(operator, name, value, port)


VERBS: Mapping[str, Verb] = {
    "create-operator": Verb(
        "NAME CLASS",
        "add an operator of a class, by its import path",
        lambda name, kind: AddOperator(name, {"class": kind}),
    ),
    "create-stream": Verb(
        "NAME FROM-OPERATOR FROM-PORT TO-OPERATOR TO-PORT", "join an output port to an input port", _stream
    ),
    "add-stream-sink": Verb(
        "STREAM TO-OPERATOR TO-PORT",
        "let one more input port read a stream",
        lambda name, sink, port: AddSink(name, f"{sink}.{port}"),
    ),
    "remove-stream-sink": Verb(
        "STREAM TO-OPERATOR TO-PORT",
        "let an input port read a stream no more",
        lambda name, sink, port: RemoveSink(name, f"{sink}.{port}"),
    ),
    "remove-operator": Verb(
        "NAME", "remove an operator, its state, and the ends of streams at it", RemoveOperator
    ),
    "replace-operator": Verb(
        "NAME CLASS",
        "put an operator of another class in the place of one",
        lambda name, kind: ReplaceOperator(name, {"class": kind}),
    ),
    "rename-operator": Verb("NAME NEW", "give an operator another name", RenameOperator),
    "remove-stream": Verb("NAME", "remove a stream", RemoveStream),
    "repartition": Verb(
        "OPERATOR N [PARTITIONER]", "give an operator another number of partitions", _repartition
    ),
    "set-operator-property": Verb("OPERATOR PROPERTY VALUE", "give a property a value", SetProperty),
    "set-operator-attribute": Verb(
        "OPERATOR ATTRIBUTE VALUE", "give an attribute of an operator a value", SetAttribute
    ),
    "set-port-attribute": Verb(
        "OPERATOR PORT ATTRIBUTE VALUE", "give an attribute of a port a value", _port_attribute
    ),
    "set-stream-attribute": Verb(
        "STREAM ATTRIBUTE VALUE",
        "give an attribute of a stream a value: `locality`",
        lambda stream, name, value: SetAttribute(f"stream.{stream}", name, value),
    ),
}
"""By name, in the order in which a session's `help` lists them."""
