"""A RabbitMQ server with streams."""

from collections.abc import Mapping, Sequence

from ridgeline.testing.services.parts.programs import Program
from ridgeline.testing.services.processes import Started
from ridgeline.testing.services.service import Service

_FOLDER = "usr/lib/rabbitmq/bin"
_SERVER = Program("rabbitmq-server", "rabbitmq-server", _FOLDER)
_EPMD = Program("epmd", "rabbitmq-server")
_HEADER = b"AMQP\x00\x00\x09\x01"
_START = b"\x00\x0a\x00\x0a"
"""`connection.start` of AMQP 0-9-1."""


class RabbitMQ(Service):
    """A RabbitMQ server with the plugin for streams, user `guest`, password `guest`.

    After a start on old data, a stream may be unavailable for a moment, until its leader is elected. Version
    3.10 was seen to lose a stream if it is killed within a second after a write. Queues lose nothing.

    Example:
        >>> from ridgeline.testing import services
        >>> services.rabbitmq(settings={"heartbeat": "10"}).running
        False
    """

    NAME = "rabbitmq"
    PARTS = (_SERVER, _EPMD)
    PORTS = ("main", "streams")
    INNER_PORTS = ("nodes", "names")
    _names: Started | None = None

    @property
    def url(self) -> str:
        """The address for AMQP."""
        return f"amqp://guest:guest@127.0.0.1:{self._port('main')}/"

    @property
    def direct_url(self) -> str:
        """The address for AMQP, past the proxy."""
        return f"amqp://guest:guest@127.0.0.1:{self._direct['main']}/"

    @property
    def stream_port(self) -> int:
        """The port of 127.0.0.1 for the protocol of streams."""
        return self._port("streams")

    def addresses(self) -> dict[str, str]:
        """`RABBITMQ_URL` and `RABBITMQ_STREAM_PORT`."""
        return {"RABBITMQ_URL": self.url, "RABBITMQ_STREAM_PORT": str(self.stream_port)}

    def close(self) -> None:
        """End it, and the register of names of its nodes."""
        super().close()
        if self._names is not None and self._owns:
            self._names.kill()
            self._names = None

    def _prepare(self) -> None:
        """Write its settings, start the register of names. Erlang would leave its own behind."""
        settings = {
            "listeners.tcp.1": f"127.0.0.1:{self._direct['main']}",
            "stream.listeners.tcp.1": f"127.0.0.1:{self._direct['streams']}",
            "stream.advertised_host": "127.0.0.1",
            "stream.advertised_port": str(self._port("streams")),
            "disk_free_limit.absolute": "16MB",
            **self._settings,
        }
        lines = [f"{name} = {value}\n" for name, value in settings.items()]
        (self.folder / "rabbitmq.conf").write_text("".join(lines))
        (self.folder / "plugins").write_text("[rabbitmq_stream].\n")
        (self.folder / "none").write_text("")
        command = [_EPMD.path, "-address", "127.0.0.1", "-port", str(self._port("names"))]
        self._names = Started(command, self.folder / "names.log", cwd=self.folder)

    def _environment(self) -> Mapping[str, str]:
        """Its folders, ports and files."""
        return {
            "HOME": str(self.folder),
            "ERL_EPMD_ADDRESS": "127.0.0.1",
            "ERL_EPMD_PORT": str(self._port("names")),
            "RABBITMQ_NODENAME": "ridgeline@localhost",
            "RABBITMQ_DIST_PORT": str(self._port("nodes")),
            "RABBITMQ_CONF_ENV_FILE": str(self.folder / "none"),
            "RABBITMQ_CONFIG_FILE": str(self.folder / "rabbitmq.conf"),
            "RABBITMQ_ENABLED_PLUGINS_FILE": str(self.folder / "plugins"),
            "RABBITMQ_MNESIA_BASE": str(self._data),
            "RABBITMQ_LOG_BASE": str(self.folder),
            "RABBITMQ_LOGS": "-",
            "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS": "+S 2:2 +sbwt none",
        }

    def _command(self) -> Sequence[str]:
        return [_SERVER.path]

    def _answers(self) -> bool:
        return self._replies("streams", b"", b"") and self._replies("main", _HEADER, _START, skip=7)
