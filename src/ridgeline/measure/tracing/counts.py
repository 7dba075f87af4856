"""How many traces of windows were exported, and how many were not."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class TraceCounts:
    """Traces since the start: `exported` ones, and those `dropped` since no collector took them.

    `spans_refused`: spans that a collector has refused of traces that it took.
    """

    exported: int = 0
    dropped: int = 0
    spans_refused: int = 0
