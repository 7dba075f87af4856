"""The driver's side: it claims a name in the store, says that it lives, and at last how it ended."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Self

from ridgeline.api.clock import Clock, SystemClock
from ridgeline.api.errors import ApplicationKilledError, NameTakenError
from ridgeline.api.support.files import is_local
from ridgeline.api.support.masking import mask_text
from ridgeline.engine.driver.run.launch import Claim
from ridgeline.engine.driver.run.options import Outcome
from ridgeline.engine.files.folder_lock import break_lock
from ridgeline.engine.spark.submitted import yarn_id
from ridgeline.observe.identity import run_info
from ridgeline.service.registry import ENDED, FAILED, LIVING, RUNNING, STARTING, Entry, own_entry
from ridgeline.service.store.folder import EntryFolder, Found, check_name
from ridgeline.service.store.standing import (
    BEAT_SECONDS,
    DAMAGED,
    FOREIGN,
    Standing,
    standing,
)

if TYPE_CHECKING:
    from ridgeline.service.http.server import WebServer

_LAST_SECONDS = 10.0
"""How long the end of a run waits for the store."""
_PATIENCE_SECONDS = BEAT_SECONDS + 1


class Presence(Claim):
    """An application's entry in a store, from `claim` to `end`.

    Only `claim` raises. Later failures are warnings: a store that is gone ends no application. `lost`: why
    this driver has the name no more, "" while it has; `on_lost` is called then, once, from any thread.
    """

    def __init__(
        self,
        store: str,
        name: str,
        application: str,
        master: str,
        warn: Callable[[str], None],
        clock: Clock | None = None,
    ) -> None:
        self.lost = ""
        self.on_lost: Callable[[], object] = _nothing
        self._replaces: Entry | None = None
        """The entry of the attempt before this one, which its cluster takes for dead."""
        self._clock = clock or SystemClock()
        self._folder = EntryFolder(store, self._clock)
        self._warn = warn
        self._over = threading.Event()
        self._writing = threading.Lock()
        self._thread: threading.Thread | None = None
        self._failed = False
        self._silent = 0.0
        """When the entry was written that may be of a driver from before this host was started again."""
        cluster_id, now = yarn_id(), self._clock.wall()
        self._entry = own_entry(
            "",
            check_name(name),
            application=application,
            state=STARTING,
            user=run_info(master, "")["user"],
            started=now,
            heartbeat=now,
            master=master,
            deploy_mode="cluster" if cluster_id else "client",
            cluster_id=cluster_id,
        )

    def claim(self, checkpoint: str) -> None:
        """Take the name; then heartbeats begin.

        Of several drivers that do so at once the one that gets the checkpoint has it in the end.

        Raises NameTakenError if an application of that name lives or starts, RidgelineError if the store
        cannot be used.
        """
        start = self._last_start() + 1
        self._entry = replace(self._entry, start=start, checkpoint=mask_text(checkpoint))
        self._folder.write(self._entry)
        self._thread = threading.Thread(target=self._beat, name="ridgeline-presence", daemon=True)
        self._thread.start()

    def before_spark(self, checkpoint: str) -> None:
        """As `claim`, in a local store. Raises as `claim`."""
        if self._folder.is_local:
            self.claim(checkpoint)
            self.free(checkpoint)

    def free(self, checkpoint: str) -> None:
        """Take the lock of a local checkpoint from the driver that is taken for dead, once the name is had.

        That driver may stand still. It is fenced off once it continues.
        """
        before = self._replaces
        if before is None or not is_local(checkpoint):
            return
        with contextlib.suppress(OSError):  # then the checkpoint says that it is in use
            if break_lock(checkpoint, before.pid, before.host):
                self._warn(
                    f"the process {before.pid} on `{before.host}` holds the checkpoint still, so it is "
                    "fenced off: it ends at its next commit"
                )

    def with_spark(self, checkpoint: str) -> None:
        """As `claim`, in a store that needs Spark's settings, unless it is done. Raises as `claim`."""
        if not self._folder.is_local and self._thread is None:
            self.claim(checkpoint)

    def _last_start(self) -> int:
        """The number of the start before this one; 0 for none. Raises NameTakenError."""
        name = self._entry.name
        while (found := self._folder.read(name)) is not None:
            entry = found.entry
            if entry is not None and self._is_attempt_after(entry):
                self._refuse_ended(entry)
                self._replaces = entry
                return entry.start
            how = standing(self._folder, found)
            if how.state == DAMAGED:
                self._clock.wait(_PATIENCE_SECONDS)  # who lives writes it anew meanwhile
                again = self._folder.read(name)
                if again is not None and again.entry is None:
                    self._warn(f"the entry of `{name}` in the store is replaced: {found.fault}")
                    return 0
            elif how.lives or how.state == FOREIGN:
                if not self._may_be_of_before(found):
                    raise NameTakenError(taken(how))
            else:
                return 0 if entry is None else entry.start
        return 0

    def _is_attempt_after(self, entry: Entry) -> bool:
        """Whether the cluster has started this driver in the place of that one, which it takes for dead."""
        mine = self._entry
        same = bool(mine.cluster_id) and mine.cluster_id == entry.cluster_id
        return same and (mine.host, mine.process) != (entry.host, entry.process)

    def _refuse_ended(self, entry: Entry) -> None:
        """Raise ApplicationKilledError if a user has ended the driver that the cluster has started again."""
        if entry.final:
            why = entry.reason or "a user has ended it"
            raise ApplicationKilledError(
                f"`{entry.name}` was ended ({why}), so this attempt of the cluster does not continue it"
            )

    def _may_be_of_before(self, found: Found) -> bool:
        """Whether a driver of this host may have died with it: wait a second for its next heartbeat.

        A host that is started again quickly would else find its own driver of before, and give up.
        """
        entry = found.entry
        boot = self._entry.process.partition(":")[0]
        if entry is None or entry.host != self._entry.host or entry.process.partition(":")[0] in {"", boot}:
            return False
        if self._silent not in {0.0, found.written}:
            return False  # it lives, on another host of that name
        self._silent = found.written
        self._clock.wait(1.0)
        return True

    def running(self, application_id: str, web: WebServer | None, cluster_id: str = "") -> None:
        """Say that it runs, and where its web service is."""
        self._entry = replace(
            self._entry,
            id=application_id,
            state=RUNNING,
            url="" if web is None else web.url,
            cluster_id=self._entry.cluster_id or cluster_id,
        )
        self._say()

    def end(self, reason: str, *, failed: bool, final: bool = True) -> None:
        """Say how it ended; waits some seconds at most for a store that does not answer.

        `final`: the application is to run no more, so no cluster starts it again.
        """
        self._over.set()
        if self._thread is None:
            return
        self._thread.join(_LAST_SECONDS)
        state = FAILED if failed else ENDED
        self._entry = replace(self._entry, state=state, reason=mask_text(reason)[:2000], final=final)
        last = threading.Thread(target=self._say, name="ridgeline-presence-end", daemon=True)
        last.start()
        last.join(_LAST_SECONDS)
        self._thread = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, _kind: object, error: BaseException | None, _traceback: object) -> None:
        if error is not None:
            final = isinstance(error, ApplicationKilledError)
            self.end(str(error) or type(error).__name__, failed=True, final=final)

    def _lose(self, later: Entry) -> bool:
        """Another driver has taken the name. If it has the checkpoint as well, this one is to end.

        False: it has ended before it took the checkpoint, so this one has the name again.
        """
        if self.lost:
            return True
        if later.state not in LIVING and later.epoch < self._entry.epoch:
            self._entry = replace(self._entry, start=later.start)
            return False
        taken = f"`{later.name}` was taken over by the process {later.pid} on `{later.host}`"
        if later.checkpoint != self._entry.checkpoint:
            self._warn(f"the name {taken}, on another checkpoint; the application runs on without a name")
            return True
        self.lost = f"{taken}; this driver stops, nothing is lost"
        self.on_lost()
        return True

    def _beat(self) -> None:
        while not self._over.wait(BEAT_SECONDS):
            self._say()

    def _say(self) -> None:
        """Write the entry, unless a later driver has the name by now."""
        try:
            with self._writing:
                found = self._folder.read(self._entry.name)
                other = None if found is None else found.entry
                if other is not None and _is_later(other, self._entry) and self._lose(other):
                    self._over.set()
                    return
                now = self._clock.wall()
                said = replace(self._entry, heartbeat=now)
                self._folder.write(said)
            if self._failed:
                self._failed = False
                self._warn(f"the store has the entry of `{self._entry.name}` again")
        except Exception as error:  # noqa: BLE001  the application runs on
            if not self._failed:
                self._failed = True
                self._warn(f"{error}; the application runs on, and `ridgeline ps` may take it for dead")


