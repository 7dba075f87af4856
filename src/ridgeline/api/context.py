"""The context of a running operator: where and when it runs."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

from ridgeline.api.attributes import ProcessingMode
from ridgeline.api.clock import Clock
from ridgeline.api.columns.struct_types import EPOCH
from ridgeline.api.enumerator import OffsetRange
from ridgeline.api.partitioner import PartitionKeys
from ridgeline.api.times import EARLIEST, NO_TIME, Mark, Microseconds, Times

if TYPE_CHECKING:
    from ridgeline.api.columns.tuples import Tuples


@dataclass(slots=True)
class EngineSide:
    """`OperatorContext.engine`: what the engine sets in a context, and what it takes from it in each window.

    No part of the public API: an author uses the methods of the context, which say what the values mean.
    Times are in microseconds since 1970.

    Attributes:
        watermark: The operator's watermark.
        window_time: When the window began, by the driver's clock.
        record_times: Returns the times of the batch being processed; None in operators without a watermark.
        batch: The tuples that `process_batch` gets now, with their times; None between its calls.
        mark: The watermark that the operator passes on, and whether it is idle; None without a watermark.
        on_control: Takes each control tuple in place of the ports' methods; nothing passes it on then.
        marks_read: Of an input: the watermarks of what it has read in this window, in place of its records'.
        on_expected: Called by `expect_outputs`.
        on_wake: Called by `wake`, in the thread that calls it.
        awake: `wake` was called, and the operator has not been polled since.
        handed_over: The values of `hand_over` since the last `take`.
        defers: The only reader of what it emits is in its container, and takes `PendingTuples`.
        budget: Of an input: how many records all its partitions together may emit in the window.
        emitted: Returns how many it has emitted in the window.
        keeps_budget: It has asked for its budget in this window.
    """

    watermark: int = EARLIEST
    window_time: int = 0
    record_times: Callable[[], Times | None] | None = None
    batch: Tuples | None = None
    mark: Mark | None = None
    on_control: Callable[[Control], object] | None = None
    marks_read: Sequence[Mark] | None = None
    on_expected: Callable[[str, float], None] | None = None
    on_wake: Callable[[], None] | None = None
    awake: bool = False
    handed_over: list[object] = field(default_factory=list)
    left_out: list[tuple[str, str]] = field(default_factory=list)
    late: int = 0
    defers: bool = False
    budget: float = math.inf
    emitted: Callable[[], int] = lambda: 0
    keeps_budget: bool = False

    def ask_budget(self) -> float:
        """How many records all partitions together may emit; the operator keeps to it."""
        self.keeps_budget = True
        return self.budget

    def take(self, name: str) -> Any:
        """What a list, or `late`, has since the last call; it begins anew."""
        found = getattr(self, name)
        setattr(self, name, type(found)())  # also in place of an empty list, which the caller has from now on
        return found


@dataclass(kw_only=True, eq=False, repr=False)
class OperatorContext:
    """`self.context` of a running operator: where and when it runs.

    Attributes:
        application: The name of the application.
        name: The operator's name in the logical plan.
        partition: The operator's partition, from 0 to `partitions` - 1.
        partitions: How many partitions the operator has.
        window_id: The streaming window that runs; -1 before the first.
        passed_over: How many numbers of windows rewinds have left out so far: who counts windows by their ids
            subtracts it.
        window_seconds: The width of a streaming window.
        clock: The source of all times.
        watermark: No record older than it is still to come, but for late ones; see there.
        offsets: What the window reads, of an input with an `Enumerator`; else None.
        window_time: When the window began, by the driver's clock; see there.
        attempt: How many attempts at this window were made before.
        container_attempt: A text that is unique to the attempt.
        run_id: The same for all runs on one checkpoint.
        attributes: The operator's attributes by name, defaults filled in: `attributes["partitions"]`.
        port_attributes: Those of its ports, by port and name: `port_attributes["data"]["queue_capacity"]`.
        keys: Which keys the partition gets on ports that are divided by key, by port.
        staging: The URI of a folder in the checkpoint, for files that wait for the commit.

    Example:
        >>> from ridgeline import Application, Operator, OperatorContext, InputPort
        >>> from ridgeline.testing import ListInput, run_local
        >>> class Greet(Operator):
        ...     names = InputPort(object)
        ...
        ...     def setup(self, context: OperatorContext) -> None:
        ...         print(
        ...             f"{context.application}.{context.name}: {context.partition} of {context.partitions}"
        ...         )
        ...
        ...     @names.process
        ...     def greet(self, name: str) -> None:
        ...         print(f"hello {name} in window {self.context.window_id}")
        >>> app = Application("hello")
        >>> names = app.add_operator("names", ListInput(object, ["Ann"]))
        >>> greet = app.add_operator("greet", Greet())
        >>> app.add_stream("names", names.output, greet.names)
        >>> run = run_local(app)
        hello.greet: 0 of 1
        hello Ann in window 0
    """

    passed_over = 0  # as long as nothing was rewound

    application: str
    name: str
    operator_id: int
    partition: int
    partitions: int
    clock: Clock
    run_id: str
    staging: str = ""
    window_seconds: float = 1.0
    attributes: Mapping[str, Any] = field(default_factory=dict)
    port_attributes: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    keys: Mapping[str, PartitionKeys] = field(default_factory=dict)
    window_id: int = -1
    attempt: int = 0
    container_attempt: str = ""
    offsets: OffsetRange | None = None
    idle_seconds: float = 0.0
    """In `handle_idle_time`: seconds until the window's width is over."""
    watermark_delay: int = 0
    """Microseconds by which records that the operator emits may be older than its watermark."""
    oldest_held: Callable[[], int] | None = None
    """Returns the time of the oldest record that it holds, in microseconds since 1970.

    The watermark that it passes on stops there, so that records are not late once they are emitted.
    """
    engine: EngineSide = field(default_factory=EngineSide)

    def __post_init__(self) -> None:
        self.attributes = MappingProxyType(dict(self.attributes))
        ports = {port: MappingProxyType(dict(values)) for port, values in self.port_attributes.items()}
        self.port_attributes = MappingProxyType(ports)

    @property
    def watermark(self) -> datetime:
        """No record older than it is still to come, but for late ones, as the inputs' `lateness` promises.

        It is the least of all inputs and partitions that declare a `lateness` and are not idle. While tuples
        are processed it is that of the window before; in `end_window` it covers this window. It never goes
        back, and is the same in an attempt that is made again. About the year 1000 before any record has
        come, about the year 9000 once all inputs have finished. In UTC.
        """
        return EPOCH + timedelta(microseconds=self.engine.watermark)

    @property
    def watermark_microseconds(self) -> int:
        """`watermark` as microseconds since 1970."""
        return self.engine.watermark

    @property
    def window_time(self) -> datetime:
        """When the window began, by the driver's clock, in UTC: the clock by which timers expire.

        It is the same in all partitions, and in an attempt that is made again. It never goes back.
        """
        return EPOCH + timedelta(microseconds=self.engine.window_time)

    @property
    def window_time_microseconds(self) -> int:
        """`window_time` as microseconds since 1970."""
        return self.engine.window_time

    @property
    def budget(self) -> float:
        """How many records this partition of an input should still emit in the window; `inf` without a bound.

        While more arrives than is processed, windows are bounded by their work (the attribute
        `window_work`). An input that asks takes no more than that from its source, and the rest waits there.
        What another one emits beyond it is kept as state and comes first in the next windows.
        """
        own = self.engine.ask_budget() / self.partitions
        return max(0.0, math.ceil(own) - self.engine.emitted()) if own < math.inf else own

    def batch_times(self) -> Microseconds | None:
        """The times of the records in the batch that `process_batch` gets, in microseconds since 1970.

        `NO_TIME` of `ridgeline.api.times` for a record that has none. None if no record has one, or if no
        input declares a `lateness`. Do not change the array.
        """
        record_times = self.engine.record_times
        times = None if record_times is None else record_times()
        return None if times is None or (times.newest == NO_TIME).all() else times.newest

    @property
    def processing_mode(self) -> ProcessingMode:
        """How a window is handled in which the operator fails."""
        mode: ProcessingMode = self.attributes.get("processing_mode", ProcessingMode.AT_LEAST_ONCE)
        return mode

    def hand_over(self, value: object) -> None:
        """Send a picklable value to the operator's `Publisher` on the driver, or to an input's `Enumerator`.

        It is published if and only if the window is committed. Call it in a window. Raises nothing.
        """
        self.engine.handed_over.append(value)

    def leave_out(self, record: str, error: str) -> None:
        """Leave out a record that cannot be read: of an input operator with `leaves_out_records`.

        It counts as an error of the window, and becomes a dead letter. `record` is shown as it is, shortened.
        Call it in a window, where `attributes["on_error"]` is `SKIP`. Raises nothing.
        """
        self.engine.left_out.append((record, error))

    def expect_outputs(self, port: str, remaining: float) -> None:
        """Estimate how many more tuples the running callback emits on an output port.

        For callbacks that take long: progress and remaining seconds are computed from it. It counts for the
        tuple, the batch or the input's window being processed. Tuples emitted afterwards are subtracted; call
        it again for a better estimate. Negative: without end. Costs about a microsecond. Raises nothing.
        """
        if self.engine.on_expected is not None:
            self.engine.on_expected(port, remaining)

    def wake(self) -> None:
        """Say that the operator has something to emit; see `PushInput.wake`."""
        engine = self.engine
        if not engine.awake:
            engine.awake = True
            if engine.on_wake is not None:
                engine.on_wake()

    def count_late(self, records: int = 1) -> None:
        """Count records that came too late, by the watermark, for what they belong to.

        Tuples emitted at a port with `late=True` are counted without it. The sum is shown with the
        operator's watermark. Raises nothing.
        """
        self.engine.late += records


class Control(NamedTuple):
    """A control tuple. `number`: of those that the `origin` has emitted in the window.

    `origin`: the operator's physical id; of one that came through a queue, a number below 0. `at_end`:
    delivered before `end_window`, else before the tuples of the window. `value`: pickled.

    Example:
        >>> import pickle
        >>> from ridgeline.api.context import Control
        >>> Control(3, 0, at_end=True, value=pickle.dumps("flush")).at_end
        True
    """

    origin: int
    number: int
    at_end: bool
    value: bytes
