"""A server that a test starts, breaks and ends."""

from __future__ import annotations

import atexit
import contextlib
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import threading
import uuid
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import ClassVar, NoReturn, Self, TypeVar, cast

from ridgeline.api.clock import SystemClock
from ridgeline.testing.services.parts import Part
from ridgeline.testing.services.processes import PYTHON, Ports, Started, alive, kill_all

_START_SECONDS = 300
_STOP_SECONDS = 60
_GONE_SECONDS = 10
_EVERY = 0.02
_LOG = "output.log"
_LOG_END = 3000
_WATCHER = str(Path(__file__).with_name("watcher.py"))


class ServiceError(RuntimeError):
    """A service that did not start, or cannot do what it was asked for."""


class Service(ABC):
    """A server in a folder of its own, on free ports of 127.0.0.1; its output goes to a file.

    It begins with `start` or `with`, ends with `close` or the `with` block. Its data and ports stay the same
    in between. It is also ended, and its folder removed, when the process that started it is gone. A fork of
    that process cannot end it.

    Args:
        folder: an empty or new folder that stays; None: a temporary one, removed by `close`.
        settings: of the server, by its own names; they come after ours.

    Raises:
        ServiceError: by `start`, if a part is missing, the server ends or does not answer within 300 s.
    """

    NAME: ClassVar[str]
    PARTS: ClassVar[tuple[Part, ...]] = ()
    PORTS: ClassVar[tuple[str, ...]] = ("main",)
    """Those that clients connect to."""
    INNER_PORTS: ClassVar[tuple[str, ...]] = ()
    STOP: ClassVar[signal.Signals] = signal.SIGTERM

    def __init__(
        self, *, folder: str | os.PathLike[str] | None = None, settings: Mapping[str, str] | None = None
    ) -> None:
        self._given_folder = None if folder is None else Path(folder).resolve()
        self._settings = dict(settings or {})
        self._folder: Path | None = None
        self._ports = Ports()
        self._public: dict[str, int] = {}
        self._direct: dict[str, int] = {}
        self._process: Started | None = None
        self._watcher: subprocess.Popen[bytes] | None = None
        self._clock = SystemClock()
        self._owner = os.getpid()

    @classmethod
    def available(cls) -> str | None:
        """None if it can be started here, else the reason and the remedy."""
        for part in cls.PARTS:
            if reason := part.missing():
                return f"{cls.NAME}: {reason}"
        return None

    # ---------------------------------------------------------------------------------------- start and end

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.close()

    def start(self) -> Self:
        """Start it, if it does not run, and return once it answers."""
        if not self.running:
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
        if self._process is not None and self.running:
            self.resume()
            left = self._process.send(self.STOP)
            self._wait(lambda: not self.running, _STOP_SECONDS)
            self.kill()
            kill_all(left)

    def kill(self) -> None:
        """End it by SIGKILL, with all its processes. Its data and ports stay for `start`."""
        if self._process is not None:
            left = self._process.kill()
            # PostgreSQL does not start again while a process of before has its memory.
            self._wait(lambda: not alive(left), _GONE_SECONDS)

    def restart(self) -> Self:
        """Start it again on the same data and ports; if it runs, it is ended in order before."""
        self.stop()
        return self.start()

    def close(self) -> None:
        """End it by SIGKILL, remove its folder if that is a temporary one."""
        if self._folder is None or self._owner != os.getpid():
            return
        self.kill()
        self._ports.release()
        if self._given_folder is None:
            shutil.rmtree(self._folder, ignore_errors=True)
        if self._watcher is not None:
            self._watcher.kill()
            self._watcher.wait()
        self._folder = self._watcher = self._process = None

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

    def pause(self) -> None:
        """Stop all its processes by SIGSTOP: connections stay, nothing answers."""
        if self._process is None or not self.running:
            raise ServiceError(f"{self.NAME} does not run: `start` it")
        self._process.send_all(signal.SIGSTOP)

    def resume(self) -> None:
        """Let them continue (SIGCONT)."""
        if self._process is not None:
            self._process.send_all(signal.SIGCONT)

    def recover(self) -> Self:
        """Undo all faults: resume, start what has ended."""
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
        """Ask the server whether it is up; OSError counts as no."""

    def _prefix(self) -> Sequence[str]:
        """What its commands begin with, such as a change of the user."""
        return ()

    def _publish(self) -> Mapping[str, int]:
        """The ports that clients connect to, by name."""
        return self._direct

    # ------------------------------------------------------------------------------------------- within

    @property
    def _data(self) -> Path:
        return self.folder / "data"

    def _port(self, name: str) -> int:
        if self._folder is None:
            raise ServiceError(f"{self.NAME} has no address before `start` and after `close`")
        return self._public[name]

    def _run(self, command: Sequence[str]) -> None:
        """Run one of its tools to the end. Raises ServiceError if it fails."""
        tool = self._begin(command)
        if self._wait(lambda: tool.code is not None, _START_SECONDS) and tool.code:
            self._fail(f"`{Path(command[0]).name}` ended with {tool.code}")

    def _begin(self, command: Sequence[str]) -> Started:
        return Started([*self._prefix(), *command], self.folder / _LOG, folder=self.folder)

    def _set_up(self) -> None:
        """Make its folder, ports and files, and what watches over it."""
        if reason := self.available():
            raise ServiceError(reason)
        name = f"ridgeline-{self.NAME}-{uuid.uuid4().hex[:12]}"
        self._folder = self._given_folder or Path(tempfile.gettempdir(), name)
        command = [*PYTHON, _WATCHER, str(os.getpid()), str(self._folder)]
        keep = [] if self._given_folder is None else ["keep"]
        null = subprocess.DEVNULL
        self._watcher = subprocess.Popen(  # noqa: S603 - our own file
            [*command, *keep], stdin=null, stdout=null, stderr=null, start_new_session=True
        )
        self._folder.mkdir(parents=True, exist_ok=True)
        self._folder.chmod(0o755)  # a server may run as another user
        self._data.mkdir()
        self._data.chmod(0o777)
        self._direct = {name: self._ports.take() for name in (*self.PORTS, *self.INNER_PORTS)}
        self._public = {**self._direct, **self._publish()}
        self._prepare()

    def _launch(self) -> None:
        """Start the process and wait until it answers."""
        process = self._process = self._begin(self._command())
        up = self._wait(lambda: process.code is not None or self._is_up(), _START_SECONDS)
        if process.code is not None:
            self._fail(f"it ended with {process.code}")
        if not up:
            self.kill()
            self._fail(f"it did not answer within {_START_SECONDS} s")

    def _is_up(self) -> bool:
        with contextlib.suppress(OSError):
            return self._answers()
        return False

    def _wait(self, until: Callable[[], bool], seconds: float) -> bool:
        """Wait until something is true, for so long at most; whether it is."""
        end = self._clock.monotonic() + seconds
        while not (found := until()) and self._clock.monotonic() < end:
            self._clock.wait(_EVERY)
        return found

    def _accepts(self, port: str) -> bool:
        """Whether something listens on a port of its own."""
        with socket.create_connection(("127.0.0.1", self._direct[port])):
            return True

    def _fail(self, why: str) -> NoReturn:
        raise ServiceError(f"{self.NAME}: {why}; it printed:\n{self.logs()[-_LOG_END:]}")


S = TypeVar("S", bound=Service)
_LOCK = threading.Lock()
_SHARED: dict[type[Service], Service] = {}


def shared(kind: type[S]) -> S:
    """The service of this kind that the process shares; it runs, without faults, and ends with the process.

    Args:
        kind: its class, such as `services.kafka`.

    Raises:
        ServiceError: if it does not start.
    """
    with _LOCK:
        if kind not in _SHARED:
            _SHARED[kind] = kind()
        return cast("S", _SHARED[kind].recover())


@atexit.register
def _close_all() -> None:
    with _LOCK:
        while _SHARED:
            _SHARED.popitem()[1].close()


def new_name(prefix: str) -> str:
    """A name that no other test has, of lower-case letters, digits and `_`."""
    return f"{prefix}_{uuid.uuid4().hex[:12]}"
