"""Applications whose operators have callbacks that would not run, or not so."""

from __future__ import annotations

import functools
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

import pyarrow as pa

from ridgeline.api import Application, InputOperator, InputPort, Operator, OutputPort, Unifier
from support.plan.faulty import Listing
from support.plan.parts import Balance, Payment, Source, Store

faulty = Listing()
T = TypeVar("T")


def stored(operator: Any, port: str = "payments") -> Application:
    """Source -> operator."""
    app = Application("test")
    source = app.add_operator("source", Source())
    app.add_operator("operator", operator)
    app.add_stream("payments", source.payments, getattr(operator, port))
    return app


class Yielding(Operator):
    payments = InputPort(Payment)

    @payments.process  # type: ignore[type-var]
    def go(self, payment: Payment) -> Iterator[Payment]:
        yield payment

    def end_window(self) -> Iterator[int]:  # type: ignore[override]
        yield 1

    async def setup(self, context: Any) -> None:  # type: ignore[override]
        ...

    async def teardown(self) -> AsyncIterator[int]:  # type: ignore[override]
        yield 1


@faulty(
    (
        "`operator`: `setup` of `Yielding` is `async`, and nothing would await it: it would never run; "
        "make it a plain method; "
        "`asyncio.run(...)` in it runs asynchronous code"
    ),
    (
        "`operator`: `end_window` of `Yielding` has `yield` in it, which makes it a generator: "
        "it would never run; emit on an output port: "
        "`self.port.emit(...)`"
    ),
    (
        "`operator`: `teardown` of `Yielding` is `async`, and nothing would await it: it would never run; "
        "make it a plain method; "
        "`asyncio.run(...)` in it runs asynchronous code"
    ),
    (
        "`operator.payments`: `go` of `Yielding` has `yield` in it, which makes it a generator: "
        "it would never run; emit on an output "
        "port: `self.port.emit(...)`"
    ),
)
def callbacks_that_never_run() -> Application:
    return stored(Yielding())


class Emitting(InputOperator):
    payments = OutputPort(Payment)

    def emit_tuples(self) -> Iterator[Payment]:  # type: ignore[override]
        yield Payment(1, 2, None)  # type: ignore[arg-type]

    def emit_tuple(self) -> None: ...


@faulty(
    (
        "`source`: `emit_tuples` of `Emitting` has `yield` in it, which makes it a generator: "
        "it would never run; emit on an output port: "
        "`self.port.emit(...)`"
    ),
    (
        "`source`: `Emitting` has a method `emit_tuple`, which nothing calls; "
        "did you mean `emit_tuples`? If not, call it something else, "
        "or `_emit_tuple`"
    ),
)
def input_that_yields() -> Application:
    app = Application("test")
    source = app.add_operator("source", Emitting())
    app.add_stream("payments", source.payments, app.add_operator("store", Store()).input)
    return app


class Misspelt(Operator):
    payments = InputPort(Payment)

    setup = 3  # type: ignore[assignment]

    @payments.process
    def go(self, payment: Payment) -> None:
        self.endwindow()

    def endwindow(self) -> None: ...  # an honest helper: `go` calls it

    def begin_windows(self, window_id: int) -> None: ...

    def tear_down(self) -> None: ...

    def comitted(self, window_id: int) -> None: ...

    def _end_window(self) -> None: ...

    def finished(self) -> None: ...


@faulty(
    "`operator`: `setup` of `Misspelt` is 3, but a callback has this name; call it something else",
    (
        "`operator`: `Misspelt` has a method `begin_windows`, which nothing calls; "
        "did you mean `begin_window`? If not, call it something "
        "else, or `_begin_windows`"
    ),
    (
        "`operator`: `Misspelt` has a method `tear_down`, which nothing calls; "
        "did you mean `teardown`? If not, call it something else, or "
        "`_tear_down`"
    ),
    (
        "`operator`: `Misspelt` has a method `comitted`, which nothing calls; "
        "did you mean `committed`? If not, call it something else, or "
        "`_comitted`"
    ),
)
def misspelt_callbacks() -> Application:
    return stored(Misspelt())


class Miscounted(Operator):
    payments = InputPort(Payment)
    batches = InputPort(Payment, optional=True)

    @payments.process
    def go(self, payment: Payment, number: int) -> None: ...

    @batches.process_batch
    def none(self) -> None: ...

    def end_window(self, window_id: int) -> None:  # type: ignore[override]
        ...

    def begin_window(self) -> None:  # type: ignore[override]
        ...

    def setup(self, context: Any, more: int = 3, *rest: int) -> None: ...


@faulty(
    (
        "`operator`: `begin_window` of `Miscounted` has the parameters () -> 'None', "
        "but it is called with `(window_id)`; write "
        "`def begin_window(self, window_id)`"
    ),
    (
        "`operator`: `end_window` of `Miscounted` has the parameters (window_id: "
        "'int') -> 'None', but it is called with `()`; write `def "
        "end_window(self)`"
    ),
    (
        "`operator.payments`: `go` of `Miscounted` has the parameters (payment: 'Payment', number: "
        "'int') -> 'None', but it is called with "
        "`(tuple)`; write `def go(self, tuple)`"
    ),
    (
        "`operator.batches`: `none` of `Miscounted` has the parameters () -> 'None', "
        "but it is called with `(batch)`; write `def none("
        "self, batch)`"
    ),
)
def callbacks_with_other_parameters() -> Application:
    return stored(Miscounted())


