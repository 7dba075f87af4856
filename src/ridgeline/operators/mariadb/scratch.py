"""Scratch databases in MariaDB: each has a table and marks of its own."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING, Any

from ridgeline.api.errors import RidgelineError
from ridgeline.connect.scratch import SCRATCH, ScratchPlace
from ridgeline.connect.scratch import Server as Address
from ridgeline.operators._scratch import KEY, POISON, WHO, copied, left_out
from ridgeline.operators.mariadb.connecting import Server, code_of, pymysql, quoted_column, reason

if TYPE_CHECKING:
    from ridgeline.operators.mariadb.output import MariaDbOutput

_TABLE = "rows"
_REFUSED = {1044, 1142, 1227}
_NO_TABLE = 1146


class ScratchDatabases:
    """The scratch databases of a server."""

    def __init__(self, server: Server) -> None:
        self._server = server

    def make(self, name: str) -> None:
        """Make one. Raises RidgelineError if the user may not."""
        self._do("create database {}", [name])

    def remove(self, names: Sequence[str]) -> None:
        """Remove those that are there, with all in them. Raises RidgelineError if the user may not."""
        self._do("drop database if exists {}", names)

    def left(self) -> list[str]:
        """The names of all of them that the user may see."""
        query = "select schema_name from information_schema.schemata order by schema_name"
        with self._cursor() as cursor:
            cursor.execute(query)
            return [name for (name,) in cursor.fetchall() if name.startswith(SCRATCH)]

    def _do(self, statement: str, names: Sequence[str]) -> None:
        """Run a statement for each database."""
        with self._cursor() as cursor:
            for name in names:
                try:
                    cursor.execute(statement.format(quoted_column(name)))
                except pymysql().MySQLError as error:
                    if code_of(error) not in _REFUSED:
                        raise
                    pattern = SCRATCH.replace("_", r"\_")
                    msg = f"the user may not make a scratch database in {self._server.place}: "
                    msg += f"{reason(error)}; grant it all on `{pattern}%`.*, or prove the output on another "
                    raise RidgelineError(msg + "server") from error

    @contextmanager
    def _cursor(self) -> Iterator[Any]:
        """A cursor of a connection. Raises RidgelineError if the server does not answer."""
        try:
            connection = self._server.connect(WHO)
        except pymysql().OperationalError as error:
            raise RidgelineError(
                f"{self._server.place} does not answer: {reason(error)}; start it, or correct `url`"
            ) from None
        with closing(connection), connection.cursor() as cursor:
            yield cursor


class MariaDbScratch(ScratchPlace):
    """A database with the table `rows`, and marks of its own."""

    def __init__(self, output: MariaDbOutput, name: str) -> None:
        self._output, self._name = output, name
        server = Server(output.url, output.password, output.connection)
        self._databases = ScratchDatabases(server)
        self._settings = {**output.connection, "database": name}
        self._reading = Server(output.url, output.password, self._settings)
        self.server, self.why_no_relay = _address(server.given())
        self.upserts = bool(output.key)
        self.notes = (
            f"written to a table in a database of its own at {server.place}",
            *left_out(output, {"delete": None}),
        )
        self._databases.make(name)

    def output(self, relay: int | None = None) -> MariaDbOutput:
        """One that writes to the database's table."""
        settings = dict(self._settings)
        if relay is not None:
            settings |= {"host": "127.0.0.1", "port": str(relay)}
        changed = {"table": _TABLE, "connection": settings, "create": True, "delete": None}
        made: MariaDbOutput = copied(self._output, key=KEY if self.upserts else (), **changed)
        return made

    def rows(self) -> Sequence[tuple[Any, ...]]:
        """The rows of the table."""
        with closing(self._reading.connect(WHO)) as connection, connection.cursor() as cursor:
            try:
                cursor.execute("select id, `key`, text, value from `rows`")
            except pymysql().ProgrammingError as error:
                if code_of(error) != _NO_TABLE:
                    raise
                return []
            return list(cursor.fetchall())

    def poison(self) -> tuple[Any, ...]:
        """A row that the table refuses, made with a condition for it if it is not there."""
        columns = "id bigint, `key` bigint, text longtext, value double check (value < 1000)"
        end = ", primary key (`key`)" if self.upserts else ""
        options = "engine = InnoDB character set utf8mb4"
        with closing(self._reading.connect(WHO)) as connection, connection.cursor() as cursor:
            cursor.execute(f"create table if not exists `rows` ({columns}{end}) {options}")
        return POISON

    def remove(self) -> None:
        """Remove the database."""
        self._databases.remove([self._name])


def _address(given: dict[str, Any]) -> tuple[Address | None, str]:
    """The server's address, if the client connects to one by TCP; else why not."""
    if given.get("unix_socket"):
        return None, "the client connects by a socket of this host"
    if given.get("ssl_verify_identity"):
        return None, "the client compares the server's name with its certificate"
    return Address(given["host"], given["port"]), ""
