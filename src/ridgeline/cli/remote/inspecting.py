"""The commands about attributes, properties and stacks, of logical and of physical operators."""

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
from ridgeline.cli.remote.changing import DryRun
from ridgeline.cli.remote.options import Change, Named, Operator

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


OperatorId = Annotated[
    int,
    typer.Argument(
        metavar="ID",
        min=0,
        help="Id of a physical operator; see `list-operators`.",
        autocompletion=completing.physical_operators,
    ),
]


def get_physical_operator_properties(
    remote: Named,
    operator: OperatorId,
    name: Annotated[
        str | None, typer.Argument(metavar="[PROPERTY]", help="Only this one.", show_default=False)
    ] = None,
) -> None:
    """Show the properties of a physical operator, by its id. They are alike in all partitions.

    Example: `ridgeline get-physical-operator-properties payments 3 limit`
    """
    client = remote.connect()
    logical = quote(_logical_name(client, operator), safe="")
    only = {} if name is None else {"propertyName": name}
    show_values(remote, client.get(f"/logicalPlan/operators/{logical}/properties", **only))


def set_physical_operator_property(
    remote: Change,
    operator: OperatorId,
    name: Annotated[str, typer.Argument(metavar="PROPERTY", help="Its property.", show_default=False)],
    value: Annotated[
        str, typer.Argument(metavar="VALUE", help="Its value, as `-D` takes it.", show_default=False)
    ],
    dry_run: DryRun = False,
) -> None:
    """Give a property of a physical operator a value, by its id, where it is the only partition.

    Partitions have the same properties: `set-operator-property` sets those of all.

    Example: `ridgeline set-physical-operator-property payments 3 limit 500`

    Exit codes: 0 committed, 1 not made in time, 2 refused: nothing is changed.
    """
    from ridgeline.plan.edits import SetProperty, edit_to_json

    client = remote.connect()
    logical = _logical_name(client, operator)
    rows = client.get("/physicalPlan/operators")["operators"]
    alike = [row for row in rows if row["logicalName"] == logical and not row["unifierClass"]]
    if len(alike) != 1:
        raise CommandError(
            f"operator {operator} is one of {len(alike)} partitions of `{logical}`, whose properties are "
            f"alike; `set-operator-property {remote.app} {logical} {name} VALUE` sets that of all"
        )
    remote.sender().change([edit_to_json(SetProperty(logical, name, value))], remote.note, dry_run=dry_run)


def kill_container(
    remote: Named,
    containers: Annotated[
        list[str],
        typer.Argument(
            metavar="CONTAINER...", help="Ids; see `list-containers`.", autocompletion=completing.containers
        ),
    ],
) -> None:
    """End the processes of containers at once. Spark starts others, and their windows run again.

    Containers that live in the same slot share its process, which is ended once. No result is lost or
    doubled, and it counts as no failure of an operator. `get-stack` says before what a container does.

    Example: `ridgeline kill-container payments 3`

    Exit codes: 0 ended, 2 there is no such container, or it lives in no process of its own. Nothing is ended
    if one of several is not there.
    """
    client = remote.connect()
    paths = [f"/physicalPlan/containers/{quote(one, safe='')}" for one in containers]
    ids = [client.get(path)["id"] for path in paths]
    answers: list[Any] = []
    for number, path in zip(ids, paths, strict=True):
        if not any(number in one["containers"] for one in answers):
            answers.append(client.post(f"{path}/kill"))
    lines = [
        f"container {one['id']}: process {one['pid']} on `{one['host']}` is ended, with the containers "
        f"{', '.join(map(str, one['containers']))}"
        for one in answers
    ]
    remote.show({"killed": answers}, lambda _width: map(Text, lines))


def _logical_name(client: Any, operator: int) -> str:
    """The name of the logical operator of a physical one. Raises CommandError for a unifier."""
    row = client.get(f"/physicalPlan/operators/{operator}")
    if row["unifierClass"]:
        what = f"operator {operator}, `{row['operator']}`, is a unifier, which has no properties"
        raise CommandError(f"{what}; give the id of a partition: see `list-operators`")
    return str(row["logicalName"])
