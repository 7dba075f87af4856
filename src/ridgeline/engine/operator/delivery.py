"""How tuples get to the methods of an operator: in the form that a port takes, one by one or as batches."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Sized
from contextlib import contextmanager
from operator import length_hint

import numpy as np

from ridgeline.api.columns.combined import Combined
from ridgeline.api.columns.schema import Schema
from ridgeline.api.columns.tuples import Tuples, concatenate
from ridgeline.api.errors import RidgelineError, shorten
from ridgeline.api.operator import operator_type
from ridgeline.api.points import OutputPoint
from ridgeline.api.ports import Order
from ridgeline.api.times import NO_TIME, Processing
from ridgeline.engine.operator.instance import Instance
from ridgeline.engine.operator.part import Inputs, Turn, TurnPart
from ridgeline.engine.operator.progress import Handler

_QUICK_SECONDS = 20e-6  # a tuple; below, output is not attributed to single tuples: it would cost 1 %
Place = tuple[str, int]
"""An input port, and the number of a sequence of tuples that came in on it."""


def delivered(inputs: Mapping[str, Iterable[Tuples]]) -> dict[str, Sequence[Tuples]]:
    """The inputs that have come already, by port."""
    return {port: parts if isinstance(parts, Sequence) else () for port, parts in inputs.items()}


def decoded(part: Tuples, schema: Schema, by_batch: bool) -> Tuples:  # noqa: FBT001  called by position
    """Tuples in the form in which a port takes them. Raises what they raise that cannot be had so."""
    tuples = part.read_as(schema)
    _ = tuples.delivered if by_batch else tuples.rows
    return tuples


@contextmanager
def inheriting_times(points: Iterable[OutputPoint], processing: Processing) -> Iterator[None]:
    """Tuples that these ports emit meanwhile inherit the times of those that are processed."""
    for point in points:
        point.begin(processing)
    yield
    for point in points:
        point.end()


def nothing_timed() -> None:
    """Nothing that came in the window had a time."""


class Delivery:
    """Calls the methods of an operator for its tuples."""

    def __init__(self, instance: Instance) -> None:
        self._instance = instance
        self._quick: set[str] = set()
        """Ports whose tuples take so little that no count of what each has emitted is needed."""

    def deliver(
        self, place: Place, handler: Handler, tuples: Tuples, inheriting: Sequence[OutputPoint]
    ) -> None:
        """Call a `process` method for each tuple. Raises OperatorError naming the tuple that failed."""
        running, port = self._instance.running, place[0]
        rows = tuples.rows
        iterator = iter(rows)
        remaining: Callable[[], int] = iterator.__length_hint__  # type: ignore[attr-defined]  # a list's iterator
        processing = Processing(lambda: tuples.times, len(rows), remaining)
        points = inheriting if tuples.timed else ()
        outputs = [point.begin(processing) for point in points]
        watched = handler if port in self._quick else running.marking(handler)
        before = running.compute_seconds
        with running.part(port, len(rows), iterator, rows):
            lengths = self._process(place, watched, iterator, outputs, rows)
        if running.compute_seconds - before < _QUICK_SECONDS * len(rows):
            self._quick.add(port)
        else:
            self._quick.discard(port)
        for point, after in zip(points, lengths, strict=True):
            point.end(after)

    def _process(
        self,
        place: Place,
        handler: Handler,
        tuples: Iterator[object],
        outputs: Sequence[Sized],
        rows: Sequence[object],
    ) -> Sequence[Sequence[int] | None]:
        """Call the method for each of the `rows`; returns what `one_by_one` returns. Raises OperatorError."""
        try:
            return one_by_one(handler, tuples, outputs)
        except BaseException as error:
            callback, row = f"process of port {place[0]}", rows[len(rows) - length_hint(tuples) - 1]
            raise self._instance.failure(callback, error, shorten(row)) from error

    def deliver_batch(
        self, place: Place, handler: Handler, tuples: Tuples, inheriting: Sequence[OutputPoint]
    ) -> None:
        """Hand a sequence of tuples to a `process_batch` method. Raises OperatorError.

        Partial results and pending tuples are handed over as such: only operators that take them get some.
        """
        instance, port = self._instance, place[0]
        combined = isinstance(tuples, Combined)
        processing = Processing(lambda: tuples.times, 0 if combined else len(tuples))
        if instance.keeps_time:
            instance.context.engine.record_times = processing.times
        instance.context.engine.batch = tuples
        with inheriting_times(inheriting, processing), instance.running.part(port, len(tuples), None):
            try:
                handler(tuples.delivered)
            except BaseException as error:
                raise instance.batch_failure(port, tuples, error) from error
            finally:
                instance.context.engine.batch = None

    def check(self) -> None:
        """All tuples were delivered."""


def one_by_one(
    handler: Handler, tuples: Iterator[object], outputs: Sequence[Sized]
) -> list[Sequence[int] | None]:
    """Call `handler` for each tuple.

    Returns for each output its length after each of them, None if each made it one longer.
    """
    if not outputs:
        for one in tuples:
            handler(one)
        return []
    if len(outputs) == 1:
        return [_noted(handler, tuples, *outputs)]
    lengths: list[list[int]] = [[] for _ in outputs]
    for one in tuples:
        handler(one)
        for output, after in zip(outputs, lengths, strict=True):
            after.append(len(output))
    return list(lengths)


def _noted(handler: Handler, tuples: Iterator[object], output: Sized) -> Sequence[int] | None:
    """The same for one output; notes nothing as long as it grows by one."""
    start = length = len(output)
    for one in tuples:
        handler(one)
        length += 1
        if len(output) != length:
            break
    else:
        return None
    lengths = [*range(start + 1, length), len(output)]
    for one in tuples:
        handler(one)
        lengths.append(len(output))
    return lengths


def _ports_by_time(instance: Instance) -> list[str]:
    """The input ports that take their tuples in the order of their times."""
    inputs = operator_type(type(instance.operator)).inputs
    return [name for name in instance.handlers if inputs[name].order == Order.BY_TIME]


class OrderByTime(TurnPart):
    """Sorts the tuples of a window by their times, for input ports with `Order.BY_TIME`."""

    def __init__(self, instance: Instance) -> None:
        super().__init__(instance)
        self._ports = _ports_by_time(instance)

    @classmethod
    def of(cls, instance: Instance) -> TurnPart | None:
        """None if no port takes its tuples so."""
        return cls(instance) if _ports_by_time(instance) else None

    def arrange(self, turn: Turn, inputs: Inputs) -> Inputs:
        """The tuples sorted. Raises OperatorError for one without a time."""
        found = dict(inputs)
        for port in self._ports:
            entered = port, self.instance.spec.inputs[port], found[port]
            found[port] = self.instance.call(f"order of port {port}", in_time_order, *entered)
        return found


def in_time_order(port: str, schema: Schema, parts: Sequence[Tuples]) -> Sequence[Tuples]:
    """All tuples as one run, sorted by time; those of one time stay in the order in which they came.

    Raises RidgelineError for a tuple without a time.
    """
    parts = [part for part in parts if len(part)]
    if not parts:
        return ()
    tuples = concatenate(schema, [part.read_as(schema) for part in parts])
    times = tuples.times
    missing = np.zeros(1, np.int64) if times is None else np.flatnonzero(times.newest == NO_TIME)
    if times is None or len(missing):
        what = f"port `{port}` takes its tuples in the order of their times"
        remedy = "emit it with `timestamp=`, or declare `OutputPort(..., timestamp=...)` upstream"
        raise RidgelineError(f"{what}, but {shorten(tuples.rows[int(missing[0])])} has none; {remedy}")
    if bool(np.all(times.newest[1:] >= times.newest[:-1])):
        return (tuples,)
    return (tuples.take(np.argsort(times.newest, kind="stable")),)
