"""The first tuples of a stream, or all, its columns, and how applications and streams show themselves."""

from __future__ import annotations

import copy
import html
import importlib
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa
from rich.console import Console
from rich.table import Table

from ridgeline.api import (
    Application,
    Fault,
    InputPort,
    InputProxy,
    Operator,
    RidgelineError,
    Schema,
    SchemaError,
)
from ridgeline.api.module import owner_of
from ridgeline.connect import PartitionedInput
from ridgeline.connect import Source as Kit
from ridgeline.connect.extras import library
from ridgeline.connect.reader import deletions_of
from ridgeline.plan.validation import examine
from ridgeline.streams.connecting import Source, connect, name_of


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


_WIDTH = 120


class Preview:
    """The first tuples of a stream, as a table: `orders.preview(20)` shows it in a console or a notebook.

    `table`: an Arrow table, or None for a stream of `object`; `rows`: the tuples.

    Example:
        >>> from typing import NamedTuple
        >>> from ridgeline import Application
        >>> from ridgeline.testing import ListInput
        >>> class Number(NamedTuple):
        ...     value: int
        >>> app = Application("numbers")
        >>> numbers = app.read("numbers", ListInput(Number, [(n,) for n in range(9)]))
        >>> found = numbers.filter("odd", lambda number: number.value % 2 == 1).preview(2)
        >>> found.rows
        [Number(value=1), Number(value=3)]
        >>> found.table.to_pydict()
        {'value': [1, 3]}
    """

    def __init__(self, rows: Sequence[Any], schema: pa.Schema | None) -> None:
        self.rows = list(rows)
        self.table: pa.Table | None = None
        if schema is not None:
            values = [
                row if isinstance(row, dict) else {name: getattr(row, name) for name in schema.names}
                for row in self.rows
            ]
            self.table = pa.Table.from_pylist(values, schema)

    @property
    def _cells(self) -> tuple[list[str], list[list[str]]]:
        """The names of the columns, and the texts of the rows."""
        if self.table is None:
            return ["value"], [[repr(row)] for row in self.rows]
        columns = map(pa.ChunkedArray.to_pylist, self.table.columns)
        texts = [["" if value is None else str(value) for value in column] for column in columns]
        return self.table.column_names, [list(row) for row in zip(*texts, strict=True)]

    def __repr__(self) -> str:
        names, rows = self._cells
        shown = Table(*names)
        for row in rows:
            shown.add_row(*row)
        console = Console(width=_WIDTH, no_color=True, highlight=False, markup=False)
        with console.capture() as captured:
            console.print(shown)
        return captured.get().rstrip()

    def _repr_html_(self) -> str:
        return html_table(*self._cells)


def preview(app: Application, source: Source, count: int, windows: int) -> Preview:
    """Run what leads to a port in this process until enough tuples have left it; return the first of them.

    Raises ValidationError with the faults of these operators, OperatorError if one of them fails, and
    RidgelineError for a port within a module.
    """
    part, name, schema = collecting(app, source, "preview")

    def enough(run: Any) -> bool:
        kept = run.collectors[name].windows.values() if name in run.collectors else ()
        return sum(batch.num_rows for batches in kept for batch in batches) >= count

    rows = _testing().run_local(part, windows=windows, until=enough).collected(name)[:count]
    return Preview(rows, None if schema is None or schema.pickled else schema.arrow)


def ending_never(part: Application) -> list[str]:
    """The inputs that are known to be endless: without `until`, and their sources never finish."""
    return [
        one.name
        for one in part.operators
        if isinstance(one.operator, PartitionedInput)
        and one.operator.until is None
        and (one.operator.needs_until or type(one.operator.source()).finished is Kit.finished)
    ]


def collecting(app: Application, source: Source, name: str) -> tuple[Application, str, Schema | None]:
    """The part that leads to a port, with a sink there; the name of the sink, and its schema.

    Raises ValidationError, and RidgelineError for a port within a module.
    """
    if isinstance(source, InputProxy):
        raise RidgelineError("a stream within a module has no tuples yet; take one of the application")
    part = leading_to(app, source)
    schema, _ = resolved(part, source)
    sink = _testing().CollectorSink() if schema is None else _testing().CollectorSink(schema.type)
    part.add_operator(new_name(part, name), sink)
    connect(part, source, sink.input)
    return part, part.operators[-1].name, schema


def _testing() -> Any:
    return importlib.import_module("ridgeline.testing")  # by name: it stands above this room


