"""Planted: tuples that do not fit a port, state and properties of other types or names."""

from __future__ import annotations

import pyarrow as pa

from operators import Balance, Payment, PaymentInput
from ridgeline import Cache, InputPort, KeyedState, ListState, Operator, OutputPort, State
from ridgeline.operators import ConsoleOutput, FileOutput, Filter, SparkInput


class Emits(Operator):
    payments = InputPort(Payment)
    balances = OutputPort(Balance)

    @payments.process
    def take(self, payment: Payment) -> None:
        self.balances.emit(Balance(payment.account, 1.0))
        self.balances.emit(payment)  # error: a Payment on a port of Balance
        self.balances.emit((1, 1.0))  # error: a plain tuple
        self.balances.emit_batch(payment)  # error: one tuple is no batch


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


class Keeps(Operator):
    position = State(0)
    totals = KeyedState(int, key=str, default=0)
    recent = ListState(float)
    known = Cache(dict[str, int])

    def end_window(self) -> None:
        self.position += 1
        text: str = self.position  # error: a number
        self.totals[text] += self.position
        self.totals["a"] = 0.5  # error: a value of another type
        self.totals[1] = 1  # error: a key of another type
        self.recent.append(0.5)
        self.recent.append("0.5")  # error: text
        self.known["a"] = 1
        self.known["a"] = "1"  # error: text


class Assigns(Operator):
    """What pyright does not see: it adds up all types that are assigned to a name without an annotation."""

    position = State(0)
    totals = KeyedState(int, default="0")  # mypy error: a default of another type

    def end_window(self) -> None:
        self.position = "1"  # mypy error: text


PaymentInput(limit=3)
PaymentInput(limits=3)  # error: the property is `limit`
ConsoleOutput(string_format="{}", limitt=5)  # error: the property is `limit`
FileOutput(path="out", fmt="jsonl")  # error: the property is `format`


def is_large(payment: Payment) -> bool:
    return payment.cents > 1_000


PaymentInput(3)
PaymentInput(limit="3")  # error: text
PaymentInput("3")  # error: text, by position
PaymentInput(3, 4)  # error: too many
PaymentInput(3, limit=4)  # error: given twice
FileOutput(path="out", format="json")  # error: no such format
FileOutput()  # error: `path` is required
Filter(is_large)
Filter(3)  # error: no function
SparkInput("kafka", {"subscribe": "payments"}, schema=Payment)
SparkInput(5, {}, schema=Payment)  # error: a format is text
