"""Properties and attributes from outside: `-D operator.property=value`, `--attribute ...`, configuration."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import replace
from typing import Any, Literal

from ridgeline.api.application import Kind
from ridgeline.api.errors import Faults, did_you_mean
from ridgeline.plan.graph import Graph

WINDOW = "window"
_PROPERTY = "write `-D operator.property=value`"


class Overrides(dict[tuple[Kind | Literal["stream"], str, str], dict[str, Any]]):
    """Properties and attributes from outside by what they are of: its kind, an operator, or a port of it.

    Attributes of "" are the application's. Streams are called as operators are.
    """

    def move(self, operator: str, new: str | None) -> None:
        """Let what is given to an operator be given to another one, too, or (None) drop it."""
        moved = self.taken([operator])
        if new is not None:
            for (kind, _, port), values in moved.items():
                self.setdefault((kind, new, port), {}).update(values)

    def taken(self, operators: Iterable[str]) -> Overrides:
        """What is given to these operators; it is taken away."""
        names = set(operators)
        return Overrides({of: self.pop(of) for of in [*self] if of[1] in names and of[0] != "stream"})

    def set(self, faults: Faults, graph: Graph) -> Graph:
        """The graph with all values set; adds a fault for each that is of an operator that there is not.

        What is given to a module has been given to the operators inside.
        """
        nodes, attributes = dict(graph.nodes), dict(graph.attributes)
        for (kind, owner, port), values in self.items():
            if kind == "stream":
                continue
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
        found.setdefault(("property", operator, ""), {})[name] = value
    for key, value in attributes.items():
        owner, path = split(key)
        kind, _, rest = path.partition(".")
        port, _, name = rest.rpartition(".")
        stream, _, own = path.rpartition(".")
        of: tuple[Kind | Literal["stream"], str, str] = "attribute", owner, ""
        if "." not in key:
            of, path = ("attribute", "", ""), key
        elif owner == "stream" and stream and owner not in names:
            of, path = ("stream", stream, ""), own
        elif port and name and kind in ("port", "unifier"):
            of, path = ("port" if kind == "port" else "unifier", owner, port), name
        found.setdefault(of, {})[path] = value  # a path of no form is an attribute that no operator has
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
