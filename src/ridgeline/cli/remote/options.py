"""Options that commands about a running application share."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

from ridgeline.cli import completing
from ridgeline.cli.grouping import argument, option

if TYPE_CHECKING:
    from rich.console import RenderableType

    from ridgeline.cli.remote.change_request import ChangeSender
    from ridgeline.cli.remote.client import Client


Token = Annotated[
    str | None,
    option(
        "Bearer token, as shown when the application was started.", metavar="TOKEN", envvar="RIDGELINE_TOKEN"
    ),
]
Store = Annotated[
    str | None,
    option(
        "The store that applications were started with, to find one by its name on any host.",
        metavar="URL",
        envvar="RIDGELINE_STORE",
    ),
]
AsJson = Annotated[bool, option("Print JSON, as the web service answers it.", "--json")]


Draw: TypeAlias = Callable[[Any, int], Any]
"""Makes of an answer what rich prints, for a width."""


@dataclass(frozen=True, kw_only=True)
class Nearest:
    """A running application by its name, id or URL, or the only one; and how the answer is printed.

    It may run elsewhere: then by URL and token. `RIDGELINE_CA` names a file with the authorities of its TLS.

    Args:
        app: Name, id or URL of a running application. Not needed if only one runs; see `ps`.
    """

    app: Annotated[str | None, argument(autocompletion=completing.applications)] = None
    as_json: AsJson = False
    token: Token = None
    store: Store = None

    def connect(self) -> Client:
        """A client of the application. Raises CommandError."""
        from ridgeline.cli.remote import shared

        return shared.connect(self.app, self.token, store=self.store)

    def ask(self, path: str, draw: str | Draw, *, rows: str = "", none: str = "", **query: Any) -> None:
        """Ask a question, and print its answer: as JSON, or as `draw` makes it for a width.

        `draw`: or the name of a table in `service/tables.py`. `rows`: the member of the answer that is drawn;
        `none`: said where it is empty.
        """
        from rich.text import Text

        from ridgeline.cli.tables import drawn
        from ridgeline.service.tables import TABLES

        answer = self.connect().get(path, **query)
        shown = answer[rows] if rows else answer
        make: Draw = partial(drawn, TABLES[draw]) if isinstance(draw, str) else draw
        self.show(answer, lambda width: [Text(none)] if none and not shown else make(shown, width))

    def show(self, answer: object, draw: Callable[[int], Iterable[RenderableType]]) -> None:
        """Print an answer: as JSON, as it came, or drawn for the width of the console."""
        from ridgeline.cli.remote import shared

        shared.show(answer, draw, as_json=self.as_json)


@dataclass(frozen=True, kw_only=True)
class Named(Nearest):
    """A running application that must be named.

    Args:
        app: Name, id or URL of a running application.
    """

    app: Annotated[str, argument(autocompletion=completing.applications)] = field()


@dataclass(frozen=True, kw_only=True)
class Change(Named):
    """A running application that is asked for a change: why, and how long the command waits for it.

    Args:
        note (TEXT): Why; it is kept beside the change.
        no_wait: Return once the change is in the queue, before it is made.
        timeout (SECONDS): Wait so long for the change; it stays in the queue after that.
    """

    note: Annotated[str, option()] = ""
    no_wait: Annotated[bool, option()] = False
    timeout: Annotated[float, option(min=0)] = 60.0

    def sender(self) -> ChangeSender:
        """The sender of the change, which waits for it and prints its outcome. Raises CommandError."""
        return self.sender_to(self.connect())

    def sender_to(self, client: Client) -> ChangeSender:
        """As `sender`, by this client."""
        from ridgeline.cli.remote.change_request import ChangeSender

        return ChangeSender(client, self.app, self.no_wait, self.timeout, self.as_json)
