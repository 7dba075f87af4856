"""The commands about single containers and physical operators."""

from __future__ import annotations

from typing import Annotated, Any
from urllib.parse import quote

import typer
from rich.text import Text

from ridgeline.cli import completing
from ridgeline.cli.errors import CommandError
from ridgeline.cli.remote.changing import DryRun
from ridgeline.cli.remote.options import Change, Named


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


OperatorId = Annotated[
    int,
    typer.Argument(
        metavar="ID",
        min=0,
        help="Id of a physical operator; see `list-operators`.",
        autocompletion=completing.physical_operators,
    ),
]


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
