"""Stand-ins for a class while values are read that were written when it was another one.

Fields are matched by name, after migrations have renamed, dropped and converted them. New ones get their
default. No code of the class runs.
"""

from __future__ import annotations

import contextlib
import copy
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from ridgeline.api.cells.migrations import Former
from ridgeline.plan.change.state_schemas import Replacement, defaults_of

_WRITTEN_IN_PYTHON = 1 << 9
"""The flag of classes that are not built in."""


def placeholder(one: Replacement) -> Callable[..., Any]:
    """A callable that makes instances of the class of now of what pickles say of the class before."""
    kind = one.old["kind"]
    if one.former:
        return _former(one)
    if kind == "NamedTuple":
        return _named_tuple(one)
    if kind in {"dataclass", "model"}:
        return _held(one, _filler(one))
    if kind == "Enum":
        names = {value: one.fields.get(name, name) for name, value in reversed(one.old["members"])}
        new: Any = one.new
        return lambda value: new[names[repr(value)]]
    if kind == "Flag":
        return _flag(one.new, [(one.fields.get(name, name), value) for name, value in one.old["members"]])
    return one.new


def _named_tuple(one: Replacement) -> Callable[..., Any]:
    """A class that makes a NamedTuple of the values in a pickle, in the order of the fields before."""
    new: Any = one.new
    before = [name for name, *_ in one.old["fields"]]
    defaults = defaults_of(new)

    class StandIn:
        def __new__(cls, *values: Any) -> Any:
            held = _migrated(one, zip(before, values, strict=True))
            found = (held[name] if name in held else copy.deepcopy(defaults[name]()) for name in new._fields)
            return tuple.__new__(new, found)

    return StandIn


def _migrated(one: Replacement, fields: Iterable[tuple[str, Any]]) -> dict[str, Any]:
    """Fields under their new names, with what functions make of them."""
    named = [(one.fields.get(name, name), value) for name, value in fields]
    return {name: one.values[name](value) if name in one.values else value for name, value in named if name}


def _flag(new: Any, before: Sequence[Sequence[str]]) -> Callable[..., Any]:
    """A function that makes a flag of its number: that of the members whose bits it had."""
    numbers = {name: int(value) for name, value in before}

    def made(value: int) -> Any:
        found, left = new(0), int(value)
        for name, number in numbers.items():
            if number and number & (number - 1) == 0 and number & left:
                found |= new[name]
                left &= ~number
        if left:
            raise ValueError(f"a `{new.__name__}` has bits that no member had: {value}")
        return found

    return made


def _filler(one: Replacement) -> Callable[[Any, Any], None]:
    """A function that gives an instance the state in a pickle: pickle makes the instance first.

    A dataclass has its values in order or by name, a class of pydantic or attrs reads them by itself.
    """
    before = [name for name, *_ in one.old["fields"]]
    own = getattr(one.new, "__setstate__", None) if one.old["kind"] == "model" else None
    changed = bool(one.fields or one.values)

    def filled(self: Any, state: Any) -> None:
        if own is not None:
            own(self, _model_state(one, before, state) if changed else state)
            return
        for name, value in _migrated(one, _by_name(before, state).items()).items():
            object.__setattr__(self, name, value)

    return filled


def _model_state(one: Replacement, before: Sequence[str], state: Any) -> Any:
    """The state of a class of pydantic or attrs, with its fields after migrations."""
    if isinstance(state, tuple):  # of attrs, with slots: values in order
        state = dict(zip(before, state, strict=True))
    if "__dict__" not in state:
        return _migrated(one, state.items())
    found = {**state, "__dict__": _migrated(one, state["__dict__"].items())}
    if (given := state.get("__pydantic_fields_set__")) is not None:
        found["__pydantic_fields_set__"] = {name for old in given if (name := one.fields.get(old, old))}
    return found


def _former(one: Replacement) -> Callable[..., Any]:
    """A class that makes a `Former` of a value whose class is no more."""
    old, name = one.old, one.former
    before = [field for field, *_ in old.get("fields", ())]
    members = {value: member for member, value in reversed(old.get("members", ()))}

    class StandIn(Former):
        def __new__(cls, *values: Any) -> Any:
            if old["kind"] == "NamedTuple":
                return Former(name, **_migrated(one, zip(before, values, strict=True)))
            if members:
                member = members.get(repr(values[0]), "")
                return Former(name, member=one.fields.get(member, member), value=values[0])
            return object.__new__(cls)

        def __init__(self, *_values: Any) -> None:
            """Its state says what it holds."""

        def __setstate__(self, state: Any) -> None:
            fields = state.get("__dict__", state) if isinstance(state, dict) else _by_name(before, state)
            object.__setattr__(self, "__class__", Former)
            vars(self).update(_migrated(one, fields.items()), former_class=name)

    return StandIn


class _Quiet:
    """Hides a subclass that users did not write from its base class."""

    __slots__ = ()

    def __init_subclass__(cls, **_named: object) -> None:
        """Do nothing."""


def _held(one: Replacement, filled: Callable[[Any, Any], None]) -> Callable[..., Any]:
    """A class whose instances become those of the new one once they get their state.

    Fields that there were not get their default. `filled(instance, state)` sets the state. No code of the new
    class runs, nor that of its metaclass or bases.
    """
    new: Any = one.new
    before = [name for name, *_ in one.old["fields"]]
    known = {one.fields.get(name, name) for name in before}
    added = {name: made for name, made in defaults_of(new).items() if name not in known}
    maker = next(base.__new__ for base in new.__mro__ if not base.__flags__ & _WRITTEN_IN_PYTHON)

    def empty(cls: Any, *values: Any) -> Any:
        return object.__new__(cls) if maker is object.__new__ else maker(cls, *values)

    def set_state(self: Any, state: Any) -> None:
        object.__setattr__(self, "__class__", new)
        filled(self, state)
        for name, default in added.items():
            object.__setattr__(self, name, copy.deepcopy(default()))

    def made(cls: Any, *values: Any) -> Any:
        instance = empty(cls, *values)
        if not before:
            set_state(instance, {})  # pickles of what has no fields have no state
        return instance

    def untouched(self: Any, *_values: Any) -> None:
        """Its state says what it holds."""

    names = {"__new__": made, "__init__": untouched, "__setstate__": set_state}
    without = names | {"__slots__": ()}
    for kind, bases, own in ((type, (), names), (type(new), (_Quiet, new), without)):
        held = type.__new__(kind, new.__name__, bases, own)
        with contextlib.suppress(TypeError):  # its layout is another one
            object.__setattr__(empty(held), "__class__", new)
            return held
    return type.__new__(type(new), new.__name__, (new,), without)


def _by_name(names: Iterable[str], state: Any) -> Mapping[str, Any]:
    """The values of fields in what a pickle has of a dataclass."""
    if isinstance(state, list):
        return dict(zip(names, state, strict=True))
    if isinstance(state, tuple):
        return {**(state[0] or {}), **(state[1] or {})}
    found: Mapping[str, Any] = state
    return found
