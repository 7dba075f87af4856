"""The changes of a running application: what was asked for, and what has become of it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from ridgeline.measure.answers.changes import ChangeFiguresAnswer
from ridgeline.measure.events import ApplicationChanged
from ridgeline.measure.registry.labels import CHANGE_STATES

_KEPT = 1_000


class ChangeFold:
    """A fold over `ApplicationChanged`; `Measurement` feeds it. One thread at a time. Memory is bounded."""

    def __init__(self) -> None:
        self._rows: dict[int, ChangeFiguresAnswer] = {}
        self._counts: Counter[str] = Counter(dict.fromkeys(CHANGE_STATES, 0))
        self.held_seconds: float | None = None
        """How long no window could run for the last change of the plan; None: there was none."""

    @property
    def counts(self) -> Mapping[str, int]:
        """By state, how many changes have come into it."""
        return dict(self._counts)

    def add(self, event: ApplicationChanged) -> None:
        """Somebody has asked for a change, or it has come to its end."""
        before = self._rows.pop(event.number, None)
        if before is None or before["state"] != event.state:
            self._counts[event.state] += 1
        applied = event.state == "APPLIED"
        if applied and event.edits:
            self.held_seconds = event.held_seconds
        self._rows[event.number] = {
            "number": event.number,
            "by": event.by,
            "note": event.note,
            "what": event.what,
            "edits": [dict(edit) for edit in event.edits],
            "state": event.state,
            "window": event.window_id,
            "reason": event.reason,
            "planVersion": event.plan_version if applied and event.edits else None,
            "heldSeconds": event.held_seconds,
            "askedAt": event.at if before is None else before["askedAt"],
            "at": event.at,
        }
        while len(self._rows) > _KEPT:
            del self._rows[next(iter(self._rows))]

    def rows(self, limit: int | None = None) -> list[ChangeFiguresAnswer]:
        """The last changes that something happened to, by their numbers."""
        rows = sorted(self._rows.values(), key=lambda row: row["number"])
        return rows if limit is None else rows[max(0, len(rows) - limit) :]

    @property
    def newest(self) -> ChangeFiguresAnswer | None:
        """The change to which something happened last."""
        return next(reversed(self._rows.values()), None)
