"""An `Application` as a specification, or the faults that name what cannot be written."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, cast

from ridgeline.api.affinity import AffinityRule
from ridgeline.api.application import KEEP, AddedModule, AddedOperator, AddedRegion, AddedStream, Application
from ridgeline.api.errors import Fault, ValidationError
from ridgeline.api.operator import Operator, operator_type
from ridgeline.api.partitioner import Partitioner
from ridgeline.api.support.properties import property_types
from ridgeline.plan.references import named
from ridgeline.plan.region import PortRef
from ridgeline.plan.shown_properties import is_default
from ridgeline.plan.spec.deciders import write_decider, write_promise
from ridgeline.plan.spec.form import Document, Form
from ridgeline.plan.spec.texts import write_document
from ridgeline.plan.spec.values import ValueFaultError, path_of, without_null, write_partitioner, write_value

_OWN = {"_given", "_migrations", "_schemas"}


def document_text(document: Document, form: Form) -> str:
    """The text of a specification in one of its forms."""
    if form in {Form.TOML, Form.PROPERTIES}:
        document = {key: without_null(part) for key, part in document.items()}
    return write_document(document, form)


def specification_of(app: Application) -> Document:
    """The application, which is valid, as a document from which an equal plan is made.

    Properties are written that differ from their defaults, and all attributes that were set. Raises
    ValidationError naming the operator and property of all that cannot be written.
    """
    writer = _Writer(app)
    document = writer.document()
    if writer.faults:
        raise ValidationError(app.name, writer.faults)
    return document


def operator_spec(name: str, operator: Operator, attributes: Mapping[str, Any]) -> Document:
    """One operator as a specification writes it, for this process: classes of its script count too.

    Raises ValidationError.
    """
    app = Application(name)
    app.operators.append(AddedOperator(name, operator, cast("Any", attributes)))
    writer = _Writer(app, of_script=True)
    found = writer.document()["operators"][name]
    if writer.faults:
        raise ValidationError(name, writer.faults)
    return cast("Document", found)


def operator_specs(app: Application, names: Collection[str]) -> tuple[dict[str, Document], list[Fault]]:
    """Some operators of an application as a specification writes them, and what of them cannot be written."""
    writer = _Writer(app)
    written = {added.name: writer.operator(added) for added in app.operators if added.name in names}
    return written, writer.faults


class _Writer:
    """Writes an application, and notes what cannot be written.

    `of_script`: classes of the script that runs are written as `__main__.Name`.
    """

    def __init__(self, app: Application, *, of_script: bool = False) -> None:
        self._app = app = named(app)
        self._of_script = of_script
        self.faults: list[Fault] = []

    def document(self) -> Document:
        """All that can be written."""
        app = self._app
        found: Document = {"application": app.name, "window": app.window}
        if app.attributes:
            found["attributes"] = self._attributes("", app.attributes)
        found["operators"] = {added.name: self.operator(added) for added in app.operators}
        if app.modules:
            found["modules"] = {added.name: self._module(added) for added in app.modules}
        found["streams"] = {added.name: self._stream(added) for added in app.streams}
        if app.dead_letter_port is not None:
            found["dead_letters"] = str(app.dead_letter_port)
        if app.regions:
            found["regions"] = {added.name: self._region(added) for added in app.regions}
        if app.affinity:
            found["affinity"] = [self._rule(rule) for rule in app.affinity]
        if app.policies:
            found["policies"] = [self._decider(app.name, "policy", policy) for policy in app.policies]
        if app.promises:
            found["promises"] = [write_promise(promise) for promise in app.promises]
        return found

    def _attributes(self, owner: str, given: Mapping[str, Any]) -> Document:
        found = {}
        for name, value in given.items():
            where = f"{owner}.{name}" if owner else name
            found[name] = self._value(where, "attribute", name, getattr(value, "name", value), Any)
        return found

    def operator(self, added: AddedOperator) -> Document:
        """Its class, with the properties and attributes that are not the defaults."""
        found = self._made(added.name, added.operator)
        if added.migrations:
            what = "the application gives it migrations, which no specification holds"
            self.faults.append(Fault(added.name, what, "list them in its class: `migrations = [...]`"))
        if added.listeners:
            written = [self._decider(added.name, "listener", one) for one in added.listeners]
            found["stats_listeners"] = written
        attributes: dict[str, Any] = dict(added.attributes)
        for given in self._app.attributes_set:
            if given.target == added.name:
                attributes |= given.attributes
        if attributes:
            found["attributes"] = self._attributes(added.name, attributes)
        for given in self._app.attributes_set:
            if isinstance(given.target, PortRef) and given.target.operator == added.name:
                section = found.setdefault("unifiers" if given.unifier else "ports", {})
                port = given.target.port
                values = self._attributes(f"{added.name}.{port}", given.attributes)
                section[port] = section.get(port, {}) | values
        return found

    def _decider(self, owner: str, what: str, decider: Any) -> object:
        try:
            return write_decider(decider)
        except ValueFaultError as error:
            self._fault(owner, f"a {what} cannot be written: {error.what}", error.remedy)
            return None

    def _module(self, added: AddedModule) -> Document:
        found = self._made(added.name, added.module)
        attributes: dict[str, Any] = dict(added.attributes)
        for given in self._app.attributes_set:
            if given.target == added.name:
                attributes |= given.attributes
        if attributes:
            found["attributes"] = self._attributes(added.name, attributes)
        return found

    def _made(self, name: str, thing: Any) -> Document:
        """The class of an operator or module, and its properties."""
        kind = type(thing)
        path = path_of(kind, of_script=self._of_script)
        if path is None:
            what = f"its class `{kind.__name__}` cannot be imported by name"
            self._fault(name, what, "define it at the top of a module that can be imported")
        found: Document = {"class": path}
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

    def _stream(self, added: AddedStream) -> Document:
        """A stream: its ends, and what each sink has of its own."""
        own = added.locality if isinstance(added.locality, Mapping) else {}
        every = len(added.decoupled) == len(added.sinks)
        sinks = []
        for sink in added.sinks:
            values: Document = {"locality": _name(own[sink])} if sink in own else {}
            if not every and sink in added.decoupled:
                values["decoupled"] = True
            sinks.append({"port": str(sink), **values} if values else str(sink))
        found: Document = {"from": str(added.source), "to": sinks}
        if added.decoupled and every:
            found["decoupled"] = True
        if added.decoupled and added.keep != KEEP:
            found["keep"] = added.keep
        if added.locality is not None and not own:
            found["locality"] = _name(added.locality)
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
