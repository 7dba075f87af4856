"""What an operator knows about where and when it runs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from types import MappingProxyType
from typing import Any

from ridgeline.api.attributes import ProcessingMode
from ridgeline.api.clock import Clock
from ridgeline.api.partitioner import PartitionKeys
from ridgeline.api.times import EARLIEST, NO_TIME, Microseconds, Times

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_NOTHING: Mapping[str, Any] = MappingProxyType({})


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

    def __init__(  # noqa: PLR0913  all that the engine passes
        self,
        *,
        application: str,
        name: str,
        operator_id: int,
        partition: int,
        partitions: int,
        clock: Clock,
        run_id: str,
        staging: str = "",
        window_seconds: float = 1.0,
        attributes: Mapping[str, Any] = _NOTHING,
        port_attributes: Mapping[str, Mapping[str, Any]] = _NOTHING,
        keys: Mapping[str, PartitionKeys] = _NOTHING,
    ) -> None:
        self.application = application
        self.name = name
        self.operator_id = operator_id
        self.partition = partition
        self.partitions = partitions
        self.clock = clock
        self.run_id = run_id
        self.staging = staging
        self.window_seconds = window_seconds
        self.attributes: Mapping[str, Any] = MappingProxyType(dict(attributes))
        self.port_attributes: Mapping[str, Mapping[str, Any]] = MappingProxyType(
            {port: MappingProxyType(dict(values)) for port, values in port_attributes.items()}
        )
        self.keys = keys
        self.window_id = -1
        self.attempt = 0
        self.container_attempt = ""
        self._handed_over: list[object] = []
        self._left_out: list[tuple[str, str]] = []
        self.idle_seconds = 0.0
        """In `handle_idle_time`: seconds until the window's width is over."""
        self._watermark = EARLIEST
        self._window_time = 0
        self.watermark_delay = 0
        """Microseconds by which records that the operator emits may be older than its watermark."""
        self.record_times: Callable[[], Times | None] | None = None
        """The times of the batch being processed; set by the engine for operators with a watermark."""
        self.on_expected: Callable[[str, float], None] | None = None
        """Called by `expect_outputs`; set by the engine."""
        self.awake = False
        """`wake` was called and the operator has not been asked since."""
        self.on_wake: Callable[[], None] | None = None
        """Called by `wake`, by whatever thread; set by the engine."""
        self._late = 0

    @property
    def watermark(self) -> datetime:
        """No record older than it is still to come, but for late ones, as the inputs' `lateness` promises.

        It is the least of all inputs and partitions that declare a `lateness` and are not idle. While tuples
        are processed it is that of the window before; in `end_window` it covers this window. It never goes
        back, and is the same in an attempt that is made again. About the year 1000 before any record has
        come, about the year 9000 once all inputs have finished. In UTC.
        """
        return _EPOCH + timedelta(microseconds=self._watermark)

    @property
    def watermark_microseconds(self) -> int:
        """`watermark` as microseconds since 1970."""
        return self._watermark

    def set_watermark(self, microseconds: int) -> None:
        """Set the watermark; the engine calls it."""
        self._watermark = microseconds

    @property
    def window_time(self) -> datetime:
        """When the window began, by the driver's clock, in UTC: the clock by which timers expire.

        It is the same in all partitions, and in an attempt that is made again. It never goes back.
        """
        return _EPOCH + timedelta(microseconds=self._window_time)

    @property
    def window_time_microseconds(self) -> int:
        """`window_time` as microseconds since 1970."""
        return self._window_time

    def set_window_time(self, microseconds: int) -> None:
        """Set the window's time; the engine calls it."""
        self._window_time = microseconds

    def batch_times(self) -> Microseconds | None:
        """The times of the records in the batch that `process_batch` gets, in microseconds since 1970.

        `NO_TIME` of `ridgeline.api.times` for a record that has none. None if no record has one, or if no
        input declares a `lateness`. Do not change the array.
        """
        times = None if self.record_times is None else self.record_times()
        return None if times is None or (times.newest == NO_TIME).all() else times.newest

    @property
    def processing_mode(self) -> ProcessingMode:
        """What happens to a window in which the operator fails."""
        mode: ProcessingMode = self.attributes.get("processing_mode", ProcessingMode.AT_LEAST_ONCE)
        return mode

    def hand_over(self, value: object) -> None:
        """Send a picklable value to this operator's `Publisher` on the driver.

        It is published if and only if the window is committed. Call it in a window. Raises nothing.
        """
        self._handed_over.append(value)

    def leave_out(self, record: str, error: str) -> None:
        """Leave out a record that cannot be read: of an input operator with `leaves_out_records`.

        It counts as an error of the window, and becomes a dead letter. `record` is shown as it is, shortened.
        Call it in a window, where `attributes["on_error"]` is `SKIP`. Raises nothing.
        """
        self._left_out.append((record, error))

    def take_left_out(self) -> list[tuple[str, str]]:
        """The records of `leave_out` since the last call; the engine calls it at the window's end."""
        records, self._left_out = self._left_out, []
        return records

    @property
    def handed_over_count(self) -> int:
        """How many values were passed to `hand_over` and not yet taken by the engine."""
        return len(self._handed_over)

    def take_back(self, count: int) -> None:
        """Drop all values of `hand_over` but the first `count`; the engine calls it for a skipped tuple."""
        del self._handed_over[count:]

    def expect_outputs(self, port: str, remaining: float) -> None:
        """Estimate how many more tuples the running callback emits on an output port.

        For callbacks that take long: progress and remaining seconds are computed from it. It counts for the
        tuple, the batch or the input's window being processed. Tuples emitted afterwards are subtracted; call
        it again for a better estimate. Negative: without end. Costs about a microsecond. Raises nothing.
        """
        if self.on_expected is not None:
            self.on_expected(port, remaining)

    def wake(self) -> None:
        """Say that the operator has something to emit; see `PushInput.wake`."""
        if not self.awake:
            self.awake = True
            if self.on_wake is not None:
                self.on_wake()

    def count_late(self, records: int = 1) -> None:
        """Count records that came too late, by the watermark, for what they belong to.

        What is emitted at a port with `late=True` is counted without it. The sum is shown with the
        operator's watermark. Raises nothing.
        """
        self._late += records

    def take_late(self) -> int:
        """What `count_late` has counted since the last call; the engine calls it at the window's end."""
        late, self._late = self._late, 0
        return late

    def take_handed_over(self) -> list[object]:
        """The values of `hand_over` since the last call; the engine calls it at the window's end."""
        values, self._handed_over = self._handed_over, []
        return values
