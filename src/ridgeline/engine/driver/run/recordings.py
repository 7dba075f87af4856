"""Recordings of tuples: of committed windows only, each window once, in files of Parquet in the checkpoint.

Each request for a window says what is recorded in it, the same for all attempts. Containers write that to
files in `recordings/staged`. The window's manifest says which recordings there are and which of these files
belong to them, so that is committed with the window. After the commit they become files
`recordings/<id>/<port>/w<window>-p<partition>.parquet`. A driver that starts does that for what the last
manifest says, and removes the rest. What cannot be written ends the recording, not the application.
"""

from __future__ import annotations

import json
import logging
import threading
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from typing import Any, NamedTuple
from urllib.parse import quote

from ridgeline.api.clock import Clock
from ridgeline.api.errors import RidgelineError, did_you_mean
from ridgeline.engine.container.recording import FOLDER, STAGED
from ridgeline.engine.driver.checkpoint.folder import Checkpoint
from ridgeline.engine.driver.run.changes import ENDED as OVER
from ridgeline.engine.driver.run.changes import Asked, applied, refused
from ridgeline.plan.execution import Plan
from ridgeline.plan.physical import PhysicalOperator
from ridgeline.plan.protocol import WindowReport, WindowRequest
from ridgeline.stram.changes import StartRecording, StopRecording

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
class _Recording:
    """A recording of the ports of one operator in the windows from `first` up to, not including, `end`.

    `at`: when it began (wall clock). `windows`, `tuples`, `size_bytes`: what is published of it. `reason`:
    why it ends, if it was ended. `staged`: the parts of windows that are not published, by window.
    """

    id: str
    operator: str
    ports: tuple[str, ...]
    first: int
    end: int
    limit_bytes: int
    by: str
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
    def of(cls, picture: Mapping[str, Any]) -> _Recording:
        """From what `picture` gave."""
        staged = {int(window): [_Part(*one) for one in parts] for window, parts in picture["staged"].items()}
        return cls(**{**picture, "ports": tuple(picture["ports"]), "staged": staged})

    def stop(self, window_id: int, reason: str) -> None:
        """End it before a window; windows before may still be under way."""
        end = max(self.first, min(self.end, window_id))
        self.end, self.reason = end, self.reason or reason


