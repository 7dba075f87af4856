"""Properties and attributes from outside: `-D operator.property=value`, `--attribute ...`, configuration."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from ridgeline.api.errors import did_you_mean
from ridgeline.plan.draft import Faults
from ridgeline.plan.graph import Graph, Kind

WINDOW = "window"
_PROPERTY = "write `-D operator.property=value`"


class Overrides:
    """Properties and attributes from outside, each in a mapping of what they are of.

    Attributes of "" are the application's.
    """

    def __init__(self) -> None:
        self._values: dict[tuple[Kind, str, str], dict[str, Any]] = {}
        self.streams: dict[str, dict[str, Any]] = {}
        """Attributes of streams, by name."""

    def of(self, kind: Kind, operator: str = "", port: str = "") -> dict[str, Any]:
        """The values of this kind of an operator, or of a port of it; they may be changed."""
        return self._values.setdefault((kind, operator, port), {})

    def items(self) -> Iterator[tuple[tuple[Kind, str, str], dict[str, Any]]]:
        """All values, each mapping with what it is of."""
        yield from self._values.items()

    def move(self, operator: str, new: str | None) -> None:
        """Let what is given to an operator be given to another one, too, or (None) drop it."""
        moved = self.taken([operator])
        if new is not None:
            for (kind, _, port), values in moved.items():
                self.of(kind, new, port).update(values)

    def taken(self, operators: Iterable[str]) -> Overrides:
        """What is given to these operators; it is taken away."""
        found, names = Overrides(), set(operators)
        found._values = {owner: values for owner, values in self._values.items() if owner[1] in names}
        self._values = {owner: values for owner, values in self._values.items() if owner[1] not in names}
        return found

    def set(self, faults: Faults, graph: Graph) -> Graph:
        """The graph with all values set; adds a fault for each that is of an operator that there is not.

        What is given to a module has been given to the operators inside.
        """
        nodes, attributes = dict(graph.nodes), dict(graph.attributes)
        for (kind, owner, port), values in self.items():
            if kind == "property" and values.pop("", None) is not None:
                faults.add(owner, f"property `{owner}` names no operator and property", _PROPERTY)
            if owner in nodes:
                nodes[owner] = nodes[owner].given(kind, port, values)
            elif kind == "attribute" and not owner:
                attributes |= values
            elif owner not in graph.parts:
                _refuse(faults, (kind, owner, port), values, graph.names)
        return replace(graph, nodes=nodes, attributes=attributes)


def _refuse(
    faults: Faults, of: tuple[Kind, str, str], values: Mapping[str, Any], names: Collection[str]
) -> None:
    """Add a fault for each value that is given to an operator that there is not."""
    kind, owner, port = of
    for name in values:
        key = ".".join(part for part in (owner, kind if port else "", port, name) if part)
        if kind == "property" and not (owner and name):
            faults.add(key, f"property `{key}` names no operator and property", _PROPERTY)
        else:
            noun = "a property" if kind == "property" else "an attribute"
            faults.add(key, f"there is no operator `{owner}` to set {noun} of", did_you_mean(owner, names))


def read_options(
    properties: Mapping[str, object], attributes: Mapping[str, object], names: Collection[str]
) -> Overrides:
    """Sort options by what they are of: of the `names` the longest that fits, else the first word.

    An attribute of a port is `operator.port.PORT.name`, and one of unifiers `operator.unifier.PORT.name`. One
    of a stream is `stream.NAME.name`, unless an operator or a module is called `stream`.
    """
    found, split = Overrides(), key_splitter(names)
    for key, value in properties.items():
        operator, name = split(key)
        found.of("property", operator)[name] = value
    for key, value in attributes.items():
        owner, path = split(key)
        kind, _, rest = path.partition(".")
        port, _, name = rest.rpartition(".")
        stream, _, own = path.rpartition(".")
        if "." not in key:
            found.of("attribute")[key] = value
        elif owner == "stream" and stream and owner not in names:
            found.streams.setdefault(stream, {})[own] = value
        elif port and name and kind in ("port", "unifier"):
            found.of("port" if kind == "port" else "unifier", owner, port)[name] = value
        else:  # a path of neither form is an attribute that no operator has
            found.of("attribute", owner)[path] = value
    return found


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
