"""The promises of a running application: kept or broken, since when, and for how long in sum."""

from __future__ import annotations

from ridgeline.measure.answers.promises import PromiseAnswer
from ridgeline.measure.events import PromiseChanged
from ridgeline.measure.wording.units import amount


def promise_text(event: PromiseChanged) -> str:
    """The state of a promise, in a line for people.

    >>> promise_text(PromiseChanged(0.0, "latency_p99:store", "latency", "store", False, 3.0, 2.0, "s"))
    'promise `latency_p99:store` is broken: 3.00 s, promised is at most 2.00 s'
    """
    verdict = {True: "is kept", False: "is broken", None: "cannot be judged"}[event.kept]
    side = "least" if event.kind == "throughput" else "most"
    found = "" if event.figure is None else f"{amount(event.figure, event.unit)}, "
    if event.figure is None and event.kept is False and event.kind == "caught_up_within":
        found = "no end in sight, "
    limit = amount(event.limit, event.unit)
    return f"promise `{event.promise}` {verdict}: {found}promised is at {side} {limit}"


class PromiseFold:
    """A fold over `PromiseChanged`; `Measurement` feeds it. One thread at a time."""

    def __init__(self) -> None:
        self._rows: dict[str, PromiseAnswer] = {}
        self.ended: float | None = None
        """When the run was over: nothing is broken for longer from then on."""

    def add(self, event: PromiseChanged) -> None:
        """A promise begins, or its verdict is another one from now on."""
        before = self._rows.get(event.promise)
        broken = 0.0 if before is None else self._broken(before, event.at)
        times = 0 if before is None else before["timesBroken"]
        self._rows[event.promise] = {
            "promise": event.promise,
            "kind": event.kind,
            "operator": event.operator,
            "kept": event.kept,
            "since": event.at,
            "figure": event.figure,
            "limit": event.limit,
            "unit": event.unit,
            "brokenSeconds": broken,
            "timesBroken": times + (event.kept is False),
        }

    def rows(self, now: float) -> list[PromiseAnswer]:
        """All promises, in the order in which they were made."""
        now = now if self.ended is None else min(now, self.ended)
        return [{**row, "brokenSeconds": self._broken(row, now)} for row in self._rows.values()]

    def _broken(self, row: PromiseAnswer, now: float) -> float:
        """How long it was broken up to now; a clock that is set back takes nothing away."""
        return row["brokenSeconds"] + (max(0.0, now - row["since"]) if row["kept"] is False else 0.0)
