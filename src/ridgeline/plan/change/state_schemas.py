"""Compares what states hold with what a plan declares: by name, before anything runs.

Fields are matched by name. Fields may change places, new ones need a default, and a class may be in another
module: values are converted once, at the start. Any other difference is a fault.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ridgeline.api.cells.migrations import Former
from ridgeline.api.errors import Fault, cut_in_the_middle, did_you_mean
from ridgeline.api.support.pickling import class_name, class_of, class_within
from ridgeline.plan.change.state_moves import Outcome, StateVerdict, refused, shape_changes
from ridgeline.plan.change.state_shapes import (
    ANY,
    CONVERTED,
    DONE,
    LITERAL,
    MEANING,
    NOTHING,
    SLIDES,
    WAITING,
    Schemas,
    Shape,
    arguments_of,
    class_names,
    class_shape,
    defaults_of,
    head_of,
    meaning_of,
    members,
    migrations_done,
    state_shapes,
    with_inner,
    without_literals,
)
from ridgeline.plan.change.state_steps import WIDER, Steps, chained, classes_in, looks, narrower, widener
from ridgeline.plan.physical import PhysicalOperator


@dataclass(frozen=True, slots=True)
class Replacement:
    """The class that stands for one that values were written with, and how that one was.

    `fields`: new names of its fields or members by the old ones, "" for those that are dropped. `values`:
    what makes the value of a field, by its new name. `former`: values become a `Former` of that class name.
    """

    new: type
    old: Shape
    fields: Mapping[str, str] = field(default_factory=dict)
    values: Mapping[str, Callable[[Any], Any]] = field(default_factory=dict)
    former: str = ""


@dataclass(frozen=True, slots=True)
class Conversion:
    """How the state of one operator, or of the unifiers of one port, becomes that of a plan.

    `classes`: by the name under which pickles have them. `renamed`: new names of states. `dropped`: states
    that are not wanted. `columns`: those of a port whose tuples are kept, before; None: they are the same.
    `values`: what makes each value of a state, by its new name.
    """

    classes: Mapping[str, Replacement] = field(default_factory=dict)
    renamed: Mapping[str, str] = field(default_factory=dict)
    dropped: frozenset[str] = frozenset()
    columns: Mapping[str, Sequence[Sequence[str]]] = field(default_factory=dict)
    values: Mapping[str, Callable[[Any], Any]] = field(default_factory=dict)
    migrated: frozenset[str] = frozenset()
    """The states, by new names, whose values a migration's function has made: of whatever classes."""

    def __bool__(self) -> bool:
        return bool(self.classes or self.renamed or self.dropped or self.columns or self.values)


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
        self._kinds: dict[str, type] = {}
        self._modules: set[str] = set()
        operators = tuple(operators)
        self._users = [type(one.operator) for one in operators]
        for one in operators:
            state_shapes(one, self._kinds)
            self._modules.update(kind.__module__ for kind in type(one.operator).__mro__)
        self._kinds = with_inner(self._kinds)
        self.faults: list[Fault] = []
        self.states: dict[str, dict[str, Shape]] = {}
        """The shapes that the operators have from now on."""
        self.verdicts: list[StateVerdict] = []
        """The fate of each state."""

    def compare(self, base: str, operator: PhysicalOperator) -> Conversion:
        """How what is held under the first part of a state key becomes the state of an operator."""
        held = held_states(self._schemas, base)
        if not held:
            return Conversion() if self._schemas else self._unknown(base, operator)
        one = _One(self, base, operator)
        conversion = one.compare(held)
        self.faults += one.faults
        self.verdicts += one.verdicts(conversion)
        self.states.setdefault(operator.state_key.rsplit("/", 2)[0], {}).update(one.states)
        return conversion

    def _unknown(self, base: str, operator: PhysicalOperator) -> Conversion:
        """Options for states of which the checkpoint has no shape. No migration can be carried out then."""
        owner = _owner(operator)
        why = "an earlier version of Ridgeline wrote it without a schema, so nothing is compared"
        verdict = StateVerdict(owner, Outcome.KEPT, why)
        if migrations_done(operator) is not None:
            what = "an earlier version of Ridgeline wrote its state without a schema, so no migration applies"
            remedy = "start once with the code that wrote it; then with this one"
            fault = Fault(operator.name, what, remedy)
            self.faults.append(fault)
            verdict = refused(fault)
        own = f"{base}."
        dropped = frozenset(name.removeprefix(own) for name in self._dropped if name.startswith(own))
        renamed = {
            old.removeprefix(own): new.rpartition(".")[2]
            for old, new in self._renamed.items()
            if old.startswith(own)
        }
        self.verdicts.append(verdict)
        self.verdicts += [
            StateVerdict(f"{owner}.{name}", Outcome.DROPPED, "as it was asked for") for name in dropped
        ]
        self.verdicts += [
            StateVerdict(f"{owner}.{new}", Outcome.KEPT, f"was `{own}{old}`") for old, new in renamed.items()
        ]
        return Conversion(renamed=renamed, dropped=dropped)

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

    def shape_of(self, name: str) -> Shape | None:
        """A class as it was."""
        return self.classes.get(name)

    def find(self, name: str) -> type | None:
        """The class that has this name now; one that has moved is found by its name within its module."""
        found = self._kinds.get(name) or self.named(name)
        if found is not None:
            return found
        path = name.rpartition(":")[2]
        moved = {other: kind for other, kind in self._kinds.items() if other.rpartition(":")[2] == path}
        for module in self._modules - {"builtins"}:
            kind = class_of(f"{module}:{path}")
            if kind is not None:
                moved[class_name(kind)] = kind
        return next(iter(moved.values())) if len(moved) == 1 else None

    def named(self, name: str) -> type | None:
        """The class that code of the operators has by this name."""
        return class_within(name, self._users)


