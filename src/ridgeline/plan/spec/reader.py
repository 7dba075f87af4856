"""Makes the parts of an `Application` that a specification names; notes the faults of each."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any

from ridgeline.api.affinity import AffinityRule
from ridgeline.api.application import KEEP, Application
from ridgeline.api.errors import Faults, did_you_mean
from ridgeline.api.module import Module
from ridgeline.api.operator import Operator, operator_type
from ridgeline.plan.build.property_values import decoded
from ridgeline.plan.spec.deciders import make_decider, make_promise
from ridgeline.plan.spec.model import (
    ComponentSpec,
    DeciderSpec,
    ModuleSpec,
    OperatorSpec,
    PersistSpec,
    RegionSpec,
    Specification,
    StreamSpec,
    check_document,
)
from ridgeline.plan.spec.values import (
    import_class,
    made_of,
    read_partitioner,
    read_value,
)

_NOTHING: Mapping[str, str] = {}


def read_operator(name: str, spec: Mapping[str, object], faults: Faults) -> Application | None:
    """An application of one operator, as a specification writes it; None, with faults, if none is made."""
    own = Faults()
    specification = check_document({"application": name, "operators": {name: dict(spec)}}, own)
    app = None if specification is None else Reader(specification, _NOTHING, own, texts=False).read()
    faults += [replace(fault, where=fault.where.removeprefix("operators.")) for fault in own]
    return None if own else app


class Reader:
    """Makes an application of a specification.

    `application`: what is made so far. `made`: its operators and modules by name. `_spoilt`: those that could
    not be made.
    """

    def __init__(
        self,
        specification: Specification,
        environment: Mapping[str, str],
        faults: Faults,
        *,
        texts: bool,
    ) -> None:
        self.specification = specification
        self._environment = environment
        self._faults = faults
        self._texts = texts
        self.made: dict[str, Any] = {}
        named = ("operators.", "modules.")
        self._spoilt = {fault.where.split(".")[1] for fault in faults if fault.where.startswith(named)}
        attributes = self._values("attributes", specification.attributes)
        self.application = Application(specification.application, specification.window, **attributes)

    def read(self) -> Application:
        """The application, as far as it can be made."""
        for name, operator in self.specification.operators.items():
            self._add_operator(name, operator)
        for name, module in self.specification.modules.items():
            self._add_module(name, module)
        for name, stream in self.specification.streams.items():
            self._add_stream(name, stream)
        for name, region in self.specification.regions.items():
            self._add_region(name, region)
        name = "dead_letters"
        if (output := self._persist(name, name, self.specification.dead_letters)) is not None:
            with self._faults.noting(name):
                self.application.dead_letters(output)
        for rule in self.specification.affinity:
            self.application.add_affinity(AffinityRule(**rule.model_dump(exclude_unset=True)))
        self.application.policies += self._deciders("policies", self.specification.policies, "decide")
        for number, promise in enumerate(self.specification.promises):
            with self._faults.noting(f"promises.{number}"):
                self.application.promise(make_promise(promise.model_dump(exclude_unset=True)))
        return self.application

    def _values(self, where: str, given: Mapping[str, object]) -> dict[str, Any]:
        """Values by name, without those that cannot be read."""
        found = {}
        for name, value in given.items():
            with self._faults.noting(f"{where}.{name}"):
                found[name] = read_value(value, self._environment)
        return found

    def _component(self, where: str, given: ComponentSpec, base: type) -> tuple[Any, dict[str, Any]]:
        """What a class, a subclass of `base`, makes of its properties, None for faults; its attributes."""
        kind: Any = None
        with self._faults.noting(f"{where}.class"):
            kind = import_class(given.class_, base)
        properties = self._values(f"{where}.properties", given.properties)
        attributes = self._values(f"{where}.attributes", given.attributes)
        if isinstance(attributes.get("partitioner"), Mapping):
            spec = attributes.pop("partitioner")
            with self._faults.noting(f"{where}.attributes.partitioner"):
                attributes["partitioner"] = read_partitioner(spec)
        made: Any = None
        if kind is not None:
            with self._faults.noting(where):
                made = made_of(kind, properties)
        if self._texts and made is not None:
            for name in properties.keys() & operator_type(kind).properties.keys():
                vars(made).update([decoded(made, where, name, properties[name])])
        return made, attributes

    def _add_operator(self, name: str, given: OperatorSpec) -> None:
        """Add an operator with its attributes, or faults."""
        where, before = f"operators.{name}", len(self._faults)
        operator, attributes = self._component(where, given, Operator)
        if operator is None or len(self._faults) > before:
            self._spoilt.add(name)
        if operator is not None:
            listeners = self._deciders(f"{where}.stats_listeners", given.stats_listeners, "observe")
            with self._faults.noting(where):
                self.application.add_operator(name, operator, stats_listeners=listeners, **attributes)
            self.made[name] = operator
            self._set_attributes(name, f"{where}.ports", given.ports, unifier=False)
            self._set_attributes(name, f"{where}.unifiers", given.unifiers, unifier=True)

    def _deciders(self, where: str, given: Sequence[DeciderSpec], method: str) -> list[Any]:
        """Policies or listeners, without those that have faults."""
        found = []
        for number, spec in enumerate(given):
            properties = self._values(f"{where}.{number}.properties", spec.properties)
            with self._faults.noting(f"{where}.{number}"):
                found.append(make_decider(spec.class_, properties, method))
        return found

    def _add_module(self, name: str, given: ModuleSpec) -> None:
        """Add a module with its attributes, or faults."""
        where, before = f"modules.{name}", len(self._faults)
        module, attributes = self._component(where, given, Module)
        if module is None or len(self._faults) > before:
            self._spoilt.add(name)
        else:
            with self._faults.noting(where):
                self.application.add_module(name, module, **attributes)
                self.made[name] = module

    def _set_attributes(
        self, name: str, where: str, given: Mapping[str, Mapping[str, object]], *, unifier: bool
    ) -> None:
        """Set attributes of an operator's ports, or of the unifiers of its output ports."""
        operator = self.made[name]
        declared = operator_type(type(operator))
        ports = {**({} if unifier else declared.inputs), **declared.outputs}
        for port, attributes in given.items():
            values = self._values(f"{where}.{port}", attributes)
            if port in ports:
                self.application.give(operator, "unifier" if unifier else "port", port, values)
            else:
                what = f"`{type(operator).__name__}` has no {'output port' if unifier else 'port'} `{port}`"
                self._faults.add(f"{where}.{port}", what, did_you_mean(port, [*ports]))

    def _add_stream(self, name: str, given: StreamSpec) -> None:
        """Add a stream and what writes it down, or faults."""
        where = f"streams.{name}"
        source = self._end(f"{where}.from", given.from_, "output")
        ends = [(self._end(f"{where}.to", sink.port, "input"), sink) for sink in given.sinks()]
        if source is None or any(end is None for end, _ in ends):
            return
        locality: Any = given.locality
        if any(sink.locality is not None for _, sink in ends):
            locality = {end: own for end, sink in ends if (own := sink.locality or given.locality)}
        persist = self._persist(f"{where}.persist", f"{name}_persisted", given.persist)
        with self._faults.noting(where):
            self.application.add_stream(
                name,
                source,
                *(end for end, _ in ends),
                locality=locality,
                persist=persist,
                decoupled=given.decoupled or [end for end, sink in ends if sink.decoupled],
                keep=KEEP if given.keep is None else given.keep,
            )

    def _add_region(self, name: str, given: RegionSpec) -> None:
        """Name a region, or faults."""
        where = f"regions.{name}"
        attributes = self._values(f"{where}.attributes", given.attributes)
        operators = []
        for owner in given.operators:
            if owner in self.made:
                operators.append(self.made[owner])
            elif owner not in self._spoilt:
                hint = did_you_mean(owner, {*self.made, *self._spoilt})
                self._faults.add(f"{where}.operators", f"there is no operator `{owner}`", hint)
        if operators or not given.operators:
            with self._faults.noting(where):
                self.application.set_region(name, *operators, window=given.window, **attributes)

    def _persist(self, where: str, name: str, given: PersistSpec | str | None) -> Any:
        """The input port, or the operator of this name, that writes tuples down; None for none or a fault."""
        if given is None:
            return None
        if isinstance(given, str):
            return self._end(where, given, "input")
        operator, attributes = self._component(where, given, Operator)
        if operator is not None:
            with self._faults.noting(where):
                self.made[name] = self.application.add_operator(name, operator, **attributes)
        return operator

    def _end(self, where: str, text: str, what: str) -> Any:
        """The port that `operator.port` names; None for a fault, or if its operator could not be made."""
        found = find_port(self._faults.add, where, text, what, self.made, self._spoilt)
        return None if found is None else getattr(self.made[found[0]], found[1])


