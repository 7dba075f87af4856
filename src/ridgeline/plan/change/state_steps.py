"""The migrations that a state still lacks, applied to what a checkpoint says of it: names, fields, functions.

Nothing is read here. The result says how shapes are after the steps. These are compared with those of the
code. It also says how values change.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ridgeline.api.cells.migrations import (
    ConvertedField,
    ConvertedState,
    Migration,
    RemovedField,
    RemovedState,
    RenamedField,
    RenamedState,
    path_of,
    titles_of,
)
from ridgeline.api.support.pickling import class_name
from ridgeline.plan.change.state_shapes import ANY, DONE, Shape
from ridgeline.plan.physical import PhysicalOperator

Function = Callable[[Any], Any]


class Steps:
    """The steps that the state of an operator lacks, and what they make of names and shapes.

    `renamed`: names of states after the steps by those in the checkpoint. `dropped`: states that a step
    removes. `functions`: by the name after the steps. `fields`: for a class, new names by old ones, "" for
    fields that are removed. `converted`: functions of fields, by class and new name. `unknown`: the titles of
    steps in the checkpoint that the code does not know. `formers`: fields and functions of classes, as they
    are when the first function of a state gets its values. `conflict`: a function, and a step behind it about
    the class that it makes.
    """

    def __init__(
        self, operator: PhysicalOperator, held: Mapping[str, Shape], classes: Mapping[str, Shape]
    ) -> None:
        steps = titles_of(operator.operator)
        known = held.get(DONE, {}).get("done", [])
        listed = {title for title, _ in steps}
        self.unknown = [title for title in known if title not in listed]
        self.renamed = {name: name for name in held if not name.startswith("#")}
        self.dropped: set[str] = set()
        self.functions: dict[str, tuple[Function, ...]] = {}
        self.fields: dict[str, dict[str, str]] = {}
        self.converted: dict[str, dict[str, Function]] = {}
        self.conflict: tuple[str, str] | None = None
        self.formers: dict[str, tuple[Mapping[str, str], Mapping[str, Function]]] = {}
        self._held, self._classes = held, classes
        self._function = ""
        """The first function of a state."""
        for title, step in steps:
            if title not in known:
                self._check_order(title, step)
                self._take(step)
        self.renamed = {old: new for old, new in self.renamed.items() if old not in self.dropped}

    def _take(self, step: Migration) -> None:
        """Apply one step to names and fields as they are then; `__init__` goes through all in order."""
        match step:
            case RenamedState(old, new):
                self._rename(old, new)
            case RemovedState(name):
                self.dropped.update(self._old_names(name))
                self.functions.pop(name, None)
            case ConvertedState(name, function):
                if self._old_names(name):
                    self.functions[name] = (*self.functions.get(name, ()), function)
                    for found in self._classes_held(name):
                        now = dict(self.fields.get(found, {})), dict(self.converted.get(found, {}))
                        self.formers.setdefault(found, now)
                    self._function = self._function or step.title
            case RenamedField(kind, old, new):
                for found in self._classes_of(kind):
                    self._rename_field(found, old, new)
            case RemovedField(kind, name):
                for found in self._classes_of(kind):
                    self._rename_field(found, name, "")
            case ConvertedField(kind, name, function):
                for found in self._classes_of(kind):
                    functions = self.converted.setdefault(found, {})
                    functions[name] = _after(functions.get(name), function)
            case _:
                pass

    def _check_order(self, title: str, step: Migration) -> None:
        """Note a step about fields that a function before it makes: of which version they are is open."""
        if self._function and isinstance(step, (RenamedField, RemovedField, ConvertedField)):
            found = self._classes_of(step.kind)
            if self.conflict is None and (not found or not self.formers.keys().isdisjoint(found)):
                self.conflict = self._function, title

    def _classes_held(self, state: str) -> set[str]:
        """The classes of the values of a state, by its name at this step."""
        found: set[str] = set()
        for old in self._old_names(state):
            found.update(self._held[old].get("classes", ()))
            found |= classes_in(self._held[old].get("type", ANY), self._classes)
        return {inner for one in found for inner in classes_in(one, self._classes)} | found

    def _old_names(self, name: str) -> list[str]:
        """The states in the checkpoint that are called so at this step."""
        return [old for old, now in self.renamed.items() if now == name and old not in self.dropped]

    def _rename(self, old: str, new: str) -> None:
        for name in self._old_names(old):
            self.renamed[name] = new
        if old in self.functions:
            self.functions[new] = self.functions.pop(old)

    def _classes_of(self, kind: type | str) -> list[str]:
        """The classes in the checkpoint that a step names: the very one, else those of its qualified name."""
        name = class_name(kind) if isinstance(kind, type) else kind
        if name in self._classes:
            return [name]
        return [one for one in self._classes if one.rpartition(":")[2] == path_of(kind)]

    def _rename_field(self, kind: str, old: str, new: str) -> None:
        """A field, or a member of an Enum, as it is called at this step, has another name from here on."""
        shape = self._classes[kind]
        names = [name for name, *_ in (shape.get("fields") or shape.get("members") or ())]
        fields = self.fields.setdefault(kind, {})
        for name in names:
            if fields.get(name, name) == old:
                fields[name] = new
        functions = self.converted.get(kind, {})
        if old in functions:
            function = functions.pop(old)
            if new:
                functions[new] = function

    def shape_of(self, kind: str) -> Shape | None:
        """A class after the steps, None if the checkpoint does not know it. Fields stay in their order."""
        shape = self._classes.get(kind)
        fields = self.fields.get(kind, {})
        converted = self.converted.get(kind, {})
        if shape is None or not (fields or converted):
            return shape
        parts: dict[str, Any] = {
            part: [[fields.get(name, name), *rest] for name, *rest in shape[part] if fields.get(name, name)]
            for part in ("fields", "members")
            if part in shape
        }
        if "fields" in parts:
            parts["fields"] = [
                [name, ANY if name in converted else kind, default] for name, kind, default in parts["fields"]
            ]
        return {**shape, **parts}


def _after(first: Function | None, second: Function) -> Function:
    if first is None:
        return second
    before = first
    return lambda value: second(before(value))


def chained(functions: tuple[Function, ...]) -> Function:
    """One function after the other."""

    def run(value: Any) -> Any:
        for function in functions:
            value = function(value)
        return value

    return run


def classes_in(kind: Any, classes: Mapping[str, Shape]) -> set[str]:
    """The classes that a type names, and those that their fields name, as far as a checkpoint knows them."""
    found: set[str] = set()
    waiting = [kind]
    while waiting:
        one = waiting.pop()
        if not isinstance(one, str):
            waiting += one
        elif one in classes and one not in found:
            found.add(one)
            waiting += [field for _, field, _ in classes[one].get("fields", ())]
    return found
