"""The schema of a stream of an application that need not be finished."""

from __future__ import annotations

import copy
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from ridgeline.api import Application, InputPort, InputProxy, Operator, SchemaError
from ridgeline.plan.validation import examine
from ridgeline.streams.connecting import Source, connect, name_of, owner_of

if TYPE_CHECKING:
    import pyarrow as pa


class _Probe(Operator):
    """Reads the stream, so that its schema is resolved."""

    input = InputPort(Any)

    @input.process_batch
    def leave(self, batch: pa.RecordBatch) -> None:
        """Do nothing: it never runs."""


def schema_at(app: Application, source: Source) -> pa.Schema:
    """The columns of the tuples that leave a port. Raises SchemaError with the faults that hide them."""
    if isinstance(source, InputProxy):
        return source.port.schema.arrow
    tried = copy.copy(app)
    tried.operators, tried.streams = list(app.operators), [replace(added) for added in app.streams]
    names = {added.name for added in tried.operators} | {added.name for added in tried.modules}
    probe = tried.add_operator(max(names, key=len, default="") + "_columns", _Probe())
    connect(tried, source, probe.input)
    draft, faults = examine(tried)
    found = draft.owners[id(probe)].inputs.get("input")
    if found is not None:
        return found.arrow
    others = [fault for fault in faults if "connect" not in fault.what] or faults
    text = "".join(f"\n- {fault}" for fault in others)
    msg = f"the columns of `{name_of(app, owner_of(source))}.{source.name}` are not known:{text}"
    raise SchemaError(msg)