def find_port(
    fault: Callable[[str, str, str], None],
    where: str,
    text: str,
    side: str,
    things: Mapping[str, object],
    spoilt: Collection[str],
) -> tuple[str, str] | None:
    """The operator or module, and the `side` port of it, that a text names; None, and a `fault`, for none.

    `things`: what there is, by name. `spoilt`: names of what could not be made, whose own faults are enough.
    """
    owner, dot, port = text.rpartition(".")
    if not dot or not owner or not port:
        fault(where, f"`{text}` names no port", "write `operator.port`")
        return None
    thing = things.get(owner)
    if thing is None:
        if owner not in spoilt:
            fault(where, f"there is no operator `{owner}`", did_you_mean(owner, {*things, *spoilt}))
        return None
    declared = operator_type(type(thing))
    sides: dict[str, Mapping[str, Any]] = {"input": declared.inputs, "output": declared.every_output}
    ports, others = sides.pop(side), sides.popitem()[1]
    if port in ports:
        return owner, port
    kind = type(thing).__name__
    if port in others:
        other = "a stream leads from an output port to input ports"
        fault(where, f"`{port}` of `{kind}` is no {side} port", other)
    else:
        fault(where, f"`{kind}` has no {side} port `{port}`", did_you_mean(port, [*ports]))
    return None
