"""The driver's half of `PostgresChanges`: it reads the slot, and stages changes in the checkpoint."""

from __future__ import annotations

import contextlib
import threading
import uuid
from collections.abc import Generator, Mapping, Sequence
from typing import Any, ClassVar

from ridgeline.api.clock import SystemClock
from ridgeline.api.errors import RidgelineError
from ridgeline.connect.source import Amount, Begin, Source, SourceContext
from ridgeline.connectors.postgres.replication import MOST_CHANGES, Place, Replication
from ridgeline.connectors.postgres.slot import FRESH, Catalog, connected, default_name, misfit
from ridgeline.connectors.postgres.staging import (
    Claim,
    Settings,
    Staged,
    Surroundings,
    read_claim,
    write_claim,
)
from ridgeline.connectors.sql.tables import listed

_SAID_FIRST, _SAID_EVERY = 1.0, 30.0
_SNAPSHOT_BYTES = 8 * 2**20
Turns = Generator[None, None, Staged]
"""Does a little for each turn, and returns what is staged.

Raises RidgelineError with what has to be done, SourceUnavailableError if the server is gone, OSError.
"""


def _prepared(here: Surroundings, settings: Settings) -> Turns:
    """Check the table, publish it, make the slot or take it, stage the snapshot."""
    catalog, latest = here.catalog, settings.begin == "latest"
    _check(here, settings)
    catalog.publish(here.found)
    claim, there = read_claim(here), catalog.taken()
    if there is not None and claim is None and not latest:
        catalog.refuse_taken()
    if there is not None and (claim is None or claim.taken):
        write_claim(here, Claim(here.slot, here.found.relation.oid, taken=True))
        catalog.check_slot(there.confirmed)
        return Staged(here, Place(0, "", there.confirmed))
    if there is not None:  # of an attempt of this run that came to nothing
        catalog.drop_slot()
    write_claim(here, Claim(here.slot, here.found.relation.oid))
    replication = Replication(settings.watched.server, here.context.operator, catalog.trouble)
    with contextlib.closing(replication):
        return (yield from _made(here, settings, replication, exports=not latest))


def _check(here: Surroundings, settings: Settings) -> None:
    """Raise RidgelineError if the table's changes cannot be read, or not as rows of the schema."""
    catalog, found = here.catalog, here.found
    catalog.check_identity(found, settings.schema)
    own = sorted({column.name for column in found.relation.columns} & set(settings.others))
    if own:
        raise catalog.trouble.fault(
            f"the table has a column `{own[0]}` of its own, which `deleted` or `metadata` names",
            "give that another name",
        )
    if text := misfit(found.relation, settings.schema, settings.columns):
        raise catalog.trouble.fault(text, "then start again")


def _made(here: Surroundings, settings: Settings, replication: Replication, *, exports: bool) -> Turns:
    """Make the slot, then read the table as of it."""
    clock = SystemClock()
    due, answer = clock.monotonic() + _SAID_FIRST, None
    for answer in replication.create_slot(here.slot, exports=exports):
        if answer is None and clock.monotonic() > due:
            due = clock.monotonic() + _SAID_EVERY
            here.context.warn("the slot is made once transactions have ended that run now")
        yield
    assert answer is not None  # noqa: S101  the last one
    lsn, snapshot = answer
    staged = Staged(here, Place(0, "", lsn))
    try:
        if snapshot:
            yield from _copied(here, settings, staged, snapshot)
    except BaseException:
        with contextlib.suppress(OSError):
            staged.remove()
        raise
    return staged


