"""Orders that a shop takes."""

from typing import NamedTuple

from ridgeline import InputOperator, OutputPort, State

COUNTRIES = ("CH", "DE", "US")


class Order(NamedTuple):
    number: int
    country: str
    amount: int


class Orders(InputOperator):
    """Orders in the currencies of three countries."""

    orders = OutputPort(Order)

    count: int = 1000
    per_window: int = 100

    position = State(0)

    def emit_tuples(self) -> None:
        end = min(self.position + self.per_window, self.count)
        for number in range(self.position, end):
            if number % self.context.partitions == self.context.partition:
                self.orders.emit(Order(number, COUNTRIES[number % 3], number % 7 + 1))
        self.position = end
        if end == self.count:
            self.finish()
