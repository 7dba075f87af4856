"""Changes of a running application: each takes effect between two windows, in all containers at once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from ridgeline.plan.change.edit_texts import edits_text
from ridgeline.plan.edits import Edit


@dataclass(frozen=True, slots=True)
class EditPlan:
    """Change the plan: all of the edits at one window boundary, or none of them.

    `result`: the id of what it begins or ends, such as a recording.
    """

    edits: tuple[Edit, ...]
    note: str = ""
    result: str = ""

    def __str__(self) -> str:
        return edits_text(self.edits)


@dataclass(frozen=True)
class Control:
    """Steer the application as a whole; one of the classes that follow. `verb`: what it does, for people."""

    verb: ClassVar[str]
    note: str = ""

    def __str__(self) -> str:
        return self.verb


class Pause(Control):
    """Begin no further window until `Resume`."""

    verb = "pause"


class Resume(Control):
    """Begin windows again."""

    verb = "resume"


class Shutdown(Control):
    """End the application after the windows under way, as Ctrl-C does."""

    verb = "shut down"


class Kill(Control):
    """End the application at once: the windows under way are void, and are run again after a restart."""

    verb = "kill"


What = EditPlan | Control
"""What may be asked of a running application."""
