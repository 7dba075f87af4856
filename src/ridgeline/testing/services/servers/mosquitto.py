"""A Mosquitto server, for MQTT."""

from collections.abc import Sequence

from ridgeline.testing.services.parts.programs import Program
from ridgeline.testing.services.service import Service

_SERVER = Program("mosquitto", "mosquitto")
_CONNECT = b"\x10\x0d\x00\x04MQTT\x04\x02\x00\x3c\x00\x01r"
_ACCEPTED = b"\x20\x02\x00\x00"


class Mosquitto(Service):
    """A Mosquitto server without passwords.

    It writes its data at each change, as soon as its loop is free. A kill loses what came within that moment.
    It queues without limit, where its default drops silently after 1,000 messages.

    Example:
        >>> from ridgeline.testing import services
        >>> services.mosquitto(settings={"max_inflight_messages": "1"}).running
        False
    """

    NAME = "mosquitto"
    PARTS = (_SERVER,)

    @property
    def host(self) -> str:
        """The host for clients."""
        return "127.0.0.1"

    @property
    def port(self) -> int:
        """The port for clients."""
        return self._port("main")

    @property
    def direct_port(self) -> int:
        """The port for clients, past the proxy."""
        return self._direct["main"]

    def addresses(self) -> dict[str, str]:
        """`MQTT_HOST` and `MQTT_PORT`."""
        return {"MQTT_HOST": self.host, "MQTT_PORT": str(self.port)}

    def _prepare(self) -> None:
        """Write its settings."""
        settings = {
            "listener": f"{self._direct['main']} 127.0.0.1",
            "allow_anonymous": "true",
            "user": "root",  # without root it is of no effect
            "persistence": "true",
            "persistence_location": f"{self._data}/",
            "autosave_on_changes": "true",
            "autosave_interval": "1",
            "max_queued_messages": "0",
            **self._settings,
        }
        lines = [f"{name} {value}\n" for name, value in settings.items()]
        (self.folder / "mosquitto.conf").write_text("".join(lines))

    def _command(self) -> Sequence[str]:
        return [_SERVER.path, "-c", "mosquitto.conf"]

    def _answers(self) -> bool:
        return self._replies("main", _CONNECT, _ACCEPTED)
