"""Applications as the text of a specification."""

from ridgeline import Application
from ridgeline.plan.spec.form import Form
from ridgeline.plan.spec.texts import write_document
from ridgeline.plan.spec.writer import specification_of


def write_specification(app: Application, form: Form) -> str:
    """The text of a specification of which an equal application is read. Raises ValidationError."""
    return write_document(specification_of(app), form)