class Same(NamedTuple):
    account: int
    cents: int


class Mistaken(Operator):
    payments = InputPort(Payment)
    balances = InputPort(Balance, optional=True)
    columns = InputPort(pa.schema([("account", pa.int64())]), optional=True)
    batches = InputPort(Payment, optional=True)
    rows = InputPort(Payment, optional=True)

    @payments.process
    def other(self, payment: Balance) -> None: ...

    @balances.process
    def same_columns(self, balance: Same) -> None: ...

    @columns.process
    def no_dictionary(self, row: Payment) -> None: ...

    @batches.process_batch
    def table(self, table: pa.Table) -> None: ...

    @rows.process
    def batch(self, batch: pa.RecordBatch) -> None: ...


@faulty(
    (
        "`operator.payments`: `other` of `Mistaken` takes `Balance`, "
        "but the tuples of the port are `Payment`; declare the port with this "
        "type, or annotate the parameter as what comes"
    ),
    (
        "`operator.balances`: `same_columns` of `Mistaken` takes `Same`, "
        "but the tuples of the port are `Balance`; declare the port with "
        "this type, or annotate the parameter as what comes"
    ),
    (
        "`operator.columns`: `no_dictionary` of `Mistaken` takes `Payment`, "
        "but the tuples of the port are dictionaries of its columns; "
        "declare the port with this type, or annotate the parameter as what comes"
    ),
    (
        "`operator.batches`: `table` of `Mistaken` takes `Table`, "
        "but `process_batch` gives a `pyarrow.RecordBatch`; annotate it so, or "
        "decorate it with `process` to get one tuple at a time"
    ),
    (
        "`operator.rows`: `batch` of `Mistaken` takes `RecordBatch`, "
        "but the tuples of the port are `Payment`; decorate it with "
        "`process_batch` to get batches"
    ),
)
def annotations_of_other_types() -> Application:
    return stored(Mistaken())


class YieldingUnifier(Unifier):
    input = InputPort(Payment)
    output = OutputPort(Payment)

    @input.process
    def go(self, payment: Balance) -> None: ...

    def end_window(self) -> Iterator[int]:  # type: ignore[override]
        yield 1


class Unified(Operator):
    payments = InputPort(Payment)
    out = OutputPort(Payment, unifier=YieldingUnifier)

    @payments.process
    def go(self, payment: Payment) -> None: ...


@faulty(
    (
        "`operator.out`: its unifier: `end_window` of `YieldingUnifier` has `yield` in it, "
        "which makes it a generator: it would never run; "
        "emit on an output port: `self.port.emit(...)`"
    ),
    (
        "`operator.out`: its unifier: `go` of `YieldingUnifier` takes `Balance`, "
        "but the tuples of the port are `Payment`; declare the "
        "port with this type, or annotate the parameter as what comes"
    ),
)
def unifier_that_never_ends_a_window() -> Application:
    app = stored(Unified())
    app.add_stream("out", app.operators[-1].operator.out, app.add_operator("store", Store()).input)
    return app


class Honest(Operator):
    """Whatever can be meant, taken."""

    payments = InputPort(Payment, optional=True)
    more = InputPort(Payment, optional=True)
    base = InputPort(Payment, optional=True)
    anything = InputPort(object, optional=True)
    generic = InputPort(Payment, optional=True)
    unknown = InputPort(Payment, optional=True)
    columns = InputPort(pa.schema([("account", pa.int64())]), optional=True)
    every = InputPort(Any, optional=True)
    batches = InputPort(Payment, optional=True)
    bare = InputPort(Payment, optional=True)

    @payments.process
    def one(self, payment: Payment) -> None: ...

    @more.process
    def two(self, payment: Payment | Balance) -> None: ...

    @base.process
    def three(self, payment: tuple) -> None: ...  # type: ignore[type-arg]

    @anything.process
    def four(self, payment: Balance, number: int = 0) -> None: ...

    @generic.process
    def five(self, payment: T) -> None: ...

    @unknown.process
    def six(self, payment: Nowhere) -> None: ...  # type: ignore[name-defined] # noqa: F821

    @columns.process
    def seven(self, row: Mapping[str, int]) -> None: ...

    @every.process
    def eight(self, payment: SamePayment) -> None: ...

    @batches.process_batch
    def nine(self, batch: object) -> None: ...

    @bare.process_batch
    def ten(self, batch) -> None: ...  # type: ignore[no-untyped-def]

    def activated_at(self) -> Sequence[int]:
        return ()

    def publish(self) -> None: ...

    def flush_window(self) -> None: ...


SamePayment = NamedTuple("SamePayment", [(name, kind) for name, kind in Payment.__annotations__.items()])  # type: ignore[misc]


def with_number(function: Any) -> Any:
    """Gives a method a number before its tuple."""

    @functools.wraps(function)
    def wrapper(self: Any, tuple: Any) -> None:
        function(self, 1, tuple)

    return wrapper


class Decorated(Honest):
    @Honest.payments.process
    @with_number
    def one(self, number: int, payment: Balance) -> None: ...  # type: ignore[override]

    @Honest.more.process
    @staticmethod
    def two(payment: Payment) -> None: ...  # type: ignore[override]

    @Honest.base.process
    @classmethod
    def three(cls, payment: Payment) -> None: ...  # type: ignore[override]


class HonestSubclass(Honest):
    def setup(self, *arguments: Any) -> None: ...

    begin_window = lambda self, window_id: None  # type: ignore[assignment]  # noqa: E731
