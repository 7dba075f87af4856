"""Results of output operators that readers may see, and since when."""

from __future__ import annotations

from ridgeline.measure.answers.outputs import OutputAnswer
from ridgeline.measure.events import OutputAsked, OutputPublished


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
