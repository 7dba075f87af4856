"""A module, an operator that is made of operators, with ports and properties of its own.

Run it in this folder, where its data is: `ridgeline run quotes_module.py`. See what the module is made of by
`ridgeline plan quotes_module.py`; let more quotes through by `-D clean.limit=1000`.
"""

from typing import NamedTuple

from pydantic import Field

from ridgeline import Application, InputPort, KeyedState, Module, Operator, OutputPort
from ridgeline.operators import ConsoleOutput, FileReplayInput, Filter


class Quote(NamedTuple):
    number: int
    symbol: str
    price: float


class Once(Operator):
    """Emit each quote once."""

    quotes = InputPort(Quote, key="number")
    new = OutputPort(Quote)

    seen = KeyedState(bool, key=int, default=False)

    @quotes.process
    def sift(self, quote: Quote) -> None:
        if not self.seen[quote.number]:
            self.seen[quote.number] = True
            self.new.emit(quote)


class CleanQuotes(Module):
    """Each quote once, and none above a limit."""

    quotes = InputPort(Quote)
    clean = OutputPort(Quote)

    limit: float = Field(1000.0, gt=0)

    def populate(self, app: Application) -> None:
        """Called when the application is validated; names are the module's own: `clean.cheap`, `clean.once`."""
        limit = self.limit
        cheap = app.add_operator("cheap", Filter[Quote](lambda quote: quote.price <= limit), partitions=2)
        once = app.add_operator("once", Once())
        app.add_stream("cheap", cheap.output, once.quotes)
        self.quotes.connect(cheap.data)
        self.clean.connect(once.new)


app = Application("quotes", window="100ms")
source = app.add_operator("source", FileReplayInput(path="quotes.csv", format="csv", schema=Quote))
clean = app.add_module("clean", CleanQuotes(limit=500.0))
console = app.add_operator("console", ConsoleOutput())
app.add_stream("raw", source.output, clean.quotes)
app.add_stream("clean", clean.clean, console.input)
