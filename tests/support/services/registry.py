"""A registry of schemas (Apicurio), which answers as Confluent's does."""

import tarfile
from collections.abc import Sequence
from http import HTTPStatus
from http.client import HTTPConnection, HTTPException

from ridgeline.testing.services.kafka import JAVA
from ridgeline.testing.services.parts import Jars
from support.services.network import Proxied

_ARTIFACT = "io.apicurio:apicurio-registry-app:2.6.13.Final:tar.gz:all"


class Archive(Jars):
    """The files of an archive (tar.gz) that is an artifact of Maven."""

    def __init__(self, artifact: str) -> None:
        _, name, version, _, classifier = artifact.split(":")
        self.what = f"`{artifact}`"
        self._name = f"{name}-{version}-{classifier}"
        self._goal = ["dependency:copy", f"-Dartifact={artifact}", "-Dmdep.useBaseVersion=true"]

    def _unpack(self, folder) -> None:
        for packed in folder.glob("*.tar.gz"):
            with tarfile.open(packed) as archive:
                archive.extractall(folder, filter="data")
            packed.unlink()

    def file(self, pattern: str):
        """The file whose name fits the pattern; downloaded now if it is not there. Raises Unavailable."""
        self.install()
        return next(self.folder.rglob(pattern))


_ARCHIVE = Archive(_ARTIFACT)


class Registry(Proxied):
    """A registry of Avro, JSON and Protobuf schemas. It keeps them on its disk."""

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
        connection = HTTPConnection("127.0.0.1", self._direct["main"], timeout=10)
        try:
            connection.request("GET", f"{self._PATH}/subjects")
            return connection.getresponse().status == HTTPStatus.OK
        except HTTPException:
            return False
        finally:
            connection.close()
