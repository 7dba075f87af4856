"""Operators that are right; the other files connect and use them wrongly."""

from __future__ import annotations

from typing import NamedTuple

from ridgeline import InputOperator, InputPort, KeyedState, Operator, OutputPort


class Payment(NamedTuple):
    account: int
    cents: int


class Balance(NamedTuple):
    account: int
    total: float


class PaymentInput(InputOperator):
    payments = OutputPort(Payment)

    limit: int = 10

    def emit_tuples(self) -> None:
        for number in range(self.limit):
            self.payments.emit(Payment(number, 100))
        self.finish()


class Balances(Operator):
    payments = InputPort(Payment, key="account")
    balances = OutputPort(Balance)

    totals = KeyedState(float, key=int, default=0.0)

    @payments.process
    def add(self, payment: Payment) -> None:
        self.totals[payment.account] += payment.cents

    def end_window(self) -> None:
        for account, total in self.totals.changed():
            self.balances.emit(Balance(account, total))
