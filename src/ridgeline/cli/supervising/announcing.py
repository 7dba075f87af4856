"""Says how a supervised application stands: on this machine and in its store, between two drivers, too."""

from __future__ import annotations

import contextlib
import getpass
import signal
import socket
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Protocol

from ridgeline.api.clock import Clock, SystemClock
from ridgeline.api.support.masking import mask_text, printable
from ridgeline.cli.supervising.link import NAMED, WAITS
from ridgeline.cli.supervising.link import RUNNING as RUNS
from ridgeline.service import supervised
from ridgeline.service.supervised import RESTARTING, RUNNING, STANDBY, STARTING

if TYPE_CHECKING:
    from ridgeline.service.store.entry import StoreEntry, StoreSupervisor
    from ridgeline.service.store.folder import EntryFolder

_BEAT_SECONDS = 3.0
"""How often the store is looked at."""
_LAST_SECONDS = 10.0
"""How long the store is waited for before a driver is started, and at the end."""
_CLAIM_SECONDS = 60.0
"""How long a driver that was started again may take until it has its name; after that nothing is said."""
_STOP, _KILL = "stop", "kill"
"""The words that commands of other hosts leave in the store."""


class Ends(Protocol):
    """The signals of a supervisor: `ridgeline.cli.supervising.child.Signals`."""

    def end(self, number: int) -> None:
        """Take a signal that was not sent."""


