"""Properties and attributes from outside: `-D operator.property=value`, `--attribute ...`, configuration."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any, Literal, get_args

from ridgeline.api.application import Application
from ridgeline.api.errors import did_you_mean
from ridgeline.plan.draft import Faults

WINDOW = "window"


Kind = Literal["property", "attribute", "port", "unifier"]


class Overrides:
    """Properties and attributes from outside, each in a mapping of what they are of.

    `port`: attributes of a port; `unifier`: those of the unifiers of an output port. Attributes of "" are the
    application's.
    """

    def __init__(self) -> None:
        self._values: dict[tuple[Kind, str], dict[str, dict[str, Any]]] = {}

    def of(self, kind: Kind, operator: str = "", port: str = "") -> dict[str, Any]:
        """The values of this kind of an operator, or of a port of it; they may be changed."""
        return self._values.setdefault((kind, operator), {}).setdefault(port, {})

    def ports(self, kind: Kind, operator: str) -> Mapping[str, dict[str, Any]]:
        """The values of this kind of all ports of an operator."""
        return self._values.get((kind, operator), {})

    def items(self) -> Iterator[tuple[tuple[Kind, str, str], dict[str, Any]]]:
        """All values, each mapping with what it is of."""
        for (kind, operator), ports in self._values.items():
            for port, values in ports.items():
                yield (kind, operator, port), values

    def add(self, given: Overrides) -> None:
        """Add what is given later, which wins."""
        for owner, values in given.items():
            self.of(*owner).update(values)

    def move(self, operator: str, new: str | None) -> None:
        """Let what is given to an operator be given to another one, or (None) drop it."""
        for kind in get_args(Kind):
            ports = self._values.pop((kind, operator), None)
            if ports is not None and new is not None:
                self._values[kind, new] = ports


def with_attributes_set(app: Application, overrides: Overrides) -> Overrides:
    """What `set_attribute` was given in an application by name; what is given from outside wins."""
    found = Overrides()
    for given in app.attributes_set:
        target = given.target
        if isinstance(target, str):
            found.of("attribute", target).update(given.attributes)
        else:
            kind: Kind = "unifier" if given.unifier else "port"
            found.of(kind, target.operator, target.port).update(given.attributes)
    found.add(overrides)
    return found


def read_overrides(
    faults: Faults, app: Application, properties: Mapping[str, object], attributes: Mapping[str, object]
) -> Overrides:
    """Sort overrides by operator; those that name no operator of the application are faults."""
    found = Overrides()
    names = [str(added.name) for added in app.operators] + [str(added.name) for added in app.modules]
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
            found.of("property", operator)[name] = value
    for key, value in attributes.items():
        operator, name = split(key)
        if "." not in key:
            found.of("attribute")[key] = value
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
        found.of("port" if kind == "port" else "unifier", operator, port)[name] = value
    else:
        found.of("attribute", operator)[path] = value
