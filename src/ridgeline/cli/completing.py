"""Values of the arguments of commands, for completion: in bash, zsh, fish and `ridgeline shell`.

Functions of a context, whose parameters before are known, and of what is typed so far. An application that
does not answer at once gives nothing.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import typer

from ridgeline.api.errors import RidgelineError
from ridgeline.api.support.masking import MASK

if TYPE_CHECKING:
    from ridgeline.cli.remote.client import Client

_SECONDS = 1.0
"""How long an application is waited for, while its user is typing."""


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


def operators(context: typer.Context, incomplete: str) -> list[str]:
    """Names of the application's operators."""
    return _beginning(_names_of(context, "/logicalPlan/operators", "operators"), incomplete)


def containers(context: typer.Context, incomplete: str) -> list[str]:
    """Ids of the application's containers."""
    return _beginning(_names_of(context, "/physicalPlan/containers", "containers", "id"), incomplete)


def loggers(context: typer.Context, incomplete: str) -> list[str]:
    """Names of loggers whose level is set, of Ridgeline's own, and of the modules of operators."""
    found = _names_of(context, "/loggers", "loggers", "target")
    classes = _names_of(context, "/logicalPlan/operators", "operators", "className")
    modules = [name.rpartition(".")[0] for name in classes]
    return _beginning(dict.fromkeys([*found, *filter(None, modules), "ridgeline", "root"]), incomplete)


def properties(context: typer.Context, incomplete: str) -> list[str]:
    """Names of the properties of the operator that was typed before."""
    return _beginning(_ask(context, f"{_operator(context)}/properties"), incomplete)


def values(context: typer.Context, incomplete: str) -> list[str]:
    """Values for the property or attribute that was typed before: those of its type, else that of now."""
    from ridgeline.api.attributes import ATTRIBUTES

    name = str(context.params.get("name") or "")
    if "attribute" in (context.info_name or ""):
        known = ATTRIBUTES.get(name)
        named = _ask(context, f"{_operator(context)}/attributes")
        return _beginning(([] if known is None else known.choices) or _texts(named.get(name)), incomplete)
    operator = context.params.get("operator")
    keys = {f"operator.{operator}.{name}", f"operator.{operator}.prop.{name}"}
    rows = [row for row in _ask(context, "/configuration").get("values", ()) if row.get("key") in keys]
    found = [one for row in rows for one in row.get("choices", ()) or _texts(row.get("value"))]
    return _beginning(found, incomplete)


def streams(context: typer.Context, incomplete: str) -> list[str]:
    """Names of the application's streams."""
    return _beginning(_names_of(context, "/logicalPlan", "streams"), incomplete)


def attributes(incomplete: str) -> list[tuple[str, str]]:
    """Names of attributes of operators and ports, each with what it does."""
    from ridgeline.api.attributes import ATTRIBUTES

    return [(name, one.help) for name, one in sorted(ATTRIBUTES.items()) if name.startswith(incomplete)]


def ports(context: typer.Context, incomplete: str) -> list[str]:
    """Names of the ports of the operator that was typed before."""
    return _beginning(_names_of(context, f"{_operator(context)}/ports", "ports"), incomplete)


def recordings(context: typer.Context, incomplete: str) -> list[str]:
    """Ids of the application's recordings."""
    return _beginning(_names_of(context, "/recordings", "recordings", "id"), incomplete)


def library(incomplete: str) -> list[str]:
    """Names of operators of the library."""
    import ridgeline.operators

    return _beginning(ridgeline.operators.__all__, incomplete)


def classes(incomplete: str) -> list[str]:
    """Import paths of operators of the library."""
    import ridgeline.operators

    return _beginning((f"ridgeline.operators.{name}" for name in ridgeline.operators.__all__), incomplete)


def of(metavar: str | None) -> Any:
    """The function for arguments with that metavar; None if there is none."""
    found = {
        "OPERATOR": operators,
        "PROPERTY": properties,
        "ATTRIBUTE": attributes,
        "PORT": ports,
        "STREAM": streams,
        "VALUE": values,
        "CLASS": classes,
    }
    return found.get((metavar or "").strip("[]"))


def _operator(context: typer.Context) -> str:
    return f"/logicalPlan/operators/{quote(str(context.params.get('operator') or ''), safe='')}"


def _client(context: typer.Context) -> Client | None:
    """A client of the application that is meant, which does not wait for long."""
    from ridgeline.cli.remote.client import Client
    from ridgeline.service import registry

    given = context.params
    try:
        entry = registry.find(given.get("url") or given.get("app") or "")
        return Client(entry.url, entry.token or given.get("token"), timeout=_SECONDS)
    except RidgelineError:
        return None


def _ask(context: typer.Context, path: str) -> dict[str, Any]:
    client = _client(context)
    try:
        return {} if client is None else dict(client.get(path))
    except (RidgelineError, TypeError, ValueError):
        return {}


def _names_of(context: typer.Context, path: str, rows: str, member: str = "name") -> list[str]:
    return [str(row[member]) for row in _ask(context, path).get(rows, ()) if member in row]


def _texts(value: Any) -> list[str]:
    """A value as it would be typed; none for what is masked or not set."""
    if value is None or value == MASK:
        return []
    return [value if isinstance(value, str) else json.dumps(value)]


def _beginning(names: Iterable[str], incomplete: str) -> list[str]:
    return sorted(name for name in names if name.startswith(incomplete))
