"""Check an operator's callbacks: methods that never run, or cannot be called."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from typing import Any, NamedTuple

from ridgeline.api.errors import shorten
from ridgeline.api.operator import InputOperator, Operator, operator_type
from ridgeline.api.ports import InputPort

_CALLED = {
    name: tuple(inspect.signature(getattr(InputOperator, name)).parameters)[1:]
    for name in (
        *("setup", "activate", "begin_window", "end_window", "end_of_input", "handle_idle_time"),
        *("before_checkpoint", "checkpointed", "committed", "deactivate", "teardown"),
        *("emit_tuples", "publisher", "progress"),
    )
}
"""The methods that the engine calls, with the parameters that the base class declares."""


class CallbackFault(NamedTuple):
    """A fault of a method of an operator, and the remedy; `port` if it is a port's."""

    port: str
    what: str
    remedy: str


def callback_faults(operator: Operator) -> Iterator[CallbackFault]:
    """Find all faults in an operator's callbacks."""
    base = InputOperator if isinstance(operator, InputOperator) else Operator
    asked = {name: parameters for name, parameters in _CALLED.items() if hasattr(base, name)}
    asked |= {name: () for name, one in operator_type(type(operator)).metrics.items() if one.method}
    for name, parameters in asked.items():
        yield from method_faults(operator, name, parameters)
    if any("context" in vars(base) for base in type(operator).__mro__ if base not in Operator.__mro__):
        what = f"`{type(operator).__name__}` declares `context`, which is what operators know of their run"
        yield CallbackFault("", what, "call it something else")
    for port in operator_type(type(operator)).inputs.values():
        yield from _name_faults(operator, port)
        if port.control_name is not None:
            yield from method_faults(operator, port.control_name, ("value",), port.name)
        for method, parameter in ((port.process_name, "tuple"), (port.process_batch_name, "batch")):
            if method is not None:
                yield from method_faults(operator, method, (parameter,), port.name)


def _name_faults(operator: Operator, port: InputPort[Any]) -> Iterator[CallbackFault]:
    """Find methods of a port that the engine calls for something else, too, or never."""
    kind = type(operator).__name__
    for name in port.methods:
        if hasattr(InputOperator, name):
            what = f"`{name}` of `{kind}` is decorated for the port"
            what += f", but operators have a `{name}` of their own"
            yield CallbackFault(port.name, what, "call it something else")
    if port.controls and port.control_name is None:
        what = f"the method of `{kind}` that takes its control tuples is hidden by another decorator"
        yield CallbackFault(port.name, what, f"put `@{port.name}.control` above it")
    for name in port.doubled:
        what = f"`{name}` of `{kind}` is never called: another method is decorated for the port"
        what += " in the same way"
        yield CallbackFault(port.name, what, "let one method call the other")


def method_faults(
    operator: Operator, name: str, parameters: tuple[str, ...], port: str = ""
) -> Iterator[CallbackFault]:
    """Find out whether a callback is no method, would never run, or cannot be called with its arguments."""
    kind = type(operator).__name__
    method = getattr(type(operator), name, None)
    if method in (getattr(Operator, name, None), getattr(InputOperator, name, None)):
        return  # not overridden
    if not callable(method):
        what = f"`{name}` of `{kind}` is {shorten(method)}, but a callback has this name"
        yield CallbackFault(port, what, "call it something else")
        return
    if inspect.iscoroutinefunction(method) or inspect.isasyncgenfunction(method):
        what = f"`{name}` of `{kind}` is `async`, and nothing would await it: it would never run"
        remedy = "make it a plain method; `asyncio.run(...)` in it runs asynchronous code"
        yield CallbackFault(port, what, remedy)
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
        what = f"`{name}` of `{type(operator).__name__}` has the parameters {signature}, but it is called"
        what += f" with `({', '.join(parameters)})`"
        yield CallbackFault(port, what, f"write `def {name}({given})`")
