"""`ridgeline checkpoints`: from where a run can start again."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from ridgeline.cli.errors import CommandError
from ridgeline.cli.output import write


def checkpoints(
    folder: Annotated[
        str, typer.Argument(metavar="DIR", help="What `--checkpoint` was given.", show_default=False)
    ],
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of text.")] = False,
) -> None:
    """List the windows that a checkpoint on a local disk keeps: `ridgeline run --from-window W`.

    Their state files are checked. A driver may be at work in the folder.

    Example: `ridgeline checkpoints state`
    """
    from ridgeline.api.support.files import is_local, local_path
    from ridgeline.engine.driver.checkpoint.rewinding import look
    from ridgeline.engine.files.storage import LocalStorage, explain

    if not is_local(folder):
        msg = f"`{folder}` is not on a local disk; give a path"
        raise CommandError(msg)
    path = local_path(folder)
    try:
        found = look(LocalStorage(path))
    except OSError as error:
        raise CommandError(explain(path, error)) from error
    rows = [{"window": one.window_id, "rewound_to": one.rewound_to, "ended": one.ended} for one in found]
    if as_json:
        write(json.dumps(rows))
        return
    for row in rows:
        notes = ["all inputs had finished"] if row["ended"] else []
        notes += [] if row["rewound_to"] is None else [f"repeats window {row['rewound_to']}"]
        write(f"{row['window']}  {', '.join(notes)}".rstrip())
