"""Loops by delay operators, in process: the right numbers, whatever is killed or started anew."""

from collections.abc import Sequence
from random import Random
from typing import NamedTuple

import pytest

from ridgeline import Application, InputPort, Operator, OutputPort
from ridgeline.api.errors import ContainerAbortError
from ridgeline.engine.files.storage import MemoryStorage
from ridgeline.measure.events import WindowRetried
from ridgeline.operators import Delay
from ridgeline.plan import plan_application
from ridgeline.plan.edits import AddOperator, AddSink, RemoveOperator, Repartition, SetAttribute
from ridgeline.plan.show.notes import find_notes
from ridgeline.testing import END_WINDOW, CollectorSink, ListInput, run_local
from support.depth import deep

Faults = Sequence[tuple[int, int]]
"""Windows and attempts at them."""


class Pair(NamedTuple):
    last: int
    next: int


class Fails(Operator):
    """Dies with its container, or raises, in these attempts at windows."""

    faults: Faults = ()

    def begin_window(self, window_id: int) -> None:
        if (window_id, self.context.attempt) in self.faults:
            if window_id % 2:
                raise ContainerAbortError(self.context.name)
            raise ValueError(f"in attempt {self.context.attempt}")


class Step(Fails):
    """One more number of Fibonacci, up to a limit."""

    pairs = InputPort(Pair)
    steps = OutputPort(Pair)
    limit: int = 1000

    @pairs.process
    def step(self, pair: Pair) -> None:
        if pair.next < self.limit:
            self.steps.emit(Pair(pair.next, pair.last + pair.next))


def fibonacci(
    faults: Faults = (), limit: int = 1000, locality: str | None = None, **attributes
) -> Application:
    app = Application("fibonacci", window="100ms", **attributes)
    step = app.add_operator("step", Step(limit=limit, faults=list(faults)))
    delay = app.add_module("delay", Delay(Pair, first_window=[Pair(0, 1)]))
    sink = app.add_operator("sink", CollectorSink(Pair))
    app.add_stream("again", delay.output, step.pairs, locality=locality)
    app.add_stream("steps", step.steps, delay.input, sink.input, locality=locality)
    return app


@pytest.mark.parametrize("seed", range(deep(3)))
def test_kills_and_restarts_change_no_number_of_a_loop(seed):
    random = Random(seed)
    windows = random.sample(range(17), 6)
    faults = [(window, attempt) for window in windows for attempt in range(random.randint(1, 2))]
    storage = MemoryStorage()
    runs, ended = [], False
    while not ended:
        some = run_local(
            fibonacci(faults),
            checkpoint=storage,
            windows=random.randint(1, 9),
            interleave=random.choice([None, seed]),
        )
        runs.append(some)
        ended = bool(some.window_ids) and some.window_ids[-1] >= 16
    found = [pair.last for run in runs for pair in run.collected("sink")]
    assert found == [pair.last for pair in run_local(fibonacci()).collected("sink")]
    retries = [event for run in runs for event in run.events if isinstance(event, WindowRetried)]
    assert len(retries) >= len(faults)
    again = run_local(fibonacci(), checkpoint=storage)
    assert again.collected("sink") == []


def test_a_loop_goes_on_through_changes():
    collector = {"class": "ridgeline.testing.CollectorSink"}
    changes = {
        2: [AddOperator("seen", collector), AddSink("steps", "seen.input")],
        3: [Repartition("delay", 2)],
        4: [SetAttribute("step", "recovery_attempts", 100)],
        6: [RemoveOperator("seen")],
        7: [AddOperator("seen", collector), AddSink("again", "seen.input")],
    }
    run = run_local(fibonacci(), changes=changes)
    assert [one.state for one in run.changes] == ["APPLIED"] * 5
    found = run.collected("sink")
    assert found == run_local(fibonacci()).collected("sink")
    assert [run.collected("seen", window)[0]["last"] for window in (2, 5, 7)] == [
        found[window].last for window in (2, 5, 6)
    ]


def test_a_delay_outside_of_a_loop_only_shifts():
    app = Application("shift", window="100ms")
    source = app.add_operator("source", ListInput(Pair, [(1, 2), END_WINDOW, (3, 4)]))
    delay = app.add_module("delay", Delay(Pair))
    sink = app.add_operator("sink", CollectorSink(Pair))
    app.add_stream("pairs", source.output, delay.input)
    app.add_stream("later", delay.output, sink.input)
    run = run_local(app)
    assert [run.collected("sink", window) for window in range(4)] == [[], [Pair(1, 2)], [Pair(3, 4)], []]
    plan = plan_application(app)
    assert [str(note) for note in find_notes(plan.logical, plan.physical)] == [
        "`delay`: the application runs one window at a time, whatever `windows_in_flight` says",
    ]
