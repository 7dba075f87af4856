"""Compares what states hold with what a plan declares: by name, before anything runs.

Fields are matched by name. Fields may change places, and new ones need a default. Types may become wider, and
a class may be in another module. Values are converted once, at the start. What a migration's function gets is
compared when it has run. Any other difference is a fault.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ridgeline.api.cells.migrations import steps_of
from ridgeline.api.errors import Fault, cut_in_the_middle, did_you_mean
from ridgeline.api.support.pickling import class_name, class_of, class_within
from ridgeline.plan.change.state_moves import Outcome, StateVerdict, refused
from ridgeline.plan.change.state_shapes import (
    ANY,
    DONE,
    LITERAL,
    MEANING,
    NOTHING,
    RECORDS,
    SLIDES,
    Schemas,
    Shape,
    arguments_of,
    class_names,
    class_shape,
    classes_in,
    defaults_of,
    head_of,
    is_within,
    meaning_of,
    members,
    migrations_done,
    state_shapes,
    type_text,
    types_of,
    with_inner,
    without_literals,
)
from ridgeline.plan.physical import PhysicalOperator

Function = Callable[[Any], Any]
WIDER: Mapping[str, Sequence[str]] = {"int": ("float",), "bool": ("int", "float")}
"""The types that a type may become, each value exactly."""


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
    new name of the state. `retyped`: the states, by new names, whose values must be of another type.
    """

    classes: Mapping[str, Former] = field(default_factory=dict)
    renamed: Mapping[str, str] = field(default_factory=dict)
    dropped: frozenset[str] = frozenset()
    columns: Mapping[str, Sequence[Sequence[str]]] = field(default_factory=dict)
    functions: Mapping[str, Sequence[Function]] = field(default_factory=dict)
    retyped: frozenset[str] = frozenset()

    def __bool__(self) -> bool:
        return any((self.classes, self.renamed, self.dropped, self.columns, self.functions, self.retyped))


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
        kinds: dict[str, type] = {}
        operators = tuple(operators)
        self._users = [type(one.operator) for one in operators]
        for one in operators:
            state_shapes(one, kinds)
        self._kinds = with_inner(kinds)
        self._modules = {base.__module__ for kind in self._users for base in kind.__mro__} - {"builtins"}
        self.faults: list[Fault] = []
        self.states: dict[str, dict[str, Shape]] = {}
        """The shapes that the operators have from now on."""
        self.verdicts: list[StateVerdict] = []
        """The fate of each state."""

    def compare(self, base: str, operator: PhysicalOperator) -> Conversion:
        """How what is held under the first part of a state key becomes the state of an operator."""
        held = held_states(self._schemas, base)
        if not held:
            return Conversion()
        one = _OperatorComparison(self, base, operator, held)
        conversion = one.compare()
        self.faults += one.faults
        self.verdicts += one.verdicts(conversion)
        self.states.setdefault(operator.state_key.rsplit("/", 2)[0], {}).update(one.states)
        return conversion

    def is_over(self, shape: Shape, operator: PhysicalOperator) -> bool:
        """Whether a state ended with an application window, so that it has nothing to lose."""
        at_end = self._window_id >= 0 and self._window_id % operator.window_count == 0
        return shape.get("scope") == "window" and not operator.slides and at_end

    def dropped(self, names: Iterable[str]) -> bool:
        """Whether a state is not wanted, by one of the names that it may have."""
        return any(name in self._dropped for name in names)

    def new_name(self, names: Iterable[str]) -> str | None:
        """The new name of a state, as `operator.state`, by one of the names that it may have."""
        return next((self._renamed[name] for name in names if name in self._renamed), None)

    def find(self, name: str) -> type | None:
        """The class that has this name now; one that has moved is found by its name within its module."""
        found = self._kinds.get(name) or self.named(name)
        if found is not None:
            return found
        path = name.rpartition(":")[2]
        moved = {other: kind for other, kind in self._kinds.items() if other.rpartition(":")[2] == path}
        for module in self._modules:
            kind = class_of(f"{module}:{path}")
            if kind is not None:
                moved[class_name(kind)] = kind
        return next(iter(moved.values())) if len(moved) == 1 else None

    def named(self, name: str) -> type | None:
        """The class that code of the operators has by this name."""
        return class_within(name, self._users)


