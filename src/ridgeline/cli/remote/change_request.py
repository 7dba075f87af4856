"""Ask a running application for a change, wait until it is committed, and say what came of it."""

from __future__ import annotations

import getpass
import socket
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.error import HTTPError

from rich.table import Table
from rich.text import Text

from ridgeline.api.clock import SystemClock
from ridgeline.api.errors import RidgelineError
from ridgeline.cli.errors import CommandError, make_console
from ridgeline.cli.remote import shared
from ridgeline.cli.remote.client import TIMEOUT_SECONDS, Client
from ridgeline.cli.tables import folded
from ridgeline.measure.wording.units import time_of_day
from ridgeline.service.columns import noted, words

WAIT_SECONDS = 5
"""Longest wait of an answer of the service: less than the timeout of a client."""
_POLL_SECONDS = 0.2
_QUIET_SECONDS = 2
"""After so long a command says what it waits for, and again as often as it asks."""
_CLOCK = SystemClock()


@dataclass(frozen=True, slots=True)
class ChangeSender:
    """Sends changes to one application. `app`: its name as the user gave it, for what else to type.

    It waits `timeout` seconds at most, or with `no_wait` until the change is in the queue. A dry run waits
    for its answer: to plan very many partitions takes long.
    """

    client: Client
    app: str
    no_wait: bool = False
    timeout: float = 60.0
    as_json: bool = False

    def change(self, edits: Iterable[Any], note: str = "", *, dry_run: bool = False) -> None:
        """Ask for edits, and print what came of them. Raises CommandError if they are refused."""
        self.send("/changes", {"edits": list(edits)}, note, dry_run=dry_run)

    def send(self, path: str, body: dict[str, Any], note: str = "", *, dry_run: bool = False) -> None:
        """Ask for a change of the plan at one path of the service; as `change`."""
        given = {**body, "note": note or None}
        if dry_run:
            answer = self.client.post(path, patience=self.timeout or TIMEOUT_SECONDS, **given, dryRun=True)
            shared.show(answer, lambda _width: map(Text, answer["lines"]), as_json=self.as_json)
            return
        row = self._waited(self.client.post(path, **given, **self._asking()))
        shared.show(row, lambda _width: [Text(_outcome(row))], as_json=self.as_json)

    def act(self, path: str, note: str, done: str) -> None:
        """Ask the run as a whole for something, and print that it is `done`."""
        row = self._waited(self.client.post(path, note=note or None, **self._asking()))
        text = f"{self.app} {done}" if row["state"] == "APPLIED" else _outcome(row)
        shared.show(row, lambda _width: [Text(text)], as_json=self.as_json)

    def end(self, path: str, note: str) -> None:
        """Ask the run to end, and wait until it has. Raises RidgelineError if it takes longer."""
        self.client.get("/info")  # what does not run cannot be ended
        cut_off = False
        try:
            row = self.client.post(path, note=note or None, **self._asking())
        except RidgelineError as error:
            if isinstance(error.__cause__, HTTPError):
                raise
            cut_off = True  # it may end before it has answered
            row = {"state": "APPLIED", "what": path.strip("/"), "note": note}
        ended = (cut_off or not self.no_wait) and self._gone()
        text = f"{self.app} has ended" if ended else f"{self.app} ends"
        shared.show(row, lambda _width: [Text(text)], as_json=self.as_json)

    def _asking(self) -> dict[str, Any]:
        wait = 0 if self.no_wait else min(_QUIET_SECONDS, int(self.timeout))
        return {"wait": wait, "who": who()}

    def _waited(self, row: Any) -> Any:
        """The change once it is made. Raises CommandError if it is refused, RidgelineError if it waits on."""
        deadline = _CLOCK.monotonic() + self.timeout
        while row["state"] == "QUEUED" and not self.no_wait:
            left = deadline - _CLOCK.monotonic()
            if left <= 0:
                again = f"`ridgeline changes {self.app} --withdraw {row['id']}` takes it back"
                raise RidgelineError(
                    f"after {self.timeout:g} s {_outcome(row)}; `ridgeline changes {self.app}` shows "
                    f"what becomes of it, {again}"
                )
            if self.client.get("/info").get("state") == "PAUSED":
                raise RidgelineError(
                    f"{_outcome(row)}; the application is paused, and no window begins; it is made after "
                    f"`ridgeline resume {self.app}`"
                )
            self._say(row)
            row = self.client.get(f"/changes/{row['id']}", wait=max(1, min(WAIT_SECONDS, int(left))))
        if row["state"] == "REFUSED":
            raise CommandError(row["reason"])
        if row["state"] == "WITHDRAWN":
            raise CommandError(
                f"change {row['id']} was withdrawn by somebody; ask again, if it is still wanted"
            )
        return row

    def _say(self, row: Any) -> None:
        """What a change waits for, to standard error: the window that runs, if that takes long."""
        from ridgeline.cli.views.running import running_line

        running = running_line(self.client.get("/progress"), after_seconds=_QUIET_SECONDS)
        make_console().print(Text("; ".join(filter(None, (_outcome(row), running)))), soft_wrap=True)

    def _gone(self) -> bool:
        """Wait until the application answers no more. Raises RidgelineError."""
        if await_end(self.client, self.timeout):
            return True
        raise RidgelineError(
            f"`{self.app}` still runs after {self.timeout:g} s; `ridgeline status --info {self.app}` "
            "shows what it does"
        )


def await_end(client: Client, seconds: float | None = None) -> bool:
    """Wait until an application answers no more, so many seconds at most; whether it does not."""
    deadline = None if seconds is None else _CLOCK.monotonic() + seconds
    while True:
        try:
            client.get("/info")
        except RidgelineError as error:
            if not _is_slow(error):
                return True
        if deadline is not None and _CLOCK.monotonic() >= deadline:
            return False
        _CLOCK.wait(_POLL_SECONDS)


def _is_slow(error: RidgelineError) -> bool:
    """True if an application is there, but does not answer in time or has failed to."""
    cause = error.__cause__
    return isinstance(getattr(cause, "reason", cause), TimeoutError) or (
        isinstance(cause, HTTPError) and not isinstance(error, CommandError)
    )


def who() -> str:
    """Who asks, as far as this process knows."""
    try:
        return f"{getpass.getuser()}@{socket.gethostname()}"
    except (OSError, KeyError, ImportError):
        return "command"


def _outcome(row: Any) -> str:
    if row["state"] == "APPLIED":
        window = "" if row["window"] is None else f" with window {row['window']}"
        return f"change {row['id']} is committed{window}: {row['what']}"
    what = "to be prepared" if row["window"] is None else f"for window {row['window']}"
    return f"change {row['id']} waits {what}: {row['what']}"


_CHANGES = (
    words("id", "id"),
    words("state", "state"),
    noted("window", "window"),
    words("asked", "at", time_of_day),
    words("who", "who"),
    words("what", "what"),
    words("note", "note"),
)


def changes_parts(rows: Sequence[Any], _width: int) -> Iterable[Table | Text]:
    """A table with a line for each change; then why those that were refused were."""
    refused = [Text(f"{row['id']} was refused: {row['reason']}") for row in rows if row["reason"]]
    return [folded(_CHANGES, rows), *refused]
