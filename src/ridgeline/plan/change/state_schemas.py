"""Compares what states hold with what a plan declares: by name, before anything runs.

Refused here is what no conversion could give: another kind of state, a state that is gone, a class that only
its own code reads. Where types or classes are others, the conversion looks at each value: it is what is
declared now, or the start is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ridgeline.api.cells.migrations import steps_of
from ridgeline.api.errors import Faults, cut_in_the_middle, did_you_mean
from ridgeline.api.support.pickling import class_name, class_of, class_within
from ridgeline.plan.change.state_moves import Outcome, StateVerdict, refused
from ridgeline.plan.change.state_shapes import (
    ANY,
    DONE,
    MEANING,
    NOTHING,
    RECORDS,
    Schemas,
    Shape,
    class_names,
    class_shape,
    classes_of,
    defaults_of,
    meaning_of,
    migrations_done,
    state_shapes,
)
from ridgeline.plan.physical import PhysicalOperator

Function = Callable[[Any], Any]


@dataclass(frozen=True, slots=True)
class Former:
    """A class that values were written with. `old`: its shape. `new`: what it is now; None: it is gone.

    `is_opaque`: only its own code knows what pickles have of it.
    """

    old: Shape
    new: type | None
    is_opaque: bool


@dataclass(frozen=True, slots=True)
class Conversion:
    """How the state of one operator, or of the unifiers of one port, becomes that of a plan.

    `classes`: those that are read as records, or are others now, by the name under which pickles have them.
    `renamed`: new names of states. `dropped`: states that are not wanted. `columns`: those of a port whose
    tuples are kept, before; None: they are the same. `functions`: of migrations, one after the other, by the
    new name of the state. `retyped`, `rekeyed`: the states, by new names, whose values or keys are looked at,
    since another type is declared. `remade`: those in which values may be of other classes then. `live`: the
    plan changes while it runs.
    """

    classes: Mapping[str, Former] = field(default_factory=dict)
    renamed: Mapping[str, str] = field(default_factory=dict)
    dropped: frozenset[str] = frozenset()
    columns: Mapping[str, Sequence[Sequence[str]]] = field(default_factory=dict)
    functions: Mapping[str, Sequence[Function]] = field(default_factory=dict)
    retyped: frozenset[str] = frozenset()
    rekeyed: frozenset[str] = frozenset()
    remade: frozenset[str] = frozenset()
    live: bool = False

    def __bool__(self) -> bool:
        names = self.renamed, self.dropped, self.columns, self.functions, self.retyped, self.rekeyed
        return any((self.classes, *names))


LIVE_REMEDY = "keep it as it is, or remove the operator and add another one, whose state begins anew"
"""What to do about a state while an application runs, where no options say what becomes of states."""


def held_states(schemas: Mapping[str, Any], base: str) -> Mapping[str, Shape]:
    """The states that hold something, of an operator or of the unifiers of a port, by name."""
    found: Mapping[str, Shape] = schemas.get("states", {}).get(base, {})
    return found


class Comparison:
    """Compares the states of several operators with those of a plan, and collects faults.

    `schemas`: what a window has (`Schemas.picture`). `dropped`, `renamed`: as operators and, as
    `operator.state`, states are named.
    """

    def __init__(
        self,
        schemas: Mapping[str, Any],
        operators: Iterable[PhysicalOperator],
        dropped: Collection[str] = (),
        renamed: Mapping[str, str] = NOTHING,
        window_id: int = -1,
        *,
        live: bool = False,
    ) -> None:
        """`window_id`: with which the plan begins; where application windows end, so do their states.

        `live`: the plan changes while it runs, so no options say what becomes of states.
        """
        self.live = live
        self._schemas = schemas
        self._window_id = window_id
        self.classes: Mapping[str, Shape] = schemas.get("classes", {})
        self._dropped, self._renamed = dropped, renamed
        self._users = [type(one.operator) for one in operators]
        self._modules = {base.__module__ for kind in self._users for base in kind.__mro__} - {"builtins"}
        self.by_base: dict[str, Conversion] = {}
        """How states become those of the plan, by the first part of their keys in the window before."""
        self.faults = Faults()
        self.states: dict[str, dict[str, Shape]] = {}
        """The shapes that the operators have from now on."""
        self.verdicts: list[StateVerdict] = []
        """The fate of each state."""

    def compare(self, base: str, operator: PhysicalOperator) -> None:
        """Find how what is held under the first part of a state key becomes the state of an operator."""
        held = held_states(self._schemas, base)
        if not held:
            return
        one = _OperatorComparison(self, base, operator, held)
        conversion = self.by_base[base] = one.compare()
        self.faults += one.faults
        self.verdicts += one.verdicts(conversion)
        self.states.setdefault(operator.state_key.rsplit("/", 2)[0], {}).update(one.states)

    def is_over(self, shape: Shape, operator: PhysicalOperator) -> bool:
        """Whether a state ended with an application window, so that it has nothing to lose."""
        at_end = self._window_id >= 0 and self._window_id % operator.window_count == 0
        return shape.get("scope") == "window" and at_end

    def dropped(self, names: Iterable[str]) -> bool:
        """Whether a state is not wanted, by one of the names that it may have."""
        return any(name in self._dropped for name in names)

    def new_name(self, names: Iterable[str]) -> str | None:
        """The new name of a state, as `operator.state`, by one of the names that it may have."""
        return next((self._renamed[name] for name in names if name in self._renamed), None)

    def find(self, name: str) -> type | None:
        """The class that has this name now; one that has moved is one of that name where operators are."""
        found = self.named(name)
        if found is not None:
            return found
        path = name.rpartition(":")[2]
        moved = {class_of(f"{module}:{path}") for module in self._modules} - {None}
        return moved.pop() if len(moved) == 1 else None

    def named(self, name: str) -> type | None:
        """The class that code of the operators has by this name."""
        return class_within(name, self._users)


class _OperatorComparison:
    """Compares the states of one operator."""

    def __init__(
        self, whole: Comparison, base: str, operator: PhysicalOperator, held: Mapping[str, Shape]
    ) -> None:
        self._whole, self._operator, self._held = whole, operator, held
        self._declared = state_shapes(operator)
        self._owner = f"{operator.name}.{operator.port}" if operator.port else operator.name
        self._before = base.partition("#")[0]
        self.faults = Faults()
        self.states: dict[str, Shape] = {}
        self._ended: dict[str, tuple[Outcome, str]] = {}
        """The fate of states that are not kept, and why."""
        # What the migrations that are due say, by the names in the checkpoint.
        self._names = {name: name for name in held if not name.startswith("#")}
        self._removed: set[str] = set()
        self._functions: dict[str, list[Function]] = {}
        self._changes: dict[str, list[str]] = {}
        """How classes have changed, in words."""

    def compare(self) -> Conversion:
        """Compare all states that hold something; adds faults."""
        self._take_migrations()
        renamed: dict[str, str] = {}
        dropped: set[str] = set()
        columns: dict[str, Sequence[Sequence[str]]] = {}
        others: dict[str, set[str]] = {"type": set(), "key": set()}
        for name, before in self._held.items():
            if name == MEANING:
                self._compare_meaning(before)
            if name.startswith("#"):
                continue
            new = self._kept_as(name, before)
            if new is None:
                dropped.add(name)
                continue
            if new != name:
                renamed[name] = new
            declared = self._declared[new]
            why = self._differs(name, before, declared) or self._classes_differ(name, before)
            if why and self._whole.is_over(before, self._operator):
                dropped.add(name)
                self._ended[name] = _WITH_ITS_WINDOW
            elif why:
                remedy = "write it as it was, convert it by `migrations`, or "
                remedy += f"`--drop-state {self._before}.{name}` drops the values"
                self._fault(remedy, why, f"{self._owner}.{name}")
            else:
                for part, states in others.items():
                    if _is_other(before, declared, part):
                        states.add(new)
                if (old := before.get("columns")) is not None and old != declared.get("columns"):
                    columns[new] = old
                self.states[new] = declared | {"classes": self._classes_from_now_on(name, before)}
        if (done := migrations_done(self._operator)) is not None and self.states:
            self.states[DONE] = done
        functions = {renamed.get(name, name): found for name, found in self._functions.items()}
        retyped, rekeyed = frozenset(others["type"] - functions.keys()), frozenset(others["key"])
        classes = self._read_otherwise(drops=bool(dropped))
        touched = {name for name in self._held if classes.keys() & self._held[name].get("classes", ())}
        remade = retyped | rekeyed | functions.keys() | {renamed.get(name, name) for name in touched}
        parts = renamed, frozenset(dropped), columns, functions, retyped, rekeyed, frozenset(remade)
        return Conversion(classes, *parts, live=self._whole.live)

    def _take_migrations(self) -> None:
        """Apply the steps that the state lacks to names; adds a fault for those that the code lacks."""
        steps = steps_of(self._operator.operator)
        done = self._held.get(DONE, {}).get("done", [])
        listed = {title for title, _ in steps}
        for title in done:
            if title not in listed and not (self._whole.live and title.startswith("application: ")):
                what = f"its state has been through the migration `{title}`, which this code does not have"
                again = "list it again: migrations are never taken away"
                back = "go back by `--from-window` to a window before"
                self._fault(f"start the code that wrote it; {back}; or {again}", what)
                break
        for title, step in steps:
            if title in done:
                continue
            for old, now in self._names.items():
                if now != (step.was or step.state) or old in self._removed:
                    continue
                if step.was:
                    self._names[old] = step.state
                elif step.function is not None:
                    self._functions.setdefault(old, []).append(step.function)
                else:
                    self._removed.add(old)

    def _kept_as(self, name: str, before: Shape) -> str | None:
        """The name under which a state is kept; None if it is not, which may be a fault."""
        if self._is_dropped(name):
            why = "by a migration" if name in self._removed else "as it was asked for"
            self._ended[name] = Outcome.DROPPED, why
            return None
        declared = {key: value for key, value in before.items() if key != "classes"}
        if self._whole.is_over(before, self._operator) and self._declared.get(name) != declared:
            self._ended[name] = _WITH_ITS_WINDOW
            return None
        if before["kind"] == "lifetimes":
            return self._lifetimes(before["of"])
        new = self._new_name(name)
        if new != name and new in self._held and not self._is_dropped(new) and self._new_name(new) == new:
            what = f"its state `{name}` is to be called `{new}`, but `{new}` has values of its own"
            self.faults.add(self._owner, what, did_you_mean(new, self._declared))
            return None
        if new in self._declared:
            return new
        if new != name:
            what = f"its state `{name}` is to be called `{new}`, but it has no such state"
            self.faults.add(self._owner, what, did_you_mean(new, self._declared))
        elif before["kind"] == "kept":  # it slides no more, or keeps no tuples
            self._ended[name] = Outcome.ENDED, "it keeps nothing between windows now"
        else:
            self._gone(name, before)
        return None

    def _both_names(self, name: str) -> tuple[str, str]:
        """A state with the name of its operator before, and with that of now."""
        return f"{self._before}.{name}", f"{self._owner}.{name}"

    def _is_dropped(self, name: str) -> bool:
        """Whether an option or a migration drops a state."""
        return name in self._removed or self._whole.dropped(self._both_names(name))

    def _new_name(self, name: str) -> str:
        """The name that an option or a migration gives to a state; its own, if none does."""
        asked = self._whole.new_name(self._both_names(name))
        return self._names.get(name, name) if asked is None else asked.removeprefix(f"{self._owner}.")

    def _lifetimes(self, of: str) -> str | None:
        """When the keys of a state end is kept beside it, and goes with it."""
        new = None if self._is_dropped(of) else self._new_name(of)
        return next((name for name, shape in self._declared.items() if new and shape.get("of") == new), None)

    def _gone(self, name: str, before: Shape) -> None:
        """Add the fault of a state that the operator declares no more."""
        alike = [
            other
            for other, shape in self._declared.items()
            if other not in self._held and shape["kind"] == before["kind"]
        ]
        new = alike[0] if len(alike) == 1 else "NEW"
        old = f"{self._before}.{name}"
        remedy = f"`--rename {old}={self._owner}.{new}` gives its values to another one, "
        kind = type(self._operator.operator).__name__
        what = f"`{kind}` has no state `{name}` any more, but the checkpoint has its values"
        self._fault(f"{remedy}`--drop-state {old}` drops them", what)

    def _differs(self, name: str, old: Shape, new: Shape) -> str:
        """Why the values of a state cannot be those of the one that is declared now; "" if they can."""
        if old["kind"] != new["kind"]:
            before, now = (_KINDS.get(one["kind"], one["kind"]) for one in (old, new))
            return f"it was {before}, and is {now}"
        was, now = (one.get("scope", "application") for one in (old, new))
        if was != now and old["kind"] in _SCOPED:
            return f"it lived as long as the {was}, and lives as long as the {now}"
        if old["kind"] == "kept":
            return _columns_differ(old.get("columns"), new.get("columns"), self._operator)
        if name in self._functions and old["kind"] not in _SCOPED:
            return "a function converts values, and it has none"
        return ""

    def _classes_differ(self, state: str, before: Shape) -> str:
        """Why values of a state cannot be read by the classes of now, that only their own code reads."""
        for name in before.get("classes", ()):
            kind, old = self._whole.find(name), self._whole.classes.get(name)
            if kind is None or old is None or state in self._functions:
                continue  # where a value of it is, the conversion says so
            if why := _only_its_own(old, class_shape(kind), kind):
                return f"`{_dotted(name)}` is another class than in the checkpoint: {why}"
            self._changes[name] = _class_changes(name, old, class_shape(kind), kind)
        return ""

    def _read_otherwise(self, *, drops: bool) -> dict[str, Former]:
        """The classes that are not read as they are: they have changed, or functions get records of them.

        `drops`: states are left out, whose classes may be gone.
        """
        found: dict[str, Former] = {}
        for name in classes_of(self._held):
            kind, old = self._whole.find(name), self._whole.classes.get(name)
            if old is None:
                continue  # it was not found when values of it were written
            new = {} if kind is None else class_shape(kind)
            is_opaque = old["kind"] == "class" or "own" in old or new.get("own") == "read"
            if drops and kind is None and is_opaque:
                continue  # a value that is kept of it cannot be written, which refuses the start
            # a class that is not found by its name may be in pickles as a whole, which is not that of now
            is_same = kind is not None and class_name(kind) == name and class_of(name) is kind
            if not is_same or self._functions or (old != new and not is_opaque):
                found[name] = Former(old, kind, is_opaque)
        return found

    def _classes_from_now_on(self, name: str, before: Shape) -> list[str]:
        if name in self._functions:  # of whatever classes its values are then
            return []
        return list(class_names(filter(None, map(self._whole.find, before.get("classes", ())))))

    def _compare_meaning(self, before: Shape) -> None:
        """Compare the columns of ports and the properties that a state depends on; adds faults."""
        now = meaning_of(self._operator)
        if now is None or self._whole.dropped((self._before, self._owner)):
            return
        self.states[MEANING] = now
        whats = [
            f"its port `{port}` had {_columns(columns)}, and has {_columns(now['ports'][port])} now"
            for port, columns in before["ports"].items()
            if columns is not None and now["ports"].get(port, columns) != columns
        ]
        whats += [
            f"its `{name}` was {cut_in_the_middle(value, 200)}, and is "
            f"{cut_in_the_middle(now['properties'][name], 200)} now"
            for name, value in before["properties"].items()
            if now["properties"].get(name, value) != value
        ]
        remedy = f"leave it as it was, or `--drop-state {self._before}` drops its state"
        for what in whats:
            self._fault(remedy, f"{what}: its state would mean something else")

    def _fault(self, at_start: str, what: str, where: str = "") -> None:
        """Add a fault. `at_start`: its remedy where options say what becomes of states."""
        self.faults.add(where or self._owner, what, LIVE_REMEDY if self._whole.live else at_start)

    # For people ---------------------------------------------------------------------------------------------

    def verdicts(self, conversion: Conversion) -> list[StateVerdict]:
        """The fate of each state that was compared."""
        found = list(map(refused, self.faults))
        faulty = {one.where for one in self.faults}
        for name, before in self._held.items():
            new = conversion.renamed.get(name, name)
            where = f"{self._owner}.{new}"
            if name.startswith("#") or before["kind"] == "lifetimes" or {where, self._owner} & faulty:
                continue
            ended = self._ended.get(name)
            found.append(StateVerdict(where, *ended) if ended else self._verdict(name, new, conversion))
        return found

    def _verdict(self, name: str, new: str, conversion: Conversion) -> StateVerdict:
        """The fate of a state that is kept."""
        before, now = self._held[name], self._declared[new].get("type", ANY)
        parts = []
        if new in conversion.functions:
            parts.append("by the function of a migration")
        else:
            found = (one for one in before.get("classes", ()) if one in conversion.classes)
            parts += [change for one in found for change in self._changes.get(one, ())]
        if new in conversion.retyped:
            parts.append(f"values are looked at: all must be `{now}`")
        if new in conversion.columns:
            parts.append("its tuples have other columns, matched by name")
        was = f"was `{self._before}.{name}`" if new != name else ""
        outcome = Outcome.CONVERTED if parts else Outcome.KEPT
        return StateVerdict(f"{self._owner}.{new}", outcome, ", ".join(filter(None, [was, *parts])))


def _is_other(old: Shape, new: Shape, part: str) -> bool:
    """Whether another type is declared of the values ("type") or keys ("key") of a state.

    Keys of which nothing was declared are left alone.
    """
    was, now = old.get(part, ANY), new.get(part, ANY)
    return was != now != ANY and (part == "type" or was != ANY)


def _only_its_own(old: Shape, new: Shape, kind: type) -> str:
    """Why values of a class as it was cannot be those of the class of now; "" if they can, or may.

    A class that says itself how it is written is not read as a record, nor is one of which no fields are
    known.
    """
    if new.get("own") == "read":
        return ""
    is_record = {old["kind"], new["kind"]} <= RECORDS and not ("own" in old or "own" in new)
    if old["kind"] != new["kind"] and not is_record:
        return f"it was {_CLASSES[old['kind']]}, and is {_CLASSES[new['kind']]}"
    if is_record or "fields" not in old:
        return ""
    before, after = dict(map(tuple, old["fields"])), dict(map(tuple, new["fields"]))
    added = after.keys() - before.keys()
    kept = [one for one in new["fields"] if one[0] not in added]
    if kept == old["fields"] and added <= defaults_of(kind).keys():
        return ""
    return "its fields are others, and it says itself how it is written"


def _class_changes(name: str, old: Shape, new: Shape, kind: type) -> list[str]:
    """What has changed of a class, in words."""
    own = f"`{kind.__qualname__}`"
    found = [] if class_name(kind) == name else [f"`{_dotted(name)}` is `{_dotted(class_name(kind))}` now"]
    if old["kind"] != new["kind"]:
        found.append(f"{own} is {_CLASSES[new['kind']]} now")
    before, after = (dict(map(tuple, shape.get("fields", ()))) for shape in (old, new))
    found += [f"field `{one}` of {own} is new, and gets its default" for one in after if one not in before]
    for one, kind_before in before.items():
        if after.get(one, kind_before) != kind_before:
            found.append(f"field `{one}` of {own} becomes `{after[one]}`")
    return found or ([f"{own} has changed"] if old != new else [])


def _dotted(name: str) -> str:
    """The name of a class as people write it."""
    return name.replace(":", ".")


_WITH_ITS_WINDOW = Outcome.ENDED, "with its application window"
_KINDS = {
    "value": "a `State`",
    "keyed": "a `KeyedState`",
    "list": "a `ListState`",
    "timers": "`Timers`",
    "kept": "tuples of its port",
}
_CLASSES = {
    "NamedTuple": "a NamedTuple",
    "dataclass": "a dataclass",
    "Enum": "an Enum",
    "Flag": "a Flag",
    "model": "a class of pydantic or attrs",
    "class": "a class",
}
_SCOPED = frozenset({"value", "keyed", "list"})


def _columns_differ(old: Any, new: Any, operator: PhysicalOperator) -> str:
    """Why tuples with one set of columns cannot be those with another; "" if they can, by name."""
    if old is None or new is None:
        return "" if old == new else f"the tuples that it keeps had {_columns(old)}, and have {_columns(new)}"
    before, after = dict(map(tuple, old)), dict(map(tuple, new))
    changed = [name for name, kind in before.items() if after.get(name) != kind]
    defaults = defaults_of(next(iter([*operator.inputs.values(), *operator.outputs.values()])).type)
    missing = [name for name in after if name not in before and name not in defaults]
    if changed or missing:
        return f"the tuples that it keeps had {_columns(old)}, and have {_columns(new)}"
    return ""


def _columns(columns: Any) -> str:
    if columns is None:
        return "no columns (`object`)"
    return f"the columns {', '.join(f'`{name}: {kind}`' for name, kind in columns)}"


__all__ = ["Comparison", "Conversion", "Former", "Schemas", "held_states"]
