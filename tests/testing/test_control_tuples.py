"""Control tuples: once to every partition downstream, in both deliveries, whatever is killed."""

from collections.abc import Sequence
from random import Random
from typing import NamedTuple

import pytest

from ridgeline import Application, InputOperator, InputPort, ListState, Operator, OutputPort, State
from ridgeline.api.errors import ContainerAbortError, OperatorError
from ridgeline.engine.files.storage import MemoryStorage
from ridgeline.operators import Map
from ridgeline.testing import CollectorSink, LocalRun, run_local
from support.depth import deep
from support.rows import in_a_row


class Number(NamedTuple):
    value: int


class Seen(NamedTuple):
    partition: int
    window: int
    text: str


class Flush(NamedTuple):
    reason: str


class Fails(Operator):
    """Dies with its container, or raises, in these attempts at windows."""

    faults: Sequence[tuple[int, int]] = ()

    def begin_window(self, window_id: int) -> None:
        if (window_id, self.context.attempt) in self.faults:
            if window_id % 2:
                raise ContainerAbortError(self.context.name)
            raise ValueError(f"in attempt {self.context.attempt}")


class Numbers(InputOperator):
    """Two numbers a window, and a control tuple of each kind from partition 0 in every third window."""

    numbers = OutputPort(Number)
    windows: int = 10
    position = State(0)

    def emit_tuples(self) -> None:
        window, partition = self.position, self.context.partition
        if window % 3 == 1 and partition == 0:
            self.numbers.emit_control(Flush(f"first {window}"))
            self.numbers.emit_control(Flush(f"last {window}"), at_end=True)
        self.numbers.emit(Number(10 * window + partition))
        self.numbers.emit(Number(10 * window + 5 + partition))
        self.position += 1
        if self.position == self.windows:
            self.finish()


class Watch(Fails):
    """Emits in which order tuples and control tuples came; what came before stays in state."""

    numbers = InputPort(Number)
    seen = OutputPort(Seen)
    order = ListState()

    @numbers.process
    def number(self, number: Number) -> None:
        self.order.append("tuple")

    @numbers.control
    def flush(self, flush: Flush) -> None:
        self.order.append(flush.reason)

    def end_window(self) -> None:
        self.order.append("end")
        texts = [text for text in self.order if text != "tuple" or "first" not in self.order]
        self.seen.emit(Seen(self.context.partition, self.context.window_id, ",".join(dict.fromkeys(texts))))
        self.order.clear()


def application(partitions: Sequence[int], faults: Sequence[tuple[int, int]] = ()) -> Application:
    """Numbers, two operators that pass control tuples on, and one that handles them."""
    return in_a_row(
        Application("controls", window="100ms"),
        numbers=(Numbers(), {"partitions": partitions[0]}),
        same=(Map(_same, schema=Number), {"partitions": partitions[1]}),
        more=(Map(_same, schema=Number), {"partitions": partitions[2]}),
        watch=(Watch(faults=list(faults)), {"partitions": partitions[3]}),
        sink=CollectorSink(Seen),
    )


def _same(number: Number) -> Number:
    return number


def controls(*runs: LocalRun) -> list[Seen]:
    """What came in windows with control tuples, without what some partitions do not get."""
    found = [one for run in runs for one in run.collected("sink")]
    return sorted(
        one._replace(text=one.text.replace("tuple,", ""))
        for one in found
        if "first" in one.text or "last" in one.text
    )


def expected(partitions: int, windows: int = 10) -> list[Seen]:
    return sorted(
        Seen(partition, window, f"first {window},last {window},end")
        for partition in range(partitions)
        for window in range(windows)
        if window % 3 == 1
    )


@pytest.mark.parametrize("seed", range(deep(4)))
def test_each_partition_gets_each_control_tuple_once_over_kills_and_restarts(seed):
    random = Random(seed)
    partitions = [random.randint(1, 3) for _ in range(4)]
    faults = [(window, 0) for window in random.sample(range(10), 4)]
    storage = MemoryStorage()
    runs = [
        run_local(
            application(partitions, faults),
            checkpoint=storage,
            windows=windows,
            interleave=random.choice([None, seed]),
        )
        for windows in (random.randint(1, 9), None)
    ]
    assert controls(*runs) == expected(partitions[3])
    assert any(run.retries for run in runs)


class Sends(Operator):
    """Sends what cannot be pickled, or raises."""

    numbers = InputPort(Number)
    out = OutputPort(Number)
    raises: bool = False

    @numbers.process
    def number(self, number: Number) -> None: ...

    @numbers.control
    def flush(self, flush: Flush) -> None:
        if self.raises:
            raise ValueError(flush.reason)
        self.out.emit_control(iter(self.context.name for _ in range(2)))


@pytest.mark.parametrize(
    ("raises", "text"),
    [
        (False, r"`sends`.*`emit_control`"),
        (True, r"`sends`.*window 1 in `control of port numbers`.*first 1"),
    ],
)
def test_what_cannot_be_sent_or_handled_names_operator_and_callback(raises, text):
    app = in_a_row(
        Application("stops", window="100ms"),
        numbers=Numbers(windows=3),
        sends=Sends(raises=raises),
        sink=CollectorSink(Number),
    )
    with pytest.raises(OperatorError, match=text):
        run_local(app)
