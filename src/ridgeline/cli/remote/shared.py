"""Shared by the commands about a running application: find it, and print its answers."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable

from rich.console import Console, RenderableType
from rich.table import Table
from rich.text import Text

from ridgeline.api.errors import RidgelineError
from ridgeline.api.support.masking import printable_json
from ridgeline.cli.errors import CommandError
from ridgeline.cli.output import Output, write
from ridgeline.cli.remote.client import Client
from ridgeline.service import registry

WIDE = 160
"""Columns where there is no terminal to fit in."""


def connect(app: str | None, token: str | None, *, store: str | None = None) -> Client:
    """A client of the application with this name, id or URL; of the only one if none is given.

    With a store a name is also looked for there.

    Raises CommandError.
    """
    if store is not None and app is not None and "://" not in app:
        from ridgeline.cli.applications.resolving import locate

        return locate(app, store).client(token)
    try:
        entry = registry.find(app or "")
    except RidgelineError as error:
        raise CommandError(str(error)) from None
    return Client(entry.url, entry.token or token)


def make_console() -> Console:
    """Where answers are printed to."""
    console = Output(highlight=False, emoji=False, markup=False)
    if not console.is_terminal:
        console.width = WIDE
    return console


def show(answer: object, draw: Callable[[int], Table | Iterable[RenderableType]], *, as_json: bool) -> None:
    """Print an answer: as JSON, as it came, or drawn for the width of the console."""
    if as_json:
        print_json(answer)
        return
    console = make_console()
    drawn = draw(console.width)
    for part in [drawn] if isinstance(drawn, Table) else drawn:
        console.print(part, soft_wrap=isinstance(part, Text) and not console.is_terminal)


def print_json(answer: object, *, indent: int | None = 2) -> None:
    """Print JSON for other programs: no colours, no wrapping."""
    write(printable_json(json.dumps(answer, indent=indent, ensure_ascii=False)))
