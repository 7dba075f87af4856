"""Scratch schemas in PostgreSQL: each has a table and marks of its own."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ridgeline.api.errors import RidgelineError
from ridgeline.connect.scratch import SCRATCH, ScratchPlace
from ridgeline.connect.scratch import Server as Address
from ridgeline.operators._scratch import KEY, POISON, WHO, copied, left_out
from ridgeline.operators.postgres.connecting import Server, first_line, psycopg

if TYPE_CHECKING:
    from ridgeline.operators.postgres.output import PostgresOutput

_TABLE = "rows"


class ScratchSchemas:
    """The scratch schemas of a database."""

    def __init__(self, server: Server) -> None:
        self._server = server

    def make(self, name: str) -> None:
        """Make one. Raises RidgelineError if the user may not."""
        self._do("create schema {}", [name])

    def remove(self, names: Sequence[str]) -> None:
        """Remove those that are there, with all in them. Raises RidgelineError if the user may not."""
        self._do("drop schema if exists {} cascade", names)

    def left(self) -> list[str]:
        """The names of all of them."""
        query = "select nspname from pg_namespace where starts_with(nspname, %s) order by nspname"
        with self._connected() as connection:
            return [name for (name,) in connection.execute(query, (SCRATCH,))]

    def _do(self, statement: str, names: Sequence[str]) -> None:
        sql, library = psycopg().sql, psycopg()
        with self._connected() as connection:
            for name in names:
                try:
                    connection.execute(sql.SQL(statement).format(sql.Identifier(name)))
                except library.errors.InsufficientPrivilege as error:
                    msg = f"the user may not make a scratch schema in {self._server.place}: "
                    msg += f"{first_line(error)}; grant it CREATE on the database, or prove the output on a "
                    msg += "copy of the database"
                    raise RidgelineError(msg) from error

    def _connected(self) -> Any:
        library = psycopg()
        try:
            return self._server.connect(WHO)
        except library.OperationalError as error:
            raise RidgelineError(
                f"{self._server.place} does not answer: {first_line(error)}; start it, or correct `dsn`"
            ) from None


class PostgresScratch(ScratchPlace):
    """A schema with the table `rows`, on which the connection's `search_path` is set."""

    def __init__(self, output: PostgresOutput, name: str) -> None:
        self._output, self._name = output, name
        server = Server(output.dsn, output.password, output.connection)
        self._schemas = ScratchSchemas(server)
        given = server.given()
        path = f"{given.get('options', '')} -c search_path={name}".strip()
        self._settings = {**output.connection, "options": path}
        self._reading = Server(output.dsn, output.password, self._settings)
        self.server, self.why_no_relay = _address(given)
        self.upserts = bool(output.key)
        self.notes = (
            f"written to a table in a schema of its own in {server.place}",
            *left_out(output, {"delete": None}),
        )
        self._schemas.make(name)

    def output(self, relay: int | None = None) -> PostgresOutput:
        """One that writes to the schema's table."""
        settings = dict(self._settings)
        if relay is not None:
            settings |= {"hostaddr": "127.0.0.1", "port": str(relay)}
        changed = {"table": _TABLE, "connection": settings, "create": True, "delete": None}
        made: PostgresOutput = copied(self._output, key=KEY if self.upserts else None, **changed)
        return made

    def rows(self) -> Sequence[tuple[Any, ...]]:
        """The rows of the table."""
        library = psycopg()
        with self._reading.connect(WHO) as connection:
            try:
                found = connection.execute(f"select id, key, text, value from {_TABLE}")  # noqa: S608  our own
                return list(found.fetchall())
            except library.errors.UndefinedTable:
                return []

    def poison(self) -> tuple[Any, ...]:
        """A row that the table refuses, made with a condition for it if it is not there."""
        columns = "id bigint, key bigint, text text, value float8 check (value < 1000)"
        end = ", primary key (key)" if self.upserts else ""
        with self._reading.connect(WHO) as connection:
            connection.execute(f"create table if not exists {_TABLE} ({columns}{end})")
        return POISON

    def remove(self) -> None:
        """Remove the schema."""
        self._schemas.remove([self._name])


def _address(given: Any) -> tuple[Address | None, str]:
    """The server's address, if the client connects to one by TCP; else why not."""
    host = given.get("hostaddr") or given.get("host") or os.environ.get("PGHOST", "")
    port = str(given.get("port") or os.environ.get("PGPORT", "5432"))
    if not host or host.startswith(("/", "@")):
        return None, "the client connects by a socket of this host"
    if "," in host or "," in port:
        return None, "`dsn` names several servers"
    return Address(str(host), int(port)), ""
