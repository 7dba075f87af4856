"""Properties and attributes from outside: `-D operator.property=value`, `--attribute ...`, configuration."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
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
        self.streams: dict[str, dict[str, Any]] = {}
        """Attributes of streams, by name."""

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
        """Let what is given to an operator be given to another one, too, or (None) drop it."""
        moved = self.taken([operator])
        if new is not None:
            for (kind, _, port), values in moved.items():
                self.of(kind, new, port).update(values)

    def taken(self, operators: Iterable[str]) -> Overrides:
        """What is given to these operators; it is taken away."""
        found = Overrides()
        keys: list[tuple[Kind, str]] = [(kind, one) for one in operators for kind in get_args(Kind)]
        found._values = {key: self._values.pop(key) for key in keys if key in self._values}
        return found


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


def check_owners(faults: Faults, given: Overrides, names: Collection[str]) -> None:
    """Add a fault for each value that is given to an operator that there is not."""
    for (kind, owner, port), values in given.items():
        for name in values:
            key = ".".join(part for part in (owner, kind if port else "", port, name) if part)
            if kind == "property" and not (owner and name):
                what = f"property `{key}` names no operator and property"
                faults.add(key, what, "write `-D operator.property=value`")
            elif owner and owner not in names:
                noun = "a property" if kind == "property" else "an attribute"
                what = f"there is no operator `{owner}` to set {noun} of"
                faults.add(key, what, did_you_mean(owner, names))


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
