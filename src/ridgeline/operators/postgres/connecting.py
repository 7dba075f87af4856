"""Connections to PostgreSQL: settings, secrets, and errors that no further attempt can mend."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from pydantic import Field

from ridgeline.api.errors import RidgelineError
from ridgeline.api.operator import Operator
from ridgeline.connect.datasets import Dataset
from ridgeline.connect.extras import library, library_faults
from ridgeline.connect.secrets import Secret, forget_secrets, secret_value

_SETTINGS = {
    "connect_timeout": "10",
    "keepalives_idle": "5",
    "keepalives_interval": "3",
    "keepalives_count": "3",
    "tcp_user_timeout": "30000",
    "application_name": "ridgeline",
}
_REFUSED = "authentication failed"
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


class Server(NamedTuple):
    """The server and the database, as properties name them."""

    dsn: Secret
    password: Secret | None
    settings: Mapping[str, str]

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
            given = dict(library.conninfo.conninfo_to_dict(secret_value(self.dsn, "dsn")))
        except library.Error:
            raise RidgelineError(
                "`dsn` is no connection string; write postgresql://USER@HOST:PORT/DATABASE"
            ) from None
        if self.password is not None:
            given["password"] = secret_value(self.password, "password")
        own = {name: secret_value(value, f"connection.{name}") for name, value in self.settings.items()}
        return {**_SETTINGS, **given, **own}

    def connect(self, operator: str, options: str = "", *, replicates: bool = False) -> Any:
        """A connection, each statement a transaction of its own.

        `options`: those of the session, beside the user's. `replicates`: it takes commands of replication.
        Raises RidgelineError for a user or a database that is wrong, errors of psycopg for a server that is
        gone.
        """
        try:
            return self._connect(options, replicates=replicates)
        except psycopg().OperationalError as error:
            # The password may have changed since a command was asked for it.
            if _REFUSED not in str(error) or not forget_secrets():
                raise self._known(operator, error) from None
        try:
            return self._connect(options, replicates=replicates)
        except psycopg().OperationalError as error:
            raise self._known(operator, error) from None

    def _connect(self, options: str, *, replicates: bool) -> Any:
        """One attempt. Raises errors of psycopg, RidgelineError for a `dsn` that is none."""
        given = self.given()
        if options:
            given["options"] = f"{given.get('options', '')} {options}".strip()
        if replicates:
            given["replication"] = "database"
        return psycopg().connect(**given, autocommit=True, context=Adapting())

    def _known(self, operator: str, error: Exception) -> Exception:
        """The error to raise: one that no further attempt can mend says what to do."""
        if not any(text in str(error) for text in _HOPELESS):
            return error
        msg = f"`{operator}` cannot connect to {self.place}: {first_line(error)}; "
        return RidgelineError(msg + "check `dsn`, `password` and `connection`")


class AtServer(Operator):
    """A mixin of inputs and outputs of PostgreSQL: where the table is."""

    dsn: Secret = Field(default=FROM_ENVIRONMENT, kw_only=True)
    password: Secret | None = Field(default=None, kw_only=True)
    connection: dict[str, str] = Field(default={}, kw_only=True)

    def property_faults(self) -> list[tuple[str, object, str]]:
        """Refuse a host without the library."""
        return [*super().property_faults(), *library_faults("dsn", self.dsn, psycopg)]

    def datasets(self) -> list[Dataset]:
        """The table, as `ridgeline.connect.datasets` names it."""
        return self.server.datasets(getattr(self, "table", None))

    @property
    def server(self) -> Server:
        """The server, as the properties name it."""
        return Server(self.dsn, self.password, dict(self.connection))


def first_line(error: Exception) -> str:
    """The message of the server, with its detail."""
    diagnosis = getattr(error, "diag", None)
    if diagnosis is not None and diagnosis.message_primary:
        detail = f" ({diagnosis.message_detail})" if diagnosis.message_detail else ""
        return f"{diagnosis.message_primary}{detail}"
    return str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
