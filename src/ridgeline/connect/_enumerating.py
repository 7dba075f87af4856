"""The enumerator of a `PartitionedInput`: which records of which source partitions a window reads."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from ridgeline.api.enumerator import Enumerator, EnumeratorContext
from ridgeline.api.errors import RidgelineError, did_you_mean, listed
from ridgeline.api.support.duration import parse_duration
from ridgeline.connect._watching import Seen, Watching
from ridgeline.connect.outage import Outage
from ridgeline.connect.reader import Lost
from ridgeline.connect.source import Amount, Begin, Position, Source, SourceContext

if TYPE_CHECKING:
    from ridgeline.connect.partitioned_input import PartitionedInput

_FIRST_ANSWER_SECONDS = 10.0
"""How long the start of a run waits for the first answer of the source."""


def begin_of(value: Any) -> Begin | dict[str, Position]:
    """The property `begin` as a value. Raises ValueError for a text that is no time."""
    if isinstance(value, Mapping):
        return dict(value)
    if value is None:
        return "earliest"
    if value in ("earliest", "latest"):
        return value
    at = value if isinstance(value, datetime) else datetime.fromisoformat(str(value))
    return at if at.tzinfo else at.replace(tzinfo=UTC)


class PartitionedEnumerator(Enumerator):
    """Divides what a source has into windows.

    The offset of a window has these values. `at`: the number and the position, at its end, of each source
    partition. `new`: where those begin that it is the first to have. `idle`: those that have had nothing new
    for a while. `count`: how many there were so far. `records`, `bytes`: how much was read up to its end.
    `ahead`: how many records and bytes were left. `until`: where they end, with `until="end"`. `memory`: what
    the source keeps of those that are closed. `ended`: all is read.
    """

    def __init__(self, source: Source, operator: PartitionedInput[Any]) -> None:
        self._source, self._operator = source, operator
        begin = begin_of(operator.begin)
        self._ends = operator.until is not None and not source.ends_itself
        """Whether all ends with what was there when the run began."""
        self._given: dict[str, Position] = begin if isinstance(begin, dict) else {}
        every = parse_duration(operator.discover_every)
        self._watching = Watching(source, every, "earliest" if isinstance(begin, dict) else begin)
        self._lost = self._said_lost = 0
        """Records that were gone before a committed window read them; how many of them were said."""
        self._last_lost = ""

    def open(self, context: EnumeratorContext, offset: Any) -> None:
        """Connect to the source, and wait a while for its answer. Raises what the source does."""
        self._context = context
        self._closed: dict[str, int] = {}
        """The source partitions that a window has closed, and which one. The source may still list them."""
        self._committed = -1
        self._connections = 0
        """Those of the source when it was asked last what it remembers."""
        self._news: dict[str, float] = {}
        """When each source partition had something new last."""
        self._unknown = Outage(context.clock, self._source.silent_seconds)
        """Windows wait since ends are not known."""
        self._losing = Outage(context.clock)
        self._watching.start(
            self._surroundings(context, offset),
            context.wake,
            {} if offset is None else _positions(offset),
            fresh=offset is None,
            seconds=_FIRST_ANSWER_SECONDS,
        )

    def _surroundings(self, context: EnumeratorContext, offset: Any) -> SourceContext:
        """Those of the source, which continues at this offset."""
        return SourceContext(
            context.application,
            context.operator,
            context.run_id,
            context.clock,
            self._watching.ask_at_once,
            self._watching.say,
            context.staging,
            None if offset is None else offset.get("memory"),
            context.windows_kept,
        )

    def unreachable(self, context: EnumeratorContext, offset: Any, last: Any) -> str:
        """Ask the source. Raises what it does."""
        if offset is None or last is None:
            return ""
        self._source.open(self._surroundings(context, offset))
        try:
            return self._source.unreachable(_positions(offset), _positions(last), last.get("memory"))
        finally:
            self._source.close()

    def advance(self, window_id: int, start: Any) -> Any:
        """The end of the window. Raises what the source has raised."""
        self._closed = {name: window for name, window in self._closed.items() if window < window_id}
        for text in self._watching.take_texts():
            self._context.warn(text)
        self._mention_losses()
        seen = self._watching.seen()
        if seen is None:
            return start
        at, new, count = self._followed(seen, start)
        until = self._until(seen, start)
        waits = until is None and self._ends
        self._mention_wait(seen, waits=waits)
        known = seen.ends if until is None else until
        ends = {name: known[name] for name in at if name in known}
        read, ahead = self._read(at, ends, reads=not waits)
        offset: dict[str, Any] = {
            "at": {name: [number, read.get(name, position)] for name, (number, position) in at.items()},
            "count": count,
            "records": 0.0 if start is None else start["records"],
            "bytes": 0.0 if start is None else start["bytes"],
            "ahead": ahead,
            "idle": self._idle(at, ends),
            "ended": False,
        }
        for name, end in read.items():
            amount = self._source.amount(name, at[name][1], end)
            offset["records"] += amount.records
            offset["bytes"] += amount.bytes
        if new:
            offset["new"] = new
        if until is not None:
            offset["until"] = until
        memory = self._close(window_id, offset, ends, start, seen.connections)
        if memory is not None:
            offset["memory"] = memory
        finished = not waits and (seen.finished if until is None else True)
        left = any(name in ends and offset["at"][name][1] != ends[name] for name in offset["at"])
        offset["ended"] = finished and not left
        # whether a window before has closed or found some is nothing that a later one needs
        kept = {} if start is None else {key: start[key] for key in start.keys() - {"new", "closed"}}
        return start if offset == kept else offset

    def received(self, window_id: int, values: Sequence[Any]) -> None:
        """Containers say which records were gone, in a window that is committed."""
        for value in values:
            if isinstance(value, Lost):
                self._lost += value.records
                self._last_lost = value.text

    def _mention_losses(self, *, at_end: bool = False) -> None:
        """Say how many records are lost so far, at once and then once a minute while more are."""
        more, now = self._lost != self._said_lost, self._context.clock.monotonic()
        if more and (self._losing.goes_on(now) or at_end):
            self._said_lost = self._lost
            self._context.warn(
                f"`{self._context.operator}`: {self._lost:,} records so far were gone before a window read "
                f"them, and left out; the last ones: {self._last_lost}"
            )

    def committed(self, window_id: int, offset: Any) -> None:
        """Note how far all is committed."""
        closed = [name for name, window in self._closed.items() if self._committed < window <= window_id]
        self._committed = window_id
        if offset is not None:
            self._watching.committed(_positions(offset), closed)

    @property
    def problem(self) -> str:
        """Why the source does not answer."""
        return self._watching.problem

    def close(self) -> None:
        """End the thread and the connection."""
        self._mention_losses(at_end=True)
        self._watching.stop()

    def _followed(
        self, seen: Seen, start: Any
    ) -> tuple[dict[str, tuple[int, Position]], dict[str, Position], int]:
        """The source partitions at the window's start: number and position; those that are new; their count.

        Raises RidgelineError for a position of `begin` that belongs to no source partition.
        """
        at: dict[str, tuple[int, Position]] = {}
        new: dict[str, Position] = {}
        count = 0
        if start is not None:
            at = {name: (number, position) for name, (number, position) in start["at"].items()}
            count = start["count"]
        for name, (old, now) in seen.moved.items():
            if name in at and at[name][1] == old:
                new[name] = now
                at[name] = (at[name][0], now)
        for name in seen.gone:
            if name in at and self._source.mentions_new:
                self._mention_gone(name, at[name][1], seen.ends.get(name))
            at.pop(name, None)
        there = set(seen.names)
        self._closed = {
            name: window for name, window in self._closed.items() if window > self._committed or name in there
        }
        if start is None and (unknown := sorted(self._given.keys() - there)):
            what = f"`begin` gives a position of `{unknown[0]}`, which the source does not have"
            raise RidgelineError(f"`{self._context.operator}`: {what}; {did_you_mean(unknown[0], there)}")
        until = None if start is None else start.get("until")
        found = []
        for name in seen.names:
            if name in at or name in self._closed or name in seen.gone or name not in seen.starts:
                continue
            if until is not None and name not in until:
                continue
            position = seen.starts[name]
            if start is None and name in self._given:
                position = self._given[name]
            at[name] = (count, position)
            new[name] = position
            count += 1
            found.append(name)
        if start is not None and found and self._source.mentions_new:
            self._watching.say(f"reads new source partitions: {listed(found, 3)}")
        return at, new, count

    def _mention_gone(self, name: str, position: Position, end: Position) -> None:
        """Say that a source partition is not there any more. `end`: None if it is not known."""
        left = (
            "" if end == position else f"; it was read up to {position}, and what may have followed is lost"
        )
        self._watching.say(f"source partition `{name}` is gone{left}")

    def _until(self, seen: Seen, start: Any) -> dict[str, Position] | None:
        """Where each source partition ends, with `until="end"`: the ends when the run began.

        None as long as the source has not said all of them.
        """
        if not self._ends:
            return None
        if start is not None and "until" in start:
            found: dict[str, Position] = start["until"]
            return found
        if any(name not in seen.ends for name in seen.names):
            return None
        return {name: seen.ends[name] for name in seen.names}

    def _mention_wait(self, seen: Seen, *, waits: bool) -> None:
        """Say now and then, if nothing is read for long, which ends are not known."""
        if not waits:
            self._unknown.end()
        elif self._unknown.goes_on(self._context.clock.monotonic()):
            lacking = listed([name for name in seen.names if name not in seen.ends], 1)
            what = f"nothing is read until the end of source partition {lacking} is known"
            self._watching.say(f'{what}, since `until` is "end"')

    def _read(
        self,
        at: Mapping[str, tuple[int, Position]],
        ends: Mapping[str, Position],
        *,
        reads: bool,
    ) -> tuple[dict[str, Position], list[float]]:
        """Where the window ends, of the source partitions that it reads; records and bytes that are left."""
        waiting = {
            name: (at[name][1], self._source.limit(name, at[name][1], end))
            for name, end in ends.items()
            if at[name][1] != end
        }
        total, beside = self._source.total(waiting), self._source.waiting()
        # Where only bytes are known, a record counts as so many that both limits are reached at once.
        record_bytes = self._operator.window_bytes / self._operator.window_records
        records = max(1.0, min(self._operator.window_records, self._context.budget()))
        most = Amount(records, max(1.0, records * record_bytes))
        read = {name: end for name, (_, end) in waiting.items()} if reads else {}
        full = total.records > most.records or total.bytes > most.bytes
        if reads and full:
            order = dict(sorted(waiting.items(), key=lambda item: at[item[0]][0]))
            read = dict(self._source.divide(order, most, self._context.partitions()))
        taken = total
        if full or not reads:
            taken = self._source.total({name: (at[name][1], end) for name, end in read.items()})
        self.taken = max(taken.records, taken.bytes / record_bytes)
        left = total.records - taken.records, total.bytes - taken.bytes
        return read, [max(0.0, left[0]) + beside.records, max(0.0, left[1]) + beside.bytes]

    def _idle(self, at: Mapping[str, tuple[int, Position]], ends: Mapping[str, Position]) -> list[str]:
        """The source partitions that have had nothing new for `idle_after`: what waits is new, too."""
        seconds = self._operator.idle_seconds()
        if seconds is None or self._operator.lateness is None:
            return []
        now = self._context.clock.monotonic()
        before = self._news
        self._news = {
            name: before.get(name, now) if name in ends and ends[name] == position else now
            for name, (_, position) in at.items()
        }
        return sorted(name for name, last in self._news.items() if now - last >= seconds)

    def _close(
        self, window_id: int, offset: Any, ends: Mapping[str, Position], start: Any, connections: int
    ) -> Any:
        """Take out the source partitions that are read to their end and closed. Returns the memory."""
        at, first = offset["at"], start is None
        memory = None if first else start.get("memory")
        closed = [
            name
            for name, (_, position) in at.items()
            if ends.get(name) == position and name in ends and self._source.closes(name, position)
        ]
        if closed:
            offset["closed"] = {name: at.pop(name) for name in closed}
            self._closed.update(dict.fromkeys(closed, window_id))
        is_other = connections != self._connections
        if closed or first or is_other or "new" in offset or self._committed < 0:
            self._connections = connections
            memory = self._source.remember(memory, closed)
        return memory


def _positions(offset: Any) -> dict[str, Position]:
    """The positions of an offset, without the numbers."""
    return {name: position for name, (_, position) in offset["at"].items()}
