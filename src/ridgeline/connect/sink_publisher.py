"""The publisher of connectors: it gives committed segments to the thread that writes them.

Only the commit names segments, and only committed ones are given to the thread. The state in a commit names
the segments that are not known to be at the other side, and holds the small ones of them. A restart writes
these, but for windows that the mark at the other side covers. A file is deleted once a commit no longer names
it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from ridgeline.api.attributes import OnError
from ridgeline.api.errors import RidgelineError
from ridgeline.api.publisher import Publisher, PublisherContext
from ridgeline.api.support.files import is_unavailable
from ridgeline.connect.outage import Outage
from ridgeline.connect.output_files import Segment, SegmentStore
from ridgeline.connect.shipper import Shipper, Trouble
from ridgeline.connect.sink import Sink, SinkContext
from ridgeline.connect.window_output import explaining, publish_failure, safe_name

_MOST_SEGMENTS = 4096
"""The most segments that may wait: each commit names all of them."""
_MOST_SMALL = 64 * 2**10
"""The most characters of waiting segments that a commit holds: beyond they become a file."""
_SAY_SECONDS = 1.0
"""An interruption that is over sooner is not worth a warning."""


class SinkPublisher(Publisher):
    """Gives the segments of committed windows to a sink. Runs on the driver."""

    groups_windows = True

    def __init__(self, sink: Sink, max_pending_bytes: int, drain_seconds: float) -> None:
        self._sink, self._most_bytes, self._drain_seconds = sink, max_pending_bytes, drain_seconds
        self._shipper: Shipper | None = None

    def place(self) -> str:
        """Where the sink writes."""
        return self._sink.place()

    @property
    def protocol(self) -> str:
        """How a window arrives once, see `Sink`."""
        return self._sink.protocol

    def open(self, context: PublisherContext, state: Any) -> None:
        """Load the list of waiting segments, and try the other side once.

        Raises RidgelineError if the sink finds that it can never write, or if its mark does not fit the
        checkpoint.
        """
        self.abandon()
        self._context = context
        self._store = SegmentStore(context.staging, context.run_id)
        self._window = state["window"] if state else context.committed
        waiting = [Segment(*entry) for entry in state["waiting"]] if state else []
        self._home = state["home"] if state else safe_name(context.operator)
        run = f"{context.application}/{context.operator}/{context.run_id}"
        self._mark_name = state["mark"] if state else run
        self._named = _files_of(waiting)
        self._naming: dict[int, set[str]] = {}
        self._outage = Outage(context.clock, _SAY_SECONDS)
        stays = bool(state) and state["place"] == self._sink.place()
        written = state["written"] if stays else -1
        if waiting and not stays:
            windows = f"windows {waiting[0].window} to {waiting[-1].window}"
            msg = f"`{context.operator}`: {windows} wait for {state['place']}, and it writes to "
            msg += f"{self._sink.place()} now; start it with the properties of before until they are written"
            raise RidgelineError(msg)
        with explaining(self._failure):
            names = self._prepare()
            ends = [int(found[1]) for name in names if (found := re.fullmatch(r".*/written-(\d+)", name))]
            written = max([written, *ends]) if stays else -1
            waiting = [one for one in waiting if one.window > written]
            self._clear(names, _files_of(waiting))
        self._shipper = Shipper(
            self._sink,
            self._sink_context(),
            self._store,
            context.check_owner,
            written,
            self._window,
            self._home,
            waiting,
        )
        self._shipper.start()
        self._say()

    def _prepare(self) -> list[str]:
        """Create the folders; returns the names of their files."""
        folders = {self._home, safe_name(self._context.operator)}
        for folder in folders:
            self._store.prepare(folder)
        return [name for folder in folders for name in self._store.names(folder)]

    def _clear(self, names: Sequence[str], waiting: set[str]) -> None:
        """Delete segments of failed attempts, and those that are written.

        Segments of later windows stay: a driver that is being fenced off may be about to commit one of them.
        """
        useless = [
            name
            for name in names
            if name not in waiting
            and (found := re.fullmatch(r".*/w(\d+)-.*\.segment", name))
            and int(found[1]) <= self._window
        ]
        if useless:
            self._context.check_owner()
        for name in useless:
            self._store.delete(name)

    def _sink_context(self) -> SinkContext:
        """The surroundings of the sink."""
        context = self._context
        schema = context.schemas.get("input")
        return SinkContext(
            application=context.application,
            operator=context.operator,
            run_id=context.run_id,
            mark_name=self._mark_name,
            epoch=context.epoch,
            clock=context.clock,
            schema=None if schema is None or schema.pickled else schema.arrow,
            skips=context.attributes.get("on_error") is OnError.SKIP,
        )

    def stage(self, window_id: int, values: Sequence[Any]) -> Any:
        """Take the window's segments. Raises RidgelineError if one is missing, or the file system refuses."""
        staged = [Segment(window_id, *value) for value in values]
        with explaining(self._failure):
            for one in staged:
                if not self._store.holds(one):
                    raise FileNotFoundError(one.name)
            for folder in {name.rpartition("/")[0] for name in _files_of(staged)}:
                self._store.sync(folder)
            self._running.stage(window_id, staged)
            self._pack(window_id)
        return self._state(window_id, *self._running.snapshot())

    def _pack(self, window_id: int) -> None:
        """Write the small segments that wait to a file, if they are too many for a commit. Raises OSError.

        While the store does not answer they stay in the commit, which waits for it.
        """
        small = [one for one in self._running.snapshot()[0] if one.data]
        if sum(len(one.data) for one in small) > _MOST_SMALL:
            try:
                packed = self._store.pack(self._home, window_id, small)
            except OSError as error:
                if not is_unavailable(error):
                    raise
                return
            self._running.replace(packed)

    def _state(self, window: int, waiting: Sequence[Segment], written: int) -> Any:
        self._naming[window] = _files_of(waiting)
        return {
            "window": window,
            "place": self._sink.place(),
            "mark": self._mark_name,
            "home": self._home,
            "written": written,
            "waiting": [list(one) for one in waiting],
        }

    @property
    def _running(self) -> Shipper:
        assert self._shipper is not None  # noqa: S101  it was opened
        return self._shipper

    def committing(self) -> None:
        """Let the sink prepare what is staged, if it can."""
        self._running.offer()

    def publish(self, window_id: int) -> None:
        """Let the segments be written. Raises what the thread has met."""
        self._window = window_id
        named = self._naming.get(window_id, self._named)
        self._running.release(window_id, sorted(self._named - named))
        self._named = named
        self._naming = {window: names for window, names in self._naming.items() if window > window_id}
        self._say()

    def idle(self) -> None:
        """Raise or say what the thread has met."""
        self._say()

    def _say(self) -> None:
        """Raise what ended the thread; warn of an interruption, its end, and refused rows."""
        shipper = self._running
        shipper.check()
        for text in shipper.take_texts():
            self._context.warn(text)
        trouble = shipper.trouble
        if trouble is not None:
            if self._outage.goes_on(trouble.since):
                self._context.warn(self._stuck(trouble))
        elif self._outage.end() is not None:
            self._context.warn(f"{self._sink.place()} takes rows again; {self._amount()}")

    def _stuck(self, trouble: Trouble) -> str:
        """In words: what is unavailable, since when, the last error, and how much waits."""
        return f"{self._away(trouble)}; {self._amount()}, nothing is lost"

    def _away(self, trouble: Trouble) -> str:
        """In words, in one line: what is unavailable, since when, and the last error."""
        clock = self._context.clock
        began = clock.wall() - (clock.monotonic() - trouble.since)
        since = datetime.fromtimestamp(began, UTC).isoformat(timespec="seconds")
        if not trouble.tries:
            return f"stuck: {self._sink.place()} has not answered since {since}"
        text = f"stuck: {self._sink.place()} is unavailable since {since} ({trouble.tries} attempts)"
        return f"{text}, last error: {' '.join(str(trouble.error).split())}"

    def _amount(self) -> str:
        waiting = self._running.waiting
        windows = len({one.window for one in waiting})
        size = sum(one.bytes for one in waiting) / 2**20
        return f"{windows} windows of {sum(one.rows for one in waiting)} rows wait ({size:.1f} MB)"

    @property
    def visible(self) -> int | None:
        """The last window whose rows are at the other side; None if all committed windows are."""
        segments, _ = self._running.snapshot()
        return segments[0].window - 1 if segments else None

    @property
    def full(self) -> str | None:
        """Why no window may begin: as much waits as may. Raises what has ended the thread."""
        shipper = self._running
        shipper.check()
        segments, _ = shipper.snapshot()
        if len(segments) < _MOST_SEGMENTS and sum(one.bytes for one in segments) < self._most_bytes:
            return None
        trouble = shipper.trouble
        return (
            f"{self._sink.place()} does not keep up; {self._amount()}"
            if trouble is None
            else self._stuck(trouble)
        )

    @property
    def trouble(self) -> str | None:
        """The place that is unavailable, since when, and the last error; None unless it lasts."""
        found, now = self._running.trouble, self._context.clock.monotonic()
        return None if found is None or now - found.since < _SAY_SECONDS else self._away(found)

    def rewind(self, window_id: int, state: Any, at: int) -> Any:
        """Continue after a window. Raises RidgelineError if later rows are written that stay there."""
        shipper = self._running
        shipper.stop()
        segments, written = shipper.snapshot()
        if self._sink.appends and written > window_id:
            msg = f"`{self._context.operator}` cannot take back what it has written to {self._sink.place()} "
            raise RidgelineError(f"{msg}after window {window_id}, up to window {written}")
        return self._state(at, [one for one in segments if one.window <= window_id], written)

    def close(self) -> None:
        """Wait until all is written. Raises RidgelineError if it takes longer than `drain_seconds`."""
        shipper = self._running
        shipper.drain(self._drain_seconds)
        shipper.stop()  # which a write that is under way may outlast
        self._say()
        if shipper.waiting:
            trouble = shipper.trouble
            why = "takes longer" if trouble is None else f"is unavailable ({trouble.error})"
            msg = f"`{self._context.operator}`: {self._sink.place()} {why}; {self._amount()} in the "
            msg += "checkpoint, nothing is lost; start it again, and they are written"
            raise RidgelineError(msg)
        with explaining(self._failure):
            self._end(shipper.shipped)

    def _failure(self, error: OSError) -> RidgelineError:
        """The error for one of the file system. Raises FencedError if another driver has taken over."""
        self._context.check_owner()
        return publish_failure(self._context.operator, self._context.staging, error)

    def _end(self, written: int) -> None:
        """Note that all is written, then delete the segments. Raises OSError, FencedError."""
        self._context.check_owner()
        before = [name for name in self._store.names(self._home) if "/written-" in name]
        if written >= 0 and (mark := f"{self._home}/written-{written}") not in before:
            self._store.keep(mark, b"")
            for name in before:
                self._store.delete(name)
        for name in self._named:
            self._store.delete(name)

    def abandon(self) -> None:
        """End the thread."""
        if self._shipper is not None:
            self._shipper.stop()


def _files_of(segments: Sequence[Segment]) -> set[str]:
    """The names of the segments' files; those that the commit holds have none."""
    return {one.name for one in segments if not one.data}