def _is_later(other: Entry, own: Entry) -> bool:
    """Whether another driver's entry comes after one's own.

    Of two starts at once that one has the name that gets the checkpoint; where each has another one, the
    later.
    """
    if other.process == own.process:
        return False
    first, second = (own.start, own.epoch), (other.start, other.epoch)
    if first == second and own.state == other.state == RUNNING:
        return (other.started, other.process) > (own.started, own.process)
    return second > first


def _nothing() -> None:
    pass


def ended_by(outcome: Outcome) -> str:
    """Why a run has ended that did not fail."""
    return "all inputs have finished" if outcome.ended else "it was stopped"


def taken(how: Standing) -> str:
    """The error for a name that is taken."""
    found, entry = how.found, how.found.entry
    if entry is None:
        return f"the name `{found.name}` is taken in this store: {found.fault}; give another name"
    does = "runs" if entry.state == RUNNING else "is starting"
    run = f", run {entry.id}" if entry.id else ""
    address = f", at {entry.url}" if entry.url else ""
    return (
        f"`{entry.name}` {does} already: process {entry.pid} on `{entry.host}`{run}{address}, last heard "
        f"{how.age:.0f} s ago; `ridgeline stop {entry.name}` ends it, or give another name"
    )


__all__ = ["Presence", "ended_by", "taken"]
