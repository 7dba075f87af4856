"""Replication slots and publications: what is there, what is missing, and what to do about it."""

from __future__ import annotations

import contextlib
import hashlib
import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, NoReturn

import pyarrow as pa

from ridgeline.api.errors import RidgelineError, did_you_mean
from ridgeline.connect.source import SourceUnavailableError
from ridgeline.connectors.postgres.connecting import Server, first_line, psycopg
from ridgeline.connectors.postgres.pgoutput import SESSION, Column, Relation, readable, type_name
from ridgeline.connectors.sql.tables import dotted, quoted

_LONGEST_NAME = 63
_LOGICAL = """set `wal_level = logical` at the server and restart it: \
`alter system set wal_level = logical`"""
FRESH = "start with a fresh `--checkpoint`, which begins with a new snapshot"


class Watched(NamedTuple):
    """The table, and the names of publication and slot; None: made of application and operator."""

    server: Server
    table: str
    publication: str | None
    slot: str | None


class Found(NamedTuple):
    """A table at the server. `keys`: its primary key. `is_divided`: its rows are in partitions."""

    relation: Relation
    keys: tuple[str, ...]
    is_divided: bool


class SlotState(NamedTuple):
    """A slot at the server: its plugin and database, who uses it, how far it is, and whether it is lost."""

    plugin: str | None
    database: str | None
    user: int | None
    confirmed: int
    lost: bool
    room: int | None


def default_name(application: str, operator: str) -> str:
    """The name of slot and publication: of letters, digits and `_`, and a hash, as others may be alike."""
    text = re.sub(r"[^a-z0-9_]", "_", f"ridgeline_{application}_{operator}".lower())
    ending = hashlib.blake2b(f"{application}\0{operator}".encode(), digest_size=3).hexdigest()
    return f"{text[: _LONGEST_NAME - 7]}_{ending}"


def lsn_text(lsn: int) -> str:
    """A place in the log as PostgreSQL writes it."""
    return f"{lsn >> 32:X}/{lsn & 0xFFFFFFFF:X}"


def lsn_of(text: str) -> int:
    """The number of a place in the log."""
    high, _, low = text.partition("/")
    return (int(high, 16) << 32) | int(low, 16)


