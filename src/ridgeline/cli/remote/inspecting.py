"""The commands that show what is set in a running application, and where a container is."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Annotated, Any
from urllib.parse import quote

import typer
from rich.text import Text

from ridgeline.api.errors import did_you_mean
from ridgeline.cli import completing
from ridgeline.cli.errors import CommandError
from ridgeline.cli.remote.options import Named, Operator

Attribute = Annotated[
    str | None,
    typer.Argument(
        metavar="[ATTRIBUTE]",
        help="Only this one.",
        show_default=False,
        autocompletion=completing.attributes,
    ),
]


def get_app_attributes(remote: Named, name: Attribute = None) -> None:
    """Show the attributes of a running application. On its page `Configuration` says where each was said.

    Example: `ridgeline get-app-attributes payments windows_kept`
    """
    show_values(remote, remote.connect().get("/logicalPlan/attributes", **_only("attributeName", name)))


def get_operator_attributes(remote: Named, operator: Operator, name: Attribute = None) -> None:
    """Show the attributes of an operator of a running application.

    Example: `ridgeline get-operator-attributes payments balances partitions`
    """
    path = f"/logicalPlan/operators/{quote(operator, safe='')}/attributes"
    show_values(remote, remote.connect().get(path, **_only("attributeName", name)))


def get_operator_properties(
    remote: Named,
    operator: Operator,
    name: Annotated[
        str | None,
        typer.Argument(
            metavar="[PROPERTY]",
            help="Only this one.",
            show_default=False,
            autocompletion=completing.properties,
        ),
    ] = None,
) -> None:
    """Show the properties of an operator of a running application. Secrets are masked.

    Example: `ridgeline get-operator-properties payments parse`
    """
    path = f"/logicalPlan/operators/{quote(operator, safe='')}/properties"
    show_values(remote, remote.connect().get(path, **_only("propertyName", name)))


def get_port_attributes(
    remote: Named,
    operator: Operator,
    port: Annotated[
        str,
        typer.Argument(metavar="PORT", help="One of its ports.", autocompletion=completing.ports),
    ],
    name: Attribute = None,
) -> None:
    """Show the attributes of a port of an operator, and those of its unifier.

    Example: `ridgeline get-port-attributes payments balances output`
    """
    path = f"/logicalPlan/operators/{quote(operator, safe='')}/ports/{quote(port, safe='')}"
    found = remote.connect().get(path)
    unifier = {f"unifier.{key}": value for key, value in found["unifierAttributes"].items()}
    attributes = {**found["attributes"], **unifier}
    if name is not None:
        if name not in attributes:
            raise CommandError(
                f"port `{operator}.{port}` has no attribute `{name}`; {did_you_mean(name, attributes)}"
            )
        attributes = {name: attributes[name]}
    show_values(remote, attributes)


def get_stack(
    remote: Named,
    container: Annotated[
        str,
        typer.Argument(
            metavar="CONTAINER", help="Its id; see `list-containers`.", autocompletion=completing.containers
        ),
    ],
) -> None:
    """Show where the thread of a container is: now, or as of its last heartbeat.

    Example: `ridgeline get-stack payments 0`
    """
    answer = remote.connect().get(f"/physicalPlan/containers/{quote(container, safe='')}/stackTrace")
    when = "now" if answer["fresh"] else f"as of its last heartbeat, {answer['lastHeartbeat']}"
    stack = answer["fresh"] or answer["stack"]
    text = f"container {answer['id']}, process {answer['pid']} on {answer['host']}, {when}:\n{stack}"
    none = f"container {answer['id']} has said nothing yet of where it is"
    remote.show(answer, lambda _width: [Text(text if stack else none)])


def _only(parameter: str, name: str | None) -> dict[str, str]:
    return {} if name is None else {parameter: name}


def show_values(remote: Named, values: Mapping[str, Any]) -> None:
    """Print names and values, one a line."""
    width = max(map(len, values), default=0)
    lines = [Text(f"{name:{width}}  {_text(value)}") for name, value in sorted(values.items())]
    remote.show(values, lambda _width: lines or [Text("there is none")])


def _text(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
