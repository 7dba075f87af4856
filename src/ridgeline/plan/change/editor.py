"""The state that edits change: a copy of an application without modules, and values from outside."""

from __future__ import annotations

import copy
from collections.abc import Collection, Mapping
from typing import Any

from ridgeline.api.application import AddedOperator, AddedStream, Application
from ridgeline.api.errors import did_you_mean
from ridgeline.api.partitioner import Partitioner
from ridgeline.api.support.loops import DelayHead, DelayTail
from ridgeline.plan.draft import Draft, Faults
from ridgeline.plan.logical import module_of
from ridgeline.plan.overrides import Overrides
from ridgeline.plan.references import forget_operators, named
from ridgeline.plan.region import PortRef
from ridgeline.plan.spec.reader import find_port, read_operator
from ridgeline.plan.spec.values import ValueFaultError, read_partitioner, read_value
from ridgeline.plan.validate.application import check_name

ONE_OF_TWO = {
    "application_window": "application_window_count",
    "application_window_count": "application_window",
}
"""Attributes of which only one can be given: who sets one means it in the place of the other."""


class Editor:
    """Holds what edits change, and finds in it what they name; what is not there is a fault of the draft.

    `app` is a copy by name, which is changed; so are the `overrides`: properties and attributes that edits
    set are set from outside. `full`: the streams with sinks. If edits leave one without any, it is none.
    `spoilt`: names of what could not be made, so that it is no further fault that they are missing.
    """

    def __init__(self, draft: Draft, faults: Faults, app: Application, overrides: Overrides) -> None:
        self.draft = draft
        self.faults = faults
        self.overrides = overrides
        self.app = copy.copy(app)
        self.app.operators, self.app.streams = list(app.operators), list(app.streams)
        self.app.attributes_set, self.app.affinity = list(app.attributes_set), list(app.affinity)
        self.full = {one.name for one in app.streams if one.sinks}
        self.spoilt: set[str] = set()
        self._fed = self._ends()

    def finished(self) -> Application:
        """The application with all edits made.

        A port inside a module that a port of the module stands for must be connected again, if an edit took
        its stream away.
        """
        self.app.streams = [one for one in self.app.streams if one.sinks or one.name not in self.full]
        self._forget_left()  # takes ends of streams along, which the next line compares
        self.draft.excused -= self._fed - self._ends()
        known = self.names
        for module in self.draft.modules:
            for port, ends in module.ends.items():
                module.ends[port] = [end for end in ends if end.operator in known]
        self.draft.modules = [
            module
            for module in self.draft.modules
            if module.failed or any(one.startswith(f"{module.name}.") for one in known)
        ]
        return self.app

    # Changes ------------------------------------------------------------------------------------------------

    def put(self, old: AddedOperator, new: AddedOperator) -> None:
        """Put an operator in the place of another one."""
        self.app.operators = [new if one is old else one for one in self.app.operators]

    def put_stream(self, old: AddedStream, new: AddedStream) -> None:
        """Put a stream in the place of another one."""
        self.app.streams = [new if one is old else one for one in self.app.streams]

    def forget(self, names: Collection[str]) -> None:
        """Take operators away, with all that is said of them."""
        forget_operators(self.draft, self.app, names)
        for name in names:
            self.overrides.move(name, None)

    def _forget_left(self) -> None:
        """Take away operators that are there only for the streams that they had."""
        fed = {operator for operator, _ in self._ends()}
        for name, added in self.names.items():
            if added.operator.leaves_with_streams and name not in fed:
                self.forget([name])

    def made(self, name: str, spec: Mapping[str, Any]) -> Application | None:
        """An application by name of the one operator that a specification says; None for faults."""
        made, faults = read_operator(name, spec)
        self.faults.found += faults
        if made is None:
            self.spoilt.add(name)
            return None
        return named(made)

    def partitioner(self, where: str, spec: Mapping[str, Any]) -> Partitioner | None:
        """A partitioner from its specification; None for a fault."""
        try:
            given = {key: self.value(where, value) for key, value in spec.items()}
            return read_partitioner(given)
        except ValueFaultError as error:
            self.faults.add(where, error.what, error.remedy)
            return None

    def value(self, where: str, value: Any) -> Any:
        """A value, with what marks such as `$import` stand for."""
        try:
            return read_value(value, {})
        except ValueFaultError as error:
            self.faults.add(where, error.what, error.remedy)
            return value

    # What is there ------------------------------------------------------------------------------------------

    @property
    def names(self) -> dict[str, AddedOperator]:
        """The operators by name."""
        return {str(added.name): added for added in self.app.operators}

    @property
    def modules(self) -> list[str]:
        """The names of modules, expanded or not."""
        return [*(module.name for module in self.draft.modules), *(one.name for one in self.app.modules)]

    def is_stream(self, stream: AddedStream) -> bool:
        """False for one that edits have left without sinks."""
        return bool(stream.sinks) or stream.name not in self.full

    def is_free(self, name: Any) -> bool:
        """True if a name can be given to an operator; else there is a fault."""
        before = len(self.faults.found)
        if isinstance(name, str) and "." in name:
            what = "only what is inside of a module has a dot in its name"
            self.faults.add(name, what, "use letters, digits, `_` and `-` only")
        elif name in self.names:
            self.faults.add(name, f"there is an operator `{name}` already", "give another name")
        elif name in self.modules:
            self.faults.add(name, f"there is a module `{name}` already", "give another name")
        else:
            check_name(self.faults, "operator", name)
        if len(self.faults.found) > before:
            return False
        self.spoilt.discard(name)
        return True

    def is_end_of_delay(self, name: str) -> bool:
        """True, with a fault, for one of the two operators of a delay."""
        if not isinstance(self.names[name].operator, (DelayHead, DelayTail)):
            return False
        delay = module_of(name)
        self.faults.add(name, f"it is an end of the delay `{delay}`", f"name `{delay}`, both ends at once")
        return True

    def _ends(self) -> set[tuple[str, str]]:
        """The ports that streams lead from and to."""
        ends = [end for one in self.app.streams for end in (one.source, *one.sinks) if end is not None]
        return {(end.operator, end.port) for end in ends}

    def find(self, name: str, part: str = "") -> AddedOperator | None:
        """An operator by name; None, and a fault, if there is none."""
        found = self.names.get(name)
        if found is None and name not in self.spoilt:
            where = f"{name}.{part}" if name and part else name or part or "operator"
            modules = self.modules
            if name in modules:
                self.faults.add(where, f"`{name}` is a module", "name an operator inside of it")
            else:
                self.faults.add(
                    where, f"there is no operator `{name}`", did_you_mean(name, [*self.names, *modules])
                )
        return found

    def stream(self, where: str, name: str) -> AddedStream | None:
        """A stream by name; None, and a fault, if there is none."""
        found = next((one for one in self.app.streams if one.name == name), None)
        if found is None:
            owner = name.removesuffix("_dead_letters")
            remedy = did_you_mean(name, [str(one.name) for one in self.app.streams])
            if owner != name and owner in self.names:
                remedy = f"add a stream from `{owner}.dead_letters`"
            self.faults.add(where, f"there is no stream `{name}`", remedy)
        return found

    def end(self, where: str, text: str, side: str) -> list[PortRef] | None:
        """The ports that `operator.port` names, several for one of a module; None, and a fault, for none."""
        expanded = {module.name: module for module in self.draft.modules}
        things: dict[str, Any] = {str(one.name): one.module for one in self.app.modules}
        things |= {name: module.module for name, module in expanded.items()}
        things |= {name: added.operator for name, added in self.names.items()}
        found = find_port(self.faults.add, where, text, side, things.get, self.spoilt, things)
        if found is None:
            return None
        owner, port = found
        is_expanded = owner in expanded and owner not in self.names
        return expanded[owner].reached(port) if is_expanded else [PortRef(owner, port)]
