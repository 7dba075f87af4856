"""A Redis server."""

from collections.abc import Sequence

from ridgeline.testing.services.parts.programs import Program
from ridgeline.testing.services.service import Service, ServiceError

_SERVER = Program("redis-server", "redis-server")
_DATABASES = 4096


class Redis(Service):
    """A Redis server that appends all changes to a file: what it has answered survives a kill.

    Example:
        >>> from ridgeline.testing import services
        >>> services.redis(settings={"maxmemory": "64mb"}).running
        False
    """

    NAME = "redis"
    PARTS = (_SERVER,)
    _used = 0

    @property
    def url(self) -> str:
        """The address of database 0."""
        return f"redis://127.0.0.1:{self._port('main')}/0"

    @property
    def direct_url(self) -> str:
        """The address of database 0, past the proxy."""
        return f"redis://127.0.0.1:{self._direct['main']}/0"

    def database(self) -> str:
        """The address of a database that no one else has used.

        Raises:
            ServiceError: if all 4,095 are used.
        """
        self._used += 1
        if self._used >= _DATABASES:
            raise ServiceError(f"redis: all {_DATABASES} databases are used")
        return f"redis://127.0.0.1:{self._port('main')}/{self._used}"

    def addresses(self) -> dict[str, str]:
        """`REDIS_URL`."""
        return {"REDIS_URL": self.url}

    def _command(self) -> Sequence[str]:
        """The server, its settings as options."""
        settings = {
            "port": str(self._direct["main"]),
            "bind": "127.0.0.1",
            "dir": str(self._data),
            "databases": str(_DATABASES),
            "appendonly": "yes",
            "save": "",
            "daemonize": "no",
            **self._settings,
        }
        return [_SERVER.path, *(word for name, value in settings.items() for word in (f"--{name}", value))]

    def _answers(self) -> bool:
        return self._replies("main", b"PING\r\n", b"+PONG")
