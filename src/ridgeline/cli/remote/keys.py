"""`ridgeline keys`: how the tuples of operators are spread over keys, and which keys are heavy."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any

import typer
from rich.table import Table
from rich.text import Text

from ridgeline.api.clock import SystemClock
from ridgeline.api.support.masking import printable
from ridgeline.cli import completing
from ridgeline.cli.errors import make_console
from ridgeline.cli.remote.options import Named

_ASK_AGAIN_SECONDS = 0.5
_ENOUGH_TUPLES = 1_000


def keys(
    remote: Named,
    operator: Annotated[
        str | None,
        typer.Argument(
            metavar="[OPERATOR]",
            help="Of this operator; without it of all that are divided by key.",
            autocompletion=completing.operators,
        ),
    ] = None,
    seconds: Annotated[
        float, typer.Option("--for", min=0, help="Watch the application for so long, in seconds.")
    ] = 5.0,
) -> None:
    """Say how tuples are spread over partitions by key, and which keys have the most.

    Keys are counted from the first time on that somebody asks, so it watches for a while. That ends a minute
    after the last time.

    Example: `ridgeline keys payments`
    """
    client = remote.connect()
    query = {} if operator is None else {"operator": operator}
    clock, answer = SystemClock(), client.get("/keys", **query)
    until = clock.monotonic() + seconds
    if seconds and _waits(answer):
        make_console().print(f"counting the keys of `{remote.app}` for {seconds:g} s ...", highlight=False)
        while clock.monotonic() < until:
            clock.wait(min(_ASK_AGAIN_SECONDS, max(0.0, until - clock.monotonic())))
        answer = client.get("/keys", **query)
    remote.show(answer, lambda _width: key_parts(answer))


def _waits(answer: Any) -> bool:
    return any(one["tuples"] < _ENOUGH_TUPLES for one in answer["operators"])


def key_parts(answer: Any) -> Iterator[Table | Text]:
    """For each operator how full its partitions are, and a table of its heavy keys."""
    if not answer["operators"]:
        yield Text("no operator is divided by key: none has several partitions and a key")
    for one in answer["operators"]:
        name = one["operator"]
        if one["imbalance"] is None:
            yield Text(printable(f"{name}: no tuples were counted yet"))
            continue
        shares = ", ".join(f"{share:.1%}" for share in one["byPartition"])
        shared = f"; {one['sharedCells']} cells are shared" if one["sharedCells"] else ""
        yield Text(
            printable(
                f"{name}: {one['tuples']:,} tuples by {one['partitioner']}{shared}; "
                f"the fullest partition has {one['imbalance']:.2f} times the mean: {shares}"
            )
        )
        table = Table(box=None, pad_edge=False)
        for column in ("key", "share", "±", "partitions"):
            table.add_column(column, overflow="fold")
        for key in one["heavy"]:
            cells = (key["key"], f"{key['share']:.2%}", f"{key['error']:.2%}")
            table.add_row(
                *(Text(printable(cell)) for cell in cells), Text(", ".join(map(str, key["partitions"])))
            )
        if one["heavy"]:
            yield table
        if one["fixed"]:
            yield Text(printable(f"nobody may divide it otherwise: {one['fixed']}"))
