"""Modules: operators that are made of operators."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic, dataclass_transform

from pydantic import Field
from typing_extensions import TypeVar

from ridgeline.api.cells.per_instance import OWN
from ridgeline.api.errors import StructureError, listed, shorten
from ridgeline.api.operator import Component, Operator, no_attribute, operator_type
from ridgeline.api.points import InputPoint, OutputPoint
from ridgeline.api.ports import InputPort, OutputPort, Port

if TYPE_CHECKING:
    from ridgeline.api.application import Application

T = TypeVar("T", default=Any)
T_contra = TypeVar("T_contra", contravariant=True, default=Any)


class _Proxy:
    """A port of one module."""

    def __init__(self, module: Module, port: Port) -> None:
        self.module = module
        self.port = port
        self.name = port.name
        self.inner: list[object] = []
        """The ports of operators or modules inside that it is connected to; of an output port it is one."""


class InputProxy(_Proxy, Generic[T_contra]):
    """An input port of a module, `clean.quotes`: a sink for `add_stream`.

    Inside the module it stands for the input ports that `connect` named; each of them gets all tuples.

    Example:
        >>> from ridgeline import Application, InputPort, Module
        >>> class Clean(Module):
        ...     quotes = InputPort(object)
        ...
        ...     def populate(self, app: Application) -> None: ...
        >>> Clean().quotes.name
        'quotes'
    """

    def connect(self, *inner: InputPoint[T_contra] | InputProxy[T_contra]) -> None:
        """Lead the tuples to input ports of operators inside, or of modules inside. Call it in `populate`."""
        for end in inner:
            check_end(f"the port that `{self.name}` is connected to", end, entry=True)
        self.inner.extend(inner)


class OutputProxy(_Proxy, Generic[T]):
    """An output port of a module, `clean.clean`: a source for `add_stream`.

    Inside the module it stands for the one output port that `connect` named.

    Example:
        >>> from ridgeline import Application, Module, OutputPort
        >>> class Clean(Module):
        ...     clean = OutputPort(object)
        ...
        ...     def populate(self, app: Application) -> None: ...
        >>> Clean().clean.name
        'clean'
    """

    def connect(self, inner: OutputPoint[T] | OutputProxy[T]) -> None:
        """Give the tuples of an output port inside to the outside. Call it in `populate`, once."""
        check_end(f"the port that `{self.name}` is connected to", inner, entry=False)
        self.inner.append(inner)


@dataclass_transform(eq_default=False, field_specifiers=(Field,))
class Module(Component):
    """An operator that is made of operators: `app.add_module("clean", CleanQuotes(limit=500.0))`.

    Ports are declared as an operator's. They are proxies: `populate` connects them to ports of operators
    inside. Properties are declared, given and checked as an operator's. A module has no callbacks and no
    state, and nothing of it is left when the application runs. Its operators have names such as
    `clean.cheap`, in plans, metrics and errors.

    Example:
        >>> from typing import NamedTuple
        >>> from pydantic import Field
        >>> from ridgeline import Application, InputPort, Module, OutputPort
        >>> from ridgeline.operators import Filter
        >>> from ridgeline.testing import CollectorSink, ListInput, run_local
        >>> class Quote(NamedTuple):
        ...     symbol: str
        ...     price: float
        >>> class Between(Module):
        ...     quotes = InputPort(Quote)
        ...     chosen = OutputPort(Quote)
        ...     least: float = Field(0.0, ge=0)
        ...     most: float = Field(100.0, ge=0)
        ...
        ...     def populate(self, app: Application) -> None:
        ...         least, most = self.least, self.most
        ...         low = app.add_operator("low", Filter(lambda quote: quote.price >= least))
        ...         high = app.add_operator("high", Filter(lambda quote: quote.price <= most))
        ...         app.add_stream("low", low.output, high.data)
        ...         self.quotes.connect(low.data)
        ...         self.chosen.connect(high.output)
        >>> app = Application("quotes")
        >>> source = app.add_operator("source", ListInput(Quote, [("A", 0.5), ("B", 5.0), ("C", 50.0)]))
        >>> between = app.add_module("between", Between(least=1.0, most=10.0))
        >>> sink = app.add_operator("sink", CollectorSink(Quote))
        >>> app.add_stream("quotes", source.output, between.quotes)
        >>> app.add_stream("chosen", between.chosen, sink.input)
        >>> run_local(app).collected("sink")
        [Quote(symbol='B', price=5.0)]
    """

    def populate(self, app: Application) -> None:
        """Add operators, modules and streams to `app`, and connect the module's ports to ports of theirs.

        Called each time when the application is validated, with valid properties; names are the
        module's own. `app` has the window of the application. An exception is a fault of the module.
        """
        raise NotImplementedError(f"`{type(self).__name__}` must override `populate`")

    if not TYPE_CHECKING:  # checkers know ports, states and properties by their declarations

        def __getattr__(self, name: str) -> Any:
            """Make a port on first access; say for all other names what there is. Raises AttributeError."""
            if name.startswith(OWN):
                port = getattr(type(self), name.removeprefix(OWN), None)
                if isinstance(port, (InputPort, OutputPort)):
                    proxy = InputProxy(self, port) if isinstance(port, InputPort) else OutputProxy(self, port)
                    vars(self)[name] = proxy
                    return proxy
            raise AttributeError(name) if name.startswith("__") else no_attribute(self, name)


def check_end(role: str, end: object, *, entry: bool) -> None:
    """Raise StructureError unless an end of a stream is a port, of the right side.

    `role`: what the end is, for the error. `entry`: tuples enter there.
    """
    side = "input" if entry else "output"
    if isinstance(end, (InputPoint, InputProxy) if entry else (OutputPoint, OutputProxy)):
        return
    if isinstance(end, (InputPoint, OutputPoint, InputProxy, OutputProxy)):
        article = {"input": "an output", "output": "an input"}[side]
        what = f"{role} is `{end.name}`, {article} port of a `{type(owner_of(end)).__name__}`"
        remedy = f"name an {side} port; a stream leads from an output port to input ports"
        if isinstance(end, (InputProxy, OutputProxy)):
            remedy += f"; `populate` leads it by `self.{end.name}.connect(...)`"
        raise StructureError(what, remedy)
    if isinstance(end, (Operator, Module)):
        ports = listed(getattr(operator_type(type(end)), f"{side}s"))
        what = f"{role} is a `{type(end).__name__}`, not one of its ports"
        raise StructureError(what, f"name the port: {ports}" if ports else f"it has no {side} port")
    remedy = "name a port of an operator that was added, such as `balances.payments`"
    if isinstance(end, Port):
        what = f"{role} is the port `{end.name}` of a class, not of an operator"
        raise StructureError(what, "take the port of the operator that `add_operator` returned")
    if isinstance(end, (list, tuple, set)):
        remedy = "give the ports one by one: `add_stream(name, source, sink, sink)`"
    raise StructureError(f"{role} is {shorten(end)}, which is no port", remedy)


def owner_of(port: InputPoint | OutputPoint | InputProxy | OutputProxy) -> Operator | Module:
    """The operator or module that has a port."""
    return port.operator if isinstance(port, (InputPoint, OutputPoint)) else port.module
