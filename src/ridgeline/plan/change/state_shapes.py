"""The shape of a state, as JSON: its kind, the types of its values and keys, the classes found in them.

Types are texts (`int`, `list[app.Account]`), which are the same or not. A class that is found in a state has
its kind and, in order, its fields with their types. By these its values are read as records.
"""

from __future__ import annotations

import copyreg
import dataclasses
import json
import re
import sys
import types
import typing
from collections.abc import Callable, Collection, Iterable, Mapping
from enum import Enum, Flag
from functools import lru_cache, partial
from typing import Any

from pydantic import BaseModel
from typing_extensions import is_typeddict

from ridgeline.api.cells.keyed_declaration import KeyedState, Lifetimes
from ridgeline.api.cells.list_state import ListState
from ridgeline.api.cells.migrations import steps_of
from ridgeline.api.columns.schema import Schema
from ridgeline.api.columns.struct_types import field_names, is_named_tuple
from ridgeline.api.errors import safe_repr
from ridgeline.api.operator import Operator, operator_type
from ridgeline.api.state import PLATFORM, Declaration, State
from ridgeline.api.support.loops import DelayHead, DelayTail
from ridgeline.api.support.pickling import class_name, class_within
from ridgeline.api.timers import Timers
from ridgeline.plan.physical import PhysicalOperator

Shape = dict[str, Any]
ANY = "any"
NOTHING: Mapping[str, Any] = {}
"""The schemas of states that hold nothing."""
RECORDS = frozenset({"NamedTuple", "dataclass", "model"})
"""The kinds of classes whose values are records of their fields."""
MEANING, DONE = "#meaning", "#migrations"
"""Entries beside the states of an operator: columns of its ports, and migrations that are done."""
WAITING, SLIDES = "_waiting", "_slides"
"""The states in which tuples of a port are kept: see `ridgeline.engine.operator.application_window`."""
_GENERATED = frozenset(
    {"dataclasses", "collections", "enum", "typing", "copyreg", "builtins", "pydantic.main", "attr._make"}
)
_WRITES = ("__reduce__", "__reduce_ex__", "__getnewargs__", "__getnewargs_ex__", "__getstate__")


# Types ------------------------------------------------------------------------------------------------------


def type_text(kind: Any, within: tuple[object, ...] = ()) -> str:  # noqa: PLR0911  one for each form of a type
    """A type as text, the same in all processes; `ANY` if it says nothing.

    Its values are plain where those of a class are records: so the keys of a TypedDict are part of the text.
    `within`: the types that contain it.

    >>> type_text(dict[str, list[int | None]]), type_text(object)
    ('dict[str, list[int | None]]', 'any')
    """
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if origin is typing.Annotated or hasattr(kind, "__supertype__"):
        return type_text(arguments[0] if arguments else kind.__supertype__, within)
    if origin is typing.Literal:
        return " | ".join(map(_literal_text, arguments))
    if origin in (typing.Union, types.UnionType):
        return " | ".join(type_text(one, within) for one in arguments)
    if isinstance(origin, type):
        texts = ("..." if one is Ellipsis else type_text(one, within) for one in arguments)
        return f"{type_text(origin)}[{', '.join(texts)}]"
    if kind is None or kind is type(None):
        return "None"
    if not isinstance(kind, type) or kind in {object, Any} or getattr(kind, "_is_protocol", False):
        return ANY  # a type variable, a name that cannot be resolved
    name = class_name(kind).replace(":", ".")
    if not is_typeddict(kind) or kind in within:
        return name
    fields = (f"{field}: {type_text(one, (*within, kind))}" for field, one in hints_of(kind).items())
    return f"{name}({', '.join(fields)})"


def _literal_text(value: object) -> str:
    """One value of a Literal: a member of an Enum by its name, as records have it."""
    return f"{type(value).__name__}.{value.name}" if isinstance(value, Enum) else repr(value)


def defaults_of(kind: Any) -> dict[str, Callable[[], Any]]:
    """The defaults of a class's fields, each as what makes it. One computed of other fields is none."""
    found: dict[str, Callable[[], Any]] = {}
    if not isinstance(kind, type):
        return found
    if issubclass(kind, BaseModel):
        for name, field in kind.model_fields.items():
            if not field.is_required() and not getattr(field, "default_factory_takes_validated_data", False):
                found[name] = partial(field.get_default, call_default_factory=True)
    nothing = getattr(sys.modules.get("attr"), "NOTHING", None)
    for one in vars(kind).get("__attrs_attrs__", ()):
        factory = getattr(one.default, "factory", None)
        if factory is not None and not one.default.takes_self:
            found[one.name] = factory
        elif factory is None and one.default is not nothing:
            found[one.name] = partial(_itself, one.default)
    for one in dataclasses.fields(kind) if dataclasses.is_dataclass(kind) else ():
        if one.default_factory is not dataclasses.MISSING:
            found[one.name] = one.default_factory
        elif one.default is not dataclasses.MISSING:
            found[one.name] = partial(_itself, one.default)
    for name, default in getattr(kind, "_field_defaults", {}).items():
        found[name] = partial(_itself, default)
    return found


