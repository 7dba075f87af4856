"""Waits until the driver that has the name of an application is dead, and takes over then."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, nullcontext, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import Enum
from typing import TYPE_CHECKING, Any

from ridgeline.api.clock import SystemClock
from ridgeline.api.errors import RidgelineError
from ridgeline.api.support.masking import printable
from ridgeline.cli.errors import CommandError, make_console
from ridgeline.cli.running.stopping import LeftError, in_thread
from ridgeline.cli.supervising.link import ENDED, WAITS, link
from ridgeline.service.notifying import StandbyNotifier, manager
from ridgeline.service.store.entry import StoreEntry
from ridgeline.service.store.folder import EntryFolder, Found
from ridgeline.service.store.standing import holder_there, process_there

if TYPE_CHECKING:
    from ridgeline.cli.settings import RunSettings
    from ridgeline.cli.supervising.warm import WarmSpark
    from ridgeline.plan.execution import Plan

_LOOK_SECONDS = 0.5
_AGAIN_SECONDS = 2.0
"""How long a standby that could not take over waits: another one may be about to write its entry."""
_LATE_SECONDS = 2.0
"""How long a standby without executors waits when it is its turn: one that has them takes over meanwhile."""
_CLOCK = SystemClock()


class Step(Enum):
    """The next step of a standby."""

    WAIT = "wait"
    TAKE = "take"
    END = "end"


@dataclass(slots=True)
class Watched:
    """The driver that has the name, as a standby has seen it so far.

    `silent_seconds`: how long its heartbeat may stay the same. `lived`: it had the name since the standby
    began. `why`: of the last step.
    """

    silent_seconds: float
    lived: bool = False
    why: str = ""
    _seen: tuple[Any, ...] = ()
    _since: float = 0.0

    def next(
        self, found: Found | None, asked: float, answered: float | None = None, *, there: bool | None = None
    ) -> Step:
        """The step that follows from the entry that the store was `asked` for, by a monotonic clock.

        `answered`: when it was there; default: at once. An answer that took long may be as old as its
        question. `there`: whether the driver's process, or the supervisor that starts the next one, is
        there; None if it is on another host.
        """
        if found is None:
            self.why = "no driver has the name"
            self.unread()
            return Step.WAIT if self.lived else Step.TAKE  # a folder may not be mounted any more
        entry = found.entry
        if entry is not None and not entry.lives:
            self.why = entry.reason or f"it has {entry.state}"
            return Step.END if entry.final and self.lived else Step.TAKE
        self.lived = True
        if there is False:
            self.why = "its process is gone"
            return Step.TAKE
        key = (found.written,) if entry is None else (entry.start, entry.epoch, entry.state, entry.heartbeat)
        if key != self._seen:
            self._seen, self._since = key, asked if answered is None else answered
        if asked - self._since < self.silent_seconds:
            return Step.WAIT
        self.why = f"its heartbeat has stopped for {asked - self._since:.0f} s"
        return Step.TAKE

    def unread(self) -> None:
        """The store cannot be read, so the time without a heartbeat begins again."""
        self._seen = ()


@dataclass(frozen=True, slots=True)
class Turn:
    """The end of a wait: the standby `takes` over, or ends. `before`: the entry of a driver that is dead."""

    takes: bool
    before: StoreEntry | None = None


class Standby:
    """Waits while another driver has the name, with Spark started."""

    def __init__(self, settings: RunSettings, name: str, spark: WarmSpark, plan: Plan) -> None:
        """`plan`: what it would run."""
        from ridgeline.cli.applications.submitting import use_store

        use_store(settings)
        self._folder = EntryFolder(settings.service.store or "")
        self._name = name
        self._spark = spark
        self._plan = plan
        self._service = settings.watched()
        self._serving = ExitStack()
        self._prepared = False
        self._said = ""
        self._silent_seconds = settings.supervision.silent_seconds()
        self._stopped = threading.Event()
        self._read = False
        self._waits = ""
        self._failed = ""
        console = make_console()
        self._say: Callable[[str], None] = lambda text: console.print(
            printable(f"standby: {text}"), markup=False
        )
        spark.say = self._say

    def await_turn(self, failed: Exception | None = None) -> Turn:
        """Wait until no driver lives that has the name. SIGINT and SIGTERM end the wait.

        `failed`: why it could not take over when it was its turn.

        Raises RidgelineError if another user's entry has the name, the store cannot be read at first, or
        Spark does not start or has ended.
        """
        supervisor = link()
        self._prepared = False
        if supervisor is not None:
            supervisor.follow(self, lambda: self._say("the supervisor was killed"))
        managed = manager()
        notifier = nullcontext() if managed is None else StandbyNotifier(managed, lambda: self._waits)
        with _signals(self._stopped), notifier, ExitStack() as self._serving:
            try:
                turn = in_thread(lambda: self._wait(failed), until=self._stopped)
            except LeftError:
                self._say(f"stopped while it waited; `{self._name}` was left alone")
                turn = Turn(takes=False)
        if supervisor is not None and not turn.takes:
            supervisor.report(ENDED)
        return turn

    def _prepare(self) -> None:
        """Start Spark; answer probes at the run's port, if one is given. Raises RidgelineError."""
        if not self._prepared:
            self._prepared = True
            if self._service.port:
                from ridgeline.service.waiting import serve_waiting

                self._serving.callback(serve_waiting(self._plan, self._service, self._say).close)
            self._spark.start()

    def stop(self, _why: str) -> None:
        """End the wait; from any thread."""
        self._stopped.set()

    def passed_on(self, _number: int, _count: int) -> None:
        """Take a signal that the supervisor has got; from any thread."""
        self._stopped.set()

    def _wait(self, failed: Exception | None) -> Turn:
        """As `await_turn`, in a thread of its own: a store that hangs must not hold up Ctrl-C."""
        if failed is not None:
            if self._failed != str(failed):
                self._failed = str(failed)
                self._say(f"it could not take over: {failed}")
            _CLOCK.wait(_AGAIN_SECONDS, self._stopped)
        watched = Watched(self._silent_seconds, lived=failed is not None)  # then another one has the name
        holder: tuple[Any, ...] = ()
        has_waited = False
        while True:
            step, entry = self._look(watched)
            if step is Step.TAKE and self._spark.is_late and not has_waited:
                has_waited = True
                _CLOCK.wait(_LATE_SECONDS, self._stopped)
                step, entry = self._look(watched)
            if step is Step.END:
                self._say(f"`{self._name}` was ended, so its standby ends, too: {watched.why}")
                return Turn(takes=False)
            if step is Step.TAKE:
                self._spark.take()
                if holder:
                    self._say(f"takes over `{self._name}`: {watched.why}")
                return Turn(takes=True, before=entry if entry is not None and entry.lives else None)
            if entry is not None and holder != (entry.host, entry.pid, entry.start):
                holder = (entry.host, entry.pid, entry.start)
                self._prepare()
                self._waits = f"{_holder(entry)}; this one waits as its standby"
                self._say(self._waits)
                if (supervisor := link()) is not None:
                    supervisor.report(WAITS)
                watched.unread()  # the start took time
            if entry is not None:
                self._spark.look(entry)
            if _CLOCK.wait(_LOOK_SECONDS, self._stopped):
                return Turn(takes=False)

    def _look(self, watched: Watched) -> tuple[Step, StoreEntry | None]:
        """The next step, and the entry. Raises CommandError if another user has the name."""
        from ridgeline.service.store.presence import is_end_asked, taken
        from ridgeline.service.store.standing import standing

        asked = _CLOCK.monotonic()
        try:
            found = self._folder.read(self._name)
            if found is not None and not found.trusted:
                raise CommandError(taken(standing(self._folder, found)))
            entry = None if found is None else found.entry
            there = None if entry is None else _is_there(entry)
            step = watched.next(found, asked, _CLOCK.monotonic(), there=there)
            if step is Step.TAKE and watched.lived and entry and is_end_asked(self._folder, entry):
                watched.why = "a user has ended it"
                step = Step.END
        except RidgelineError as error:
            if isinstance(error, CommandError) or not self._read:
                raise
            self._say_once(f"{error}; it waits until the store can be read")
            watched.unread()
            return Step.WAIT, None
        if found is None and step is Step.WAIT:
            self._say_once(f"the entry of `{self._name}` is gone from the store; it waits until it is there")
        else:
            self._said = ""
        self._read = True
        return step, entry

    def _say_once(self, text: str) -> None:
        """Say a text unless it was the last one of its kind."""
        if self._said != text:
            self._said = text
            self._say(text)


def _is_there(entry: StoreEntry) -> bool | None:
    """As of `Watched.next`. The supervisor of this process does not count: this is its next driver."""
    above, own = entry.supervisor, link()
    follows = above is not None and own is not None and above.pid == own.by
    return process_there(entry) if follows else holder_there(entry)


def _holder(entry: StoreEntry) -> str:
    if entry.restarts and entry.supervisor is not None:
        above = f"process {entry.supervisor.pid} on `{printable(entry.host)}`"
        return f"`{entry.name}` is started again by its supervisor, {above}"
    since = ""
    with suppress(ValueError, OverflowError, OSError):
        since = datetime.fromtimestamp(entry.started, UTC).strftime(" since %Y-%m-%d %H:%M:%S UTC")
    does = "runs" if entry.state == "running" else "is starting"
    return f"`{entry.name}` {does}: process {entry.pid} on `{printable(entry.host)}`{since}"


@contextmanager
def _signals(stopped: threading.Event) -> Iterator[None]:
    """Set the event at SIGINT and SIGTERM while the block runs."""
    before = {}
    if threading.current_thread() is threading.main_thread():
        for number in (signal.SIGINT, signal.SIGTERM):
            before[number] = signal.signal(number, lambda *_: stopped.set())
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