class Catalog:
    """A connection that asks the server about table, publication and slot.

    Methods raise RidgelineError for what no further attempt can fix, with the remedy, and
    SourceUnavailableError while the server is gone.
    """

    def __init__(self, watched: Watched, operator: str, publication: str, slot: str) -> None:
        self._watched, self._operator = watched, operator
        self._publication, self._slot = publication, slot
        self.trouble = Trouble(operator, watched, slot)
        with self.trouble:
            self._connection = connected(watched.server, operator)

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()

    def _one(self, query: str, *values: Any) -> Any:
        with self.trouble:
            return self._connection.execute(query, values).fetchone()

    def _refuse(self, what: str, remedy: str) -> NoReturn:
        raise self.trouble.fault(what, remedy)

    # The server ---------------------------------------------------------------------------------------------

    def check_server(self) -> None:
        """Raise RidgelineError if the server has no logical replication."""
        level, version = self._one(
            "select current_setting('wal_level'), current_setting('server_version_num')::int"
        )
        if level != "logical":
            self._refuse(f"the server has `wal_level = {level}`", _LOGICAL)
        self.version = version

    def end(self) -> int:
        """The end of the log now."""
        return lsn_of(self._one("select pg_current_wal_flush_lsn()::text")[0])

    def clock(self) -> int:
        """The server's clock, in microseconds since 1970."""
        query = "select (extract(epoch from clock_timestamp()) * 1000000)::bigint"
        return int(self._one(query)[0])

    # The table ----------------------------------------------------------------------------------------------

    @property
    def identifier(self) -> str:
        """The table's name for statements."""
        return dotted(self._watched.table)

    def table(self) -> Found:
        """The table. Raises RidgelineError if there is none."""
        row = self._one(
            """select c.oid::bigint, n.nspname || '.' || c.relname, c.relreplident::text, c.relkind::text,
                row_security_active(c.oid)
            from pg_class c join pg_namespace n on n.oid = c.relnamespace where c.oid = to_regclass(%s)""",
            self.identifier,
        )
        if row is None:
            remedy = "create it, or correct `table`; give the schema too if it is not in `search_path`"
            self._refuse("the table does not exist", remedy)
        oid, full, identity, kind, is_hidden = row
        if kind not in "rp":
            self._refuse("it is no table", "views and foreign tables have no changes of their own")
        if is_hidden:
            what = "row security would hide rows of the snapshot"
            self._refuse(what, "run `alter role ... bypassrls`, or use the owner's role")
        with self.trouble:
            columns = self._connection.execute(
                """select a.attname, a.atttypid::bigint, a.attnum, a.attgenerated::text <> ''
                from pg_attribute a where a.attrelid = %s and a.attnum > 0 and not a.attisdropped
                order by a.attnum""",
                (oid,),
            ).fetchall()
            indexes = self._connection.execute(
                """select indisprimary, indisreplident, indkey::int2[] from pg_index
                where indrelid = %s and (indisprimary or indisreplident)""",
                (oid,),
            ).fetchall()
        primary = next((set(key) for is_primary, _, key in indexes if is_primary), set())
        chosen = next((set(key) for _, is_identity, key in indexes if is_identity), set())
        within = {"d": primary, "i": chosen}.get(identity, set())
        found = tuple(
            Column(name, of, identity == "f" or number in within)
            for name, of, number, generated in columns
            if not generated
        )
        return Found(
            Relation(oid, full, identity, found),
            tuple(name for name, _, number, *_ in columns if number in primary),
            kind == "p",
        )

    def check_identity(self, found: Found, schema: pa.Schema) -> None:
        """Raise RidgelineError if updates and deletions would not say which row they mean."""
        relation, table = found.relation, self.identifier
        keys = [column.name for column in relation.columns if column.key]
        if not keys:
            what = "it has no replica identity, so that the server refuses updates and deletions"
            first = "`alter table {0} add primary key (...)`, or `alter table {0} replica identity full`"
            if relation.identity == "n":
                first = "`alter table {0} replica identity default` if it has a primary key, or `... full`"
            self._refuse(what, "run " + first.format(table))
        missing = [name for name in keys if name not in schema.names]
        if missing and relation.identity != "f":
            names = ", ".join(f"`{quoted(name)}`" for name in missing)
            what = f"a deletion only has the columns of the key, and `schema` lacks {names}"
            self._refuse(what, f"add them, or run `alter table {table} replica identity full`")

    # The publication ----------------------------------------------------------------------------------------

    def publish(self, found: Found) -> None:
        """Make the publication unless it is there.

        Raises RidgelineError for one that does not have all changes of the table.
        """
        name, text = self._publication, quoted(self._publication)
        row = self._one(
            """select pubinsert and pubupdate and pubdelete, pubtruncate, pubviaroot
            from pg_publication where pubname = %s""",
            name,
        )
        if row is None:
            made = f"create publication {text} for table {self.identifier}"
            self._execute(f"{made} with (publish_via_partition_root = true)")
            return
        everything, truncates, _ = row
        if not everything or not truncates:
            remedy = f"run `alter publication {text} set (publish = 'insert, update, delete, truncate')`"
            self._refuse(f"publication `{name}` does not publish all kinds of changes", remedy)
        filters = ", rowfilter is not null" if self.version >= _ROW_FILTERS else ", false"
        schema, _, table = found.relation.name.partition(".")
        row = self._one(
            f"select true{filters} from pg_publication_tables "  # noqa: S608  no values
            "where pubname = %s and schemaname = %s and tablename = %s",
            *(name, schema, table),
        )
        if row is None:
            remedy = f"run `alter publication {text} add table {self.identifier}`"
            self._refuse(f"publication `{name}` does not have the table", remedy)
        if row[1]:
            what = f"publication `{name}` has a row filter, which the snapshot would not have"
            self._refuse(what, "name one without by `publication`, and filter the stream")

    def _execute(self, statement: str) -> None:
        """Make the publication. Raises RidgelineError without the right to."""
        library = psycopg()
        with self.trouble:
            try:
                self._connection.execute(statement)
            except library.errors.DuplicateObject:  # another one has just made it
                pass
            except library.errors.InsufficientPrivilege as error:
                remedy = f"let the owner of the table run `{statement}`, then start again"
                raise self.trouble.fault(
                    f"the publication cannot be made: {first_line(error)}", remedy
                ) from None

    def is_published(self, oid: int) -> bool:
        """Whether the table is the one that was found at the start, and still published."""
        row = self._one(
            """select c.oid = %s and exists (select from pg_publication_tables p
                where p.pubname = %s and p.schemaname = n.nspname and p.tablename = c.relname)
            from pg_class c join pg_namespace n on n.oid = c.relnamespace where c.oid = to_regclass(%s)""",
            *(oid, self._publication, self.identifier),
        )
        return row is not None and bool(row[0])

    # The slot -----------------------------------------------------------------------------------------------

    def slot(self) -> SlotState | None:
        """The slot; None: there is none."""
        row = self._one(
            """select plugin, database, active_pid, confirmed_flush_lsn::text, wal_status, safe_wal_size
            from pg_replication_slots where slot_name = %s""",
            self._slot,
        )
        if row is None:
            return None
        plugin, database, user, confirmed, state, room = row
        return SlotState(plugin, database, user, lsn_of(confirmed) if confirmed else 0, state == "lost", room)

    def check_slot(self, lsn: int) -> None:
        """Raise RidgelineError if the slot does not have all changes from a place on."""
        found = self.slot()
        drop = f"`select pg_drop_replication_slot('{self._slot}')`"
        if found is None:
            what = f"replication slot `{self._slot}` is gone, with the changes since {lsn_text(lsn)}"
            self._refuse(what, FRESH)
        self._check_kind(found)
        if found.lost:
            what = f"replication slot `{self._slot}` is lost: the server has removed the changes that it held"
            remedy = f"raise `max_slot_wal_keep_size`, drop the slot by {drop}, and {FRESH}"
            self._refuse(what, remedy)
        if found.confirmed > lsn:
            what = f"replication slot `{self._slot}` is at {lsn_text(found.confirmed)}, and this run is at "
            what += f"{lsn_text(lsn)}: the changes between are gone (another reader has read them, the slot "
            what += "was made again, or the run goes back further than `windows_kept`)"
            self._refuse(what, f"drop the slot by {drop}, and {FRESH}")

    def _check_kind(self, found: SlotState) -> None:
        database = self._connection.info.dbname
        if found.plugin != "pgoutput" or found.database != database:
            what = f"slot `{self._slot}` is one of {found.plugin or 'physical replication'}"
            what += f" in database {found.database}" if found.database else ""
            self._refuse(what, "name another by `slot`")

    def taken(self) -> SlotState | None:
        """A slot that another one has made, to be read on; None: there is none."""
        found = self.slot()
        if found is not None:
            self._check_kind(found)
        return found

    def refuse_taken(self) -> NoReturn:
        """Raise RidgelineError for a slot that is there though nothing was read yet."""
        what = f"replication slot `{self._slot}` is there already, of another checkpoint or reader"
        remedy = "continue with that `--checkpoint`; or, if nothing reads it any more, drop it by "
        remedy += f"`select pg_drop_replication_slot('{self._slot}')`; or read only what follows, with "
        self._refuse(what, remedy + '`begin="latest"`')

    def drop_slot(self) -> None:
        """Drop the slot, if it is there."""
        library = psycopg()
        with self.trouble, contextlib.suppress(library.errors.UndefinedObject):
            self._connection.execute("select pg_drop_replication_slot(%s)", (self._slot,))

    def drop_publication(self) -> None:
        """Drop the publication, if it is there."""
        with self.trouble:
            self._connection.execute(f"drop publication if exists {quoted(self._publication)}")


