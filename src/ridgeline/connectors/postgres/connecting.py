"""Connections to PostgreSQL: settings, secrets, and errors that no further attempt can fix."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from pydantic import Field

from ridgeline.api.errors import RidgelineError
from ridgeline.connect.datasets import Dataset
from ridgeline.connect.extras import Secret, library, secret_value
from ridgeline.connectors.sql import servers

_SETTINGS = {
    "connect_timeout": "10",
    "keepalives_idle": "5",
    "keepalives_interval": "3",
    "keepalives_count": "3",
    "tcp_user_timeout": "30000",
    "application_name": "ridgeline",
}
_HOPELESS = (
    "authentication failed",
    "no password supplied",
    "does not exist",
    "no pg_hba.conf entry",
    "invalid connection option",
    "is not permitted to log in",
    "permission denied for database",
    "certificate verify failed",
    "does not match host name",
    "server does not support SSL",
    "valid client certificate",
)


_READ_ONLY = "25006"
FROM_ENVIRONMENT = "env:POSTGRES_DSN"


def psycopg() -> Any:
    """The library. Raises RidgelineError if it is not installed."""
    return library("psycopg", "PostgreSQL needs psycopg, which cannot be imported", "postgres")


class Adapting:
    """The context of psycopg in which an interval with months stays a text: it is no number of days."""

    connection = None

    def __init__(self) -> None:
        given = psycopg()
        base: Any = given.adapt.Loader
        self.adapters = given.adapt.AdaptersMap(given.adapters)

        loader = given.adapters.get_loader(given.adapters.types["interval"].oid, given.pq.Format.TEXT)

        class Intervals(base):
            def __init__(self, oid: int, context: Any = None) -> None:
                super().__init__(oid, context)
                self._plain = loader(oid, context)

            def load(self, data: bytes) -> Any:
                text = bytes(data).decode()
                return text if "mon" in text or "year" in text else self._plain.load(data)

        self.adapters.register_loader("interval", Intervals)


@dataclass(frozen=True)
class Server(servers.Server):
    """The server and the database, as properties name them."""

    named: ClassVar[str] = "dsn"
    library = staticmethod(psycopg)

    @property
    def place(self) -> str:
        """Host, port and database, for people."""
        given = self.given()
        host, database = given.get("host", "localhost"), given.get("dbname", given.get("user", ""))
        return f"{host}:{given.get('port', 5432)}/{database}"

    def datasets(self, table: str | None) -> list[Dataset]:
        """A table, or `(query)`, as `ridgeline.connect.datasets` names it."""
        host, _, database = self.place.rpartition("/")
        name = table or "(query)"
        whole = name if "." in name or table is None else f"public.{name}"
        return [Dataset(f"postgres://{host}", f"{database}.{whole}")]

    def given(self) -> dict[str, Any]:
        """The settings of the connection. Raises RidgelineError for a `dsn` that is none, without it."""
        library = psycopg()
        try:
            given = dict(library.conninfo.conninfo_to_dict(secret_value(self.address, "dsn")))
        except library.Error:
            raise RidgelineError(
                "`dsn` is no connection string; write postgresql://USER@HOST:PORT/DATABASE"
            ) from None
        return {**_SETTINGS, **given, **self.secrets()}

    def connect(self, operator: str, options: str = "", *, replicates: bool = False) -> Any:
        """A connection, each statement a transaction of its own.

        `options`: those of the session, beside the user's. `replicates`: it takes commands of replication.
        Raises RidgelineError for a user or a database that is wrong, errors of psycopg for a server that is
        gone.
        """
        given = self.given()
        if options:
            given["options"] = f"{given.get('options', '')} {options}".strip()
        if replicates:
            given["replication"] = "database"
        try:
            return psycopg().connect(**given, autocommit=True, context=Adapting())
        except psycopg().OperationalError as error:
            if not any(text in str(error) for text in _HOPELESS):
                raise
            msg = f"`{operator}` cannot connect to {self.place}: {first_line(error)}; "
            raise RidgelineError(msg + "check `dsn`, `password` and `connection`") from None

    def passes(self, error: Exception) -> bool:
        """Whether the server is gone, ending, starting, full, or read-only for a while."""
        library = psycopg()
        if isinstance(error, library.Error) and error.sqlstate == _READ_ONLY:
            return True
        return isinstance(error, (library.OperationalError, library.InterfaceError, OSError))

    def refuses(self, error: Exception) -> bool:
        """Whether it refuses a statement for reasons that no row has."""
        return isinstance(error, (psycopg().ProgrammingError, psycopg().NotSupportedError))

    def reason(self, error: Exception) -> str:
        """The message of the server."""
        return first_line(error)


class AtServer(servers.AtServer):
    """A mixin of inputs and outputs of PostgreSQL: where the table is."""

    at: ClassVar[type[servers.Server]] = Server

    dsn: Secret = Field(default=FROM_ENVIRONMENT, kw_only=True)


def first_line(error: Exception) -> str:
    """The message of the server, with its detail."""
    diagnosis = getattr(error, "diag", None)
    if diagnosis is not None and diagnosis.message_primary:
        detail = f" ({diagnosis.message_detail})" if diagnosis.message_detail else ""
        return f"{diagnosis.message_primary}{detail}"
    return str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
