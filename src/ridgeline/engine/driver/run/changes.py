"""The changes that are asked of a running application, until they take effect between two windows."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from ridgeline.measure.events import ApplicationChanged
from ridgeline.plan.change.edit_texts import IsSecret, edits_text, shown_edit
from ridgeline.stram.changes import Change, EditPlan, Kill, Shutdown, What

QUEUED, APPLIED, REFUSED, WITHDRAWN = "QUEUED", "APPLIED", "REFUSED", "WITHDRAWN"
ENDED = "the application has ended"
"""Why a change that waits is refused at the end."""
_MOST_QUEUED = 1_000
_MOST_KEPT = 1_000
_LONGEST_NAME = 200


@dataclass(eq=False, slots=True)
class Asked:
    """A change and what has become of it.

    `at`: when it was asked for (wall clock). `window`: the first one in which it has effect; of one that is
    queued, the one that it waits for. `due`: it is about to be
    applied, so it cannot be withdrawn. `is_secret`: which values of properties are not shown.
    """

    change: Change
    at: float = 0.0
    state: str = QUEUED
    window: int | None = None
    reason: str = ""
    due: bool = False
    done: threading.Event = field(default_factory=threading.Event)
    is_secret: IsSecret | None = None

    @property
    def text(self) -> str:
        """The change in one line, without secrets."""
        what = self.change.what
        if not isinstance(what, EditPlan):
            return str(what)
        return what.note if what.result else edits_text(what.edits, self.is_secret)

    def row(self) -> dict[str, Any]:
        """It as it is shown."""
        return {
            "id": self.change.number,
            "what": self.text,
            "state": self.state,
            "window": self.window,
            "who": self.change.by,
            "note": getattr(self.change.what, "note", ""),
            "result": getattr(self.change.what, "result", ""),
            "reason": self.reason,
            "at": self.at,
        }


class Changes:
    """A queue that any thread may put changes into, and the run takes them from."""

    def __init__(self, now: Callable[[], float] = lambda: 0.0, first_id: int = 0) -> None:
        """`now`: the wall clock, for when changes were asked for. `first_id`: their numbers are greater."""
        self.withdrawn: Callable[[Asked], None] = lambda _asked: None
        """Called with a change that is taken back, in the thread of who does that."""
        self.is_secret: IsSecret = lambda _property, _value: False
        """Whether a property's value is a secret, in the plan that runs."""
        self._now = now
        self._lock = threading.Lock()
        self._queued: deque[Asked] = deque()
        self._all: deque[Asked] = deque(maxlen=_MOST_KEPT)
        self._count = first_id
        self._closed = ""

    def ask(self, what: What, by: str) -> Asked:
        """Ask for a change; `done` is set once it is applied or refused."""
        with self._lock:
            self._count += 1
            change = Change(self._count, by[:_LONGEST_NAME], what)
            asked = Asked(change, self._now(), is_secret=self.is_secret)
            self._all.append(asked)
            if not self._closed and len(self._queued) < _MOST_QUEUED:
                self._queued.append(asked)
                return asked
            reason = self._closed or f"{_MOST_QUEUED:,} changes wait already; ask again later"
        _settle(asked, REFUSED, reason=reason)
        return asked

    def take(self) -> list[Asked]:
        """The changes requested since the last call. Costs nothing if that is nothing."""
        if not self._queued:
            return []
        with self._lock:
            taken, self._queued = list(self._queued), deque()
        return taken

    @property
    def end_asked(self) -> bool:
        """Whether the end of the application was asked for, taken or not. Any thread may ask."""
        return any(
            isinstance(one.change.what, Shutdown | Kill) and one.state != WITHDRAWN for one in self.all()
        )

    def find(self, number: int) -> Asked:
        """A change by its number. Raises KeyError if it is not among the last ones."""
        with self._lock:
            for asked in self._all:
                if asked.change.number == number:
                    return asked
        raise KeyError(number)

    def withdraw(self, number: int) -> Asked:
        """Take back a change that waits; one that does not wait any more is as it was.

        Raises KeyError if it is not among the last ones.
        """
        asked = self.find(number)
        with self._lock:
            taken_back = asked.state == QUEUED and not asked.due
            if taken_back:
                if asked in self._queued:
                    self._queued.remove(asked)
                _settle(asked, WITHDRAWN)
        if taken_back:
            self.withdrawn(asked)
        return asked

    def claim(self, asked: Asked) -> bool:
        """Refuse to withdraw a change from now on; False if it was withdrawn."""
        with self._lock:
            asked.due = asked.due or asked.state == QUEUED
            return asked.due

    @property
    def closed(self) -> bool:
        """True once no window begins any more."""
        return bool(self._closed)

    def close(self) -> None:
        """No window begins any more: refuse what waits, and what is still asked for."""
        with self._lock:
            self._closed = ENDED
        for asked in self.take():
            _settle(asked, REFUSED, reason=self._closed)

    def all(self) -> list[Asked]:
        """The last changes, the newest last."""
        with self._lock:
            return list(self._all)

    def rows(self) -> list[dict[str, Any]]:
        """The last changes as they are shown, the newest last."""
        return [asked.row() for asked in self.all()]


def _settle(asked: Asked, state: str, window: int | None = None, reason: str = "") -> None:
    asked.state, asked.window, asked.reason = state, window, reason
    asked.done.set()


def applied(asked: Asked, window: int) -> None:
    """The change has effect from this window on."""
    _settle(asked, APPLIED, window)


def refused(asked: Asked, reason: str) -> None:
    """The change is not made."""
    _settle(asked, REFUSED, reason=reason)


def changed_event(
    asked: Asked, at: float, plan_version: int, held_seconds: float = 0.0
) -> ApplicationChanged:
    """The event that reports a change. `held_seconds`: so long no window could run for it."""
    change = asked.change
    edits = change.what.edits if isinstance(change.what, EditPlan) else ()
    return ApplicationChanged(
        at,
        change.number,
        change.by,
        getattr(change.what, "note", ""),
        asked.text,
        asked.state,
        asked.window,
        asked.reason,
        plan_version,
        tuple(shown_edit(edit, asked.is_secret) for edit in edits),
        held_seconds,
    )