def _itself(value: Any) -> Any:
    return value


@lru_cache(maxsize=4096)
def class_shape(kind: Any) -> Shape:
    """A class as JSON: its kind, fields or members, and `own` if its own code says how it is pickled."""
    shape: Shape = {"kind": "class"}
    if (names := field_names(kind)) is not None:
        hints = hints_of(kind)
        title = "NamedTuple" if is_named_tuple(kind) else "model"
        shape = {"kind": title, "fields": [[name, type_text(hints.get(name, Any))] for name in names]}
        if dataclasses.is_dataclass(kind):
            shape |= {"kind": "dataclass", "form": _form_of(kind)}
    elif issubclass(kind, Flag):
        shape = {"kind": "Flag", "members": [[name, str(int(one.value))] for name, one in _members(kind)]}
    elif issubclass(kind, Enum):
        shape = {"kind": "Enum", "members": [[name, repr(one.value)] for name, one in _members(kind)]}
    if own := _own(kind):
        shape["own"] = own
    return shape


def _members(kind: Any) -> Iterable[tuple[str, Any]]:
    found: Iterable[tuple[str, Any]] = kind.__members__.items()
    return found


def _form_of(kind: Any) -> str:
    """How instances of a dataclass are pickled: a `list` of values in order, or by name."""
    setter = getattr(kind, "__setstate__", None)
    if getattr(setter, "__module__", "") == "dataclasses":
        return "list"
    return "dict" if hasattr(kind, "__dict__") and "__dict__" in dir(kind) else "slots"


def _own(kind: type) -> str:
    """Whether a class says itself how it is pickled: how it is `read`, or only how it is `written`."""
    if _is_users(getattr(kind, "__setstate__", None)):
        return "read"
    written = kind in copyreg.dispatch_table or any(_is_users(getattr(kind, one, None)) for one in _WRITES)
    return "written" if written else ""


def _is_users(method: object) -> bool:
    if not isinstance(method, types.FunctionType):
        return False
    return method.__globals__.get("__name__", method.__module__) not in _GENERATED


def hints_of(kind: Any) -> dict[str, Any]:
    """The types of a class's fields by name; none if their names cannot be resolved here."""
    try:
        return typing.get_type_hints(kind)
    except Exception:  # noqa: BLE001  whatever code of annotations raises
        return {}


# States -----------------------------------------------------------------------------------------------------


def state_shapes(operator: PhysicalOperator) -> dict[str, Shape]:
    """The states that an operator declares, or has, by name."""
    found: dict[str, Shape] = {}
    for name, declared in operator_type(type(operator.operator)).states.items():
        if name not in PLATFORM:
            found[name] = _state_shape(declared)
    if operator.unifier and WAITING in found:
        found[WAITING] = _kept(operator)
    if isinstance(operator.operator, (DelayTail, DelayHead)):
        found["kept"] = _kept(operator)
    if operator.slides:
        found[SLIDES] = _kept(operator)
    return found


def _state_shape(declared: Declaration) -> Shape:
    """A declared state as JSON."""
    shape: Shape = {"scope": declared.scope} if declared.scope != "application" else {}
    if isinstance(declared, Lifetimes):
        return shape | {"kind": "lifetimes", "of": declared.state}
    if isinstance(declared, Timers):
        return shape | {"kind": "timers", "key": type_text(declared.key)}
    if isinstance(declared, KeyedState):
        types_ = {"type": type_text(declared.type), "key": type_text(declared.key)}
        return shape | {"kind": "keyed"} | types_
    if isinstance(declared, (ListState, State)):
        kind = "list" if isinstance(declared, ListState) else "value"
        return shape | {"kind": kind, "type": type_text(value_type(declared))}
    return shape | {"kind": class_name(type(declared))}


def value_type(declared: Any) -> Any:
    """The type of the values of a state, as far as its declaration says one."""
    if isinstance(declared, State):
        return Any if declared.default is None else type(declared.default)
    return Any if declared.type is None else declared.type


def _kept(operator: PhysicalOperator) -> Shape:
    """The columns of the tuples that are kept of an operator's one port."""
    schemas = [*operator.inputs.values(), *operator.outputs.values()]
    return {"kind": "kept", "columns": columns_of(schemas[0])} if schemas else {"kind": "kept"}


