"""What databases at a server share: the properties that say where it is, and what its errors mean."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from pydantic import Field
from typing_extensions import TypeVar

from ridgeline.api.operator import Operator
from ridgeline.api.support.duration import Duration, parse_duration
from ridgeline.connect.datasets import Dataset
from ridgeline.connect.extras import Secret, library_faults, secret_value
from ridgeline.connect.sink import Batch
from ridgeline.connectors.sql.increasing import IncreasingInput, Rows
from ridgeline.connectors.sql.tables import DatabaseSink, Target

T = TypeVar("T", default=Any)


@dataclass(frozen=True)
class Server:
    """The server and the database, as properties name them. A subclass knows the database.

    `address`: the value of the property `named`. `settings`: the property `connection`.
    """

    named: ClassVar[str]

    address: Secret
    password: Secret | None
    settings: Mapping[str, str]

    @staticmethod
    def library() -> Any:
        """The library, whose errors are `Error`. Raises RidgelineError if it is not installed."""
        raise NotImplementedError

    @property
    def place(self) -> str:
        """Host, port and database, for people."""
        raise NotImplementedError

    def datasets(self, table: str | None) -> list[Dataset]:
        """A table, or `(query)`, as `ridgeline.connect.datasets` names it."""
        raise NotImplementedError

    def connect(self, operator: str) -> Any:
        """A connection. Raises RidgelineError for what no attempt can fix, errors of the library."""
        raise NotImplementedError

    def disconnect(self, connection: Any) -> None:
        """Close a connection."""
        connection.close()

    def passes(self, error: Exception) -> bool:
        """Whether the server is gone, ending, starting, full or busy: another attempt may succeed."""
        raise NotImplementedError

    def refuses(self, error: Exception) -> bool:
        """Whether it refuses a statement for reasons that no row has."""
        raise NotImplementedError

    def reason(self, error: Exception) -> str:
        """The text of an error of the server."""
        raise NotImplementedError

    def secrets(self) -> dict[str, str]:
        """The password and the settings of the connection with their values. Raises RidgelineError."""
        found = {name: secret_value(value, f"connection.{name}") for name, value in self.settings.items()}
        if self.password is not None:
            found.setdefault("password", secret_value(self.password, "password"))
        return found


class AtServer(Operator):
    """A mixin of inputs and outputs: where the table is."""

    at: ClassVar[type[Server]]

    password: Secret | None = Field(default=None, kw_only=True)
    connection: dict[str, str] = Field(default={}, kw_only=True)

    def property_faults(self) -> list[tuple[str, object, str]]:
        """Refuse a host without the library."""
        named = self.at.named
        return [*super().property_faults(), *library_faults(named, getattr(self, named), self.at.library)]

    def datasets(self) -> list[Dataset]:
        """The table, as `ridgeline.connect.datasets` names it."""
        return self.server.datasets(getattr(self, "table", None))

    @property
    def server(self) -> Any:
        """The server, as the properties name it."""
        return self.at(getattr(self, self.at.named), self.password, dict(self.connection))


@dataclass(frozen=True)
class ServerRows(Rows):
    """The rows of a table at a server."""

    server: Server

    @property
    def base(self) -> str:
        """The server and the database."""
        return self.server.place

    def connect(self, operator: str) -> Any:
        """A connection. Raises errors of the database."""
        return self.server.connect(operator)

    def disconnect(self, connection: Any) -> None:
        """Close a connection."""
        self.server.disconnect(connection)

    def passes(self, error: Exception) -> bool | None:
        """Whether the server is gone, or busy; None: it is no error of the server."""
        own = isinstance(error, (self.server.library().Error, OSError))
        return self.server.passes(error) if own else None

    def reason(self, error: Exception) -> str:
        """The text of the server."""
        return self.server.reason(error)


class ServerInput(IncreasingInput[T]):
    """Reads a table, or a query, at a server. `read_by`: the rows of the database."""

    read_by: ClassVar[type[ServerRows]]

    lag: Duration = Field(default="200ms", kw_only=True)

    def rows(self) -> ServerRows:
        """The rows that are read."""
        at: Any = self
        lag = parse_duration(self.lag)
        return self.read_by(self.table, self.query, self.column, self.shards, lag, at.server)


class ServerSink(DatabaseSink):
    """Writes into a table at a server."""

    hole: ClassVar[str] = "%s"
    locks: ClassVar[str] = " for update"
    touches: ClassVar[str] = ", written = now()"

    def __init__(self, server: Any, target: Target) -> None:
        super().__init__(target)
        self._server = server

    def place(self) -> str:
        """The table, with the server's host and database."""
        return f"table {self.target.name} of {self._server.place}"

    def connect(self) -> None:
        """Connect. Raises RidgelineError, errors of the database."""
        self.connection = self._server.connect(self.context.operator)

    def explained(self, error: Exception, batches: Sequence[Batch]) -> Exception:
        """What the server refuses for reasons that no row has, the user has to fix."""
        return self.refused(self._server.reason(error)) if self._server.refuses(error) else error

    def is_unavailable(self, error: Exception) -> bool:
        """Whether the server is gone, ending, starting, full, busy, or read-only for a while."""
        return bool(self._server.passes(error))
