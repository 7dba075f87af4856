"""Edits as people read them, and as JSON that may be shown: secrets are masked."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
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

IsSecret = Callable[[str, object], bool]
"""Whether a value given to `operator.property` is a secret, by the type of the property."""
_LONGEST = 60

_MOST = 4
"""Edits that a line names; of more, the first ones."""


def edit_text(edit: Edit, is_secret: IsSecret | None = None) -> str:
    """An edit in one line.

    >>> from ridgeline.plan.edits import SetProperty
    >>> edit_text(SetProperty("payments", "per_window", 500)), edit_text(SetProperty("in", "password", "x"))
    ('set `payments.per_window` to 500', 'set `in.password` to ***')
    """
    return _text(_masked(edit, is_secret))


def edits_text(edits: Iterable[Edit], is_secret: IsSecret | None = None) -> str:
    """Edits in one line; the first few, if they are many.

    >>> from ridgeline.plan.edits import RemoveOperator, RemoveStream
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

    >>> from ridgeline.plan.edits import SetProperty
    >>> shown_edit(SetProperty("in", "options", {"user": "ann", "password": "x"}))["value"]
    {'user': 'ann', 'password': '***'}
    """
    return edit_to_json(_masked(edit, is_secret))


def _masked(edit: Edit, is_secret: IsSecret | None) -> Edit:
    """An edit without secrets."""
    match edit:
        case SetProperty(operator, name, value):
            hidden = is_secret is not None and is_secret(f"{operator}.{name}", value)
            return replace(edit, value=MASK if hidden else mask(name, value))
        case Repartition(partitioner=spec) if spec is not None:
            return replace(edit, partitioner=_masked_spec(spec))
        case AddOperator(spec=spec) | ReplaceOperator(spec=spec):
            return replace(edit, spec=_masked_spec(spec))
    return edit


def _masked_spec(spec: Mapping[str, Any]) -> dict[str, Any]:
    """A specification of an operator or a partitioner with its secrets masked."""
    return {str(name): mask(str(name), value) for name, value in spec.items()}


def _text(edit: Edit) -> str:  # noqa: PLR0911  a case each
    """What an edit does, in words; values that may be secrets are masked."""
    match edit:
        case SetProperty(operator, name, value):
            return f"set `{operator}.{name}` to {_value(name, value)}"
        case SetAttribute(operator, name, value, port, unifier):
            side = f"{'unifier' if unifier else 'port'}.{port}" if port else ""
            path = ".".join(part for part in (operator, side, name) if part)
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
            return f"add the stream `{name}` from `{source}` to {', '.join(f'`{one}`' for one in sinks)}"
        case RemoveStream(name):
            return f"remove the stream `{name}`"
        case AddSink(stream, sink):
            return f"add the sink `{sink}` to the stream `{stream}`"
        case RemoveSink(stream, sink):
            return f"remove the sink `{sink}` from the stream `{stream}`"


def _value(name: str, value: object) -> str:
    """A value as a user would type it; a secret, by its name or form, is masked."""
    text = mask(name, value)
    return _short(text if isinstance(text, str) and text.strip() else shown(name, value))


def _class(spec: Mapping[str, Any]) -> str:
    """The class that the specification of an operator or a partitioner names."""
    return f"`{_short(str(spec.get('class', '?')))}`"


def _short(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}..."