def _copied(
    here: Surroundings, settings: Settings, staged: Staged, snapshot: str
) -> Generator[None, None, None]:
    """Copy the table as it was when the slot was made, segment by segment."""
    catalog, clock, server = here.catalog, SystemClock(), settings.watched.server
    only = "" if here.found.is_divided else "only "  # tables that inherit have own changes
    query = f"select {listed(settings.columns)} from {only}{catalog.identifier}"  # noqa: S608  identifiers
    time, due = catalog.clock(), clock.monotonic() + _SAID_EVERY
    with catalog.trouble, contextlib.closing(connected(server, here.context.operator)) as link:
        link.execute("begin transaction isolation level repeatable read read only")
        link.execute(f"set transaction snapshot '{snapshot}'")
        rows: list[bytes] = []
        size = 0
        with link.cursor() as cursor, cursor.copy(f"copy ({query}) to stdout (format csv)") as copy:
            for row in copy:
                rows.append(bytes(row))
                size += len(row)
                if len(rows) < MOST_CHANGES and size < _SNAPSHOT_BYTES:
                    continue
                staged.add_snapshot(rows, time)
                rows, size = [], 0
                if clock.monotonic() > due:
                    due = clock.monotonic() + _SAID_EVERY
                    here.context.warn(f"the snapshot of the table has {staged.end.number} rows so far")
                yield
        if rows:
            staged.add_snapshot(rows, time)


_LOOK_SECONDS = 1.0
_IDLE_SECONDS, _IDLE_BYTES = 10.0, 16 * 2**20
"""A place without a change is committed after so long, or so much of the log."""
_MOST_STAGED = 2**30
"""Bytes of changes that are staged and not committed, at most."""
_TURN_SECONDS = 0.02
_LEAST_ROOM = 2**28
"""If the server keeps no more of the log than that for the slot, it is said."""


