"""The enumerator of an input with a `history`: that is read first, then the live source, from the seam on.

The offset of a window has these values. `history`, `live`: the offsets of both enumerators, of which a window
reads one only. `asks`: the history is read, and containers say the newest time that they have seen in it.
`seam`: None before the seam, then `from` and `newest`. Records of the live source before `from` are left out,
those up to `newest` are counted. Both are microseconds since 1970, or None. `passing`: positions up to which
the live source has records that the history should have. `done`, `left`, `ratio`:
records and bytes that are read and waiting, and how many a unit of the history has.
"""

from __future__ import annotations

import operator
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

from ridgeline.api.clock import Clock
from ridgeline.api.enumerator import Enumerator, EnumeratorContext
from ridgeline.api.times import NO_TIME
from ridgeline.connect._enumerating import PartitionedEnumerator
from ridgeline.connect.reader import Lost

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_LONG = timedelta(hours=1)
_FIRST_WORD_SECONDS, _NEXT_WORD_SECONDS = 10.0, 60.0
_Pair = list[float | None]


class AtSeam(NamedTuple):
    """A container says this of records at the seam.

    `newest`: the newest time of the history, if it is asked for it. `rows`, `bytes`: how much it has read of
    the history in the window. `early`: how many records of the live source were not after the seam; `later`:
    how many of the history were. `between`: how many of the live source were before the seam, and newer than
    all of the history.
    """

    newest: int | None = None
    rows: int = 0
    bytes: int = 0
    early: int = 0
    later: int = 0
    between: int = 0

    def plus(self, other: AtSeam) -> AtSeam:
        """The counts of both."""
        return AtSeam(self.newest, *map(operator.add, self[1:], other[1:]))


class Seam(NamedTuple):
    """How a history and a live source meet.

    `follows`: the live source begins after the newest record of the history. `at`: it begins at this time.
    `timed`: records of both have times. `margin`: a record may be so much newer than its source says.
    """

    follows: bool
    at: datetime | None
    timed: bool
    margin: timedelta


