"""`ridgeline plan APP --spec FILE`: an application as a specification."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path

from rich.text import Text

from ridgeline.api.application import Application
from ridgeline.cli.errors import CommandError, make_console
from ridgeline.cli.output import write
from ridgeline.engine.worker.user_modules import is_users, root_of
from ridgeline.plan.spec.form import Form, form_of
from ridgeline.plan.spec.writer import write_specification
from ridgeline.plan.validation import validate


def write_as_file(app: Application, file: str, *configuration: Sequence[str] | None) -> None:
    """Write a valid application as a specification, in the form that the file's suffix names.

    `configuration`: what the command was given, of which nothing may be there.

    Raises CommandError, and ValidationError naming what cannot be written.
    """
    form = form_of(file)
    if form is None:
        forms = ", ".join(f"`.{one.value}`" for one in Form)
        msg = f"`--spec {file}` names no form; end it in {forms}"
        raise CommandError(msg)
    if any(configuration):
        options = "`-D`, `--attribute`, `--conf-file` and `--conf-set`"
        msg = f"`--spec` writes what the application says itself; leave {options} out"
        raise CommandError(msg)
    validate(app)
    text = write_specification(app, form)
    try:
        Path(file).write_text(text, encoding="utf-8")
    except OSError as error:
        msg = f"`{file}` cannot be written: {error.strerror or error}; name another file"
        raise CommandError(msg) from None
    write(f"application {app.name} is in {file}")
    elsewhere = _folders_elsewhere(app, Path(file).resolve().parent)
    if elsewhere:
        text = f"its classes are in {elsewhere}: to read it, put it there, or that on PYTHONPATH"
        make_console().print(Text(text), soft_wrap=True)


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
    """What is on the path of every process: PYTHONPATH."""
    entries = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    return [os.path.realpath(entry) for entry in entries if entry]
