"""The command `wait`: waits for the end of an application, also over drivers that follow each other."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from ridgeline.api.clock import SystemClock
from ridgeline.api.errors import RidgelineError
from ridgeline.cli.errors import CommandError
from ridgeline.cli.output import write
from ridgeline.cli.remote.options import Named

if TYPE_CHECKING:
    from ridgeline.cli.applications.resolving import Target
    from ridgeline.cli.remote.client import Client

_CLOCK = SystemClock()
_POLL_SECONDS = 0.3
_SUCCESSOR_SECONDS, _YARN_SECONDS = 10.0, 120.0
"""How long another driver is looked for where the store does not say that the application is to end.

YARN takes longer to start one again.
"""


def wait(
    remote: Named,
    seconds: Annotated[
        float | None,
        typer.Argument(metavar="[SECONDS]", min=0, help="Wait so long at most.", show_default=False),
    ] = None,
) -> None:
    """Wait until a running application has ended. Nothing is asked of it.

    By its name it also waits for drivers that follow: of a supervisor, a standby, YARN, or another `submit`.
    In a store it looks for one for ten seconds, for one that YARN runs for two minutes. It does not if the
    application was ended, or its inputs have finished.

    Example: `ridgeline wait payments 600 && ./report`

    Exit codes: 0 ended, 1 still running after SECONDS, 2 none of this name runs.
    """
    deadline = None if seconds is None else _CLOCK.monotonic() + seconds
    if not _Wait(remote, deadline).until_it_ends():
        hint = f"`ridgeline status {remote.app}` says what it does"
        raise RidgelineError(f"`{remote.app}` still runs after {seconds:g} s; {hint}")
    write(f"{remote.app} has ended")


class _Wait:
    """The wait for one application. `deadline`: by the monotonic clock; None: without a limit."""

    def __init__(self, remote: Named, deadline: float | None) -> None:
        self._remote = remote
        self._deadline = deadline
        self._is_address = remote.url is not None or "://" in remote.app
        self._unseen: float | None = None
        """Since when no driver lives, though another one may follow."""

    def until_it_ends(self) -> bool:
        """Whether it has ended before the deadline. Raises CommandError if it does not run at first."""
        from ridgeline.cli.remote.change_request import await_end

        client = self._first()
        while True:
            if client is not None:
                if not await_end(client, self._left()):
                    return False
                self._unseen = None
                if self._is_address:
                    return True
            if self._has_ended():
                return True
            if (left := self._left()) is not None and left <= 0:
                return False
            _CLOCK.wait(_POLL_SECONDS)
            client = self._next()

    def _left(self) -> float | None:
        return None if self._deadline is None else max(0.0, self._deadline - _CLOCK.monotonic())

    def _first(self) -> Client | None:
        """A client of the driver that runs; None if one is about to. Raises CommandError if none is."""
        try:
            client = self._remote.connect()
            client.get("/info")  # what does not run is not waited for
        except RidgelineError as error:
            reason = getattr(error.__cause__, "reason", error.__cause__)
            is_silent = isinstance(reason, ConnectionError | TimeoutError)
            if self._is_address or not self._is_coming(is_silent=is_silent):
                raise
            return None
        return client

    def _is_coming(self, *, is_silent: bool) -> bool:
        """Whether its next driver is started, or will be. `is_silent`: the listed one does not answer."""
        from ridgeline.service.supervised import RESTARTING

        target = self._target()
        if target is None or target.how is None:
            return target is not None and bool(target.held)
        entry = target.how.found.entry
        if not target.how.lives or entry is None:
            return False
        return is_silent or not entry.address or target.how.state == RESTARTING

    def _target(self) -> Target | None:
        """The application as it is found now; None if there is none of this name."""
        from ridgeline.cli.applications.resolving import locate

        try:
            return locate(self._remote.app, self._remote.store)
        except CommandError:
            return None

    def _next(self) -> Client | None:
        """A client of the driver that has the name now; None if none answers."""
        try:
            target = self._target()
            if target is None:
                return None
            client = target.client(self._remote.token, self._remote.ca, self._remote.cert)
            client.get("/info")
        except RidgelineError:
            return None
        return client

    def _has_ended(self) -> bool:
        """Whether no driver of that name lives, and none is to follow."""
        from ridgeline.cli.applications.resolving import store_of
        from ridgeline.service.store.folder import EntryFolder
        from ridgeline.service.store.presence import is_end_asked

        try:
            target = self._target()
            if target is None:
                return True
            if target.how is None:
                return False  # it runs, or its supervisor does
            entry = target.how.found.entry
            if target.how.lives or entry is None:
                self._unseen = None
                return False
            store = store_of(self._remote.store)
            if entry.final or (store is not None and is_end_asked(EntryFolder(store), entry)):
                return True
        except RidgelineError:
            return False  # the store does not answer
        now = _CLOCK.monotonic()
        self._unseen = now if self._unseen is None else self._unseen
        on_yarn = entry.deploy_mode == "cluster" and entry.master.startswith("yarn")
        return now - self._unseen >= (_YARN_SECONDS if on_yarn else _SUCCESSOR_SECONDS)


__all__ = ["wait"]
