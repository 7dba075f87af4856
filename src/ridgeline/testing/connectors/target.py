"""The place at the other side that an author gives to the conformance tests, and their report."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from ridgeline.connect.window_output import WindowOutput


class ConnectorRow(NamedTuple):
    """The rows that the conformance tests write. `id` is unique; `key` has five values.

    Example:
        >>> from ridgeline.testing import ConnectorRow
        >>> ConnectorRow(id=7, key=2, text="row 7", value=3.5)._replace(text=None)
        ConnectorRow(id=7, key=2, text=None, value=3.5)
    """

    id: int
    key: int
    text: str | None
    value: float


class ConnectorTarget:
    """A place at the other side for one check, with nothing in it: a table, a topic, a folder.

    `upserts`: rows with the same `key` replace each other, so that `rows` has the last of each.
    `application`: the name of the applications that write, which outputs may use at the other side.
    `why_not_down`: why `down` cannot.

    Example:
        >>> from ridgeline.testing import ConnectorTarget
        >>> class Table(ConnectorTarget):
        ...     upserts = True
        ...
        ...     def rows(self):
        ...         return [(7, 2, "row 7", 3.5)]
    """

    upserts: bool = False
    application: str = "conformance"
    why_not_down: str = "it cannot be made unavailable"

    def output(self) -> WindowOutput:
        """Make the output operator; called for each start of the application."""
        raise NotImplementedError

    def rows(self) -> Sequence[Any]:
        """Read the other side as any reader would: tuples as `ConnectorRow`, in any order."""
        raise NotImplementedError

    def poison(self) -> ConnectorRow | None:
        """Return a row that the other side refuses; None: there is none."""
        return None

    def down(self) -> bool:
        """Make the other side unavailable. False: it cannot, and the check is skipped."""
        return False

    def up(self) -> None:
        """Make the other side available again, after `down`."""

    def close(self) -> None:
        """Let go of it at the end of a check."""


class Outcome(NamedTuple):
    """The result of a check. `fault` is "" if it held. `kind`: "exact", "repeats" or "none".

    `skipped`: why it was not run; "" if it was. `twice`: which rows were there twice, in words.
    """

    check: str
    fault: str
    kind: str
    skipped: str = ""
    twice: str = "rows twice"

    @property
    def text(self) -> str:
        """In words."""
        held = f"held, with {self.twice}" if self.kind == "repeats" else "held"
        return f"skipped: {self.skipped}" if self.skipped else self.fault or held


class ConnectorReport:
    """The result of the conformance tests of a connector; its text has a line for each check.

    `guarantee`: "exactly once", or "at least once" if a check found rows twice and none lost, or "none".
    `faults`: what went wrong, a line for each check.

    Example:
        >>> from ridgeline.testing.connectors.target import ConnectorReport, Outcome
        >>> report = ConnectorReport([Outcome("kill after write", "", "exact")])
        >>> print(report)
        exactly once, shown by 1 check
          kill after write: held
    """

    def __init__(self, outcomes: Sequence[Outcome]) -> None:
        self.outcomes = tuple(outcomes)

    @property
    def faults(self) -> list[str]:
        """A line for each check that did not hold."""
        return [f"{one.check}: {one.fault}" for one in self.outcomes if one.fault]

    @property
    def guarantee(self) -> str:
        """The guarantee that all checks together have shown."""
        kinds = {one.kind for one in self.outcomes if not one.skipped}
        if "none" in kinds or not kinds:
            return "none"
        return "at least once" if "repeats" in kinds else "exactly once"

    def __str__(self) -> str:
        count = sum(not one.skipped for one in self.outcomes)
        head = f"{self.guarantee}, shown by {count} check{'' if count == 1 else 's'}"
        return "\n".join([head, *(f"  {one.check}: {one.text}" for one in self.outcomes)])
