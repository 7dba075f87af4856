"""Give the tuples of a stream their times, and begin a watermark, at any place of an application."""

from __future__ import annotations

from typing import Any, Generic

import pyarrow as pa

from ridgeline.api import InputPort, Operator, OutputPort
from ridgeline.api.support.duration import Duration, parse_duration
from ridgeline.operators._shaped import T


class WithTimes(Operator, Generic[T]):
    """Give tuples the times that are in a column, and begin a watermark: after parsing, for example.

    `column`: of times; a null is no time. `lateness` promises that no tuple is older by more than the newest
    before it, as at an input operator. Older ones may be late downstream. `idle_after`: a partition that
    gets no tuple with a time for so long holds no watermark up. Times and watermarks from upstream end here.
    When all inputs upstream have finished, all windows downstream close. Partitions: round robin; each has a
    watermark of its own, and the least of them counts.

    Example:
        >>> from datetime import UTC, datetime
        >>> from typing import NamedTuple
        >>> from ridgeline import Application
        >>> from ridgeline.operators import Map, Windowed, WithTimes, aggregate, tumbling
        >>> from ridgeline.testing import CollectorSink, ListInput, run_local
        >>> Line = NamedTuple("Line", [("text", str)])
        >>> Click = NamedTuple("Click", [("user", str), ("time", datetime)])
        >>> def parse(line):
        ...     user, seconds = line.text.split()
        ...     return Click(user, datetime.fromtimestamp(int(seconds), UTC))
        >>> app = Application("clicks")
        >>> lines = app.read("lines", ListInput(Line, [("ann 5",), ("ann 62",), ("bob 3",)]))
        >>> clicks = lines.map("parse", parse, schema=Click).with_times("timed", "time", lateness="5s")
        >>> counts = clicks.group_by("user").window(tumbling("1m")).aggregate("n", clicks=aggregate.count())
        >>> sink = counts.write("sink", CollectorSink())
        >>> for row in run_local(app).collected("sink"):
        ...     print(row["user"], row["window_start"].strftime("%H:%M"), row["clicks"])
        ann 00:00 1
        bob 00:00 1
        ann 00:01 1
    """

    gives_times = True
    input = InputPort[T](Any)
    output = OutputPort[T](Any)

    column: str
    lateness: Duration = 0.0
    idle_after: Duration | None = None

    def timestamp_of(self, port: str) -> str | None:
        """The column."""
        return self.column if port == "output" else super().timestamp_of(port)

    def lateness_of(self, port: str) -> float | None:
        """The `lateness` in seconds."""
        return parse_duration(self.lateness) if port == "output" else None

    def idle_seconds(self) -> float | None:
        """The time `idle_after` in seconds."""
        return None if self.idle_after is None else parse_duration(self.idle_after)

    def end_of_input(self) -> None:
        """Nothing more comes: the watermark passes all windows."""

    @input.process_batch
    def pass_on(self, batch: pa.RecordBatch) -> None:
        """Emit a batch; its times are in the column."""
        self.output.emit_batch(batch)
