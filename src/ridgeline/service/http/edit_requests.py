"""Edits of a plan as requests write them: our own, and those of Apex's STRAM."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from ridgeline.api.errors import ChangeError, did_you_mean, shorten
from ridgeline.plan.change.kinds import VERBS
from ridgeline.plan.edits import Edit, edit_of
from ridgeline.service.http.bodies import AnswerError

MOST_EDITS = 1_000


def edits_of(documents: Sequence[object]) -> tuple[Edit, ...]:
    """The edits of a request. Raises AnswerError (400) with all that are none."""
    return _all(documents, edit_of, "edit")


def edits_of_requests(documents: Sequence[object]) -> tuple[Edit, ...]:
    """Apex's requests, such as `{"requestType": "CreateOperatorRequest", ...}`, as edits.

    Raises AnswerError (400) with all that are none.
    """
    return _all(documents, _edit_of_request, "request")


def _all(documents: Sequence[object], read: Callable[[object], Edit], what: str) -> tuple[Edit, ...]:
    """Read all documents; `what` they are called in errors. Raises AnswerError (400)."""
    if not documents:
        raise AnswerError(400, f"there is no {what}", f"give at least one {what}")
    if len(documents) > MOST_EDITS:
        raise AnswerError(
            400, f"{len(documents):,} {what}s are more than {MOST_EDITS:,}", "send them as several changes"
        )
    found: list[Edit] = []
    faults: list[str] = []
    for number, document in enumerate(documents, 1):
        try:
            found.append(read(document))
        except ChangeError as error:
            faults.append(f"{what} {number}: {error}" if len(documents) > 1 else str(error))
    if faults:
        wrong, _, hint = faults[0].partition("; ")
        raise AnswerError(400, *((wrong, hint) if len(faults) == 1 else ("\n".join(faults), "")))
    return tuple(found)


_REQUESTS = {verb.request: verb for verb in VERBS.values() if verb.fields}
_ANY_VALUE = ("propertyValue", "attributeValue")


def _edit_of_request(document: object) -> Edit:
    """A request of Apex as an edit. Raises ChangeError."""
    name = document.get("requestType") if isinstance(document, Mapping) else None
    if not isinstance(document, Mapping) or not isinstance(name, str):
        raise ChangeError(
            f"a request is an object with `requestType` and its fields; got {shorten(document)}"
        )
    name = name.rpartition(".")[2]  # some clients send the name of Apex's class
    if name not in _REQUESTS:
        raise ChangeError(f"there is no request `{name}`; {did_you_mean(name, _REQUESTS)}")
    request = _REQUESTS[name]
    for key in document:
        if key != "requestType" and key not in request.fields:
            raise ChangeError(f"`{name}` has no field `{key}`; {did_you_mean(str(key), request.fields)}")
    for key in request.fields:
        if key not in document:
            raise ChangeError(f"`{name}` needs the field `{key}`")
        if key not in _ANY_VALUE and not isinstance(document[key], str):
            raise ChangeError(f"`{key}` of `{name}` is a text; got {shorten(document[key])}")
    return request.edit(*(document[key] for key in request.fields))
