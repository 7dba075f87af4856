"""The audit log: who asked for which change, what came of it, and which tries were denied.

One JSON object a line. A change has two lines with the same `id`: `asked` before it is made, and
`done` with the result. No change is without the first. Denied tries are bounded: a flood must not
fill the disk.
"""

from __future__ import annotations

import contextlib
import json
import secrets
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread

from ridgeline.api.clock import Clock, SystemClock
from ridgeline.api.errors import RidgelineError, UntrustedError
from ridgeline.api.support import trust
from ridgeline.engine.files.rotation import FULL_BYTES, put_away
from ridgeline.service.access.roles import Caller
from ridgeline.service.line_file import LineFile

ASKED, DONE, DENIED = "asked", "done", "denied"
SUFFIX = ".jsonl"
BURST = 60
"""Denied tries that are written at once; then one a second. The others are counted."""
_LONGEST = 300
_LONGEST_LINE = 16_000
_UNLOCKED = "another run writes it"


class AuditError(Exception):
    """A line cannot be written, so what it is about is refused."""


class AuditLog:
    """Appends to a file, which is its owner's alone. Thread-safe.

    Args:
        path: Ends in `.jsonl`; its folder must exist. A log that is there is continued.
        application: Named in each line.
        say: Called with a text when the log cannot be written, and once it can be again.
        clock: For tests.

    Raises:
        RidgelineError: If it cannot be made, or another run writes it.
    """

    def __init__(
        self,
        path: str,
        application: str,
        say: Callable[[str], None],
        clock: Clock | None = None,
    ) -> None:
        if not path.endswith(SUFFIX):
            raise RidgelineError(f"the audit log `{path}` must end in `{SUFFIX}`; give another name")
        self.path = Path(path)
        self._application = application
        self._say = say
        self._clock = clock or SystemClock()
        self._lock = threading.Lock()
        self._broken = False
        self._left_out = 0
        self._counting = threading.Lock()
        self._aside = anyio.CapacityLimiter(1)
        self._tokens, self._refilled = float(BURST), self._clock.monotonic()
        try:
            self._file = self._open()
        except OSError as error:
            raise RidgelineError(
                f"the audit log `{path}` cannot be written: {_why(error)}; give another `--audit-log`"
            ) from None

    # Lines --------------------------------------------------------------------------------------------------

    def asked(self, caller: Caller, request: Mapping[str, Any]) -> str:
        """Note a change before it is made; its id. Raises AuditError: then it must not be made."""
        number = secrets.token_hex(8)
        try:
            with self._lock:
                self._write({"event": ASKED, "id": number, **_who(caller), **request}, sync=True)
        except OSError as error:
            reason = _why(error)
            self._failed(reason)
            raise AuditError(reason) from None
        self._works()
        return number

    def done(self, number: str, caller: Caller, request: Mapping[str, Any], status: int, **more: Any) -> None:
        """Note what came of a change. Never raises: it is made already."""
        event = DENIED if status in {401, 403} else DONE
        try:
            with self._lock:
                self._write(
                    {"event": event, "id": number, **_who(caller), **request, "status": status, **more}
                )
        except OSError as error:
            self._failed(_why(error))

    def denied(self, caller: Caller, request: Mapping[str, Any], status: int, reason: str) -> None:
        """Note a try that is refused, as far as the flood of them allows. Never raises."""
        try:
            with self._lock:
                if not self._has_room():
                    self._leave_out()
                    return
                line = {"event": DENIED, "id": secrets.token_hex(8), **_who(caller), **request}
                self._write({**line, "status": status, "reason": reason})
        except OSError as error:
            self._failed(_why(error))

    async def denied_beside(
        self, caller: Caller, request: Mapping[str, Any], status: int, reason: str
    ) -> None:
        """Note a denied try in a thread: the disk may be slow, and the event loop serves all requests.

        Tries that find `BURST` others waiting for the disk are only counted.
        """
        if self._aside.statistics().tasks_waiting >= BURST:
            self._leave_out()
            return
        await anyio.to_thread.run_sync(
            self.denied, caller, request, status, reason, abandon_on_cancel=True, limiter=self._aside
        )

    def close(self) -> None:
        """Write how many tries were left out, and close the file. May be called twice."""
        with self._lock:
            if self._file.is_open:
                with contextlib.suppress(OSError):
                    self._write_left_out()
                self._file.close()

    def _has_room(self) -> bool:
        now = self._clock.monotonic()
        self._tokens = min(float(BURST), self._tokens + now - self._refilled)
        self._refilled = now
        if self._tokens < 1:
            return False
        self._tokens -= 1
        return True

    # The file -----------------------------------------------------------------------------------------------

    def _write(self, line: Mapping[str, Any], *, sync: bool = False) -> None:
        """Append one line, as a whole or not at all. Raises OSError."""
        if not self._file.is_open:
            raise OSError("it is closed")
        self._look()
        self._write_left_out()
        self._append(line, sync=sync)

    def _write_left_out(self) -> None:
        """Say how many denied tries have no line of their own."""
        with self._counting:
            count, self._left_out = self._left_out, 0
        if count:
            try:
                self._append({"event": DENIED, "leftOut": count})
            except OSError:
                self._leave_out(count)
                raise

    def _leave_out(self, count: int = 1) -> None:
        with self._counting:  # not the lock of the file, which is held while the disk is slow
            self._left_out += count

    def _append(self, line: Mapping[str, Any], *, sync: bool = False) -> None:
        """Append a line to the file that is open. Raises OSError."""
        whole = {"at": round(self._clock.wall(), 3), "application": self._application, **line}
        text = json.dumps(whole)
        if len(text) > _LONGEST_LINE:
            text = json.dumps({**whole, "what": f"{len(text):,} characters are left out"})
        # JSON of ASCII: no text of a request makes a line of its own
        self._file.append(text.encode() + b"\n", sync=sync)

    def _look(self) -> None:
        """Begin the next file if this one is full, or was renamed or removed."""
        moved = not self._file.is_at(self.path)
        if not moved and self._file.status.st_size < FULL_BYTES:
            return
        if not moved:
            put_away(self.path)
        try:
            file = self._open()
        except UntrustedError as error:
            raise OSError(str(error)) from None  # while it runs, as any other reason not to write
        self._file.close()
        self._file = file

    def _open(self) -> LineFile:
        """The file, which this run alone writes. Raises OSError, UntrustedError."""
        path = self.path.absolute()
        purpose = f"the audit log `{path}`"
        trust.check(str(path.parent), purpose, "give another `--audit-log`")
        try:
            file = LineFile(path, always_locked=True)
        except BlockingIOError as error:
            raise BlockingIOError(error.errno, _UNLOCKED) from None
        try:
            trust.check_found(file.status, str(path), purpose, "give another one")
        except BaseException:
            file.close()
            raise
        return file

    def _failed(self, reason: str) -> None:
        if not self._broken:
            self._broken = True
            self._say(f"the audit log `{self.path}` cannot be written: {reason}; changes are refused")

    def _works(self) -> None:
        if self._broken:
            self._broken = False
            self._say(f"the audit log `{self.path}` can be written again; changes are made again")


def _who(caller: Caller) -> dict[str, Any]:
    role = None if caller.role is None else caller.role.word
    return {"who": caller.identity.name[:_LONGEST], "by": caller.identity.source, "role": role}


def _why(error: OSError) -> str:
    return error.strerror or str(error)
