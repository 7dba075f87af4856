"""One input operator: reports of its partitions, or of the whole source, as samples of one backlog."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from ridgeline.measure.events import SourceAsked, SourceProgress, SourceTaken
from ridgeline.measure.progress.backlog import Arrivals, BacklogState, SourceBacklog, seconds_of
from ridgeline.measure.progress.estimate import UNKNOWN, Basis, Estimate, total

_RATE_SECONDS = 5.0
_LEAST_SPAN_SECONDS = 1.0
"""Answers may come late, as when a process starts: no rate is taken of closer ones."""


@dataclass(slots=True)
class _Partition:
    """One partition of an input: amounts are cumulative, times are STRAM's clock."""

    committed: float | None = None
    taken: dict[int, float] = field(default_factory=dict)
    """By window in flight, what it has taken by its end."""
    at: float = -math.inf
    consumed: float | None = None
    remaining: float | None = None
    silent: bool = False
    """It has said only what was consumed since: arrivals go on for a while only."""
    polls: bool = False
    """It was seen to know of arrivals between its windows."""
    arrivals: Arrivals = field(default_factory=lambda: Arrivals(_RATE_SECONDS))

    def answer(self, at: float, consumed: float | None, remaining: float | None, *, looked: bool) -> None:
        """It was asked. An answer that is older than the last one is left out, and one without an amount.

        `looked`: it has had a window since, so an equal answer says that nothing has arrived.
        """
        self.silent = remaining is None and self.arrivals.amount is not None
        if at < self.at or self.silent:
            return
        arrived = _sum(consumed, remaining)
        if consumed == self.consumed and arrived is not None:
            self.polls = self.polls or remaining != self.remaining
            if not self.polls and not looked:
                return
        self.at, self.consumed, self.remaining = at, consumed, remaining
        if arrived is not None:
            self.arrivals.add(at, consumed or 0.0, arrived)

    @property
    def known(self) -> bool:
        """A window in flight or committed was reported."""
        return bool(self.taken) or self.committed is not None

    def held(self, window_id: int) -> float:
        """The records that a window in flight holds."""
        before = max(
            [self.committed or 0.0, *(one for number, one in self.taken.items() if number < window_id)]
        )
        return max(0.0, self.taken.get(window_id, 0.0) - before)

    def processed(self, done: Mapping[int, float]) -> float:
        """The records processed. `done`: by window in flight, which part of what it holds is."""
        held = (self.held(number) * done.get(number, 0.0) for number in self.taken)
        return (self.committed or 0.0) + sum(held)

    def arrived(self, now: float | None) -> Estimate:
        """All that has arrived by `now`; None: by the last answer, so that it is exact."""
        amount = _sum(self.consumed, self.remaining)
        if amount is None or math.isinf(amount):
            return Estimate(amount)
        since = 0.0 if now is None else now - self.at
        rate = self.arrivals.rate(self.at - _RATE_SECONDS, _LEAST_SPAN_SECONDS) if since > 0 else 0.0
        if self.silent and since > _RATE_SECONDS:
            return Estimate(amount + (rate or 0.0) * _RATE_SECONDS, Basis.LOWER_BOUND)
        if rate is None:
            return Estimate(amount, Basis.LOWER_BOUND if since > _RATE_SECONDS else Basis.ESTIMATED)
        if not rate:
            return Estimate(amount)
        return Estimate(amount + rate * since, Basis.ESTIMATED)


def _sum(consumed: float | None, remaining: float | None) -> float | None:
    """The records that have arrived; negative `remaining` is infinite."""
    if consumed is None or remaining is None or math.isnan(remaining) or math.isnan(consumed):
        return None
    return math.inf if remaining < 0 else consumed + remaining


ASKED_SECONDS = 10.0
"""How long an answer of a source wins over what a window reports of it at its end."""
_ALMOST = 0.95
_BETWEEN_SECONDS = 0.4
"""Time between two samples while a window runs."""


@dataclass(frozen=True, slots=True)
class Done:
    """The work of windows in flight.

    `parts`: by window, which part of it is processed. `late`: they are or will be. `silent`: a window that
    has just got its turn, and since when, seconds: until a heartbeat says more its rate is that of the
    others.
    """

    parts: Mapping[int, float]
    late: bool
    silent: tuple[int, float] | None = None


