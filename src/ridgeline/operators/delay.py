"""Lead tuples back to an operator upstream, one window later."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Generic

from pydantic import Field

from ridgeline.api import InputPort, Module, OutputPort, SchemaType
from ridgeline.api.support.loops import HEAD, TAIL, DelayHead, DelayTail
from ridgeline.operators._shaped import T

if TYPE_CHECKING:
    from ridgeline.api import Application


class Delay(Module, Generic[T]):
    """Lead tuples of `schema` back to an operator upstream, one window later: each loop goes through one.

    Tuples of window `w` leave in window `w + 1`. `first_window`: the tuples that leave in the
    application's first window, when none can have come in. Tuples between two windows are state:
    they are committed with the window, and a void attempt leaves none of them.

    An application whose inputs have finished ends with the first window that leaves nothing in its delays.
    It runs one window at a time. Partitions: round robin; each passes on what it took. Tuples that have come
    by a loop hold no watermark up.

    Example:
        >>> from typing import NamedTuple
        >>> from ridgeline import Application, InputPort, Operator, OutputPort
        >>> from ridgeline.operators import Delay
        >>> from ridgeline.testing import CollectorSink, run_local
        >>> class Pair(NamedTuple):
        ...     last: int
        ...     next: int
        >>> class Step(Operator):
        ...     pairs = InputPort(Pair)
        ...     steps = OutputPort(Pair)
        ...
        ...     @pairs.process
        ...     def step(self, pair: Pair) -> None:
        ...         if pair.next < 20:
        ...             self.steps.emit(Pair(pair.next, pair.last + pair.next))
        >>> app = Application("fibonacci")
        >>> step = app.add_operator("step", Step())
        >>> delay = app.add_module("delay", Delay(Pair, first_window=[Pair(0, 1)]))
        >>> sink = app.add_operator("sink", CollectorSink(Pair))
        >>> app.add_stream("again", delay.output, step.pairs)
        >>> app.add_stream("steps", step.steps, delay.input, sink.input)
        >>> [pair.last for pair in run_local(app).collected("sink")]
        [1, 1, 2, 3, 5, 8, 13]
    """

    input = InputPort[T](Any)
    output = OutputPort[T](Any)

    schema: SchemaType[T]
    first_window: Sequence[T] = Field(default=(), kw_only=True)

    def populate(self, app: Application) -> None:
        """Add the two ends of the delay, which share a state."""
        tail = app.add_operator(TAIL, DelayTail())
        head = DelayHead(first_window=list(self.first_window))
        head.declare_schema("output", self.schema)
        app.add_operator(HEAD, head)
        self.input.connect(tail.input)
        self.output.connect(head.output)
