"""Applications whose operators declare metrics that cannot be."""

from __future__ import annotations

from typing import Any, cast

from ridgeline.api import Application, InputPort, Metric, Module, Operator, metric
from support.plan.faulty import Listing
from support.plan.parts import Source

faulty = Listing()


def reading(*operators: Operator) -> Application:
    app = Application("metrics")
    source = app.add_operator("source", Source())
    added = [app.add_operator(f"read{number}", operator) for number, operator in enumerate(operators)]
    app.add_stream("payments", source.payments, *(cast("Any", operator).payments for operator in added))
    return app


class Reader(Operator):
    payments = InputPort(object)

    @payments.process
    def read(self, payment: object) -> None: ...


def declaring(**members: Any) -> Operator:
    return cast("Operator", type("Declaring", (Reader,), members)())


@faulty(
    "`read0.bad_total`: metric `bad_total` of ... Prometheus; leave the ending out",
    "`read0.größe`: metric `größe` of `Declaring`: ... digits and `_`, at most 100",
    "`read0.unit`: metric `unit` of `Declaring`: its ... give a word such as `seconds`",
    "`read0.text`: metric `text` of `Declaring`: its help is 5; give a text",
    "`read0.default`: metric `default` of ... give a finite `int` or `float`",
)
def names_and_texts() -> Application:
    return reading(
        declaring(
            bad_total=Metric(0),
            größe=Metric(0),
            unit=Metric(0, unit="per second"),
            text=Metric(0, help=cast("Any", 5)),
            default=Metric(float("nan")),
        )
    )


@faulty(
    "`read0.average`: metric `average` of ... `min`, `sum`; or give a function",
    "`read0.number`: metric `number` of `Declaring`: ... max, mean, last, or a function",
    "`read0.kind`: metric `kind` of `Declaring`: ... give `gauge` or `counter`",
    "`read0.highest`: metric `highest` of ... is `max`; leave `aggregate` out",
    '`read0.total`: metric `total` of `Declaring`: ... add `kind="counter"`',
)
def kinds_and_aggregates() -> Application:
    @metric(cumulative=True)
    def total(_self: object) -> int:
        return 1

    return reading(
        declaring(
            average=Metric(0, aggregate=cast("Any", "avg")),
            number=Metric(0, aggregate=cast("Any", 5)),
            kind=Metric(0, kind=cast("Any", "timer")),
            highest=Metric(0, kind="counter", aggregate="max"),
            total=total,
        )
    )


@faulty(
    "`read1.size`: metrics `read0.size_bytes` and ... else, or declare both alike",
)
def one_name_of_two_metrics() -> Application:
    alike = Metric(0, kind="counter", unit="lines")
    return reading(
        declaring(size_bytes=Metric(0), lines=alike),
        declaring(size=Metric(0, unit="bytes"), lines=alike),
    )


@faulty(
    "`metrics`: the operators declare 1050 metrics, ... each is kept for 1,000 windows",
)
def too_many_in_all() -> Application:
    operator = type(declaring(**{f"metric{number}": Metric(0) for number in range(50)}))
    return reading(*(operator() for _ in range(21)))


@faulty(
    "`read0`: `queue` of `Declaring` has the ... `()`; write `def queue(self)`",
)
def a_method_with_parameters() -> Application:
    @metric()
    def queue(_self: object, now: float) -> float:
        return now

    return reading(declaring(queue=queue))


@faulty(
    "`read0.end_window`: metric `end_window` of ... this name; call it something else",
)
def a_callback_as_a_metric() -> Application:
    @metric()
    def end_window(_self: object) -> float:
        return 1

    return reading(declaring(end_window=end_window))


class Measured(Module):
    payments = InputPort(object)
    count = Metric(0)

    def populate(self, app: Application) -> None:
        self.payments.connect(app.add_operator("read", Reader()).payments)


@faulty(
    "`measured`: the module `Measured` declares the ... it in an operator of the module",
)
def a_metric_of_a_module() -> Application:
    app = Application("metrics")
    measured = app.add_module("measured", Measured())
    app.add_stream("payments", app.add_operator("source", Source()).payments, measured.payments)
    return app
