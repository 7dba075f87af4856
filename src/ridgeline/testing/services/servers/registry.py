"""A registry of schemas (Apicurio), which answers as Confluent's does."""

from collections.abc import Sequence

from ridgeline.testing.services.parts.maven import Archive
from ridgeline.testing.services.servers.kafka import JAVA
from ridgeline.testing.services.service import Service

_ARCHIVE = Archive("io.apicurio:apicurio-registry-app:2.6.13.Final:tar.gz:all")


class Registry(Service):
    """A registry of Avro, JSON and Protobuf schemas. It keeps them on its disk.

    Example:
        >>> from ridgeline.testing import services
        >>> services.registry().running
        False
    """

    NAME = "registry"
    PARTS = (JAVA, _ARCHIVE)
    _PATH = "/apis/ccompat/v7"

    @property
    def url(self) -> str:
        """The address for clients of Confluent's registry (`schema.registry.url`)."""
        return f"http://127.0.0.1:{self._port('main')}{self._PATH}"

    @property
    def direct_url(self) -> str:
        """The address for clients, past the proxy."""
        return f"http://127.0.0.1:{self._direct['main']}{self._PATH}"

    def addresses(self) -> dict[str, str]:
        """`SCHEMA_REGISTRY_URL`."""
        return {"SCHEMA_REGISTRY_URL": self.url}

    def _command(self) -> Sequence[str]:
        """The server, its settings as properties of Java."""
        settings = {
            "quarkus.http.host": "127.0.0.1",
            "quarkus.http.port": str(self._direct["main"]),
            "%prod.quarkus.datasource.jdbc.url": f"jdbc:h2:file:{self._data / 'registry'};WRITE_DELAY=0",
            **self._settings,
        }
        options = [f"-D{name}={value}" for name, value in settings.items()]
        java = [JAVA.path, "-Xmx400m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC"]
        return [*java, *options, "-jar", str(_ARCHIVE.file("*-runner.jar"))]

    def _answers(self) -> bool:
        return self._gets("main", f"{self._PATH}/subjects")
