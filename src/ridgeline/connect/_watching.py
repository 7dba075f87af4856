"""The thread that asks a source: which source partitions there are, and how far each one is."""

from __future__ import annotations

import contextlib
import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import NamedTuple

from ridgeline.api.clock import SystemClock
from ridgeline.api.errors import OperatorError, shorten
from ridgeline.connect.outage import Outage
from ridgeline.connect.source import Begin, Position, Source, SourceContext, SourceUnavailableError

_log = logging.getLogger(__name__)
RETRIED = (OSError, SourceUnavailableError)
_FIRST_PAUSE, _LONGEST_PAUSE = 0.1, 10.0
_GONE_AFTER = 3
"""A source partition that this many lists lack is gone."""
_LEAST_PAUSE = 0.002


class Seen(NamedTuple):
    """The last answer of a source.

    `starts`: where the source partitions begin that were never read. `gone`: those that are not listed any
    more. `moved`: the positions, before and now, that the source has replaced. `connections`: how many it has
    had in this run.
    """

    names: Sequence[str]
    ends: Mapping[str, Position]
    starts: Mapping[str, Position]
    finished: bool
    gone: Sequence[str]
    moved: Mapping[str, tuple[Position, Position]]
    connections: int = 1


class _Listing:
    """The source partitions that a source lists, and where those begin that were never read."""

    def __init__(self, source: Source, begin: Begin, every: float) -> None:
        self._source, self._begin, self._every = source, begin, every
        self.looked: float | None = None
        """When it asked last."""
        self.names: list[str] = []
        self.starts: dict[str, Position] = {}
        self._known: set[str] = set()
        self._missing: dict[str, int] = {}
        self._fresh = True

    def begin(self, known: Mapping[str, Position], *, fresh: bool) -> None:
        """These have a position. `fresh`: nothing was ever read."""
        self._known, self._fresh, self.looked = set(known), fresh, None
        self.names = sorted(known)  # those that went while no run was there are missed, too

    def is_due(self, now: float) -> bool:
        """Whether it is time to ask."""
        return self.looked is None or now - self.looked >= self._every

    @property
    def gone(self) -> tuple[str, ...]:
        """Those that have not been listed for a while."""
        return tuple(name for name, count in self._missing.items() if count >= _GONE_AFTER)

    def look(self) -> bool:
        """Ask the source. True if it has new ones."""
        found = set(self._source.partitions())
        missing = {*self.names, *self._missing} - found
        self._missing = {name: self._missing.get(name, 0) + 1 for name in missing}
        lost = {name for name, count in self._missing.items() if count < _GONE_AFTER}
        new = sorted(found - self._known)
        if new:
            begins = self._source.start(new, self._begin if self._fresh else "earliest")
            self.starts.update(begins)
            self._known.update(begins)
        self._fresh = False
        self.names = sorted(found | lost)
        self._known &= found | lost
        self.starts = {name: at for name, at in self.starts.items() if name in self._known}
        return bool(new)


class _Answers:
    """When a source has answered last, and what is to be said of one that does not."""

    def __init__(self, silent_seconds: float) -> None:
        self._silent_seconds = silent_seconds
        self._clock = SystemClock()
        self._outage = Outage(self._clock)
        self._last = self._clock.monotonic()
        self._error: str | None = None

    def monotonic(self) -> float:
        """The time of now."""
        return self._clock.monotonic()

    @property
    def _is_silent(self) -> bool:
        return self.monotonic() - self._last >= self._silent_seconds

    @property
    def problem(self) -> str:
        """The last error, or that there is no answer; empty while it answers."""
        if self._error is not None:
            return self._error
        return "no answer" if self._is_silent else ""

    def came(self) -> str:
        """It has answered. Returns a text if it was said that it does not, else an empty one."""
        self._last, self._error = self.monotonic(), None
        lasted = self._outage.end()
        return "" if lasted is None else f"the source answers again, after {lasted:.0f} s; nothing was lost"

    def failed(self, error: Exception) -> str:
        """It cannot be reached. Returns a text, an empty one if that was said in the last minute."""
        self._error = shorten(error)
        return self._text("cannot be reached since {}: " + self._error, self.monotonic())

    def silence(self) -> str:
        """A text if it has not answered for long, without an error, and that was not said lately."""
        if self._error is not None or not self._is_silent:
            return ""
        return self._text("has not answered since {}", self._last)

    def _text(self, what: str, since: float) -> str:
        if not self._outage.goes_on(since):
            return ""
        lasts = self.monotonic() - (self._outage.since or since)
        began = datetime.fromtimestamp(self._clock.wall() - lasts, UTC)
        text = what.replace("{}", f"{began:%H:%M:%S} UTC")
        return f"the source {text}; it is asked again and again, and nothing is lost"


