"""Events that are only counted: messages, compactions, warnings, slots lost and replaced, promises."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass, field

from ridgeline.measure.answers.progress import OutputAnswer
from ridgeline.measure.changes import PromiseFold
from ridgeline.measure.events import (
    ContainerHeartbeat,
    MessagesRefused,
    OutputAsked,
    OutputPublished,
    RunEvent,
)
from ridgeline.measure.slot_events import SlotEvent


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

    def stuck(self, operators: Collection[str]) -> list[str]:
        """Why committed results of these outputs do not get through."""
        stuck = (row for row in self._rows.values() if row["problem"] and row["operator"] in operators)
        return [f"`{row['operator']}` is {row['problem']}" for row in stuck]

    def _row(self, operator: str) -> OutputAnswer:
        nothing: OutputAnswer = {
            "operator": operator,
            "visibleWindow": None,
            "visibleAt": None,
            "timesPublished": 0,
            "problem": "",
        }
        return self._rows.setdefault(operator, nothing)


@dataclass(slots=True)
class RunCounts:
    """Counts since the start of a run. `heartbeats_unsent`: as workers report them in later ones.

    `slots`: events of slots, by kind. `sized`: the last one that says how many slots host containers, and how
    many should; None before that is known, and where there are none. `kinds`: all events, by type. `refused`:
    messages, by reason.
    """

    heartbeats_unsent: int = 0
    kinds: Counter[type[RunEvent]] = field(default_factory=Counter)
    refused: Counter[str] = field(default_factory=Counter)
    slots: Counter[str] = field(default_factory=Counter)
    sized: SlotEvent | None = None
    promises: PromiseFold = field(default_factory=PromiseFold)
    outputs: OutputFold = field(default_factory=OutputFold)

    def heartbeat(self, event: ContainerHeartbeat) -> None:
        """A heartbeat has come."""
        self.heartbeats_unsent += event.unsent

    def refuse(self, event: MessagesRefused) -> None:
        """Messages did not count."""
        self.refused[event.reason] += event.count

    def slot(self, event: SlotEvent) -> None:
        """Count an event of slots."""
        self.slots[event.kind] += 1
        if event.kind in {"sized", "spread"}:
            self.sized = event
