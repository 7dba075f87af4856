"""Recordings of tuples: of committed windows only, each window once, in files of Parquet in the checkpoint.

Before the commit of a window a file `recordings/staged/w<window>-e<epoch>.json` says what belongs to it.
After the commit its parts become files `recordings/<id>/<port>/w<window>-p<partition>.parquet`, and it goes.
A driver that starts does that for windows that are committed, and removes the rest. What cannot be written
ends the recording, not the application.
"""

from __future__ import annotations

import base64
import contextlib
import io
import json
import logging
import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any
from urllib.parse import quote

import pyarrow.parquet as pq

from ridgeline.api.clock import Clock
from ridgeline.api.errors import RidgelineError
from ridgeline.engine.container.recording import FOLDER, STAGED
from ridgeline.engine.driver.checkpoint.folder import Checkpoint
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
STARTED, STOPPED, ENDED = ".started.json", ".stopped-", ".ended.json"
"""After the id of a recording: the files that say what it is, where it is to end, and what it holds.

It may be stopped twice, by two drivers: the earliest end counts.
"""


@dataclass(slots=True)
class _Open:
    """A recording that continues, and what is committed of it. `at`: when it began (wall clock)."""

    recording: Recording
    at: float
    windows: int = 0
    tuples: int = 0
    size_bytes: int = 0
    staged_bytes: int = 0
    reason: str = ""


@dataclass(frozen=True, slots=True)
class _Part:
    """One partition's port in a window: its tuples in `data`; `file`: the container's file that had them."""

    recording: str
    port: str
    partition: int
    tuples: int
    data: bytes
    file: str

    @property
    def name(self) -> str:
        return f"{FOLDER}/{self.recording}/{quote(self.port, safe='')}"