class _OperatorComparison:
    """Compares the states of one operator."""

    def __init__(
        self, whole: Comparison, base: str, operator: PhysicalOperator, held: Mapping[str, Shape]
    ) -> None:
        self._whole, self._operator, self._held = whole, operator, held
        kinds: dict[str, type] = {}
        self._declared = state_shapes(operator, kinds)
        self._types = _TypeComparison(whole, with_inner(kinds))
        self._owner = f"{operator.name}.{operator.port}" if operator.port else operator.name
        self._before = base.partition("#")[0]
        self.faults: list[Fault] = []
        self.states: dict[str, Shape] = {}
        self._over: set[str] = set()
        """States of an application window that has ended."""
        # What the migrations that are due say, by the names in the checkpoint.
        self._names = {name: name for name in held if not name.startswith("#")}
        self._removed: set[str] = set()
        self._functions: dict[str, list[Function]] = {}

    def compare(self) -> Conversion:
        """Compare all states that hold something; adds faults."""
        self._take_migrations()
        renamed: dict[str, str] = {}
        dropped: set[str] = set()
        columns: dict[str, Sequence[Sequence[str]]] = {}
        functions: dict[str, Sequence[Function]] = {}
        retyped: set[str] = set()
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
            why = self._differs(name, before, declared)
            if why and self._whole.is_over(before, self._operator):
                dropped.add(name)
                self._over.add(name)
            elif why:
                remedy = "write it as it was, convert it by `migrations`, or "
                remedy += f"`--drop-state {self._before}.{name}` drops the values"
                self._fault(remedy, why, f"{self._owner}.{name}")
            else:
                if name in self._functions:
                    functions[new] = self._functions[name]
                elif SLIDES not in self._held and self._types.is_other(before, declared):
                    retyped.add(new)
                if (old := before.get("columns")) is not None and old != declared.get("columns"):
                    columns[new] = old
                self.states[new] = declared | {"classes": self._classes_from_now_on(name, before)}
        if (done := migrations_done(self._operator)) is not None and self.states:
            self.states[DONE] = done
        frozen = frozenset(dropped), columns, functions, frozenset(retyped)
        return Conversion(self._types.changed() | self._records(), renamed, *frozen)

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
        names = self._both_names(name)
        if self._whole.dropped(names) or name in self._removed:
            return None
        declared = {key: value for key, value in before.items() if key != "classes"}
        if self._whole.is_over(before, self._operator) and self._declared.get(name) != declared:
            self._over.add(name)
            return None
        asked = self._asked(name)
        if asked is not None:
            return self._asked_name(name, asked)
        if before["kind"] == "lifetimes":
            return self._lifetimes(before["of"])
        if name in self._declared:
            return name
        if before["kind"] not in {"kept", "slides"}:  # else it slides no more, or keeps no tuples
            self._gone(name, before)
        return None

    def _both_names(self, name: str) -> tuple[str, str]:
        """A state with the name of its operator before, and with that of now."""
        return f"{self._before}.{name}", f"{self._owner}.{name}"

    def _asked(self, name: str) -> str | None:
        """The new name of a state that an option or a migration asks for."""
        asked = self._whole.new_name(self._both_names(name))
        new = self._names.get(name, name)
        return asked if asked is not None or new == name else f"{self._owner}.{new}"

    def _asked_name(self, name: str, asked: str) -> str | None:
        """The name that was asked for; None, and a fault, if there is no such state or it has values."""
        new = asked.removeprefix(f"{self._owner}.")
        other = self._asked(new)
        goes_elsewhere = other is not None and other.removeprefix(f"{self._owner}.") != new
        goes = goes_elsewhere or new in self._removed or self._whole.dropped((f"{self._before}.{new}",))
        is_free = new == name or new not in self._held or goes
        if new in self._declared and is_free:
            return new
        what = f"its state `{name}` is to be called `{asked}`, but it has no such state"
        if not is_free:
            what = f"its state `{name}` is to be called `{new}`, but `{new}` has values of its own"
        self.faults.append(Fault(self._owner, what, did_you_mean(new, self._declared)))
        return None

    def _lifetimes(self, of: str) -> str | None:
        """When the keys of a state end is kept beside it, and goes with it."""
        if self._whole.dropped(self._both_names(of)) or of in self._removed:
            return None
        of = (self._asked(of) or of).removeprefix(f"{self._owner}.")
        return next((name for name, shape in self._declared.items() if shape.get("of") == of), None)

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
            why = _columns_differ(old.get("columns"), new.get("columns"), self._operator)
            return why or self._types.observed(old.get("classes", ()))  # of a port of objects
        was, why = old.get("type", ANY), ""
        if old.get("key", ANY) != ANY:
            why = self._types.differ(old["key"], new.get("key", ANY), "its keys were", exactly=True)
        if why:
            return why
        if name in self._functions:
            if old["kind"] not in _SCOPED:
                why = "a function converts values, and it has none"
            elif SLIDES in self._held:
                why = "its slides have values of it, which the function of a migration does not reach"
        else:
            if was != ANY:  # else each value is looked at
                why = self._types.differ(was, new.get("type", ANY), "its values were")
            why = why or self._types.observed(old.get("classes", ()))
            if not why and SLIDES in self._held and was != ANY and self._types.is_other(old, new):
                why = "its slides have values of it, which cannot be made wider"
        return why

    def _records(self) -> dict[str, Former]:
        """The classes that functions of migrations get records of."""
        found: set[str] = set()
        for name in self._functions:
            shape = self._held[name]
            found |= classes_in([*shape.get("classes", ()), shape.get("type", ANY)], self._whole.classes)
        return {
            name: self._types.former(name, self._types.class_now(name))
            for name in found
            if self._whole.classes[name]["kind"] != "TypedDict"
        }

    def _classes_from_now_on(self, name: str, before: Shape) -> list[str]:
        if name in self._functions:  # of whatever classes its values are then
            return []
        kinds = [self._types.pairs.get(one) or self._whole.named(one) for one in before.get("classes", ())]
        return list(class_names(filter(None, kinds)))

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
        live = "keep it as it is, or remove the operator and add another one, whose state begins anew"
        self.faults.append(Fault(where or self._owner, what, live if self._whole.live else at_start))

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
            if name not in conversion.dropped:
                found.append(self._verdict(name, new, conversion))
            elif name in self._over:
                found.append(StateVerdict(where, Outcome.ENDED, "with its application window"))
            elif name in self._removed:
                found.append(StateVerdict(where, Outcome.DROPPED, "by a migration"))
            elif self._whole.dropped(self._both_names(name)):
                found.append(StateVerdict(where, Outcome.DROPPED, "as it was asked for"))
            else:
                found.append(StateVerdict(where, Outcome.ENDED, "it keeps nothing between windows now"))
        return found

    def _verdict(self, name: str, new: str, conversion: Conversion) -> StateVerdict:
        """The fate of a state that is kept."""
        before, now = self._held[name], self._declared[new].get("type", ANY)
        parts = []
        if new in conversion.functions:
            parts.append("by the function of a migration")
        else:
            changed = (one for one in conversion.classes if one in before.get("classes", ()))
            parts += [change for one in changed for change in self._types.changes.get(one, ())]
        if new in conversion.retyped:
            is_open = before.get("type", ANY) == ANY
            parts.append(f"values {'are looked at: all must be' if is_open else 'become'} {_text(now)}")
        if new in conversion.columns:
            parts.append("its tuples have other columns, matched by name")
        was = f"was `{self._before}.{name}`" if new != name else ""
        outcome = Outcome.CONVERTED if parts else Outcome.KEPT
        return StateVerdict(f"{self._owner}.{new}", outcome, ", ".join(filter(None, [was, *parts])))


