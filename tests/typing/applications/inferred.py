"""Right: what type checkers make of declarations."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, assert_type

import pyarrow as pa

from operators import Balance, Balances, Payment, PaymentInput
from ridgeline import (
    InputPoint,
    InputPort,
    KeyedCell,
    KeyedState,
    ListCell,
    ListState,
    Operator,
    OutputPoint,
    OutputPort,
    State,
)
from ridgeline.operators import Filter, Map, RangeKeyVal, SumKeyVal


@dataclass
class Order:
    number: int


class Ports(Operator):
    orders = InputPort(Order)
    anything = InputPort(object)
    events = InputPort[Order](object)
    columns = OutputPort(pa.schema([pa.field("number", pa.int64())]))

    last = State[Order | None](None)
    totals = KeyedState(int)
    lists = KeyedState(list[int], key=str, default=list)
    optional = KeyedState[str, int | None](int | None, default=None)
    untyped = ListState()

    @anything.process
    def take(self, order: Order) -> None:
        assert_type(self.last, Order | None)
        assert_type(self.totals, KeyedCell[Any, int])
        assert_type(self.lists, KeyedCell[str, list[int]])
        assert_type(self.optional["a"], int | None)
        assert_type(self.lists.get("a"), list[int] | None)
        assert_type(self.untyped, ListCell[Any])
        self.columns.emit({"number": order.number})


def is_large(payment: Payment) -> bool:
    return payment.cents > 1_000


def to_balance(payment: Payment) -> Balance:
    return Balance(payment.account, payment.cents)


ports = Ports()
assert_type(ports.orders, InputPoint[Order])
assert_type(ports.anything, InputPoint[Any])
assert_type(ports.events, InputPoint[Order])
assert_type(ports.columns, OutputPoint[dict[str, Any]])
assert_type(Ports.orders, InputPort[Order])
assert_type(Balances.balances, OutputPort[Balance])
assert_type(PaymentInput(3).limit, int)
assert_type(Filter(is_large), Filter[Payment])
assert_type(Map(to_balance, schema=Balance), Map[Payment, Balance])
assert_type(RangeKeyVal(Balance).range, OutputPoint[Balance])
assert_type(SumKeyVal().sum, OutputPoint[Any])
