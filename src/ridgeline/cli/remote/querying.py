"""The command that runs SQL over the streams of a running application."""

from __future__ import annotations

import contextlib
import json
from typing import TYPE_CHECKING, Annotated, Any

from rich.table import Table
from rich.text import Text

from ridgeline.cli.errors import CommandError
from ridgeline.cli.grouping import option
from ridgeline.cli.remote.options import Named
from ridgeline.cli.tables import folded
from ridgeline.service.columns import Column

if TYPE_CHECKING:
    from ridgeline.cli.remote.client import Client

_WAIT_SECONDS = 5
_PATIENCE_SECONDS = 40.0


def query(
    remote: Named,
    sql: str,
    *,
    every: str = "0",
    lasting: Annotated[str | None, option(called="--for")] = None,
    times: Annotated[int, option(min=0)] = 0,
    rows: Annotated[int, option(min=1, max=100000)] = 1000,
    seconds: Annotated[int, option(min=1, max=30)] = 1,
    memory_mb: Annotated[int, option(min=32)] = 256,
) -> None:
    """Run SQL over streams, and show its results.

    As they come, from a running application. The query is inserted as an operator and removed when the
    command ends. It cannot read files. Its errors end it and nothing else. With `--json` each row is an
    object on a line.

    Example: `ridgeline query quotes "select symbol, avg(price) from price group by symbol" --every 10s`

    Exit codes: 0 ended as asked or by Ctrl-C, 1 it failed while it ran, 2 the SQL is wrong.

    Args:
        remote: The application.
        sql: A SELECT; its tables are the names of streams.
        every (DURATION): How long a period is: `10s`; 0: a window.
        lasting (DURATION): End after so long.
        times (N): End after N results; 0: until Ctrl-C.
        rows (N): The most rows a result.
        seconds (SECONDS): The longest that the SQL may take.
        memory_mb (MB): The most memory it may take.
    """
    from ridgeline.cli.remote.change_request import who

    until = None if lasting is None else _seconds(lasting)
    client = remote.connect()
    body: dict[str, Any] = {"sql": sql, "every": every, "times": times, "rows": rows, "seconds": seconds}
    answer = client.post("/queries", patience=_PATIENCE_SECONDS, **body, memoryMb=memory_mb, who=who())
    _follow(client, answer["name"], until, as_json=remote.as_json)


def _follow(client: Client, name: str, until: float | None, *, as_json: bool) -> None:
    """Show results until the query ends, the time is over or the user interrupts; then end it."""
    from ridgeline.api.clock import SystemClock
    from ridgeline.api.errors import RidgelineError
    from ridgeline.cli.output import write
    from ridgeline.cli.remote import shared

    clock = SystemClock()
    deadline = None if until is None else clock.monotonic() + until
    console = shared.make_console()
    seen, ended = 0, False
    try:
        while not ended:
            left = _WAIT_SECONDS if deadline is None else deadline - clock.monotonic()
            if left <= 0:
                break
            answer = client.post(f"/queries/{name}/results", after=seen, wait=min(_WAIT_SECONDS, int(left)))
            for result in answer["results"]:
                if as_json and result["rows"]:
                    write("\n".join(json.dumps(row, ensure_ascii=False) for row in result["rows"]))
                elif not as_json:
                    for part in parts(result, result["number"] - seen - 1):
                        console.print(part, soft_wrap=isinstance(part, Text) and not console.is_terminal)
                seen = result["number"]
            ended = answer["ended"]
            if answer["error"]:
                raise RidgelineError(f"the query has ended: {answer['error']}")
            if not answer["results"] and not ended and left < 1:
                clock.wait(max(0.0, left))
    except KeyboardInterrupt:
        pass
    finally:
        _stop(client, name)


def _stop(client: Client, name: str) -> None:
    """End the query, if it is there still."""
    from ridgeline.api.errors import RidgelineError

    with contextlib.suppress(RidgelineError):  # it has ended, or the application has
        client.post(f"/queries/{name}/stop")


def parts(result: Any, lost: int) -> list[Table | Text]:
    """A result: which windows it is of and what it cost, and its rows."""
    head = (
        f"windows {result['firstWindow']} to {result['window']}: {result['tuples']:,} tuples, "
        f"{len(result['rows']):,} rows{' and more' if result['more'] else ''}, "
        f"{result['seconds'] * 1000:,.1f} ms, {result['bytes'] / 1000:,.1f} kB"
    )
    found: list[Table | Text] = [Text(head, style="dim")]
    if lost > 0:
        found.append(Text(f"{lost:,} results before it are lost: they were not read in time"))
    columns = []
    for name in result["columns"]:
        is_number = all(isinstance(row[name], (int, float, type(None))) for row in result["rows"])
        columns.append(Column(name, name, _cell, left=not is_number, unknown=""))
    return [*found, folded(columns, result["rows"])]


def _cell(value: Any) -> str:
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def _seconds(text: str) -> float:
    from ridgeline.api.support.duration import parse_duration

    try:
        return parse_duration(text)
    except ValueError as error:
        raise CommandError(str(error)) from None
