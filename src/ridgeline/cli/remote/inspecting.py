"""The command that ends containers."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

from rich.text import Text

from ridgeline.cli.remote.options import Named


def kill_container(remote: Named, containers: list[str]) -> None:
    """End containers at once; others take their place.

    Spark starts them, and their windows run again. Containers that live in the same slot share its process,
    which is ended once. No result is lost or doubled, and it counts as no failure of an operator. `lines
    --stack` says before what a container does.

    Example: `ridgeline kill-container payments 3`

    Exit codes: 0 ended, 2 there is no such container, or it lives in no process of its own. Nothing is ended
    if one of several is not there.

    Args:
        remote: The application.
        containers (CONTAINER...): Ids; see `operators --containers`.
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
