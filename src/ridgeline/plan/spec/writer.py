"""An `Application` as a specification, or the faults that name what cannot be written."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from ridgeline.api.affinity import AffinityRule
from ridgeline.api.application import KEEP, AddedRegion, Application
from ridgeline.api.errors import Fault, ValidationError
from ridgeline.api.operator import Operator, operator_type
from ridgeline.api.partitioner import Partitioner
from ridgeline.api.support.properties import property_types
from ridgeline.plan.graph import Graph, Node, Part, Stream, graph_of
from ridgeline.plan.shown_properties import is_default
from ridgeline.plan.spec.deciders import write_decider, write_promise
from ridgeline.plan.spec.form import Document
from ridgeline.plan.spec.values import ValueFaultError, class_path, write_partitioner, write_value

_OWN = {"_given", "_migrations", "_schemas"}


def specification_of(app: Application | Graph) -> Document:
    """The application, which is valid, as a document from which an equal plan is made.

    Properties are written that differ from their defaults, and all attributes that were set. Raises
    ValidationError naming the operator and property of all that cannot be written.
    """
    graph = app if isinstance(app, Graph) else graph_of(app)
    writer = _Writer()
    document = writer.document(graph)
    if writer.faults:
        raise ValidationError(graph.name, writer.faults)
    return document


def operator_spec(name: str, operator: Operator, attributes: Mapping[str, Any]) -> Document:
    """One operator as a specification writes it, for this process: classes of its script count too.

    Raises ValidationError.
    """
    writer = _Writer(of_script=True)
    found = writer.operator(Node(name, operator, attributes))
    if writer.faults:
        raise ValidationError(name, writer.faults)
    return found


def operator_specs(app: Application, names: Collection[str]) -> tuple[dict[str, Document], list[Fault]]:
    """Some operators of an application as a specification writes them, and what of them cannot be written."""
    writer = _Writer()
    written = {name: writer.operator(one) for name, one in graph_of(app).nodes.items() if name in names}
    return written, writer.faults


class _Writer:
    """Writes an application, and notes what cannot be written.

    `of_script`: classes of the script that runs are written as `__main__.Name`.
    """

    def __init__(self, *, of_script: bool = False) -> None:
        self._of_script = of_script
        self.faults: list[Fault] = []

    def document(self, graph: Graph) -> Document:
        """All that can be written, without queries and recordings, which were inserted."""
        graph = graph.without([name for name, one in graph.nodes.items() if one.operator.leaves_with_streams])
        found: Document = {"application": graph.name, "window": graph.window}
        if graph.attributes:
            found["attributes"] = self._attributes("", graph.attributes)
        found["operators"] = {name: self.operator(node) for name, node in graph.nodes.items()}
        if graph.parts:
            found["modules"] = {name: self._module(part) for name, part in graph.parts.items()}
        found["streams"] = {name: self._stream(stream) for name, stream in graph.streams.items()}
        if graph.dead_letters is not None:
            found["dead_letters"] = str(graph.dead_letters)
        if graph.regions:
            found["regions"] = {added.name: self._region(added) for added in graph.regions}
        if graph.rules:
            found["affinity"] = [self._rule(rule) for _, rule in graph.rules]
        if graph.policies:
            found["policies"] = [self._decider(graph.name, "policy", policy) for policy in graph.policies]
        if graph.promises:
            found["promises"] = [write_promise(promise) for promise in graph.promises]
        return found

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
            self._fault(node.name, what, "list them in its class: `migrations = [...]`")
        if node.listeners:
            written = [self._decider(node.name, "listener", one) for one in node.listeners]
            found["stats_listeners"] = written
        if node.attributes:
            found["attributes"] = self._attributes(node.name, node.attributes)
        for section, given in (("ports", node.ports), ("unifiers", node.unifiers)):
            if given:
                found[section] = {
                    port: self._attributes(f"{node.name}.{port}", values) for port, values in given.items()
                }
        return found

    def _decider(self, owner: str, what: str, decider: Any) -> object:
        try:
            return write_decider(decider)
        except ValueFaultError as error:
            self._fault(owner, f"a {what} cannot be written: {error.what}", error.remedy)
            return None

    def _module(self, part: Part) -> Document:
        found = self._made(part.name, part.module)
        if part.attributes:
            found["attributes"] = self._attributes(part.name, part.attributes)
        return found

    def _made(self, name: str, thing: Any) -> Document:
        """The class of an operator or module, and its properties."""
        found: Document = {}
        try:
            found["class"] = class_path(type(thing), of_script=self._of_script)
        except ValueFaultError as error:
            self._fault(name, error.what, error.remedy)
        properties = self._properties(name, thing)
        return {**found, "properties": properties} if properties else found

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
                self._fault(f"{owner}.{name}", what, "declare it as a property: `name: type`")
        return found

    def _value(self, where: str, what: str, name: str, value: Any, kind: Any) -> object:
        try:
            if what == "attribute" and isinstance(value, Partitioner):
                return write_partitioner(value)
            return write_value(name, value, kind)
        except ValueFaultError as error:
            self._fault(where, f"{what} `{name}` cannot be written: {error.what}", error.remedy)
            return None

    def _stream(self, stream: Stream) -> Document:
        """A stream: its ends, and what each sink has of its own."""
        own = stream.sinks.values()
        places = {None if one.locality is None else _name(one.locality) for one in own}
        same, every = len(places) == 1, all(one.decoupled for one in own)
        sinks = []
        for end, sink in stream.sinks.items():
            values: Document = {}
            if not same and sink.locality is not None:
                values["locality"] = _name(sink.locality)
            if not every and sink.decoupled:
                values["decoupled"] = True
            sinks.append({"port": str(end), **values} if values else str(end))
        found: Document = {"from": str(stream.source), "to": sinks}
        if every:
            found["decoupled"] = True
        if any(one.decoupled for one in own) and stream.keep != KEEP:
            found["keep"] = stream.keep
        if same and places != {None}:
            found["locality"] = places.pop()
        return found

    def _region(self, added: AddedRegion) -> Document:
        found: Document = {"operators": list(added.operators)}
        if added.window is not None:
            found["window"] = added.window
        if added.attributes:
            found["attributes"] = self._attributes("", added.attributes)
        return found

    def _rule(self, rule: AffinityRule) -> Document:
        found: Document = {"type": _name(rule.type), "locality": _name(rule.locality), "relax": rule.relax}
        if rule.hosts:
            found["hosts"] = [rule.hosts] if isinstance(rule.hosts, str) else list(rule.hosts)
        if rule.pattern is not None:
            return {**found, "pattern": rule.pattern}
        return {**found, "operators": list(rule.operators)}

    def _fault(self, where: str, what: str, remedy: str) -> None:
        self.faults.append(Fault(where, what, remedy))


def _name(locality: object) -> str:
    return str(getattr(locality, "name", locality))


def _made_by_itself(operator: Operator, name: str) -> bool:
    """True if an attribute that is no property follows from the class and the properties."""
    cls = type(operator)
    properties = {known for known in operator_type(cls).properties if known in vars(operator)} - {"context"}
    try:
        again = cls(**{known: vars(operator)[known] for known in properties})
        return bool(vars(again)[name] == vars(operator)[name])
    except Exception:  # noqa: BLE001  code of the operator's author
        return False