class Recordings:
    """All recordings of a checkpoint. `rows` may be called by any thread, all else by the run's."""

    def __init__(self, plan: Plan, checkpoint: Checkpoint, clock: Clock) -> None:
        self._storage = checkpoint.storage
        self._epoch = checkpoint.epoch
        self._check_owner = checkpoint.check_owner
        self._clock = clock
        self._partitions = {one.id: one for one in plan.physical.operators}
        self._open: dict[str, _Open] = {}
        self._staged: dict[int, list[_Part]] = {}
        self._lock = threading.Lock()
        self.on_failure: Callable[[str, int], None] = lambda _name, _window: None
        """Called when a recording ends before a window (its id, the window), since it cannot be written."""

    def change(self, plan: Plan) -> None:
        """Record operators of another plan from now on."""
        self._partitions = {one.id: one for one in plan.physical.operators}

    def carry_out(self, instruction: ChangeInstruction, asked: Mapping[int, Asked], next_window: int) -> None:
        """Carry out what STRAM has decided about recordings. `asked`: the changes, by number."""
        match instruction:
            case RefuseChange(change, reason):
                refused(asked[change.number], reason)
            case BeginRecording(change, recording):
                if fault := self.begin(recording):
                    self.on_failure(recording.id, recording.first)
                    refused(asked[change.number], fault)
                else:
                    applied(asked[change.number], recording.first, recording.id)
            case EndRecording(change, recording):
                self.end(recording, f"stopped by {change.by}")
                applied(asked[change.number], recording.end, recording.id)
            case ResumeRecording(recording, fault):
                if fault:
                    self.end(replace(recording, end=next_window), fault)

    # What STRAM says ----------------------------------------------------------------------------------------

    def find(self, committed: int) -> tuple[Recording, ...]:
        """Finish what drivers before have committed, and remove the rest; returns what continues."""
        try:
            self._check_owner()
            return self._find(committed)
        except (OSError, ValueError, KeyError, TypeError, RidgelineError):
            _log.exception("recordings of an earlier run cannot be read")
            return ()

    def _find(self, committed: int) -> tuple[Recording, ...]:
        """Do what `find` says; raises what the storage raises."""
        names = self._storage.names(STAGED)
        for name in reversed(names):  # of one window the driver that came last has committed it
            if name.endswith(".json") and int(name[1:11]) <= committed:
                staged = json.loads(self._storage.read(f"{STAGED}/{name}"))
                parts = [
                    _Part(**{**part, "data": base64.b64decode(part["data"])}) for part in staged["parts"]
                ]
                self._publish(staged["window"], parts)
        self._storage.delete(f"{STAGED}/{name}" for name in names)
        found, files = [], self._storage.names(FOLDER)
        for name in self._ids():
            if self._read(f"{FOLDER}/{name}{ENDED}"):
                continue
            known = json.loads(self._storage.read(f"{FOLDER}/{name}{STARTED}"))
            ends = [int(one.removeprefix(f"{name}{STOPPED}")) for one in files if f"{name}{STOPPED}" in one]
            known["recording"]["end"] = min([known["recording"]["end"], *ends])
            recording = Recording(**{**known["recording"], "ports": tuple(known["recording"]["ports"])})
            self._open[recording.id] = self._counted(recording, known["at"])
            found.append(recording)
        return tuple(found)

    def _ids(self) -> list[str]:
        """The ids of all recordings."""
        names = self._storage.names(FOLDER)
        return [name.removesuffix(STARTED) for name in names if name.endswith(STARTED)]

    def _read(self, name: str) -> bytes:
        try:
            return self._storage.read(name)
        except FileNotFoundError:
            return b""

    def _counted(self, recording: Recording, at: float) -> _Open:
        """The files of a recording that another driver began."""
        found = _Open(recording, at)
        windows: set[str] = set()
        for port in recording.ports:
            folder = f"{FOLDER}/{recording.id}/{quote(port, safe='')}"
            for name in self._storage.names(folder):
                data = self._storage.read(f"{folder}/{name}")
                found.size_bytes += len(data)
                found.tuples += pq.read_metadata(io.BytesIO(data)).num_rows
                windows.add(name.partition("-")[0])
        found.windows, found.staged_bytes = len(windows), found.size_bytes
        return found

    def begin(self, recording: Recording) -> str:
        """Begin a recording; returns why that is not possible, "" if it is."""
        at = self._clock.wall()
        try:
            known = json.dumps({"at": at, "recording": asdict(recording)}).encode()
            self._check_owner()
            self._storage.create(f"{FOLDER}/{recording.id}{STARTED}", known)
        except (OSError, RidgelineError) as error:
            return f"it cannot be written: {error}"
        with self._lock:
            self._open[recording.id] = _Open(recording, at)
        return ""

    def end(self, recording: Recording, reason: str) -> None:
        """End a recording before the window `recording.end`; windows before may still be under way."""
        with self._lock:
            known = self._open.get(recording.id)
            if known is not None:
                known.recording, known.reason = recording, known.reason or reason
        with contextlib.suppress(OSError, RidgelineError):  # then a restart goes on with it
            self._check_owner()
            self._storage.create(f"{FOLDER}/{recording.id}{STOPPED}{recording.end:010d}", b"{}")

    # Windows ------------------------------------------------------------------------------------------------

    def stage(self, window_id: int, reports: Iterable[WindowReport]) -> None:
        """A window is about to be committed: keep what its reports have."""
        if not self._open:
            return
        found: list[_Part] = []
        for report in reports:
            for one in report.operators:
                if one.recorded:
                    found += self._parts(window_id, one.window.operator, one.recorded)
        for known in list(self._open.values()):
            own = [part for part in found if part.recording == known.recording.id]
            size = sum(len(part.data) for part in own)
            if max(known.size_bytes, known.staged_bytes) + size > known.recording.limit_bytes:
                why = f"it would exceed {known.recording.limit_bytes:,} bytes in window {window_id}"
                self._fail(known, window_id, why)
        found = [part for part in found if part.recording in self._open and self._covers(part, window_id)]
        if not found:
            return
        staged = [
            {**asdict(part), "data": base64.b64encode(part.data if not part.file else b"").decode()}
            for part in found
        ]
        try:
            document = json.dumps({"window": window_id, "parts": staged}).encode()
            self._storage.write(self._staged_name(window_id), document)
        except (OSError, RidgelineError) as error:
            for name in {part.recording for part in found}:
                self._fail(self._open[name], window_id, f"it cannot be written: {error}")
            return
        self._staged[window_id] = found
        for part in found:
            self._open[part.recording].staged_bytes += len(part.data)

    def _staged_name(self, window_id: int) -> str:
        return f"{STAGED}/w{window_id:010d}-e{self._epoch:010d}.json"

    def _parts(
        self, window_id: int, operator: int, recorded: Mapping[str, tuple[int, bytes, str, str]]
    ) -> list[_Part]:
        """The tuples that a partition has recorded, for each recording that it belongs to."""
        spec, found = self._partitions[operator], list[_Part]()
        for port, (tuples, inline, file, fault) in recorded.items():
            for known in list(self._open.values()):
                recording = known.recording
                covered = recording.first <= window_id < recording.end
                if not covered or recording.operator != spec.name or port not in recording.ports:
                    continue
                if fault:
                    self._fail(known, window_id, fault)
                    continue
                try:
                    data = self._storage.read(file) if file else inline
                except (OSError, RidgelineError) as error:
                    self._fail(known, window_id, f"window {window_id} cannot be read: {error}")
                else:
                    found.append(_Part(recording.id, port, spec.partition, tuples, data, file))
        return found

    def _covers(self, part: _Part, window_id: int) -> bool:
        recording = self._open[part.recording].recording
        return recording.first <= window_id < recording.end

    def _fail(self, known: _Open, window_id: int, why: str) -> None:
        """End a recording before a window; what is committed of it stays."""
        if known.recording.end > window_id:
            self.end(replace(known.recording, end=window_id), why)
            self.on_failure(known.recording.id, window_id)

    def publish(self, window_id: int) -> None:
        """All windows up to this one are committed."""
        if not self._open and not self._staged:
            return
        for staged in [window for window in self._staged if window <= window_id]:
            try:
                self._publish(staged, self._staged[staged])
            except (OSError, RidgelineError):
                _log.warning("a recorded window cannot be written yet; it is tried again", exc_info=True)
                break
            parts = self._staged.pop(staged)
            with self._lock:
                for name in {part.recording for part in parts}:
                    known = self._open[name]
                    own = [part for part in parts if part.recording == name]
                    known.windows += 1
                    known.tuples += sum(part.tuples for part in own)
                    known.size_bytes += sum(len(part.data) for part in own)
        self._close_complete(window_id)

    def _publish(self, window_id: int, parts: Iterable[_Part]) -> None:
        """Make the files of a committed window; safe to repeat."""
        parts = list(parts)
        for part in parts:
            data = part.data or (self._read(part.file) if part.file else b"")
            folder, name = part.name, f"w{window_id:010d}-p{part.partition}.parquet"
            if data:
                self._storage.create(f"{folder}/{name}", data)
            elif name not in self._storage.names(folder):  # where a crash came after it was made, it is there
                _log.warning(
                    "window %d of recording %s is lost: `%s` is gone", window_id, part.recording, part.file
                )
        self._storage.delete({part.file for part in parts if part.file})
        self._storage.delete([self._staged_name(window_id)])

    def _close_complete(self, committed: int) -> None:
        """Note the end of recordings all of whose windows are committed and written."""
        for name, known in list(self._open.items()):
            if known.recording.end <= committed + 1 and not self._staged:
                with contextlib.suppress(OSError, RidgelineError):
                    document = json.dumps(self._row(known, "ENDED")).encode()
                    self._storage.create(f"{FOLDER}/{name}{ENDED}", document)
                with self._lock:
                    del self._open[name]

    # What is shown ------------------------------------------------------------------------------------------

    def rows(self) -> list[dict[str, Any]]:
        """All recordings of the checkpoint, in the order in which they began."""
        with self._lock:
            known = {name: self._row(one, "RECORDING") for name, one in self._open.items()}
        for name in self._ids():
            if name not in known and (ended := self._read(f"{FOLDER}/{name}{ENDED}")):
                known[name] = json.loads(ended)
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
