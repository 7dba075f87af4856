"""Values as plain records, as they come from pickles of classes that are others now, and back.

`record_class` stands for such a class while a pickle is read: what comes is a `Record`, a dictionary of
fields, or a `MemberName`. A `Maker` makes values of the classes of now of them, wherever they are in a value.
No code of users' classes runs.
"""

from __future__ import annotations

import contextlib
import copy
import copyreg
import functools
import operator
import types
import typing
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from enum import Enum, Flag
from typing import Any, ClassVar, Self, cast

import numpy as np
import pyarrow as pa
from pydantic import BaseModel
from typing_extensions import is_typeddict

from ridgeline.api.cells.cell import IMMUTABLE
from ridgeline.api.columns.restoring import allocator
from ridgeline.api.errors import shorten
from ridgeline.plan.change.state_schemas import Former
from ridgeline.plan.change.state_shapes import (
    ANY,
    RECORDS,
    Shape,
    class_shape,
    defaults_of,
    hints_of,
    type_text,
)

Function = Callable[[Any], Any]
_PLAIN = IMMUTABLE - {frozenset}
_ITEMS = (tuple, frozenset, list, deque, set)
_NO_OBJECTS = (Enum, type, types.FunctionType, types.BuiltinFunctionType, types.MethodType, types.ModuleType)
_LEFT = "a value of the class `{}` that was is left where no class of now takes it: convert it by a migration"

_REMEDY = "declare the type that it has, or convert it by a function"


class Record(dict[str, Any]):
    """The fields of a value of a class as it was. `rest`: what else its pickle has of it."""

    __slots__ = ("rest",)
    former: ClassVar[str] = ""
    """The name of the class."""
    kind: ClassVar[str] = ""
    fields: ClassVar[Sequence[str]] = ()

    def __new__(cls, *values: Any) -> Self:
        """As pickle makes the value: a NamedTuple of its fields, others of nothing."""
        record = super().__new__(cls)
        record.rest = {}
        if cls.kind == "NamedTuple":
            dict.update(record, zip(cls.fields, values, strict=True))
        elif values:
            what = "says itself how it is written, so nothing else can read it"
            raise TypeError(f"`{_dotted(cls.former)}` {what}")
        return record

    def __init__(self, *_values: Any) -> None:
        """`__new__` has done it, or the state follows."""

    def __setstate__(self, state: Any) -> None:
        if isinstance(state, list) or (isinstance(state, tuple) and self.kind == "model"):
            state = dict(zip(self.fields, state, strict=True))  # of a frozen dataclass, or attrs, with slots
        elif isinstance(state, tuple):
            state = {**(state[0] or {}), **(state[1] or {})}
        state = {**state, **state.get("__dict__", {})}  # pydantic has its fields within
        self.update((name, state.pop(name)) for name in self.fields or list(state) if name in state)
        self.rest = {name: one for name, one in state.items() if name != "__dict__"}

    def __hash__(self) -> int:  # type: ignore[override]  # it may be in a set, or a key, until it is made
        return id(self)

    def __deepcopy__(self, memo: dict[int, Any]) -> Record:
        memo[id(self)] = found = dict.__new__(type(self))
        found.rest = copy.deepcopy(self.rest, memo) if self.rest else {}
        for name, one in self.items():
            found[name] = one if type(one) in _PLAIN else copy.deepcopy(one, memo)
        return found

    def __reduce_ex__(self, _protocol: Any) -> Any:
        raise TypeError(_LEFT.format(_dotted(self.former)))


class MemberName(str):
    """The name of a member of an Enum as it was; of a Flag the names of all its bits, with `|` between."""

    __slots__ = ("former",)
    former: str
    """The name of the class."""

    def __deepcopy__(self, _memo: object) -> MemberName:
        return self

    def __reduce_ex__(self, _protocol: Any) -> Any:
        raise TypeError(_LEFT.format(_dotted(self.former)))


