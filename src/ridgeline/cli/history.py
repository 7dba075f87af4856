"""`ridgeline history`: the page over event logs of runs that have ended."""

from __future__ import annotations

import threading
from typing import Annotated

from ridgeline.cli.errors import CommandError
from ridgeline.cli.grouping import option
from ridgeline.cli.output import write


def history(
    paths: list[str],
    *,
    port: Annotated[int, option(min=0, max=65535)] = 0,
    browser: Annotated[bool, option(called="--open")] = False,
) -> None:
    """Show runs that have ended in the page.

    From their event logs. It prints an address of this machine, and answers there until Ctrl-C. Of several
    runs it is a list. Nothing can be changed. A log that is still written is followed.

    Example: `ridgeline history logs`

    Exit codes: 0 ended by Ctrl-C, 2 there is no such log.

    Args:
        paths (DIR|FILE...): Event logs, as `ridgeline run --event-log FILE` writes them, or folders with
            them.
        port (PORT): The port to listen on; 0: a free one.
        browser: Open it in the browser of this machine.
    """
    from pathlib import Path

    from ridgeline.service.history.runs import Runs, is_log
    from ridgeline.service.history.web import serve

    found: list[Path] = []
    for path in paths:
        if not Path(path).exists():
            raise CommandError(
                f"there is no event log `{path}`; `ridgeline run APP --event-log {path}` writes one"
            )
        if not Path(path).is_dir() and not is_log(Path(path)):
            raise CommandError(f"event log `{path}` must end in `.jsonl` or `.json`")
        found.append(Path(path).resolve())
    runs = Runs(found)
    server = serve(runs, port)
    try:
        logs = list(runs.logs())
        address = f"{server.url}/run/{logs[0]}/" if len(logs) == 1 else f"{server.url}/"
        write(address)
        if browser:
            import webbrowser

            webbrowser.open(address)
        threading.Event().wait()
    except KeyboardInterrupt:
        pass
    finally:
        server.close()