class Watching:
    """Asks a source in a thread of its own, and keeps what it said last."""

    def __init__(self, source: Source, discover_every: float, begin: Begin) -> None:
        self.source = source
        self._listing = _Listing(source, begin, discover_every)
        self._lock = threading.Lock()
        self._asked = threading.Event()
        self._first = threading.Event()
        self._stop = threading.Event()
        self._seen: Seen | None = None
        self._texts: list[str] = []
        self._error: Exception | None = None
        self._committed: Mapping[str, Position] = {}
        self._said_committed: Mapping[str, Position] = {}
        self._forgotten: list[str] = []
        self._answers = _Answers(source.silent_seconds)
        self._thread: threading.Thread | None = None

    def start(
        self,
        context: SourceContext,
        wake: Callable[[], None],
        positions: Mapping[str, Position],
        *,
        fresh: bool,
        seconds: float,
    ) -> None:
        """Begin to ask, and wait `seconds` at most for the first answer.

        `fresh`: nothing was ever read. Otherwise source partitions that have no position are new, and begin
        with their earliest record. Raises what the source does.
        """
        self._context = context
        self._wake = wake
        self._listing.begin(positions, fresh=fresh)
        self._committed = dict(positions)
        self._said_committed = dict(positions)
        self._moved: dict[str, tuple[Position, Position]] = {}
        self._connected, self._connections = False, 0
        self._thread = threading.Thread(target=self._run, name="ridgeline-source", daemon=True)
        self._thread.start()
        self._first.wait(seconds)
        self._raise()

    def seen(self) -> Seen | None:
        """The last answer of the source; None if it has not answered yet. Raises what it raised."""
        self._raise()
        with self._lock:
            return self._seen

    @property
    def problem(self) -> str:
        """Why the source does not answer; empty while all is well."""
        return self._answers.problem

    def take_texts(self) -> list[str]:
        """Return, once, the texts that are to be shown to the user."""
        if text := self._answers.silence():
            self.say(text)
        with self._lock:
            texts, self._texts = self._texts, []
        return texts

    def say(self, text: str) -> None:
        """Have a text shown. From any thread."""
        with self._lock:
            self._texts.append(f"`{self._context.operator}`: {text}")

    def ask_at_once(self) -> None:
        """There is something new. From any thread."""
        self._asked.set()

    def committed(self, positions: Mapping[str, Position], closed: Sequence[str]) -> None:
        """Pass on how far all is committed, and which source partitions that closes; the thread does."""
        with self._lock:
            self._committed = positions
            self._forgotten.extend(closed)
        self._asked.set()

    def stop(self) -> None:
        """End the thread, and close the source."""
        self._stop.set()
        self._asked.set()
        if self._thread is not None:
            self._thread.join(30.0)
            self._thread = None

    def _raise(self) -> None:
        if self._error is not None:
            raise self._error

    # In the thread ------------------------------------------------------------------------------------------

    def _run(self) -> None:
        """Ask until `stop`, with growing pauses while the source is away. A fault is kept for `seen`."""
        pause = _FIRST_PAUSE
        while not self._stop.is_set():
            try:
                self._round()
                if text := self._answers.came():
                    self.say(text)
                pause = _FIRST_PAUSE
            except RETRIED as error:
                if text := self._answers.failed(error):
                    self.say(text)
                    self._wake()
                self._disconnect()
                self._stop.wait(pause)
                pause = min(2 * pause, _LONGEST_PAUSE)
            except Exception as error:  # noqa: BLE001  it ends the run, in the thread of windows
                self._error = error
                self._first.set()
                self._wake()
                break
        try:
            with contextlib.suppress(*RETRIED, OperatorError):
                self._say_committed()
        finally:
            self._disconnect()
            self._let_go(self.source.stop)

    def _disconnect(self) -> None:
        self._connected = False
        self._listing.looked = None
        self._let_go(self.source.close)

    def _let_go(self, close: Callable[[], None]) -> None:
        try:
            close()
        except Exception:  # noqa: BLE001  of a connection that may be broken
            _log.exception("closing a source failed")

    def _round(self) -> None:
        """Ask once, and wait until the next time. Raises what the source does."""
        source, began = self.source, self._answers.monotonic()
        if not self._connected:
            source.open(self._context)
            self._resume()
            self._connected = True
            self._connections += 1
        self._say_committed()
        finished = source.finished()
        listing, before = self._listing, self._seen
        hurries = before is None
        if finished or source.has_new() or listing.is_due(began):
            hurries = listing.look() or hurries
            listing.looked = began
        self._asked.clear()
        ends = dict(source.ends(0.0 if hurries else source.poll_seconds))
        seen = Seen(
            tuple(listing.names),
            ends,
            dict(listing.starts),
            finished,
            listing.gone,
            dict(self._moved),
            self._connections,
        )
        if seen != before:
            with self._lock:
                self._seen = seen
            self._wake()
            self._first.set()
            self._asked.wait(_LEAST_PAUSE)
        else:
            left = source.poll_seconds - (self._answers.monotonic() - began)
            self._asked.wait(max(_LEAST_PAUSE, left))

    def _resume(self) -> None:
        """Let the source look whether it has all after the committed positions. Raises what it does."""
        with self._lock:
            positions = dict(self._committed)
        if positions:
            now = self.source.resume(positions)
            changed = {name: (old, now[name]) for name, old in positions.items() if now[name] != old}
            self._moved = {**self._moved, **changed}

    def _say_committed(self) -> None:
        with self._lock:
            positions, closed = self._committed, list(self._forgotten)
        if closed:
            self.source.forget(closed)
            with self._lock:
                del self._forgotten[: len(closed)]
        if positions != self._said_committed:
            self.source.committed(positions)
            self._said_committed = positions
