"""A MariaDB server."""

import os
import subprocess
from collections.abc import Sequence

from ridgeline.testing.services import ServiceError, new_name
from ridgeline.testing.services.parts import Program
from support.services.disk import SmallDisk
from support.services.network import Proxied

_PACKAGE = "mariadb-server"
_SERVER = Program("mariadbd", _PACKAGE)
_INSTALL = Program("mariadb-install-db", _PACKAGE)
_CLIENT = Program("mariadb", _PACKAGE)


class MariaDB(Proxied):
    """A MariaDB server with a binary log of rows; user `root`, no password.

    `disk_bytes`: the size of a disk of its own, which `fill_disk` fills; None: the folder's disk.
    """

    NAME = "mariadb"
    PARTS = (_SERVER, _INSTALL, _CLIENT)
    disk = None

    def __init__(self, *, disk_bytes=None, **options):
        super().__init__(**options)
        self._disk_bytes = disk_bytes

    def close(self):
        super().close()
        if self.disk is not None:
            self.disk.close()
            self.disk = None

    def fill_disk(self):
        """Use all that is left of its disk, until `free_disk`."""
        self.disk.fill()

    def free_disk(self):
        """Give back what `fill_disk` has used."""
        self.disk.free()

    def _prefix(self):
        return self.disk.prefix if self.disk is not None else ()

    @property
    def url(self) -> str:
        """The address of the database `mysql`."""
        return self._url("mysql")

    @property
    def direct_url(self) -> str:
        """The address of the database `mysql`, past the proxy."""
        return f"mysql://root@127.0.0.1:{self._direct['main']}/mysql"

    def addresses(self) -> dict[str, str]:
        """`MARIADB_URL`."""
        return {"MARIADB_URL": self.url}

    def database(self, name: str | None = None) -> str:
        """Make a database; its address. Its name is a new one if none is given."""
        name = name or new_name("database")
        self.execute(f"create database `{name}`")
        return self._url(name)

    def execute(self, statement: str, *, database: str = "mysql") -> str:
        """Execute SQL by `mariadb`, past the proxy; the rows as lines, values separated by tabs.

        Raises:
            ServiceError: with what the server says, if it fails.
        """
        address = ["--host=127.0.0.1", "--protocol=tcp", f"--port={self._direct['main']}", "--user=root"]
        command = [_CLIENT.path, "--no-defaults", *address, "--batch", "--skip-column-names", database]
        ran = subprocess.run(
            [*command, f"--execute={statement}"], capture_output=True, text=True, check=False
        )
        if ran.returncode:
            raise ServiceError(f"mariadb: {ran.stderr.strip()}")
        return ran.stdout.strip()

    def _url(self, database: str) -> str:
        return f"mysql://root@127.0.0.1:{self._port('main')}/{database}"

    def _as_root(self) -> Sequence[str]:
        return ["--user=root"] if os.geteuid() == 0 else []

    def _prepare(self) -> None:
        if self._disk_bytes is not None:
            self.disk = SmallDisk(self._data, self._disk_bytes, self.folder)
        folder = f"--datadir={self._data / 'mariadb'}"
        options = ["--no-defaults", folder, "--auth-root-authentication-method=normal", "--skip-test-db"]
        self._run([_INSTALL.path, *options, *self._as_root()])

    def _command(self) -> Sequence[str]:
        """The server, its settings as options."""
        settings = {
            "datadir": str(self._data / "mariadb"),
            "port": str(self._direct["main"]),
            "bind-address": "127.0.0.1",
            "socket": str(self.folder / "socket"),
            "pid-file": str(self.folder / "pid"),
            "server-id": "1",
            "log-bin": "binlog",
            "binlog-format": "ROW",
            "innodb-buffer-pool-size": "64M",
            **self._settings,
        }
        options = [f"--{name}={value}" for name, value in settings.items()]
        return [_SERVER.path, "--no-defaults", *options, *self._as_root()]

    def _answers(self) -> bool:
        try:
            return self.execute("select 1") == "1"
        except ServiceError:
            return False
