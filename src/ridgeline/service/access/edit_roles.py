"""The role that an edit of the plan needs.

Who may operate an application may run no code, read no file and send nothing elsewhere by it. What a value
can do depends on the operator, and a list of what is dangerous always lacks something. So `operate` is enough
for values that can do nothing: numbers, booleans, durations and enumerations, and properties that a class
lists as `operable`. All else needs `admin`.
"""

from __future__ import annotations

import enum
import json
import types
import typing
from collections.abc import Iterable, Mapping
from typing import Any, Literal, Union

from ridgeline.api.support.duration import parse_duration
from ridgeline.api.support.secrets.providers import decoded_json
from ridgeline.plan.edits import Edit, Repartition, SetAttribute, SetProperty
from ridgeline.plan.logical import LogicalPlan
from ridgeline.service.access.roles import Role

OPERABLE = "operable"
"""A class of operators may list here further properties that are harmless, whatever their value."""
_SAFE = (bool, int, float, types.NoneType)
_CODE_ATTRIBUTES = frozenset(("partitioner", "stream_codec"))
_MARKS = ("$import", "$env")
"""Marks of values that are imported, or taken from the driver's environment."""
_PROVIDERS = ("env:", "file:")
"""Beginnings of texts that name a secret."""


def role_of_edits(edits: Iterable[Edit], plan: LogicalPlan) -> Role:
    """The greatest role that one of the edits needs."""
    return max((_role(edit, plan) for edit in edits), default=Role.OPERATE)


def _role(edit: Edit, plan: LogicalPlan) -> Role:
    match edit:
        case SetProperty(operator, name, value):
            safe = not _is_marked(value) and _is_safe(plan, operator, name, value)
        case SetAttribute(_, name, value):
            safe = not (name in _CODE_ATTRIBUTES or isinstance(value, Mapping) or _is_marked(value))
        case Repartition(_, _, partitioner):
            safe = partitioner is None
        case _:
            safe = False
    return Role.OPERATE if safe else Role.ADMIN


def _is_safe(plan: LogicalPlan, operator: str, name: str, value: object) -> bool:
    """Whether a value of a property can do nothing but be compared and counted.

    False for the properties of a module, which may go anywhere, and for an entry of one.
    """
    found = next((type(one.operator) for one in plan.operators if one.name == operator), None)
    if found is None:
        return False
    if name in getattr(found, OPERABLE, ()):
        return True
    try:
        annotation = typing.get_type_hints(found).get(name)
    except (NameError, TypeError):  # it names what is not there
        return False
    kinds = set(typing.get_args(annotation) if _is_union(annotation) else (annotation,))
    if str in kinds and kinds & {int, float}:  # a duration may be given as a text
        kinds.discard(str)
        if value is not None and not _is_duration(value):
            return False
    return all(map(_is_harmless, kinds))


def _is_union(annotation: Any) -> bool:
    return typing.get_origin(annotation) in (Union, types.UnionType)


def _is_harmless(kind: Any) -> bool:
    is_enum = isinstance(kind, type) and issubclass(kind, enum.Enum)
    return kind in _SAFE or is_enum or typing.get_origin(kind) is Literal


def _is_duration(value: object) -> bool:
    try:
        parse_duration(value)
    except ValueError:
        return False
    return True


def _is_marked(value: object) -> bool:
    """Whether a value, or a text within it, is taken from elsewhere: code, variables, files."""
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
