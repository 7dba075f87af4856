"""Operators with `on_error=SKIP`: the run is as if the tuples on which they fail had never come."""

from datetime import UTC, datetime, timedelta
from typing import NamedTuple

import pytest

from ridgeline import Application, InputPort, Operator, OutputPort
from ridgeline.api.errors import OperatorError, ValidationError
from ridgeline.plan.planner import plan_application
from ridgeline.testing import CollectorSink, ListInput, run_local
from support.measure.reports import operator_windows


class Number(NamedTuple):
    value: int
    time: datetime = datetime(2026, 1, 1, tzinfo=UTC)


class Out(NamedTuple):
    value: int


def refuse(value):
    if value < 0:
        raise ValueError(f"{value} is negative")


class Plain(Operator):
    """Emits the double, also of what it then refuses."""

    input = InputPort(Number)
    output = OutputPort(Out)

    @input.process
    def double(self, number):
        self.output.emit(Out(2 * number.value))
        refuse(number.value)


def application(operator, items):
    app = Application("skips", window="1ms")
    numbers = app.add_operator("numbers", ListInput(Number, items, timestamp="time"))
    step = app.add_operator("step", operator, on_error="SKIP")
    app.add_stream("numbers", numbers.output, step.input)
    app.add_stream("out", step.output, app.add_operator("store", CollectorSink(Out)).input)
    return app


class Divided(Plain):
    """Has error ports; the first of the tuples' schema gets them."""

    input = InputPort(Number)
    output = OutputPort(Out, optional=True)
    other = OutputPort(Out, error=True, optional=True)
    refused = OutputPort(Number, error=True, optional=True)

    @input.process
    def double(self, number):
        self.other.emit(Out(number.value))
        self.output.emit(Out(2 * number.value))
        refuse(number.value)


def test_the_error_port_gets_them_with_their_times():
    app = Application("skips", window="1ms")
    begin = datetime(2026, 1, 1, tzinfo=UTC)
    items = [Number(value, begin + timedelta(seconds=value)) for value in (1, -2, 3, -4)]
    numbers = app.add_operator("numbers", ListInput(Number, items, timestamp="time"))
    step = app.add_operator("step", Divided(), on_error="SKIP")
    app.add_stream("numbers", numbers.output, step.input)
    for name, schema in (("output", Out), ("other", Out), ("refused", Number)):
        app.add_stream(
            name, getattr(step, name), app.add_operator(f"store_{name}", CollectorSink(schema)).input
        )

    run = run_local(app)

    assert run.collected("store_refused") == [items[1], items[3]]
    assert run.collected("store_output") == [Out(2), Out(6)]
    assert run.collected("store_other") == [Out(1), Out(3)]
    [report] = [event for event in operator_windows(run.events) if event.tuples_out.get("refused")]
    assert report.errors == 4  # two on each error port
    assert report.error_tuples == ()


def test_one_of_a_window_is_shown_even_if_none_are_kept():
    run = run_local(application(Plain(), [Number(-1), Number(-2)]))

    [text] = [text for event in operator_windows(run.events) for text in event.error_tuples]
    assert text.startswith("Number(value=-1, ")
    assert text.endswith("): ValueError: -1 is negative")
    assert run.errors("step") == 2


class Ending(Plain):
    input = InputPort(Number)
    output = OutputPort(Out)

    @input.process
    def double(self, number):
        pass

    def end_window(self):
        raise ValueError("no end")


def test_a_failure_without_a_tuple_stops_the_application():
    with pytest.raises(OperatorError, match=r"failed in window 0 in `end_window`: ValueError: no end"):
        run_local(application(Ending(), [Number(1)]))


def test_inputs_have_no_tuples_to_leave_out():
    app = application(Plain(), [])

    with pytest.raises(ValidationError) as caught:
        plan_application(app, {}, {"numbers.on_error": "SKIP"})

    [fault] = caught.value.faults
    assert str(fault) == (
        "`numbers.on_error`: attribute `on_error` would do nothing: an input operator gets no "
        "tuples to leave out; leave it out"
    )
