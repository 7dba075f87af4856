"""The seconds left of operators with many outputs per tuple, against the truth on a stepping clock."""

from typing import NamedTuple

from ridgeline import Application, InputPort, Operator, OperatorContext, OutputPort
from ridgeline.api.columns.schema import Schema
from ridgeline.api.columns.tuples import Tuples
from ridgeline.engine.operator.runtime import OperatorRuntime
from ridgeline.measure.progress.formulas import History, window_progress
from ridgeline.measure.topology import chain
from ridgeline.plan.planner import plan_application
from ridgeline.plan.protocol import WindowRequest
from ridgeline.testing import CollectorSink, ListInput, SteppingClock


class Item(NamedTuple):
    key: int


SEEN = []
RUNNING = []


class Many(Operator):
    """Emits `fan` tuples for each one, evenly over its `seconds`."""

    input = InputPort(Item)
    output = OutputPort(Item)
    fan: int
    seconds: float

    @input.process
    def take(self, item: Item) -> None:
        for _ in range(self.fan):
            self.context.clock.wait(self.seconds / self.fan)
            self.output.emit(item)
            SEEN.append((self.context.clock.monotonic(), RUNNING[0].running.figures()))


def watch(fan, tuples, seconds, kind=Many):
    """(seconds left in truth, as estimated, tuples done before) at each output."""
    app = Application("app")
    source = app.add_operator("source", ListInput(Item, []))
    step = app.add_operator("step", kind(fan=fan, seconds=seconds))
    app.add_stream("in", source.output, step.input)
    app.add_stream("out", step.output, app.add_operator("sink", CollectorSink()).input)
    spec = next(physical for physical in plan_application(app).physical.operators if physical.name == "step")
    clock = SteppingClock()
    context = OperatorContext(
        application="app",
        name="step",
        operator_id=spec.id,
        partition=0,
        partitions=1,
        clock=clock,
        run_id="r",
    )
    runtime = OperatorRuntime(spec, context)
    runtime.start()
    SEEN.clear()
    RUNNING[:] = [runtime]
    began = clock.monotonic()
    runtime.run(
        WindowRequest(0, 0, 1),
        {"input": [Tuples.of_rows(Schema(Item), [Item(number) for number in range(tuples)])]},
        (),
    )
    history = {2: History(outputs_per_element={"output": float(fan)}, seconds_per_element=seconds)}
    found = []
    for at, said in SEEN:
        estimate = (
            window_progress(chain("read", "step", "write", stages=[0, 1, 2]), {2: said}, history)
            .operators[2]
            .remaining_seconds
        )
        found.append((tuples * seconds - (at - began), estimate.value, sum(said.consumed.values())))
    return found


class Telling(Many):
    """Says how many of its outputs are to come; nothing is known of earlier windows."""

    @Many.input.process
    def take_telling(self, item: Item) -> None:
        self.context.expect_outputs("output", self.fan)
        self.take(item)


def test_an_operator_may_say_what_is_to_come():
    watch(10, 1, 1.0, Telling)
    assert [said.active_remaining["output"] for _, said in SEEN] == [float(left) for left in range(9, -1, -1)]
