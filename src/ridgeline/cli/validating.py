"""The command `validate`: an application is checked without starting anything, also against a checkpoint."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ridgeline.cli.configuration import Configured, Written, load_configured
from ridgeline.cli.errors import NOT_VALID, CommandError
from ridgeline.cli.grouping import option
from ridgeline.cli.options import assignments
from ridgeline.cli.output import answer

if TYPE_CHECKING:
    from ridgeline.engine.driver.checkpoint.planning import Planner
    from ridgeline.engine.driver.checkpoint.resuming import ResumeOptions
    from ridgeline.plan.change.state_moves import StateVerdict
    from ridgeline.plan.execution import Plan


def validate(
    context: typer.Context,
    written: Written,
    *,
    against: str | None = None,
    drop_state: list[str] | None = None,
    rename: list[str] | None = None,
    as_json: Annotated[bool, option(called="--json")] = False,
) -> None:
    """Check an application without starting anything.

    All faults at once, each with its remedy. With `--against` each state of a checkpoint is listed: it is
    kept, converted, moved, dropped, ended or refused, and why.

    Example: `ridgeline validate payments.py -D payments.per_window=0`

    Exit codes: 0 valid, 2 not valid, or a state would be refused.

    Args:
        context: That of the command.
        written: The application.
        against (DIR): Say what would become of each state of this checkpoint if the application started with
            it. An application may run with it meanwhile.
        drop_state (NAME): As `run` takes it, with `--against`.
        rename (OLD=NEW): As `run` takes it, with `--against`.
        as_json: Print JSON instead of text.
    """
    from ridgeline.measure.wording.units import plural
    from ridgeline.plan.show.notes import order_notes
    from ridgeline.plan.validation import validate as validate_application

    renamed = assignments("--rename", rename or (), "OLD=NEW", "balances=accounts", filled=True)
    resume: ResumeOptions = {"drop_state": tuple(drop_state or ()), "rename": renamed}
    if against is None and (drop_state or renamed):
        option = "--drop-state" if drop_state else "--rename"
        raise CommandError(f"`{option}` has no checkpoint to act on; give `--against` too, or leave it out")
    found = load_configured(context, written)
    resolved = found.resolve()
    with resolved.reporting():
        logical = validate_application(found.app, resolved.properties, resolved.attributes)
    found_states = [] if against is None else list(judged(found, written, against, resume))
    refused = any(one.outcome == "refused" for _, _, verdicts in found_states for one in verdicts)
    operators, streams, notes = len(logical.operators), len(logical.streams), list(order_notes(logical))
    said = {"application": logical.application, "operators": operators, "streams": streams, "notes": notes}
    states = {} if against is None else {"checkpoint": [_row(*one) for one in found_states]}
    parts = f"{plural(operators, 'operator')}, {plural(streams, 'stream')}"
    lines = [
        f"application {logical.application} is valid: {parts}",
        *(f"note: {note}" for note in notes),
        *(line for one in found_states for line in verdict_lines(*one)),
    ]
    answer({**said, **states}, lines, as_json=as_json)
    if refused:
        raise typer.Exit(NOT_VALID)


def _row(folder: str, window: int | None, verdicts: list[StateVerdict]) -> Mapping[str, Any]:
    return {"folder": folder, "window": window, "states": [asdict(one) for one in verdicts]}


def verdict_lines(folder: str, window: int | None, verdicts: list[StateVerdict]) -> list[str]:
    """What would become of the states of a window; None: there is none."""
    if window is None:
        return [f"checkpoint {folder} has no window yet: there is no state to go on with"]
    states = [f"  {one}" for one in verdicts] or ["  no operator has state"]
    return [f"checkpoint {folder}, window {window}:", *states]


def judged(
    configured: Configured, written: Written, folder: str, resume: ResumeOptions
) -> Iterator[tuple[str, int | None, list[StateVerdict]]]:
    """Folder, last window and verdicts of each run in a checkpoint: one, or one for each region."""
    from ridgeline.api.support.files import is_local, local_path
    from ridgeline.cli.running.starting import planners
    from ridgeline.engine.driver.checkpoint.upkeep.contents import open_folder
    from ridgeline.engine.files.storage import explain
    from ridgeline.regions.planning import WHOLE, plan_regions, read_kept

    root = local_path(folder) if is_local(folder) else folder
    if is_local(folder) and not Path(root).is_dir():
        raise CommandError(
            f"there is no folder `{root}`; give what `--checkpoint` of `ridgeline run` was given"
        )
    planner_of = planners(configured, written, resume)
    try:
        planner = planner_of(configured.app, WHOLE)
        whole = planner.first(open_folder(root), configured.app.name)
        if not whole.logical.regions:
            yield root, *_judged_run(root, whole, planner)
            return
        kept = read_kept(open_folder(root))
        for one in plan_regions(configured.app, whole, planner_of, root, kept):
            yield one.folder, *_judged_run(one.folder, one.plan, one.planner)
    except OSError as error:
        raise CommandError(explain(root, error)) from error


def _judged_run(folder: str, plan: Plan, planner: Planner) -> tuple[int | None, list[StateVerdict]]:
    """The last window of a folder, and what becomes of its states. A driver may remove files meanwhile."""
    from ridgeline.api.errors import CheckpointError
    from ridgeline.engine.driver.checkpoint.planning import read_last
    from ridgeline.engine.driver.checkpoint.run_description import described
    from ridgeline.engine.driver.checkpoint.state_moves import judge_states
    from ridgeline.engine.driver.checkpoint.upkeep.contents import open_folder

    storage, name = open_folder(folder), plan.logical.application
    while (last := read_last(storage, name)) is not None:
        run_id = described(storage, name)
        assert run_id is not None  # noqa: S101  it has a window
        try:
            return last.window_id, judge_states(plan, storage, run_id, last, planner)
        except CheckpointError:
            later = read_last(storage, name)
            if later is None or later.window_id == last.window_id:
                raise
    return None, []
