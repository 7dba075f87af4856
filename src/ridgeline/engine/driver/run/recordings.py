"""Recordings of tuples: of committed windows only, each window once, in files of Parquet in the checkpoint.

Containers write what they record of a window to files in `recordings/staged`. The window's manifest says
which recordings there are and which of these files belong to them, so that is committed with the window.
After the commit they become files `recordings/<id>/<port>/w<window>-p<partition>.parquet`. A driver that
starts does that for what the last manifest says, and removes the rest. What cannot be written ends the
recording, not the application.
"""

from __future__ import annotations

import json
import logging
import threading
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from typing import Any, NamedTuple
from urllib.parse import quote

from ridgeline.api.clock import Clock
from ridgeline.api.errors import RidgelineError
from ridgeline.engine.container.recording import FOLDER, STAGED
from ridgeline.engine.driver.checkpoint.folder import Checkpoint
from ridgeline.engine.driver.run.changes import ENDED as OVER
from ridgeline.engine.driver.run.changes import Asked, applied, refused
from ridgeline.plan.execution import Plan
from ridgeline.plan.protocol import WindowReport
from ridgeline.stram.changes import (
    BeginRecording,
    ChangeInstruction,
    EndRecording,
    Recording,
    RefuseChange,
    ResumeRecording,
)

_log = logging.getLogger(__name__)
ENDED = ".ended.json"
"""After the id of a recording: the file that says what it holds, once it is complete."""


class _Part(NamedTuple):
    """What one partition's port has recorded in a window. `file`: the container's, in `STAGED`."""

    port: str
    partition: int
    tuples: int
    size_bytes: int
    file: str


@dataclass(slots=True)
class _Open:
    """A recording that continues, and what is published of it. `at`: when it began (wall clock).

    `staged`: the parts of windows that are not published, by window.
    """

    recording: Recording
    at: float
    windows: int = 0
    tuples: int = 0
    size_bytes: int = 0
    reason: str = ""
    staged: dict[int, list[_Part]] = field(default_factory=dict)

    def picture(self) -> dict[str, Any]:
        """As JSON values."""
        return {**asdict(self), "staged": {str(window): parts for window, parts in self.staged.items()}}

    @classmethod
    def of(cls, picture: Mapping[str, Any]) -> _Open:
        """From what `picture` gave."""
        known = picture["recording"]
        staged = {int(window): [_Part(*one) for one in parts] for window, parts in picture["staged"].items()}
        recording = Recording(**{**known, "ports": tuple(known["ports"])})
        return cls(**{**picture, "recording": recording, "staged": staged})


