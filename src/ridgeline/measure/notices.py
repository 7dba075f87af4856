"""What people read of events, once for the marks on charts, the lines of the log and the console."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from ridgeline.measure.changes import decision_row, decision_text, promise_text, row_of, text_of
from ridgeline.measure.events import (
    ApplicationChanged,
    ApplicationEnded,
    ApplicationPlanned,
    MessagesRefused,
    OperatorMetrics,
    OutputAsked,
    PolicyDecided,
    PromiseChanged,
    RunEvent,
    SourceAsked,
    StateCompacted,
    StateWarning,
    WindowCommitted,
    WindowReported,
    WindowRetried,
)
from ridgeline.measure.slot_events import SlotEvent, SlotKind, StoreSilent
from ridgeline.measure.wording.units import plural

_DEBUG, _INFO, _WARNING, _ERROR = logging.DEBUG, logging.INFO, logging.WARNING, logging.ERROR
_BAD = frozenset({"FAILED", "REFUSED", "MISSED"})
"""States of changes and decisions that are marked so."""


_OF_SLOTS: Mapping[SlotKind, tuple[str, int, bool]] = {
    "joined": ("", _INFO, False),
    "restarted": ("", _INFO, False),
    "lost": ("bad", _WARNING, False),
    "silent": ("bad", _WARNING, True),
    "answers": ("good", _WARNING, True),
    "speculated": ("note", _WARNING, False),
    "reduced": ("note", _WARNING, True),
    "moved": ("note", _INFO, False),
    "misplaced": ("note", _WARNING, True),
    "sized": ("", _INFO, False),
    "spread": ("note", _WARNING, True),
}
"""Mark, level and whether the console tells of it, as in `Notice`."""


class Notice(NamedTuple):
    """What people read of an event.

    `kind`: of the mark. `mark`: `bad`, `good` or `note`; empty: no mark. `level`: of the line; 0: no line.
    `window`, `operator`, `number`: what it is about, of a physical operator its id. `more`: what a line says
    after the text. `told`: the console says it, too.
    """

    kind: str
    mark: str
    level: int
    text: str
    window: int | None = None
    operator: int | str = ""
    number: int | None = None
    more: str = ""
    told: bool = False


TOLD = frozenset({StateWarning, StoreSilent, SlotEvent})
"""The events that the console may tell of."""
_OF_WINDOWS: frozenset[type[RunEvent]] = frozenset({WindowCommitted, WindowReported, OperatorMetrics})
"""These come with each window: what operators have dropped in it is the only mark that they may be."""
MARKED = TOLD | {
    ApplicationPlanned,
    ApplicationEnded,
    ApplicationChanged,
    PolicyDecided,
    PromiseChanged,
    MessagesRefused,
    WindowRetried,
    SourceAsked,
    OutputAsked,
    StateCompacted,
}
"""The other events of which there may be notices, and marks."""
NOTICED = MARKED | _OF_WINDOWS
"""The events of which there may be notices."""


class Notices:
    """Makes notices of the events of a run, in their order: what goes on is said once. One thread."""

    def __init__(self) -> None:
        self._planned = False
        self._last: dict[tuple[str, object], object] = {}
        """What was said last: of problems, faults of metrics, and promises."""

    def _changes(self, kind: str, of: object, now: object) -> tuple[object, bool]:
        """What was said before, and whether it is something else now."""
        before = self._last.get((kind, of))
        self._last[kind, of] = now
        return before, now != before

    def of(self, event: RunEvent) -> Iterator[Notice]:
        """The notices of an event: most often one, or none."""
        match event:
            case WindowReported():
                yield from _of_operators(event)
            case WindowCommitted(window_id=window):
                if event.tasks_retried:
                    what = f"Spark repeated {event.tasks_retried} tasks in window {window}"
                    yield Notice("window", "", _WARNING, f"{what}: their processes were lost", window)
                took = f"window {window} committed in {event.published - event.began:.3f} s"
                yield Notice("window", "", _DEBUG, took, window)
            case OperatorMetrics():
                for name, fault in event.faults.items():
                    metric = f"{event.operator}.{name}"
                    if self._changes("metric", metric, fault)[1]:
                        text = f"metric `{metric}` has no value for window {event.window_id}: {fault}"
                        yield Notice("metric", "", _WARNING, text, event.window_id)
            case SourceAsked() | OutputAsked():
                yield from self._asked(event)
            case PromiseChanged():
                yield from self._promise(event)
            case ApplicationPlanned():
                plan = f"{len(event.topology.operators)} operators, plan {event.plan_version}"
                begins, self._planned = not self._planned, True
                what = f"run {event.application_id} begins" if begins else "the plan has changed"
                yield Notice("plan", "", _INFO, f"{what}: {plan}")
            case _:
                yield from notices_of(event)

    def _asked(self, event: SourceAsked | OutputAsked) -> Iterator[Notice]:
        """A source or an output does not answer, or does again; of outputs there is a mark and no line."""
        operator, problem = event.operator, event.problem
        before, new = self._changes(type(event).__name__, operator, problem)
        mark = "" if bool(before) == bool(problem) else "bad" if problem else "good"
        if isinstance(event, OutputAsked):
            how = f"do not get through: {problem}" if problem else "get through again"
            yield Notice("output", mark, 0, f"{operator}: committed results {how}", operator=operator)
        elif new and (before or problem):
            text = f"the source does not answer: {problem}" if problem else "the source answers again"
            yield Notice("source", mark, _WARNING if problem else _INFO, text, operator=operator)

    def _promise(self, event: PromiseChanged) -> Iterator[Notice]:
        """A promise is broken, or kept; that it is kept from the start on is no news for a chart."""
        before, new = self._changes("promise", event.promise, event.kept)
        if new and event.kept is not None:
            mark = "bad" if not event.kept else "good" if before is False else ""
            level = _INFO if event.kept else _WARNING
            yield Notice("promise", mark, level, promise_text(event), operator=event.operator)


def _of_operators(event: WindowReported) -> Iterator[Notice]:
    """Partitions have lost a window, as their processing mode allows, or left out tuples."""
    window = event.window_id
    for operator, why in event.dropped.items():
        yield Notice("failure", "bad", _WARNING, f"window {window} dropped: {why}", window, operator)
    wrong = event.operators[event.operators["errors"] > 0]
    for operator, errors in zip(wrong["operator"].tolist(), wrong["errors"].tolist(), strict=True):
        first = "".join(f"; {text}" for text in event.error_tuples.get(operator, ())[:1])
        text = f"{plural(errors, 'tuple')} skipped or rejected in window {window}{first}"
        yield Notice("errors", "", _WARNING, text, window, operator)


def notices_of(event: RunEvent) -> Iterator[Notice]:
    """The notice of an event that says all by itself; none of others."""
    match event:
        case WindowRetried(final=False):
            text = f"window {event.window_id} runs again (attempt {event.attempt + 1}): {event.reason}"
            yield Notice("failure", "bad", _WARNING, text, event.window_id)
        case ApplicationEnded():
            text = f"run {event.outcome}: {event.reason}" if event.reason else f"run {event.outcome}"
            failed = event.outcome == "failed"
            yield Notice("end", "bad" if failed else "note", _ERROR if failed else _INFO, text)
        case ApplicationChanged(state=state):
            mark = "" if state == "QUEUED" else "bad" if state in _BAD else "note"
            level = _WARNING if state in _BAD else _INFO
            yield Notice("change", mark, level, text_of(row_of(event)), event.window_id, number=event.number)
        case PolicyDecided(state=state):
            mark = "bad" if state in _BAD else "good" if state == "HELPED" else "note"
            more = f"\n{event.found.rstrip()}" if state == "FAILED" else ""
            text = decision_text(decision_row(event))
            level = _WARNING if state in _BAD else _INFO
            yield Notice("decision", mark, level, text, number=event.number, more=more)
        case MessagesRefused():
            last = f"; last from `{event.peer}`" if event.peer else ""
            text = f"{event.count} messages to the driver were refused: {event.reason}{last}"
            yield Notice("refused", "", _WARNING, text)
        case StateCompacted():
            text = f"state compacted: {event.files} files into {event.size_bytes} bytes"
            yield Notice("state", "", _INFO, text, operator=event.operator)
        case StateWarning():
            yield Notice("state", "", _WARNING, event.text, operator=event.operator, told=True)
        case StoreSilent():
            yield Notice("store", "good" if event.again else "bad", _WARNING, event.text, told=True)
        case SlotEvent():
            mark, level, told = _OF_SLOTS[event.kind]
            yield Notice("slot", mark, level, event.text, event.window_id, told=told)
        case _:
            pass
