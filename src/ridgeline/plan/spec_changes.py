"""The edits that make one application of another: what `ridgeline change APP --spec FILE` asks for."""

from __future__ import annotations

from ridgeline.api.application import Application
from ridgeline.plan.edits import Edit


def edits_between(old: Application, new: Application) -> tuple[Edit, ...]:
    """The edits after which `old` is planned like `new`; none if they are alike.

    An operator with another name is another operator: what was renamed is removed and added. Raises
    ValidationError for differences that no edit can make, such as another name of the application.
    """
    raise NotImplementedError
