"""The progress of one operator: written by the thread that runs it, read by that of heartbeats."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from operator import length_hint
from typing import Any, NamedTuple

from ridgeline.api.clock import Clock
from ridgeline.api.columns.tuples import Tuples
from ridgeline.api.errors import shorten
from ridgeline.api.operator import InputOperator, Operator
from ridgeline.api.points import InputPoint, OutputPoint
from ridgeline.engine.exchange.key_counts import key_text
from ridgeline.measure.events import OperatorWindow, RunningOperator

_LONG_SECONDS = 5.0
"""A record that is processed for longer is shown."""
Handler = Callable[[Any], object]
"""A method that takes a tuple, or a batch, of an input port."""


class _Position(NamedTuple):
    """Where an operator is in its window.

    `part`: the port whose tuples are being processed, their number, and the iterator that yields them one by
    one (None: all at once). `before`: what had been emitted when these began. `runs`: all sequences of tuples
    that came, without the first `gone`. `begun`: the number of `runs` that have begun.
    """

    state: str
    queued: Mapping[str, int] = {}
    consumed: Mapping[str, int] = {}
    part: tuple[str, int, Iterator[object] | None] | None = None
    before: Mapping[str, int] = {}
    runs: Sequence[Tuples] = ()
    begun: int = 0
    gone: int = 0


class Running:
    """The running figures of one operator's window.

    Keeping them costs four clock readings a callback or batch and nothing a tuple.

    All methods but `figures` belong to the operator's thread. `figures` may be called from any thread at any
    moment: what it reads is replaced as a whole, never changed in place.
    """

    def __init__(
        self, operator_id: int, operator: Operator, outputs: Mapping[str, OutputPoint], clock: Clock
    ) -> None:
        self._id = operator_id
        self._operator = operator
        self._outputs = outputs
        self._clock = clock
        self._rows: Sequence[object] = ()
        self._seen: tuple[object, ...] = ()
        self._seen_at = 0.0
        self.held = 0.0
        """The work of an input that was emitted beyond a window's budget and waits for the next ones."""
        self.before: float | None = None
        """The work an input operator had done when its window began, in the first after it was restored."""
        self.wait()

    @property
    def compute_seconds(self) -> float:
        """Time in the callbacks that have returned."""
        return self._spent[0]

    def wait(self) -> None:
        """A window has begun in the container; the operator's turn has not come."""
        self._now = _Position("waiting")
        self._expected: dict[str, tuple[tuple[int, int], float, int]] = {}
        self._end_begun: float | None = None
        """Seconds that had been spent when `end_window` was called."""
        self._mark: dict[str, int] | None = None
        """The count of emitted tuples when the last tuple was done, where that is noted."""
        self._spent: tuple[float, float | None] = (0.0, None)
        """Seconds in callbacks that have returned, and when the one that runs was called."""
        self._cpu = 0.0
        """Processor time in them."""

    def begin(self, inputs: Mapping[str, Sequence[Tuples]]) -> None:
        """Its turn has come; these tuples wait per port, and are delivered in this order."""
        self.wait()
        self.streamed: dict[str, int] = {}
        """How many tuples have `arrived` per port."""
        queued = {port: sum(map(len, parts)) for port, parts in inputs.items()}
        runs = [part for parts in inputs.values() for part in parts]
        self._now = _Position("running", queued, dict.fromkeys(queued, 0), runs=runs)

    def arrived(self, port: str, tuples: Tuples) -> None:
        """One more sequence of tuples has come, after all before were processed: these need not be kept."""
        now, count = self._now, len(tuples)
        self.streamed[port] = self.streamed.get(port, 0) + count
        queued = {**now.queued, port: now.queued[port] + count}
        gone = now.gone + len(now.runs)
        self._now = now._replace(queued=queued, runs=[tuples], begun=0, gone=gone)

    def end(self) -> None:
        """It has done its window, or failed in it."""
        if self._now.state == "running":
            self._now = self._now._replace(state="done", part=None, before=self._pending(), runs=())

    def callback(self) -> _Callback:
        """A callback runs within the block."""
        return _Callback(self, self._clock)

    def part(self, port: str, size: int, rows: Iterator[object] | None, of: Sequence[object] = ()) -> _Part:
        """A sequence of tuples is delivered within the block: one by one by an iterator, or all at once.

        `of`: what the iterator goes through.
        """
        now, self._rows = self._now, of
        part, begun = (port, size, rows), now.begun + 1
        self._now = _Position(
            now.state, now.queued, now.consumed, part, self._pending(), now.runs, begun, now.gone
        )
        return _Part(self, self._clock)

    def _delivered(self) -> None:
        """The sequence of tuples is processed."""
        self._mark = None
        now = self._now
        if now.part is not None:
            port, size, _ = now.part
            consumed = {**now.consumed, port: now.consumed[port] + size}
            self._now = now._replace(consumed=consumed, part=None)

    @property
    def end_seconds(self) -> float:
        """Seconds in `end_window`, once it has returned."""
        return self.compute_seconds - self._end_begun if self._end_begun is not None else 0.0

    def report(self, window: OperatorWindow) -> None:
        """Fill in what the callbacks took."""
        window.compute_seconds, window.end_seconds = self.compute_seconds, self.end_seconds
        window.cpu_seconds = self._cpu

    def ending(self) -> None:
        """All tuples are processed: `end_window` is called next."""
        self._end_begun = self.compute_seconds

    def expect(self, port: str, remaining: float) -> None:
        """The operator reports how many tuples are still to come at a port for what it processes now."""
        if port in self._outputs:
            self._expected = {
                **self._expected,
                port: (self._place(), float(remaining), self._outputs[port].pending),
            }

    def _place(self) -> tuple[int, int]:
        """Which sequence of tuples is being processed, and how many of its tuples are to follow."""
        now = self._now
        return now.gone + now.begun, length_hint(now.part[2]) if now.part is not None and now.part[
            2
        ] is not None else 0

    def _to_come(self) -> dict[str, float]:
        """The tuples that the operator still expects to emit for the one that is being processed."""
        place, found = self._place(), {}
        for port, (said_of, remaining, emitted) in self._expected.items():
            if said_of == place:
                found[port] = (
                    remaining
                    if remaining < 0
                    else max(0.0, remaining - (self._outputs[port].pending - emitted))
                )
        return found

    def marking(self, handler: Handler) -> Handler:
        """Wrap a method for one tuple: note the output after each call; later output is the next tuple's."""

        def marked(one: object) -> None:
            handler(one)
            self._mark = self._pending()

        self._mark = self._pending()
        return marked

    def figures(self) -> RunningOperator:
        """Its progress, as a heartbeat reports it."""
        now, mark, (seconds, since) = self._now, self._mark, self._spent
        state, queued, done, part, before, *_ = now
        produced = self._pending() if state == "running" else dict(before)
        consumed, active, finished = dict(done), 0, 0
        active_produced: dict[str, int] = {}
        work = None
        if isinstance(self._operator, InputOperator) and state in {"running", "done"}:
            work = self.work()
            if state == "running":
                active, active_produced, produced = 1, produced, {}
        elif part is not None:
            port, size, rows = part
            if rows is None:
                active = size
                active_produced = {name: count - before.get(name, 0) for name, count in produced.items()}
                produced = dict(before)
            else:
                active, finished = 1, max(0, size - length_hint(rows) - 1)
                if mark is not None:
                    active_produced = {name: count - mark.get(name, 0) for name, count in produced.items()}
                    produced = dict(mark)
                consumed[port] += finished
        lowest = _lowest_time(now, finished)
        waiting = {port: count - consumed[port] for port, count in queued.items()}
        if part is not None:
            waiting[part[0]] -= active
        spent, ending = (
            seconds + (self._clock.monotonic() - since if since is not None else 0.0),
            self._end_begun,
        )
        return RunningOperator(
            self._id,
            state,
            spent,
            consumed,
            waiting,
            active,
            produced,
            active_produced,
            self._to_come() if active else {},
            work=work,
            oldest_in_flight={} if lowest is None else dict.fromkeys(self._outputs, lowest),
            end_seconds=None if ending is None else max(0.0, spent - ending),
            before=None if work is None else self.before,
            callback_seconds=(still := self._still_seconds((now, finished, produced, active_produced, work))),
            record=self._record(part[0], self._rows[finished])
            if still >= _LONG_SECONDS and finished < len(self._rows) and part is not None
            else "",
        )

    def _record(self, port: str, row: object) -> str:
        """A record for people, with its key where its port has one. For the thread of heartbeats."""
        point: InputPoint[Any] | None = getattr(self._operator, port, None)
        codec = None if point is None else point.port.codec
        if point is None or codec is None:
            return shorten(row)
        return f"key `{key_text(codec, Tuples(point.schema, [row], None))}`, {shorten(row)}"

    def _still_seconds(self, place: tuple[object, ...]) -> float:
        """For how long it has been found at this place, within a callback. One thread: that of heartbeats."""
        monotonic = self._clock.monotonic()
        if self._spent[1] is None or not self._seen or self._seen[0] is not place[0] or self._seen != place:
            self._seen, self._seen_at = place, monotonic
        return monotonic - self._seen_at

    def _pending(self) -> dict[str, int]:
        return {name: point.pending for name, point in self._outputs.items()}

    def work(self) -> tuple[float, float | None] | None:
        """The progress that an input operator reports, else None: asking beside its callbacks must not fail.

        From any thread.
        """
        if not isinstance(self._operator, InputOperator):
            return None
        try:
            if (said := self._operator.progress()) is None:
                return None
            work = float(said[0]), None if said[1] is None else float(said[1])
            finite = math.isfinite(work[0]) and math.isfinite(work[1] or 0.0)
            return self.without_held(work) if finite else None
        except Exception:  # noqa: BLE001  asked again at the end of the window, where it counts
            return None

    def without_held(self, work: tuple[float, float | None]) -> tuple[float, float | None]:
        """The progress of an input, where a part of what it has emitted still waits."""
        consumed, remaining = work
        endless = remaining is None or remaining < 0
        return consumed - self.held, remaining if endless or remaining is None else remaining + self.held


