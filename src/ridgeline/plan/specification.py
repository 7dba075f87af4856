"""A specification as an `Application`, with all of its faults, and the edits that lead to another one."""

from __future__ import annotations

from collections.abc import Mapping

from ridgeline.api.application import Application
from ridgeline.api.errors import Fault, Faults, ValidationError
from ridgeline.api.operator import operator_type
from ridgeline.plan.change.finding import find_edits
from ridgeline.plan.draft import with_origins
from ridgeline.plan.edits import Edit
from ridgeline.plan.logical import LogicalPlan
from ridgeline.plan.spec.form import Document
from ridgeline.plan.spec.guide_form import from_guide
from ridgeline.plan.spec.model import check_document
from ridgeline.plan.spec.reader import Reader
from ridgeline.plan.validation import find_faults, validate

_NOTHING: Mapping[str, str] = {}


def read_specification(
    document: Document,
    name: str,
    environment: Mapping[str, str] = _NOTHING,
    origins: Mapping[str, str] = _NOTHING,
) -> Application:
    """Make the application that a document specifies.

    `name`: the application's, if the document does not say it. `environment`: what `$env` reads.
    `origins`: the files of included parts, by section and name (`operators.sum`), which faults name. The
    modules of the classes that the document names are imported, and the classes called with their properties.

    Raises ValidationError with all faults: of the document's form, its classes, values and ends of streams.
    Where there are such faults, those of the properties and attributes that could be read are added.

    Example:
        >>> document = {
        ...     "operators": {
        ...         "dice": {
        ...             "class": "ridgeline.operators.RandomEventGenerator",
        ...             "properties": {"maximum": 6},
        ...         },
        ...         "sink": {"class": "ridgeline.operators.ConsoleOutput"},
        ...     },
        ...     "streams": {"rolls": {"from": "dice.integer_data", "to": "sink.input"}},
        ... }
        >>> [added.name for added in read_specification(document, "dice").operators]
        ['dice', 'sink']
    """
    faults = Faults()
    document, texts = from_guide(document, name, faults)
    document = {"application": name, **document}
    specification = check_document(document, faults)
    title = document["application"] if isinstance(document["application"], str) else name
    if specification is None:
        raise ValidationError(title, with_origins(faults, origins))
    reader = Reader(specification, environment, faults, texts=texts)
    app = reader.read()
    app.origins = origins
    if faults:
        raise ValidationError(title, [*with_origins(faults, origins), *_further_faults(reader)])
    return app


def _further_faults(reader: Reader) -> list[Fault]:
    """Faults of properties and attributes, without those that may follow from what is missing."""
    found = []
    for fault in find_faults(reader.application):
        owner, dot, inner = fault.where.rpartition(".")
        operator = reader.made.get(owner)
        ports = operator_type(type(operator)) if operator is not None else None
        is_port = ports is not None and (inner in ports.inputs or inner in ports.outputs)
        if (dot and operator is not None and not is_port) or fault.where in reader.specification.attributes:
            found.append(fault)
    return found


def edits_between(old: LogicalPlan, new: Application) -> tuple[Edit, ...]:
    """The edits after which the application of a plan is planned like a new one; none if they are alike.

    An operator with another name is another operator: what was renamed is removed and added. Raises
    ValidationError for faults of the new application, and for differences that no edit can make.
    """
    return find_edits(old, validate(new), new)
