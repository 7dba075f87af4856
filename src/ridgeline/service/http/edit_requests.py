"""Edits of a plan as requests write them: our own, and those of Apex's STRAM."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence

from ridgeline.api.errors import ChangeError, did_you_mean, shorten
from ridgeline.api.support.secrets.providers import decoded_json
from ridgeline.plan.change.kinds import VERBS
from ridgeline.plan.edits import Edit, Repartition, SetAttribute, SetProperty, edit_of
from ridgeline.plan.logical import LogicalPlan
from ridgeline.service.access.roles import Role
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


RUNS_CODE = "runs_code"
"""A class of operators may list here the names of properties whose values become code."""
_CODE_PROPERTIES: Mapping[str, frozenset[str]] = {
    "ScriptOperator": frozenset(("script",)),
    "ModelOperator": frozenset(("model", "method")),
    "KafkaInput": frozenset(("message",)),
    "KafkaOutput": frozenset(("message",)),
}
_CODE_ATTRIBUTES = frozenset(("partitioner", "stream_codec"))
_MARKS = ("$import", "$env")
"""Marks of values that are imported, or taken from the driver's environment."""
_PROVIDERS = ("env:", "file:", "command:")
"""Beginnings of texts that name a secret: who gives one beside an address of their own could read it."""


def role_of_edits(edits: Iterable[Edit], plan: LogicalPlan) -> Role:
    """The greatest role that one of the edits needs."""
    return max((_role(edit, plan) for edit in edits), default=Role.OPERATE)


def _role(edit: Edit, plan: LogicalPlan) -> Role:
    match edit:
        case SetProperty(operator, name, value):
            code = _is_marked(value) or _is_code(plan, operator, name)
        case SetAttribute(_, name, value):
            code = name in _CODE_ATTRIBUTES or isinstance(value, Mapping) or _is_marked(value)
        case Repartition(_, _, partitioner):
            code = partitioner is not None
        case _:
            code = True
    return Role.ADMIN if code else Role.OPERATE


def _is_marked(value: object) -> bool:
    """Whether a value, or a text within it, is taken from elsewhere: code, variables, files, commands."""
    text = value if isinstance(value, str) else json.dumps(value, default=str, ensure_ascii=False)
    return any(mark in text for mark in _MARKS) or any(map(_is_provided, _texts(value)))


def _is_provided(text: str) -> bool:
    text = text.lstrip()
    return text.startswith(_PROVIDERS) or (
        text[:1] in {"{", "["} and any(f'"{one}' in text for one in _PROVIDERS)
    )


def _texts(value: object) -> Iterable[str]:
    """The texts in a value, also if it is JSON; those of keys left out."""
    if isinstance(value, str):
        yield value
        yield from _texts(decoded_json(value))
    elif isinstance(value, Mapping):
        for one in value.values():
            yield from _texts(one)
    elif isinstance(value, (list, tuple, set, frozenset)):
        for one in value:
            yield from _texts(one)


def _is_code(plan: LogicalPlan, operator: str, name: str) -> bool:
    """Whether a property's value becomes code; also if the operator is none whose class is known."""
    found = next((one.operator for one in plan.operators if one.name == operator), None)
    if found is None:
        return True  # a module, whose properties may go anywhere
    first = name.partition(".")[0]
    listed = getattr(type(found), RUNS_CODE, ())
    if first in (listed if isinstance(listed, (tuple, list, set, frozenset)) else (listed,)):
        return True
    return any(first in _CODE_PROPERTIES.get(kind.__name__, ()) for kind in type(found).__mro__)