def record_class(name: str, shape: Shape) -> Callable[..., Any]:
    """What stands for a class while a pickle is read. `name`, `shape`: those that it had."""
    if "members" not in shape:
        known = {"former": name, "kind": shape["kind"], "fields": tuple(_types_of(shape))}
        return type(name.rpartition(".")[2], (Record,), {"__slots__": ()} | known)
    names = {value: member for member, value in reversed(shape["members"])}

    def member(value: Any) -> MemberName:
        found = MemberName(_bits(names, int(value)) if shape["kind"] == "Flag" else names[repr(value)])
        found.former = name
        return found

    return member


def _types_of(shape: Shape) -> dict[str, str]:
    """The types of a class's fields as texts, by its shape."""
    return dict(map(tuple, shape.get("fields", ())))


def _dotted(name: str) -> str:
    """The name of a class as people write it."""
    return name.replace(":", ".")


def _bits(names: Mapping[str, str], value: int) -> str:
    """The members of a Flag whose bits a value has."""
    bits = {int(number): name for number, name in names.items() if int(number).bit_count() == 1}
    if value & ~sum(bits):
        raise ValueError(f"a flag has bits that no member had: {value}")
    return "|".join(name for number, name in bits.items() if number & value)


class Maker:
    """Makes values of the classes of now of what a pickle has.

    `formers`: the classes that are read as records, by the names that they had. `batch`: what becomes of
    tuples that are kept as a batch. `migrated`: values come from functions of migrations, so all that is
    declared is checked. `keys`: values are keys, so none gets another type.
    """

    def __init__(
        self,
        formers: Mapping[str, Former],
        batch: Callable[[pa.RecordBatch], pa.RecordBatch],
        *,
        migrated: bool = False,
        keys: bool = False,
    ) -> None:
        self._formers, self._batch = formers, batch
        self._migrated, self._is_keys = migrated, keys
        self._compiled: dict[Any, Function] = {}
        self._plans: dict[tuple[Any, str], _Plan] = {}
        self.classes: set[type] = set()
        """The classes of what it has made, and of what it has found as it was."""
        self._made: dict[int, tuple[Any, Any]] = {}
        """What was made of what, by its id, within the value that is being made."""

    def make(self, value: Any, kind: Any = Any) -> Any:
        """A value with records in it as values of the classes of now, of a declared type.

        Lists, dictionaries, sets and objects are changed in place. Raises ValueError for another type.
        """
        if kind is Any and type(value) in _PLAIN:
            return value
        self._made = {}
        return self.any(value) if kind is Any else self.of(kind)(value)

    # Whatever it is -----------------------------------------------------------------------------------------

    def any(self, value: Any) -> Any:
        """A value of any type."""
        if type(value) in _PLAIN:
            return value
        if id(value) not in self._made:
            self._made[id(value)] = value, value  # it may be within itself
            self._made[id(value)] = value, self._walked(value)
        return self._made[id(value)][1]

    def _walked(self, value: Any) -> Any:
        """The value with all that is within; raises ValueError of a class that is gone."""
        if isinstance(value, (Record, MemberName)):
            kind = self._class_now(value)
            if kind is None:
                raise ValueError(_LEFT.format(_dotted(value.former)))
            return self._of_record(kind, value) if isinstance(value, Record) else self._member(kind, value)
        self.classes.add(type(value))
        if isinstance(value, _ITEMS):
            return self._items(value, self.any)
        if isinstance(value, pa.RecordBatch):
            return self._batch(value)
        if isinstance(value, np.ndarray) and value.dtype == object:
            value[...] = np.frompyfunc(self.any, 1, 1)(value)
        if isinstance(value, dict):
            self._pairs(value, self.any, self.any)
        if not isinstance(value, _NO_OBJECTS):
            self._attributes(value)
        return value

    def _items(self, value: Any, function: Function) -> Any:
        """A list, a tuple or a set of what its items have become: itself where none has changed."""
        items = list(map(function, value))
        is_hashed = isinstance(value, (set, frozenset))
        if all(map(operator.is_, items, value)) and not (is_hashed and _may_differ(items)):
            return value
        if isinstance(value, tuple):
            return tuple.__new__(type(value), items)
        if isinstance(value, frozenset):
            return frozenset.__new__(type(value), items)
        value.clear()
        (value.update if isinstance(value, set) else value.extend)(items)
        return value

    def _pairs(self, value: dict[Any, Any], of_key: Function, of_one: Function) -> None:
        pairs = [(of_key(key), of_one(one)) for key, one in value.items()]
        olds = zip(pairs, list(value.items()), strict=True)
        same = all(key is old and one is before for (key, one), (old, before) in olds)
        if same and not _may_differ(value):
            return
        value.clear()
        for pair in pairs:  # not `update`, by which a Counter adds
            value.__setitem__(*pair)

    def _attributes(self, value: Any) -> None:
        """Change what an object has, in place."""
        self._pairs(getattr(value, "__dict__", {}), self.any, self.any)
        for name in copyreg._slotnames(type(value)):  # type: ignore[attr-defined]  # noqa: SLF001
            one = getattr(value, name, None)
            if (made := self.any(one)) is not one:
                object.__setattr__(value, name, made)

    # Of a declared type -------------------------------------------------------------------------------------

    def of(self, declared: Any) -> Function:
        """The function that makes values of a type, or raises ValueError."""
        try:
            found = self._compiled.get(declared)
        except TypeError:  # not hashable
            return self._function(declared)
        if found is None:
            found = self._compiled[declared] = self._function(declared)
        return found

    def _function(self, declared: Any) -> Function:
        """As `of`, of a type that is looked at for the first time."""
        origin, arguments = typing.get_origin(declared), typing.get_args(declared)
        if origin is typing.Annotated or hasattr(declared, "__supertype__"):
            return self.of(arguments[0] if arguments else declared.__supertype__)
        if origin is typing.Literal:
            return self._literal(declared, arguments)
        if origin in (typing.Union, types.UnionType):
            return self._one_of(declared, arguments)
        kind = type(None) if declared is None else origin or declared
        if type_text(kind) == ANY:
            return self.any
        if is_typeddict(kind):
            return functools.partial(self._typed_dict, kind)
        inside = self._inside(kind, arguments) if arguments else None
        around = self._around(kind, arguments) if arguments else None

        def made(value: Any) -> Any:
            if inside is not None and type(value) is kind:
                return inside(value)
            if around is not None and isinstance(value, kind):
                value = around(value)
            return self._of_class(kind, value)

        return made

    def _inside(self, kind: type, arguments: Sequence[Any]) -> Function | None:
        """The function of the values of a container; None of one that is not known."""
        if kind is tuple and arguments[-1] is not Ellipsis:
            functions = list(map(self.of, arguments))

            def made(value: tuple[Any, ...]) -> Any:
                if len(value) != len(functions):
                    raise ValueError(f"{shorten(value)} has {len(value)} items, not {len(functions)}")
                return tuple(function(one) for function, one in zip(functions, value, strict=True))

            return made
        if kind is dict:
            key, item = map(self.of, arguments)
            return lambda value: {key(name): item(one) for name, one in value.items()}
        if kind in (list, tuple, set, frozenset):
            function = self.of(arguments[0])
            return lambda value: kind(map(function, value))
        return None

    def _around(self, kind: type, arguments: Sequence[Any]) -> Function | None:
        """The function of what is in a container of another class, such as a `deque`, which stays what it is.

        None of classes of users, where parameters may mean anything.
        """
        if kind.__module__ not in {"builtins", "collections", "collections.abc"}:
            return None
        functions = [self.of(one) for one in arguments if one is not Ellipsis]

        def made(value: Any) -> Any:
            if isinstance(value, Record):
                return value
            if isinstance(value, dict):
                self._pairs(value, functions[0], functions[1] if len(functions) > 1 else self.any)
            elif isinstance(value, _ITEMS) and len(functions) == 1 and not hasattr(value, "_fields"):
                return self._items(value, functions[0])
            return value

        return made

    def _literal(self, declared: Any, literals: Sequence[Any]) -> Function:
        """The function of a `Literal`: its values, and members of an Enum also by their names."""
        kinds, pairs = set(map(type, literals)), {(type(one), one) for one in literals}
        members = {one.name: one for one in literals if isinstance(one, Enum)}

        def made(value: Any) -> Any:
            if type(value) in kinds and (type(value), value) in pairs:
                return value
            if isinstance(value, str) and value in members:
                return members[value]
            raise _misfit(value, declared, "none of")

        return made

    def _one_of(self, declared: Any, arguments: Sequence[Any]) -> Function:
        """The function of a union."""
        parts = [(typing.get_origin(one) or one, self.of(one)) for one in arguments]
        wrong = "none of" if any(kind is typing.Literal for kind, _ in parts) else "no"

        def made(value: Any) -> Any:
            kind = self._class_now(value) or type(value)
            exact = [function for part, function in parts if part is kind]
            if len(exact) == 1:
                return exact[0](value)
            for function in exact or [function for _, function in parts]:
                with contextlib.suppress(ValueError):
                    return function(value)
            raise _misfit(value, declared, wrong)

        return made

    def _of_class(self, kind: Any, value: Any) -> Any:
        """A value of a class."""
        if isinstance(value, (Record, MemberName)):
            now, base = self._class_now(value), cast("Any", dict if isinstance(value, Record) else str)
            if now is not None and issubclass(now, kind):
                kind = now
            elif self._migrated:
                if issubclass(base, kind):
                    value = base(value)  # a function has put it where that is declared
            elif now is not None or value.former.rpartition(":")[2] != kind.__qualname__:
                # a class that has moved to another module is known by what is declared; this is another one
                raise ValueError(f"a value of `{_dotted(value.former)}` is no `{type_text(kind)}`; {_REMEDY}")
        is_one = isinstance(value, kind) and not isinstance(value, (Record, MemberName))
        if not is_one and isinstance(value, dict) and class_shape(kind)["kind"] in RECORDS:
            return self._of_record(kind, value)
        if not is_one and isinstance(value, str) and issubclass(kind, Enum):
            return self._member(kind, value)
        made = value.item() if not is_one and isinstance(value, np.generic) else value
        made = _widened(kind, made)
        if not isinstance(made, kind):
            raise _misfit(value, kind)
        if self._is_keys and type(made) is not type(value):
            raise ValueError(f"{shorten(value)} is in keys, which cannot be converted: keep their type")
        return self.any(made)

    def _typed_dict(self, kind: Any, value: Any) -> Any:
        if not isinstance(value, dict):
            raise _misfit(value, kind)
        hints = hints_of(kind)
        if missing := [name for name in kind.__required_keys__ if name not in value]:
            raise ValueError(f"a `{kind.__name__}` has no `{missing[0]}`")
        if unknown := [name for name in value if name not in hints]:
            raise ValueError(f"`{kind.__name__}` has no field `{unknown[0]}`: a migration must drop it")
        return {name: self.of(hints[name])(one) for name, one in value.items()}

    def _of_record(self, kind: Any, found: dict[str, Any]) -> Any:
        """An instance of a class with these fields, and the defaults of others."""
        _, known = self._made.get(id(found), (found, None))
        if type(known) is kind:
            return known
        self.classes.add(kind)
        plan = self._plan(kind, found.former if isinstance(found, Record) else "")
        if unknown := found.keys() - plan.functions.keys():
            raise ValueError(f"`{kind.__name__}` has no field `{min(unknown)}`: a migration must drop it")
        if missing := plan.required - found.keys():
            raise ValueError(f"field `{min(missing)}` of `{kind.__name__}` has no value, and no default")
        instance = None if plan.maker == tuple.__new__ else plan.maker(kind)
        if instance is not None:
            self._made[id(found)] = found, instance  # it may be within itself
        values = {}
        for name, function in plan.functions.items():
            try:
                values[name] = (
                    function(found[name]) if name in found else copy.deepcopy(plan.defaults[name]())
                )
            except ValueError as error:
                raise ValueError(f"field `{name}` of `{kind.__name__}`: {error}") from None
        if instance is None:
            return tuple.__new__(kind, values.values())
        rest = self.any(found.rest) if isinstance(found, Record) and found.rest else {}
        others = {name: one for name, one in rest.items() if not name.startswith("__pydantic")}
        if issubclass(kind, BaseModel):
            before = found.fields if isinstance(found, Record) else ()
            given = {*rest.get("__pydantic_fields_set__", ()), *(found.keys() - before)} & found.keys()
            state = {"__pydantic_extra__": None, "__pydantic_private__": None} | rest
            state |= {"__dict__": values | others, "__pydantic_fields_set__": given}
            instance.__setstate__(state)
            return instance
        for name, value in (values | (others if hasattr(instance, "__dict__") else {})).items():
            object.__setattr__(instance, name, value)
        return instance

    def _member(self, kind: Any, name: str) -> Any:
        """The member of an Enum, or the members of a Flag."""
        self.classes.add(kind)
        try:
            if issubclass(kind, Flag):
                return functools.reduce(operator.or_, (kind[one] for one in name.split("|") if one), kind(0))
            return kind[str(name)]
        except KeyError as error:
            raise ValueError(f"`{kind.__name__}` has no member {error}: rename it by a migration") from None

    def _plan(self, kind: Any, former: str) -> _Plan:
        """How a value of a class is made of the record of the one that it was."""
        found = self._plans.get((kind, former))
        if found is None:
            before = _types_of(self._formers[former].old) if former in self._formers else {}
            hints, fields, defaults = hints_of(kind), _types_of(class_shape(kind)), defaults_of(kind)
            functions = {
                name: self.any
                if not self._migrated and before.get(name) == now
                else self.of(hints.get(name, Any))
                for name, now in fields.items()
            }
            required, maker = fields.keys() - defaults, allocator(kind)
            found = self._plans[kind, former] = _Plan(functions, defaults, required, maker)
        return found

    def _class_now(self, value: Any) -> type | None:
        """The class of now of what was read as another one; None of other values, and if there is none."""
        is_former = isinstance(value, (Record, MemberName))
        return self._formers[value.former].new if is_former else None


@dataclass(frozen=True, slots=True)
class _Plan:
    """How values of a class are made. `functions`: by field. `maker`: makes an instance without fields."""

    functions: Mapping[str, Function]
    defaults: Mapping[str, Callable[[], Any]]
    required: AbstractSet[str]
    maker: Callable[..., Any]


def _may_differ(keys: Iterable[object]) -> bool:
    """Whether keys may have other hashes than when they were read: one of them has changed in place."""
    return any(type(key) not in _PLAIN for key in keys)


def _misfit(value: object, kind: Any, wrong: str = "no") -> ValueError:
    return ValueError(f"{shorten(value)} is {wrong} `{type_text(kind)}`; {_REMEDY}")


def _widened(kind: Any, value: Any) -> Any:
    """A number as one of a wider type, exactly. Raises ValueError for an int that no float equals."""
    if kind is int and type(value) is bool:
        return int(value)
    if kind is not float or type(value) not in {int, bool}:
        return value
    try:
        found = float(value)
    except OverflowError:
        found = float("inf")
    if found != value:
        raise ValueError(f"{value} cannot be a float: none is equal to it; convert it by a function")
    return found
