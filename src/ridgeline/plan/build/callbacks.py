"""Check an operator's callbacks: methods that never run, cannot be called, or expect other tuples."""

from __future__ import annotations

import inspect
import types
import typing
from collections.abc import Collection, Iterator, Mapping
from typing import Any, NamedTuple

import pyarrow as pa

from ridgeline.api.columns.schema import Schema
from ridgeline.api.columns.struct_types import is_struct
from ridgeline.api.errors import SchemaError, shorten
from ridgeline.api.operator import InputOperator, Operator, operator_type
from ridgeline.api.ports import InputPort
from ridgeline.api.timers import Timers

_LIFE_CYCLE = {
    "setup": ("context",),
    "activate": (),
    "begin_window": ("window_id",),
    "end_window": (),
    "end_of_input": (),
    "handle_idle_time": (),
    "before_checkpoint": ("window_id",),
    "checkpointed": ("window_id",),
    "committed": ("window_id",),
    "deactivate": (),
    "teardown": (),
}
_OF_INPUTS = {"emit_tuples": ()}
_ASKED = ("publisher", "progress")
"""Methods that the engine calls, with names so common that similar ones are no misspellings."""


class CallbackFault(NamedTuple):
    """A fault of a method of an operator, and the remedy; `port` if it is a port's."""

    port: str
    what: str
    remedy: str


def callback_faults(operator: Operator, schemas: Mapping[str, Schema]) -> Iterator[CallbackFault]:
    """Find all faults in an operator's callbacks.

    `schemas`: those of its input ports, as far as they are known.
    """
    callbacks = _LIFE_CYCLE | (_OF_INPUTS if isinstance(operator, InputOperator) else {})
    asked = [name for name in _ASKED if hasattr(type(operator), name)]
    asked += [name for name, one in operator_type(type(operator)).metrics.items() if one.method]
    for name, parameters in (callbacks | dict.fromkeys(asked, ())).items():
        yield from _method_faults(operator, name, parameters, "")
    yield from _misspelt(operator, list(callbacks))
    if any("context" in vars(base) for base in type(operator).__mro__ if base not in Operator.__mro__):
        what = f"`{type(operator).__name__}` declares `context`, which is what operators know of their run"
        yield CallbackFault("", what, "call it something else")
    for port in operator_type(type(operator)).inputs.values():
        yield from _name_faults(operator, port)
        if port.control_name is not None:
            yield from _method_faults(operator, port.control_name, ("value",), port.name)
        for method, parameter in ((port.process_name, "tuple"), (port.process_batch_name, "batch")):
            wrong = (
                list(_method_faults(operator, method, (parameter,), port.name)) if method is not None else []
            )
            yield from wrong
            if method is not None and not wrong:
                yield from _annotation_faults(
                    operator, method, port.name, schemas.get(port.name), by_batch=parameter == "batch"
                )


def _name_faults(operator: Operator, port: InputPort[Any]) -> Iterator[CallbackFault]:
    """Find methods of a port that the engine calls for something else, too, or never."""
    kind = type(operator).__name__
    for name in port.methods:
        if hasattr(InputOperator, name):
            what = (
                f"`{name}` of `{kind}` is decorated for the port, but operators have a `{name}` of their own"
            )
            yield CallbackFault(port.name, what, "call it something else")
    for name in port.handlers.doubled:
        what = (
            f"`{name}` of `{kind}` is never called: another method is decorated for the port in the same way"
        )
        yield CallbackFault(port.name, what, "let one method call the other")


def _method_faults(
    operator: Operator, name: str, parameters: tuple[str, ...], port: str
) -> Iterator[CallbackFault]:
    """Find out whether a callback is no method, would never run, or cannot be called with its arguments."""
    kind = type(operator).__name__
    method = getattr(type(operator), name, None)
    if method in (getattr(Operator, name, None), getattr(InputOperator, name, None)):
        return  # not overridden
    if not callable(method):
        yield CallbackFault(
            port,
            f"`{name}` of `{kind}` is {shorten(method)}, but a callback has this name",
            "call it something else",
        )
        return
    if inspect.iscoroutinefunction(method) or inspect.isasyncgenfunction(method):
        what = f"`{name}` of `{kind}` is `async`, and nothing would await it: it would never run"
        yield CallbackFault(
            port, what, "make it a plain method; `asyncio.run(...)` in it runs asynchronous code"
        )
    elif inspect.isgeneratorfunction(method):
        what = f"`{name}` of `{kind}` has `yield` in it, which makes it a generator: it would never run"
        yield CallbackFault(port, what, "emit on an output port: `self.port.emit(...)`")
    else:
        yield from _call_faults(operator, name, parameters, port)


def _call_faults(
    operator: Operator, name: str, parameters: tuple[str, ...], port: str
) -> Iterator[CallbackFault]:
    """A fault if a method cannot be called with these arguments. Methods without a signature pass."""
    try:
        signature = inspect.signature(getattr(operator, name), follow_wrapped=False)
    except (TypeError, ValueError):
        return  # made in C: it says nothing of its parameters
    try:
        signature.bind(*parameters)
    except TypeError:
        given = ", ".join(("self", *parameters))
        what = (
            f"`{name}` of `{type(operator).__name__}` has the parameters {signature}, "
            f"but it is called with `({', '.join(parameters)})`"
        )
        yield CallbackFault(port, what, f"write `def {name}({given})`")


# Misspelt --------------------------------------------------------------------------------------------------


