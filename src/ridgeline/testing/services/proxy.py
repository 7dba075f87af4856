"""The TCP proxy in front of a service: cut, mended, slowed down."""

from collections.abc import Mapping
from pathlib import Path

from ridgeline.testing.services.processes import HERE, PYTHON, Started


class Proxy:
    """Connections to ports of 127.0.0.1, through a process of its own.

    Args:
        targets: by port that clients connect to, the port of the server, or `address:port` elsewhere.
        folder: of the service, for what the proxy logs.
    """

    def __init__(self, targets: Mapping[int, int | str], folder: Path) -> None:
        pairs = [f"{port}:{target}" for port, target in targets.items()]
        command = [*PYTHON, str(HERE / "relay.py"), *pairs]
        self._log = folder / "proxy.log"
        self._process = Started(command, self._log, cwd=folder, commands=True)
        self._check(self._process.answer())

    def _check(self, answer: str) -> None:
        if answer != "ok":
            self.close()
            raise RuntimeError(f"the proxy has failed; it printed: {self._log.read_text()}")

    def cut(self, *, hang: bool) -> None:
        """Drop and refuse connections; with `hang`, keep them, accept others and move nothing."""
        self._check(self._process.ask("hang" if hang else "cut"))

    def mend(self) -> None:
        """Move again what comes, accept connections."""
        self._check(self._process.ask("mend"))

    def slow(self, bytes_per_second: int | None) -> None:
        """Move at most this many bytes a second in each direction, over all connections; None: no limit."""
        self._check(self._process.ask(f"slow {bytes_per_second or 0}"))

    def close(self) -> None:
        """End it."""
        self._process.kill()
