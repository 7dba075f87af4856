"""Properties and attributes from the command line: `-D operator.property=value`, `--attribute ...`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ridgeline.api.application import Application
from ridgeline.api.errors import did_you_mean
from ridgeline.plan.draft import Draft

WINDOW = "window"


@dataclass(slots=True)
class Overrides:
    """Properties and attributes from outside, by operator; `application` is for the application itself."""

    properties: dict[str, dict[str, object]] = field(default_factory=dict)
    attributes: dict[str, dict[str, Any]] = field(default_factory=dict)
    application: dict[str, object] = field(default_factory=dict)


def operator_names(app: Application) -> list[str]:
    """All names under which something was added, valid or not."""
    return [str(added.name) for added in app.operators]


def read_overrides(
    draft: Draft, app: Application, properties: Mapping[str, object], attributes: Mapping[str, object]
) -> Overrides:
    """Sort overrides by operator; those that name no operator of the application are faults."""
    found = Overrides()
    names = operator_names(app)
    for key, value in properties.items():
        operator, dot, name = key.partition(".")
        if not (operator and dot and name):
            draft.fault(
                key, f"property `{key}` names no operator and property", "write `-D operator.property=value`"
            )
        elif operator not in names:
            draft.fault(
                key, f"there is no operator `{operator}` to set a property of", did_you_mean(operator, names)
            )
        else:
            found.properties.setdefault(operator, {})[name] = value
    for key, value in attributes.items():
        operator, dot, name = key.partition(".")
        if not dot:
            found.application[key] = value
        elif operator not in names:
            draft.fault(
                key,
                f"there is no operator `{operator}` to set an attribute of",
                did_you_mean(operator, names),
            )
        else:
            found.attributes.setdefault(operator, {})[name] = value
    return found
