"""The commands that record tuples of a running application, and show what was recorded."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table
from rich.text import Text

from ridgeline.cli import completing
from ridgeline.cli.errors import CommandError
from ridgeline.cli.grouping import argument, command, option
from ridgeline.cli.remote.options import Named
from ridgeline.cli.tables import folded
from ridgeline.service.columns import words


@dataclass(frozen=True, kw_only=True)
class Recorded(Named):
    """A running application with recordings, or its checkpoint.

    Args:
        app: Name, id or URL of a running application, or a checkpoint folder.
    """

    app: Annotated[str, argument(autocompletion=completing.applications)] = field()


def start_recording(
    remote: Named,
    operator: str,
    port: str | None = None,
    *,
    windows: Annotated[int, option(min=1)] = 1000,
    max_mb: Annotated[int, option(min=1)] = 64,
) -> None:
    """Record the tuples of an operator's ports, from the next window on, in files of Parquet.

    Only committed windows are recorded, on all partitions. Secrets are masked.

    Example: `ridgeline record start quotes parse output --windows 20`

    Args:
        remote: The application.
        operator: Name of an operator, as in the plan.
        port: One of its ports. Default: all that are connected.
        windows (N): End after N windows.
        max_mb (MB): End before a port has more megabytes.
    """
    client = remote.connect()
    answer = client.post("/recordings", operator=operator, port=port, windows=windows, maxMb=max_mb)
    remote.show(answer, lambda _width: [_changed(answer, "is recorded from")])


def stop_recording(remote: Named, recording: str) -> None:
    """End a recording before the next window.

    Example: `ridgeline record stop quotes recording_1`

    Args:
        remote: The application.
        recording: Its id; see `record list`.
    """
    from urllib.parse import quote

    client = remote.connect()
    answer = client.post(f"/recordings/{quote(recording, safe='')}/stop")
    remote.show(answer, lambda _width: [_changed(answer, "ends before")])


def listed(remote: Named) -> None:
    """List the recordings of an application's checkpoint.

    Example: `ridgeline record list quotes`
    """
    none = "nothing was recorded; `ridgeline record start APP OPERATOR` begins it"
    remote.ask("/recordings", _recordings, rows="recordings", none=none)


def show(
    remote: Recorded, recording: str, port: str | None = None, *, limit: Annotated[int, option(min=1)] = 20
) -> None:
    """Show the tuples of a recording; each with its window, partition and position there.

    Example: `ridgeline record show quotes recording_1 output --limit 100`

    Args:
        remote: The application.
        recording: Its id; see `record list`.
        port: One of its ports. Default: all that are connected.
        limit (N): Only the last N tuples of a port.
    """
    from ridgeline.service import recorded

    try:
        if Path(remote.app).is_dir():
            folder = recorded.folder_in(remote.app, recording)
        else:
            folder = recorded.folder_of(remote.connect().get("/recordings")["recordings"], recording)
        ports = recorded.plain(recorded.read(folder, port, limit))
    except KeyError as unknown:
        raise CommandError(unknown.args[0]) from None
    answer = {"recording": recording, "folder": folder, "ports": ports}
    remote.show(answer, lambda _width: _tuples(ports))


def _changed(answer: Any, what: str) -> Text:
    if answer["state"] == "QUEUED":
        return Text(f"{answer['what']}: waits for the next window")
    return Text(f"{answer['result']}: {what} window {answer['window']}")


_RECORDINGS = (
    words("id", "id"),
    words("operator", "operator"),
    words("ports", "ports", ", ".join),
    words("state", "state"),
    words("from", "firstWindow"),
    words("before", "endWindow"),
    *(words(name, name) for name in ("windows", "tuples", "bytes", "reason")),
)


def _recordings(rows: Iterable[Any], _width: int) -> Table:
    """A table with a line for each recording."""
    return folded(_RECORDINGS, rows)


def _tuples(ports: dict[str, list[dict[str, Any]]]) -> Iterable[Text | Table]:
    for port, rows in ports.items():
        yield Text(f"{port}: {len(rows)} tuples shown" if rows else f"{port}: no tuples", "bold")
        if rows:
            yield folded([words(name, name, unknown="None") for name in rows[0]], rows)


record = typer.Typer(help="Record tuples of its ports, and show them.", no_args_is_help=True)
record.command("start")(command(start_recording))
record.command("stop")(command(stop_recording))
record.command("list")(command(listed))
record.command("show")(command(show))
