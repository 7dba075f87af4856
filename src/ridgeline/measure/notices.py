"""What people read of events that are rare, once for the marks on charts and for the lines of the log."""

from __future__ import annotations

import logging
from typing import NamedTuple

from ridgeline.measure.events import ApplicationEnded, RunEvent, WindowRetried
from ridgeline.measure.slot_events import (
    SlotLost,
    SlotMisplaced,
    SlotSilent,
    SlotSpeculated,
    SlotsReduced,
    SlotsSized,
    StoreSilent,
)


class Notice(NamedTuple):
    """`kind`: of the mark; `mark`: `bad`, `good` or `note`, empty for none; `level`: of the line."""

    kind: str
    mark: str
    level: int
    text: str
    window: int | None = None


NOTICED = (
    WindowRetried,
    ApplicationEnded,
    SlotLost,
    SlotSilent,
    StoreSilent,
    SlotsReduced,
    SlotSpeculated,
    SlotMisplaced,
    SlotsSized,
)
"""The events of which there are notices."""


def notice_of(event: RunEvent) -> Notice | None:
    """The notice of an event; None if there is nothing to say."""
    found: Notice | None = None
    match event:
        case WindowRetried(final=False):
            text = f"window {event.window_id} runs again (attempt {event.attempt + 1}): {event.reason}"
            found = Notice("failure", "bad", logging.WARNING, text, event.window_id)
        case ApplicationEnded():
            failed = event.outcome == "failed"
            text = f"run {event.outcome}: {event.reason}" if event.reason else f"run {event.outcome}"
            found = Notice(
                "end", "bad" if failed else "note", logging.ERROR if failed else logging.INFO, text
            )
        case SlotLost():
            where = f"process {event.pid} on `{event.host}`"
            text = f"slot {event.slot} is lost: {where}: {event.reason}"
            found = Notice("slot", "bad", logging.WARNING, text)
        case SlotSilent() | StoreSilent():
            kind = "slot" if isinstance(event, SlotSilent) else "store"
            found = Notice(kind, "good" if event.again else "bad", logging.WARNING, event.text)
        case SlotsReduced():
            found = Notice("slot", "note", logging.WARNING, event.text)
        case SlotSpeculated():
            found = Notice("slot", "note", logging.WARNING, event.text, event.window_id)
        case SlotMisplaced():
            found = Notice("slot", "note", logging.WARNING if event.host else logging.INFO, event.text)
        case SlotsSized(before=0):
            found = Notice("slot", "", logging.INFO, event.text)
        case SlotsSized():
            found = Notice("slot", "note", logging.WARNING, event.text)
    return found
