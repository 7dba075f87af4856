"""The options of a run that continues another one."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Annotated, TypedDict

from ridgeline.api.support.option import Option

_PANEL = "Continue from a checkpoint"


class ResumeOptions(TypedDict, total=False):
    """How a run continues from its checkpoint: `app.start`, `run_local` and the command take them by name."""

    reset_properties: Annotated[
        bool,
        Option(
            help="Forget the properties that `-D` gave to runs before, which the checkpoint keeps: take the "
            "application's own.",
            panel=_PANEL,
        ),
    ]
    reset_changes: Annotated[
        bool,
        Option(
            help="Forget the changes of the plan that were made while runs before ran, which the checkpoint "
            "keeps: take the application as it is written.",
            panel=_PANEL,
        ),
    ]
    drop_state: Annotated[
        Collection[str],
        Option(
            metavar="NAME",
            help="Go on without the state of an operator that the application has no more, or without one "
            "state of it: `operator.state`.",
            panel=_PANEL,
        ),
    ]
    rename: Annotated[
        Mapping[str, str] | None,
        Option(
            metavar="OLD=NEW",
            help="Give the state of the operator OLD of the run before to the operator NEW. Of one state: "
            "`operator.old=operator.new`.",
            panel=_PANEL,
            form="OLD=NEW",
            example="balances=accounts",
            filled=True,
        ),
    ]
    from_window: Annotated[
        int | None,
        Option(
            metavar="W",
            help="Start again from window W, which the checkpoint keeps; outputs take back what came after.",
            panel=_PANEL,
            minimum=0,
        ),
    ]
    region: Annotated[
        str | None,
        Option(
            metavar="NAME",
            help="The region that `--from-window` is of, where decoupled streams make several.",
            panel=_PANEL,
        ),
    ]


def refuse_others(function: str, given: ResumeOptions) -> None:
    """Raise TypeError for what is no option, as Python does: `given` are the keywords of a function."""
    for name in given.keys() - ResumeOptions.__annotations__.keys():
        raise TypeError(f"{function}() got an unexpected keyword argument '{name}'")
