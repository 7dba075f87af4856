"""The shape of a state, as JSON: its kind, the types of its values, the fields of their classes.

A type is a text (`int`, `app:Account`) or a list of a type and its arguments, as `["list", "int"]` and `["|",
"int", "None"]`. A class has its kind and, in order, its fields: name, type, and whether it has a default.
"""

from __future__ import annotations

import copyreg
import dataclasses
import json
import re
import sys
import types
import typing
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from enum import Enum, Flag
from functools import lru_cache, partial
from typing import Any

from pydantic import BaseModel
from typing_extensions import is_typeddict

from ridgeline.api.cells.keyed_declaration import KeyedState, Lifetimes
from ridgeline.api.cells.list_state import ListState
from ridgeline.api.cells.migrations import steps_of
from ridgeline.api.columns.schema import Schema
from ridgeline.api.columns.struct_types import is_named_tuple
from ridgeline.api.errors import safe_repr
from ridgeline.api.operator import Operator, operator_type
from ridgeline.api.state import PLATFORM, Declaration, State
from ridgeline.api.support.loops import DelayHead, DelayTail
from ridgeline.api.support.pickling import class_name, class_within
from ridgeline.api.timers import Timers
from ridgeline.plan.physical import PhysicalOperator

Shape = dict[str, Any]
ANY = "any"
LITERAL = "literal"
"""The head of one value of a `Literal`: its type and its text follow."""
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


def members(kind: Any) -> Sequence[Any]:
    """The types of a union, by its shape; of another one itself."""
    return kind[1:] if head_of(kind) == "|" else [kind]


def without_literals(kind: Any) -> Any:
    """A type with that of their values in the place of Literals."""
    if isinstance(kind, str):
        return kind
    return kind[1] if kind[0] == LITERAL else [*map(without_literals, kind)]


def literal_text(value: object) -> str:
    """One value of a Literal as its shape has it: a member of an Enum by its name, as pickles have it.

    >>> literal_text("p"), literal_text(2)
    ("'p'", '2')
    """
    return f"{type(value).__name__}.{value.name}" if isinstance(value, Enum) else repr(value)


def head_of(kind: Any) -> str:
    """The name of a type without its arguments, by its shape."""
    return kind if isinstance(kind, str) else str(kind[0] if isinstance(kind[0], str) else head_of(kind[0]))


def arguments_of(kind: Any) -> Sequence[Any]:
    """The shapes of the arguments of a type; none of one that says nothing about what is inside."""
    return () if isinstance(kind, str) else kind[1:]


def type_text(kind: Any) -> str:
    """A type as people write it, by its shape."""
    if isinstance(kind, str):
        return kind.replace(":", ".")
    head, *arguments = kind
    if head == LITERAL:
        return str(arguments[1])
    texts = map(type_text, arguments)
    return " | ".join(texts) if head == "|" else f"{type_text(head)}[{', '.join(texts)}]"


def is_within(old: Any, new: Any) -> bool:
    """Whether the values of a type are those of another one as they stand."""
    return new == ANY or all(one in members(new) for one in members(old))


def types_of(shape: Shape) -> dict[str, Any]:
    """The types of a class's fields, by its shape."""
    return {name: kind for name, kind, _ in shape.get("fields", ())}


def classes_in(kind: Any, classes: Mapping[str, Shape]) -> set[str]:
    """The classes that a type names, and those that their fields name, of those whose shapes are given."""
    found: set[str] = set()
    waiting = [kind]
    while waiting:
        one = waiting.pop()
        if not isinstance(one, str):
            waiting += one
        elif one in classes and one not in found:
            found.add(one)
            waiting += types_of(classes[one]).values()
    return found


def type_shape(kind: Any, classes: dict[str, type]) -> Any:
    """A type as JSON. Adds the classes of users that it names."""
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if origin is typing.Annotated or hasattr(kind, "__supertype__"):
        return type_shape(arguments[0] if arguments else kind.__supertype__, classes)
    if origin is typing.Literal:
        return _union([LITERAL, type_shape(type(one), classes), literal_text(one)] for one in arguments)
    if origin in (typing.Union, types.UnionType):
        return _union(type_shape(one, classes) for one in arguments)
    if isinstance(origin, type):
        return [type_shape(origin, classes), *(_argument(one, classes) for one in arguments)]
    return _plain_shape(kind, classes)