class _Callback:
    """Takes the time of a block. A context manager made by a generator would cost more than what it times."""

    __slots__ = ("_clock", "_cpu", "_running", "_seconds", "_start")

    def __init__(self, running: Running, clock: Clock) -> None:
        self._running = running
        self._clock = clock

    def __enter__(self) -> None:
        running = self._running
        self._seconds = running._spent[0]  # noqa: SLF001  a part of it
        self._start = self._clock.monotonic()
        running._spent = (self._seconds, self._start)  # noqa: SLF001
        self._cpu = self._clock.cpu()

    def __exit__(self, _kind: object, error: BaseException | None, _trace: object) -> None:
        self._running._cpu += self._clock.cpu() - self._cpu  # noqa: SLF001
        spent = self._clock.monotonic() - self._start
        self._running._spent = (self._seconds + spent, None)  # noqa: SLF001


class _Part(_Callback):
    """The same of a sequence of tuples, which counts as processed if nothing was raised."""

    __slots__ = ()

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        super().__exit__(kind, error, trace)
        if error is None:
            self._running._delivered()  # noqa: SLF001


def _lowest_time(now: _Position, finished: int) -> float | None:
    """The lowest time (seconds since 1970) of records in flight: after `finished` in this batch, or later."""
    times = [run.times for run in now.runs[now.begun :]]
    if now.part is not None and now.runs and (present := now.runs[now.begun - 1].times) is not None:
        times.append(present.take(slice(finished, None)))
    spans = [span.oldest for some in times if some is not None and (span := some.span()) is not None]
    return min(spans) / 1e6 if spans else None
