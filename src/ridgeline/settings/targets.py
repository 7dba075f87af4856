"""Targets of configuration: the operators, modules and streams of an application."""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from ridgeline.api.application import Application
from ridgeline.api.attributes import attributes_of
from ridgeline.api.errors import Faults
from ridgeline.api.operator import operator_type
from ridgeline.api.support.attribute import Scope
from ridgeline.plan.modules.expanding import expand

_WILD = frozenset("*?[")
_PORTS = frozenset(("port", "unifier"))


@dataclass(frozen=True, slots=True, eq=False)
class Target:
    """An operator or a module. `inside`: the operators that its attributes are for: itself, or a module's."""

    name: str
    properties: frozenset[str]
    inputs: frozenset[str] = frozenset()
    outputs: frozenset[str] = frozenset()
    inside: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class Meaning:
    """The meaning of a key for one operator. `kind`: "property" or "attribute".

    `keys`: as the plan takes them, `sum.limit`.
    """

    kind: str
    keys: tuple[str, ...]


class AmbiguousError(Exception):
    """A key that could mean two things."""


@dataclass(slots=True, eq=False)
class Targets:
    """All that configuration of one application can name."""

    application: str
    targets: dict[str, Target] = field(default_factory=dict)
    streams: tuple[str, ...] = ()
    _fitting: dict[str, tuple[str, ...]] = field(default_factory=dict)

    @classmethod
    def of(cls, app: Application, properties: Mapping[str, object]) -> Targets:
        """Those of an application; `properties` decide what its modules are made of."""
        graph = expand(Faults(), app, properties).graph
        found = {name: _target(name, node.operator) for name, node in graph.nodes.items()}
        for name, part in graph.parts.items():
            inside = tuple(one for one in graph.nodes if one.startswith(f"{name}."))
            found[name] = _target(name, part.module, inside)
        return cls(str(app.name), found, tuple(graph.streams))

    def named(self, path: str) -> tuple[str, str]:
        """Split `operator.key` after the longest name that fits; no name if none does."""
        end = path.rfind(".")
        while end > 0:
            if path[:end] in self.targets:
                return path[:end], path[end + 1 :]
            end = path.rfind(".", 0, end)
        return "", path

    def fitting(self, path: str) -> Iterator[tuple[Target, str, bool]]:
        """Each target that a path with a wildcard is for, the key, and if it names the target itself.

        The longest wildcard that fits counts.
        """
        seen = set()
        end = path.rfind(".")
        while end > 0:
            for name in self.matching(path[:end]):
                if name not in seen and understood(self.targets[name], path[end + 1 :]):
                    seen.add(name)
                    yield self.targets[name], path[end + 1 :], name == path[:end]
            end = path.rfind(".", 0, end)

    def matching(self, wildcard: str) -> tuple[str, ...]:
        """The names that a wildcard fits."""
        if wildcard not in self._fitting:
            self._fitting[wildcard] = tuple(matching(wildcard, self.targets))
        return self._fitting[wildcard]


def _target(name: str, thing: object, inside: tuple[str, ...] | None = None) -> Target:
    """An operator, or a module with the operators `inside`."""
    declared = operator_type(type(thing))
    properties = frozenset(declared.properties) - {"context"}
    ports = frozenset(declared.inputs), frozenset(declared.outputs)
    return Target(name, properties, *ports, inside or (name,))


def is_wild(text: str) -> bool:
    """True for a text with a wildcard in it."""
    return not _WILD.isdisjoint(text)


def matching(wildcard: str, names: Iterable[str]) -> Iterator[str]:
    """The names that a wildcard fits; `*` stands for dots too."""
    fits = re.compile(fnmatch.translate(wildcard)).match
    return (name for name in names if fits(name))


def understood(target: Target, key: str) -> bool:
    """True if a key says something of a target."""
    try:
        return meaning(target, key) is not None
    except AmbiguousError:
        return True


def meaning(target: Target, key: str) -> Meaning | None:
    """The meaning of a key for an operator or module; None if it has no such property, attribute or port.

    Raises AmbiguousError for the name of a property and an attribute.
    """
    head, _, rest = key.partition(".")
    is_property = head in target.properties
    known = attributes_of(Scope.OPERATOR)
    if is_property and key in known:
        raise AmbiguousError
    if is_property:
        return Meaning("property", (f"{target.name}.{key}",))
    if head == "prop" and rest.partition(".")[0] in target.properties:
        return Meaning("property", (f"{target.name}.{rest}",))
    if head in _PORTS and rest:
        return _of_ports(target, head, rest)
    name = rest if head == "attr" else key
    return Meaning("attribute", tuple(f"{one}.{name}" for one in target.inside)) if name in known else None


def _of_ports(target: Target, kind: str, path: str) -> Meaning | None:
    """The meaning of `port.PORT.attribute` and `unifier.PORT.attribute`; None if there is no such port."""
    port, _, name = path.rpartition(".")
    inputs = target.inputs if kind == "port" else frozenset()
    of_inputs = name in attributes_of(Scope.INPUT_PORT)
    of_outputs = name in attributes_of(Scope.UNIFIER if kind == "unifier" else Scope.OUTPUT_PORT)
    sides = (inputs if of_inputs else frozenset()) | (target.outputs if of_outputs else frozenset())
    ports = matching(port, sorted(sides)) if is_wild(port) else [port] if port in sides else []
    keys = tuple(f"{target.name}.{kind}.{one}.{name}" for one in ports)
    return Meaning("attribute", keys) if keys else None
