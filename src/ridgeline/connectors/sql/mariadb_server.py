"""Connections to MariaDB: settings, secrets, the session, and which errors pass."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar
from urllib.parse import parse_qsl, unquote, urlsplit

from pydantic import Field

from ridgeline.api.errors import RidgelineError, did_you_mean
from ridgeline.connect.datasets import Dataset
from ridgeline.connect.extras import Secret, library, secret_value
from ridgeline.connectors.sql import servers

FROM_ENVIRONMENT = "env:MARIADB_URL"
MARK = "`"
"""The quote of names."""
_DEFAULTS = {"connect_timeout": "10", "read_timeout": "60", "write_timeout": "60"}
_YES = ("1", "true", "yes", "on")


def _yes(text: str) -> bool:
    return text.lower() in _YES


def _number(text: str, kind: Callable[[str], float], most: int) -> float:
    """A number above 0. Raises ValueError, with the bounds, for other texts."""
    with contextlib.suppress(ValueError):
        if 0 < (number := kind(text)) <= most:
            return number
    raise ValueError(f"is a number above 0, and {most} at most")


def _port(text: str) -> float:
    return _number(text, int, 65_535)  # the library connects to another port for a greater one


def _seconds(text: str) -> float:
    return _number(text, float, 31_536_000)  # as PyMySQL bounds `connect_timeout`


_SETTINGS: dict[str, Callable[[str], Any]] = {
    "host": str,
    "port": _port,
    "database": str,
    "connect_timeout": _seconds,
    "read_timeout": _seconds,
    "write_timeout": _seconds,
    "unix_socket": str,
    "bind_address": str,
    "ssl_ca": str,
    "ssl_cert": str,
    "ssl_key": str,
    "ssl_key_password": str,
    "ssl_verify_cert": _yes,
    "ssl_verify_identity": _yes,
    "ssl_disabled": _yes,
}
"""Settings of PyMySQL that `connection` and the query of the URL may have. They count before the URL."""

_MODES = "STRICT_ALL_TABLES,NO_ZERO_DATE,NO_ZERO_IN_DATE,ERROR_FOR_DIVISION_BY_ZERO,NO_AUTO_VALUE_ON_ZERO"
_SESSION = (
    f"set session sql_mode = '{_MODES},NO_ENGINE_SUBSTITUTION'",  # whatever the server's default is
    "set session time_zone = '+00:00'",
    "set session sql_notes = 1",
    "set session innodb_lock_wait_timeout = 20",
)
_IDLE = "set session idle_transaction_timeout = 60"
"""A driver that hangs in a transaction holds up its successor no longer. MySQL does not have it."""
_UNKNOWN_VARIABLE = 1193

_PASSING = {
    1020,  # the row was changed by another transaction
    1021,  # disk full
    1026,  # error writing a file
    1030,  # an error of the engine, such as a full disk
    1040,  # too many connections
    1041,  # out of memory
    1047,  # a node of a cluster that is not ready
    1053,  # the server shuts down
    1105,  # a proxy without a server behind it
    1114,  # the table's file system is full
    1129,  # the host is blocked for a while
    1152,
    1158,
    1159,
    1160,
    1161,  # the connection broke off
    1180,  # the commit failed
    1184,
    1203,  # too many connections of this user
    1205,  # a lock was waited for too long
    1206,
    1213,  # a deadlock: this transaction was rolled back
    1226,  # the user's resources are used up
    1290,  # the server is read-only for a while
    1317,  # the query was interrupted
    1412,  # the table has changed meanwhile
    1637,
    1792,
    1836,  # read-only
    1927,  # the connection was killed
    1969,  # the statement took too long
    4031,  # the server has closed an idle connection
}
_FULL = re.compile(r"No space left|Disk quota exceeded|err(?:no|code): (?:28|122)\b", re.IGNORECASE)
"""A full disk, whatever was written when it became full."""
_HOPELESS = {1044, 1045, 1049, 1130, 1251, 1698, 2026, 2059, 2061}
ROW_ERRORS = frozenset(
    {1048, 1062, 1118, 1153, 1169, 1216, 1217, 1263, 1264, 1265, 1292, 1366, 1367, 1406, 1411}
    | {1441, 1451, 1452, 1557, 1586, 1644, 1690, 1713, 1761, 1762, 3140, 3819, 4025}
)
"""Errors that a single row is to blame for: null, not unique, too large, refused by a check or a trigger."""


def pymysql() -> Any:
    """The library. Raises RidgelineError if it is not installed."""
    return library("pymysql", "MariaDB needs PyMySQL, which cannot be imported", "mariadb")


@dataclass(frozen=True)
class Server(servers.Server):
    """The server and the database, as properties name them."""

    named: ClassVar[str] = "url"
    library = staticmethod(pymysql)

    @property
    def place(self) -> str:
        """Host, port and database, for people."""
        given = self.given()
        return f"{given['host']}:{given['port']}/{given['database'] or ''}"

    def datasets(self, table: str | None) -> list[Dataset]:
        """A table, or `(query)`, as `ridgeline.connect.datasets` names it."""
        place, _, database = self.place.rpartition("/")
        name = table or "(query)"
        return [Dataset(f"mysql://{place}", name if "." in name else f"{database}.{name}")]

    @property
    def database(self) -> str:
        """The database of the URL; "" if it names none."""
        return self.given()["database"] or ""

    def given(self) -> dict[str, Any]:
        """The arguments of a connection, with the password.

        Raises RidgelineError for a `url` that is none, without its text.
        """
        try:
            parts = urlsplit(secret_value(self.address, "url"))
            port = parts.port or 3306
        except ValueError:
            parts, port = urlsplit(""), 0
        if parts.scheme.partition("+")[0] not in {"mariadb", "mysql"} or not parts.username:
            raise RidgelineError("`url` is no address of a server; write mariadb://USER@HOST:PORT/DATABASE")
        given: dict[str, Any] = {
            "host": parts.hostname or "localhost",
            "port": port,
            "user": unquote(parts.username),
            "password": unquote(parts.password or ""),
            "database": unquote(parts.path.strip("/")) or None,
        }
        own = self.secrets()
        given["password"] = own.pop("password", given["password"])
        for name, text in {**_DEFAULTS, **dict(parse_qsl(parts.query)), **own}.items():
            if name not in _SETTINGS:
                raise RidgelineError(f"`connection` has no setting `{name}`; {did_you_mean(name, _SETTINGS)}")
            try:
                given[name] = _SETTINGS[name](text)
            except ValueError as error:
                raise RidgelineError(f"`connection`: `{name}` {error}, not `{text}`") from None
        return given

    def connect(self, operator: str) -> Any:
        """A connection, each statement a transaction of its own, strict, in UTC, in utf8mb4.

        Raises RidgelineError for a user or a database that is wrong, errors of PyMySQL for a server that is
        gone.
        """
        library = pymysql()
        more = {"charset": "utf8mb4", "autocommit": True, "program_name": "ridgeline"}
        more["client_flag"] = library.constants.CLIENT.FOUND_ROWS  # an update counts rows that stay the same
        try:
            made = library.connect(**self.given(), **more)
        except library.OperationalError as error:
            if code_of(error) not in _HOPELESS and "certificate" not in str(error).lower():
                raise
            raise self._hopeless(operator, reason(error)) from None
        except RuntimeError as error:  # PyMySQL: a package that the user's way to log in needs is missing
            raise self._hopeless(operator, str(error)) from None
        try:
            self._settle(made)
        except BaseException:
            made.close()
            raise
        return made

    def disconnect(self, connection: Any) -> None:
        """Close a connection without a word to the server: a query may have rows left."""
        connection._force_close()  # noqa: SLF001  the library has no other way

    def _settle(self, connection: Any) -> None:
        """Set all that the meaning of values depends on, whatever the server's defaults are."""
        with connection.cursor() as cursor:
            for statement in _SESSION:
                cursor.execute(statement)
            try:
                cursor.execute(_IDLE)
            except pymysql().MySQLError as error:
                if code_of(error) != _UNKNOWN_VARIABLE:
                    raise

    def _hopeless(self, operator: str, why: str) -> RidgelineError:
        msg = f"`{operator}` cannot connect to {self.place}: {why}; check `url`, `password` and `connection`"
        return RidgelineError(msg)

    def passes(self, error: Exception) -> bool:
        """Whether the server is gone, ending, full, or busy: another attempt may succeed."""
        library = pymysql()
        if isinstance(error, (OSError, library.InterfaceError)):
            return True
        if not isinstance(error, library.MySQLError):
            return False
        code = code_of(error)
        return code in _PASSING or 2000 <= code < 2050 or _FULL.search(str(error)) is not None  # noqa: PLR2004

    def refuses(self, error: Exception) -> bool:
        """Whether it refuses a statement for reasons that no row has."""
        return isinstance(error, pymysql().MySQLError) and not self.passes(error)

    def reason(self, error: Exception) -> str:
        """The text of an error of the server."""
        return reason(error)


class AtServer(servers.AtServer):
    """A mixin of inputs and outputs of MariaDB: where the table is."""

    at: ClassVar[type[servers.Server]] = Server

    url: Secret = Field(default=FROM_ENVIRONMENT, kw_only=True)


def code_of(error: BaseException) -> int:
    """The number of an error of the server, or of the library; 0: it has none."""
    code = error.args[0] if error.args else 0
    return code if isinstance(code, int) else 0


def reason(error: BaseException) -> str:
    """The text of an error of the server."""
    text = str(error.args[1] if len(error.args) > 1 else error).strip()
    return text.splitlines()[0] if text else type(error).__name__
