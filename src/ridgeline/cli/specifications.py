"""`ridgeline plan`: of an application that runs, and as a specification."""

from __future__ import annotations

import json
import os
import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.text import Text

from ridgeline.api.application import Application
from ridgeline.cli import options
from ridgeline.cli.configuration import Written, load_configured
from ridgeline.cli.errors import CommandError, make_console
from ridgeline.cli.grouping import option
from ridgeline.cli.output import write
from ridgeline.engine.process.user_files import is_users, root_of
from ridgeline.plan.logical import LogicalPlan
from ridgeline.plan.spec.form import WRITTEN, Document, Form, form_of
from ridgeline.plan.spec.texts import write_document
from ridgeline.plan.written import specification_of_plan
from ridgeline.service import registry

if TYPE_CHECKING:
    from ridgeline.cli.configuration import Configured
    from ridgeline.plan.execution import Plan
    from ridgeline.regions.planning import Scope


@dataclass(frozen=True, kw_only=True)
class Shown:
    """The values that are printed in the place of the plan.

    Args:
        config: Print every value instead, where it was said, and what it stands in the place of.
        operator (NAME): With `--config`: only what is of this operator; `*` and `?` are wildcards.
        only_set: With `--config`: only what configuration sets, not defaults and code.
    """

    config: Annotated[bool, option()] = False
    operator: Annotated[str | None, option()] = None
    only_set: Annotated[bool, option()] = False


def plan(
    context: typer.Context,
    written: Written,
    values: Shown,
    *,
    as_json: Annotated[bool, option(called="--json")] = False,
    spec: str | None = None,
    checkpoint: str | None = None,
) -> None:
    """Print an application's plan, or its configuration.

    The logical, physical and execution plan. Of one that runs, by its name, id or URL, as it is now.
    Properties that have their default are left out: `--config` has all. Secrets are masked.

    Nothing is started: neither Spark nor an operator.

    Examples: `ridgeline plan payments.py --attribute balances.partitions=4`,
    `ridgeline plan payments.py --config --conf-file site.yaml --only-set`

    Exit codes: 0 done, 2 application or configuration is not valid.

    Args:
        context: That of the command.
        written: The application.
        values: What is shown instead.
        as_json: Print JSON instead of text.
        spec (FILE): Write a specification instead: FILE ends in `.json` or `.yaml`. Of a running application:
            all changes are in it.
        checkpoint (DIR): With the properties and changes that this checkpoint keeps, as `run` goes on with
            it.
    """
    if values.config:
        from ridgeline.cli.dump_config import dump_config  # which asks whether it runs

        dump_config(context, written, operator=values.operator, only_set=values.only_set, as_json=as_json)
        return
    from ridgeline.plan.show.text import describe
    from ridgeline.plan.show.to_json import to_dict

    if spec is not None:
        form_named(spec)
    if is_running(written.target):
        options.nothing_given(
            written.target, [*written.given, *context.args, *([checkpoint] if checkpoint else [])]
        )
        if spec is None:
            show_running(written.target, as_json=as_json)
        else:
            write_running(written.target, spec)
        return
    configured = load_configured(context, written)
    if checkpoint is None:
        made = configured.plan()
    else:
        from ridgeline.engine.driver.checkpoint.planning import Planner

        planner = Planner(
            configured.plan,
            options.properties(written.properties or ()),
            known=lambda: configured.resolve().properties,
        )
        made = planner.first(checkpoint, configured.app.name)
    if spec is not None:
        write_plan(made.logical, spec)
        return
    parts = _region_plans(configured, made, checkpoint) if made.logical.regions else ()
    write(json.dumps(to_dict(made, parts), indent=2) if as_json else describe(made, parts))


