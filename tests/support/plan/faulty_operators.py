"""Applications with faulty names, operators, properties and attributes."""

from __future__ import annotations

from typing import Any

from ridgeline.api import Application, InputPort, Operator, OutputPort
from support.plan.faulty import Listing
from support.plan.parts import Balances, Check, Payment, Source, Store
from support.rows import in_a_row

faulty = Listing()


def chain(app: Application, **attributes: Any) -> Application:
    """Add a valid application: source, check, balances, store."""
    source = app.add_operator("source", Source())
    check = app.add_operator("check", Check())
    balances = app.add_operator("balances", Balances(), **attributes)
    store = app.add_operator("store", Store())
    app.add_stream("payments", source.payments, check.payments)
    app.add_stream("valid", check.valid, balances.payments)
    app.add_stream("balances", balances.balances, store.input)
    return app


@faulty("`empty`: the application has no operators; add one with `app.add_operator(name, operator)`")
def empty_application() -> Application:
    return Application("empty")


@faulty("`my app`: the name of the application `my app` ... into files, metrics and addresses")
def name_of_the_application() -> Application:
    return chain(Application("my app"))


@faulty("`window`: the window of the application: -1 is ... runs windows as fast as they get")
def negative_window() -> Application:
    return chain(Application("test", window=-1))


@faulty(
    "`snapshot_intervall`: there is no attribute ... did you mean `snapshot_interval`?",
    "`windows_kept`: attribute `windows_kept` must ... they are purged; default: 5)",
    "`partitions`: there is no attribute ... operator, partitions=...)`",
    "`gpus`: there is no attribute `gpus` of ... operator, gpus=...)`",
)
def application_attributes() -> Application:
    return chain(Application("test", snapshot_intervall=3, windows_kept=0, partitions=2, gpus=5))


@faulty("`store`: `Careless.__init__` does not call the ... in it")
def operator_without_the_init_of_its_base() -> Application:
    class Careless(Store):
        def __init__(self) -> None:
            self.path = "here"

    return in_a_row(Application("test"), source=Source(), store=Careless())


@faulty(
    "`source.count`: property `count` of `Source` is ... or with `-D source.count=...`",
    "`source.accounts`: property `accounts` of ... or with `-D source.accounts=...`",
    "`store.path`: property `path` of `Store` is 3; ... or with `-D store.path=...`",
)
def properties_that_break_their_rules() -> Application:
    return in_a_row(Application("test"), source=Source(count=-5, accounts=[]), store=Store(path=3))


class Required(Store):
    rows: int


@faulty("`store.rows`: property `rows` of `Required` is ... or with `-D store.rows=...`")
def required_property_that_was_not_given() -> Application:
    return in_a_row(Application("test"), source=Source(), store=Required())


@faulty(
    "`sauce.count`: there is no operator `sauce` to set a property of; did you mean `source`?",
    "`count`: property `count` names no operator and property; write `-D operator.property=value`",
    "`blances.partitions`: there is no operator ... of; did you mean `balances`?",
    "`source.counts`: `Source` has no property `counts`; did you mean `count`?",
    "`source.count`: property `count` of `Source` is ... or with `-D source.count=...`",
    "`source.accounts`: property `accounts` of ... or with `-D source.accounts=...`",
    "`balances.partitions`: attribute `partitions` ... of the operator; default: 1)",
    "`balances.partition`: there is no attribute ... did you mean `partitions`?",
    properties={
        "source.count": "-1",
        "source.counts": "1",
        "sauce.count": "1",
        "count": "1",
        "source.accounts": "[1, 2",
        "store.path": "/tmp/out",
    },
    attributes={"balances.partitions": "0", "balances.partition": "2", "blances.partitions": "2"},
)
def settings_from_outside() -> Application:
    return chain(Application("test"))


@faulty(
    "`balances.partitions`: attribute `partitions` ... of the operator; default: 1)",
    "`balances.partitioner`: attribute `partitioner` ... connected port that has one)",
    "`balances.processing_mode`: attribute ... it fails; default: AT_LEAST_ONCE)",
    "`balances.unifier_limit`: attribute ... numbers: one for each level)",
    "`balances.locality`: there is no attribute ... `add_stream(..., locality=...)`",
    "`balances.windows_kept`: there is no attribute ... windows_kept=...)`",
)
def operator_attributes() -> Application:
    return chain(
        Application("test"),
        partitions=0,
        partitioner=Balances,
        processing_mode="MAYBE",
        unifier_limit=1.5,
        locality="NODE_LOCAL",
        windows_kept=1,
    )


class Promising(Operator):
    payments = InputPort(Payment)
    valid = OutputPort(Payment, timestamp="time", lateness="0s")

    @payments.process
    def one(self, payment: Payment) -> None: ...


class Erring(Source):
    errors = OutputPort(Payment, error=True, lateness="5s")


@faulty(
    "`source.errors`: an error port promises a ... follows from errors; leave it out",
    "`promising.valid`: `Promising` promises a ... it out here; `timestamp` may stay",
)
def a_lateness_that_nobody_reads() -> Application:
    return in_a_row(Application("test"), source=Erring(), promising=Promising(), store=Store())
