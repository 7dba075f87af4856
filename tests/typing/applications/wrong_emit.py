"""Planted: a tuple of another schema is emitted."""

from __future__ import annotations

from operators import Balance, Payment
from ridgeline import InputPort, Operator, OutputPort


class Emits(Operator):
    payments = InputPort(Payment)
    balances = OutputPort(Balance)

    @payments.process
    def take(self, payment: Payment) -> None:
        self.balances.emit(Balance(payment.account, 1.0))
        self.balances.emit(payment)  # error: a Payment on a port of Balance
        self.balances.emit((1, 1.0))  # error: a plain tuple
        self.balances.emit_batch(payment)  # error: one tuple is no batch
