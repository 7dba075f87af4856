"""The changes of a running application: the requests, and what became of them."""

from __future__ import annotations

from collections import Counter
from typing import Any, Generic, TypeVar, cast

from ridgeline.api.policy import side
from ridgeline.measure.answers.changes import ChangeFiguresAnswer, DecisionAnswer, PromiseAnswer
from ridgeline.measure.events import ApplicationChanged, PolicyDecided, PromiseChanged
from ridgeline.measure.metric import CHANGE_STATES
from ridgeline.measure.wording.units import amount

_KEPT = 1_000


def row_of(event: ApplicationChanged, before: ChangeFiguresAnswer | None = None) -> ChangeFiguresAnswer:
    """An event as it is shown; `before`: the lines that were shown of the change so far."""
    of_plan = event.state == "APPLIED" and bool(event.edits)
    return {
        "id": event.number,
        "who": event.by,
        "note": event.note,
        "what": event.what,
        "edits": [dict(edit) for edit in event.edits],
        "state": event.state,
        "window": event.window_id,
        "reason": event.reason,
        "planVersion": event.plan_version if of_plan else None,
        "heldSeconds": event.held_seconds,
        "at": event.at if before is None else before["at"],
        "since": event.at,
    }


def text_of(change: ChangeFiguresAnswer) -> str:
    """A change in a line, for people."""
    head = f"change {change['id']}"
    why = f" ({change['note']})" if change["note"] else ""
    asked = f"{change['what']}, asked for by {change['who']}{why}"
    reason = f": {change['reason']}" if change["reason"] else ""
    match change["state"]:
        case "APPLIED" if change["planVersion"] is not None:
            held = f"{1000 * change['heldSeconds']:,.0f} ms after the window before it"
            effect = (
                f"has effect from window {change['window']} on, with plan {change['planVersion']}; {held}"
            )
        case "APPLIED":
            effect = f"has effect from window {change['window']} on"
        case "QUEUED":
            effect = f"waits{reason}"
        case state:
            effect = f"is {state.lower()}{reason}"
    return " ".join(f"{head} {effect}: {asked}".split())


_Row = TypeVar("_Row", ChangeFiguresAnswer, DecisionAnswer)


class _Rows(Generic[_Row]):
    """The last rows by their numbers. Memory is bounded. One thread at a time."""

    def __init__(self) -> None:
        self._rows: dict[int, _Row] = {}

    def _put(self, number: int, row: _Row) -> None:
        """Something happened to it: it is the newest one."""
        self._rows.pop(number, None)
        self._rows[number] = row
        while len(self._rows) > _KEPT:
            del self._rows[next(iter(self._rows))]

    def rows(self, limit: int | None = None) -> list[_Row]:
        """The last ones that something happened to, by their numbers."""
        rows = [row for _, row in sorted(self._rows.items())]
        return rows if limit is None else rows[max(0, len(rows) - limit) :]

    @property
    def newest(self) -> _Row | None:
        """The one to which something happened last."""
        return next(reversed(self._rows.values()), None)


class ChangeFold(_Rows[ChangeFiguresAnswer]):
    """A fold over `ApplicationChanged`; `Measurement` feeds it."""

    def __init__(self) -> None:
        super().__init__()
        self.counts: Counter[str] = Counter(dict.fromkeys(CHANGE_STATES, 0))
        """By state, how many changes have come into it."""
        self.paused_at: float | None = None
        """Since when no window begins, on request; None: the application is not paused."""
        self.held_seconds: float | None = None
        """From the last window before the last change of the plan to the first one with it."""

    def add(self, event: ApplicationChanged) -> None:
        """A change is requested, or has come to its end."""
        before = self._rows.get(event.number)
        if before is None or before["state"] != event.state:
            self.counts[event.state] += 1
        row = row_of(event, before)
        self._put(event.number, row)
        if event.state == "APPLIED" and event.what in {"pause", "resume"}:
            self.paused_at = event.at if event.what == "pause" else None
        if row["planVersion"] is not None:
            self.held_seconds = event.held_seconds


