"""The beginning of a run that reads changes: publication, slot, snapshot. Nothing counts before its end."""

from __future__ import annotations

import contextlib
from collections.abc import Generator

from ridgeline.api.clock import SystemClock
from ridgeline.operators.postgres.connecting import psycopg
from ridgeline.operators.postgres.replication import MOST_CHANGES, Replication
from ridgeline.operators.postgres.slot import Found, connected, misfit
from ridgeline.operators.postgres.staging import (
    Settings,
    Staged,
    Surroundings,
    new_place,
    read_claim,
    write_claim,
)

_SAID_FIRST, _SAID_EVERY = 1.0, 30.0
_SNAPSHOT_BYTES = 8 * 2**20
Turns = Generator[None, None, None]


class Preparing:
    """Makes publication and slot, and stages the snapshot, turn by turn."""

    def __init__(self, here: Surroundings, settings: Settings, session: str) -> None:
        self._here, self._set, self._session = here, settings, session
        self._clock = SystemClock()
        self.staged: Staged | None = None
        """The snapshot, once it is whole."""
        self.made_publication = False
        self._turns: Turns | None = None
        self._partial: Staged | None = None

    def turn(self) -> bool:
        """Do a little. False once all is done.

        Raises RidgelineError with what has to be done, SourceUnavailableError if the server is gone, OSError.
        """
        if self._turns is None:
            self._turns = self._prepared()
        return next(self._turns, self) is not self

    def close(self) -> None:
        """Give up what is under way."""
        try:
            if self._turns is not None:
                self._turns.close()
        finally:
            if self._partial is not None and self.staged is None:
                self._partial.remove()

    def _prepared(self) -> Turns:
        """Check the table, publish it, make the slot or take it, stage the snapshot."""
        here, latest = self._here, self._set.begin == "latest"
        catalog = here.catalog
        self._check(here.found)
        self.made_publication = catalog.publish(here.found)
        claim, there = read_claim(here), catalog.taken()
        if there is not None and claim is None and not latest:
            catalog.refuse_taken()
        if there is not None and (claim is None or claim.taken):
            write_claim(here, taken=True)
            catalog.check_slot(there.confirmed)
            self.staged = Staged(here, new_place(there.confirmed), self._session)
            return
        if there is not None:  # of an attempt of this run that came to nothing
            catalog.drop_slot()
        write_claim(here, taken=False)
        replication = Replication(self._set.watched.server, here.context.operator, catalog.trouble)
        try:
            yield from self._made(replication, exports=not latest)
        finally:
            replication.close()

    def _check(self, found: Found) -> None:
        """Raise RidgelineError if the table's changes cannot be read, or not as rows of the schema."""
        catalog, settings = self._here.catalog, self._set
        catalog.check_identity(found, settings.schema)
        own = sorted({column.name for column in found.relation.columns} & set(settings.others))
        if own:
            raise catalog.trouble.fault(
                f"the table has a column `{own[0]}` of its own, which `deleted` or `metadata` names",
                "give that another name",
            )
        if text := misfit(found.relation, settings.schema, settings.columns):
            raise catalog.trouble.fault(text, "then start again")
        large = [name for name in found.large if name in settings.columns]
        if large and found.relation.identity != "f" and catalog.has_toast(found.relation.oid):
            names = ", ".join(f"`{name}`" for name in large)
            self._here.context.warn(
                f"the log leaves out large values of {names} that an update does not change; such an update "
                f"is refused; `alter table {settings.watched.table} replica identity full` has them logged"
            )

    def _made(self, replication: Replication, *, exports: bool) -> Turns:
        """Make the slot, then read the table as of it."""
        due = self._clock.monotonic() + _SAID_FIRST
        answer = None
        for answer in replication.create_slot(self._here.slot, exports=exports):
            if answer is None and self._clock.monotonic() > due:
                due = self._clock.monotonic() + _SAID_EVERY
                who = self._here.catalog.longest_transaction()
                self._here.context.warn(f"the slot is made once transactions have ended that run now: {who}")
            yield
        assert answer is not None  # noqa: S101  it is the last one
        lsn, snapshot = answer
        staged = self._partial = Staged(self._here, new_place(lsn), self._session)
        if snapshot:
            yield from self._copied(staged, snapshot)
        self.staged = staged

    def _copied(self, staged: Staged, snapshot: str) -> Turns:
        """Copy the table as it was when the slot was made, segment by segment."""
        sql, catalog = psycopg().sql, self._here.catalog
        columns = sql.SQL(", ").join(map(sql.Identifier, self._set.columns))
        source = "{}" if self._here.found.is_divided else "only {}"  # tables that inherit have own changes
        statement = sql.SQL("copy (select {} from " + source + ") to stdout (format csv)")  # noqa: S608  no values
        time, due = catalog.clock(), self._clock.monotonic() + _SAID_EVERY
        with (
            catalog.trouble,
            contextlib.closing(connected(self._set.watched.server, self._here.context.operator)) as link,
        ):
            link.execute("begin transaction isolation level repeatable read read only")
            link.execute(sql.SQL("set transaction snapshot {}").format(sql.Literal(snapshot)))
            rows: list[bytes] = []
            size = 0
            with (
                link.cursor() as cursor,
                cursor.copy(statement.format(columns, catalog.identifier())) as copy,
            ):
                for row in copy:
                    rows.append(bytes(row))
                    size += len(row)
                    if len(rows) < MOST_CHANGES and size < _SNAPSHOT_BYTES:
                        continue
                    staged.add_snapshot(rows, time)
                    rows, size = [], 0
                    if self._clock.monotonic() > due:
                        due = self._clock.monotonic() + _SAID_EVERY
                        count = staged.index.end.number
                        self._here.context.warn(f"the snapshot of the table has {count} rows so far")
                    yield
            if rows:
                staged.add_snapshot(rows, time)
