"""Answer with the last events and instructions of STRAM, for post-mortems."""

from __future__ import annotations

from typing import Annotated, Any

from typing_extensions import TypedDict


class ControlInstructionAnswer(TypedDict):
    """An instruction that STRAM answered with."""

    instruction: Annotated[str, "Its type, such as `RunWindow`."]
    details: Annotated[dict[str, Any], "Numbers and short texts of it."]


class ControlEventAnswer(TypedDict):
    """An event that STRAM received, and its answer."""

    at: Annotated[float, "When it was received, in seconds since 1970."]
    event: Annotated[str, "Its type, such as `ContainerReported`."]
    details: Annotated[dict[str, Any], "Numbers and short texts of it; no tuples, and secrets are masked."]
    instructions: Annotated[
        list[ControlInstructionAnswer] | None,
        "The instructions that followed, at most 20; null if STRAM failed on the event or has not answered.",
    ]


class InFlightWindowAnswer(TypedDict):
    """A window in flight."""

    window: Annotated[int, "Its id."]
    attempt: Annotated[int, "Its last attempt, counted from 0; -1 before the first."]
    phase: Annotated[str, "`due`, `running`, `complete`, `held`, `void` or `committing`."]
    reports: Annotated[int, "How many containers have reported the attempt."]


class DebugDumpAnswer(TypedDict):
    """The windows in flight, and the last events and instructions of STRAM."""

    application: Annotated[str, "Name of the application."]
    version: Annotated[str, "Version of Ridgeline."]
    at: Annotated[float | None, "When this was written, in seconds since 1970; null if there is no run yet."]
    fault: Annotated[str | None, "The error of which the driver died; null while it runs."]
    committed: Annotated[int, "The last committed window, -1 before the first."]
    windows: Annotated[list[InFlightWindowAnswer], "The windows in flight, the oldest first."]
    dropped: Annotated[int, "How many events before the first of `events` are not kept."]
    events: Annotated[list[ControlEventAnswer], "The last events, the oldest first."]
