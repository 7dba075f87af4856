"""The endpoints by which a running application is changed: each asks for a change and waits for it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Annotated, Any

from ridgeline.api.errors import ChangeError, ValidationError
from ridgeline.api.support.masking import mask
from ridgeline.engine.driver.run.changes import QUEUED, REFUSED, WITHDRAWN
from ridgeline.plan.change.edit_texts import refusal_text, shown_edit
from ridgeline.plan.edits import Edit, edit_of
from ridgeline.plan.logical import LogicalPlan
from ridgeline.plan.shown_properties import holds_secret
from ridgeline.plan.specification import edits_between, read_specification
from ridgeline.plan.written import specification_of_plan
from ridgeline.regions.joined_changes import AnyAsked
from ridgeline.regions.joined_run import JoinedRun
from ridgeline.service import recorded
from ridgeline.service.access.edit_roles import role_of_edits
from ridgeline.service.access.roles import Role
from ridgeline.service.http.answers import (
    ChangeAnswer,
    ChangesAnswer,
    DifferenceAnswer,
    KilledContainerAnswer,
    RecordedTuplesAnswer,
    RecordingsAnswer,
    SpecificationAnswer,
)
from ridgeline.service.http.bodies import AnswerError
from ridgeline.service.http.endpoint import WHO, Call, Parameter, Rows, Within, found, waiting
from ridgeline.stram.changes import (
    EditPlan,
    Kill,
    Pause,
    Resume,
    Shutdown,
    What,
)

MOST_EDITS = 1_000


def edits_of(documents: Sequence[object]) -> tuple[Edit, ...]:
    """The edits of a request. Raises AnswerError (400) with all that are none."""
    if not documents:
        raise AnswerError(400, "there is no edit", "give at least one edit")
    if len(documents) > MOST_EDITS:
        raise AnswerError(
            400, f"{len(documents):,} edits are more than {MOST_EDITS:,}", "send them as several changes"
        )
    found: list[Edit] = []
    faults: list[str] = []
    for number, document in enumerate(documents, 1):
        try:
            found.append(edit_of(document))
        except ChangeError as error:
            faults.append(f"edit {number}: {error}" if len(documents) > 1 else str(error))
    if faults:
        wrong, _, hint = faults[0].partition("; ")
        raise AnswerError(400, *((wrong, hint) if len(faults) == 1 else ("\n".join(faults), "")))
    return tuple(found)


WAIT_SECONDS = 5
"""Seconds that an answer waits for a change by default; after them it is answered as `QUEUED`."""
_MB = 2**20
_LONGEST_NOTE = 1_000
_WAIT = Parameter("wait", "integer", "how many seconds the answer waits for the change; default: 5", 0, 30)
_ASKING = (Parameter("note", "string", "why; it is kept beside the change"), WHO, _WAIT)
Id = Annotated[int, Within(1)]

CHANGES = Rows()


# Recordings -------------------------------------------------------------------------------------------------


@CHANGES.question("/recordings")
def _recordings(call: Call) -> RecordingsAnswer:
    """All recordings of tuples in the checkpoint."""
    rows: list[Any] = [] if call.run is None else recorded.rows(call.run)
    return {"recordings": rows}


@CHANGES.request("/recordings", role=Role.OPERATE)
def _start(
    call: Call,
    operator: str | None = None,
    port: str | None = None,
    windows: Annotated[int, Within(1, 1_000_000)] = 1_000,
    max_mb: Annotated[int, Within(1, 10_240)] = 64,
) -> ChangeAnswer:
    """Record the tuples of an operator from the next window on.

    Raises AnswerError (400).

    Args:
        call: The request.
        operator: the name of a logical operator
        port: the name of a port; default: all that are connected
        windows: how many windows; default: 1,000
        max_mb: the most megabytes; default: 64
    """
    if operator is None:
        raise AnswerError(400, "`operator` is missing", "name the operator to record")
    limits = {"windows": windows, "limit_bytes": max_mb * _MB}
    return _ask(call, _refusing(lambda: recorded.begins(call.running, (operator, port), limits, call.by)))


@CHANGES.request("/recordings/{id}/tuples", role=Role.OPERATE, is_noted=False)
def _tuples(
    call: Call, id_: str, port: str | None = None, limit: Annotated[int, Within(1, 1_000)] = 20
) -> RecordedTuplesAnswer:
    """The last tuples of a recording. It asks for more than the right to read figures.

    Raises AnswerError (404).

    Args:
        call: The request.
        id_: the id of a recording, from `/recordings`
        port: the name of a port; default: all
        limit: how many tuples of a port; default: 20
    """
    rows = recorded.rows(call.running)
    try:
        folder = recorded.folder_of(rows, id_)
    except KeyError as unknown:
        raise AnswerError(404, str(unknown.args[0]), "`/recordings` has those that there are") from None
    try:
        tables = recorded.read(folder, port, limit)
    except KeyError as unknown:  # none has come yet, or there is no such port
        ports = next(row["ports"] for row in rows if row["id"] == id_)
        if port not in ports:
            raise AnswerError(404, str(unknown.args[0]), f"recorded: {', '.join(ports)}") from None
        tables = {}
    return {"recording": id_, "ports": recorded.plain(tables)}


@CHANGES.request("/recordings/{id}/stop", role=Role.OPERATE)
def _stop(call: Call, id_: str) -> ChangeAnswer:
    """End a recording before the next window.

    Args:
        call: The request.
        id_: the id of a recording, from `/recordings`
    """
    return _ask(call, _refusing(lambda: recorded.ends(call.running, id_)))


# Changes ----------------------------------------------------------------------------------------------------


@CHANGES.question("/specification", tag="changes", needs_run=True)
def _specification(call: Call) -> SpecificationAnswer:
    """What runs as a specification, with `-D`, attributes and changes; read back it changes nothing."""
    return {"specification": _refusing(lambda: specification_of_plan(_whole(call)))}


@CHANGES.question("/changes")
def _changes(call: Call) -> ChangesAnswer:
    """The changes that were asked for in this run."""
    if call.run is None:  # of a run that is read from its log
        kept: list[Any] = [{**row, "result": ""} for row in call.watch.changes()]
        return {"changes": kept}
    return {"changes": [_row(call, one) for one in call.run.changes.all()]}


def _noted_edits(call: Call) -> Any:
    """The edits of a request as the audit log has them: with secrets masked, by type and by name."""
    if call.get("spec") is not None:
        return {"spec": sorted(map(str, call["spec"]))[:100], "dryRun": bool(call.get("dryRun"))}
    kept = {name: mask(name, call[name]) for name in ("note", "dryRun") if name in call.values}
    try:
        found = edits_of(call.get("edits") or ())
    except AnswerError:
        return kept  # it is refused
    return {**kept, "edits": _shown(call, found)}


@CHANGES.request("/changes", role=Role.OPERATE, noted=_noted_edits, body=_ASKING)
def _change(
    call: Call,
    edits: list[Any] | None = None,
    spec: dict[str, Any] | None = None,
    *,
    dry_run: bool = False,
) -> ChangeAnswer | DifferenceAnswer:
    """Change the plan: all edits at one window boundary, or none.

    With `dryRun` only say what would change.

    Args:
        call: The request.
        edits: edits such as `{"do": "repartition", "operator": "sum", "partitions": 4}`
        spec: instead of `edits`: the specification that the application shall have
        dry_run: only answer what would change; default: false
    """
    if spec is not None:
        _check_role(call, Role.ADMIN)  # before its classes are imported
    if (edits is None) == (spec is None):
        raise AnswerError(400, "give `edits` or `spec`, one of them", "`edits` is a list of edits")
    found = edits_of(edits) if edits is not None else _edits_of_spec(call, spec or {})
    _check_role(call, role_of_edits(found, call.plan.logical))
    if not dry_run:
        return _ask(call, EditPlan(found, _note(call)))
    run = call.running
    difference = _refusing(lambda: run.preview(found))
    return {
        "lines": list(difference.lines),
        "edits": _shown(call, found),
    }


@CHANGES.question("/changes/{id}", query=(_WAIT,), needs_run=True)
def _one(call: Call, id_: Id) -> ChangeAnswer:
    """A change.

    Args:
        call: The question.
        id_: the id of a change, from `/changes`
    """
    if call.run is None:
        raise AnswerError(404, f"there is no change {id_}", "nothing was asked for yet")
    asked = _find(id_, call.run.changes.find)
    _wait(call, asked, 0)
    return _row(call, asked)


@CHANGES.request("/changes/{id}/withdraw", role=Role.OPERATE)
def _withdraw(call: Call, id_: Id) -> ChangeAnswer:
    """Take back a change that waits.

    Args:
        call: The request.
        id_: the id of a change, from `/changes`
    """
    asked = _find(id_, call.running.changes.withdraw)
    row = _row(call, asked)
    if row["state"] != WITHDRAWN:
        raise AnswerError(
            409,
            f"change {id_} does not wait any more: it is {row['state']}",
            row["reason"] or "ask for the opposite",
        )
    return row


def _act(path: str, kind: Callable[..., What], does: str, role: Role = Role.OPERATE) -> None:
    """Add the request for a change of the run as a whole; `does` describes it."""

    def act(call: Call) -> ChangeAnswer:
        return _ask(call, kind(note=_note(call)))

    act.__doc__ = does
    CHANGES.request(path, tag="changes", body=_ASKING, role=role)(act)


_act("/pause", Pause, "Begin no further window until `/resume`.")
_act("/resume", Resume, "Begin windows again.")
_act("/shutdown", Shutdown, "End the application after the windows under way.")
_act("/kill", Kill, "End the application at once; the windows under way are void.", Role.ADMIN)


@CHANGES.request("/physicalPlan/containers/{id}/kill", tag="changes", role=Role.ADMIN)
def _kill_container(call: Call, id_: Annotated[int, Within(0)]) -> KilledContainerAnswer:
    """End the process of a container at once; Spark starts another one, and its windows run again.

    Raises AnswerError (404, 409).

    Args:
        call: The request.
        id_: the id of a container, from `/physicalPlan/containers`
    """
    container = found(call.watch.container, id_)
    host, pid = container["host"], container["pid"]
    together = [one["id"] for one in call.watch.containers() if (one["host"], one["pid"]) == (host, pid)]
    reason = f"the process was killed by {call.by}"
    if host is None or pid is None or not call.running.kill(host, pid, reason):
        raise AnswerError(
            409,
            f"container {id_} lives in no process that can be ended now",
            "it is in the driver's process, or is started again: see `/physicalPlan/containers`",
        )
    return {"id": container["id"], "host": host, "pid": pid, "containers": together}


def _check_role(call: Call, needed: Role) -> None:
    """Raise AnswerError (403) for who has too little a role."""
    if not call.caller.may(needed):
        word = "none" if call.caller.role is None else call.caller.role.word
        raise AnswerError(
            403,
            f"`{call.caller.identity.name}` has the role {word}; this change needs {needed.word}",
            "it can run code, or read the driver's environment",
        )


def _edits_of_spec(call: Call, document: Mapping[str, Any]) -> tuple[Edit, ...]:
    """The edits by which the application becomes what a specification says. Raises AnswerError (409)."""
    run = call.running
    name = run.plan.logical.application
    edits: tuple[Edit, ...] = _refusing(
        lambda: edits_between(_whole(call), read_specification(dict(document), name))
    )
    if not edits:
        raise AnswerError(409, "the application is already as the specification says", "nothing is to do")
    return edits


def _whole(call: Call) -> LogicalPlan:
    """The plan that a specification describes: of several regions, that of the application before."""
    return call.run.whole() if isinstance(call.run, JoinedRun) else call.plan.logical


def _find(number: int, find: Callable[[int], AnyAsked]) -> AnyAsked:
    try:
        return find(number)
    except KeyError:
        raise AnswerError(404, f"there is no change {number}", "`/changes` has the last ones") from None


# Asking and waiting -----------------------------------------------------------------------------------------


def _refusing(plan: Callable[[], Any]) -> Any:
    """Return what `plan` returns. Raises AnswerError (409) with all faults if the change cannot be made."""
    try:
        return plan()
    except (ValidationError, ChangeError) as error:
        raise _refusal(refusal_text(error)) from None


def _refusal(reason: str) -> AnswerError:
    """The answer to a change that is refused; the faults of an application stay in their lines."""
    error, _, hint = (reason, "", "") if "\n" in reason else reason.partition("; ")
    return AnswerError(409, error, hint)


def _ask(call: Call, what: What) -> ChangeAnswer:
    """Ask for a change; wait a while until it is made. Raises AnswerError (409) if it is refused."""
    asked = call.running.changes.ask(what, call.by)
    _wait(call, asked, WAIT_SECONDS)
    row = _row(call, asked)
    if row["state"] == REFUSED:
        raise _refusal(row["reason"])
    return row


def _wait(call: Call, asked: AnyAsked, default: int) -> None:
    """Wait until a change is made, as long as the request may."""
    if asked.state == QUEUED:
        with waiting(call.values.get("wait", default)) as seconds:
            asked.done.wait(seconds)


def _row(call: Call, asked: AnyAsked) -> ChangeAnswer:
    what = asked.what
    edits = what.edits if isinstance(what, EditPlan) else ()
    row: Any = {**asked.row(), "edits": _shown(call, edits)}
    return row


def _shown(call: Call, edits: tuple[Edit, ...]) -> list[dict[str, Any]]:
    """Edits with their secrets masked, those of properties also by the properties' types."""
    return [shown_edit(edit, partial(holds_secret, call.plan.logical)) for edit in edits]


def _note(call: Call) -> str:
    note = call.get("note") or ""
    if len(note) > _LONGEST_NOTE:
        raise AnswerError(400, f"`note` has more than {_LONGEST_NOTE:,} characters", "give a shorter one")
    return str(note)