class HistoryEnumerator(Enumerator):
    """Lets windows read a history to its end, and then the live source, which is watched from the start."""

    def __init__(self, history: PartitionedEnumerator, live: PartitionedEnumerator, seam: Seam) -> None:
        self._history, self._live, self._seam = history, live, seam
        self._passed = False
        """The history is read, and was not opened."""
        self._plain = False
        """The application has begun without a history."""
        self._at_seam: Any = None

    def open(self, context: EnumeratorContext, offset: Any) -> None:
        """Connect to both, unless the history is read. Raises what they do."""
        self._context = context
        self._newest: int | None = None
        self._asked = False
        self._counts = _Counts(context.clock)
        self._plain = offset is not None and "history" not in offset
        self._passed = self._plain or (offset is not None and offset["seam"] is not None)
        if self._plain:
            context.warn(f"`{context.operator}`: its `history` is not read: it began without one")
            self._live.open(context, offset)
            return
        if not self._passed:
            self._live.wait(self._seam.at, self._seam.margin, follows=self._seam.follows)
            self._history.open(context, None if offset is None else offset["history"])
        self._live.open(context, None if offset is None else offset["live"])

    def advance(self, window_id: int, start: Any) -> Any:
        """The end of the window. Raises what the sources have raised."""
        if self._plain:
            return self._live.advance(window_id, start)
        self._at_seam = None if start is None else start["seam"]
        self._mention_seam(last=False)
        if start is not None and start["seam"] is not None:
            return self._after(window_id, start)
        if start is not None and start["asks"] and (found := self._passing(window_id, start)) is not None:
            return found
        before = start or {"history": None, "live": None, "asks": False, "ratio": None}
        live = self._live.divide(window_id, before["live"], {}, reads=False)
        if live is None:
            return start  # where it begins is not known yet: history that is read by then could be too much
        history = self._history.advance(window_id, before["history"])
        asks = history is not None and history["ended"]
        if start is not None and (history, live, asks) == (start["history"], start["live"], start["asks"]):
            return start
        offset = {"history": history, "live": live, "asks": asks, "seam": None}
        offset |= self._counts.of_history(start, history, live)
        if start is None:
            self._say("reads its history first")
        elif text := self._counts.foretold(offset):
            self._say(text)
        return offset

    def received(self, window_id: int, values: Sequence[Any]) -> None:
        """Containers say this of the seam, and of records that are gone, in a window that is committed."""
        if lost := [value for value in values if isinstance(value, Lost)]:
            self._live.received(window_id, lost)
        for value in (one for one in values if not isinstance(one, Lost)):
            if value.newest is not None:
                self._asked = True
                if value.newest != NO_TIME:
                    self._newest = max(value.newest, self._newest or value.newest)
            self._counts.add(value)

    def committed(self, window_id: int, offset: Any) -> None:
        """Pass on how far all is committed."""
        if self._plain or offset is None:
            self._live.committed(window_id, offset)
            return
        self._live.committed(window_id, offset["live"])
        if offset["seam"] is None:
            self._history.committed(window_id, offset["history"])
            self._counts.committed(offset["history"])
            if offset["asks"]:
                self._context.wake()
        elif not self._passed:
            self._passed = True
            self._history.close()

    @property
    def problem(self) -> str:
        """Why one of the sources does not answer."""
        return self._live.problem or ("" if self._passed else self._history.problem)

    def close(self) -> None:
        """Say what was not said yet of records at the seam, and end the threads and connections."""
        self._mention_seam(last=True)
        if not self._passed:
            self._history.close()
        self._live.close()

    def _passing(self, window_id: int, start: Any) -> Any:
        """The first window of the live source; None as long as it is not known where that begins."""
        if not self._asked:
            return None
        newest, at = self._newest, self._seam.at
        sought: Mapping[str, Any] = {}
        passing: Mapping[str, Any] = {}
        passed_over = 0
        if self._seam.follows:
            at = None if newest is None else _EPOCH + timedelta(microseconds=newest + 1)
        if self._seam.follows or at is not None:
            found = self._live.seek(at or _EPOCH + self._seam.margin)
            if found is None:
                return None
            sought, passing = (found[0] if self._seam.follows else {}), found[1]
        elif self._seam.timed and newest is not None:
            found = self._live.seek(_EPOCH + timedelta(microseconds=newest), only_looks=True)
            if found is None:
                return None
            passed_over = self._live.passed_over(start["live"], found[1])
        self._live.release()
        live = self._live.divide(window_id, start["live"], sought, {})
        first = None if at is None else round((at - _EPOCH) / timedelta(microseconds=1))
        seam = {"from": first, "newest": newest if self._seam.timed else None, "passing": dict(passing)}
        where = f"{at:%Y-%m-%d %H:%M:%S.%f} UTC" if at is not None else "its positions of the start"
        if at is None and self._seam.follows:
            where = "its earliest record"
        up_to = ", and has no record with a time" if self._seam.timed else ""
        up_to = up_to if newest is None else f", its newest record is of {_text(newest)}"
        left = self._counts.later
        if left:
            up_to += f", {left} records that are later were left to the live source"
        self._say(f"the history is read{up_to}; the live source continues from {where} on")
        if not self._seam.follows and at is not None and newest is not None and self._is_far(newest, at):
            what = f"neither gives records between {_text(newest)} and {at:%Y-%m-%d %H:%M:%S.%f} UTC"
            self._say(f"{what}; if there are some, give an earlier `begin`, or a history that has them")
        if passed_over:
            what = (
                f"{passed_over} records of the live source are before its positions of the start, and newer"
            )
            what += f" than {_text(newest or 0)}, where the history ends: they are not read"
            self._say(f"{what}; if the history lacks them, give an earlier `begin`")
        return self._counts.of_live(start, {"history": None, "live": live, "asks": False, "seam": seam})

    def _is_far(self, newest: int, at: datetime) -> bool:
        """Whether the history ends so long before the seam that the live source is not read there."""
        return at - (_EPOCH + timedelta(microseconds=newest)) > max(self._seam.margin, _LONG)

    def _after(self, window_id: int, start: Any) -> Any:
        """The end of a window behind the seam."""
        seam = start["seam"]
        if seam["passing"] and not self._live.behind(start["live"], seam["passing"]):
            seam = {**seam, "passing": {}}
        live = self._live.divide(window_id, start["live"], {}, seam["passing"] or None)
        if (live, seam) == (start["live"], start["seam"]):
            return start
        return self._counts.of_live(start, {**start, "live": live, "seam": seam})

    def _mention_seam(self, *, last: bool) -> None:
        """Say what was read twice or not at all, as far as it is known."""
        if self._at_seam is not None:
            for text in self._counts.at_seam(self._at_seam, last=last):
                self._say(text)

    def _say(self, text: str) -> None:
        self._context.warn(f"`{self._context.operator}`: {text}")


