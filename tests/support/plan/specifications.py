"""Applications as the text of a specification."""

from ridgeline import Application
from ridgeline.plan.spec.form import Form
from ridgeline.plan.spec.writer import document_text, specification_of


def write_specification(app: Application, form: Form) -> str:
    """The text of a specification of which an equal application is read. Raises ValidationError."""
    return document_text(specification_of(app), form)
