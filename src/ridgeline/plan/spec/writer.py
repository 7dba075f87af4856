"""An `Application` as a specification, or the faults that name what cannot be written."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from ridgeline.api.affinity import AffinityRule
from ridgeline.api.application import KEEP, AddedRegion, Application, Node
from ridgeline.api.errors import Faults
from ridgeline.api.operator import Operator, operator_type
from ridgeline.api.partitioner import Partitioner
from ridgeline.api.support.properties import property_types
from ridgeline.plan.graph import Graph, Part, Stream, graph_of
from ridgeline.plan.shown_properties import is_default
from ridgeline.plan.spec.deciders import write_decider, write_promise
from ridgeline.plan.spec.form import Document
from ridgeline.plan.spec.values import class_path, write_partitioner, write_value

_NOTHING: Mapping[str, Any] = {}
_OWN = {"_given", "_migrations", "_schemas"}


def specification_of(app: Application | Graph) -> Document:
    """The application, which is valid, as a document from which an equal plan is made.

    Properties are written that differ from their defaults, and all attributes that were set. Raises
    ValidationError naming the operator and property of all that cannot be written.
    """
    graph = app if isinstance(app, Graph) else graph_of(app)
    faults = Faults()
    document = _Writer(faults).document(graph)
    faults.check(graph.name)
    return document


def spec_of_operator(
    name: str, operator: Operator, attributes: Mapping[str, Any] = _NOTHING
) -> Mapping[str, Any]:
    """The `spec` of an `AddOperator` or `ReplaceOperator`, from an instance: its class and properties.

    A class of the script that runs is written as `__main__.Name`. So it is found again where the same script
    runs: to go on after a restart, start that one. Raises ValidationError for what cannot be written: a class
    inside of a function, a lambda, a secret.

    Example:
        >>> from ridgeline.operators import FileOutput
        >>> spec_of_operator("store", FileOutput(path="audit", format="jsonl"), {"partitions": 2})
        {'class': 'ridgeline.operators.FileOutput',
         'properties': {'path': 'audit', 'format': 'jsonl'},
         'attributes': {'partitions': 2}}
    """
    faults = Faults()
    found = _Writer(faults, of_script=True).operator(Node(name, operator, attributes))
    faults.check(name)
    return found


def operator_specs(faults: Faults, app: Application, names: Collection[str]) -> dict[str, Document]:
    """Some operators of an application as a specification writes them; faults for what cannot be written."""
    writer = _Writer(faults)
    return {name: writer.operator(one) for name, one in graph_of(app).nodes.items() if name in names}


class _Writer:
    """Writes an application, and notes what cannot be written.

    `of_script`: classes of the script that runs are written as `__main__.Name`.
    """

    def __init__(self, faults: Faults, *, of_script: bool = False) -> None:
        self.faults, self._of_script = faults, of_script

    def document(self, graph: Graph) -> Document:
        """All that can be written, without queries and recordings, which were inserted."""
        graph = graph.without([name for name, one in graph.nodes.items() if one.operator.leaves_with_streams])
        return {
            "application": graph.name,
            "window": graph.window,
            **_filled(attributes=self._attributes("", graph.attributes)),
            "operators": {name: self.operator(node) for name, node in graph.nodes.items()},
            **_filled(modules={name: self._module(part) for name, part in graph.parts.items()}),
            "streams": {name: self._stream(stream) for name, stream in graph.streams.items()},
            **_filled(
                dead_letters=str(graph.dead_letters or ""),
                regions={added.name: self._region(added) for added in graph.regions},
                affinity=[self._rule(rule) for _, rule in graph.rules],
                policies=[self._decider(graph.name, "policy", policy) for policy in graph.policies],
                promises=list(map(write_promise, graph.promises)),
            ),
        }

    def _attributes(self, owner: str, given: Mapping[str, Any]) -> Document:
        found = {}
        for name, value in given.items():
            where = f"{owner}.{name}" if owner else name
            found[name] = self._value(where, "attribute", name, getattr(value, "name", value), Any)
        return found

    def operator(self, node: Node) -> Document:
        """Its class, with the properties and attributes that are not the defaults."""
        found = self._made(node.name, node.operator)
        if node.migrations:
            what = "the application gives it migrations, which no specification holds"
            self.faults.add(node.name, what, "list them in its class: `migrations = [...]`")

        def of_ports(given: Mapping[str, Mapping[str, Any]]) -> Document:
            return {port: self._attributes(f"{node.name}.{port}", values) for port, values in given.items()}

        return found | _filled(
            stats_listeners=[self._decider(node.name, "listener", one) for one in node.listeners],
            attributes=self._attributes(node.name, node.attributes),
            ports=of_ports(node.ports),
            unifiers=of_ports(node.unifiers),
        )

    def _decider(self, owner: str, what: str, decider: Any) -> object:
        with self.faults.noting(owner, f"a {what} cannot be written: "):
            return write_decider(decider)
        return None

    def _module(self, part: Part) -> Document:
        return self._made(part.name, part.module) | _filled(
            attributes=self._attributes(part.name, part.attributes)
        )

    def _made(self, name: str, thing: Any) -> Document:
        """The class of an operator or module, and its properties."""
        found: Document = {}
        with self.faults.noting(name):
            found["class"] = class_path(type(thing), of_script=self._of_script)
        return found | _filled(properties=self._properties(name, thing))

    def _properties(self, owner: str, operator: Any) -> Document:
        """The properties that differ from their defaults."""
        values, kinds = vars(operator), property_types(type(operator))
        found = {}
        for name, default in operator_type(type(operator)).properties.items():
            if name in kinds and name in values and not is_default(values[name], default):
                where = f"{owner}.{name}"
                found[name] = self._value(where, "property", name, values[name], kinds[name])
        kept = operator.__getstate__() if isinstance(operator, Operator) else {}
        for name in sorted(set(kept) - set(kinds) - _OWN):
            if not _made_by_itself(operator, name):
                what = f"`{name}` is no property, but the operator was made with it"
                self.faults.add(f"{owner}.{name}", what, "declare it as a property: `name: type`")
        return found

    def _value(self, where: str, what: str, name: str, value: Any, kind: Any) -> object:
        with self.faults.noting(where, f"{what} `{name}` cannot be written: "):
            if what == "attribute" and isinstance(value, Partitioner):
                return write_partitioner(value)
            return write_value(name, value, kind)
        return None

    def _stream(self, stream: Stream) -> Document:
        """A stream: its ends, and what each sink has of its own."""
        own = stream.sinks.values()
        places = {_name(one.locality) for one in own}
        same, every = len(places) == 1, all(one.decoupled for one in own)
        sinks = []
        for end, sink in stream.sinks.items():
            values = _filled(
                locality="" if same else _name(sink.locality), decoupled=sink.decoupled and not every
            )
            sinks.append({"port": str(end), **values} if values else str(end))
        waits = any(one.decoupled for one in own) and stream.keep != KEEP
        found: Document = {"from": str(stream.source), "to": sinks, **_filled(decoupled=every)}
        return found | ({"keep": stream.keep} if waits else {}) | _filled(locality=same and places.pop())

    def _region(self, added: AddedRegion) -> Document:
        window = {} if added.window is None else {"window": added.window}
        attributes = _filled(attributes=self._attributes("", added.attributes))
        return {"operators": list(added.operators), **window, **attributes}

    def _rule(self, rule: AffinityRule) -> Document:
        hosts = [rule.hosts] if isinstance(rule.hosts, str) else list(rule.hosts)
        found: Document = {"type": _name(rule.type), "locality": _name(rule.locality), "relax": rule.relax}
        named = {"operators": list(rule.operators)} if rule.pattern is None else {"pattern": rule.pattern}
        return found | _filled(hosts=hosts) | named


def _filled(**values: Any) -> Document:
    """Those of the values that are not empty."""
    return {name: value for name, value in values.items() if value}


def _name(member: object) -> str:
    return "" if member is None else str(getattr(member, "name", member))


def _made_by_itself(operator: Operator, name: str) -> bool:
    """True if an attribute that is no property follows from the class and the properties."""
    cls = type(operator)
    properties = {known for known in operator_type(cls).properties if known in vars(operator)} - {"context"}
    try:
        again = cls(**{known: vars(operator)[known] for known in properties})
        return bool(vars(again)[name] == vars(operator)[name])
    except Exception:  # noqa: BLE001  code of the operator's author
        return False
