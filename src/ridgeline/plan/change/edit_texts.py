"""Edits as people read them, and as JSON that may be shown: secrets are masked."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from ridgeline.api.errors import RidgelineError, ValidationError, described
from ridgeline.api.support.masking import MASK, mask, shown
from ridgeline.plan.edits import (
    AddOperator,
    AddSink,
    AddStream,
    Edit,
    RemoveOperator,
    RemoveSink,
    RemoveStream,
    RenameOperator,
    Repartition,
    ReplaceOperator,
    SetAttribute,
    SetProperty,
    edit_to_json,
)

_MOST = 4
"""So many edits are named in a line."""
_LONGEST = 60
IsSecret = Callable[[str, object], bool]
"""Whether a value given to `operator.property` is a secret, by the type of the property."""


def edit_text(edit: Edit, is_secret: IsSecret | None = None) -> str:  # noqa: PLR0911  a case each
    """An edit in one line.

    >>> edit_text(SetProperty("payments", "per_window", 500)), edit_text(SetProperty("in", "password", "x"))
    ('set `payments.per_window` to 500', 'set `in.password` to ***')
    """
    match edit:
        case SetProperty(operator, name, value):
            secret = is_secret is not None and is_secret(f"{operator}.{name}", value)
            return f"set `{operator}.{name}` to {MASK if secret else _value(name, value)}"
        case SetAttribute(operator, name, value, port, unifier):
            kind = "unifier" if unifier else "port"
            path = ".".join(part for part in (operator, *((kind, port) if port else ()), name) if part)
            return f"set the attribute `{path}` to {_value(name, value)}"
        case Repartition(operator, partitions, partitioner):
            count = f" to {partitions}" if partitions is not None else ""
            return f"repartition `{operator}`{count}{f' by {_class(partitioner)}' if partitioner else ''}"
        case AddOperator(name, spec):
            return f"add the operator `{name}`, {_class(spec)}"
        case RemoveOperator(name):
            return f"remove the operator `{name}`"
        case ReplaceOperator(name, spec):
            return f"replace the operator `{name}` by {_class(spec)}"
        case RenameOperator(name, new):
            return f"rename the operator `{name}` to `{new}`"
        case AddStream(name, source, sinks):
            return f"add the stream `{name}` from `{source}` to {', '.join(f'`{sink}`' for sink in sinks)}"
        case RemoveStream(name):
            return f"remove the stream `{name}`"
        case AddSink(stream, sink):
            return f"add the sink `{sink}` to the stream `{stream}`"
        case RemoveSink(stream, sink):
            return f"remove the sink `{sink}` from the stream `{stream}`"


def edits_text(edits: Iterable[Edit], is_secret: IsSecret | None = None) -> str:
    """Edits in one line; the first few, if they are many.

    >>> edits_text([RemoveStream("a"), RemoveOperator("b")])
    'remove the stream `a`; remove the operator `b`'
    """
    texts = [edit_text(edit, is_secret) for edit in edits]
    more = len(texts) - _MOST
    return "; ".join(texts) if more <= 1 else "; ".join([*texts[:_MOST], f"and {more} edits more"])


def refusal_text(error: Exception) -> str:
    """Why a change is refused, by the error that its planning raised.

    >>> from ridgeline import Fault
    >>> fault = Fault("sum.limit", "must be at least 1; got 0", "give a greater number")
    >>> refusal_text(ValidationError("sums", [fault]))
    '`sum.limit`: must be at least 1; got 0; give a greater number'
    """
    if isinstance(error, ValidationError):
        faults = [str(fault) for fault in error.faults]
        many = f"the application would have {len(faults)} faults:"
        return faults[0] if len(faults) == 1 else "\n  - ".join([many, *faults])
    return str(error) if isinstance(error, RidgelineError) else described(error)


def shown_edit(edit: Edit, is_secret: IsSecret | None = None) -> dict[str, Any]:
    """An edit as JSON values, as `edit_to_json` has it, with the secrets in it masked.

    >>> shown_edit(SetProperty("in", "options", {"user": "ann", "password": "x"}))["value"]
    {'user': 'ann', 'password': '***'}
    """
    found = edit_to_json(edit)
    if isinstance(edit, SetProperty):
        secret = is_secret is not None and is_secret(f"{edit.operator}.{edit.property}", edit.value)
        return found | {"value": MASK if secret else mask(edit.property, edit.value)}
    if isinstance(edit, (AddOperator, ReplaceOperator)):
        return found | {"spec": _masked(edit.spec)}
    if isinstance(edit, Repartition) and edit.partitioner is not None:
        return found | {"partitioner": _masked(edit.partitioner)}
    return found


def _value(name: str, value: object) -> str:
    """A value as a user would type it."""
    text = mask(name, value)
    return _short(text if isinstance(text, str) and text.strip() else shown(name, value))


def _masked(spec: Mapping[str, Any]) -> dict[str, Any]:
    """A specification of an operator with its secrets masked."""
    return {str(name): mask(str(name), value) for name, value in spec.items()}


def _class(spec: Mapping[str, Any]) -> str:
    return f"`{_short(str(spec.get('class', '?')))}`"


def _short(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}..."