class Recordings:
    """All recordings of a checkpoint. `rows` may be called by any thread, all else by the run's."""

    def __init__(self, checkpoint: Checkpoint, clock: Clock) -> None:
        self._storage = checkpoint.storage
        self._check_owner = checkpoint.check_owner
        self._clock = clock
        self._epoch = checkpoint.epoch
        self._open: dict[str, _Recording] = {}
        """Those that continue, and what is published of them."""
        self._asked: list[tuple[Asked, int, str]] = []
        """Changes that wait for a commit which says so, with their windows and recordings."""
        self._lock = threading.Lock()

    def take(self, asked: Asked, plan: Plan, window_id: int) -> None:
        """Begin a recording with the first window that has not begun, end one before it, or refuse to."""
        what, by = asked.change.what, asked.change.by
        if isinstance(what, StopRecording):
            known = self._open.get(what.recording)
            if known is None:
                more = did_you_mean(what.recording, self._open)
                refused(asked, f"no recording `{what.recording}` goes on; {more}")
                return
            known.stop(window_id, f"stopped by {by}")
            self._asked.append((asked, known.end, known.id))
            return
        assert isinstance(what, StartRecording)  # noqa: S101  no other is given
        ports = _ports(plan, what.operator, None if what.port is None else [what.port])
        if isinstance(ports, str):
            refused(asked, ports)
        elif what.windows < 1 or what.limit_bytes < 1:
            refused(asked, "a recording has at least one window and one byte")
        else:
            name, end = f"{self._epoch}-{asked.change.number}", window_id + what.windows
            made = _Recording(
                name, what.operator, ports, window_id, end, what.limit_bytes, by, self._clock.wall()
            )
            with self._lock:
                self._open[name] = made
            self._asked.append((asked, window_id, name))

    def asked(self, request: WindowRequest, plan: Plan) -> WindowRequest:
        """The request, with the ports that are recorded in the window, and the most bytes of each."""
        found: dict[tuple[int, str], int] = {}
        for one in self._open.values():
            if one.first <= request.window_id < one.end:
                for partition in _partitions(plan, one.operator):
                    for port in one.ports:
                        key = partition.id, port
                        found[key] = max(found.get(key, 0), one.limit_bytes)
        return replace(request, recording=found) if found else request

    def find(self, kept: Mapping[str, Any]) -> None:
        """Finish what drivers before have committed, and remove the rest.

        `kept`: what the last manifest has, as `picture` gave it.
        """
        try:
            self._check_owner()
            files = self._storage.names(FOLDER)
            self._open = {
                name: _Recording.of(one) for name, one in kept.items() if f"{name}{ENDED}" not in files
            }
            self._publish_staged()
            self._remove_staged()
        except (OSError, ValueError, KeyError, TypeError, RidgelineError):
            _log.exception("recordings of an earlier run cannot be read")

    def picture(self) -> dict[str, Any]:
        """The recordings that continue, as JSON values for a manifest."""
        return {name: known.picture() for name, known in self._open.items()}

    # Windows ------------------------------------------------------------------------------------------------

    def stage(self, plan: Plan, window_id: int, reports: Iterable[WindowReport]) -> None:
        """A window of a plan is about to be committed: keep what its reports have.

        What the plan has not any more is recorded up to here; not before, since a plan may be taken back.
        """
        if not self._open:
            return
        recorded = [
            (plan.physical.operator(one.window.operator), one.recorded)
            for report in reports
            for one in report.operators
            if one.recorded
        ]
        for known in self._open.values():
            if known.end > window_id and isinstance(why := _ports(plan, known.operator, known.ports), str):
                known.stop(window_id, why)
            parts = list[_Part]()
            for again in [window for window in known.staged if window >= window_id]:
                del known.staged[again]  # they were staged before, and their commit was refused
            for spec, ports in recorded if known.first <= window_id < known.end else ():
                for port, (tuples, size, file, fault) in ports.items():
                    if known.operator == spec.name and port in known.ports:
                        parts.append(_Part(port, spec.partition, tuples, size, file))
                        if fault:
                            known.stop(window_id, fault)
            waiting = [part for some in (*known.staged.values(), parts) for part in some]
            if known.size_bytes + sum(part.size_bytes for part in waiting) > known.limit_bytes:
                why = f"it would exceed {known.limit_bytes:,} bytes in window {window_id}"
                known.stop(window_id, why)
            if parts and window_id < known.end:
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
            if known.end <= window_id + 1 and not known.staged:
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
                        self._publish(known.id, window, part)
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

    def _row(self, known: _Recording, state: str) -> dict[str, Any]:
        """A recording as it is shown, and as the file of its end keeps it."""
        return {
            "id": known.id,
            "operator": known.operator,
            "ports": list(known.ports),
            "state": state,
            "reason": known.reason,
            "by": known.by,
            "startTime": known.at,
            "firstWindow": known.first,
            "endWindow": known.end,
            "windows": known.windows,
            "tuples": known.tuples,
            "bytes": known.size_bytes,
            "folder": f"{self._storage.uri}/{FOLDER}/{known.id}",
        }


def _partitions(plan: Plan, operator: str) -> list[PhysicalOperator]:
    return [one for one in plan.physical.operators if one.name == operator and not one.unifier]


def _ports(plan: Plan, operator: str, wanted: Iterable[str] | None) -> tuple[str, ...] | str:
    """The ports to record, or why they cannot be."""
    partitions = _partitions(plan, operator)
    if not partitions:
        names = [one.name for one in plan.physical.operators]
        return f"there is no operator `{operator}`; {did_you_mean(operator, names)}"
    connected = (*partitions[0].inputs, *partitions[0].outputs)
    for port in wanted or ():
        if port not in connected:
            what = f"`{operator}` has no connected port `{port}`"
            return f"{what}; {did_you_mean(port, connected)}"
    return tuple(wanted or connected)