def leading_to(app: Application, source: Source) -> Application:
    """The part of an application that a port needs: all upstream of it."""
    needed = [owner_of(source)]
    for part in needed:  # grows
        for added in app.streams:
            if any(owner_of(sink) is part for sink in added.sinks):
                owner = owner_of(added.source)
                if not any(owner is other for other in needed):
                    needed.append(owner)
    found = copy.copy(app)
    found.operators = [one for one in app.operators if _among(one.operator, needed)]
    found.modules = [one for one in app.modules if _among(one.module, needed)]
    found.streams, found.policies, found.promises, found.affinity = [], [], [], []
    found.dead_letter_port, found.regions = None, []
    for added in app.streams:
        if not _among(owner_of(added.source), needed):
            continue
        sinks = tuple(sink for sink in added.sinks if _among(owner_of(sink), needed))
        if not sinks:  # the port may have to be connected
            probe = found.add_operator(new_name(found, "unread"), Unread())
            sinks = (probe.input,)
        found.streams.append(replace(added, sinks=sinks, locality=None, persisted=(), decoupled=()))
    return found


def _among(part: Any, parts: Iterable[Any]) -> bool:
    return any(part is one for one in parts)


def html_table(names: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table for a notebook."""
    style = "border-collapse:separate;border-spacing:12px 2px;text-align:left"  # marimo has none of its own
    head = "".join(f"<th>{html.escape(name)}</th>" for name in names)
    lines = ("".join(f"<td>{html.escape(cell)}</td>" for cell in row) for row in rows)
    body = "".join(f"<tr>{line}</tr>" for line in lines)
    return f'<table style="{style}"><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>'


def stream_html(name: str, columns: pa.Schema) -> str:
    """A stream in a notebook: its columns."""
    rows = [[field.name, str(field.type), "yes" if field.nullable else "no"] for field in columns]
    return f"<div><b>{html.escape(name)}</b></div>" + html_table(["column", "type", "may be null"], rows)


def application_html(app: Application) -> str:
    """An application in a notebook: its steps, and which they read."""
    rows = []
    for step in app.added:
        reads = [
            name_of(app, owner_of(added.source))
            for added in app.streams
            if any(owner_of(sink) is step.instance for sink in added.sinks)
        ]
        attributes = [f"{key}={value}" for key, value in step.attributes.items()]
        rows.append([step.name, type(step.instance).__name__, ", ".join(reads), ", ".join(attributes)])
    title = f"<div><b>{html.escape(str(app.name))}</b></div>"
    return title + html_table(["step", "operator", "reads", "attributes"], rows)


def collect(app: Application, source: Source, windows: int | None) -> list[Any]:
    """Run what leads to a port in this process until its inputs end; return the tuples that leave it.

    Raises as `Stream.collect`.
    """
    run, name, _ = _run(app, source, windows)
    found: list[Any] = run.collected(name)
    return found


def collect_table(app: Application, source: Source, windows: int | None) -> pa.Table:
    """The same as an Arrow table. Raises RidgelineError for a stream of `object` too."""
    run, name, schema = _run(app, source, windows)
    kept = run.collectors[name].windows
    batches = [batch.replace_schema_metadata(None) for window in sorted(kept) for batch in kept[window]]
    if (schema is not None and schema.pickled) or (schema is None and not batches):
        raise RidgelineError(
            "a stream of `object` has no columns; use `collect()`, or give its operator a schema"
        )
    arrow = batches[0].schema if schema is None else schema.arrow.remove_metadata()
    return pa.concat_tables([arrow.empty_table(), *(pa.table(one).cast(arrow) for one in batches)])


def _run(app: Application, source: Source, windows: int | None) -> tuple[Any, str, Any]:
    """Run the part. Raises RidgelineError for an input that never ends, unless `windows` are given."""
    part, name, schema = collecting(app, source, "collected")
    endless = ending_never(part)
    if endless and windows is None:
        msg = f"input `{endless[0]}` never ends, so this would never return; give `windows=`, "
        msg += 'or let it end with `until="end"`'
        raise RidgelineError(msg)
    return _testing().run_local(part, windows=windows), name, schema


FRAMES = ("polars", "arrow", "pandas")
"""The kinds of frames."""


def as_frame(table: pa.Table, kind: str) -> Any:
    """A table as a frame of one of `FRAMES`. Raises RidgelineError without polars, ImportError of pandas."""
    if kind == "arrow":
        return table
    if kind == "pandas":
        return table.to_pandas()
    return library("polars", "`to_frame` needs polars, which cannot be imported", "frames").from_arrow(table)
