"""Planted: a handler that takes tuples of another schema than its port."""

from __future__ import annotations

import pyarrow as pa

from operators import Balance, Payment
from ridgeline import InputPort, Operator


class Handles(Operator):
    payments = InputPort(Payment)

    @payments.process  # error: takes a Balance
    def take(self, balance: Balance) -> None:
        print(balance.total)

    @payments.process_batch  # error: takes a table
    def take_batch(self, table: pa.Table) -> None:
        print(table.num_rows)


class TakesAny(Operator):
    payments = InputPort(Payment)

    @payments.process
    def take(self, payment: object) -> None:
        print(payment)


class Later(TakesAny):
    @TakesAny.payments.process  # error: of a base class's port too
    def take_again(self, balance: Balance) -> None:
        print(balance.total)
