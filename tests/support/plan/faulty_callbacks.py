"""Applications whose operators have callbacks that would not run, or not so."""

from __future__ import annotations

import functools
from collections.abc import AsyncIterator, Iterator
from typing import Any

from ridgeline.api import Application, InputPort, Operator
from support.plan.faulty import Listing
from support.plan.parts import Balance, Payment, Source

faulty = Listing()


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
    "`operator`: `setup` of `Yielding` is `async`, ... in it runs asynchronous code",
    "`operator`: `end_window` of `Yielding` has ... port: `self.port.emit(...)`",
    "`operator`: `teardown` of `Yielding` is ... in it runs asynchronous code",
    "`operator.payments`: `go` of `Yielding` has ... port: `self.port.emit(...)`",
)
def callbacks_that_never_run() -> Application:
    return stored(Yielding())


class Named(Operator):
    payments = InputPort(Payment)

    setup = 3  # type: ignore[assignment]

    @payments.process
    def go(self, payment: Payment) -> None: ...


@faulty("`operator`: `setup` of `Named` is 3, but a callback has this name; call it something else")
def a_value_named_like_a_callback() -> Application:
    return stored(Named())


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
    "`operator`: `begin_window` of `Miscounted` has ... begin_window(self, window_id)`",
    "`operator`: `end_window` of `Miscounted` has ... write `def end_window(self)`",
    "`operator.payments`: `go` of `Miscounted` has ... write `def go(self, tuple)`",
    "`operator.batches`: `none` of `Miscounted` has ... write `def none(self, batch)`",
)
def callbacks_with_other_parameters() -> Application:
    return stored(Miscounted())


class Honest(Operator):
    """Whatever can be meant, taken."""

    payments = InputPort(Payment, optional=True)
    more = InputPort(Payment, optional=True)
    base = InputPort(Payment, optional=True)

    @payments.process
    def one(self, payment: Payment) -> None: ...

    @more.process
    def two(self, payment: Payment, number: int = 0) -> None: ...

    @base.process
    def three(self, payment: tuple) -> None: ...  # type: ignore[type-arg]

    def flush_window(self) -> None: ...


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
