"""An application whose operators take a known time of each window, on a clock that they move themselves."""

from typing import Any, NamedTuple

from ridgeline import Application, InputOperator, InputPort, Operator, OutputPort


class Item(NamedTuple):
    number: int


class A(InputOperator):
    out = OutputPort(Item)

    def emit_tuples(self) -> None:
        self.out.emit(Item(1))


class Busy(Operator):
    """Takes `milliseconds` of every window; from window `moved_at` on `then` instead."""

    data = InputPort(Item)
    out = OutputPort(Item, optional=True)

    milliseconds: float = 0.0
    then: float = 0.0
    moved_at: int = 1_000_000

    @data.process
    def take(self, item: Item) -> None:
        self.out.emit(item)

    def end_window(self) -> None:
        late = self.context.window_id >= self.moved_at
        self.context.clock.advance((self.then if late else self.milliseconds) / 1000)


BUSY = {"B": 5.0, "C": 100.0, "D": 30.0, "E": 20.0, "F": 2.0}


def diamond(**late: Any) -> Application:
    """A -> {B, C}, B -> D, C -> {E, F}, each in a container of its own; `late` are properties of D."""
    app = Application("diamond", window="1s")
    source = app.add_operator("A", A())
    busy = {
        name: app.add_operator(name, Busy(milliseconds=took, **(late if name == "D" else {})))
        for name, took in BUSY.items()
    }
    apart = {"locality": "NODE_LOCAL"}
    app.add_stream("a", source.out, busy["B"].data, busy["C"].data, **apart)
    app.add_stream("b", busy["B"].out, busy["D"].data, **apart)
    app.add_stream("c", busy["C"].out, busy["E"].data, busy["F"].data, **apart)
    return app