def _region_plans(configured: Configured, whole: Plan, checkpoint: str | None) -> list[Plan]:
    """The plans of an application's regions, as they would run on a checkpoint."""
    from ridgeline.api.support.files import is_local, local_path
    from ridgeline.engine.driver.checkpoint.planning import Planner
    from ridgeline.engine.files.storage import LocalStorage
    from ridgeline.regions.planning import plan_regions, read_kept

    def planner_of(planned: Application, _scope: Scope) -> Planner:
        return Planner(replace(configured, app=planned).plan, {})

    root = "CHECKPOINT" if checkpoint is None else local_path(checkpoint) if is_local(checkpoint) else ""
    kept = read_kept(LocalStorage(root)) if checkpoint is not None and root else []
    planned = plan_regions(configured.app, whole, planner_of, root or str(checkpoint), kept)
    return [one.plan for one in planned]


def write_plan(logical: LogicalPlan, file: str) -> None:
    """Write a plan, with all that was given from outside, in the form that the file's suffix names.

    Raises CommandError, and ValidationError naming what cannot be written.
    """
    form = form_named(file)
    document = specification_of_plan(logical)
    _write(document, form, file, logical.application)
    assert logical.source is not None  # noqa: S101  it was written
    elsewhere = _folders_elsewhere(logical.source[0], Path(file).resolve().parent)
    if elsewhere:
        text = f"its classes are in {elsewhere}: to read it, put it there, or that on PYTHONPATH"
        make_console().print(Text(text), soft_wrap=True)


def write_running(app: str, file: str) -> None:
    """Write a running application, with all changes. Raises CommandError, RidgelineError."""
    from ridgeline.cli.remote import shared

    form = form_named(file)
    client = shared.connect(app, os.environ.get("RIDGELINE_TOKEN"))
    document = client.get("/specification")["specification"]
    _write(document, form, file, document["application"])


def show_running(app: str, *, as_json: bool) -> None:
    """Print the plans of a running application. Raises CommandError, RidgelineError."""
    from ridgeline.cli.remote import shared
    from ridgeline.cli.views.lists import logical_plan, physical_plan

    client = shared.connect(app, os.environ.get("RIDGELINE_TOKEN"))
    logical, physical = client.get("/logicalPlan"), client.get("/physicalPlan")
    shared.show(
        {"logicalPlan": logical, "physicalPlan": physical},
        lambda width: [*logical_plan(logical, width), Text(), *physical_plan(physical, width)],
        as_json=as_json,
    )


def is_running(target: str) -> bool:
    """True for the URL of a running application, or its name or id where no file is called so.

    What names an application to load has a colon, or is a file.
    """
    if "://" in target:
        return True
    if ":" in target or "/" in target or Path(target).exists():
        return False
    return any(target in {entry.id, entry.name} for entry in registry.running())


def form_named(file: str) -> Form:
    """The form that a file's suffix names. Raises CommandError."""
    form = form_of(file)
    if form not in WRITTEN:
        forms = " or ".join(f"`.{one.value}`" for one in WRITTEN)
        raise CommandError(f"`--spec {file}` names no form that is written; end it in {forms}")
    return form


def _write(document: Document, form: Form, file: str, application: str) -> None:
    try:
        Path(file).write_text(write_document(document, form), encoding="utf-8")
    except OSError as error:
        raise CommandError(
            f"`{file}` cannot be written: {error.strerror or error}; name another file"
        ) from None
    write(f"application {application} is in {file}")


def _folders_elsewhere(app: Application, folder: Path) -> str:
    """The folders whose modules a specification in `folder` would not find; "" for none."""
    parts = [added.instance for added in app.added]
    found = []
    for part in parts:
        name = type(part).__module__
        path = getattr(sys.modules.get(name), "__file__", None)
        if path is not None and is_users(path) and root_of(name, path) not in (str(folder), *_always_found()):
            found.append(f"`{root_of(name, path)}`")
    return ", ".join(dict.fromkeys(found))


def _always_found() -> list[str]:
    """Folders on the path of every process: PYTHONPATH."""
    entries = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    return [os.path.realpath(entry) for entry in entries if entry]
