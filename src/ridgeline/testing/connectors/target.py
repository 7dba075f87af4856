"""The place of an author that is tested, and the points at which a conformance test strikes an output."""

from __future__ import annotations

import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from types import FrameType
from typing import Any, NamedTuple
from unittest import mock

import pyarrow as pa

from ridgeline.api.errors import ContainerAbortError, RidgelineError
from ridgeline.api.publisher import Publisher, PublisherContext
from ridgeline.connect import partitioned_output
from ridgeline.connect.output_files import SegmentStore
from ridgeline.connect.partitioned_output import PartitionedOutput
from ridgeline.connect.sink import Batch, Mark, Sink, SinkContext
from ridgeline.connect.sink_publisher import SinkPublisher
from ridgeline.connect.window_output import WindowOutput

CONTAINER_POINTS = ("encode: before", "encode: after", "segment: before", "segment: after")
"""Points at which a container is killed."""
SINK_POINTS = (
    *(f"{call}: {when}" for call in ("open", "mark") for when in ("before", "after")),
    *(f"write: {when}" for when in ("before", "in", "after")),
)
"""Points at which the driver is killed in the thread of a sink."""
_PUBLISHED = ("stage: before", "commit: before", "commit: after", "publish: after")
DRIVER_POINTS = (*_PUBLISHED, *SINK_POINTS, "close: before", "close: after")
"""Points at which the driver is killed."""
LINES = "write: line"
"""The point before each line of a sink's file, once in a call of `prepare` or `write`."""
_DRAIN_SECONDS, _PREPARE_SECONDS = 60.0, 5.0


class DriverKilledError(RidgelineError):
    """A check killed the driver."""


@dataclass
class Strikes:
    """Reaches a point of a run, and strikes there: at the `number`th time (from 0), once.

    `strike` is called in the thread that reaches the point. `sink_error`: raised by each call of the sink for
    which it returns an exception, in place of the call.
    """

    point: str = ""
    number: int = 0
    strike: Callable[[], None] | None = None
    sink_error: Callable[[], Exception | None] = lambda: None
    struck: bool = False
    killed: bool = False
    """The driver is dead: its other threads must not do anything any more."""
    commits: Callable[[int], None] = lambda _window: None
    """Called before the commit of each window."""
    prepared: Callable[[Sequence[int]], None] = lambda _windows: None
    """Called with windows that the sink has prepared, before it is asked to write them."""
    holds: bool = False
    """A commit waits until a sink that prepares has prepared its window."""

    def __post_init__(self) -> None:
        self.one_by_one = self.point.startswith("write")
        """Each window is written alone, so that there are as many writes as windows."""
        self.settled = self.number if self.point in ("write: before", "write: after") else 0
        """The number of windows that are written before the next is staged, whose commit then says so."""
        self.by_line = self.point == LINES
        """Lines of the sink are points."""
        self.has_prepared = threading.Event()
        self._times: Counter[str] = Counter()
        self._lock = threading.Lock()

    def at(self, point: str) -> None:
        """A point is reached."""
        with self._lock:
            number = self._times[point]
            self._times[point] += 1
            strikes = point == self.point and number == self.number and not self.struck
            self.struck = self.struck or strikes
        if strikes and self.strike is not None:
            self.strike()
        elif strikes and point in CONTAINER_POINTS:
            raise ContainerAbortError(f"killed {point}")
        elif strikes:
            self.kill(point)

    def kill(self, point: str) -> None:
        """End the driver: at once in its own thread, else in this one and soon in its own."""
        self.killed = True
        if threading.current_thread().name.startswith("ridgeline-output-"):
            raise SystemExit
        raise DriverKilledError(f"killed {point}")

    def reached(self, point: str) -> int:
        """How often a point was reached."""
        return self._times[point]

    def live(self) -> None:
        """Raise DriverKilledError if another thread has killed the driver."""
        if self.killed:
            raise DriverKilledError("killed in the thread of the output")

    @contextmanager
    def in_place(self, kind: type[WindowOutput] = PartitionedOutput) -> Iterator[None]:
        """Strike what outputs of a class do in this process meanwhile."""
        with ExitStack() as patches:
            for target, name, struck in self._patches(kind):
                patches.enter_context(mock.patch.object(target, name, struck))
            yield

    def _patches(self, kind: Any) -> Iterator[tuple[Any, str, Any]]:
        """The replacements: target, name, and what stands there meanwhile."""
        if issubclass(kind, PartitionedOutput):
            publisher = type("StruckPublisher", (_StruckPublisher,), {"strikes": self})
            yield partitioned_output, "SinkPublisher", publisher
            yield PartitionedOutput, "take", self._around(PartitionedOutput.take, "encode")
            yield SegmentStore, "write", self._around(SegmentStore.write, "segment")
            return
        yield kind, "publisher", self._publishing(kind.publisher)
        yield kind, "take", self._around(kind.take, "encode")
        yield kind, "write", self._around(kind.write, "segment")

    def _publishing(self, publisher: Callable[[Any], Any]) -> Callable[[Any], Any]:
        """The method `publisher` of an output without a sink, whose publisher is struck."""

        def struck(output: Any) -> Any:
            made = publisher(output)
            made.__class__ = type("StruckPublisher", (_Points, type(made)), {"strikes": self})
            return made

        return struck

    def _around(self, function: Callable[..., Any], name: str) -> Callable[..., Any]:
        def struck(this: Any, *arguments: Any) -> Any:
            self.at(f"{name}: before")
            found = function(this, *arguments)
            self.at(f"{name}: after")
            return found

        return struck


