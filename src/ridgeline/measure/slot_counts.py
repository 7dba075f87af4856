"""How often slots were lost and replaced, became fewer, or are on another host than was asked for."""

from __future__ import annotations

from dataclasses import dataclass

from ridgeline.measure.slot_events import SlotJoined, SlotLost, SlotMisplaced, SlotSpeculated, SlotsReduced


@dataclass(slots=True)
class SlotCounts:
    """What has happened to the slots of a run.

    `restarted`: another process has taken the place of one that was lost. `reduced`: Spark had too few cores,
    and the containers moved to fewer slots. `misplaced`: a slot stays where its streams' locality does not
    want it. `speculated`: the spare slot ran what a late one was late with.
    """

    lost: int = 0
    restarted: int = 0
    reduced: int = 0
    misplaced: int = 0
    speculated: int = 0

    def add(self, event: SlotJoined | SlotLost | SlotsReduced | SlotMisplaced | SlotSpeculated) -> None:
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
