"""The last events that STRAM received and the instructions that it answered with, for post-mortems."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence, Sized
from dataclasses import is_dataclass
from typing import Any

from ridgeline.api.errors import Failure, capped, described
from ridgeline.api.support.masking import masked_and_capped, printable
from ridgeline.measure.answers.application import (
    ControlEventAnswer,
    DebugDumpAnswer,
)
from ridgeline.observe import identity
from ridgeline.stram.control import ContainerReported, ControlEvent, Instruction
from ridgeline.stram.master import Master

MOST_EVENTS = 2_000
_TEXT = 400
"""The length, in characters, that texts are cut to."""
_MASKED_TEXT = 8_000
"""The length that texts are cut to, without secrets, before they are made printable."""
_MOST_INSTRUCTIONS = 20
"""The most instructions that are kept of those that follow from one event."""
Brief = dict[str, Any]
"""The numbers and short texts of an event or instruction, so that no report and no tuple stays in memory."""


def _text(text: str) -> str:
    return capped(printable(masked_and_capped(text, _MASKED_TEXT)), _TEXT)


def _brief(one: Any) -> Brief:
    """Its numbers, its texts without secrets, and how many there are of anything else.

    Of parts only the numbers. A failure is without the tuple that it came of, and without its traceback.
    """
    if isinstance(one, ContainerReported):  # the most frequent one by far
        window = one.report.window
        found: Brief = {"window": window.window_id, "attempt": window.attempt, "container": window.container}
        return found | {"task": window.task, "bytesOut": window.bytes_out}
    found = {}
    for name, value in _fields(one):
        if isinstance(value, str):
            found[name] = _text(value)
        elif value is None or isinstance(value, (bool, int, float)):
            found[name] = value
        elif isinstance(value, Failure):
            parts = _brief(value)
            found |= {key: parts[key] for key in parts.keys() - {"tuple", "traceback"}}
        elif is_dataclass(value) or hasattr(value, "_fields"):
            found |= {key: part for key, part in _fields(value) if isinstance(part, (bool, int, float))}
        elif isinstance(value, Sized):
            found[name] = len(value)
    return found


def _fields(one: Any) -> list[tuple[str, Any]]:
    names: Iterable[str] = getattr(one, "__dataclass_fields__", ()) or getattr(one, "_fields", ())
    return [(name.removesuffix("_id"), getattr(one, name)) for name in names]


class ControlLog:
    """The last events and instructions, bounded in number. Any thread may read it."""

    def __init__(self, clock: Callable[[], float], *, most_events: int = MOST_EVENTS) -> None:
        """`clock`: seconds since 1970."""
        self._clock = clock
        self._events: deque[ControlEventAnswer] = deque(maxlen=most_events)
        self._seen = 0

    @property
    def dropped(self) -> int:
        """How many events before the first of `events` are not kept."""
        return self._seen - len(self._events)

    def handle(
        self, event: ControlEvent, master: Callable[[ControlEvent], Iterable[Instruction]]
    ) -> Sequence[Instruction]:
        """Let the master handle an event, and note it with its instructions. Raises as the master."""
        entry: ControlEventAnswer = {
            "at": self._clock(),
            "event": type(event).__name__,
            "details": _brief(event),
            "instructions": None,
        }
        self._events.append(entry)
        self._seen += 1
        instructions = tuple(master(event))
        entry["instructions"] = [
            {"instruction": type(one).__name__, "details": _brief(one)}
            for one in instructions[:_MOST_INSTRUCTIONS]
        ]
        return instructions

    def events(self) -> list[ControlEventAnswer]:
        """The events as JSON has them, the oldest first."""
        return list(self._events.copy())  # at once: the run goes on meanwhile

    def dump(self, master: Master, error: BaseException | None = None) -> DebugDumpAnswer:
        """All of it with the windows in flight. `error`: of which the driver dies."""
        return {
            "application": master.plan.logical.application,
            "version": identity.version(),
            "at": self._clock(),
            "fault": None if error is None else _text(described(error)),
            "committed": master.committed,
            "windows": [
                {
                    "window": one.window_id,
                    "attempt": one.attempt,
                    "phase": one.phase.value,
                    "reports": len(one.reports),
                }
                for one in master.windows.all
            ],
            "dropped": self.dropped,
            "events": self.events(),
        }