class _Points(Publisher):
    """The points of a publisher at which it is struck; mixed in before its class."""

    strikes: Strikes

    def open(self, context: PublisherContext, state: Any) -> None:
        super().open(context, state)
        self.strikes.live()

    def stage(self, window_id: int, values: Sequence[Any]) -> Any:
        self.strikes.live()
        self.strikes.at("stage: before")
        state = super().stage(window_id, values)
        self.strikes.commits(window_id)
        self.strikes.at("commit: before")
        return state

    def publish(self, window_id: int) -> None:
        self.strikes.live()
        self.strikes.at("commit: after")
        super().publish(window_id)
        self.settle(window_id)
        self.strikes.at("publish: after")

    def settle(self, window_id: int) -> None:
        """Wait for what is to be written before the next window is staged."""

    def idle(self) -> None:
        self.strikes.live()
        super().idle()

    def close(self) -> None:
        self.strikes.live()
        self.strikes.at("close: before")
        super().close()
        self.strikes.at("close: after")


class _StruckPublisher(_Points, SinkPublisher):
    """A publisher that is struck, with a sink that is."""

    def __init__(self, sink: Sink, *limits: Any) -> None:
        struck: Any = _StruckSink(sink, self.strikes)
        super().__init__(struck, *limits)

    def committing(self) -> None:
        """Let the sink prepare the window before its commit, if that is to be looked at."""
        self.strikes.has_prepared.clear()
        super().committing()
        segments, _ = self._running.snapshot()
        staged = bool(segments) and segments[-1].window > self._window
        if self.strikes.holds and self._sink.prepares and staged:
            self.strikes.has_prepared.wait(_PREPARE_SECONDS)

    def settle(self, window_id: int) -> None:
        """Let the first windows be written, as many as `settled` says."""
        if window_id < self.strikes.settled:
            self._running.drain(_DRAIN_SECONDS)


class _StruckSink:
    """A sink around the author's, which is struck. All that is not here is the author's."""

    def __init__(self, sink: Sink, strikes: Strikes) -> None:
        self._sink, self._strikes = sink, strikes
        self.first_retry_seconds = min(0.02, sink.first_retry_seconds)
        self.most_retry_seconds = min(0.1, sink.most_retry_seconds)
        self.most_bytes = 1 if strikes.one_by_one else sink.most_bytes

    def __getattr__(self, name: str) -> Any:
        return getattr(self._sink, name)

    def open(self, context: SinkContext) -> None:
        self._call("open", self._sink.open, context)

    def mark(self) -> Mark | None:
        found: Mark | None = self._call("mark", self._sink.mark)
        return found

    def prepare(self, batches: Sequence[Batch], mark: Mark) -> None:
        self._call("prepare", self._sink.prepare, [self._watched(batch) for batch in batches], mark)
        self._strikes.prepared([batch.window for batch in batches])
        self._strikes.has_prepared.set()

    def write(self, batches: Sequence[Batch], mark: Mark) -> None:
        self._call("write", self._sink.write, [self._watched(batch) for batch in batches], mark)

    def _watched(self, batch: Batch) -> Batch:
        """The batch; to read it is a point within the write, or before it if the sink prepares."""

        def read() -> tuple[Any, pa.Schema]:
            self._strikes.at("write: in")
            return batch.data, batch.schema

        return Batch(
            window=batch.window, partition=batch.partition, rows=batch.rows, size=batch.size, read=read
        )

    def _call(self, name: str, function: Callable[..., Any], *arguments: Any) -> Any:
        """Call the author's method, with the points around it. A kill lets go of its connection."""
        if self._strikes.killed:
            with suppress(Exception):
                self._sink.close()
            raise SystemExit
        if (error := self._strikes.sink_error()) is not None:
            raise error
        try:
            self._strikes.at(f"{name}: before")
            with self._lines(name):
                found = function(*arguments)
            self._strikes.at(f"{name}: after")
        except SystemExit:
            with suppress(Exception):
                self._sink.close()
            raise
        return found

    @contextmanager
    def _lines(self, name: str) -> Iterator[None]:
        """Make the lines of the sink's file points, if they are asked for."""
        code = getattr(type(self._sink).write, "__code__", None)
        if code is None or not self._strikes.by_line or name not in {"prepare", "write"}:
            yield
            return
        seen: set[tuple[str, int]] = set()

        def at_line(frame: FrameType, event: str, _argument: Any) -> Any:
            place = frame.f_code.co_name, frame.f_lineno
            if event == "line" and place not in seen:
                seen.add(place)
                self._strikes.at(LINES)
            return at_line

        def enter(frame: FrameType, _event: str, _argument: Any) -> Any:
            return at_line if frame.f_code.co_filename == code.co_filename else None

        before = sys.gettrace()
        sys.settrace(enter)
        try:
            yield
        finally:
            sys.settrace(before)


