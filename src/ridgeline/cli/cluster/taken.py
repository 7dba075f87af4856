"""A driver that was handed to a cluster: `spark-submit` follows it until it runs, or has ended."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

import typer

from ridgeline.api.clock import SystemClock
from ridgeline.api.errors import RidgelineError
from ridgeline.cli.errors import CommandError
from ridgeline.cli.output import write
from ridgeline.service.store.entry import FAILED

if TYPE_CHECKING:
    from ridgeline.service.store.folder import EntryFolder
    from ridgeline.service.store.standing import Standing

CLOCK = SystemClock()
_POLL_SECONDS = 0.3
_END_SECONDS = 10.0
_SAID_LINES = 15
_FRAME = re.compile(r"\s+(at |\.\.\. \d+ more)")
"""A line of Java about where an error has happened, of which there are very many."""


@dataclass(slots=True)
class Taken:
    """A driver that was handed to a cluster. `process`: `spark-submit`, which only follows it.

    `id`: of the submission; `log`: the output of `process`. `token`: that was made for its web service; ""
    for none. `cluster_id`: the cluster's name of it, "" until the cluster has taken it.
    """

    folder: EntryFolder
    name: str
    id: str
    process: subprocess.Popen[bytes]
    log: Path
    cluster_id: str = ""
    token: str = ""
    cluster: ClassVar[str] = "the cluster"

    def wait_until_submitted(self, timeout: float) -> None:
        """Wait until the cluster has taken it. Raises RidgelineError if it does not."""
        deadline = CLOCK.monotonic() + timeout
        while not self.look():
            if self.process.poll() is not None:
                self.remove_secrets(is_refused=True)
                raise self._failure(self.process.returncode)
            if CLOCK.monotonic() > deadline:
                self.leave()
                late = f"{self.cluster} has not taken `{self.name}` within {timeout:g} s"
                raise RidgelineError(f"{late}; see that it runs, and `{self.log}`")
            CLOCK.wait(_POLL_SECONDS)
        self.remove_secrets()
        write(f"{self.name}: {self.cluster} has taken it as {self.cluster_id}")
        if self.token:
            write(f"{self.name}: its web service asks for the token {self.token}, which commands here know")
        sys.stdout.flush()

    def wait_until_it_runs(self, timeout: float) -> Standing:
        """Wait for the first sign that it runs. Raises RidgelineError if it fails."""
        deadline = CLOCK.monotonic() + timeout
        said: tuple[object, ...] = ()
        while True:
            how = self.standing()
            entry = None if how is None else how.found.entry
            if how is not None and entry is not None and entry.state in {"running", "ended"}:
                return how
            if entry is not None and (state := (entry.state, entry.start)) != said:
                said = state
                what = f"failed: {entry.reason}" if entry.state == FAILED else f"starts on `{entry.host}`"
                write(f"{self.name}: its driver {what}")
                sys.stdout.flush()
            if (code := self.process.poll()) is not None:
                raise self._failure(code)
            if CLOCK.monotonic() > deadline:
                self.leave()
                unseen = "" if entry else self.unseen()
                raise RidgelineError(
                    f"`{self.name}` does not run after {timeout:g} s, and {self.cluster} tries on; see "
                    f"`{self.log}`, or end it by `{self.ending_command()}`{unseen}"
                )
            CLOCK.wait(_POLL_SECONDS)

    def wait_for_end(self) -> None:
        """Wait until the cluster says that it has ended. Raises typer.Exit with 1 if it has failed."""
        while (code := self.process.poll()) is None:
            CLOCK.wait(_POLL_SECONDS)
        how = self.standing()
        failed = self.has_failed(code)
        write(f"{self.name} has {'failed' if failed else 'ended'}: {how.words if how else code}")
        if failed:
            raise typer.Exit(1)

    def leave(self) -> None:
        """End `spark-submit`: it only looks at the cluster. An application that was taken runs on."""
        if self.process.poll() is None:
            with suppress(ProcessLookupError):
                os.killpg(self.process.pid, signal.SIGTERM)
            with suppress(subprocess.TimeoutExpired):
                self.process.wait(_END_SECONDS)
            if self.process.poll() is None:
                with suppress(ProcessLookupError):
                    os.killpg(self.process.pid, signal.SIGKILL)
        self.remove_secrets()

    def standing(self) -> Standing | None:
        """How it stands by its entry; None before it has one, or while the store cannot be read."""
        from ridgeline.service.store.standing import standing_of

        return standing_of(self.folder, self.name, self.id)

    def said(self) -> str:
        """All that `spark-submit` has printed."""
        try:
            return self.log.read_text(errors="replace")
        except OSError:
            return ""

    def _failure(self, code: int) -> RidgelineError:
        """The error of an application that has ended before it ran."""
        if not self.cluster_id:
            lines = [line for line in self.said().splitlines() if not _FRAME.match(line)]
            last = "\n".join(lines[-_SAID_LINES:])
            what = f"`spark-submit` has ended with code {code}; all that it printed is in `{self.log}`"
            return RidgelineError(f"{what}:\n{last}" if last else what)
        if holder := self._holder():
            return CommandError(f"{holder}; {self.cluster} has ended {self.cluster_id}")
        why = f": {self.reason()}" if self.reason() else ""
        what = f"`{self.name}` has ended on {self.cluster} before it ran{why}"
        return RidgelineError(f"{what}; {self.printed()} shows what it printed")

    def _holder(self) -> str:
        """The error for a name that another submission was quicker to get; "" if none was."""
        from ridgeline.service.store.presence import taken
        from ridgeline.service.store.standing import standing

        with suppress(RidgelineError):
            found = self.folder.read(self.name)
            if found is not None and found.entry is not None and found.entry.submission != self.id:
                how = standing(self.folder, found)
                return taken(how) if how.lives else ""
        return ""

    # What each kind of cluster says itself ------------------------------------------------------------------

    def look(self) -> bool:
        """Whether the cluster has taken it; then `cluster_id` is known."""
        raise NotImplementedError

    def remove_secrets(self, *, is_refused: bool = False) -> None:
        """Remove the files that nothing reads any more. `is_refused`: the cluster has no application."""
        raise NotImplementedError

    def has_failed(self, code: int) -> bool:
        """Whether an application has failed whose `spark-submit` has ended with this code."""
        return code != 0

    def ending_command(self) -> str:
        """The cluster's own command that ends it."""
        raise NotImplementedError

    def printed(self) -> str:
        """The cluster's own command that shows what its driver has printed, in backquotes."""
        raise NotImplementedError

    def reason(self) -> str:
        """Why the cluster says that it has ended; "" if it does not."""
        return ""

    def unseen(self) -> str:
        """The end of the error about one that has no entry in the store after so long."""
        return "; it has no entry in the store: do all nodes reach that?"


__all__ = ["CLOCK", "Taken"]
