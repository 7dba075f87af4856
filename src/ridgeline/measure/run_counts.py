"""Events that are only counted: messages, compactions, warnings, slots lost and replaced, promises."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TypeAlias

from ridgeline.measure.answers.progress import OutputAnswer
from ridgeline.measure.changes import PromiseFold
from ridgeline.measure.events import (
    ContainerHeartbeat,
    MessagesRefused,
    OutputAsked,
    OutputPublished,
    StateCompacted,
    StateWarning,
)
from ridgeline.measure.slot_events import (
    SlotJoined,
    SlotLost,
    SlotMisplaced,
    SlotSilent,
    SlotSpeculated,
    SlotsReduced,
    SlotsSized,
)


class OutputFold:
    """A fold over `OutputPublished` and `OutputAsked`; `Measurement` feeds it. One thread at a time."""

    def __init__(self) -> None:
        self._rows: dict[str, OutputAnswer] = {}

    def published(self, event: OutputPublished) -> None:
        """Readers may see more of an output."""
        row = self._row(event.operator)
        row["visibleWindow"], row["visibleAt"] = event.window_id, event.at
        row["timesPublished"] += 1

    def asked(self, event: OutputAsked) -> None:
        """Committed results do not get through, or do again."""
        self._row(event.operator)["problem"] = event.problem

    def rows(self) -> list[OutputAnswer]:
        """All outputs of which something is known."""
        return [row.copy() for row in self._rows.values()]

    def _row(self, operator: str) -> OutputAnswer:
        nothing: OutputAnswer = {
            "operator": operator,
            "visibleWindow": None,
            "visibleAt": None,
            "timesPublished": 0,
            "problem": "",
        }
        return self._rows.setdefault(operator, nothing)


SlotEvent: TypeAlias = (
    SlotJoined | SlotLost | SlotsReduced | SlotMisplaced | SlotSpeculated | SlotSilent | SlotsSized
)


@dataclass(slots=True)
class SlotCounts:
    """Counts of the slots of a run.

    `restarted`: another process has taken the place of one that was lost. `reduced`: Spark had too few cores,
    and the containers moved to fewer slots. `misplaced`: a slot stays where its streams' locality does not
    want it. `speculated`: the spare slot ran what a late one was late with. `silent`: hosts of slots did not
    answer for a while. `present`, `wanted`: how many slots host containers, and how many should; None before
    that is known, and where there are none.
    """

    lost: int = 0
    restarted: int = 0
    reduced: int = 0
    misplaced: int = 0
    speculated: int = 0
    silent: int = 0
    present: int | None = None
    wanted: int | None = None

    def add(self, event: SlotEvent) -> None:
        """Count an event."""
        match event:
            case SlotJoined(again=again):
                self.restarted += again
            case SlotLost():
                self.lost += 1
            case SlotsReduced():
                self.reduced += 1
            case SlotSpeculated():
                self.speculated += 1
            case SlotMisplaced(host=host):
                self.misplaced += bool(host)
            case SlotSilent(again=again):
                self.silent += not again
            case SlotsSized(slots=slots, wanted=wanted):
                self.present, self.wanted = slots, wanted


@dataclass(slots=True)
class RunCounts:
    """Counts since the start of a run. `heartbeats_unsent`: as workers report them in later ones.

    `compactions` of states that were installed. `refused`: by reason.
    """

    heartbeats: int = 0
    heartbeats_unsent: int = 0
    compactions: int = 0
    state_warnings: int = 0
    refused: Counter[str] = field(default_factory=Counter)
    slots: SlotCounts = field(default_factory=SlotCounts)
    promises: PromiseFold = field(default_factory=PromiseFold)
    outputs: OutputFold = field(default_factory=OutputFold)

    def heartbeat(self, event: ContainerHeartbeat) -> None:
        """A heartbeat has come."""
        self.heartbeats += 1
        self.heartbeats_unsent += event.unsent

    def refuse(self, event: MessagesRefused) -> None:
        """Messages did not count."""
        self.refused[event.reason] += event.count

    def compact(self, _event: StateCompacted) -> None:
        """A state was compacted."""
        self.compactions += 1

    def warn(self, _event: StateWarning) -> None:
        """Something was wrong, without any loss."""
        self.state_warnings += 1
