"""Marks on charts: failures, lost slots, changes, decisions, promises broken and kept."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from ridgeline.measure.answers.changes import MarkAnswer
from ridgeline.measure.events import RunEvent
from ridgeline.measure.notices import Notices

_KEPT = 1_000
_LONGEST = 2_000


class MarkFold:
    """A fold over events that are rare; `Measurement` feeds it. One thread at a time. Memory is bounded."""

    def __init__(self, title_of: Callable[[int], str]) -> None:
        """`title_of`: the title of a physical operator, by its id."""
        self._title_of = title_of
        self._notices = Notices()
        self._rows: deque[MarkAnswer] = deque(maxlen=_KEPT)

    def rows(self, limit: int | None = None) -> list[MarkAnswer]:
        """The last marks, the newest last."""
        rows = list(self._rows)
        return rows if limit is None else rows[max(0, len(rows) - limit) :]

    def add(self, event: RunEvent) -> None:
        """Keep the marks of an event; long texts are cut."""
        for one in self._notices.of(event):
            if not one.mark:
                continue
            text, operator = one.text, one.operator
            if isinstance(operator, int):
                operator = self._title_of(operator)
                text = f"{operator}: {text}"
            mark: MarkAnswer = {
                "at": event.at,
                "kind": one.kind,
                "level": one.mark,
                "text": text if len(text) <= _LONGEST else f"{text[: _LONGEST - 3]}...",
                "windowId": one.window,
                "operator": operator,
                "number": one.number,
            }
            self._rows.append(mark)
