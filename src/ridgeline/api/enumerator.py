"""The driver's half of an input operator: it says what each window reads."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from ridgeline.api.clock import Clock


class OffsetRange(NamedTuple):
    """The part of a source that a window reads: after `start`, up to and including `end`.

    Both are JSON values that the input's `Enumerator` returned: `start` for the window before (None in the
    first one), `end` for this one.

    Example:
        >>> from ridgeline import OffsetRange
        >>> start, end = OffsetRange(start=None, end=2)
        >>> list(range(start or 0, end))
        [0, 1]
    """

    start: Any
    end: Any


@dataclass(frozen=True)
class EnumeratorContext:
    """The surroundings of an enumerator.

    Attributes:
        application: The name of the application.
        operator: The name of the input operator.
        run_id: The same for all runs on one checkpoint.
        clock: The source of all times.
        wake: Says that there is something to read: the next window begins soon. From any thread.
        check_owner: Raises FencedError if a later driver has opened the checkpoint.
        warn: Shows a text to the user: on the terminal, in the log, as an event. In the thread of windows.
        partitions: Returns how many partitions the operator has in the next window.
        staging: The URI of a folder in the checkpoint, for files of the enumerator.
        windows_kept: How many commits back a rewind may go.
        budget: Returns how many records the window may read that `advance` is called for, so that its work
            does not take long (the attribute `window_work`). All partitions together; `inf` without a bound.

    Example:
        >>> from ridgeline import Enumerator, EnumeratorContext
        >>> class Named(Enumerator):
        ...     def open(self, context: EnumeratorContext, offset: int | None) -> None:
        ...         self.reader = f"{context.application}-{context.run_id}"
    """

    application: str
    operator: str
    run_id: str
    clock: Clock
    wake: Callable[[], None]
    check_owner: Callable[[], None]
    warn: Callable[[str], None]
    partitions: Callable[[], int]
    staging: str
    windows_kept: int = 5
    budget: Callable[[], float] = lambda: math.inf


class Enumerator:
    """Says on the driver what each window of an input operator reads, the same for all its partitions.

    The operator returns one from `InputOperator.enumerator`. Before a window begins, `advance` says how far
    it reads. All partitions find the range in `context.offsets`, in every attempt at the window. So they are
    always at the same place of the source, and read a window that is replayed exactly as before. The window's
    commit keeps its end, and a restart continues from there. It is Spark's `latestOffset` of a micro-batch
    source, and Flink's split enumerator (FLIP-27).

    Its methods are never called concurrently.

    Example:
        >>> from ridgeline import Application, Enumerator, InputOperator, OutputPort
        >>> from ridgeline.testing import CollectorSink, run_local
        >>> class Two(Enumerator):
        ...     def advance(self, window_id, start):
        ...         return min(5, (start or 0) + 2)
        >>> class Numbers(InputOperator):
        ...     numbers = OutputPort(object)
        ...
        ...     def enumerator(self) -> Enumerator:
        ...         return Two()
        ...
        ...     def emit_tuples(self) -> None:
        ...         start, end = self.context.offsets
        ...         for number in range(start or 0, end):
        ...             if number % self.context.partitions == self.context.partition:
        ...                 self.numbers.emit(number)
        ...         if end == 5:
        ...             self.finish()
        >>> app = Application("numbers")
        >>> source = app.add_operator("source", Numbers())
        >>> sink = app.add_operator("sink", CollectorSink(object))
        >>> app.add_stream("numbers", source.numbers, sink.input)
        >>> run_local(app).collected("sink")
        [0, 1, 2, 3, 4]
    """

    def open(self, context: EnumeratorContext, offset: Any) -> None:
        """Start on a driver. `offset`: the end of the last committed window; None before the first."""

    def advance(self, window_id: int, start: Any) -> Any:
        """Return where the window that begins now ends. Must not wait.

        `start`: what it returned for the window before, None at first. Returning `start` says that there is
        nothing to read. The value is small, of JSON's types, and not None once it was another one.
        """
        raise NotImplementedError

    taken: float | None = None
    """How much of `context.budget` the last window takes that has begun; None: a record for each emitted."""

    def committed(self, window_id: int, offset: Any) -> None:
        """All windows up to this one are committed, which ends at `offset`: the source may forget them."""

    def unreachable(self, context: EnumeratorContext, offset: Any, last: Any) -> str:
        """Why what was read after `offset`, up to `last`, cannot be read again; empty if it can.

        Asked before a rewind, of one that is not open: the rewind is refused then, and nothing has changed.
        """
        return ""

    def received(self, window_id: int, values: Sequence[Any]) -> None:
        """Partitions have passed these values to `context.hand_over`, in a window that is committed.

        Called before `committed`, if there is something, by the order of partitions.
        """

    @property
    def problem(self) -> str:
        """Why the source does not answer, for people; empty while it does. Asked after `advance`.

        As long as there is one, how much waits at the source is not known: the verdict is `unreachable`.
        """
        return ""

    def close(self) -> None:
        """Let go of connections and threads. Raises nothing."""