class ChangeSource(Source):
    """Reads a slot, and writes what it read into the checkpoint before windows may read it.

    The slot's confirmed position follows the commits of windows. So what a commit has not confirmed can be
    read again from the slot, and what it has, from the checkpoint.
    """

    poll_seconds: ClassVar[float] = 0.05
    silent_seconds: ClassVar[float] = 30.0
    mentions_new: ClassVar[bool] = False

    def __init__(self, settings: Settings) -> None:
        self._set = settings
        self._name = settings.watched.table
        self._clock = SystemClock()
        self._session = uuid.uuid4().hex[:8]
        self.ending = threading.Event()
        """Set at the end of a run: nothing is waited for any more."""
        self._here: Surroundings | None = None
        self._preparing: Turns | None = None
        self._staged: Staged | None = None
        self._replication: Replication | None = None
        self._watch: _Watch | None = None
        self._listed = False
        self._target = 0
        """The end of the log when the run began."""
        self._moved = 0.0

    # The source, as the base asks it ------------------------------------------------------------------------

    def open(self, context: SourceContext) -> None:
        """Connect and check. Raises RidgelineError with what has to be done, SourceUnavailableError."""
        watched, operator = self._set.watched, context.operator
        slot = watched.slot or default_name(context.application, operator)
        if context.staging.startswith("memory:"):  # it ends with the run, and must not meet one that lasts
            slot = f"{slot[:50]}_{self._session}"
        publication = watched.publication or slot
        catalog = Catalog(watched, operator, publication, slot)
        try:
            catalog.check_server()
            self._here = Surroundings(context, catalog, catalog.table(), slot, publication)
            if self._staged is not None:
                catalog.check_slot(self._staged.end.lsn)
        except BaseException:
            catalog.close()
            raise
        self._watch = _Watch(self._here)

    def resume(self, positions: Mapping[str, Any]) -> Mapping[str, Any]:
        """Continue after what is staged from there on. Raises RidgelineError if the slot has moved on."""
        here = self._connected
        if self._name not in positions:
            raise here.catalog.trouble.fault(
                f"the checkpoint has changes of {', '.join(map(repr, positions))}",
                f"correct `table`, or {FRESH}",
            )
        if self._staged is None:
            staged = Staged(here, Place(*positions[self._name]))
            here.catalog.check_slot(staged.end.lsn)
            self._staged, self._listed = staged, True
        return positions

    def partitions(self) -> Sequence[str]:
        """The table, once its snapshot is staged. Raises RidgelineError as `ends` does."""
        if self._set.until is not None and not self._caught_up():
            while not self._caught_up() and not self.ending.is_set():
                self._step(1.0)
            if self._watch is not None and self._staged is not None:
                self._watch.check_table(self._staged)
        if self._staged is None:
            return []
        self._listed = True
        return [self._name]

    def has_new(self) -> bool:
        """True once the snapshot is staged."""
        return self._staged is not None and not self._listed

    def start(self, partitions: Sequence[str], begin: Begin) -> Mapping[str, Any]:
        """Before the first row of the snapshot; with "latest" where the slot begins."""
        return {self._name: list(self._known.begin)}

    def ends(self, wait: float) -> Mapping[str, Any]:
        """Read the slot for a while. Returns the place after what is staged."""
        self._step(wait)
        return {} if self._staged is None else {self._name: list(self._staged.end)}

    def amount(self, partition: str, start: Any, end: Any) -> Amount:
        """Changes and their bytes."""
        staged = self._staged
        size = 0 if staged is None else staged.bytes_between(start[0], end[0])
        return Amount(float(end[0] - start[0]), float(size))

    def waiting(self) -> Amount:
        """The bytes of the log that the slot has not given yet."""
        replication, watch = self._replication, self._watch
        if replication is None or watch is None:
            return Amount(0.0)
        return Amount(0.0, float(max(0, watch.log_end - replication.received)))

    def cut(self, partition: str, start: Any, end: Any, share: float) -> Any:
        """Where a segment ends."""
        found = self._known.cut(start[0], start[0] + max(1, int((end[0] - start[0]) * share)))
        return end if found is None or found.number >= end[0] else list(found)

    def limit(self, partition: str, start: Any, end: Any) -> Any:
        """Where columns change: a window has changes with the same columns."""
        found = None if self._staged is None else self._staged.bound(start[0])
        return end if found is None or found.number >= end[0] else list(found)

    def committed(self, positions: Mapping[str, Any]) -> None:
        """Confirm a place to the server, and delete segments that no rewind needs any more."""
        place, staged = Place(*positions[self._name]), self._staged
        if staged is None or place.folder != staged.begin.folder:
            return
        if self._replication is not None:
            self._replication.confirm(place.lsn)
        staged.commit(place)

    def close(self) -> None:
        """Close connections. At the end of a run without a checkpoint the slot goes, too."""
        preparing, self._preparing = self._preparing, None
        replication, self._replication = self._replication, None
        here, self._here = self._here, None
        with contextlib.ExitStack() as closing:  # a connection that is broken keeps no other one open
            if here is not None:
                closing.callback(here.catalog.close)
                if here.in_memory and self.ending.is_set():
                    closing.callback(self._leave_nothing, here.catalog)
            if replication is not None:
                closing.callback(replication.close)
            if preparing is not None:
                closing.callback(preparing.close)

    def _leave_nothing(self, catalog: Catalog) -> None:
        """Drop the slot, which takes a moment once its connection is closed."""
        for _ in range(50):
            try:
                catalog.drop_slot()
                if self._set.watched.publication is None:
                    catalog.drop_publication()
            except RidgelineError:
                self._clock.wait(0.1)
            else:
                break
        if self._staged is not None:
            with contextlib.suppress(OSError):
                self._staged.remove()

    # What it does -------------------------------------------------------------------------------------------

    @property
    def _connected(self) -> Surroundings:
        assert self._here is not None  # noqa: S101  `open` has connected
        return self._here

    @property
    def _known(self) -> Staged:
        assert self._staged is not None  # noqa: S101  asked once there are positions
        return self._staged

    def _step(self, wait: float) -> None:
        """Do some of what is to be done, for about so long."""
        if self._staged is None:
            self._preparing = self._preparing or _prepared(self._connected, self._set)
            until = self._clock.monotonic() + max(wait, _TURN_SECONDS)
            try:
                while self._clock.monotonic() < until and not self.ending.is_set():
                    next(self._preparing)
            except StopIteration as over:
                self._staged = over.value
            else:
                return
        self._stream(self._known, wait)

    def _caught_up(self) -> bool:
        """Whether all is staged that was committed when the run began."""
        replication = self._replication
        return replication is not None and replication.received >= self._target and not replication.waits

    def _stream(self, staged: Staged, wait: float) -> None:
        """Read the slot, for so long if nothing comes; write what came."""
        replication = self._replication or self._started(staged)
        assert self._watch is not None  # noqa: S101  `open` has made it
        self._watch.look(replication, staged)
        if staged.bytes_ahead >= _MOST_STAGED and self._set.until is None:
            replication.rest()
            return
        until = self._clock.monotonic() + _TURN_SECONDS
        part = replication.read(min(wait, self.poll_seconds))
        while part is not None:
            staged.add(part)
            if self._clock.monotonic() >= until:
                break
            part = replication.read(0.0)
        self._move_up(replication, staged)

    def _started(self, staged: Staged) -> Replication:
        """Begin to read the slot after what is staged."""
        here = self._connected
        self._target = self._target or here.catalog.end()
        replication = Replication(self._set.watched.server, here.context.operator, here.catalog.trouble)
        try:
            found = here.catalog.slot()
            replication.start(here.slot, here.publication, staged.end, staged.table)
        except BaseException:
            replication.close()
            raise
        self._replication = replication
        if found is not None:  # after a rewind it is ahead, and must not go back
            replication.confirmed = found.confirmed
        replication.confirm(staged.committed.lsn)
        return replication

    def _move_up(self, replication: Replication, staged: Staged) -> None:
        """Let a place without a change be committed, so that the server may remove the log before it."""
        now, before, place = self._clock.monotonic(), staged.end, replication.move_up()
        if place.lsn <= before.lsn or place.number != before.number:
            return
        if now - self._moved >= _IDLE_SECONDS or place.lsn - before.lsn >= _IDLE_BYTES:
            self._moved = now
            staged.move_up(place)