@dataclass(slots=True)
class SourceLevel:
    """Brings together what the partitions of one input operator report, or the whole source.

    `backlog` follows their sum. It includes records that windows in flight have taken and not processed.
    """

    backlog: SourceBacklog
    partitions: tuple[int, ...] = ()
    unit: str | None = None
    bytes: Estimate = UNKNOWN
    latest: dict[int, SourceProgress] = field(default_factory=dict)
    waiting: bool = False
    """Partitions have reported and no sample was made of it."""
    problem: str = ""
    """Why it cannot be asked."""
    asked_at: float = -math.inf
    """Of a source that is asked beside the windows: when it answered last.

    The ends of windows are no samples then.
    """
    taken: float = 0.0
    """The records that windows have taken of a source that is asked, processed or not."""
    window_ended: bool = True
    paced: bool = False
    """It holds back records that are not due: these are no backlog."""
    _books: dict[int, _Partition] = field(default_factory=dict)
    """Of a Python input, by partition what it has said."""
    _counted: float | None = None
    _sampled_at: float = -math.inf
    _counted_at: float = -math.inf
    """When the last sample was that counts for the trend: close ones would only be noise."""

    def repartition(self, partitions: tuple[int, ...]) -> None:
        """Others report from now on; the backlog stays, and so do reports of a whole source."""
        self.partitions = partitions
        self.waiting = False
        self.latest = {
            one: report for one, report in self.latest.items() if report.whole or one in partitions
        }
        self._books = {one: kept for one, kept in self._books.items() if one in partitions}

    @property
    def whole(self) -> bool:
        """The whole source reports, not its partitions."""
        return any(report.whole for report in self.latest.values())

    def add(self, event: SourceProgress) -> bool:
        """Take in what a committed window says of a partition or of the whole source.

        True if a sample is to be made of it: all partitions have reported for the window.
        """
        self._of(event)
        if event.whole:
            self.latest = {event.operator: event}
        else:
            self.latest = {one: report for one, report in self.latest.items() if not report.whole} | {
                event.operator: event
            }
            book = self._book(event.operator)
            book.committed = event.consumed
            book.taken = {one: taken for one, taken in book.taken.items() if one > event.window_id}
            book.answer(event.asked or event.at, event.consumed, event.remaining, looked=True)
        self.waiting = True
        return event.whole or all(
            one in self.latest and self.latest[one].window_id == event.window_id for one in self.partitions
        )

    def _of(self, event: SourceProgress | SourceTaken) -> None:
        """Note what it counts. A last tuple has just come where few do: it is no backlog."""
        self.unit, self.paced = event.unit, event.paced
        self.backlog.fewest = 1.0 if event.unit == "tuples" else 0.0

    def ahead(self, event: SourceTaken, *, takes: bool) -> None:
        """Take in what a partition has taken by now. `takes`: in its last window, which is in flight."""
        self._of(event)
        taken_by = event.window_id if takes else None
        self.report(event.operator, event.asked, (event.consumed, event.remaining), taken_by, event.before)

    def report(
        self,
        partition: int,
        at: float,
        work: tuple[float | None, float | None],
        taken_by: int | None,
        before: float | None,
    ) -> None:
        """A partition has said what it has consumed, and what remains.

        `taken_by`: the window in flight by whose end it had consumed that. `before`: by its begin, where that
        is known. All of it was committed by a run before.
        """
        book = self._book(partition)
        if taken_by is not None and work[0] is not None:
            book.taken[taken_by] = work[0]
            book.committed = before if book.committed is None else book.committed
        book.answer(at, *work, looked=False)

    def void(self, first: int) -> None:
        """Windows from this one on begin again: reports of them do not count."""
        for book in self._books.values():
            book.taken = {number: taken for number, taken in book.taken.items() if number < first}

    def _book(self, partition: int) -> _Partition:
        return self._books.setdefault(partition, _Partition())

    @property
    def taken_ahead(self) -> float:
        """The records that windows in flight hold, processed or not."""
        return sum(
            max(0.0, max(one.taken.values()) - (one.committed or 0.0))
            for one in self._books.values()
            if one.taken
        )

    def consumed(self, done: Mapping[int, float]) -> tuple[float | None, bool]:
        """The records processed, and whether that is counted. `done`: as in `Done.parts`."""
        books = [self._books.get(partition) for partition in self.partitions]
        known = [book for book in books if book is not None and book.known]
        if len(known) < len(books):
            return None, False
        counted = not any(book.held(number) for book in known for number in book.taken)
        return sum(book.processed(done) for book in known), counted

    def _arrived(self, now: float | None) -> Estimate:
        """All that has arrived, of all partitions."""
        books = (self._books.get(partition) for partition in self.partitions)
        return total(UNKNOWN if book is None else book.arrived(now) for book in books)

    def flush(self, at: float, done: Done) -> None:
        """Make a sample of what committed windows have reported."""
        self.waiting = False
        reports = [self.latest.get(one) for one in ([*self.latest] if self.whole else self.partitions)]
        consumed = [None if report is None else report.consumed for report in reports]
        self.bytes = total(amount(None if report is None else report.remaining_bytes) for report in reports)
        known = [value for value in consumed if value is not None]
        counted = sum(known) if len(known) == len(consumed) else None
        before, self._counted = self._counted, counted if counted is not None else self._counted
        # A sum over partitions may fall by rounding alone.
        restarted = before is not None and counted is not None and counted < before * (1 - 1e-9)
        if at - self.asked_at <= ASKED_SECONDS:
            return
        if self.whole:
            remaining = total(amount(None if report is None else report.remaining) for report in reports)
            self.backlog.add(at, counted, remaining, restarted=restarted)
            self.backlog.arrived(at, _sum(counted, remaining.value))
        else:
            self._sample(at, done, restarted=restarted)

    def is_due(self, at: float, *, again: bool = False) -> bool:
        """True if a further sample of a window that runs would say more, or `again` what was just said."""
        # The time first: each heartbeat asks all sources, and the rest looks at all partitions.
        return (again or at - self._sampled_at >= _BETWEEN_SECONDS) and self._is_followed(at)

    def _is_followed(self, at: float) -> bool:
        """True if its partitions report, and it is not asked as a whole."""
        return (
            (bool(self.latest) or any(book.known for book in self._books.values()))
            and not self.whole
            and at - self.asked_at > ASKED_SECONDS
        )

    @property
    def seen_late(self) -> bool:
        """True if windows are late, and its backlog was judged with what these hold."""
        return self.backlog.late and self._is_followed(self._sampled_at)

    def follow(self, at: float, done: Done) -> None:
        """A running window has reported: make a sample.

        None is made before a report of the records that a window holds which has just got its turn.
        """
        if done.silent is not None and not all(
            partition in self._books and done.silent[0] in self._books[partition].taken
            for partition in self.partitions
        ):
            return
        self._sample(at, done, counts=done.late)

    def _sample(self, at: float, done: Done, *, counts: bool = True, restarted: bool = False) -> None:
        """Make a sample. Until the next window is due, what arrives waits in any application."""
        counts = counts and (restarted or not done.late or at - self._counted_at >= _BETWEEN_SECONDS)
        if counts:
            self._counted_at = at
        self._sampled_at = at
        consumed, remaining = self._amounts(at, done, by_now=done.late or not counts)
        self.backlog.add(at, consumed, remaining, counts=counts, late=done.late, restarted=restarted)
        as_of = min((book.at for book in self._books.values()), default=-math.inf)
        self.backlog.arrived(as_of, self._arrived(None).value)

    def _amounts(self, at: float, done: Done, *, by_now: bool) -> tuple[float | None, Estimate]:
        """The records processed, and those that wait by now, or by when the source was asked last."""
        parts = done.parts
        if done.silent is not None:
            window, seconds = done.silent
            held = sum(book.held(window) for book in self._books.values())
            if held > 0:
                parts = {
                    **parts,
                    window: min(_ALMOST, (self.backlog.drain_per_second or 0.0) * seconds / held),
                }
        consumed, counted = self.consumed(parts)
        arrived = self._arrived(at if by_now else None)
        if consumed is None or arrived.value is None:
            reports = [self.latest.get(one) for one in self.partitions]
            return consumed, total(amount(None if one is None else one.remaining) for one in reports)
        if math.isinf(arrived.value):
            return consumed, arrived
        basis = arrived.basis if counted or arrived.basis is Basis.LOWER_BOUND else Basis.ESTIMATED
        return consumed, Estimate(max(0.0, arrived.value - consumed), basis)

    def state(self, now: float, done: Done | None) -> BacklogState:
        """The backlog, judged at `now`. While windows are late, it follows the heartbeats.

        `done`: the work of windows by now; None if none runs.
        """
        state = self.backlog.state(now)
        waits = state.backlog.value
        if (
            done is None
            or not self.backlog.late
            or not self._is_followed(now)
            or waits is None
            or math.isinf(waits)
        ):
            return state
        _, remaining = self._amounts(now, done, by_now=True)
        if not remaining.known:
            return state
        seconds = seconds_of(remaining, state.drain_per_second)
        return replace(state, backlog=remaining, seconds=seconds)

    def answer(self, event: SourceAsked, done: float, *, late: bool, known: bool = True) -> None:
        """The source was asked.

        `done`: which part of what the running window holds is processed; `late`: that window will be late;
        `known`: False if its work is unknown. While a window is in time only the first answer after its end
        counts for the trend. Until the next window is due, records wait anyway.
        """
        self.problem = event.problem
        if event.problem or event.waiting is None or event.taken is None:
            return
        self.unit = "records"
        self.asked_at = event.at
        if event.taken > self.taken:  # nothing of it can have been consumed before
            self.backlog.moved(event.at)
        self.taken = event.taken
        left = event.held * (1.0 - done)
        remaining = Estimate(event.waiting + left, Basis.ESTIMATED if event.held > 0 else Basis.EXACT)
        counts = known and (late or self.window_ended)
        self.backlog.add(event.at, event.taken - left, remaining, counts=counts, late=late)
        self.backlog.arrived(event.at, event.taken + event.waiting)
        self.window_ended = self.window_ended and not known

    def records(self, backlog: Estimate) -> Estimate:
        """The backlog if it is counted in records."""
        return backlog if self.unit == "records" else UNKNOWN


def amount(value: float | None) -> Estimate:
    """An amount as a source reports it: None is unknown, negative is infinite."""
    return UNKNOWN if value is None else Estimate(math.inf if value < 0 else value)
