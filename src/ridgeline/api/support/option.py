"""Options of a run, written once: the command line, `app.start` and the engine read the same groups."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Option:
    """How the command line shows a field: `windows: Annotated[int | None, Option(metavar="N", help="...")]`.

    Where it has no help, the docstring of its group has it, with the metavar: `windows (N): How many.`

    Its type says what it takes: a flag for `bool`, several values for a collection, `NAME=VALUE` for a
    mapping. `name`: without it the field's own. `panel`: the title that `--help` lists it under; "": the
    options that most runs need. `form` and `example`: of a mapping's entries, for errors; `filled`: an entry
    needs a value. `repeated`: the command that continues the run has it again. `setting`: mostly a
    configuration file or its variable says it, so no help of a command has it.
    """

    help: str = ""
    metavar: str | None = None
    name: str = ""
    panel: str = ""
    minimum: int | None = None
    maximum: int | None = None
    variable: str | None = None
    form: str = ""
    example: str = ""
    filled: bool = False
    repeated: bool = True
    setting: bool = False


def taken(group: Any, given: Mapping[str, Any]) -> dict[str, Any]:
    """The given values that are fields of a group, by name."""
    return {name: given[name] for name in group.__annotations__ if name in given}