def _union(shapes: Iterable[Any]) -> Any:
    found = [inner for one in shapes for inner in members(one)]
    return found[0] if len(found) == 1 else ["|", *found]


def _plain_shape(kind: Any, classes: dict[str, type]) -> str:
    if kind is None or kind is type(None):
        return "None"
    if not isinstance(kind, type) or kind in {object, Any} or getattr(kind, "_is_protocol", False):
        return ANY  # a type variable, a name that cannot be resolved
    name = class_name(kind)
    if is_described(kind):
        classes.setdefault(name, kind)
    return name


def _argument(kind: Any, classes: dict[str, type]) -> Any:
    if kind is Ellipsis:
        return "..."
    return ANY if isinstance(kind, (list, tuple)) else type_shape(kind, classes)


def is_described(kind: type) -> bool:
    """True for a class whose fields are known: a NamedTuple, a dataclass, an Enum, a TypedDict.

    So are those of pydantic and attrs.
    """
    return issubclass(kind, Enum) or _fields(kind) is not None


def _fields(kind: Any) -> tuple[str, list[str]] | None:
    """What a class is called that has fields, and their names; None of others."""
    if is_named_tuple(kind):
        return "NamedTuple", list(kind._fields)
    if dataclasses.is_dataclass(kind):
        return "dataclass", [one.name for one in dataclasses.fields(kind)]
    if is_typeddict(kind):
        return "TypedDict", list(kind.__annotations__)
    if issubclass(kind, BaseModel):
        return "model", list(kind.model_fields)
    attributes = vars(kind).get("__attrs_attrs__")
    return None if attributes is None else ("model", [one.name for one in attributes])


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


def with_inner(classes: Mapping[str, type]) -> dict[str, type]:
    """Classes, and those that their fields name."""
    found: dict[str, type] = {}
    waiting = dict(classes)
    while waiting:
        name, kind = waiting.popitem()
        found[name] = kind
        inside = class_shape(kind)[1]
        waiting.update((other, one) for other, one in inside.items() if other not in found)
    return found


@lru_cache(maxsize=4096)
def class_shape(kind: Any) -> tuple[Shape, dict[str, type]]:
    """A class as JSON, and the classes that its fields name."""
    inside: dict[str, type] = {}
    shape: Shape = {"kind": "class"}
    if (described := _fields(kind)) is not None:
        title, names = described
        hints, defaults = _hints(kind), defaults_of(kind)
        optional = kind.__optional_keys__ if title == "TypedDict" else defaults
        fields = [[name, type_shape(hints.get(name, Any), inside), name in optional] for name in names]
        shape = {"kind": title, "fields": fields}
        if title == "dataclass":
            shape["form"] = form_of(kind)
    elif issubclass(kind, Flag):
        members = [[name, str(int(one.value))] for name, one in kind.__members__.items()]
        shape = {"kind": "Flag", "members": members}
    elif issubclass(kind, Enum):
        members = [[name, repr(one.value)] for name, one in kind.__members__.items()]
        shape = {"kind": "Enum", "members": members}
    if own := _own(kind):
        shape["own"] = own
    return shape, inside


def form_of(kind: Any) -> str:
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


def _hints(kind: Any) -> dict[str, Any]:
    try:
        return typing.get_type_hints(kind)
    except Exception:  # noqa: BLE001  names that cannot be resolved here
        return {}


# States -----------------------------------------------------------------------------------------------------


def state_shapes(operator: PhysicalOperator, classes: dict[str, type]) -> dict[str, Shape]:
    """The states that an operator declares, or has, by name. Adds the classes of users that they name."""
    found: dict[str, Shape] = {}
    for name, declared in operator_type(type(operator.operator)).states.items():
        if name not in PLATFORM:
            found[name] = _state_shape(declared, classes)
    if operator.unifier and WAITING in found:
        found[WAITING] = _kept(operator)
    if isinstance(operator.operator, (DelayTail, DelayHead)):
        found["kept"] = _kept(operator)
    if operator.slides:
        found[SLIDES] = _kept(operator) if operator.unifier else {"kind": "slides"}
    return found