class Announcer:
    """The record of a supervisor on this machine, and what it writes into the entry in the store.

    Nothing that fails here ends the supervisor: it is said once. The store is left to a thread, since it may
    hang. `reach`: called before the store is first used.
    """

    def __init__(
        self,
        ends: Ends,
        say: Callable[[str], None],
        reach: Callable[[], None] = lambda: None,
        clock: Clock | None = None,
    ) -> None:
        self._ends = ends
        self._say = say
        self._reach = reach
        self._clock = clock or SystemClock()
        self._record = supervised.own_record(_user(), self._clock)
        self._changing = threading.RLock()
        self._writing = threading.Lock()
        self._wake = threading.Event()
        self._over = threading.Event()
        self._folder: EntryFolder | None = None
        self._thread: threading.Thread | None = None
        self._last: tuple[str, str] | None = None
        """State and reason that the entry gets at the end; None: it stays as its driver has left it."""
        self._failed: set[str] = set()
        self._began = 0.0
        """When the last driver was started, by the monotonic clock."""
        self._obeyed: Mapping[str, Any] = {}
        """The last word that it has done: one that cannot be removed counts once."""

    def started(self, pid: int, restarts: int) -> None:
        """Take note of a driver that was started."""
        self._began = self._clock.monotonic()
        self._change(lambda one: supervised.with_driver(one, pid, restarts))

    def report(self, said: Mapping[str, Any]) -> None:
        """Take a report of the driver. From any thread."""
        match said.get("what"):
            case what if what == NAMED:
                self._named(str(said["name"]), str(said["checkpoint"] or ""), said["store"])
            case what if what == RUNS:
                self._change(lambda one: replace(one, state=RUNNING))
            case what if what == WAITS:
                self._change(lambda one: replace(one, state=STANDBY))

    def restarting(self, pause: float, reason: str) -> None:
        """Say that the next driver starts after so many seconds, and why."""
        due = self._clock.monotonic() + pause
        self._change(lambda one: replace(one, state=RESTARTING, reason=reason, due=due))
        self._wake.set()

    @contextlib.contextmanager
    def quiet(self) -> Iterator[None]:
        """While the block runs, write nothing into the store: a new driver takes over its entry there.

        A store that hangs is waited for 10 seconds.
        """
        taken = self._writing.acquire(timeout=_LAST_SECONDS)
        try:
            yield
        finally:
            if taken:
                self._writing.release()

    def over(self, state: str, reason: str) -> None:
        """Let the entry be in this state at the end. The first reason counts."""
        if self._last is None:
            self._last = state, mask_text(reason)[:2000]

    def close(self) -> None:
        """Say the last thing, and remove the record. Waits some seconds at most for the store."""
        self._over.set()
        self._wake.set()
        if self._thread is not None:
            self._thread.join(_LAST_SECONDS)
        with contextlib.suppress(OSError):
            supervised.forget(self._record)

    # This machine -------------------------------------------------------------------------------------------

    def _named(self, name: str, checkpoint: str, store: str | None) -> None:
        """Take the name of the application, and begin with its store."""
        given = mask_text(store or "")
        self._change(lambda one: replace(one, name=name, checkpoint=mask_text(checkpoint), store=given))
        if store and self._thread is None:
            self._thread = threading.Thread(
                target=self._follow, args=(store,), name="supervisor-store", daemon=True
            )
            self._thread.start()

    def _change(self, change: Callable[[supervised.Supervised], supervised.Supervised]) -> None:
        with self._changing:
            self._record = change(self._record)
            if self._record.name and not self._over.is_set():
                with self._said("this machine's list of supervised applications"):
                    supervised.keep(self._record)

    @contextlib.contextmanager
    def _said(self, what: str) -> Iterator[None]:
        """Say the first of several failures, and when it works again."""
        try:
            yield
        except Exception as error:  # noqa: BLE001  the supervisor lives on
            if what not in self._failed:
                self._failed.add(what)
                self._say(f"{what} cannot be written: {printable(str(error))}; the supervisor goes on")
            return
        if what in self._failed:
            self._failed.discard(what)
            self._say(f"{what} is written again")

    # The store ----------------------------------------------------------------------------------------------

    def _follow(self, store: str) -> None:
        """Look at the store now and then, until the end."""
        from ridgeline.service.store.folder import EntryFolder

        with self._said("the entry in the store"):
            self._reach()
        self._folder = folder = EntryFolder(store, self._clock)
        while not self._over.is_set():
            self._wake.wait(_BEAT_SECONDS)
            self._wake.clear()
            with self._said("the entry in the store"):
                self._obey(folder)
                self._write(folder)
        with self._said("the entry in the store"):
            self._write(folder)

    def _obey(self, folder: EntryFolder) -> None:
        """Do what a command of another host has asked for. Raises RidgelineError."""
        record = self._record
        word = folder.read_word(record.name)
        if word is None or (word.get("pid"), word.get("process")) != (record.pid, record.process):
            return
        what, who = str(word.get("word")), printable(str(word.get("who", "a user")))[:200]
        if what not in {_STOP, _KILL} or word == self._obeyed:
            return
        self._obeyed = word
        self._say(f"`{who}` asks in the store to {what} it")
        if what == _KILL:
            self.over("failed", f"killed by {who}")
        self._ends.end(signal.SIGTERM)
        if what == _KILL:
            from ridgeline.service.registry import send_signal

            send_signal(record.driver, record.driver_process, signal.SIGKILL)
        folder.remove_word(record.name)

    def _write(self, folder: EntryFolder) -> None:
        """Write into the entry what holds between two drivers, and at the end. Raises RidgelineError."""
        with self._writing:
            record, last = self._record, self._last if self._over.is_set() else None
            if last is None and record.state != RESTARTING and not self._starts(record):
                return
            found = folder.read(record.name)
            entry = None if found is None else found.entry
            above = None if entry is None else self._own(entry)
            if entry is None or above is None:
                return
            if last is None and record.state != RESTARTING and not entry.restarts:
                return  # the driver that was started has taken the name
            if last is None:
                left = max(0.0, record.due - self._clock.monotonic())
                attempt = record.restarts + (record.state == RESTARTING)
                above = replace(above, attempt=attempt, restart_in=left)
                state, reason = "failed", mask_text(record.reason)[:2000]
            else:
                above, (state, reason) = replace(above, attempt=0, restart_in=0.0), last
            now = self._clock.wall()
            folder.write(replace(entry, state=state, reason=reason, supervisor=above, heartbeat=now))

    def _starts(self, record: supervised.Supervised) -> bool:
        """Whether a driver was started again a short while ago, so that it may not have the name yet."""
        new = self._clock.monotonic() - self._began < _CLAIM_SECONDS
        return record.state == STARTING and record.restarts > 0 and new

    def _own(self, entry: StoreEntry) -> StoreSupervisor | None:
        """This supervisor in an entry; None if a driver of another one, or of none, has written it since."""
        above, record = entry.supervisor, self._record
        if above is None or entry.host != socket.gethostname():
            return None
        return above if (above.pid, above.process) == (record.pid, record.process) else None


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return "unknown"