def promise_text(event: PromiseChanged) -> str:
    """The state of a promise, in a line for people.

    >>> promise_text(PromiseChanged(0.0, "latency_p99:store", "latency", "store", False, 3.0, 2.0, "s"))
    'promise `latency_p99:store` is broken: 3.00 s, promised is at most 2.00 s'
    """
    verdict = {True: "is kept", False: "is broken", None: "cannot be judged"}[event.kept]
    found = "" if event.figure is None else f"{amount(event.figure, event.unit)}, "
    if event.figure is None and event.kept is False and event.kind == "caught_up_within":
        found = "never at this rate, "
    limit = amount(event.limit, event.unit)
    return f"promise `{event.promise}` {verdict}: {found}promised is {side(event.kind)} {limit}"


_OF_PROMISES = ("promise", "kind", "operator", "kept", "figure", "limit", "unit")


class PromiseFold:
    """A fold over `PromiseChanged`; `Measurement` feeds it. One thread at a time."""

    def __init__(self) -> None:
        self._rows: dict[str, PromiseAnswer] = {}
        self._failed: dict[str, str] = {}
        """Why policies and listeners decide nothing: what is broken stays so."""
        self.ended: float | None = None
        """When the run was over: nothing is broken for longer from then on."""

    def add(self, event: PromiseChanged) -> None:
        """A promise begins, its verdict is another one from now on."""
        before = self._rows.get(event.promise)
        since, broken, times = event.at, 0.0, int(event.kept is False)
        if before is not None and before["kept"] is event.kept:
            since, broken, times = before["since"], before["brokenSeconds"], before["timesBroken"]
        elif before is not None:
            broken, times = self._broken(before, event.at), times + before["timesBroken"]
        row: Any = {name: getattr(event, name) for name in _OF_PROMISES}
        row |= {"since": since, "brokenSeconds": broken, "timesBroken": times, "reason": ""}
        self._rows[event.promise] = cast("PromiseAnswer", row)

    def decided(self, event: PolicyDecided) -> None:
        """A policy or listener has failed, or has decided again since."""
        self._failed.pop(event.by, None)
        if event.state == "FAILED":
            self._failed[event.by] = f"{event.by} has failed: {event.note}"

    def rows(self, now: float) -> list[PromiseAnswer]:
        """All promises, in the order in which they were made."""
        now = now if self.ended is None else min(now, self.ended)
        reason = "; ".join(self._failed.values())
        return [
            {
                **row,
                "brokenSeconds": self._broken(row, now),
                "reason": reason if row["kept"] is False else "",
            }
            for row in self._rows.values()
        ]

    def _broken(self, row: PromiseAnswer, now: float) -> float:
        """How long it was broken up to now; a clock that is set back takes nothing away."""
        return row["brokenSeconds"] + (max(0.0, now - row["since"]) if row["kept"] is False else 0.0)


_DECIDED = {
    "REFUSED": "{what} was refused: {found}",
    "FAILED": "{what}, and decides nothing: {note}",
    "APPLIED": "{what} has effect",
    "HELPED": "{what} helped: {found}",
}
"""What has become of a decision, by its state."""
_OF_DECISIONS = ("by", "state", "note", "what", "expected", "found", "change", "undoes")


def decision_row(event: PolicyDecided, before: DecisionAnswer | None = None) -> DecisionAnswer:
    """An event as it is shown; `before`: the lines that were shown of the decision so far."""
    row: Any = {name: getattr(event, name) for name in _OF_DECISIONS}
    row |= {"id": event.number, "at": event.at if before is None else before["at"], "since": event.at}
    return cast("DecisionAnswer", row)


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
    if row["state"] != "ASKED":
        template = _DECIDED.get(row["state"], "{what} did not bring what was expected: {found}")
        return " ".join(f"{head}{template.format(**row)}".split())
    undone = f"decision {row['undoes']} is taken back: " if row["undoes"] is not None else ""
    note = f". {row['note']}" if row["note"] else ""
    expected = f"; expected: {row['expected']}" if row["expected"] else ""
    return " ".join(f"{head}{undone}{row['what']}{note}{expected}".split())


class DecisionFold(_Rows[DecisionAnswer]):
    """A fold over `PolicyDecided`; `Measurement` feeds it."""

    def add(self, event: PolicyDecided) -> None:
        """A decision was made, or something has become of it."""
        self._put(event.number, decision_row(event, self._rows.get(event.number)))
