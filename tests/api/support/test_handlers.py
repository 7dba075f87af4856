"""A method that a port or timers call is found, whatever decorators make of it and of its name."""

import functools
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

import pytest

from ridgeline import Application, InputPort, Operator, OutputPort, State, Timers, ValidationError
from ridgeline.api.errors import StructureError
from ridgeline.api.operator import operator_type
from ridgeline.testing import CollectorSink, ListInput, run_local
from support.rows import in_a_row


class N(NamedTuple):
    n: int


def plain(function):
    """Changes the name: without `functools.wraps`."""

    def wrapper(self, *arguments):
        return function(self, *arguments)

    return wrapper


def careful(function):
    @functools.wraps(function)
    def wrapper(self, *arguments):
        return function(self, *arguments)

    return wrapper


def renamed(function):
    """Gives it the name of another method."""
    made = plain(function)
    made.__name__ = made.__qualname__ = "end_window"
    return made


class Callable:
    """No function, and without a name."""

    def __init__(self, function):
        self._function = function

    def __get__(self, instance, owner):
        return self if instance is None else functools.partial(self._function, instance)

    def __call__(self, *arguments):
        return self._function(*arguments)


class Base(Operator):
    numbers = InputPort(N)
    doubled = OutputPort(N)


def made_by(below, above):
    class Double(Base):
        numbers = InputPort(N)

        @above
        @numbers.process
        @below
        def take(self, number):
            self.doubled.emit(N(2 * number.n))

    return Double


def same(function):
    return function


def doubles(kind):
    app = in_a_row(
        Application("doubles"), source=ListInput(N, [(1,), (2,)]), double=kind(), sink=CollectorSink(N)
    )
    return run_local(app).collected("sink")


BELOW = [same, plain, careful, renamed, Callable]


@pytest.mark.parametrize(("below", "above"), [*((below, same) for below in BELOW), (Callable, careful)])
def test_decorated_methods_of_ports_are_called(below, above):
    assert doubles(made_by(below, above)) == [N(2), N(4)]


@pytest.mark.parametrize("below", [same, plain, renamed])
def test_a_method_that_is_hidden_is_a_fault_that_says_how_to_order_decorators(below):
    with pytest.raises(ValidationError, match=r"no method of `Double` processes") as caught:
        doubles(made_by(below, plain))
    assert "`@numbers.process_batch`, above other decorators" in str(caught.value)


def test_a_method_for_control_tuples_that_is_hidden_is_a_fault_too():
    class Double(Base):
        numbers = InputPort(N)

        @numbers.process
        def take(self, number):
            pass

        @plain
        @numbers.control
        def told(self, value):
            pass

    with pytest.raises(ValidationError, match=r"hidden by another decorator; put `@numbers.control` above"):
        doubles(Double)


def test_timers_find_theirs():
    class Late(Operator):
        numbers = InputPort(N)
        out = OutputPort(N)
        timers = Timers(key=int)
        seen = State(0)

        @numbers.process
        @plain
        def take(self, number):
            self.timers.set(number.n, datetime(2026, 1, 1, tzinfo=UTC) + timedelta(seconds=number.n))

        @timers.expired
        @plain
        def expire(self, key, _when):
            self.out.emit(N(key))

    assert operator_type(Late).states["timers"].handler == "expire"

    class Later(Late):
        @careful
        @Late.timers.expired
        def other(self, key, when):
            pass

    assert operator_type(Later).states["timers"].handler == "other"
    assert operator_type(Late).states["timers"].handler == "expire"


def test_a_function_of_a_base_class_may_be_given_to_a_port_of_ones_own():
    class Base(Operator):
        def take(self, number):
            """Called by name."""

    class Own(Base):
        numbers = InputPort(object)
        numbers.process(Base.take)

    assert operator_type(Own).inputs["numbers"].process_name == "take"


def faults(kind):
    app = in_a_row(Application("faults"), source=ListInput(N, [(1,)]), one=kind())
    with pytest.raises(ValidationError) as caught:
        run_local(app)
    return str(caught.value)


def test_two_methods_of_a_port_of_which_one_would_never_run_are_refused():
    class Two(Operator):
        numbers = InputPort(N)

        @numbers.process
        def first(self, number):
            pass

        @numbers.process
        def second(self, number):
            pass

    assert "`first` of `Two` is never called: another method is decorated for the port" in faults(Two)


@pytest.mark.parametrize("name", ["setup", "begin_window", "emit_tuples", "finish", "publisher"])
def test_a_method_of_a_port_has_a_name_of_its_own(name):
    port = InputPort(N)
    method = port.process(lambda self, number: None)
    kind = type("Named", (Operator,), {"numbers": port, name: method})
    assert f"`{name}` of `Named` is decorated for the port, but operators have a `{name}` of" in faults(kind)


@pytest.mark.parametrize("value", [3, property(lambda self: 3), State(0)])
def test_what_operators_know_of_their_run_is_not_hidden(value):
    class Base(Operator):
        numbers = InputPort(N)

        @numbers.process
        def take(self, number):
            pass

    kind = type(
        "Named", (Base,), {"context": value, "__annotations__": {"context": int} if value == 3 else {}}
    )
    assert "`Named` declares `context`, which is what operators know of their run" in faults(kind)


def test_listeners_that_are_none_are_faults():
    class Take(Operator):
        numbers = InputPort(N)

        @numbers.process
        def take(self, number):
            pass

    app = Application("odd")
    with pytest.raises(StructureError, match=r"is <built-in function print>, which has no method"):
        app.add_operator("one", Take(), stats_listeners=print)
