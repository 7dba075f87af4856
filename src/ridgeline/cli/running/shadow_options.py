"""The options of `ridgeline upgrade` about a version that runs beside the one at work."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import typer

from ridgeline.api.support.duration import parse_duration
from ridgeline.api.support.option import Option
from ridgeline.cli.errors import CommandError

_PANEL = "Shadow"


@dataclass(frozen=True, slots=True)
class Wanted:
    """The comparison: for how many `seconds`, whether to `accept` differences, which outputs to leave out."""

    seconds: float
    accept: bool = False
    leave_out: tuple[str, ...] = ()
    tolerance: float = 0.0


@dataclass(frozen=True, kw_only=True)
class ShadowOptions:
    """Whether and how the new version runs beside the old one first."""

    shadow: Annotated[
        str | None,
        Option(
            metavar="TIME",
            help="Before anything is changed, run APP beside for so long: on the same windows, from a copy "
            "of the state, publishing nothing. Outputs that differ are named, and no upgrade is made then.",
            panel=_PANEL,
        ),
    ] = None
    accept_differences: Annotated[
        bool, Option(help="With `--shadow`: make the upgrade though outputs differ.", panel=_PANEL)
    ] = False
    leave_out: Annotated[
        tuple[str, ...],
        Option(metavar="OUTPUT", help="With `--shadow`: do not compare this output.", panel=_PANEL),
    ] = ()
    tolerance: Annotated[
        float,
        typer.Option(
            min=0.0,
            metavar="T",
            help="With `--shadow`: how far floats may be apart, absolute or relative.",
            rich_help_panel=_PANEL,
        ),
    ] = 0.0

    def wanted(self) -> Wanted | None:
        """The comparison that is wanted; None for none. Raises CommandError for options that do not fit."""
        if self.shadow is None:
            given = {
                "--accept-differences": self.accept_differences,
                "--leave-out": self.leave_out,
                "--tolerance": self.tolerance,
            }
            if wrong := [option for option, value in given.items() if value]:
                raise CommandError(f"`{wrong[0]}` is about `--shadow`; give that too, or leave it out")
            return None
        try:
            seconds = parse_duration(self.shadow)
        except ValueError as error:
            raise CommandError(f"`--shadow`: {error}") from None
        if seconds <= 0:
            raise CommandError(f"`--shadow`: a time above zero is needed; got `{self.shadow}`")
        return Wanted(seconds, self.accept_differences, tuple(self.leave_out), self.tolerance)