def meaning_of(operator: PhysicalOperator) -> Shape | None:
    """What the meaning of an operator's state depends on: columns of ports, and properties as texts.

    An operator of the library that does not say it keeps values of tuples by position.
    """
    own = operator.operator
    names = own.state_depends_on
    if not names:
        states = operator_type(type(own)).states.values()
        keeps = any(isinstance(one, (KeyedState, ListState)) for one in states)
        names = tuple(operator.inputs) if keeps and any(map(_is_librarys, type(own).__mro__)) else ()
    if operator.unifier or not names:
        return None
    ports = {name: columns_of(operator.inputs[name]) for name in names if name in operator.inputs}
    properties = {name: _settled(getattr(own, name)) for name in names if name not in ports}
    return {"kind": "meaning", "ports": ports, "properties": properties}


def _settled(value: object) -> str:
    """A value as text, the same in all processes; functions by their names."""
    return re.sub(r" at 0x[0-9a-fA-F]+", "", safe_repr(value))


def _is_librarys(kind: type) -> bool:
    return kind.__module__.startswith(("ridgeline.operators", "ridgeline.connectors")) and issubclass(
        kind, Operator
    )


def columns_of(schema: Schema) -> list[list[str]] | None:
    """Names and Arrow types of columns; None of pickled tuples."""
    return None if schema.pickled else [[field.name, str(field.type)] for field in schema.arrow]


def class_names(kinds: Iterable[type]) -> tuple[str, ...]:
    """The names of classes that a restart compares: not Python's own, nor those inside of functions.

    Nor those in which Ridgeline itself writes values: the format of the checkpoint says what they are.
    """
    return tuple(sorted(class_name(kind) for kind in kinds if _is_noted(kind)))


@lru_cache(maxsize=4096)
def _is_noted(kind: type) -> bool:
    is_ours = kind.__module__.startswith(("ridgeline.engine.", "ridgeline.api."))
    if "<locals>" in kind.__qualname__ or kind is type or is_ours:
        return False
    if issubclass(kind, Enum) or field_names(kind) is not None:
        return True
    return kind.__module__.partition(".")[0] not in _KNOWN


_KNOWN = sys.stdlib_module_names | {"numpy", "pyarrow", "ridgeline", "cloudpickle"}
"""Modules whose classes no application changes."""


def migrations_done(operator: PhysicalOperator) -> Shape | None:
    """The entry of an operator whose state has been through all migrations; None if there are none."""
    titles = [title for title, _ in steps_of(operator.operator)]
    return {"kind": "migrations", "done": titles} if titles else None


def classes_of(states: Mapping[str, Shape]) -> list[str]:
    """The names of the classes that were found in the states of an operator."""
    return sorted({one for state in states.values() for one in state.get("classes", ())})


class Schemas:
    """The shapes of the states of a run, as far as its windows are committed."""

    def __init__(self, operators: Iterable[PhysicalOperator], picture: Mapping[str, Any] = NOTHING) -> None:
        """`picture`: what is known of them already."""
        self._operators = {one.state_key.rsplit("/", 2)[0]: one for one in operators}
        self._states: dict[str, dict[str, Shape]] = {
            base: dict(states)
            for base, states in picture.get("states", {}).items()
            if base in self._operators
        }
        self._picture: Mapping[str, Any] = picture
        self._changed = bool(picture)

    def note(self, base: str, changed: Mapping[str, Collection[str]]) -> None:
        """States have changed, by name, and have values of these classes. Costs little if that is known."""
        states = self._states.setdefault(base, {})
        for name, classes in changed.items():
            held = states.get(name)
            is_known = held is not None and not (classes and set(classes).difference(held["classes"]))
            if is_known or name in PLATFORM:
                continue
            known = () if held is None else held["classes"]
            shape = state_shapes(self._operators[base])[name]
            states[name] = shape | {"classes": sorted({*known, *classes})}
            meaning = meaning_of(self._operators[base])
            if meaning is not None:
                states[MEANING] = meaning
            if DONE not in states and (steps := migrations_done(self._operators[base])) is not None:
                states[DONE] = steps
            self._changed = True

    @property
    def picture(self) -> Mapping[str, Any]:
        """As JSON values; the same object until something changes."""
        if self._changed:
            self._changed = False
            kinds: dict[str, type] = {}
            for base, states in self._states.items():
                users = (type(self._operators[base].operator),)
                for one in classes_of(states):
                    if one not in kinds and (kind := class_within(one, users)) is not None:
                        kinds[one] = kind
            states = {base: dict(sorted(held.items())) for base, held in sorted(self._states.items()) if held}
            classes = {name: class_shape(kind) for name, kind in sorted(kinds.items())}
            picture = {"states": states, "classes": classes}
            self._picture = json.loads(json.dumps(picture)) if states else NOTHING
        return self._picture