class _TypeComparison:
    """Compares types as they were with those of now.

    `pairs`: the classes of now that were found for some. `changes`: how these have changed, in words.
    """

    def __init__(self, whole: Comparison, kinds: dict[str, type]) -> None:
        self._whole, self._kinds = whole, kinds
        self.pairs: dict[str, type] = {}
        self.changes: dict[str, list[str]] = {}

    def differ(self, old: Any, new: Any, what: str, *, exactly: bool = False) -> str:
        """Why a value of one type may be none of another; "" if it always is one.

        `exactly`: nothing wider is taken.
        """
        if new == ANY or (old == new and isinstance(old, str) and ":" not in old):
            return ""
        other = f"{what} {_text(old)}, and are {_text(new)}"
        if old == ANY:  # within a value: nothing looks at it
            return other
        olds, news = members(old), members(new)
        for one in olds:
            whys = [
                self._differ(one, kind, what, exactly=exactly)
                for kind in sorted(news, key=lambda kind: kind != one)
            ]
            if all(whys):
                return whys[0] if len(olds) == len(news) == 1 else other
        return ""

    def _differ(self, old: Any, new: Any, what: str, *, exactly: bool) -> str:
        """Why a value of one type, no union, may be none of another."""
        head, now = head_of(old), head_of(new)
        other = f"{what} {_text(old)}, and are {_text(new)}"
        if new == ANY:
            return ""
        if LITERAL in {head, now}:
            same = head != now or old[2] == new[2]
            why = self.differ(without_literals(old), without_literals(new), what, exactly=exactly)
            return why if why or same else other
        if ":" in head or ":" in now:
            why = self._pair(head, now, what, exactly=exactly)
        else:
            wider = not exactly and now in WIDER.get(head, ())
            why = "" if head == now or wider else other
        before, after = arguments_of(old), arguments_of(new)
        if why or not before or not after:  # one of them says nothing about what is inside
            return why
        if len(before) != len(after):
            return other
        # What is inside of keys and of classes stays as it is.
        kept = {"list": 0, "tuple": 0, "set": 0, "frozenset": 0, "dict": 1}.get(head, len(before))
        pairs = enumerate(zip(before, after, strict=True))
        whys = (self.differ(*pair, what, exactly=exactly or place < kept) for place, pair in pairs)
        return next(filter(None, whys), "")

    def _pair(self, old: str, new: str, what: str, *, exactly: bool) -> str:
        """Why values of one class cannot be those of another one."""
        kind = self._kinds.get(new) or self._whole.named(new)
        if old == new:
            return self._fields(old, kind, exactly=exactly) if kind is not None else ""
        same_path = ":" in old and ":" in new and old.rpartition(":")[2] == new.rpartition(":")[2]
        if kind is None or not (same_path or self._whole.named(old) is kind):  # another name for the same
            return f"{what} {_text(old)}, and are {_text(new)}"
        return self._fields(old, kind, exactly=exactly)

    def observed(self, names: Iterable[str]) -> str:
        """Why values of classes that were found in a state cannot be read."""
        for name in names:
            if name in self.pairs:
                continue
            kind = self._whole.find(name)
            if kind is None:
                return f"it has values of the class {_text(name)}, which is not there any more"
            if why := self._fields(name, kind):
                return why
        return ""

    def _fields(self, name: str, kind: type, *, exactly: bool = False) -> str:
        """Why values of a class as it was cannot be those of the class that it is now."""
        if (before := self.pairs.get(name)) is not None:
            other = f"{_text(class_name(before))} and {_text(class_name(kind))}"
            what = f"its values were of the class {_text(name)}: two classes are called so now, {other}"
            return "" if before is kind else what
        self.pairs[name] = kind
        self.changes[name] = changes = []
        old = self._whole.classes.get(name)
        new, inside = class_shape(kind)
        self._kinds.update(inside)
        if class_name(kind) != name:
            changes.append(f"{_text(name)} is {_text(class_name(kind))} now")
        if old is None or new.get("own") == "read":
            return ""
        own = f"`{kind.__qualname__}`"
        by_name = {old["kind"], new["kind"]} <= RECORDS and not ("own" in old or "own" in new)
        why = ""
        if old["kind"] != new["kind"]:
            changes.append(f"{own} is {_CLASSES[new['kind']]} now")
            why = "" if by_name else f"it was {_CLASSES[old['kind']]}, and is {_CLASSES[new['kind']]}"
        elif "members" in old:
            now = dict(new["members"])
            gone = [member for member, _ in old["members"] if member not in now]
            why = f"it has no member `{gone[0]}` any more" if gone else ""
            if any(now.get(member) != value for member, value in old["members"]):
                changes.append(f"members of {own} have other values")
        elif old.get("form") != new.get("form"):
            changes.append(f"instances of {own} are written otherwise")
        if not why and "fields" in old:
            why = self._fields_differ(old, new, own, changes, exactly=exactly or not by_name)
        return f"{_text(name)} is another class than in the checkpoint: {why}" if why else ""

    def _fields_differ(self, old: Shape, new: Shape, own: str, changes: list[str], *, exactly: bool) -> str:
        """Why the fields of a class cannot be matched by name; adds in words how they have changed."""
        before, after = types_of(old), types_of(new)
        gone = [name for name in before if name not in after]
        added = [name for name in after if name not in before]
        if gone:
            more = f"; `{added[0]}` is new" if added else ""
            return f"it has no field `{gone[0]}` any more{more}"
        optional = {name for name, _, has_default in new["fields"] if has_default}
        for name in added:
            if name not in optional:
                return f"its field `{name}` is new, and has no default"
            changes.append(f"field `{name}` of {own} is new, and gets its default")
        for name, kind in before.items():
            if why := self.differ(kind, after[name], f"its field `{name}` was", exactly=exactly):
                return why.replace(", and are ", ", and is ")
            if not is_within(self._now(kind), after[name]):
                changes.append(f"field `{name}` of {own} becomes {_text(after[name])}")
        if list(before) != [name for name in after if name in before]:
            changes.append(f"fields of {own} have changed places")
            if "own" in new:
                return "its fields are in another order, and it says itself how it is written"
        return ""

    def is_other(self, old: Shape, new: Shape) -> bool:
        """Whether the values of a state must become others, or be looked at."""
        return not is_within(self._now(old.get("type", ANY)), new.get("type", ANY))

    def _now(self, kind: Any) -> Any:
        """A type that was, with the names that its classes have now."""
        if isinstance(kind, str):
            return class_name(self.pairs[kind]) if kind in self.pairs else kind
        return list(map(self._now, kind))

    def class_now(self, name: str) -> type | None:
        """The class that stands for one that was."""
        return self.pairs.get(name) or self._whole.find(name)

    def former(self, name: str, kind: type | None) -> Former:
        """A class that was, with what it is now."""
        old = self._whole.classes[name]
        reads = kind is not None and class_shape(kind)[0].get("own") == "read"
        return Former(old, kind, is_opaque=old["kind"] == "class" or "own" in old or reads)

    def changed(self) -> dict[str, Former]:
        """The classes that are not what they were, of those that were found."""
        found: dict[str, Former] = {}
        for name, kind in self.pairs.items():
            if name not in self._whole.classes or self._whole.classes[name]["kind"] == "TypedDict":
                continue  # the values of a TypedDict are dictionaries
            one = self.former(name, kind)
            # a class that is not found by its name may be in pickles as a whole, which is not that of now
            is_same = class_name(kind) == name and class_of(name) is kind
            if not is_same or (self.changes[name] and not one.is_opaque):
                found[name] = one
        return found


_KINDS = {
    "value": "a `State`",
    "keyed": "a `KeyedState`",
    "list": "a `ListState`",
    "timers": "`Timers`",
    "kept": "tuples of its port",
    "slides": "states of its slides",
}
_CLASSES = {
    "NamedTuple": "a NamedTuple",
    "dataclass": "a dataclass",
    "Enum": "an Enum",
    "Flag": "a Flag",
    "TypedDict": "a TypedDict",
    "model": "a class of pydantic or attrs",
    "class": "a class",
}
_SCOPED = frozenset({"value", "keyed", "list"})


def _text(kind: Any) -> str:
    return f"`{type_text(kind)}`"


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
