"""A server that a test starts, breaks and ends."""

from __future__ import annotations

import os
import signal
import socket
import uuid
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from http import HTTPStatus
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from typing import ClassVar, NoReturn, Self

from ridgeline.api.clock import SystemClock
from ridgeline.testing.services.disk import SmallDisk, why_no_disk
from ridgeline.testing.services.parts.part import Part
from ridgeline.testing.services.ports import Ports
from ridgeline.testing.services.processes import Started, TemporaryFolder
from ridgeline.testing.services.proxy import Proxy
from ridgeline.testing.services.watcher import lives

_START_SECONDS = 300
_STOP_SECONDS = 60
_ASK_SECONDS = 10
_GONE_SECONDS = 10
_EVERY = 0.02
_LOG = "output.log"
_LOG_END = 3000


class ServiceError(RuntimeError):
    """A service that did not start, or cannot do what it was asked for."""


class Service(ABC):
    """A server in a folder of its own, on free ports of 127.0.0.1; its output goes to a file.

    It begins with `start` or `with`, ends with `close` or the `with` block. Its data and ports stay the same
    in between. It is also ended, and its folder removed, when the process that started it is gone. A fork of
    that process cannot end it.

    Args:
        folder: an empty or new folder that stays; None: a temporary one, removed by `close`.
        proxy: whether clients connect through a TCP proxy, which `cut`, `hang` and `slow` need.
        disk_bytes: the size of a disk of its own, which `fill_disk` needs; None: the folder's disk.
        settings: of the server, by its own names; they come after ours.

    Raises:
        ServiceError: by `start`, if a part is missing, the server ends or does not answer within 300 s.
    """

    NAME: ClassVar[str]
    PARTS: ClassVar[tuple[Part, ...]] = ()
    PORTS: ClassVar[tuple[str, ...]] = ("main",)
    """Those that clients connect to; the first is `port`."""
    INNER_PORTS: ClassVar[tuple[str, ...]] = ()
    STOP: ClassVar[signal.Signals] = signal.SIGTERM

    def __init__(
        self,
        *,
        folder: str | os.PathLike[str] | None = None,
        proxy: bool = True,
        disk_bytes: int | None = None,
        settings: Mapping[str, str] | None = None,
    ) -> None:
        self._given_folder = None if folder is None else Path(folder).resolve()
        self._wants_proxy = proxy
        self._disk_bytes = disk_bytes
        self._settings = dict(settings or {})
        self._folder: Path | None = None
        self._temporary: TemporaryFolder | None = None
        self._ports = Ports()
        self._public: dict[str, int] = {}
        self._direct: dict[str, int] = {}
        self._proxy: Proxy | None = None
        self._disk: SmallDisk | None = None
        self._process: Started | None = None
        self._clock = SystemClock()
        self._owner = os.getpid()

    # ------------------------------------------------------------------------------------- what to install

    @classmethod
    def available(cls) -> str | None:
        """None if it can be started here, else the reason and the remedy."""
        for part in cls.PARTS:
            if reason := part.missing():
                return f"{cls.NAME}: {reason}; remedy: {part.remedy(cls.NAME)}"
        return None

    @classmethod
    def install(cls) -> None:
        """Install what is missing: packages of Debian, wheels, jars in the cache folder.

        Only jars come by themselves, when a service is first started.

        Raises:
            Unavailable: with the reason, if something cannot be had.
        """
        for part in cls.PARTS:
            part.install()

    # ---------------------------------------------------------------------------------------- start and end

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.close()

    def start(self) -> Self:
        """Start it, if it does not run, and return once it answers."""
        if self._process is None or self._process.code is not None:
            if self._folder is not None:
                self._launch()
                return self
            try:
                self._set_up()
                self._launch()
            except BaseException:
                self.close()
                raise
        return self

    def stop(self) -> None:
        """End it in order: by its own signal, by SIGKILL after 60 s. Its data and ports stay for `start`."""
        if self._process is None:
            return
        self.resume()
        end = self._clock.monotonic() + _STOP_SECONDS

        def is_late() -> bool:
            self._clock.wait(_EVERY)
            return self._clock.monotonic() > end

        self._process.stop(self.STOP, is_late)
        self._process = None

    def kill(self) -> None:
        """End it by SIGKILL, with all its processes. Its data and ports stay for `start`."""
        if self._process is not None:
            left = self._process.kill()
            end = self._clock.monotonic() + _GONE_SECONDS
            # PostgreSQL does not start again while a process of before has its memory.
            while any(lives(pid, birth) for pid, birth in left.items()) and self._clock.monotonic() < end:
                self._clock.wait(_EVERY)
            self._process = None

    def restart(self) -> Self:
        """Start it again on the same data and ports; if it runs, it is ended in order before."""
        self.stop()
        return self.start()

    def close(self) -> None:
        """End it by SIGKILL, end its proxy and disk, remove its folder if that is a temporary one."""
        if self._folder is None or not self._owns:
            return
        self.kill()
        if self._proxy is not None:
            self._proxy.close()
        if self._disk is not None:
            self._disk.close()
        self._ports.release()
        if self._temporary is not None:
            self._temporary.remove()
        self._proxy = self._disk = self._folder = self._temporary = None

    @abstractmethod
    def addresses(self) -> dict[str, str]:
        """Its addresses for clients, as variables of an environment."""

    @property
    def running(self) -> bool:
        """Whether its process is there, paused or not."""
        return self._process is not None and self._process.code is None

    def logs(self) -> str:
        """All that it has printed, by its tools too."""
        path = self.folder / _LOG
        return path.read_text(errors="replace") if path.exists() else ""

    @property
    def folder(self) -> Path:
        """The folder of its data, settings and output."""
        if self._folder is None:
            raise ServiceError(f"{self.NAME} has no folder before `start` and after `close`")
        return self._folder

    # --------------------------------------------------------------------------------------------- faults

    def pause(self) -> None:
        """Stop all its processes by SIGSTOP: connections stay, nothing answers."""
        self._running().send_all(signal.SIGSTOP)

    def resume(self) -> None:
        """Let them continue (SIGCONT)."""
        if self._process is not None:
            self._process.send_all(signal.SIGCONT)

    def cut(self, *, hang: bool = False) -> None:
        """Cut the network to its clients: connections are reset and refused, until `mend`.

        Args:
            hang: nothing is reset: connections stay and are accepted, but no byte moves in either direction.

        Raises:
            ServiceError: if it was made with `proxy=False`.
        """
        self._line().cut(hang=hang)

    def mend(self) -> None:
        """Mend the network. After `cut(hang=True)`, connections continue where they were."""
        self._line().mend()

    def slow(self, bytes_per_second: int | None) -> None:
        """Limit the network, in each direction and over all connections; None: no limit."""
        self._line().slow(bytes_per_second)

    @classmethod
    def why_no_disk(cls) -> str | None:
        """None if `disk_bytes` can be had here, else the reason."""
        return why_no_disk()

    def fill_disk(self) -> None:
        """Use all that is left of its disk, until `free_disk`.

        Raises:
            ServiceError: if it was made without `disk_bytes`.
        """
        self._small_disk().fill()

    def free_disk(self) -> None:
        """Give back what `fill_disk` has used."""
        self._small_disk().free()

    def recover(self) -> Self:
        """Undo all faults: mend, give back the disk, resume, start what has ended."""
        if self._folder is not None:
            if self._proxy is not None:
                self._proxy.slow(None)
                self._proxy.mend()
            if self._disk is not None:
                self._disk.free()
            self.resume()
        return self.start()

    # ------------------------------------------------------------------------------------- what a kind says

    def _prepare(self) -> None:
        """Make its files, before it starts for the first time. Ports are taken, the folder is there."""

    @abstractmethod
    def _command(self) -> Sequence[str]:
        """The command that becomes the server. It must stay in the foreground."""

    @abstractmethod
    def _answers(self) -> bool:
        """Ask the server, past the proxy, whether it is up; OSError counts as no."""

    def _environment(self) -> Mapping[str, str]:
        """Variables that its processes get beside the environment of this one."""
        return {}

    def _user(self) -> Sequence[str]:
        """A prefix of its commands, which changes the user."""
        return ()

    # ------------------------------------------------------------------------------------------- within

    @property
    def _data(self) -> Path:
        """The folder of its data, which is on its own disk if it has one."""
        return self.folder / "data"

    def _port(self, name: str) -> int:
        if self._folder is None:
            raise ServiceError(f"{self.NAME} has no address before `start` and after `close`")
        return self._public[name]

    def _replies(self, port: str, sent: bytes, expected: bytes, *, skip: int = 0) -> bool:
        """Whether the server behind a port answers `sent` with `expected`, after `skip` other bytes."""
        with socket.create_connection(("127.0.0.1", self._direct[port]), _ASK_SECONDS) as connection:
            connection.sendall(sent)
            wanted = skip + len(expected)
            got = b""
            while len(got) < wanted:
                if not (more := connection.recv(wanted - len(got))):
                    return False
                got += more
            return got[skip:] == expected

    def _gets(self, port: str, path: str) -> bool:
        """Whether the server behind a port answers a GET of `path` with 200."""
        connection = HTTPConnection("127.0.0.1", self._direct[port], timeout=_ASK_SECONDS)
        try:
            connection.request("GET", path)
            return connection.getresponse().status == HTTPStatus.OK
        except HTTPException:
            return False
        finally:
            connection.close()

    @property
    def _owns(self) -> bool:
        """False in a fork of the process that made it."""
        return self._owner == os.getpid()

    def _run(self, command: Sequence[str]) -> str:
        """Run one of its tools to the end; what it printed. Raises ServiceError if it fails."""
        before = len(self.logs())
        tool = self._begin(command)
        while tool.code is None:
            self._clock.wait(_EVERY)
        if tool.code:
            self._fail(f"`{Path(command[0]).name}` ended with {tool.code}")
        return self.logs()[before:]

    def _begin(self, command: Sequence[str]) -> Started:
        inside = self._disk.prefix if self._disk is not None else ()
        return Started(
            [*inside, *self._user(), *command],
            self.folder / _LOG,
            cwd=self.folder,
            environment=self._environment(),
        )

    def _set_up(self) -> None:
        """Make its folder, ports, proxy and disk."""
        if reason := self.available():
            raise ServiceError(reason)
        if self._given_folder is None:
            self._temporary = TemporaryFolder(f"ridgeline-{self.NAME}")
            self._folder = self._temporary.path
        else:
            self._folder = self._given_folder
            self._folder.mkdir(parents=True, exist_ok=True)
        self._folder.chmod(0o755)  # a server may run as another user
        self._data.mkdir()
        self._data.chmod(0o777)
        names = (*self.PORTS, *self.INNER_PORTS)
        self._direct = {name: self._ports.take() for name in names}
        self._public = dict(self._direct)
        if self._wants_proxy:
            self._public |= {name: self._ports.take() for name in self.PORTS}
            self._proxy = Proxy({self._public[name]: self._direct[name] for name in self.PORTS}, self._folder)
        if self._disk_bytes is not None:
            self._disk = SmallDisk(self._data, self._disk_bytes, self._folder)
        self._prepare()

    def _launch(self) -> None:
        """Start the process and wait until it answers."""
        self._process = self._begin(self._command())
        deadline = self._clock.monotonic() + _START_SECONDS
        while not self._is_up():
            if self._process.code is not None:
                self._fail(f"it ended with {self._process.code}")
            if self._clock.monotonic() > deadline:
                self.kill()
                self._fail(f"it did not answer within {_START_SECONDS} s")
            self._clock.wait(_EVERY)

    def _is_up(self) -> bool:
        try:
            return self._answers()
        except OSError:
            return False

    def _fail(self, why: str) -> NoReturn:
        raise ServiceError(f"{self.NAME}: {why}; it printed:\n{self.logs()[-_LOG_END:]}")

    def _running(self) -> Started:
        if self._process is None or self._process.code is not None:
            raise ServiceError(f"{self.NAME} does not run: `start` it")
        return self._process

    def _line(self) -> Proxy:
        if self._proxy is None:
            raise ServiceError(f"{self.NAME} has no proxy: make it with `proxy=True` and start it")
        return self._proxy

    def _small_disk(self) -> SmallDisk:
        if self._disk is None:
            raise ServiceError(
                f"{self.NAME} has no disk of its own: make it with `disk_bytes=...` and start it"
            )
        return self._disk


def new_name(prefix: str) -> str:
    """A name that no other test has, of lower-case letters, digits and `_`."""
    return f"{prefix}_{uuid.uuid4().hex[:12]}"