def _state_shape(declared: Declaration, classes: dict[str, type]) -> Shape:
    """A declared state as JSON. Adds the classes of users that it names."""
    shape: Shape = {"scope": declared.scope} if declared.scope != "application" else {}
    if isinstance(declared, Lifetimes):
        return shape | {"kind": "lifetimes", "of": declared.state}
    if isinstance(declared, Timers):
        return shape | {"kind": "timers", "key": type_shape(declared.key, classes)}
    if isinstance(declared, KeyedState):
        key = type_shape(declared.key, classes)
        return shape | {"kind": "keyed", "type": type_shape(declared.type, classes), "key": key}
    if isinstance(declared, ListState):
        kind = ANY if declared.type is None else type_shape(declared.type, classes)
        return shape | {"kind": "list", "type": kind}
    if isinstance(declared, State):
        return shape | {"kind": "value", "type": _of_default(declared.default, classes)}
    return shape | {"kind": class_name(type(declared))}


def _of_default(default: object, classes: dict[str, type]) -> Any:
    """The type of a default, as far as it says something: that of None is any."""
    return ANY if default is None else type_shape(type(default), classes)


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
    return is_described(kind) or kind.__module__.partition(".")[0] not in _KNOWN


_KNOWN = sys.stdlib_module_names | {"numpy", "pyarrow", "ridgeline", "cloudpickle"}
"""Modules whose classes no application changes."""


def migrations_done(operator: PhysicalOperator) -> Shape | None:
    """The entry of an operator whose state has been through all migrations; None if there are none."""
    titles = [title for title, _ in steps_of(operator.operator)]
    return {"kind": "migrations", "done": titles} if titles else None


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
        self._declared: dict[str, tuple[dict[str, Shape], dict[str, type]]] = {}

    def note(self, base: str, changed: Mapping[str, Collection[str]]) -> None:
        """States have changed, by name, and have values of these classes. Costs little if that is known."""
        states = self._states.setdefault(base, {})
        for name, classes in changed.items():
            held = states.get(name)
            if held is not None and not (classes and set(classes).difference(held["classes"])):
                continue
            shape = self._shapes(base)[0].get(name)
            if shape is None:
                continue
            known = () if held is None else held["classes"]
            states[name] = shape | {"classes": sorted({*known, *classes})}
            meaning = meaning_of(self._operators[base])
            if meaning is not None:
                states[MEANING] = meaning
            if DONE not in states and (steps := migrations_done(self._operators[base])) is not None:
                states[DONE] = steps
            self._changed = True

    def _shapes(self, base: str) -> tuple[dict[str, Shape], dict[str, type]]:
        """The states of an operator as it declares them, and the classes that these name."""
        if base not in self._declared:
            kinds: dict[str, type] = {}
            self._declared[base] = state_shapes(self._operators[base], kinds), kinds
        return self._declared[base]

    @property
    def picture(self) -> Mapping[str, Any]:
        """As JSON values; the same object until something changes."""
        if self._changed:
            self._changed = False
            kinds: dict[str, type] = {}
            for base, states in self._states.items():
                held = [state for name, state in states.items() if not name.startswith("#")]
                kinds |= self._shapes(base)[1] if held else {}
                for one in (one for state in held for one in state["classes"]):
                    kind = class_within(one, (type(self._operators[base].operator),))
                    if kind is not None:
                        kinds[one] = kind
            states = {base: dict(sorted(held.items())) for base, held in sorted(self._states.items()) if held}
            classes = {name: class_shape(kind)[0] for name, kind in sorted(with_inner(kinds).items())}
            picture = {"states": states, "classes": classes}
            self._picture = json.loads(json.dumps(picture)) if states else NOTHING
        return self._picture
