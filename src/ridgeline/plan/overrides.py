"""Properties and attributes from outside: `-D operator.property=value`, `--attribute ...`, configuration."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

from ridgeline.api.application import Application
from ridgeline.api.errors import did_you_mean
from ridgeline.plan.draft import Faults

WINDOW = "window"


@dataclass(slots=True)
class Overrides:
    """Properties and attributes from outside, by operator.

    `ports`: attributes of ports, by operator and port; `unifiers`: those of unifiers, by operator and output
    port. `application` is for the application itself.
    """

    properties: dict[str, dict[str, object]] = field(default_factory=dict)
    attributes: dict[str, dict[str, Any]] = field(default_factory=dict)
    ports: dict[str, dict[str, dict[str, Any]]] = field(default_factory=dict)
    unifiers: dict[str, dict[str, dict[str, Any]]] = field(default_factory=dict)
    application: dict[str, object] = field(default_factory=dict)


def read_overrides(
    faults: Faults, app: Application, properties: Mapping[str, object], attributes: Mapping[str, object]
) -> Overrides:
    """Sort overrides by operator; those that name no operator of the application are faults."""
    found = Overrides()
    names = dict.fromkeys(str(added.name) for added in app.operators)
    split = key_splitter(names)
    for key, value in properties.items():
        operator, name = split(key)
        if not (operator and name):
            faults.add(
                key, f"property `{key}` names no operator and property", "write `-D operator.property=value`"
            )
        elif operator not in names:
            faults.add(
                key, f"there is no operator `{operator}` to set a property of", did_you_mean(operator, names)
            )
        else:
            found.properties.setdefault(operator, {})[name] = value
    for key, value in attributes.items():
        operator, name = split(key)
        if "." not in key:
            found.application[key] = value
        elif operator not in names:
            faults.add(
                key,
                f"there is no operator `{operator}` to set an attribute of",
                did_you_mean(operator, names),
            )
        else:
            _sort_attribute(found, operator, name, value)
    return found


def divide_stream_attributes(
    attributes: Mapping[str, object], operators: Collection[str]
) -> tuple[dict[str, dict[str, object]], dict[str, object]]:
    """Attributes of streams, `stream.NAME.locality`, by the stream's name, and all others.

    An operator or module that is called `stream` takes them all.

    >>> divide_stream_attributes({"stream.clean.raw.locality": "NODE_LOCAL", "sum.partitions": 2}, ["sum"])
    ({'clean.raw': {'locality': 'NODE_LOCAL'}}, {'sum.partitions': 2})
    """
    streams: dict[str, dict[str, object]] = {}
    others: dict[str, object] = {}
    for key, value in attributes.items():
        kind, _, path = key.partition(".")
        name, _, attribute = path.rpartition(".")
        if kind == "stream" and name and kind not in operators:
            streams.setdefault(name, {})[attribute] = value
        else:
            others[key] = value
    return streams, others


def key_splitter(names: Collection[str]) -> Callable[[str], tuple[str, str]]:
    """A function that splits `operator.property` after the longest operator name that fits.

    If none fits, it splits at the first dot.

    >>> split = key_splitter(["outer", "outer.inner"])
    >>> split("outer.inner.limit"), split("outer.limit"), split("window")
    (('outer.inner', 'limit'), ('outer', 'limit'), ('window', ''))
    """
    most_dots = max((name.count(".") for name in names), default=0)

    def split(key: str) -> tuple[str, str]:
        parts = key.split(".", most_dots + 1)
        lengths = range(len(parts) - 1, 0, -1)
        fitting = (name for length in lengths if (name := ".".join(parts[:length])) in names)
        operator = next(fitting, parts[0])
        return operator, key[len(operator) + 1 :]

    return split


def _sort_attribute(found: Overrides, operator: str, path: str, value: object) -> None:
    """Add an attribute of an operator, `name`, or of one of its ports, `port.PORT.name`, `unifier.PORT.name`.

    A path of neither form becomes an attribute that no operator has, so that it is a fault.
    """
    kind, _, rest = path.partition(".")
    port, _, name = rest.rpartition(".")
    if port and name and kind in ("port", "unifier"):
        sorted_by_port = found.ports if kind == "port" else found.unifiers
        sorted_by_port.setdefault(operator, {}).setdefault(port, {})[name] = value
    else:
        found.attributes.setdefault(operator, {})[path] = value
