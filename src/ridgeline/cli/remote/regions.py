"""The commands about the regions of a running application."""

from __future__ import annotations

from typing import Annotated
from urllib.parse import quote

import typer
from rich.text import Text

from ridgeline.cli.remote.options import Named, Nearest

Region = Annotated[str, typer.Argument(metavar="REGION", help="Name of the region; see `regions`.")]
_PATIENCE = 40


def regions(remote: Nearest) -> None:
    """List the regions that decoupled streams make of an application, and the queues between them.

    Example: `ridgeline regions quotes`
    """
    from ridgeline.cli.views.regions import regions_parts

    answer = remote.connect().get("/regions")
    none = Text("the application is one region: no stream is decoupled")
    remote.show(answer, lambda width: regions_parts(answer, width) if answer["regions"] else [none])


def status(remote: Nearest) -> None:
    """Say in a sentence whether an application keeps up, how old records are, and who is to blame.

    Example: `ridgeline status quotes`
    """
    from ridgeline.cli.views.verdict import sentence_text

    answer = remote.connect().get("/sentence")
    remote.show(answer, lambda _width: [sentence_text(answer)])


def stop_region(remote: Named, region: Region) -> None:
    """End one region after the windows under way; queues keep what comes for it, and others continue.

    Example: `ridgeline stop-region quotes store`

    Exit codes: 0 it has ended, or will soon, 2 there is no such region, or it does not run.
    """
    _act(remote, region, "stop")


def start_region(remote: Named, region: Region) -> None:
    """Start a region from its checkpoint, once it has failed or was stopped.

    Example: `ridgeline start-region quotes store`

    Exit codes: 0 it has started, or will soon, 2 there is no such region, or it runs.
    """
    _act(remote, region, "start")


def _act(remote: Named, region: str, verb: str) -> None:
    answer = remote.connect().post(f"/regions/{quote(region, safe='')}/{verb}", wait=30, patience=_PATIENCE)
    why = f": {answer['error']}" if answer["error"] else ""
    line = Text(f"region {answer['name']} is {answer['state'].lower()}{why}")
    remote.show(answer, lambda _width: [line])
