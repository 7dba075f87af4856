"""The command `ridgeline cost`."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table
from rich.text import Text

from ridgeline.api.support.masking import printable
from ridgeline.cli.costs.usage import Cost, Usage, of_metrics
from ridgeline.cli.errors import CommandError
from ridgeline.cli.remote.options import Elsewhere


def cost(
    where: Elsewhere,
    target: Annotated[
        str,
        typer.Argument(
            metavar="APP|FILE",
            help="A running application (name, id or URL), or an event log.",
            show_default=False,
        ),
    ],
    price: Annotated[
        float | None,
        typer.Option("--price", min=0, metavar="N", help="Money for a core for an hour.", show_default=False),
    ] = None,
    currency: Annotated[str, typer.Option("--currency", metavar="NAME", help="Its currency.")] = "EUR",
    extra_cores: Annotated[
        float,
        typer.Option(
            "--extra-cores",
            min=0,
            metavar="N",
            help="Cores beside the slots: one for the driver, one that Spark keeps for its own jobs.",
        ),
    ] = 2.0,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of text.")] = False,
) -> None:
    """Say what a run costs: core seconds, in all and by operator, and with a price money.

    Cores that were held are divided among operators by the processor time of each.

    Example: `ridgeline cost run.jsonl --price 0.04`

    Exit codes: 0 done, 1 the log is damaged, 2 there is no such log or application.
    """
    from ridgeline.cli.remote.shared import print_json

    of_log = (
        where.url is None and "://" not in target and Path(target).suffix in {".json", ".jsonl", ".parquet"}
    )
    usage = _of_log(target) if of_log else _of_running(target, where)
    found = usage.cost(extra_cores, price)
    if as_json:
        print_json({**asdict(found), "currency": None if price is None else currency})
    else:
        _print(found, currency)


def _of_log(path: str) -> Usage:
    """The usage of a run by its event log. Raises CommandError, RidgelineError."""
    from ridgeline.cli.errors import make_console
    from ridgeline.engine.files.rotation import earlier
    from ridgeline.service.event_log import NoRunError, read_run

    if not Path(path).exists() and not earlier(Path(path)):
        raise CommandError(
            f"there is no event log `{path}`; `ridgeline run APP --event-log {path}` writes one"
        )
    usage = Usage()
    try:
        for event in read_run(path, make_console().print):
            usage.apply(event)
    except NoRunError as error:
        raise CommandError(str(error)) from None
    usage.close()
    return usage


def _of_running(target: str, where: Elsewhere) -> Usage:
    """The usage of a running application by its metrics. Raises CommandError, RidgelineError."""
    from prometheus_client.parser import text_string_to_metric_families

    from ridgeline.api.clock import SystemClock

    client = where.connect_to(target)
    families = text_string_to_metric_families(client.metrics())
    samples = [(one.name, one.labels, one.value) for family in families for one in family.samples]
    return of_metrics(samples, SystemClock().wall())


def _print(found: Cost, currency: str) -> None:
    """Print the whole, then a line for each operator."""
    from ridgeline.cli.remote.shared import make_console
    from ridgeline.cli.running.summary import say
    from ridgeline.measure.wording.units import count, duration

    money = "" if found.money is None else f", {found.money:,.4g} {currency}"
    held = f"{found.core_seconds:,.1f} core seconds in {duration(found.seconds)}{money}"
    whole = f"{found.application}: {held}; operators used {found.cpu_seconds:,.1f}"
    table = Table(box=None, pad_edge=False)
    priced = found.money is not None
    titles = ["operator", "cpu s", "core s", "records", "core s/million"]
    titles += [currency, f"{currency}/million"] if priced else []
    for number, title in enumerate(titles):
        table.add_column(title, justify="left" if number == 0 else "right")
    for row in found.operators:
        cells = [row.operator, f"{row.cpu_seconds:,.2f}", f"{row.core_seconds:,.2f}", count(row.records)]
        cells.append(_number(row.per_million))
        cells += [_number(row.money), _number(row.money_per_million)] if priced else []
        table.add_row(*(Text(printable(cell)) for cell in cells))
    console = make_console()
    say(console, Text(printable(whole)))
    say(console, table)


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:,.3g}"
