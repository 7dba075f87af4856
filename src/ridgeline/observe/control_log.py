"""The last events that STRAM received and the instructions that it answered with, for post-mortems."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from ridgeline.api.errors import Failure, capped, described
from ridgeline.api.support.masking import masked_and_capped, printable
from ridgeline.measure.answers.application import (
    ControlEventAnswer,
    ControlInstructionAnswer,
    DebugDumpAnswer,
)
from ridgeline.observe import identity
from ridgeline.stram.changes import (
    BeginRecording,
    ChangeAsked,
    EndRecording,
    RecordingFailed,
    RecordingsFound,
    RefuseChange,
    ResumeRecording,
)
from ridgeline.stram.compaction import (
    AwaitCompaction,
    Compact,
    Compacted,
    CompactionFailed,
    DiscardCompaction,
    GiveUpCompaction,
    ReportCompaction,
    WarnOfState,
)
from ridgeline.stram.control import (
    AttemptFailed,
    Commit,
    ContainerReported,
    ContainersMoved,
    ControlEvent,
    GiveUp,
    Instruction,
    ManifestWritten,
    Publish,
    Repaired,
    RunStarted,
    RunWindow,
    Skip,
    StatesMoved,
    WindowDue,
    WindowPublished,
)
from ridgeline.stram.master import Master

MOST_EVENTS = 2_000
MOST_BYTES = 1 << 21
"""About the most memory that the log takes."""
_ENTRY_BYTES = 500
"""The memory of an event or an instruction that has no texts."""
_TEXT = 400
"""The length, in characters, that texts are cut to."""
_TEXT_BYTES = 4 * _TEXT
"""The memory of a text at most."""
_MASKED_TEXT = 8_000
"""The length that texts are cut to, without secrets, before they are made printable."""
_MOST_INSTRUCTIONS = 20
"""The most instructions that are kept of those that follow from one event."""
Brief = dict[str, Any]


def _text(text: str) -> str:
    return capped(printable(masked_and_capped(text, _MASKED_TEXT)), _TEXT)


def _failure(failure: Failure) -> Brief:
    """A failure without the tuple that it came of, and without its traceback."""
    return {
        "operator": failure.operator,
        "partition": failure.partition,
        "callback": failure.callback,
        "raised": failure.raised,
        "cluster": failure.cluster,
        "error": _text(failure.error),
    }


def _report(event: ContainerReported) -> Brief:
    report = event.report
    window = report.window
    return {
        "window": window.window_id,
        "attempt": window.attempt,
        "container": window.container,
        "task": window.task,
        "bytesOut": window.bytes_out,
    }


def _run_window(instruction: RunWindow) -> Brief:
    request = instruction.request
    found: Brief = {"window": request.window_id, "attempt": request.attempt, "final": request.final}
    if request.states is not None:
        found["states"] = len(request.states)
    if instruction.reason:
        found["reason"] = _text(instruction.reason)
    return found


def _commit(instruction: Commit) -> Brief:
    return {
        "first": min(instruction.reports),
        "window": instruction.window_id,
        "held": instruction.held,
        "ends": instruction.ends,
    }


_BRIEFS: Mapping[type, Callable[[Any], Brief]] = {
    ContainerReported: _report,
    ManifestWritten: lambda event: {"window": event.window_id},
    Compacted: lambda event: {"operator": event.operator, "files": len(event.version)},
    ChangeAsked: lambda event: {"number": event.change.number, "what": type(event.change.what).__name__},
    RecordingsFound: lambda event: {"recordings": len(event.recordings)},
    Commit: _commit,
    RunWindow: _run_window,
    Publish: lambda one: {"window": one.window_id, "before": len(one.before)},
    Compact: lambda one: {"operator": one.operator, "files": len(one.version), "bytes": one.size_bytes},
    BeginRecording: lambda one: {"recording": one.recording.id, "first": one.recording.first},
    EndRecording: lambda one: {"recording": one.recording.id, "end": one.recording.end},
    RunStarted: lambda event: {"states": len(event.sizes)},
    StatesMoved: lambda event: {"states": len(event.sizes)},
}
"""Of types that may hold much: numbers, so that no report and no tuple stays in memory."""
_WITH_TEXTS: Mapping[type, Callable[[Any], Brief]] = {
    AttemptFailed: lambda event: {
        "window": event.window_id,
        "attempt": event.attempt,
        **_failure(event.failure),
    },
    ContainersMoved: lambda event: {"reason": _text(event.reason)},
    Repaired: lambda event: {"operator": event.operator, "fault": _text(event.fault)},
    CompactionFailed: lambda event: {"operator": event.operator, "cause": _text(event.cause)},
    RecordingFailed: lambda event: {"recording": _text(event.recording), "window": event.window_id},
    GiveUp: lambda one: {"attempts": one.attempts, **_failure(one.failure)},
    WarnOfState: lambda one: {"operator": one.operator, "text": _text(one.text)},
    GiveUpCompaction: lambda one: {"message": _text(one.message)},
    RefuseChange: lambda one: {"number": one.change.number, "reason": _text(one.reason)},
    ResumeRecording: lambda one: {"recording": one.recording.id, "fault": _text(one.fault)},
}
"""Of types with texts that may be long, or have secrets in them."""
_PLAIN: Mapping[type, Callable[[Any], Brief]] = {
    WindowDue: lambda event: {"window": event.window_id},
    WindowPublished: lambda event: {"window": event.window_id},
    Skip: lambda one: {"window": one.window_id},
    AwaitCompaction: lambda one: {"operator": one.operator},
    DiscardCompaction: lambda one: {"operator": one.operator},
    ReportCompaction: lambda one: {"operator": one.operator, "files": one.files, "bytes": one.size_bytes},
}
"""Of types that are kept as they are until the log is read. Others are kept by name alone."""
_SHORTENED = {**_BRIEFS, **_WITH_TEXTS}
_SIZES = dict.fromkeys((*_WITH_TEXTS, RunWindow), _ENTRY_BYTES + _TEXT_BYTES)
_Kept = tuple[type, Any]
"""An event or instruction: its type, and its brief or itself."""


def _kept(one: object) -> _Kept:
    kind = type(one)
    brief = _SHORTENED.get(kind)
    if brief is not None:
        return kind, brief(one)
    return kind, one if kind in _PLAIN else {}


def _details(kept: _Kept) -> Brief:
    kind, details = kept
    return details if isinstance(details, dict) else _PLAIN[kind](details)


class _Entry:
    """An event, when it was received, and the instructions that followed; None: STRAM has not answered."""

    __slots__ = ("at", "event", "instructions", "size")

    def __init__(self, at: float, event: _Kept) -> None:
        self.at = at
        self.event = event
        self.size = _SIZES.get(event[0], _ENTRY_BYTES)
        self.instructions: tuple[_Kept, ...] | None = None


class ControlLog:
    """The last events and instructions, bounded in number and in bytes. Any thread may read it."""

    def __init__(
        self, clock: Callable[[], float], *, most_events: int = MOST_EVENTS, most_bytes: int = MOST_BYTES
    ) -> None:
        """`clock`: seconds since 1970."""
        self._clock = clock
        self._most_events = most_events
        self._most_bytes = most_bytes
        self._entries: deque[_Entry] = deque()
        self._bytes = 0
        self.dropped = 0
        """How many events before the first of `events` are not kept."""

    def handle(
        self, event: ControlEvent, master: Callable[[ControlEvent], Iterable[Instruction]]
    ) -> Sequence[Instruction]:
        """Let the master handle an event, and note it with its instructions. Raises as the master."""
        entry = _Entry(self._clock(), _kept(event))
        self._entries.append(entry)
        self._bytes += entry.size
        instructions = tuple(master(event))
        if instructions:
            entry.instructions = tuple(map(_kept, instructions[:_MOST_INSTRUCTIONS]))
            more = sum(_SIZES.get(kind, _ENTRY_BYTES) for kind, _ in entry.instructions)
            entry.size += more
            self._bytes += more
        else:
            entry.instructions = ()
        while len(self._entries) > self._most_events or self._bytes > self._most_bytes:
            self._bytes -= self._entries.popleft().size
            self.dropped += 1
        return instructions

    def events(self) -> list[ControlEventAnswer]:
        """The events as JSON has them, the oldest first."""
        found: list[ControlEventAnswer] = []
        for entry in self._entries.copy():  # at once: the run goes on meanwhile
            instructions = entry.instructions
            answered: list[ControlInstructionAnswer] | None = None
            if instructions is not None:
                answered = [
                    {"instruction": one[0].__name__, "details": _details(one)} for one in instructions
                ]
            found.append(
                {
                    "at": entry.at,
                    "event": entry.event[0].__name__,
                    "details": _details(entry.event),
                    "instructions": answered,
                }
            )
        return found

    def dump(self, master: Master, error: BaseException | None = None) -> DebugDumpAnswer:
        """All of it with the windows in flight. `error`: of which the driver dies."""
        return {
            "application": master.plan.logical.application,
            "version": identity.version(),
            "at": self._clock(),
            "fault": None if error is None else _text(described(error)),
            "committed": master.committed,
            "windows": [
                {
                    "window": one.window_id,
                    "attempt": one.attempt,
                    "phase": one.phase.value,
                    "reports": len(one.reports),
                }
                for one in master.in_flight
            ],
            "dropped": self.dropped,
            "events": self.events(),
        }
