"""Edits as people read them, and as JSON that may be shown: secrets are masked."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ridgeline.api.errors import RidgelineError, ValidationError, described
from ridgeline.plan.change.kind import IsSecret
from ridgeline.plan.change.kinds import kind_of
from ridgeline.plan.edits import Edit, edit_to_json

_MOST = 4
"""Edits that a line names; of more, the first ones."""


def edit_text(edit: Edit, is_secret: IsSecret | None = None) -> str:
    """An edit in one line.

    >>> from ridgeline.plan.edits import SetProperty
    >>> edit_text(SetProperty("payments", "per_window", 500)), edit_text(SetProperty("in", "password", "x"))
    ('set `payments.per_window` to 500', 'set `in.password` to ***')
    """
    return kind_of(edit).text(_masked(edit, is_secret))


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


def _masked(edit: Edit, is_secret: IsSecret | None) -> Any:
    return kind_of(edit).masked(edit, is_secret or (lambda _where, _value: False))