class _One:
    """Compares the states of one operator."""

    def __init__(self, whole: Comparison, base: str, operator: PhysicalOperator) -> None:
        self._whole, self._operator = whole, operator
        kinds: dict[str, type] = {}
        self._declared = state_shapes(operator, kinds)
        self._kinds = with_inner(kinds)
        self._owner = _owner(operator)
        self._before = base.partition("#")[0]
        self.faults: list[Fault] = []
        self.states: dict[str, Shape] = {}
        self._pairs: dict[str, type] = {}
        self._compared: set[str] = set()
        self._held: Mapping[str, Shape] = {}
        self._over: set[str] = set()
        self._strict = False
        """Nothing wider is taken."""
        self._formers: set[str] = set()
        self._steps = Steps(operator, NOTHING, NOTHING)

    def verdicts(self, conversion: Conversion) -> list[StateVerdict]:
        """The fate of each state that was compared."""
        found = list(map(refused, self.faults))
        faulty = {one.where for one in self.faults}
        for name, before in self._held.items():
            new = conversion.renamed.get(name, name)
            where = f"{self._owner}.{new}"
            if name.startswith("#") or before["kind"] == "lifetimes" or {where, self._owner} & faulty:
                continue
            if name in conversion.dropped:
                if name in self._over:
                    found.append(StateVerdict(where, Outcome.ENDED, "with its application window"))
                elif name in self._steps.dropped:
                    found.append(StateVerdict(where, Outcome.DROPPED, "by a migration"))
                elif self._whole.dropped((f"{self._before}.{name}", where)):
                    found.append(StateVerdict(where, Outcome.DROPPED, "as it was asked for"))
                else:
                    found.append(StateVerdict(where, Outcome.ENDED, "it keeps nothing between windows now"))
                continue
            found.append(self._verdict(name, new, before, conversion))
        return found

    def _verdict(self, name: str, new: str, before: Shape, conversion: Conversion) -> StateVerdict:
        """The fate of a state that is kept."""
        where = f"{self._owner}.{new}"
        known = before.get("classes", ())
        parts = [
            shape_changes(one, class_name(stands.new), stands, class_shape(stands.new)[0])
            for one, stands in conversion.classes.items()
            if one in known and not stands.former
        ]
        if new in conversion.migrated:
            parts.append("by the function of a migration")
        elif new in conversion.values:
            wider = _text(self._declared[new].get("type", ANY))
            held = self._held[name].get("type", ANY)
            is_open = looks(ANY if held == _ANY_BEFORE else held, self._declared[new].get("type", ANY))
            parts.append(f"values {'are looked at: all must be' if is_open else 'become'} {wider}")
        if new in conversion.columns:
            parts.append("its tuples have other columns, matched by name")
        was = f"was `{self._before}.{name}`" if new != name else ""
        if parts:
            return StateVerdict(where, Outcome.CONVERTED, ", ".join(filter(None, [was, *parts])))
        return StateVerdict(where, Outcome.KEPT, was)

    def compare(self, held: Mapping[str, Shape]) -> Conversion:
        """Compare all states that hold something; adds faults."""
        self._held = held
        self._steps = steps = Steps(self._operator, held, self._whole.classes)
        self._check_steps(steps)
        renamed: dict[str, str] = {}
        dropped: set[str] = set()
        columns: dict[str, Sequence[Sequence[str]]] = {}
        values: dict[str, Callable[[Any], Any]] = {}
        for name, before in held.items():
            if name == MEANING:
                self._compare_meaning(before)
            if name.startswith("#"):
                continue
            new = self._kept_as(name, before, held)
            if new is None:
                dropped.add(name)
                continue
            if new != name:
                renamed[name] = new
            why, function = self._compare_state(name, before, new)
            if why and self._whole.is_over(before, self._operator):
                dropped.add(name)
                self._over.add(name)
                continue
            if why:
                self._fault(name, why)
                continue
            if function is not None:
                values[new] = function
            old_columns = before.get("columns")
            if old_columns is not None and old_columns != self._declared[new].get("columns"):
                columns[new] = old_columns
            self._hold(new, before)
        if (done := migrations_done(self._operator)) is not None and self.states:
            self.states[DONE] = done
        replaced = {name: one for name, kind in self._pairs.items() if (one := self._replacement(name, kind))}
        for name in self._formers:
            old = self._whole.shape_of(name) or {"kind": "class"}
            fields, functions = steps.formers.get(name, (NOTHING, NOTHING))
            replaced[name] = Replacement(Former, old, fields, functions, former=name.rpartition(":")[2])
        self._check_keys(replaced)
        migrated = frozenset(steps.functions).intersection(values)
        return Conversion(replaced, renamed, frozenset(dropped), columns, values, migrated)

    def _kept_as(self, name: str, before: Shape, held: Mapping[str, Shape]) -> str | None:
        """The name under which a state is kept; None if it is not."""
        names = (f"{self._before}.{name}", f"{self._owner}.{name}")
        if self._whole.dropped(names) or name in self._steps.dropped:
            return None
        declared = {key: value for key, value in before.items() if key != "classes"}
        if self._whole.is_over(before, self._operator) and self._declared.get(name) != declared:
            self._over.add(name)
            return None
        return self._new_name(name, before, names, held)

    def _compare_state(self, name: str, before: Shape, new: str) -> tuple[str, Callable[[Any], Any] | None]:
        """Why values cannot be those of a state, "" if they can, and the function that makes them so."""
        declared = self._declared[new]
        functions = self._steps.functions.get(new)
        if functions is not None:
            why = self._differs({**before, "type": ANY}, declared)
            if not why and SLIDES in self._held:
                why = "its slides have values of it, which the function of a migration does not reach"
            for one in before.get("classes", ()):
                kind = self._whole.find(one)
                if kind is None or self._fields(one, kind):
                    self._pairs.pop(one, None)
                    self._formers.add(one)
            return why, chained(functions)
        why = self._differs(before, declared) or self._observed(before.get("classes", ()))
        was, now = before.get("type", ANY), declared.get("type", ANY)
        function = None if why else widener(was, now)
        if not why and was in (ANY, _ANY_BEFORE) and now != ANY and SLIDES not in self._held:
            function = narrower(now)
        if function is not None and SLIDES in self._held:
            why = "its slides have values of it, which cannot be made wider"
        return why, function

    def _check_steps(self, steps: Steps) -> None:
        """Add a fault if the state has been through migrations that the code does not have.

        So is one for steps of which it is not clear how they go together.
        """
        if steps.conflict is not None:
            before, after = steps.conflict
            what = f"`{after}` is about a class that the function of `{before}` makes, which comes before it"
            remedy = self._remedy("start the version in between once, then this one")
            self.faults.append(Fault(self._owner, what, remedy))
        unknown = [one for one in steps.unknown if not (self._whole.live and one.startswith("application: "))]
        if unknown:
            what = f"its state has been through the migration `{unknown[0]}`, which this code does not have"
            again = "list it again: migrations are never taken away"
            remedy = (
                f"start the code that wrote it; go back by `--from-window` to a window before; or {again}"
            )
            self.faults.append(Fault(self._owner, what, self._remedy(remedy)))

    def _check_keys(self, replaced: Mapping[str, Replacement]) -> None:
        """Add a fault for each class of keys whose fields would get other values: keys stay in place."""
        inside = {
            one
            for name, before in self._held.items()
            if "key" in before
            for one in (
                before.get("classes", ())
                if before["key"] == ANY and not self._steps.functions.get(name)
                else classes_in(before["key"], self._whole.classes)
            )
        }
        for name in sorted(inside.intersection(replaced)):
            one = replaced[name]
            if one.values or one.former:
                changed = next(iter(one.values), "")
                what = f"field `{changed}` of {_text(name)}" if changed else _text(name)
                remedy = self._remedy("keep it as it was, and convert values only")
                where = f"{self._owner}"
                self.faults.append(Fault(where, f"{what} is in keys, which cannot be converted", remedy))

    def _hold(self, name: str, before: Shape) -> None:
        if name in self._steps.functions:  # of whatever classes its values are then
            self.states[name] = self._declared[name] | {"classes": []}
            return
        kinds = [self._pairs.get(one) or self._whole.named(one) for one in before.get("classes", ())]
        self.states[name] = self._declared[name] | {"classes": list(class_names(filter(None, kinds)))}

    def _new_name(
        self, name: str, before: Shape, names: Sequence[str], held: Mapping[str, Shape]
    ) -> str | None:
        """The name that a state has now; None if it is not kept, which may be a fault."""
        asked = self._asked(name)
        if asked is not None:
            new = asked.removeprefix(f"{self._owner}.")
            free = new == name or new not in held or self._goes_elsewhere(new)
            if new in self._declared and free:
                return new
            what = f"its state `{name}` is to be called `{asked}`, but it has no such state"
            if not free:
                what = f"its state `{name}` is to be called `{new}`, but `{new}` has values of its own"
            self.faults.append(Fault(self._owner, what, did_you_mean(new, self._declared)))
            return None
        if before["kind"] == "lifetimes":
            return self._lifetimes(before, held)
        if name in self._declared:
            return name
        if before["kind"] in {"kept", "slides"}:
            return None  # it does not slide any more, or keeps nothing until the end of its window
        alike = [
            other
            for other, shape in self._declared.items()
            if other not in held and shape["kind"] == before["kind"]
        ]
        kind = type(self._operator.operator).__name__
        new = alike[0] if len(alike) == 1 else "NEW"
        remedy = self._remedy(
            f"`--rename {names[0]}={self._owner}.{new}` gives its values to another one, "
            f"`--drop-state {names[0]}` drops them"
        )
        self.faults.append(
            Fault(
                self._owner,
                f"`{kind}` has no state `{name}` any more, but the checkpoint has its values",
                remedy,
            )
        )
        return None

    def _goes_elsewhere(self, name: str) -> bool:
        """Whether the values of a state are asked to go to another one, as where two change their names."""
        asked = self._asked(name)
        gone = name in self._steps.dropped or self._whole.dropped((f"{self._before}.{name}",))
        return gone or (asked is not None and asked.removeprefix(f"{self._owner}.") != name)

    def _asked(self, name: str) -> str | None:
        """The new name of a state that an option or a migration asks for."""
        asked = self._whole.new_name((f"{self._before}.{name}", f"{self._owner}.{name}"))
        new = self._steps.renamed.get(name, name)
        return asked if asked is not None or new == name else f"{self._owner}.{new}"

    def _lifetimes(self, before: Shape, held: Mapping[str, Shape]) -> str | None:
        """When the keys of a state end is kept beside it, and goes with it."""
        of = before["of"]
        names = (f"{self._before}.{of}", f"{self._owner}.{of}")
        if self._whole.dropped(names) or of in self._steps.dropped:
            return None
        asked = self._asked(of)
        of = of if asked is None else asked.removeprefix(f"{self._owner}.")
        found = (name for name, shape in self._declared.items() if shape.get("of") == of)
        return next(found, None)

    def _remedy(self, at_start: str) -> str:
        """The remedy of a fault. At a start options say what becomes of states."""
        if not self._whole.live:
            return at_start
        return "keep it as it is, or remove the operator and add another one, whose state begins anew"

    def _fault(self, state: str, why: str) -> None:
        where = f"{self._before}.{state}"
        remedy = self._remedy(
            f"write it as it was, convert it by `migrations`, or `--drop-state {where}` drops the values"
        )
        self.faults.append(Fault(f"{self._owner}.{state}", why, remedy))

    # Types --------------------------------------------------------------------------------------------------

    def _differs(self, old: Shape, new: Shape) -> str:
        """Why the values of a state cannot be those of the one that is declared now; "" if they can."""
        if old["kind"] != new["kind"]:
            before, now = (_KINDS.get(one["kind"], one["kind"]) for one in (old, new))
            return f"it was {before}, and is {now}"
        if old.get("scope") != new.get("scope") and old["kind"] in _SCOPED:
            now = new.get("scope", "application")
            return (
                f"it lived as long as the {old.get('scope', 'application')}, and lives as long as the {now}"
            )
        if old["kind"] == "kept":
            return _columns_differ(old.get("columns"), new.get("columns"), self._operator)
        why = ""
        if old.get("type", ANY) not in (ANY, _ANY_BEFORE):  # else each value is looked at, see `narrower`
            why = self._types(old["type"], new.get("type", ANY), "its values were")
        if not why and "key" in old and old["key"] != ANY:
            why = self._exactly(old["key"], new.get("key", ANY), "its keys were")
        return why

    def _exactly(self, old: Any, new: Any, what: str) -> str:
        """As `_types`, where nothing can be made wider."""
        before, self._strict = self._strict, True
        try:
            return self._types(old, new, what)
        finally:
            self._strict = before

    def _types(self, old: Any, new: Any, what: str) -> str:
        """Why a value of one type may be none of another; "" if it always is one."""
        old = ANY if old == _ANY_BEFORE else old
        if old == new and isinstance(old, str) and ":" not in old:
            return ""
        if new == ANY or old == CONVERTED:
            return ""
        if old == ANY:  # within a value: nothing looks at it
            return f"{what} {_text(old)}, and are {_text(new)}"
        olds, news = members(old), members(new)
        for one in olds:
            why = ""
            for other in sorted(news, key=lambda other: other != one):
                why = self._alike(one, other, what)
                if not why:
                    break
            if why:
                return why if len(olds) == len(news) == 1 else f"{what} {_text(old)}, and are {_text(new)}"
        return ""

    def _alike(self, old: Any, new: Any, what: str) -> str:
        """Why a value of one type, no union, may be none of another."""
        head, other = head_of(old), head_of(new)
        if new == ANY or LITERAL in {head, other}:
            return "" if new == ANY else self._literals(old, new, what)
        if ":" in head or ":" in other:
            if why := self._pair(head, other, what):
                return why
        elif head != other:
            wider = not self._strict and other in WIDER.get(head, ())
            return "" if wider else f"{what} {_text(old)}, and are {_text(new)}"
        before, after = arguments_of(old), arguments_of(new)
        if before and after and len(before) != len(after):
            return f"{what} {_text(old)}, and are {_text(new)}"
        if not before or not after:
            return ""  # one of them says nothing about what is inside
        return self._inside(head, before, after, what)

    def _literals(self, old: Any, new: Any, what: str) -> str:
        """As `_alike`, where one or both are a value of a Literal. A checkpoint of before has its type."""
        same = head_of(old) != head_of(new) or self._member(old) == self._member(new, is_old=False)
        why = self._types(without_literals(old), without_literals(new), what)
        return why if why or same else f"{what} {_text(old)}, and are {_text(new)}"

    def _member(self, literal: Any, *, is_old: bool = True) -> str:
        """A value of a Literal, by which it is compared: a member of an Enum by its name after migrations."""
        text = str(literal[2])
        if ":" not in literal[1]:
            return text
        name = text.removeprefix("<").partition(":")[0].rpartition(".")[2]  # `<C.A: 1>` in older checkpoints
        return self._steps.fields.get(literal[1], {}).get(name, name) if is_old else name

    def _inside(self, head: str, before: Sequence[Any], after: Sequence[Any], what: str) -> str:
        """As `_types`, of the arguments of two types. Those of keys and other classes stay as they are."""
        kept = {"list": 0, "tuple": 0, "set": 0, "frozenset": 0, "dict": 1}.get(head, len(before))
        for place, pair in enumerate(zip(before, after, strict=True)):
            why = (self._exactly if place < kept else self._types)(*pair, what)
            if why:
                return why
        return ""

    def _pair(self, old: str, new: str, what: str) -> str:
        """Why values of one class cannot be those of another one."""
        kind = self._kinds.get(new) or self._whole.named(new)
        if old == new:
            return self._fields(old, kind) if kind is not None else ""
        if kind is not None and self._whole.named(old) is kind:
            return self._fields(old, kind)  # another name for the same class
        if (
            ":" not in old
            or ":" not in new
            or old.rpartition(":")[2] != new.rpartition(":")[2]
            or kind is None
        ):
            return f"{what} {_text(old)}, and are {_text(new)}"
        return self._fields(old, kind)

    def _observed(self, names: Iterable[str]) -> str:
        """Why values of classes that were found in a state cannot be read."""
        for name in names:
            if name in self._pairs or name in self._compared:
                continue
            kind = self._whole.find(name)
            if kind is None:
                return f"it has values of the class {_text(name)}, which is not there any more"
            if why := self._fields(name, kind):
                return why
        return ""

    def _fields(self, name: str, kind: type) -> str:
        """Why values of a class as it was cannot be those of the class that it is now."""
        before = self._pairs.get(name)
        if before is not None:
            other = (
                f"two classes are called so now, {_text(class_name(before))} and {_text(class_name(kind))}"
            )
            return "" if before is kind else f"its values were of the class {_text(name)}: {other}"
        old = self._steps.shape_of(name)
        self._pairs[name] = kind
        if old is None:
            return ""
        new, inside = class_shape(kind)
        self._kinds.update(inside)
        if new.get("own") == "read":
            return ""
        touched = name in self._steps.fields or name in self._steps.converted
        if touched and (old["kind"] in _BY_FUNCTION or "own" in new):
            what = _CLASSES[old["kind"]] if "own" not in new else "it says itself how it is written"
            return f"no migration reaches fields of {_text(name)} ({what}): convert the state by a function"
        strict, self._strict = self._strict, self._strict or old["kind"] == "TypedDict" or "own" in new
        why = self._kinds_differ(old, new)
        self._strict = strict
        return f"{_text(name)} is another class than in the checkpoint: {why}" if why else ""

    def _kinds_differ(self, old: Shape, new: Shape) -> str:
        if old["kind"] == "class" and new["kind"] in _LATER:
            return ""  # written by a version that did not describe these
        if old["kind"] != new["kind"]:
            return f"it was {_CLASSES[old['kind']]}, and is {_CLASSES[new['kind']]}"
        if old["kind"] in ("Enum", "Flag"):
            gone = [name for name, _ in old["members"] if name not in dict(new["members"])]
            return f"it has no member `{gone[0]}` any more" if gone else ""
        return "" if old["kind"] == "class" else self._fields_differ(old, new)

    def _fields_differ(self, old: Shape, new: Shape) -> str:
        """Why the fields of a class cannot be matched by name."""
        before = {name: (kind, default) for name, kind, default in old["fields"]}
        after = {name: (kind, default) for name, kind, default in new["fields"]}
        gone = [name for name in before if name not in after]
        added = [name for name in after if name not in before]
        if gone:
            more = f"; `{added[0]}` is new" if added else ""
            return f"it has no field `{gone[0]}` any more{more}"
        missing = [name for name in added if not after[name][1]]
        if missing:
            return f"its field `{missing[0]}` is new, and has no default"
        for name, (kind, _) in before.items():
            if why := self._types(kind, after[name][0], f"its field `{name}` was"):
                return why.replace(", and are ", ", and is ")
        if list(before) != list(after) and "own" in new:
            return "its fields are in another order, and it says itself how it is written"
        return ""

    def _replacement(self, name: str, kind: type) -> Replacement | None:
        """The substitute for a class that values were written with; None if it is unchanged."""
        old = self._whole.shape_of(name)
        if old is None:
            return None
        new = class_shape(kind)[0]
        values = {} if "own" in new else self._field_values(name, new)
        fields = self._steps.fields.get(name, {})
        same = class_name(kind) == name and class_of(name) is kind and _layout(old) == _layout(new)
        if same and not (values or fields):
            return None  # else pickles may have it as a whole, which is another class than that of now
        if new["kind"] == "TypedDict":
            return None  # its values are dictionaries
        return Replacement(kind, old, fields, values)

    def _field_values(self, name: str, new: Shape) -> dict[str, Callable[[Any], Any]]:
        """The functions that make values of fields, by new names: of migrations, else of wider types."""
        after = {field: kind for field, kind, _ in new.get("fields", ())}
        old = self._steps.shape_of(name) or {}
        wider = {
            field: function
            for field, kind, _ in old.get("fields", ())
            if field in after and (function := widener(kind, after[field])) is not None
        }
        return wider | self._steps.converted.get(name, {})

    # What the meaning of a state depends on -----------------------------------------------------------------

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
        self.faults += [
            Fault(self._owner, f"{what}: its state would mean something else", self._remedy(remedy))
            for what in whats
        ]


