"""`ridgeline plan`: of an application that runs, and as a specification."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from rich.text import Text

from ridgeline.api.application import Application
from ridgeline.cli.errors import CommandError, make_console
from ridgeline.cli.output import write
from ridgeline.engine.process.user_modules import is_users, root_of
from ridgeline.plan.logical import LogicalPlan
from ridgeline.plan.spec.form import WRITTEN, Document, Form, form_of
from ridgeline.plan.spec.texts import write_document
from ridgeline.plan.written import specification_of_plan
from ridgeline.service import registry


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
    parts = [*(added.operator for added in app.operators), *(added.module for added in app.modules)]
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
