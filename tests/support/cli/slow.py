"""An application whose second operator takes `SECONDS` for each of 60 tuples of a window."""

from typing import NamedTuple

from ridgeline import Application, InputOperator, InputPort, Operator, OutputPort

TUPLES = 60


class Item(NamedTuple):
    number: int


class Items(InputOperator):
    output = OutputPort(Item)

    def emit_tuples(self):
        for number in range(TUPLES):
            self.output.emit(Item(number))
        self.finish()


class Slow(Operator):
    input = InputPort(Item)
    seconds: float

    @input.process
    def work(self, item):
        self.context.clock.wait(self.seconds)


def application(seconds: float = 0.25):
    app = Application("slow")
    items = app.add_operator("items", Items())
    slow = app.add_operator("slow", Slow(seconds=seconds))
    app.add_stream("items", items.output, slow.input)
    return app
