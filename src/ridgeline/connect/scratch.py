"""Scratch places at the other side: what `ridgeline prove` writes to, and removes again."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from ridgeline.api.errors import RidgelineError

if TYPE_CHECKING:
    from ridgeline.connect.window_output import WindowOutput

SCRATCH = "ridgeline_scratch_"
"""The names of all scratch places begin so."""


class Server(NamedTuple):
    """The server that an output talks to, if a relay can stand in between: host and port.

    Example:
        >>> from ridgeline.connect import Server
        >>> Server("127.0.0.1", 5432).port
        5432
    """

    host: str
    port: int


class ScratchPlace:
    """A topic, table or folder of a name that begins with `ridgeline_scratch_`, for one check of a proof.

    Its author makes it in the constructor, or lets the output make it. Rows have the columns of
    `ridgeline.testing.ConnectorRow`: `id`, `key`, `text`, `value`.

    Attributes:
        upserts: Rows with the same `key` replace each other, so that `rows` has the last of each.
        guarantee: What the output is to show: "exactly once" or "at least once".
        notes: How the output differs from the user's, a sentence each.
        server: Where the output connects to; None: a relay cannot stand in between.
        why_no_relay: Why there is no `server`.

    Example:
        >>> from ridgeline.connect import ScratchPlace
        >>> class Table(ScratchPlace):
        ...     upserts, why_no_relay = True, "it is in memory"
        ...
        ...     def rows(self):
        ...         return [(7, 2, "row 7", 3.5)]
        >>> Table().rows()
        [(7, 2, 'row 7', 3.5)]
    """

    upserts: bool = False
    guarantee: str = "exactly once"
    notes: Sequence[str] = ()
    server: Server | None = None
    why_no_relay: str = "its address is not known"

    def output(self, relay: int | None = None) -> WindowOutput:
        """Make the output operator, with the user's properties, that writes to the scratch place.

        `relay`: a port of 127.0.0.1 to connect to in place of `server`.
        """
        raise NotImplementedError

    def rows(self) -> Sequence[tuple[Any, ...]]:
        """Read the place as any reader would: `(id, key, text, value)` each; empty if it is not there."""
        raise NotImplementedError

    def poison(self) -> tuple[Any, ...] | None:
        """Return a row that the other side refuses; None: there is none."""
        return None

    def remove(self) -> None:
        """Remove the place and all that writing to it has left. It may be gone already."""


class NotProvableError(RidgelineError):
    """An output has no scratch place, so it cannot be proved against the user's server.

    Example:
        >>> from ridgeline.connect import NotProvableError
        >>> raise NotProvableError("ConsoleOutput")
        Traceback (most recent call last):
        ...
        ridgeline.connect.scratch.NotProvableError: `ConsoleOutput` cannot be proved: it has no scratch \
place; give its class a method `scratch`, or prove it in a test with a `ConnectorTarget` and \
`connector_checks`: docs/connectors/write-an-output.md
    """

    def __init__(self, kind: str) -> None:
        super().__init__(
            f"`{kind}` cannot be proved: it has no scratch place; give its class a method `scratch`, or "
            "prove it in a test with a `ConnectorTarget` and `connector_checks`: "
            "docs/connectors/write-an-output.md"
        )
