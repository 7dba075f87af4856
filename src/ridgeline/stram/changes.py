"""Changes of a running application: each takes effect between two windows, in all containers at once."""

from __future__ import annotations

from dataclasses import dataclass

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


@dataclass(frozen=True, slots=True)
class Pause:
    """Begin no further window until `Resume`."""

    note: str = ""

    def __str__(self) -> str:
        return "pause"


@dataclass(frozen=True, slots=True)
class Resume:
    """Begin windows again."""

    note: str = ""

    def __str__(self) -> str:
        return "resume"


@dataclass(frozen=True, slots=True)
class Shutdown:
    """End the application after the windows under way, as Ctrl-C does."""

    note: str = ""

    def __str__(self) -> str:
        return "shut down"


@dataclass(frozen=True, slots=True)
class Kill:
    """End the application at once: the windows under way are void, and are run again after a restart."""

    note: str = ""

    def __str__(self) -> str:
        return "kill"


Control = Pause | Resume | Shutdown | Kill
What = EditPlan | Control


@dataclass(frozen=True, slots=True)
class Change:
    """A request to change the running application. `number` counts those of one driver; `by`: who asked."""

    number: int
    by: str
    what: What
