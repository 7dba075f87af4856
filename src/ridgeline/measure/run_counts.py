"""What is only counted of a run: messages, compactions, warnings, slots, broken promises."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from ridgeline.measure.events import ContainerHeartbeat, MessagesRefused, StateCompacted, StateWarning
from ridgeline.measure.promises import PromiseFold
from ridgeline.measure.slot_counts import SlotCounts


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
