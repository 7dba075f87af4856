"""Values of the arguments of commands, for completion: in bash, zsh, fish and `ridgeline shell`.

Functions of a context, whose parameters before are known, and of what is typed so far. An application that
does not answer at once gives nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import quote

import typer

from ridgeline.api.errors import RidgelineError

_SECONDS = 1.0
"""How long an application is waited for, while its user is typing."""
_OPERATOR = "/logicalPlan/operators/{operator}"
_ASKED: Mapping[str, tuple[str, str, str]] = {
    "OPERATOR": ("/logicalPlan/operators", "operators", "name"),
    "CONTAINER": ("/physicalPlan/containers", "containers", "id"),
    "STREAM": ("/logicalPlan", "streams", "name"),
    "PORT": (f"{_OPERATOR}/ports", "ports", "name"),
    "PROPERTY": (f"{_OPERATOR}/properties", "", ""),
    "ATTRIBUTE": (f"{_OPERATOR}/attributes", "", ""),
    "RECORDING": ("/recordings", "recordings", "id"),
}
"""By metavar: the question, its rows, and their member that is a value. Without rows: names of members."""


def applications(incomplete: str) -> list[tuple[str, str]]:
    """Names of running applications, and ids where several have the same name, each with its folder."""
    from ridgeline.service import registry

    try:
        entries = registry.running()
    except RidgelineError:
        return []
    names = [entry.name for entry in entries]
    found = [(one.name if names.count(one.name) == 1 else one.id, one.checkpoint) for one in entries]
    return [one for one in found if one[0].startswith(incomplete)]


def of(metavar: str | None) -> Callable[[typer.Context, str], list[str]] | None:
    """What completes arguments with that metavar, by asking the application; None if nothing does."""
    asked = _ASKED.get((metavar or "").strip("[]."))
    if asked is None:
        return None
    path, rows, member = asked

    def complete(context: typer.Context, incomplete: str) -> list[str]:
        operator = quote(str(context.params.get("operator") or ""), safe="")
        answer = _ask(context, path.format(operator=operator))
        found = [row[member] for row in answer.get(rows, ())] if rows else answer
        return sorted(str(one) for one in found if str(one).startswith(incomplete))

    return complete


def _ask(context: typer.Context, path: str) -> dict[str, Any]:
    """The answer of the application that is meant; empty if it does not answer at once."""
    from ridgeline.cli.remote.client import Client
    from ridgeline.service import registry

    given = context.params
    try:
        entry = registry.find(given.get("url") or given.get("app") or "")
        return dict(Client(entry.url, entry.token or given.get("token"), timeout=_SECONDS).get(path))
    except (RidgelineError, TypeError, ValueError):
        return {}