class ConnectorRow(NamedTuple):
    """The rows that the conformance tests write. `id` is unique; `key` has five values.

    Example:
        >>> from ridgeline.testing import ConnectorRow
        >>> ConnectorRow(id=7, key=2, text="row 7", value=3.5)._replace(text=None)
        ConnectorRow(id=7, key=2, text=None, value=3.5)
    """

    id: int
    key: int
    text: str | None
    value: float


class ConnectorTarget:
    """A place at the other side for one check, with nothing in it: a table, a topic, a folder.

    `upserts`: rows with the same `key` replace each other, so that `rows` has the last of each.
    `application`: the name of the applications that write, which outputs may use at the other side.
    `why_not_down`: why `down` cannot.

    Example:
        >>> from ridgeline.testing import ConnectorTarget
        >>> class Table(ConnectorTarget):
        ...     upserts = True
        ...
        ...     def rows(self):
        ...         return [(7, 2, "row 7", 3.5)]
    """

    upserts: bool = False
    application: str = "conformance"
    why_not_down: str = "it cannot be made unavailable"

    def output(self) -> WindowOutput:
        """Make the output operator; called for each start of the application."""
        raise NotImplementedError

    def rows(self) -> Sequence[Any]:
        """Read the other side as any reader would: tuples as `ConnectorRow`, in any order."""
        raise NotImplementedError

    def poison(self) -> ConnectorRow | None:
        """Return a row that the other side refuses; None: there is none."""
        return None

    def down(self) -> bool:
        """Make the other side unavailable. False: it cannot, and the check is skipped."""
        return False

    def up(self) -> None:
        """Make the other side available again, after `down`."""

    def close(self) -> None:
        """Let go of it at the end of a check."""


class Outcome(NamedTuple):
    """The result of a check. `fault` is "" if it held. `kind`: "exact", "repeats" or "none".

    `skipped`: why it was not run; "" if it was. `twice`: which rows were there twice, in words.
    """

    check: str
    fault: str
    kind: str
    skipped: str = ""
    twice: str = "rows twice"

    @property
    def text(self) -> str:
        """In words."""
        held = f"held, with {self.twice}" if self.kind == "repeats" else "held"
        return f"skipped: {self.skipped}" if self.skipped else self.fault or held


class ConnectorReport:
    """The result of the conformance tests of a connector; its text has a line for each check.

    `guarantee`: "exactly once", or "at least once" if a check found rows twice and none lost, or "none".
    `faults`: what went wrong, a line for each check.

    Example:
        >>> from ridgeline.testing.connectors.target import ConnectorReport, Outcome
        >>> report = ConnectorReport([Outcome("kill after write", "", "exact")])
        >>> print(report)
        exactly once, shown by 1 check
          kill after write: held
    """

    def __init__(self, outcomes: Sequence[Outcome]) -> None:
        self.outcomes = tuple(outcomes)

    @property
    def faults(self) -> list[str]:
        """A line for each check that did not hold."""
        return [f"{one.check}: {one.fault}" for one in self.outcomes if one.fault]

    @property
    def guarantee(self) -> str:
        """The guarantee that all checks together have shown."""
        kinds = {one.kind for one in self.outcomes if not one.skipped}
        if "none" in kinds or not kinds:
            return "none"
        return "at least once" if "repeats" in kinds else "exactly once"

    def __str__(self) -> str:
        count = sum(not one.skipped for one in self.outcomes)
        head = f"{self.guarantee}, shown by {count} check{'' if count == 1 else 's'}"
        return "\n".join([head, *(f"  {one.check}: {one.text}" for one in self.outcomes)])
