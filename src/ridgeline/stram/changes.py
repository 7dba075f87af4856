"""Changes of a running application: each takes effect between two windows, in all containers at once."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from ridgeline.api.errors import did_you_mean
from ridgeline.plan.change.edit_texts import edits_text
from ridgeline.plan.edits import Edit
from ridgeline.plan.execution import Plan
from ridgeline.plan.physical import PhysicalOperator


@dataclass(frozen=True, slots=True)
class StartRecording:
    """Record the tuples of an operator's ports. `port` None: all that are connected.

    It ends by itself after `windows` windows, and before a window by which it would exceed `limit_bytes`.
    """

    operator: str
    port: str | None = None
    windows: int = 1_000
    limit_bytes: int = 64 * 2**20

    def __str__(self) -> str:
        return f"start recording `{self.operator}{f'.{self.port}' if self.port else ''}`"


@dataclass(frozen=True, slots=True)
class StopRecording:
    """End a recording, by its id."""

    recording: str

    def __str__(self) -> str:
        return f"stop recording `{self.recording}`"


@dataclass(frozen=True, slots=True)
class EditPlan:
    """Change the plan: all of the edits at one window boundary, or none of them."""

    edits: tuple[Edit, ...]
    note: str = ""

    def __str__(self) -> str:
        return edits_text(self.edits)


@dataclass(frozen=True, slots=True)
class Pause:
    """Begin no further window until `Resume`."""

    note: str = ""

    def __str__(self) -> str:
        return "pause"


@dataclass(frozen=True, slots=True)
class Resume:
    """Begin windows again."""

    note: str = ""

    def __str__(self) -> str:
        return "resume"


@dataclass(frozen=True, slots=True)
class Shutdown:
    """End the application after the windows under way, as Ctrl-C does."""

    note: str = ""

    def __str__(self) -> str:
        return "shut down"


@dataclass(frozen=True, slots=True)
class Kill:
    """End the application at once: the windows under way are void, and are run again after a restart."""

    note: str = ""

    def __str__(self) -> str:
        return "kill"


Control = Pause | Resume | Shutdown | Kill
What = StartRecording | StopRecording | EditPlan | Control


@dataclass(frozen=True, slots=True)
class Change:
    """A request to change the running application. `number` counts those of one driver; `by`: who asked."""

    number: int
    by: str
    what: What


@dataclass(frozen=True, slots=True)
class Recording:
    """The recording of the ports of one operator in the windows from `first` up to, not including, `end`."""

    id: str
    operator: str
    ports: tuple[str, ...]
    first: int
    end: int
    limit_bytes: int
    by: str


# Events and instructions ------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ChangeAsked:
    """A change is requested, before the next window begins."""

    change: Change


@dataclass(frozen=True, slots=True)
class RecordingsFound:
    """The recordings that a driver before had not ended; they continue."""

    recordings: tuple[Recording, ...]


@dataclass(frozen=True, slots=True)
class RecordingFailed:
    """A recording cannot be written from a window on."""

    recording: str
    window_id: int


@dataclass(frozen=True, slots=True)
class RefuseChange:
    """A change is not made."""

    change: Change
    reason: str


@dataclass(frozen=True, slots=True)
class BeginRecording:
    """A recording begins with its first window."""

    change: Change
    recording: Recording


@dataclass(frozen=True, slots=True)
class EndRecording:
    """A recording ends before the window `recording.end`."""

    change: Change
    recording: Recording


@dataclass(frozen=True, slots=True)
class ResumeRecording:
    """A recording continues after a restart; `fault`: why it cannot, "" if it does."""

    recording: Recording
    fault: str


ChangeEvent = ChangeAsked | RecordingsFound | RecordingFailed
ChangeInstruction = RefuseChange | BeginRecording | EndRecording | ResumeRecording

# The state --------------------------------------------------------------------------------------------------


class Recorder:
    """Decides which ports are recorded in which windows. Repeated attempts at a window record the same."""

    def __init__(self, plan: Plan, epoch: int) -> None:
        self._plan = plan
        self._epoch = epoch
        self._recordings: dict[str, Recording] = {}

    def handle(self, event: ChangeEvent, window_id: int) -> tuple[ChangeInstruction, ...]:
        """Take an event in. `window_id`: the first window that has not begun."""
        match event:
            case ChangeAsked(change):
                if isinstance(change.what, StartRecording):
                    return (self._start(change, change.what, window_id),)
                if isinstance(change.what, StopRecording):
                    return (self._stop(change, change.what, window_id),)
                return (RefuseChange(change, f"this run cannot {change.what}"),)
            case RecordingsFound(recordings):
                return tuple(map(self._resume, recordings))
            case RecordingFailed(name, first):
                if name in self._recordings:
                    self._recordings[name] = replace(self._recordings[name], end=first)
                return ()

    def records(self, window_id: int) -> Mapping[tuple[int, str], int]:
        """The ports that are recorded in a window, and the most bytes of each; by physical id and name."""
        found: dict[tuple[int, str], int] = {}
        for recording in self._recordings.values():
            if recording.first <= window_id < recording.end:
                for partition in self._partitions(recording.operator):
                    for port in recording.ports:
                        key = partition.id, port
                        found[key] = max(found.get(key, 0), recording.limit_bytes)
        return found

    @property
    def recordings(self) -> tuple[Recording, ...]:
        """Those that continue, or whose last windows are not committed."""
        return tuple(self._recordings.values())

    def committed(self, window_id: int) -> None:
        """Forget recordings whose windows are all committed."""
        if self._recordings:
            self._recordings = {
                name: one for name, one in self._recordings.items() if one.end > window_id + 1
            }

    def _partitions(self, operator: str) -> list[PhysicalOperator]:
        return [one for one in self._plan.physical.operators if one.name == operator and not one.unifier]

    def _start(self, change: Change, what: StartRecording, window_id: int) -> ChangeInstruction:
        """Begin a recording with this window, or refuse it."""
        ports = self._ports(what.operator, None if what.port is None else [what.port])
        if isinstance(ports, str):
            return RefuseChange(change, ports)
        if what.windows < 1 or what.limit_bytes < 1:
            return RefuseChange(change, "a recording has at least one window and one byte")
        recording = Recording(
            f"{self._epoch}-{change.number}",
            what.operator,
            ports,
            window_id,
            window_id + what.windows,
            what.limit_bytes,
            change.by,
        )
        self._recordings[recording.id] = recording
        return BeginRecording(change, recording)

    def _stop(self, change: Change, what: StopRecording, window_id: int) -> ChangeInstruction:
        recording = self._recordings.get(what.recording)
        if recording is None:
            known = did_you_mean(what.recording, self._recordings)
            return RefuseChange(change, f"no recording `{what.recording}` goes on; {known}")
        end = max(recording.first, min(recording.end, window_id))
        recording = self._recordings[recording.id] = replace(recording, end=end)
        return EndRecording(change, recording)

    def _resume(self, recording: Recording) -> ResumeRecording:
        ports = self._ports(recording.operator, recording.ports)
        if isinstance(ports, str):
            return ResumeRecording(recording, ports)
        self._recordings[recording.id] = recording
        return ResumeRecording(recording, "")

    def _ports(self, operator: str, wanted: Iterable[str] | None) -> tuple[str, ...] | str:
        """The ports to record, or why they cannot be."""
        partitions = self._partitions(operator)
        if not partitions:
            names = [one.name for one in self._plan.physical.operators]
            return f"there is no operator `{operator}`; {did_you_mean(operator, names)}"
        connected = (*partitions[0].inputs, *partitions[0].outputs)
        for port in wanted or ():
            if port not in connected:
                what = f"`{operator}` has no connected port `{port}`"
                return f"{what}; {did_you_mean(port, connected)}"
        return tuple(wanted or connected)
