"""The schema of a stream of an application that need not be finished."""

from __future__ import annotations

import copy
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from ridgeline.api import Application, Fault, InputPort, InputProxy, Operator, Schema, SchemaError
from ridgeline.api.module import owner_of
from ridgeline.connect.deletions import deletions_of
from ridgeline.plan.validation import examine
from ridgeline.streams.connecting import Source, connect, name_of

if TYPE_CHECKING:
    import pyarrow as pa


class Unread(Operator):
    """Stands where a stream needs a reader, and does nothing."""

    input = InputPort(Any)

    @input.process_batch
    def leave(self, batch: pa.RecordBatch) -> None:
        """Do nothing."""


def schema_at(app: Application, source: Source) -> pa.Schema:
    """The columns of the tuples that leave a port. Raises SchemaError with the faults that hide them."""
    if isinstance(source, InputProxy):
        return source.port.schema.arrow
    found, faults = resolved(app, source)
    if found is not None:
        return found.arrow
    others = [fault for fault in faults if "connect" not in fault.what] or faults
    text = "".join(f"\n- {fault}" for fault in others)
    raise SchemaError(f"the columns of `{name_of(app, owner_of(source))}.{source.name}` are not known:{text}")


def marked_deletions(app: Application, source: Source) -> str | None:
    """The column of deletions that an input of the application has marked, if the stream has it."""
    if not any(getattr(added.operator, "marks_deletions", False) for added in app.operators):
        return None
    try:
        return deletions_of(schema_at(app, source))
    except SchemaError:  # the faults are found when the application is validated
        return None


def resolved(app: Application, source: Source) -> tuple[Schema | None, list[Fault]]:
    """The schema of the tuples that leave a port, None if faults hide it; and the faults."""
    tried = copy.copy(app)
    tried.operators, tried.streams = list(app.operators), [replace(added) for added in app.streams]
    name = new_name(tried, "columns")
    connect(tried, source, tried.add_operator(name, Unread()).input)
    draft, faults = examine(tried)
    return draft.owners[name].inputs.get("input"), faults


def new_name(app: Application, ending: str) -> str:
    """A name that no operator has."""
    names = [added.name for added in app.operators] + [added.name for added in app.modules]
    return f"{max(names, key=len, default='')}_{ending}"