_ANY_BEFORE = "typing:Any"
"""How `Any` was noted by versions of Ridgeline before."""
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
_LATER = frozenset({"Flag", "TypedDict", "model"})
_BY_FUNCTION = frozenset({"TypedDict", "class"})
"""Classes whose fields are not known, or have no place of their own in what was written."""


def _owner(operator: PhysicalOperator) -> str:
    """The name under which states are listed: of the operator, for unifiers with that of their port."""
    return f"{operator.name}.{operator.port}" if operator.port else operator.name


def _text(kind: Any) -> str:
    return f"`{_plain(kind)}`"


def _plain(kind: Any) -> str:
    if isinstance(kind, str):
        return kind.replace(":", ".")
    head, *arguments = kind
    if head == LITERAL:
        return str(arguments[1])
    if head == "|":
        return " | ".join(map(_plain, arguments))
    return f"{_plain(head)}[{', '.join(map(_plain, arguments))}]"


def _layout(shape: Shape) -> Any:
    """The part of a shape that must be equal for values to be read without a conversion."""
    if "members" in shape:
        return shape["members"]
    if shape["kind"] in ("model", "class"):
        return sorted(name for name, *_ in shape.get("fields", ()))
    return shape["kind"], [name for name, *_ in shape.get("fields", ())], shape.get("form")


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


__all__ = [
    "NOTHING",
    "SLIDES",
    "WAITING",
    "Comparison",
    "Conversion",
    "Replacement",
    "Schemas",
    "defaults_of",
    "held_states",
]
