"""The command `ridgeline doctor`."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table
from rich.text import Text

from ridgeline.api.support.masking import printable
from ridgeline.api.support.option import Option
from ridgeline.cli.errors import FAILED, CommandError
from ridgeline.cli.output import Output, write

if TYPE_CHECKING:
    from ridgeline.cli.doctor.judging import Finding

_COLOURS = {"ok": "green", "warning": "yellow", "wrong": "bold red"}


@dataclass(frozen=True)
class Examined:
    """The things to look at."""

    master: Annotated[
        str | None, Option(metavar="URL", help="Spark's master, for `--cluster`: `spark://host:7077`.")
    ] = None
    checkpoint: Annotated[
        str | None, Option(metavar="DIR", help="Folder or URI that the run's state will be in.")
    ] = None
    conf: Annotated[
        Mapping[str, str],
        Option(
            metavar="KEY=VALUE",
            help="A setting of Spark: `--conf spark.executor.memory=4g`.",
            form="key=value",
            example="spark.executor.memory=4g",
        ),
    ] = field(default_factory=dict)


def doctor(
    examined: Examined,
    cluster: Annotated[
        bool, typer.Option("--cluster", help="Start Spark, and look at the hosts of its executors.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of text.")] = False,
) -> None:
    """Look for what would keep an application from running well, and say what to do.

    Java, Python, Spark, disk, memory, `/dev/shm`, limits, clock, network. With `--cluster` the same of all
    hosts, versions and clocks compared. An object store is asked to create a file twice.

    Example: `ridgeline doctor --cluster --master spark://host:7077 --checkpoint s3a://bucket/state`

    Exit codes: 0 nothing is wrong (there may be warnings), 1 something is wrong.
    """
    from ridgeline.api.support.files import is_local
    from ridgeline.cli.doctor import judging
    from ridgeline.engine.spark.submitted import chosen_master

    ports = examined.conf.get("spark.ridgeline.slots.ports", "")
    try:
        found = list(judging.examine(examined.checkpoint, ports))
    except ValueError as error:
        raise CommandError(
            f"`spark.ridgeline.slots.ports={ports}` is no range of ports; give `40000-40100`"
        ) from error
    if examined.checkpoint is not None and (one := judging.trusted(examined.checkpoint)) is not None:
        found.append(one)
    in_store = examined.checkpoint is not None and not is_local(examined.checkpoint)
    java = next(one for one in found if one.subject == "Java")
    if (cluster or in_store) and java.state == judging.OK:
        from ridgeline.cli.doctor import spark

        master = chosen_master(examined.master, examined.conf) if cluster else "local[1]"
        found += spark.examine(master, examined.conf, examined.checkpoint, hosts=cluster)
    _print(found, as_json=as_json)
    if any(one.state == judging.WRONG for one in found):
        raise typer.Exit(FAILED)


def _print(found: list[Finding], *, as_json: bool) -> None:
    """Print the findings: a line each, and what to do below those that are not ok."""
    if as_json:
        write(json.dumps([asdict(one) for one in found], indent=2))
        return
    table = Table.grid(padding=(0, 2))
    for one in found:
        subject = f"{one.host}: {one.subject}" if one.host else one.subject
        table.add_row(
            Text(one.state, _COLOURS[one.state]), Text(printable(subject)), Text(printable(one.found))
        )
        if one.remedy:
            table.add_row("", "", Text(printable(f"-> {one.remedy}"), "bold"))
    Output(highlight=False, emoji=False).print(table)
    counts = {state: sum(one.state == state for one in found) for state in _COLOURS}
    write(f"{counts['wrong']} wrong, {counts['warning']} warnings, {counts['ok']} ok")
