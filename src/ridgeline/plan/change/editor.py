"""What edits are made of: a graph that each of them replaces, and the finding of what they name."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from ridgeline.api.application import Node
from ridgeline.api.errors import Faults, did_you_mean
from ridgeline.api.partitioner import Partitioner
from ridgeline.api.support.loops import DelayHead, DelayTail
from ridgeline.plan.graph import Graph, Part, Stream, graph_of
from ridgeline.plan.logical import module_of
from ridgeline.plan.region import PortRef
from ridgeline.plan.spec.reader import find_port, read_operator
from ridgeline.plan.spec.values import read_partitioner, read_value
from ridgeline.plan.validate.application import check_name

ONE_OF_TWO = {
    "application_window": "application_window_count",
    "application_window_count": "application_window",
}
"""Attributes of which only one can be given: who sets one means it in the place of the other."""


class Editor:
    """Holds what edits change, and finds in it what they name; what is not there is a fault.

    `graph`: as the edits so far have made it. `spoilt`: names of what could not be made, so that it is no
    further fault that they are missing.
    """

    def __init__(self, faults: Faults, graph: Graph) -> None:
        self.faults = faults
        self.graph = graph
        self.spoilt: set[str] = set()
        self._fed = graph.ends

    def finished(self) -> Graph:
        """The graph with all edits made; streams that they have left without sinks are gone.

        A port inside a module that a port of the module stands for must be connected again, if an edit took
        its stream away.
        """
        graph = self.graph
        graph = graph.without_streams([one.name for one in graph.streams.values() if not one.sinks])
        fed = {end.operator for end in graph.ends}
        left = [one.name for one in graph.nodes.values() if one.operator.leaves_with_streams]
        graph = graph.without([name for name in left if name not in fed])
        parts = {
            name: part
            for name, part in graph.parts.items()
            if part.failed or part.ends is None or any(one.startswith(f"{name}.") for one in graph.nodes)
        }
        return replace(graph, parts=parts, exempt=graph.exempt - (self._fed - graph.ends))

    # What is made of texts ----------------------------------------------------------------------------------

    def made(self, name: str, spec: Mapping[str, Any]) -> Node | None:
        """The operator that a specification says; None for faults."""
        made = read_operator(name, spec, self.faults)
        if made is None:
            self.spoilt.add(name)
            return None
        return graph_of(made).nodes[name]

    def partitioner(self, where: str, spec: Mapping[str, Any]) -> Partitioner | None:
        """A partitioner from its specification; None for a fault."""
        with self.faults.noting(where):
            return read_partitioner({key: self.value(where, value) for key, value in spec.items()})
        return None

    def value(self, where: str, value: Any) -> Any:
        """A value, with what marks such as `$import` stand for."""
        with self.faults.noting(where):
            return read_value(value, {})
        return value

    # What is there ------------------------------------------------------------------------------------------

    def is_free(self, name: Any) -> bool:
        """True if a name can be given to an operator; else there is a fault."""
        before = len(self.faults)
        if isinstance(name, str) and "." in name:
            what = "only what is inside of a module has a dot in its name"
            self.faults.add(name, what, "use letters, digits, `_` and `-` only")
        elif name in self.graph.names:
            noun = "an operator" if name in self.graph.nodes else "a module"
            self.faults.add(name, f"there is {noun} `{name}` already", "give another name")
        else:
            check_name(self.faults, "operator", name)
        if len(self.faults) > before:
            return False
        self.spoilt.discard(name)
        return True

    def is_end_of_delay(self, name: str) -> bool:
        """True, with a fault, for one of the two operators of a delay."""
        if not isinstance(self.graph.nodes[name].operator, (DelayHead, DelayTail)):
            return False
        delay = module_of(name)
        self.faults.add(name, f"it is an end of the delay `{delay}`", f"name `{delay}`, both ends at once")
        return True

    def find(self, name: str, part: str = "") -> Node | None:
        """An operator by name; None, and a fault, if there is none."""
        found = self.graph.nodes.get(name)
        if found is None and name not in self.spoilt:
            where = f"{name}.{part}" if name and part else name or part or "operator"
            if name in self.graph.parts:
                self.faults.add(where, f"`{name}` is a module", "name an operator inside of it")
            else:
                remedy = did_you_mean(name, self.graph.names)
                self.faults.add(where, f"there is no operator `{name}`", remedy)
        return found

    def members(self, name: str, attribute: str, port: str = "") -> list[tuple[Node | Part, str]]:
        """An operator, or all operators of a module, each with a port; none, and a fault, if there is none.

        `port`: of the operator or module; those of a module stand for ports inside.
        """
        part, nodes = self.graph.parts.get(name), self.graph.nodes
        if part is None:
            found = self.find(name, attribute)
            return [] if found is None else [(found, port)]
        if part.ends is None:  # what it is made of will get what it is given
            return [(part, port)]
        if port and port not in part.ends:
            what = f"module `{name}` has no port `{port}` to set an attribute of"
            self.faults.add(f"{name}.port.{port}", what, did_you_mean(port, part.ends))
            return []
        if port:
            return [(nodes[end.operator], end.port) for end in part.ends[port]]
        return [(node, "") for one, node in nodes.items() if one.startswith(f"{name}.")]

    def stream(self, where: str, name: str) -> Stream | None:
        """A stream by name; None, and a fault, if there is none."""
        found = self.graph.streams.get(name)
        if found is None:
            owner = name.removesuffix("_dead_letters")
            remedy = did_you_mean(name, self.graph.streams)
            if owner != name and owner in self.graph.nodes:
                remedy = f"add a stream from `{owner}.dead_letters`"
            self.faults.add(where, f"there is no stream `{name}`", remedy)
        return found

    def end(self, where: str, text: str, side: str) -> list[PortRef] | None:
        """The ports that `operator.port` names, several for one of a module; None, and a fault, for none."""
        nodes, parts = self.graph.nodes, self.graph.parts
        things: dict[str, Any] = {name: part.module for name, part in parts.items()}
        things |= {name: node.operator for name, node in nodes.items()}
        found = find_port(self.faults.add, where, text, side, things, self.spoilt)
        if found is None:
            return None
        owner, port = found
        return parts[owner].reached(port) if owner in parts else [PortRef(owner, port)]
