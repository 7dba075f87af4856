"""The role that an edit of a plan needs: admin for what can run code, or read variables and files."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping

from ridgeline.api.support.secrets.providers import decoded_json
from ridgeline.plan.edits import Edit, Repartition, SetAttribute, SetProperty
from ridgeline.plan.logical import LogicalPlan
from ridgeline.service.access.roles import Role

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
