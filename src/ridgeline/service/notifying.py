"""Says to a service manager (systemd, `Type=notify`) that the driver is ready, how it stands, that it lives.

Each message is one datagram to the socket in `NOTIFY_SOCKET`, with lines of `NAME=VALUE`.
"""

from __future__ import annotations

import contextlib
import os
import socket
import threading
from collections.abc import Callable, MutableMapping
from dataclasses import dataclass
from functools import cache
from typing import Self

from ridgeline.api.clock import Clock, SystemClock
from ridgeline.api.support.masking import printable
from ridgeline.measure.wording.sentence import sentence_of
from ridgeline.observe.watch import Watch

_SOON_SECONDS = 0.5
"""How often it looks whether the application is ready."""
_SEEN_SECONDS = 5.0
"""How often it says something once the application is ready."""
_STARTING_SECONDS = 60
"""How long a manager is to wait for a start that has said that it is under way."""
_LONGEST = 500


@dataclass(frozen=True, slots=True)
class Manager:
    """The service manager that has started this process.

    `address`: of its socket. `watchdog`: after so many seconds without a word it takes the process for hung;
    0: it does not watch.
    """

    address: str
    watchdog: float = 0.0


@cache
def manager() -> Manager | None:
    """The manager of this process, None without one. No process that it starts gets the variables."""
    return taken(os.environ)


def taken(environment: MutableMapping[str, str]) -> Manager | None:
    """Take the manager out of an environment; None if there is none that can be reached."""
    address = environment.pop("NOTIFY_SOCKET", "")
    microseconds = environment.pop("WATCHDOG_USEC", "")
    process = environment.pop("WATCHDOG_PID", "")
    if not address.startswith(("/", "@")):
        return None
    watched = microseconds.isdecimal() and process in {"", str(os.getpid())}
    return Manager(address, int(microseconds) / 1e6 if watched else 0.0)


class Notifier:
    """For `with`: a thread sends messages until the end of the block. One that cannot be sent is left out.

    Before the first window it says that the start is under way, so the manager waits on. READY is sent once
    `started` was called with figures and `unready` gives no reason any more. A watchdog gets its word only
    after the figures were read: whose lock hangs is silent.
    """

    def __init__(self, to: Manager, clock: Clock | None = None) -> None:
        self._to = to
        self._alive = ("WATCHDOG=1",) if to.watchdog else ()
        self._clock = clock or SystemClock()
        self._over = threading.Event()
        self._ready = False
        self._figures: tuple[Watch, Callable[[], str]] | None = None
        self._thread = threading.Thread(target=self._run, name="ridgeline-notify", daemon=True)

    def started(self, watch: Watch, unready: Callable[[], str]) -> None:
        """Take the figures of the run, and a function that says why it is not ready; "" if it is."""
        self._figures = watch, unready

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_error: object) -> None:
        self._over.set()
        self._thread.join(_SEEN_SECONDS)
        self._send("STOPPING=1")

    def _run(self) -> None:
        pause = 0.0
        while not self._clock.wait(pause, self._over):
            with contextlib.suppress(Exception):
                self._say()
            pause = _SEEN_SECONDS if self._ready else _SOON_SECONDS
            if self._to.watchdog:
                pause = min(pause, self._to.watchdog / 3)

    def _say(self) -> None:
        """Send how the application stands now."""
        if self._figures is None:
            self._send("STATUS=starting: Spark and slots are not there yet", _EXTEND)
            return
        watch, unready = self._figures
        text = " ".join(printable(sentence_of(watch.overview())["text"]).split())[:_LONGEST]
        why = "" if self._ready else unready()
        if why:
            self._send(f"STATUS={text}", _EXTEND)
            return
        first = [] if self._ready else ["READY=1"]
        self._ready = True
        self._send(*first, f"STATUS={text}", *self._alive)

    def _send(self, *lines: str) -> None:
        address = self._to.address
        place = f"\0{address[1:]}" if address.startswith("@") else address
        with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as end:
            end.connect(place)
            data = "\n".join(lines).encode(errors="replace")
            end.send(data, socket.MSG_DONTWAIT)  # a manager that does not read holds nothing up


_EXTEND = f"EXTEND_TIMEOUT_USEC={_STARTING_SECONDS * 1_000_000}"
