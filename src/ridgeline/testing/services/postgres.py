"""A PostgreSQL server."""

import os
import signal
import subprocess
from collections.abc import Sequence

from ridgeline.testing.services.parts import Program
from ridgeline.testing.services.service import Service, ServiceError, new_name

_FOLDERS = "usr/lib/postgresql/*/bin"
_PACKAGE = "postgresql"
_SERVER = Program("postgres", _PACKAGE, _FOLDERS)
_INITDB = Program("initdb", _PACKAGE, _FOLDERS)
_PSQL = Program("psql", _PACKAGE, _FOLDERS)
_SETPRIV = Program("setpriv", "util-linux")
_AS_ROOT = os.geteuid() == 0


class Postgres(Service):
    """A PostgreSQL server with logical replication, without passwords.

    As root, it runs as the user `postgres` of the system, who must be able to enter the folder.

    Example:
        >>> from ridgeline.testing import services
        >>> server = services.postgres(settings={"fsync": "off"})
        >>> server.running
        False
    """

    NAME = "postgres"
    PARTS = (_SERVER, _INITDB, _PSQL, _SETPRIV) if _AS_ROOT else (_SERVER, _INITDB, _PSQL)
    STOP = signal.SIGINT  # ends connections; SIGTERM waits for them

    @property
    def dsn(self) -> str:
        """The address of the database `postgres`."""
        return self._dsn("postgres")

    def addresses(self) -> dict[str, str]:
        """`POSTGRES_DSN`."""
        return {"POSTGRES_DSN": self.dsn}

    def database(self, name: str | None = None) -> str:
        """Make a database; its address. Its name is a new one if none is given."""
        name = name or new_name("database")
        self.execute(f'create database "{name}"')
        return self._dsn(name)

    def execute(self, statement: str, *, database: str = "postgres") -> str:
        """Execute SQL by `psql`; the rows as lines, values separated by `|`.

        Raises:
            ServiceError: with what the server says, if it fails.
        """
        port = ["-h", "127.0.0.1", "-p", str(self._direct["main"]), "-U", "postgres", "-d", database]
        command = [_PSQL.path, "-X", "-q", "-A", "-t", "-v", "ON_ERROR_STOP=1", *port, "-c", statement]
        ran = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603 - a test's own
        if ran.returncode:
            raise ServiceError(f"postgres: {ran.stderr.strip()}")
        return ran.stdout.strip()

    def _dsn(self, database: str) -> str:
        return f"postgresql://postgres@127.0.0.1:{self._port('main')}/{database}"

    def _prefix(self) -> Sequence[str]:
        if not _AS_ROOT:
            return ()
        return [_SETPRIV.path, "--reuid=postgres", "--regid=postgres", "--clear-groups"]

    def _prepare(self) -> None:
        locale = ["--encoding=UTF8", "--no-locale"]
        self._run(
            [_INITDB.path, "-D", str(self._data / "postgres"), "-A", "trust", "-U", "postgres", "-N", *locale]
        )

    def _command(self) -> Sequence[str]:
        """The server, its settings as options."""
        settings = {
            "listen_addresses": "127.0.0.1",
            "unix_socket_directories": "",
            "wal_level": "logical",
            "max_wal_senders": "20",
            "max_replication_slots": "20",
            "dynamic_shared_memory_type": "mmap",  # in its folder, so that a kill leaves nothing elsewhere
            **self._settings,
        }
        options = [word for name, value in settings.items() for word in ("-c", f"{name}={value}")]
        port = str(self._direct["main"])
        return [_SERVER.path, "-D", str(self._data / "postgres"), "-p", port, *options]

    def _answers(self) -> bool:
        try:
            return self.execute("select 1") == "1"
        except ServiceError:
            return False
