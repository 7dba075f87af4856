"""Applications with faulty delay operators."""

from __future__ import annotations

from ridgeline.api import Application
from ridgeline.operators import Delay, Map
from support.plan.faulty import Listing
from support.plan.parts import Payment

faulty = Listing()


def _loop(**attributes: int) -> Application:
    app = Application("test")
    step = app.add_operator("step", Map(_same, schema=Payment))
    delay = app.add_module("delay", Delay(Payment), **attributes)
    app.add_stream("steps", step.output, delay.input)
    app.add_stream("again", delay.output, step.data)
    return app


def _same(payment: Payment) -> Payment:
    return payment


@faulty(
    "`delay`: `delay.tail` has 1 partition, ... to `delay`, for both ends",
    attributes={"delay.head.partitions": "2"},
)
def ends_of_a_delay_that_do_not_fit() -> Application:
    return _loop()


@faulty(
    "`delay.tail.application_window_count`: a delay ... it to an operator of the loop",
    "`delay.head.application_window_count`: a delay ... it to an operator of the loop",
)
def a_delay_with_application_windows() -> Application:
    return _loop(application_window_count=5)
