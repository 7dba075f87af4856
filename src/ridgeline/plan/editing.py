"""Apply edits to an application: it is changed as if its author had written it so."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from ridgeline.api.application import Application
from ridgeline.api.operator import Operator
from ridgeline.plan.edits import Edit

_NOTHING: Mapping[str, Any] = {}


def edited(app: Application, edits: Sequence[Edit]) -> Application:
    """A copy of the application with the edits made, one after the other; `app` stays as it is.

    Values of properties and attributes are not checked here: who plans the result does. What is inside of
    modules is known only then, too: `plan_application(app, edits=...)` makes edits of it. Raises
    ValidationError with a fault for each edit that cannot be made.
    """
    raise NotImplementedError


def spec_of_operator(
    name: str, operator: Operator, attributes: Mapping[str, Any] = _NOTHING
) -> Mapping[str, Any]:
    """The `spec` of an `AddOperator` or `ReplaceOperator`, from an instance: its class and properties.

    Raises ValidationError for what cannot be written: a class that cannot be imported by name, a property
    without a form in JSON.
    """
    raise NotImplementedError


def renamed_by(edits: Sequence[Edit]) -> dict[str, str]:
    """The operators that edits rename: the name that each has in the end, by the one before all edits."""
    raise NotImplementedError


def dropped_by(edits: Sequence[Edit]) -> Collection[str]:
    """The operators of before all edits whose state is to be dropped, since they are removed."""
    raise NotImplementedError
