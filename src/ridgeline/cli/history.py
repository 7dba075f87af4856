"""`ridgeline history`: the page over event logs of runs that have ended."""

from __future__ import annotations

import threading
from typing import Annotated

import typer

from ridgeline.cli.errors import CommandError
from ridgeline.cli.output import write
from ridgeline.cli.remote.options import Elsewhere

Logs = Annotated[
    list[str],
    typer.Argument(
        metavar="DIR|FILE...",
        help="Event logs, as `ridgeline run --event-log FILE` writes them, bundles, or folders with them.",
        show_default=False,
    ),
]
Port = Annotated[
    int, typer.Option(min=0, max=65_535, metavar="PORT", help="The port to listen on; 0: a free one.")
]
Open = Annotated[bool, typer.Option("--open", help="Open it in the browser of this machine.")]


def history(paths: Logs, port: Port = 0, browser: Open = False) -> None:
    """Show runs that have ended in the page of applications, from their event logs.

    It prints an address of this machine, and answers there until Ctrl-C. Of several runs it is a
    list. Nothing can be changed. A log that is still written is followed. Lines that operators
    printed are in bundles only. With one, the address opens a session once, which may see them.

    Example: `ridgeline history logs`

    Exit codes: 0 ended by Ctrl-C, 2 there is no such log.
    """
    from pathlib import Path

    from ridgeline.service.history.listing import is_log
    from ridgeline.service.history.runs import Runs
    from ridgeline.service.history.web import serve

    found: list[Path] = []
    for path in paths:
        if not Path(path).exists():
            raise CommandError(
                f"there is no event log `{path}`; `ridgeline run APP --event-log {path}` writes one"
            )
        if not Path(path).is_dir() and not is_log(Path(path)):
            raise CommandError(
                f"event log `{path}` must end in `.jsonl`, `.json` or `.parquet`, a bundle in `.zip`"
            )
        found.append(Path(path).resolve())
    runs = Runs(found)
    server = serve(runs, port)
    try:
        logs = list(runs.logs())
        address = f"{server.url}/run/{logs[0]}/" if len(logs) == 1 else f"{server.url}/"
        if any(log.path.suffix == ".zip" for log in runs.logs().values()):
            address += f"#code={server.code()}"
        write(address)
        if browser:
            import webbrowser

            webbrowser.open(address)
        threading.Event().wait()
    except KeyboardInterrupt:
        pass
    finally:
        server.close()


def bundle(
    where: Elsewhere,
    app: Annotated[
        str | None,
        typer.Argument(
            metavar="[APP|LOG]",
            help="Name, id or URL of a running application, or an event log of one that has ended.",
            show_default=False,
        ),
    ] = None,
    output: Annotated[
        str | None,
        typer.Option(
            "--output",
            "-o",
            metavar="FILE",
            help="The bundle, `.zip`; default: name and time of the application, in this folder.",
            show_default=False,
        ),
    ] = None,
    windows: Annotated[
        int,
        typer.Option(min=0, max=1_000, metavar="N", help="Of so many of the last windows all is kept."),
    ] = 100,
) -> None:
    """Write all that is known of an application into one file, which `ridgeline history` opens anywhere.

    It has the plan, configuration, windows, histories, marks, decisions, stacks, lines of code, checkpoints
    and versions, as the web service answers them. Secrets are masked. No tuples are in it, but for those that
    failed. The file is readable for you alone.

    Example: `ridgeline bundle quotes -o ticket.zip`

    Exit codes: 0 done, 1 it cannot be had or written, 2 there is no such application or log.
    """
    from ridgeline.cli.remote.bundling import bundle as make

    make(app, output, windows, where)
