"""The thread that writes committed windows to the other side."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Any, NamedTuple

import pyarrow as pa

from ridgeline.api.errors import RidgelineError
from ridgeline.api.support.files import may_recover
from ridgeline.api.support.masking import mask_text, masked_and_capped
from ridgeline.connect.output_files import DamagedSegmentError, Segment, SegmentStore
from ridgeline.connect.sink import Batch, Mark, Sink, SinkContext, SinkUnavailableError
from ridgeline.connect.window_output import other_copy

_OPEN_SECONDS = 10.0
"""The longest time that a start waits for the first attempt at the other side."""
_JOIN_SECONDS = 30.0
_SILENT_SECONDS = 10.0
"""After so long a call without an answer the other side counts as unavailable."""


class Trouble(NamedTuple):
    """The other side is unavailable. `since`: the first failed attempt, by the monotonic clock.

    `tries`: the failed attempts; 0: the first one has no answer yet.
    """

    since: float
    tries: int
    error: str


@dataclass
class _Link:
    """The state of a sink, as its thread knows it.

    `tried`: it was called, with or without success. `is_open`: it is connected. `offered`: the last window
    whose commit is under way, so that the sink may prepare it. `prepared`: the last that it has prepared. -1:
    none.
    """

    tried: bool = False
    is_open: bool = False
    offered: int = -1
    prepared: int = -1


class Shipper:
    """Holds segments, and writes those of released windows to a sink, in a thread of its own, in order.

    `shipped` is the last window with rows that is at the other side. `failure` is set once the sink raised
    what no further attempt can fix.
    """

    def __init__(
        self,
        sink: Sink,
        context: SinkContext,
        store: SegmentStore,
        check_owner: Callable[[], None],
        written: int,
        committed: int,
        home: str,
        segments: Sequence[Segment] = (),
    ) -> None:
        """`home`: the folder, below `staging`, of files that are no segments. `segments`: committed ones.

        `written`: the last window with rows that is known to be at the other side, -1 before the first.
        `committed`: the last window that may be there.
        """
        self._sink, self._store, self._check_owner, self._home = sink, store, check_owner, home
        self._context = replace(context, refused=self.refuse, warn=self.say)
        self._state = threading.Condition()
        self._segments = list(segments)
        """All that are not known to be at the other side, by window: committed ones, then staged ones."""
        self._useless: list[str] = []
        self._released = committed
        self._stopped = False
        self._link = _Link()
        self._refused: dict[str, list[dict[str, Any]]] = {}
        """The rows that the write under way leaves out, by the file that has them, and why."""
        self._refusals: set[str] = set()
        self.shipped = written
        self._texts: list[str] = []
        self._trouble: Trouble | None = None
        self._asked_at: float | None = None
        """When the call of the sink began that runs now, by the monotonic clock."""
        self.failure: RidgelineError | None = None
        self._thread = threading.Thread(
            target=self._run, name=f"ridgeline-output-{context.operator}", daemon=True
        )

    # Called in the thread of windows ------------------------------------------------------------------------

    def start(self) -> None:
        """Begin; returns once the other side was tried, or after a while.

        Raises RidgelineError if rows can never be written.
        """
        self._thread.start()
        with self._state:
            self._state.wait_for(lambda: self._link.tried, _OPEN_SECONDS)
        self.check()

    def check(self) -> None:
        """Raise the failure that ended the thread, if there is one."""
        if self.failure is not None:
            raise self.failure

    def stage(self, window: int, segments: Sequence[Segment]) -> None:
        """Hold the segments of a window, in place of those from it on: it is not committed yet."""
        with self._state:
            before = [one for one in self._segments if one.window < window]
            self._segments = before + [one for one in segments if one.window > self.shipped]

    def offer(self) -> None:
        """The commit of what is staged begins: the sink may prepare it. `release` or `stop` follows."""
        with self._state:
            if self._sink.prepares and self._segments:
                self._link.offered = self._segments[-1].window
                self._state.notify_all()

    def release(self, window: int, useless: Sequence[str] = ()) -> None:
        """Write what is staged up to this window, which is committed. No commit names the files `useless`."""
        with self._state:
            self._link.offered = -1
            self._useless += useless
            self._released = max(self._released, window)
            self._state.notify_all()

    def replace(self, packed: Mapping[Segment, Segment]) -> None:
        """Segments that wait are elsewhere now."""
        with self._state:
            self._segments = [packed.get(one, one) for one in self._segments]

    def snapshot(self) -> tuple[list[Segment], int]:
        """The segments that are not known to be at the other side, and the last window that is."""
        with self._state:
            return list(self._segments), self.shipped

    @property
    def waiting(self) -> list[Segment]:
        """Those of committed windows."""
        return [one for one in self._segments if one.window <= self._released]

    @property
    def trouble(self) -> Trouble | None:
        """Since when the other side is unavailable or silent; None if it is not known to be."""
        with self._state:
            asked_at = self._asked_at
            if self._trouble is not None or asked_at is None:
                return self._trouble
            silent = self._context.clock.monotonic() - asked_at >= _SILENT_SECONDS
            return Trouble(asked_at, 0, "no answer") if silent else None

    @contextmanager
    def _asking(self) -> Iterator[None]:
        """Around a call of the sink."""
        self._asked_at = self._context.clock.monotonic()
        try:
            yield
        finally:
            self._asked_at = None

    def take_texts(self) -> list[str]:
        """The texts of the sink for the user, since the last call."""
        with self._state:
            texts, self._texts = self._texts, []
            return texts

    def drain(self, seconds: float) -> None:
        """Wait until all is written, unless it takes longer, or cannot be."""
        with self._state:
            self._state.wait_for(lambda: not self.waiting or self.failure is not None, seconds)

    def stop(self) -> None:
        """End the thread after the write that is under way; a write that hangs is not waited for.

        If that ends after all, the mark of the windows that others have written meanwhile refuses it.
        """
        with self._state:
            self._stopped = True
            self._state.notify_all()
        if self._thread.is_alive() and self._thread is not threading.current_thread():
            self._thread.join(_JOIN_SECONDS)

    # The thread ---------------------------------------------------------------------------------------------

    def _run(self) -> None:
        """The thread's target."""
        try:
            with suppress(SystemExit):  # as threads do
                self._work()
        finally:
            with self._state:
                if not self._stopped and self.failure is None:  # the interpreter or the sink has ended it
                    operator = self._context.operator
                    msg = f"`{operator}`: the thread that writes has ended; start it again, nothing is lost"
                    self.failure = RidgelineError(msg)
                self._link.tried = True
                self._state.notify_all()

    def _work(self) -> None:
        """Write until it is stopped, or until the sink raises what cannot be fixed."""
        delay = self._sink.first_retry_seconds
        while True:
            try:
                if not self._link.is_open:
                    self._connect()
                if (segments := self._next()) is None:
                    break
                if segments[-1].window > self._released:
                    self._prepare(segments)
                else:
                    self._write(segments)
                delay = self._sink.first_retry_seconds
            except Exception as error:  # noqa: BLE001  whatever it is, the thread of windows gets it
                self._close()
                if not self._is_unavailable(error):
                    self._fail(error)
                    return
                self._note(error)
                with self._state:
                    if self._state.wait_for(lambda: self._stopped, delay):
                        return
                delay = min(2 * delay, self._sink.most_retry_seconds)
        self._close()

    def _is_unavailable(self, error: Exception) -> bool:
        if isinstance(error, RidgelineError):
            return False
        try:
            return isinstance(error, SinkUnavailableError) or self._sink.is_unavailable(error)
        except Exception:  # noqa: BLE001  the error that it was asked about counts
            return False

    def _connect(self) -> None:
        with self._asking():
            self._sink.open(self._context)
            self._link.is_open = True
            mark = self._sink.mark() if self._sink.protocol == "transactional" else None
        if self._sink.protocol == "transactional":
            self._compare(mark)
        with self._state:
            self._trouble, self._link.tried = None, True
            self._state.notify_all()

    def _compare(self, found: Mark | None) -> None:
        """Leave out what is at the other side, as its mark says. Raises RidgelineError if it is another."""
        self._context.unwritten((), found)
        window = -1 if found is None else found.window
        operator, place = self._context.operator, self._sink.place()
        if window > self._released:
            self._check_owner()
            what = f"{place} is newer than the checkpoint and would get rows twice; window {window} of this "
            what += f"run is there, window {self._released} is committed"
            raise other_copy(operator, what, "checkpoint")
        if window < self.shipped:
            there = "no window of this run is" if window < 0 else f"window {window} is the last"
            what = f"{place} is older than the checkpoint; windows up to {self.shipped} were written, and "
            raise other_copy(operator, f"{what}{there} there", "one")
        with self._state:
            self._settle(window)

    def _settle(self, window: int) -> None:
        """All up to a window is at the other side."""
        self.shipped = max(self.shipped, window)
        self._segments = [one for one in self._segments if one.window > self.shipped]
        self._state.notify_all()

    def _next(self) -> list[Segment] | None:
        """Wait for segments to write, or to prepare; None once it is stopped.

        Deletes meanwhile what is useless.
        """
        while True:
            with self._state:
                self._state.wait_for(lambda: self._stopped or self._useless or self._due)
                useless, self._useless = self._useless, []
                due, stopped = self._due, self._stopped
                if due and due[-1].window > self._released:
                    self._link.offered = -1
            if useless:
                self._check_owner()
            for name in useless:
                with suppress(OSError):
                    self._store.delete(name)
            if stopped:
                return None
            if prepared := [one for one in due if one.window <= min(self._link.prepared, self._released)]:
                return prepared
            if due:
                return self._of_one_write(due)

    @property
    def _due(self) -> list[Segment]:
        """What is to be written; if there is nothing, what may be prepared."""
        return self.waiting or [one for one in self._segments if one.window <= self._link.offered]

    def _of_one_write(self, waiting: list[Segment]) -> list[Segment]:
        """The first windows, as many as are written together."""
        found: list[Segment] = []
        size = 0
        for _, group in groupby(waiting, key=lambda one: one.window):
            segments = list(group)
            size += sum(one.bytes for one in segments)
            if found and size > self._sink.most_bytes:
                break
            found += segments
        return found

    def _prepare(self, segments: list[Segment]) -> None:
        """Let the sink prepare windows whose commit is under way. Raises what the sink does."""
        last = segments[-1].window
        with self._asking():
            self._sink.prepare(self._batches(segments), Mark(last, self._context.epoch))
        self._link.prepared = last

    def _batches(self, segments: list[Segment]) -> list[Batch]:
        """Segments as the sink gets them: by window and partition in order."""
        return [
            Batch(
                window=one.window,
                partition=one.partition,
                rows=one.rows,
                size=one.bytes,
                read=lambda one=one: self._read(one),  # type: ignore[misc]
            )
            for one in sorted(segments, key=lambda one: one[:2])
        ]

    def _write(self, segments: list[Segment]) -> None:
        """Give whole windows to the sink, and note that they are there. Raises what the sink does."""
        batches = self._batches(segments)
        self._check_owner()
        last = segments[-1].window
        self._refused = {}
        self._link.prepared = -1
        with self._asking():
            self._sink.write(batches, Mark(last, self._context.epoch))
        for name in self._refusals - self._refused.keys():  # an attempt before has refused others
            with suppress(OSError):  # the rows are written: an error would write them again
                self._store.delete(name)
        self._refusals = set()
        with self._state:
            self._trouble = None
            self._settle(last)
        for name, rows in self._refused.items():
            what = f"{len(rows)} row{'' if len(rows) == 1 else 's'} of window {rows[0]['window']}"
            where = f"left out, see `{self._store.uri}/{name}`"
            self.say(f"{self._sink.place()} refuses {what}: {rows[0]['error']}; {where}")

    def say(self, text: str) -> None:
        """Have a text shown."""
        with self._state:
            self._texts.append(mask_text(text))

    def refuse(self, batch: Batch, row: str, reason: str) -> None:
        """Write a refused row down, before the others of its window are at the other side.

        Raises SinkUnavailableError while the store of the checkpoint is away, else OSError.
        """
        name = f"{self._home}/refused-w{batch.window:010d}-p{batch.partition}.jsonl"
        rows = self._refused.setdefault(name, [])
        rows.append({"window": batch.window, "row": row, "error": masked_and_capped(reason, 1000)})
        self._refusals.add(name)
        lines = map(json.dumps, rows)
        try:
            self._store.keep(name, "".join(f"{line}\n" for line in lines).encode())
        except OSError as error:
            raise self._away(error) if may_recover(error) else error from error

    def _read(self, segment: Segment) -> tuple[Any, pa.Schema]:
        """Raises RidgelineError for one that is missing or damaged, FencedError, SinkUnavailableError."""
        try:
            return self._store.read(segment)
        except (DamagedSegmentError, OSError) as error:
            if isinstance(error, OSError) and may_recover(error):
                raise self._away(error) from error
            self._check_owner()
            msg = f"`{self._context.operator}`: `{self._store.uri}/{segment.name}`, committed rows of window "
            msg += f"{segment.window}, cannot be read: {error}; restore the file from a copy and start again"
            raise RidgelineError(msg) from error

    def _away(self, error: OSError) -> SinkUnavailableError:
        """The store of the checkpoint is unavailable, not the other side: it is tried again as well."""
        return SinkUnavailableError(mask_text(f"{self._store.uri}: {error}"))

    def _note(self, error: Exception) -> None:
        """The other side is unavailable."""
        text = masked_and_capped(f"{type(error).__name__}: {error}".strip(), 300)
        with self._state:
            since, tries = self._trouble[:2] if self._trouble else (self._context.clock.monotonic(), 0)
            self._trouble, self._link.tried = Trouble(since, tries + 1, text), True
            self._state.notify_all()

    def _fail(self, error: Exception) -> None:
        """No further attempt is made."""
        if not isinstance(error, RidgelineError):
            text = masked_and_capped(f"{type(error).__name__}: {error}", 1000)
            msg = f"`{self._context.operator}` cannot write to {self._sink.place()}: {text}; "
            msg += "fix that, then start it again: nothing that was committed is lost"
            failure = RidgelineError(msg)
            failure.__cause__ = error
            error = failure
        with self._state:
            self.failure, self._link.tried = error, True
            self._state.notify_all()

    def _close(self) -> None:
        self._link.prepared, self._link.is_open = -1, False
        with suppress(Exception):
            self._sink.close()
