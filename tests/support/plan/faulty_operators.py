"""Applications with faulty names, operators, properties and attributes."""

from __future__ import annotations

from typing import Any, cast

from ridgeline.api import Application, InputPort, Operator, OutputPort
from support.plan.faulty import Listing
from support.plan.parts import Balances, Check, Payment, Source, Store

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


@faulty(
    "`application`: the name of the application is empty; give it a name",
    "`operator 1`: the name of the operator is empty; give it a name",
    "`stream 1`: the name of the stream is empty; give it a name",
)
def empty_names() -> Application:
    app = Application("")
    source = app.add_operator("", Source())
    store = app.add_operator("store", Store())
    app.add_stream("  ", source.payments, store.input)
    return app


@faulty(
    (
        "`my app`: the name of the application has ' ' in it; "
        "use letters, digits, `_` and `-` only: names go into files, "
        "metrics and addresses"
    ),
    (
        "`source.one`: the name of the operator has '.' in it; "
        "use letters, digits, `_` and `-` only: names go into files, "
        "metrics and addresses"
    ),
    "`operator 2`: the name of the operator is 7, which is no text; "
    "give a text of letters, digits, `_` and `-`",
    (
        "`a/b`: the name of the stream has '/' in it; "
        "use letters, digits, `_` and `-` only: names go into files, metrics and addresses"
    ),
)
def names_with_other_letters() -> Application:
    app = Application("my app")
    source = app.add_operator("source.one", Source())
    store = app.add_operator(cast("str", 7), Store())
    app.add_stream("a/b", source.payments, store.input)
    return app


@faulty(
    "`window`: the window of the application: '5 parsecs' is not a duration; "
    "give a number of seconds, or a text such as "
    '"200ms", "1s", "5m" or "1h"; 0 runs windows as fast as they get'
)
def windows_without_a_unit_that_exists() -> Application:
    return chain(Application("test", window="5 parsecs"))


@faulty(
    "`window`: the window of the application: -1 is less than 0; "
    'give a number of seconds, or a text such as "200ms", '
    '"1s", "5m" or "1h"; 0 runs windows as fast as they get'
)
def negative_window() -> Application:
    return chain(Application("test", window=-1))


@faulty(
    (
        "`window`: the window of the application: 'soon' is not a duration; "
        'give a number of seconds, or a text such as "200ms", '
        '"1s", "5m" or "1h"; 0 runs windows as fast as they get'
    ),
    attributes={"window": "soon"},
)
def window_from_outside() -> Application:
    return chain(Application("test", window="1s"))


@faulty(
    "`snapshot_intervall`: there is no attribute `snapshot_intervall` of applications; "
    "did you mean `snapshot_interval`?",
    (
        "`windows_kept`: attribute `windows_kept` must be at least 1; got 0; "
        "give another value (committed windows whose "
        "manifests and state are kept before they are purged; default: 5)"
    ),
    (
        "`partitions`: there is no attribute `partitions` of applications; "
        "it belongs to an operator: `add_operator(name, "
        "operator, partitions=...)`"
    ),
    "`gpus`: there is no attribute `gpus` of applications; "
    "it belongs to an operator: `add_operator(name, operator, gpus=...)`",
)
def application_attributes() -> Application:
    return chain(Application("test", snapshot_intervall=3, windows_kept=0, partitions=2, gpus=5))


@faulty(
    (
        "`windows_kept`: attribute `windows_kept` must be a whole number; got 'many'; "
        "give another value (committed windows "
        "whose manifests and state are kept before they are purged; default: 5)"
    ),
    (
        "`colour`: there is no attribute `colour` of applications; "
        "`ridgeline list-attributes --scope application` shows all"
    ),
    attributes={"windows_kept": "many", "colour": "red"},
)
def application_attributes_from_outside() -> Application:
    return chain(Application("test"))


@faulty("`check`: the class `Check` was added, not an operator; add an instance: `Check(...)`")
def class_instead_of_an_operator() -> Application:
    app = Application("test")
    source = app.add_operator("source", Source())
    check = app.add_operator("check", cast("Check", Check))
    store = app.add_operator("store", Store())
    app.add_stream("payments", source.payments, check.payments)
    app.add_stream("valid", check.valid, store.input)
    return app


@faulty("`nothing`: None was added, which is no operator; add an instance of a subclass of `Operator`")
def no_operator_at_all() -> Application:
    app = chain(Application("test"))
    app.add_operator("nothing", cast("Operator", None))
    return app


@faulty("`step`: 2 operators have the name `step`; give each operator a name of its own")
def two_operators_of_one_name() -> Application:
    app = Application("test")
    source = app.add_operator("step", Source())
    store = app.add_operator("step", Store())
    app.add_stream("payments", source.payments, store.input)
    return app


@faulty(
    "`source`: the same `Source` is added 2 times, as `source`, `again`; make a new `Source(...)` for each"
)
def one_operator_twice() -> Application:
    app = Application("test")
    source = Source()
    app.add_operator("source", source)
    app.add_operator("again", source)
    store = app.add_operator("store", Store())
    app.add_stream("payments", source.payments, store.input)
    return app


