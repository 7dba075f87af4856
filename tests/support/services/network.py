"""Services whose network a test cuts, hangs and slows down, through a TCP proxy in a process of its own."""

import os
import subprocess
import sys
from pathlib import Path

from ridgeline.testing import services


class Proxy:
    """Connections to ports of 127.0.0.1, through a process of its own, which ends with this one.

    Args:
        targets: by port that clients connect to, the port of the server, or `address:port` elsewhere.
    """

    def __init__(self, targets):
        pairs = [f"{port}:{target}" for port, target in targets.items()]
        command = [sys.executable, "-E", "-S", "-s", str(Path(__file__).with_name("relay.py")), *pairs]
        pipe = subprocess.PIPE
        self._process = subprocess.Popen(
            command, stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL, text=True, start_new_session=True
        )
        self.pid = self._process.pid
        assert self._process.stdout.readline() == "ok\n"

    def _ask(self, command):
        print(command, file=self._process.stdin, flush=True)
        assert self._process.stdout.readline() == "ok\n"

    def cut(self, *, hang):
        """Drop and refuse connections; with `hang`, keep them, accept others and move nothing."""
        self._ask("hang" if hang else "cut")

    def mend(self):
        """Move again what comes, accept connections."""
        self._ask("mend")

    def slow(self, bytes_per_second):
        """Move at most this many bytes a second in each direction, over all connections; None: no limit."""
        self._ask(f"slow {bytes_per_second or 0}")

    def close(self):
        """End it."""
        self._process.kill()
        self._process.communicate()


class Proxied(services.Service):
    """A service that clients reach through a proxy; `_direct` has its ports past it."""

    _proxy = None

    def _publish(self):
        public = {name: self._ports.take() for name in self.PORTS}
        self._proxy = Proxy({public[name]: self._direct[name] for name in self.PORTS})
        (self.folder / "proxy.pid").write_text(str(self._proxy.pid))  # for the watcher
        return public

    def close(self):
        if self._proxy is not None and self._owner == os.getpid():
            self._proxy.close()
            self._proxy = None
        super().close()

    def recover(self):
        if self._folder is not None and self._proxy is not None:
            self.slow(None)
            self.mend()
        return super().recover()

    def cut(self, *, hang=False):
        """Connections are reset and refused, until `mend`; with `hang` they stay, but no byte moves."""
        self._proxy.cut(hang=hang)

    def mend(self):
        """Mend the network. After `cut(hang=True)`, connections continue where they were."""
        self._proxy.mend()

    def slow(self, bytes_per_second):
        """Limit the network, in each direction and over all connections; None: no limit."""
        self._proxy.slow(bytes_per_second)


class Kafka(Proxied, services.Kafka):
    """A listener for each way: clients reconnect to the address that theirs advertises."""

    INNER_PORTS = (*services.Kafka.INNER_PORTS, "direct")

    @property
    def direct_servers(self):
        """The address past the proxy."""
        return f"127.0.0.1:{self._port('direct')}"

    @property
    def _client(self):
        return {**super()._client, "bootstrap.servers": self.direct_servers}

    def _prepare(self):
        ways = {"PROXIED": self._direct["main"], "DIRECT": self._port("direct")}
        bound = {**ways, "CONTROLLER": self._port("controller")}
        shown = {**ways, "PROXIED": self._port("main")}
        self._settings = {
            "listeners": ",".join(f"{name}://127.0.0.1:{port}" for name, port in bound.items()),
            "advertised.listeners": ",".join(f"{name}://127.0.0.1:{port}" for name, port in shown.items()),
            "listener.security.protocol.map": ",".join(f"{name}:PLAINTEXT" for name in bound),
            "inter.broker.listener.name": "DIRECT",
            **self._settings,
        }
        super()._prepare()


class Postgres(Proxied, services.Postgres):
    @property
    def direct_dsn(self):
        """The address of the database `postgres` past the proxy."""
        return f"postgresql://postgres@127.0.0.1:{self._direct['main']}/postgres"


class SeaweedFS(Proxied, services.SeaweedFS):
    @property
    def direct_endpoint(self):
        """The address for S3 clients, past the proxy."""
        return f"http://127.0.0.1:{self._direct['main']}"