_ROW_FILTERS = 150_000
"""The first version that has row filters."""


def connected(server: Server, operator: str, *, replicates: bool = False) -> Any:
    """A connection whose texts are those that `change_values` reads."""
    settings = " ".join(f"-c {name}={value}" for name, value in SESSION.items())
    return server.connect(operator, settings, replicates=replicates)


def misfit(relation: Relation, schema: pa.Schema, names: Sequence[str]) -> str:
    """Why rows of a table cannot be read in a schema; empty: they can. `names`: the columns of the table."""
    found: Mapping[str, Column] = {column.name: column for column in relation.columns}
    for name in names:
        if name not in found:
            hint = did_you_mean(name, list(found))
            what = f"the table has no column `{name}` there: it was dropped or renamed, is generated, or the "
            return f"{what}publication leaves it out; change `schema`; {hint}"
        kind, oid = schema.field(name).type, found[name].oid
        if not readable(kind, oid):
            known, is_array = type_name(oid)
            there = f"{known}[]" if is_array else known
            return f"column `{name}` is {there} in the table and {kind} in `schema`; change `schema`"
    return ""


class Trouble:
    """Errors of the server as those of a source: it is gone, or something has to be done."""

    def __init__(self, operator: str, watched: Watched, slot: str) -> None:
        self._operator, self._slot = operator, slot
        self._table, self._server = watched.table, watched.server

    @property
    def place(self) -> str:
        """The table with its server, for people."""
        return f"table {self._table} of {self._server.place}"

    def fault(self, what: str, remedy: str) -> RidgelineError:
        """An error that ends the run."""
        return RidgelineError(f"`{self._operator}` cannot read changes of {self.place}: {what}; {remedy}")

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        library = psycopg()
        if isinstance(error, library.Error):
            raise self.translated(error) from error

    def translated(self, error: Exception) -> RidgelineError:
        """The error that says what to do, or that the server is gone."""
        library = psycopg()
        errors, text = library.errors, first_line(error)
        if isinstance(error, errors.ObjectInUse):
            msg = f"replication slot `{self._slot}` is used by another run: {text}; end that one, or name "
            return SourceUnavailableError(f"{msg}another by `slot`")
        lowered = text.lower()
        no_right = "replication" in lowered and ("permission" in lowered or "must be" in lowered)
        again = f"drop the slot `{self._slot}`, and {FRESH}"
        remedies: list[tuple[bool, str]] = [
            (no_right, "run `alter role ... replication` as a superuser"),
            (
                isinstance(error, errors.InsufficientPrivilege),
                "grant the right, such as `grant select on TABLE to ROLE`",
            ),
            (
                isinstance(error, errors.ObjectNotInPrerequisiteState),
                _LOGICAL if "wal_level" in text else again,
            ),
            (
                isinstance(error, errors.ConfigurationLimitExceeded),
                "raise `max_replication_slots` and `max_wal_senders`, or drop slots that nothing reads",
            ),
        ]
        for is_so, remedy in remedies:
            if is_so:
                return self.fault(text, remedy)
        if isinstance(error, (library.OperationalError, library.InterfaceError)):
            return SourceUnavailableError(f"{self.place} is unavailable: {text}")
        return self.fault(text, "check `table`, `schema`, `publication` and `slot`")
