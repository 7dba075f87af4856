"""Marks on charts: failures, lost slots, changes, decisions, promises broken and kept."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from typing import Any

from ridgeline.measure.answers.changes import MarkAnswer
from ridgeline.measure.changes import decision_row, decision_text, promise_text, row_of, text_of
from ridgeline.measure.events import (
    ApplicationChanged,
    OperatorWindow,
    OutputAsked,
    PolicyDecided,
    PromiseChanged,
    RunEvent,
    SourceAsked,
)
from ridgeline.measure.notices import NOTICED, notice_of

_KEPT = 1_000
_LONGEST = 2_000
_LEVELS = {"FAILED": "bad", "REFUSED": "bad", "MISSED": "bad", "HELPED": "good"}


class MarkFold:
    """A fold over events that are rare; `Measurement` feeds it. One thread at a time. Memory is bounded."""

    def __init__(self, title_of: Callable[[int], str]) -> None:
        """`title_of`: the title of a physical operator, by its id."""
        self._title_of = title_of
        self._rows: deque[MarkAnswer] = deque(maxlen=_KEPT)
        self._problems: dict[int | str, str] = {}
        self._promises: dict[str, bool | None] = {}
        self.handlers: Mapping[type, Callable[[Any], None]] = {
            **dict.fromkeys(NOTICED, self._notice),
            SourceAsked: self._source,
            OutputAsked: self._output,
            PromiseChanged: self._promise,
            ApplicationChanged: self._change,
            PolicyDecided: self._decision,
        }
        """By type of event, the function that makes a mark of it."""

    def rows(self, limit: int | None = None) -> list[MarkAnswer]:
        """The last marks, the newest last."""
        rows = list(self._rows)
        return rows if limit is None else rows[max(0, len(rows) - limit) :]

    def _add(
        self,
        at: float,
        kind: str,
        level: str,
        text: str,
        *,
        window: int | None = None,
        operator: str = "",
        number: int | None = None,
    ) -> None:
        """Keep a mark; long texts are cut."""
        mark: MarkAnswer = {
            "at": at,
            "kind": kind,
            "level": level,
            "text": text if len(text) <= _LONGEST else f"{text[: _LONGEST - 3]}...",
            "windowId": window,
            "operator": operator,
            "number": number,
        }
        self._rows.append(mark)

    def _notice(self, event: RunEvent) -> None:
        found = notice_of(event)
        if found is not None and found.mark:
            self._add(event.at, found.kind, found.mark, found.text, window=found.window)

    def dropped(self, event: OperatorWindow) -> None:
        """A partition has lost a window, as its processing mode allows."""
        title = self._title_of(event.operator)
        text = f"{title} has dropped window {event.window_id}: {event.dropped}"
        self._add(event.at, "failure", "bad", text, window=event.window_id, operator=title)

    def _source(self, event: SourceAsked) -> None:
        text = f"the source does not answer: {event.problem}" if event.problem else "the source answers again"
        self._asked(event.at, "source", event.operator, event.problem, text)

    def _output(self, event: OutputAsked) -> None:
        text = (
            f"committed results do not get through: {event.problem}"
            if event.problem
            else "committed results get through again"
        )
        self._asked(event.at, "output", event.operator, event.problem, text)

    def _asked(self, at: float, kind: str, operator: int | str, problem: str, text: str) -> None:
        """A source or an output answers; a mark where it did not before, or did."""
        before = self._problems.get(operator, "")
        self._problems[operator] = problem
        if bool(before) != bool(problem):
            title = operator if isinstance(operator, str) else self._title_of(operator)
            self._add(at, kind, "bad" if problem else "good", f"{title}: {text}", operator=title)

    def _promise(self, event: PromiseChanged) -> None:
        """A promise is broken, or kept again; that it is kept from the start on is no news."""
        before, self._promises[event.promise] = self._promises.get(event.promise), event.kept
        if event.kept is not before and (event.kept is False or (event.kept and before is False)):
            level = "good" if event.kept else "bad"
            self._add(event.at, "promise", level, promise_text(event), operator=event.operator)

    def _change(self, event: ApplicationChanged) -> None:
        if event.state != "QUEUED":
            level = _LEVELS.get(event.state, "note")
            text = text_of(row_of(event))
            self._add(event.at, "change", level, text, window=event.window_id, number=event.number)

    def _decision(self, event: PolicyDecided) -> None:
        level = _LEVELS.get(event.state, "note")
        self._add(event.at, "decision", level, decision_text(decision_row(event)), number=event.number)