class Recordings:
    """All recordings of a checkpoint. `rows` may be called by any thread, all else by the run's."""

    def __init__(self, checkpoint: Checkpoint, clock: Clock) -> None:
        self._storage = checkpoint.storage
        self._check_owner = checkpoint.check_owner
        self._clock = clock
        self._open: dict[str, _Open] = {}
        self._asked: list[tuple[Asked, int, str]] = []
        """Changes that wait for a commit which says so, with their windows and recordings."""
        self._lock = threading.Lock()
        self.on_failure: Callable[[str, int], None] = lambda _name, _window: None
        """Called when a recording ends before a window (its id, the window), since it cannot be written."""

    def carry_out(self, instruction: ChangeInstruction, asked: Mapping[int, Asked], next_window: int) -> None:
        """Carry out what STRAM has decided about recordings. `asked`: the changes, by number."""
        match instruction:
            case RefuseChange(change, reason):
                refused(asked[change.number], reason)
            case BeginRecording(change, recording):
                with self._lock:
                    self._open[recording.id] = _Open(recording, self._clock.wall())
                self._asked.append((asked[change.number], recording.first, recording.id))
            case EndRecording(change, recording):
                self._end(recording, f"stopped by {change.by}")
                self._asked.append((asked[change.number], recording.end, recording.id))
            case ResumeRecording(recording, fault):
                if fault:
                    self._end(replace(recording, end=next_window), fault)

    # What STRAM says ----------------------------------------------------------------------------------------

    def find(self, kept: Mapping[str, Any]) -> tuple[Recording, ...]:
        """Finish what drivers before have committed, and remove the rest; returns what continues.

        `kept`: what the last manifest has, as `picture` gave it.
        """
        try:
            self._check_owner()
            files = self._storage.names(FOLDER)
            self._open = {name: _Open.of(one) for name, one in kept.items() if f"{name}{ENDED}" not in files}
            self._publish_staged()
            self._remove_staged()
        except (OSError, ValueError, KeyError, TypeError, RidgelineError):
            _log.exception("recordings of an earlier run cannot be read")
        return tuple(one.recording for one in self._open.values())

    def picture(self) -> dict[str, Any]:
        """The recordings that continue, as JSON values for a manifest."""
        return {name: known.picture() for name, known in self._open.items()}

    def _end(self, recording: Recording, reason: str) -> None:
        """End a recording before the window `recording.end`; windows before may still be under way."""
        with self._lock:
            known = self._open.get(recording.id)
            if known is not None:
                known.recording, known.reason = recording, known.reason or reason

    def _fail(self, known: _Open, window_id: int, why: str) -> None:
        """End a recording before a window; what is committed of it stays."""
        if known.recording.end > window_id:
            self._end(replace(known.recording, end=window_id), why)
            self.on_failure(known.recording.id, window_id)

    # Windows ------------------------------------------------------------------------------------------------

    def stage(self, plan: Plan, window_id: int, reports: Iterable[WindowReport]) -> None:
        """A window of a plan is about to be committed: keep what its reports have."""
        if not self._open:
            return
        recorded = [
            (plan.physical.operator(one.window.operator), one.recorded)
            for report in reports
            for one in report.operators
            if one.recorded
        ]
        for known in self._open.values():
            recording, parts = known.recording, list[_Part]()
            for again in [window for window in known.staged if window >= window_id]:
                del known.staged[again]  # they were staged before, and their commit was refused
            for spec, ports in recorded if recording.first <= window_id < recording.end else ():
                for port, (tuples, size, file, fault) in ports.items():
                    if recording.operator == spec.name and port in recording.ports:
                        parts.append(_Part(port, spec.partition, tuples, size, file))
                        if fault:
                            self._fail(known, window_id, fault)
            waiting = [part for some in (*known.staged.values(), parts) for part in some]
            if known.size_bytes + sum(part.size_bytes for part in waiting) > recording.limit_bytes:
                why = f"it would exceed {recording.limit_bytes:,} bytes in window {window_id}"
                self._fail(known, window_id, why)
            if parts and window_id < known.recording.end:
                known.staged[window_id] = parts

    def publish(self, window_id: int) -> None:
        """All windows up to this one are committed."""
        asked, self._asked = self._asked, []
        for one, window, recording in asked:
            applied(one, window, recording)
        if not self._open:
            return
        self._publish_staged()
        for name, known in list(self._open.items()):
            if known.recording.end <= window_id + 1 and not known.staged:
                with suppress(OSError, RidgelineError):  # it is tried again
                    document = json.dumps(self._row(known, "ENDED")).encode()
                    self._storage.create(f"{FOLDER}/{name}{ENDED}", document)
                    with self._lock:
                        del self._open[name]
                    if not self._open:
                        self._remove_staged()

    def close(self) -> None:
        """No window is committed any more: refuse what waits for one."""
        for one, _, _ in self._asked:
            refused(one, OVER)

    def _publish_staged(self) -> None:
        """Make the files of committed windows; safe to repeat."""
        files = self._files()
        for known in self._open.values():
            for window, parts in sorted(known.staged.items()):
                try:
                    for part in parts:
                        self._publish(known.recording.id, window, part)
                except (OSError, RidgelineError):
                    _log.warning("a recorded window cannot be written yet; it is tried again", exc_info=True)
                    break
                with self._lock:
                    del known.staged[window]
                    known.windows += 1
                    known.tuples += sum(part.tuples for part in parts)
                    known.size_bytes += sum(part.size_bytes for part in parts)
        with suppress(OSError, RidgelineError):
            self._storage.delete(files - self._files())

    def _publish(self, recording: str, window: int, part: _Part) -> None:
        """Make the file of a part. Raises OSError, RidgelineError."""
        folder = f"{FOLDER}/{recording}/{quote(part.port, safe='')}"
        name = f"w{window:010d}-p{part.partition}.parquet"
        try:
            self._storage.create(f"{folder}/{name}", self._storage.read(part.file))
        except FileNotFoundError:
            if name not in self._storage.names(folder):  # where a crash came after it was made, it is there
                _log.warning("window %d of recording %s is lost: `%s` is gone", window, recording, part.file)

    def _files(self) -> set[str]:
        """The files of all parts that are not published."""
        return {
            part.file for known in self._open.values() for parts in known.staged.values() for part in parts
        }

    def _remove_staged(self) -> None:
        """Remove what attempts have left that do not count. Raises OSError."""
        names = (f"{STAGED}/{name}" for name in self._storage.names(STAGED))
        left = self._files()
        self._storage.delete(name for name in names if name not in left)

    # What is shown ------------------------------------------------------------------------------------------

    def rows(self) -> list[dict[str, Any]]:
        """All recordings of the checkpoint, in the order in which they began."""
        with self._lock:
            known = {name: self._row(one, "RECORDING") for name, one in self._open.items()}
        for file in self._storage.names(FOLDER):
            if file.endswith(ENDED) and (name := file.removesuffix(ENDED)) not in known:
                known[name] = json.loads(self._storage.read(f"{FOLDER}/{file}"))
        return sorted(known.values(), key=lambda row: row["startTime"])

    def _row(self, known: _Open, state: str) -> dict[str, Any]:
        """A recording as it is shown, and as the file of its end keeps it."""
        one = known.recording
        return {
            "id": one.id,
            "operator": one.operator,
            "ports": list(one.ports),
            "state": state,
            "reason": known.reason,
            "by": one.by,
            "startTime": known.at,
            "firstWindow": one.first,
            "endWindow": one.end,
            "windows": known.windows,
            "tuples": known.tuples,
            "bytes": known.size_bytes,
            "folder": f"{self._storage.uri}/{FOLDER}/{one.id}",
        }
