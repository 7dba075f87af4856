"""The commands about promises and decisions: `ridgeline promises`, `alert-rules`, `decisions`."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Table
from rich.text import Text

from ridgeline.api.support.masking import printable
from ridgeline.cli.errors import CommandError
from ridgeline.cli.remote.options import Elsewhere, Named, Nearest
from ridgeline.measure.wording.units import time_of_day

if TYPE_CHECKING:
    from ridgeline.measure.deciding.figures import PromiseState
    from ridgeline.sla import Promise


def promises(remote: Nearest) -> None:
    """Show what the application has promised: kept or broken, since when, and how long it was broken.

    Example: `ridgeline promises payments`
    """
    answer = remote.connect().get("/promises")
    rows = answer["promises"]
    none = Text("the application promises nothing")
    why = [Text(printable(f"{row['promise']}: {row['reason']}")) for row in rows if row["reason"]]
    remote.show(answer, lambda _width: [_table(rows) if rows else none, *why])


def alert_rules(
    where: Elsewhere,
    target: Annotated[
        str,
        typer.Argument(
            metavar="APP|FILE",
            help="A running application (name, id or URL), or a file with one, such as `payments.py`.",
            show_default=False,
        ),
    ],
    wait: Annotated[
        str,
        typer.Option("--for", metavar="TIME", help="How long something has to be so before an alert fires."),
    ] = "1m",
) -> None:
    """Write alert rules for Prometheus, as YAML.

    For each promise one that fires while it is broken. And for every application: its driver is gone, the run
    has failed, it is stuck, commits nothing, or has fewer slots than it wants.

    Example: `ridgeline alert-rules payments > rules.yaml`
    """
    import yaml

    from ridgeline.cli.output import write
    from ridgeline.sla import alert_rules as rules_of

    of_file = where.url is None and "://" not in target and Path(target.partition(":")[0]).is_file()
    if re.fullmatch(r"(\d+(ms|[smhdwy]))+", wait) is None:
        raise CommandError(f"`--for {wait}` is no duration of Prometheus; give `30s`, `1m` or `1h30m`")
    name, width, found = _of_file(target) if of_file else _of_running(target, where)
    made = rules_of(name, found, window_seconds=width, wait=wait)
    write(yaml.safe_dump(made, sort_keys=False, allow_unicode=True).rstrip())


def _of_file(target: str) -> tuple[str, float, Sequence[Promise]]:
    """Name, width of windows and promises of an application in a file. Raises RidgelineError."""
    from ridgeline.cli.load import load_application
    from ridgeline.plan.validation import validate

    logical = validate(load_application(target))
    return logical.application, logical.window_seconds, logical.promises


def _of_running(target: str, where: Elsewhere) -> tuple[str, float, Sequence[PromiseState]]:
    """Name, width of windows and promises of a running application."""
    from ridgeline.measure.deciding.figures import PromiseState

    client = where.connect_to(target)
    names = {"name": "promise", "kind": "kind", "operator": "operator", "kept": "kept", "since": "since"}
    names |= {"figure": "figure", "limit": "limit", "unit": "unit"}
    rows = client.get("/promises")["promises"]
    found = [PromiseState(**{ours: row[theirs] for ours, theirs in names.items()}) for row in rows]
    info = client.get("/info")
    return info["name"], info["windowSeconds"], found


def _table(rows: Iterable[Any]) -> Table:
    """A line for each promise."""
    from ridgeline.api.policy import side
    from ridgeline.measure.wording.units import duration, time_of_day

    table = Table(box=None, pad_edge=False)
    for name in ("promise", "", "since", "figure", "promised", "budget", "broken", "times"):
        table.add_column(name, overflow="fold")
    words = {True: Text("kept", "green"), False: Text("BROKEN", "bold red"), None: Text("unknown", "dim")}
    for row in rows:
        figure = "" if row["figure"] is None else f"{row['figure']:.3g} {row['unit']}"
        table.add_row(
            Text(row["promise"]),
            words[row["kept"]],
            Text(time_of_day(row["since"])),
            Text(figure),
            Text(f"{side(row['kind'])} {row['limit']:g} {row['unit']}"),
            Text("" if row["budgetLeft"] is None else f"{row['budgetLeft']:.0%}"),
            Text(duration(row["brokenSeconds"])),
            Text(str(row["timesBroken"])),
        )
    return table


def decisions(remote: Named) -> None:
    """List what policies and listeners have decided in this run, why, and what came of it.

    Example: `ridgeline decisions payments`
    """
    answer = remote.connect().get("/decisions")
    rows = answer["decisions"]
    none = [Text("no policy and no listener has decided on a change in this run")]
    remote.show(answer, lambda _width: decision_parts(rows) if rows else none)


def decision_parts(rows: Iterable[Any]) -> Iterator[Table | Text]:
    """A table with a line for each decision; then why, and what came of it."""
    table = Table(box=None, pad_edge=False)
    for name in ("id", "state", "at", "by", "what"):
        table.add_column(name, overflow="fold")
    notes: list[Text] = []
    for row in rows:
        cells = (row["id"], row["state"], time_of_day(row["at"]), row["by"], row["what"])
        table.add_row(*(Text(printable(str(cell))) for cell in cells))
        undone = f"takes decision {row['undoes']} back; " if row["undoes"] is not None else ""
        lines = [f"{row['id']}: {undone}{row['note']}", row["found"] or row["expected"]]
        notes.append(Text(printable("; ".join(line for line in lines if line))))
    yield table
    yield from notes