def _misspelt(operator: Operator, callbacks: list[str]) -> Iterator[CallbackFault]:
    """Find public methods that the class never uses and that are nearly named like a callback."""
    kind = type(operator)
    own = [
        base
        for base in kind.__mro__
        if not base.__module__.startswith("ridgeline.api.") and base is not object
    ]
    methods = {
        name: value
        for base in reversed(own)
        for name, value in vars(base).items()
        if inspect.isfunction(value)
    }
    declared = operator_type(kind)
    used = {method for port in declared.inputs.values() for method in port.methods}
    used |= {state.handler for state in declared.states.values() if isinstance(state, Timers)}
    used |= {name for method in methods.values() for name in _mentioned(method.__code__)}
    yield from _unused_attributes(operator, used)
    for name in methods:
        if (
            name in callbacks
            or name in used
            or name.startswith("_")
            or hasattr(Operator, name)
            or hasattr(InputOperator, name)
        ):
            continue
        meant = next((callback for callback in callbacks if _nearly(name, callback)), None)
        if meant is not None:
            what = f"`{kind.__name__}` has a method `{name}`, which nothing calls"
            yield CallbackFault(
                "", what, f"did you mean `{meant}`? If not, call it something else, or `_{name}`"
            )


def _unused_attributes(operator: Operator, used: Collection[str]) -> Iterator[CallbackFault]:
    """Find what was set on the operator, is nearly named like a property, and nothing reads."""
    kind = type(operator)
    properties = operator_type(kind).properties
    for name in vars(operator):
        if name in properties or name in used or name.startswith("_") or hasattr(kind, name):
            continue
        meant = next((one for one in properties if _nearly(name, one)), None)
        if meant is not None:
            what = (
                f"`{name}` was set on the `{kind.__name__}`, which has no such property, and nothing reads it"
            )
            yield CallbackFault(
                "", what, f"did you mean `{meant}`? If not, leave it out, or call it `_{name}`"
            )


def _mentioned(code: types.CodeType) -> Iterator[str]:
    """The names of attributes and globals in a function and in its inner functions."""
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _mentioned(constant)
        elif isinstance(constant, str):
            yield constant  # `getattr(self, "name")`


def _nearly(name: str, callback: str) -> bool:
    """True if two names differ only in case, `_` and one character.

    That character may be added, missing, replaced, or swapped with the next.
    """
    one, two = (text.replace("_", "").lower() for text in (name, callback))
    if abs(len(one) - len(two)) > 1:
        return False
    start = 0
    while start < min(len(one), len(two)) and one[start] == two[start]:
        start += 1
    one, two = one[start:], two[start:]
    return (
        one[1:] == two[1:]
        or one[1:] == two
        or one == two[1:]
        or (one[1::-1] == two[:2] and one[2:] == two[2:])
    )


# Annotations -----------------------------------------------------------------------------------------------


def _annotation_faults(
    operator: Operator, name: str, port: str, schema: Schema | None, *, by_batch: bool
) -> Iterator[CallbackFault]:
    """A fault if a parameter is annotated as another type than it gets."""
    annotated = _annotation(getattr(operator, name))
    if annotated is None or (schema is None and not by_batch):
        return
    what = f"`{name}` of `{type(operator).__name__}` takes `{annotated.__name__}`, but "
    if by_batch:
        if not _is_kind(pa.RecordBatch, annotated):
            remedy = "annotate it so, or decorate it with `process` to get one tuple at a time"
            yield CallbackFault(port, f"{what}`process_batch` gives a `pyarrow.RecordBatch`", remedy)
    elif schema is not None and not _takes(operator, port, schema, annotated):
        gives = "dictionaries of its columns" if schema.of_dicts else f"`{schema.name}`"
        remedy = "declare the port with this type, or annotate the parameter as what comes"
        if annotated is pa.RecordBatch:
            remedy = "decorate it with `process_batch` to get batches"
        yield CallbackFault(port, f"{what}the tuples of the port are {gives}", remedy)


def _annotation(method: Any) -> Any:
    """The class that annotates the first parameter; None if there is none, or it allows everything."""
    if hasattr(method, "__wrapped__"):
        return None  # the annotations are those of the function within, which may get something else
    try:
        annotations = inspect.get_annotations(method, eval_str=True)
        first = next(iter(inspect.signature(method).parameters.values()))
    except (NameError, AttributeError, SyntaxError, TypeError, ValueError, StopIteration):
        return None  # names that only a type checker knows
    annotated = annotations.get(first.name)
    if first.kind not in (first.POSITIONAL_ONLY, first.POSITIONAL_OR_KEYWORD) or not isinstance(
        annotated, type
    ):
        return None
    if (
        annotated in (object, Any)
        or typing.get_origin(annotated) is not None
        or typing.is_typeddict(annotated)
    ):
        return None
    return annotated


def _takes(operator: Operator, port: str, schema: Schema, annotated: type) -> bool:
    """True if tuples of a schema may fit a parameter's annotation."""
    if schema.pickled:
        return True
    if _is_kind(dict if schema.of_dicts else schema.type, annotated):
        return True
    if operator_type(type(operator)).inputs[port].declared is Any and is_struct(annotated):
        try:
            return Schema(annotated) == schema  # a port of any stream; this one has the very columns
        except SchemaError:
            return True
    return False


def _is_kind(kind: type, annotated: type) -> bool:
    try:
        return issubclass(kind, annotated)
    except TypeError:
        return True  # a protocol, or another type that cannot be checked