class _Watch:
    """Looks once a second how far the log is, and whether slot and table are as they were."""

    def __init__(self, here: Surroundings) -> None:
        self._here, self._clock = here, SystemClock()
        self.log_end = here.catalog.end()
        self._looked = 0.0
        self._gone_at: int | None = None
        self._warned = False

    def look(self, replication: Replication, staged: Staged) -> None:
        """Raise RidgelineError if the slot is lost, or the table once all before that is committed."""
        now, here = self._clock.monotonic(), self._here
        if now - self._looked < _LOOK_SECONDS:
            return
        self._looked = now
        self.log_end = here.catalog.end()
        self._look_at_slot(replication)
        if here.catalog.is_published(staged.table):
            self._gone_at = None
            return
        self._gone_at = self._gone_at or self.log_end
        if replication.received >= self._gone_at and staged.all_committed:
            self.check_table(staged)

    def check_table(self, staged: Staged) -> None:
        """Raise RidgelineError if the table is another one than that of the changes before."""
        here = self._here
        if here.catalog.is_published(staged.table):
            return
        what = f"it was dropped or made again, or publication `{here.publication}` has it no more"
        if staged.all_committed:
            what += "; its changes before that are processed"
        raise here.catalog.trouble.fault(what, f"put it back, drop slot `{here.slot}`, and {FRESH}")

    def _look_at_slot(self, replication: Replication) -> None:
        """Warn before the server removes what the slot holds."""
        catalog, slot = self._here.catalog, self._here.slot
        found = catalog.slot()
        if found is None or found.lost:
            catalog.check_slot(replication.received)
            return
        near = found.room is not None and found.room < _LEAST_ROOM
        if near and not self._warned:
            left = max(0, found.room or 0) >> 20
            self._here.context.warn(
                f"replication slot `{slot}` is lost once the log grows by {left} MiB more; "
                "let the application catch up, or raise `max_slot_wal_keep_size`"
            )
        self._warned = near
