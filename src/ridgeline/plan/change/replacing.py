"""Put other operators into the place of some, as tests do with inputs."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from ridgeline.api.application import Application
from ridgeline.api.operator import Operator, operator_type
from ridgeline.plan.draft import Draft

Rewrite = Callable[[Draft, Application], Application]
"""Gets an application without modules, before it is checked; returns it, or a changed copy."""
Replace = Callable[[Mapping[str, Operator]], Mapping[str, Operator]]
"""Gets all operators by full name (`outer.inner`); returns those that are replaced, by name.

Both have one output port, and the new one has no other port.
"""


def replace_operators(chosen: Replace, draft: Draft, app: Application) -> Application:
    """A copy of an application without modules, with some operators replaced."""
    by_name = {str(added.name): added.operator for added in app.operators}
    new = {id(by_name[name]): operator for name, operator in chosen(by_name).items()}
    if not new:
        return app

    def port(point: Any) -> Any:
        """The new operator's port in the place of an old one's."""
        by = new.get(id(getattr(point, "operator", None)))
        return point if by is None else getattr(by, _output(by))

    changed = copy.copy(app)
    changed.operators = [
        replace(one, operator=new.get(id(one.operator), one.operator)) for one in app.operators
    ]
    changed.streams = [replace(one, source=port(one.source)) for one in app.streams]
    changed.attributes_set = [
        replace(given, target=new.get(id(given.target)) or port(given.target)) for given in app.attributes_set
    ]
    draft.excused = {
        (id(new[identity]), _output(new[identity])) if identity in new else (identity, name)
        for identity, name in draft.excused
    }
    for module in draft.modules:
        for name, ends in module.ends.items():
            module.ends[name] = [replace(end, point=port(end.point)) for end in ends]
    return changed


def _output(operator: Operator) -> str:
    (name,) = operator_type(type(operator)).outputs
    return name
