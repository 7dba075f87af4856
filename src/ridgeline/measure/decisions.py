"""The decisions of policies and listeners, and their outcomes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from ridgeline.measure.answers.changes import DecisionAnswer
from ridgeline.measure.events import PolicyDecided

_KEPT = 1_000


def decision_row(event: PolicyDecided, before: DecisionAnswer | None = None) -> DecisionAnswer:
    """An event as it is shown; `before`: the lines that were shown of the decision so far."""
    return {
        "id": event.number,
        "by": event.by,
        "state": event.state,
        "note": event.note,
        "what": event.what,
        "expected": event.expected,
        "found": event.found,
        "change": event.change,
        "undoes": event.undoes,
        "at": event.at if before is None else before["at"],
        "since": event.at,
    }


def decision_text(row: DecisionAnswer) -> str:
    """A decision in a line, for people.

    >>> decision_text(
    ...     decision_row(
    ...         PolicyDecided(
    ...             0.0, 3, "policy CriticalPathPolicy", "ASKED", "p99 1.2 s", "repartition `parse` to 3"
    ...         )
    ...     )
    ... )
    'decision 3, policy CriticalPathPolicy: repartition `parse` to 3. p99 1.2 s'
    """
    head = f"decision {row['id']}, {row['by']}: "
    undone = f"decision {row['undoes']} is taken back: " if row["undoes"] is not None else ""
    note = f". {row['note']}" if row["note"] else ""
    match row["state"]:
        case "ASKED":
            expected = f"; expected: {row['expected']}" if row["expected"] else ""
            text = f"{undone}{row['what']}{note}{expected}"
        case "REFUSED":
            text = f"{row['what']} was refused: {row['found']}"
        case "APPLIED":
            text = f"{row['what']} has effect"
        case "HELPED":
            text = f"{row['what']} helped: {row['found']}"
        case _:
            text = f"{row['what']} did not bring what was expected: {row['found']}"
    return " ".join(f"{head}{text}".split())


class DecisionFold:
    """A fold over `PolicyDecided`; `Measurement` feeds it. One thread at a time. Memory is bounded."""

    def __init__(self) -> None:
        self._rows: dict[int, DecisionAnswer] = {}
        self._counts: Counter[tuple[str, str]] = Counter()

    @property
    def counts(self) -> Mapping[tuple[str, str], int]:
        """How many decisions of each decider have come into each state."""
        return dict(self._counts)

    def add(self, event: PolicyDecided) -> None:
        """A decision was made, or something has become of it."""
        before = self._rows.pop(event.number, None)
        self._counts[event.by, event.state] += 1
        self._rows[event.number] = decision_row(event, before)
        while len(self._rows) > _KEPT:
            del self._rows[next(iter(self._rows))]

    def rows(self, limit: int | None = None) -> list[DecisionAnswer]:
        """The last decisions, by their numbers."""
        rows = sorted(self._rows.values(), key=lambda row: row["id"])
        return rows if limit is None else rows[max(0, len(rows) - limit) :]
