"""Turnover by country."""

from importlib import resources
from typing import NamedTuple

from ridgeline import Application, InputPort, KeyedState, Operator, OperatorContext, OutputPort
from ridgeline.operators import FileOutput
from shop.orders import Order, Orders


class Turnover(NamedTuple):
    country: str
    cents: int


class Sum(Operator):
    """The turnover of each country so far, in cents of a euro."""

    orders = InputPort(Order, key="country")
    turnover = OutputPort(Turnover)

    cents = KeyedState(int, default=0)

    def setup(self, context: OperatorContext) -> None:
        import javaproperties

        text = resources.files("shop").joinpath("rates.properties").read_text()
        self._rates = {country: int(rate) for country, rate in javaproperties.loads(text).items()}

    @orders.process
    def add(self, order: Order) -> None:
        self.cents[order.country] += order.amount * self._rates[order.country]

    def end_window(self) -> None:
        for country, cents in self.cents.changed():
            self.turnover.emit(Turnover(country, cents))


def application(output: str = "turnover") -> Application:
    """Add up what is ordered in each country, in euros."""
    app = Application("turnover", window="50ms")
    orders = app.add_operator("orders", Orders())
    total = app.add_operator("total", Sum(), partitions=2)
    store = app.add_operator("store", FileOutput(path=output, format="jsonl"))
    app.add_stream("orders", orders.orders, total.orders)
    app.add_stream("turnover", total.turnover, store.input)
    return app
