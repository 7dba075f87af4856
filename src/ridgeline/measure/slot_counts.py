"""How often slots were lost and replaced, became fewer, or are on another host than was asked for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from ridgeline.measure.slot_events import (
    SlotJoined,
    SlotLost,
    SlotMisplaced,
    SlotSilent,
    SlotSpeculated,
    SlotsReduced,
    SlotsSized,
)

SlotEvent: TypeAlias = (
    SlotJoined | SlotLost | SlotsReduced | SlotMisplaced | SlotSpeculated | SlotSilent | SlotsSized
)


@dataclass(slots=True)
class SlotCounts:
    """What has happened to the slots of a run.

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
