"""`ridgeline plan APP --spec FILE`: an application as a specification."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from ridgeline.api.application import Application
from ridgeline.cli.errors import CommandError
from ridgeline.cli.output import write
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
