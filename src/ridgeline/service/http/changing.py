"""The endpoints by which a running application is changed: each asks for a change and waits for it."""

from __future__ import annotations

from typing import Any

from ridgeline.engine.driver.run import ApplicationRun
from ridgeline.service.http.answers import ChangeAnswer, ChangesAnswer, RecordingsAnswer
from ridgeline.service.http.endpoint import AnswerError, Call, Endpoint, Parameter
from ridgeline.stram.changes import StartRecording, StopRecording, What

WAIT_SECONDS = 5.0
"""So long an answer waits for the next window; a change that waits longer is answered as `QUEUED`."""
_MOST_WINDOWS = 1_000_000
_MOST_MB = 10_240
_MB = 2**20


def changing_endpoints(base: str) -> tuple[Endpoint, ...]:
    """All of them, below the base path."""
    recording = Parameter("id", "string", "the id of a recording, from `/recordings`")
    body = (
        Parameter("operator", "string", "the name of a logical operator"),
        Parameter("port", "string", "the name of a port; default: all that are connected"),
        Parameter("windows", "integer", "how many windows; default: 1,000", 1, _MOST_WINDOWS),
        Parameter("maxMb", "integer", "the most megabytes; default: 64", 1, _MOST_MB),
    )
    return (
        Endpoint(
            f"{base}/recordings",
            lambda call: {"recordings": [] if call.run is None else call.run.recordings.rows()},
            "All recordings of tuples in the checkpoint.",
            RecordingsAnswer,
            tag="recordings",
        ),
        Endpoint(
            f"{base}/recordings",
            _start,
            "Record the tuples of an operator from the next window on.",
            ChangeAnswer,
            method="POST",
            body=body,
            tag="recordings",
        ),
        Endpoint(
            f"{base}/recordings/{{id}}/stop",
            lambda call: _change(call, StopRecording(call["id"])),
            "End a recording before the next window.",
            ChangeAnswer,
            (recording,),
            method="POST",
            tag="recordings",
        ),
        Endpoint(
            f"{base}/changes",
            lambda call: {"changes": [] if call.run is None else call.run.changes.rows()},
            "The changes that were asked for in this run.",
            ChangesAnswer,
            tag="recordings",
        ),
    )


def _run(call: Call) -> ApplicationRun:
    if call.run is None:
        raise AnswerError(409, "the application has not begun its first window", "ask again soon")
    return call.run


def _start(call: Call) -> ChangeAnswer:
    if call.get("operator") is None:
        raise AnswerError(400, "`operator` is missing", "name the operator to record")
    default = StartRecording("")
    what = StartRecording(
        call["operator"],
        call.get("port"),
        call.get("windows") or default.windows,
        call["maxMb"] * _MB if call.get("maxMb") else default.limit_bytes,
    )
    return _change(call, what)


def _change(call: Call, what: What) -> ChangeAnswer:
    """Ask for a change; wait a while until it is made. Raises AnswerError (409) if it is refused."""
    asked = _run(call).changes.ask(what, "REST")
    asked.done.wait(WAIT_SECONDS)
    row: Any = asked.row()
    if row["state"] == "REFUSED":
        reason, _, hint = row["reason"].partition("; ")
        raise AnswerError(409, reason, hint)
    answer: ChangeAnswer = row
    return answer