@faulty(
    "`store`: `Careless.__init__` does not call the `__init__` of `Operator`; "
    "call `super().__init__(**properties)` in it"
)
def operator_without_the_init_of_its_base() -> Application:
    class Careless(Store):
        def __init__(self) -> None:
            self.path = "here"

    app = Application("test")
    source = app.add_operator("source", Source())
    store = app.add_operator("store", Careless())
    app.add_stream("payments", source.payments, store.input)
    return app


@faulty(
    (
        "`source.count`: property `count` of `Source` is -5; input should be greater than or equal to 0; "
        "give another value, "
        "in `Source(count=...)` or with `-D source.count=...`"
    ),
    (
        "`source.accounts`: property `accounts` of `Source` is []; "
        "list should have at least 1 item after validation, not 0; "
        "give another value, in `Source(accounts=...)` or with `-D source.accounts=...`"
    ),
    (
        "`store.path`: property `path` of `Store` is 3; input should be a valid string; "
        "give another value, in "
        "`Store(path=...)` or with `-D store.path=...`"
    ),
)
def properties_that_break_their_rules() -> Application:
    app = Application("test")
    source = app.add_operator("source", Source(count=-5, accounts=[]))
    store = app.add_operator("store", Store(path=3))
    app.add_stream("payments", source.payments, store.input)
    return app


@faulty("`source.cuont`: `Source` has no property `cuont`; did you mean `count`?")
def property_that_does_not_exist() -> Application:
    app = Application("test")
    source = app.add_operator("source", Source(cuont=5))
    store = app.add_operator("store", Store())
    app.add_stream("payments", source.payments, store.input)
    return app


class Required(Store):
    rows: int


@faulty(
    "`store.rows`: property `rows` of `Required` is required and was not given; "
    "give it, in `Required(rows=...)` or with "
    "`-D store.rows=...`"
)
def required_property_that_was_not_given() -> Application:
    app = Application("test")
    source = app.add_operator("source", Source())
    store = app.add_operator("store", Required())
    app.add_stream("payments", source.payments, store.input)
    return app


@faulty(
    "`sauce.count`: there is no operator `sauce` to set a property of; did you mean `source`?",
    "`count`: property `count` names no operator and property; write `-D operator.property=value`",
    "`blances.partitions`: there is no operator `blances` to set an attribute of; did you mean `balances`?",
    "`source.counts`: `Source` has no property `counts`; did you mean `count`?",
    (
        "`source.count`: property `count` of `Source` is '-1'; input should be greater than or equal to 0; "
        "give another value, "
        "in `Source(count=...)` or with `-D source.count=...`"
    ),
    (
        "`source.accounts`: property `accounts` of `Source` is '[1, 2'; input should be a valid list; "
        "give another value, in "
        "`Source(accounts=...)` or with `-D source.accounts=...`"
    ),
    (
        "`balances.partitions`: attribute `partitions` must be at least 1; got '0'; "
        "give another value (number of instances of "
        "the operator; default: 1)"
    ),
    "`balances.partition`: there is no attribute `partition` of operators; did you mean `partitions`?",
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
    (
        "`balances.partitions`: attribute `partitions` must be at least 1; got 0; "
        "give another value (number of instances of "
        "the operator; default: 1)"
    ),
    (
        "`balances.partitioner`: attribute `partitioner` must be a `Partitioner`; "
        "got <class 'support.plan.parts.Balances'>; give "
        "another value (who gets which tuples; default: sticky by key on every connected port that has one)"
    ),
    (
        "`balances.processing_mode`: attribute `processing_mode` must be one of AT_LEAST_ONCE, "
        "EXACTLY_ONCE, AT_MOST_ONCE; got "
        "'MAYBE'; give another value (what happens to a window in which it fails; default: AT_LEAST_ONCE)"
    ),
    (
        "`balances.unifier_limit`: attribute `unifier_limit` must be a whole number; got 1.5; "
        "give another value (greatest "
        "number of partitions that one unifier merges; more make a cascade; "
        "several numbers: one for each level)"
    ),
    (
        "`balances.locality`: there is no attribute `locality` of operators; "
        "it belongs to a stream: `add_stream(..., locality=...)`"
    ),
    (
        "`balances.windows_kept`: there is no attribute `windows_kept` of operators; "
        "it belongs to the application: "
        "`Application(name, windows_kept=...)`"
    ),
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
    "`source.errors`: an error port promises a `lateness`, but no watermark follows from errors; "
    "leave it out",
    "`promising.valid`: `Promising` promises a `lateness`, but it is no input: watermarks come from inputs; "
    "declare it at the input operators upstream, or lead the stream through `WithTimes`; "
    "leave it out here; `timestamp` may stay",
)
def a_lateness_that_nobody_reads() -> Application:
    app = Application("test")
    source = app.add_operator("source", Erring())
    promising = app.add_operator("promising", Promising())
    store = app.add_operator("store", Store())
    app.add_stream("payments", source.payments, promising.payments)
    app.add_stream("valid", promising.valid, store.input)
    return app