class _Counts:
    """Counts what is read and waiting of history and live source, in records and in bytes.

    A history of files counts in bytes, and a topic in records. How many records a byte has is estimated by
    what was read.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._rows = self._bytes = self._early = self._between = 0
        self._said_early = self._said_between = self.later = 0
        self._first: Any = None
        """The offset of the history before its first window in this run."""
        self._opened = False
        self._ratio: _Pair | None = None
        self._said = clock.monotonic() - _NEXT_WORD_SECONDS + _FIRST_WORD_SECONDS
        self._rate: tuple[float, float] | None = None

    def add(self, value: AtSeam) -> None:
        """A container has read this."""
        self._rows += value.rows
        self._bytes += value.bytes
        self._early += value.early
        self._between += value.between
        self.later += value.later

    def committed(self, history: Any) -> None:
        """Containers have said what they have read of the history up to here."""
        if history is None or not self._opened:
            return
        place = _unit(history)
        units = _consumed(history)[place] - _consumed(self._first)[place]
        if units > 0 and self._rows:
            self._ratio = [self._rows / units, self._bytes / units]

    def at_seam(self, seam: Any, *, last: bool = False) -> Iterator[str]:
        """Texts, once a minute while there are more: records that are read once too often, or not at all."""
        now = self._clock.monotonic()
        new = (self._early, self._between) != (self._said_early, self._said_between)
        waits = (
            not last and (self._said_early or self._said_between) and now - self._said < _NEXT_WORD_SECONDS
        )
        if not new or waits:
            return
        before, self._said = (self._said_early, self._said_between), now
        self._said_early, self._said_between = self._early, self._between
        if self._early != before[0] and seam["from"] is None:
            what = f"are not newer than {_text(seam['newest'])}, the newest one of the history: "
            what += "if it has them, they were read twice"
            yield f"{self._early} records of the live source so far {what}"
        elif self._early != before[0]:
            what = f"are older than {_text(seam['from'])}, where the history ends, and were left out"
            yield f"{self._early} records of the live source so far {what}: they are read only if it has them"
        if self._between != before[1]:
            what = f"are older than {_text(seam['from'])} and newer than all of the history, which ends at "
            what += f"{_text(seam['newest'])}: they are not read; give an earlier `begin`, or none"
            yield f"{self._between} records of the live source so far {what}"

    def of_history(self, start: Any, history: Any, live: Any) -> dict[str, Any]:
        """Add what is done and left, in a window that reads the history."""
        before = None if start is None else start["history"]
        if not self._opened:
            self._opened, self._first = True, before
        ratio = self._ratio or (None if start is None else start["ratio"])
        done: _Pair = [0.0, 0.0] if start is None else list(start["done"])
        left: _Pair = [None, None]
        if history is not None:
            place, ahead = _unit(history), history["ahead"]
            for one in (0, 1):
                read = _consumed(history)[one] - _consumed(before)[one]
                rest: float | None = ahead[one]
                if one != place and not rest and not _consumed(history)[one]:
                    factor = None if ratio is None else ratio[one]
                    units = _consumed(history)[place] - _consumed(before)[place]
                    read = (factor or 0.0) * units
                    rest = 0.0 if not ahead[place] else None if factor is None else factor * ahead[place]
                done[one] = (done[one] or 0.0) + read
                left[one] = None if rest is None else rest + live["ahead"][one]
        return {"done": done, "left": left, "ratio": ratio}

    def of_live(self, start: Any, offset: dict[str, Any]) -> dict[str, Any]:
        """The offset with what is done and left, in a window that reads the live source."""
        live, before = _consumed(offset["live"]), _consumed(start["live"])
        done = [start["done"][one] + live[one] - before[one] for one in (0, 1)]
        return {**offset, "done": done, "left": list(offset["live"]["ahead"]), "ratio": None}

    def foretold(self, offset: Any) -> str:
        """A text once a minute: how much of the history is read, and when it ends."""
        history, now = offset["history"], self._clock.monotonic()
        if history is None:
            return ""
        place = _unit(history)
        done, left = _consumed(history)[place], history["ahead"][place]
        if self._rate is None:
            self._rate = now, done
        if now - self._said < _NEXT_WORD_SECONDS or not left:
            return ""
        since, first = self._rate
        self._said, self._rate = now, (now, done)
        rate = (done - first) / (now - since) if now > since else 0.0
        if rate <= 0:
            return ""
        ends = datetime.fromtimestamp(self._clock.wall() + left / rate, UTC)
        share = 100 * done / (done + left)
        return f"{share:.0f} % of the history are read; it ends at about {ends:%Y-%m-%d %H:%M:%S} UTC"


def _unit(history: Any) -> int:
    """A history counts in records (0) or in bytes (1)."""
    return 0 if history["records"] or history["ahead"][0] else 1


def _consumed(offset: Any) -> tuple[float, float]:
    return (0.0, 0.0) if offset is None else (offset["records"], offset["bytes"])


def _text(time: int) -> str:
    return f"{_EPOCH + timedelta(microseconds=time):%Y-%m-%d %H:%M:%S.%f} UTC"
