"""The migrations that a state still lacks, applied to what a checkpoint says of it, and wider types.

Nothing is read here. The result says how shapes are after the steps. These are compared with those of the
code. It also says how values change: by functions of steps, and by what makes a narrower value a wider one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
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
from ridgeline.api.errors import shorten
from ridgeline.api.support.pickling import class_name
from ridgeline.plan.change.state_shapes import (
    ANY,
    CONVERTED,
    DONE,
    LITERAL,
    Shape,
    arguments_of,
    head_of,
    literal_text,
    members,
    without_literals,
)
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
                [name, CONVERTED if name in converted else kind, default]
                for name, kind, default in parts["fields"]
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


WIDER: Mapping[str, Sequence[str]] = {"int": ("float",), "bool": ("int", "float")}
"""The types that a type may become, each value exactly."""
_HEADS: Mapping[str, type] = {
    one.__name__: one for one in (int, float, bool, str, bytes, list, tuple, set, frozenset, dict)
}
_REMEDY = "declare the type that it has, or convert it by a function"


def as_float(value: Any) -> Any:
    """An int as a float; another value as it is. Raises ValueError for one that no float equals."""
    if type(value) not in {int, bool}:
        return value
    try:
        found = float(value)
    except OverflowError:
        found = float("inf")
    if found != value:
        raise ValueError(f"{value} cannot be a float: none is equal to it; convert it by a function")
    return found


def as_int(value: Any) -> Any:
    """A bool as an int; another value as it is."""
    return int(value) if type(value) is bool else value


_TO: Mapping[str, Function] = {"float": as_float, "int": as_int}


def widener(old: Any, new: Any) -> Function | None:
    """The function that makes values of one type those of a wider one; None if they stay as they are.

    Types that are not known to be wider stay as they are: whether one may become another is decided before.
    Where a Literal is and its values' type was, the function raises ValueError for other values.
    """
    if old in (new, CONVERTED) or ANY in (old, new):
        return None
    look = _literals_of(new, old)
    olds, news = (
        [one[1] if head_of(one) == LITERAL else one for one in members(kind)] for kind in (old, new)
    )
    found = {}
    for one in olds:
        head = head_of(one)
        kind = _HEADS.get(head)
        if kind is None:
            continue
        same = next((other for other in news if head_of(other) == head), None)
        function = _one(one, same, news)
        if function is not None:
            found[kind] = function
    if not found:
        return look

    def widened(value: Any) -> Any:
        function = found.get(type(value))
        value = value if function is None else function(value)
        return value if look is None else look(value)

    return widened


def looks(old: Any, new: Any) -> bool:
    """Whether values of one type are looked at, as some of them may be none of the other."""
    return old == ANY or _literals_of(new, old) is not None


def _literals_of(new: Any, old: Any = ANY) -> Function | None:
    """The function that raises ValueError for values that are none of the Literals of a type.

    None where all fit that are of the type that was, or where its Literals have no part.
    """
    kinds = members(new)
    allowed: dict[str, set[str]] = {}
    for one in kinds:
        if head_of(one) == LITERAL and one[1] not in kinds:
            allowed.setdefault(one[1], set()).add(one[2])
    if old != ANY:
        plain = {head_of(one) for one in members(old)}
        plain.update(*(WIDER.get(one, ()) for one in list(plain)))
        allowed = {kind: values for kind, values in allowed.items() if kind in plain}
    if not allowed:
        return None
    text = " | ".join(one[2] if head_of(one) == LITERAL else head_of(one) for one in kinds)

    def looked(value: Any) -> Any:
        values = allowed.get("None" if value is None else class_name(type(value)))
        if values is not None and literal_text(value) not in values:
            raise ValueError(f"{shorten(value)} is none of `{text}`; {_REMEDY}")
        return value

    return looked


def narrower(new: Any) -> Function | None:
    """The function that finds values that are none of a type, where they were of any; None if it cannot.

    It raises ValueError for such a value. Values within lists and the like are not looked at.
    """
    heads = [head_of(one) for one in members(without_literals(new))]
    if not all(head in _HEADS or head == "None" for head in heads):
        return None
    kinds = tuple(type(None) if head == "None" else _HEADS[head] for head in heads)
    text = " | ".join(heads)
    look = _literals_of(new)

    def checked(value: Any) -> Any:
        if type(value) is int and float in kinds and int not in kinds:
            return as_float(value)
        is_bool = type(value) is bool and bool not in kinds
        if is_bool or not isinstance(value, kinds):
            raise ValueError(f"{shorten(value)} is no `{text}`; {_REMEDY}")
        return value if look is None else look(value)

    return checked


def _one(old: Any, same: Any, news: Sequence[Any]) -> Function | None:
    """A function that makes values of one type, no union, those of one of several."""
    if same is None:
        wider = next((kind for kind in WIDER.get(head_of(old), ()) if kind in news), None)
        return None if wider is None else _TO[wider]
    before, after = arguments_of(old), arguments_of(same)
    if not before or not after or len(before) != len(after):
        return None
    head = head_of(old)
    if head == "dict":
        return _of_values(widener(before[1], after[1]))
    if head == "tuple" and before[-1] != "...":
        parts = [widener(*pair) for pair in zip(before, after, strict=True)]
        return _of_tuple(parts) if any(parts) else None
    inner = widener(before[0], after[0])
    kind = _HEADS[head]
    return None if inner is None else lambda value: kind(map(inner, value))


def _of_values(inner: Function | None) -> Function | None:
    return None if inner is None else lambda value: {key: inner(one) for key, one in value.items()}


def _of_tuple(parts: Sequence[Function | None]) -> Function:
    def widened(value: Any) -> Any:
        if len(value) != len(parts):
            return value
        return tuple(one if part is None else part(one) for one, part in zip(value, parts, strict=True))

    return widened
