"""All tuples of a stream, as a list or as a frame."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from ridgeline.api import Application
from ridgeline.api.errors import RidgelineError
from ridgeline.streams.connecting import Source as Port
from ridgeline.streams.preview import collecting, never_ends, part_of, run_of

_NAME = "collected"


def collect(app: Application, source: Port, windows: int | None) -> list[Any]:
    """Run what leads to a port in this process until its inputs end; return the tuples that leave it.

    Raises as `Stream.collect`.
    """
    run, name, _ = _run(app, source, windows)
    found: list[Any] = run.collected(name)
    return found


def collect_table(app: Application, source: Port, windows: int | None) -> pa.Table:
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


def _run(app: Application, source: Port, windows: int | None) -> tuple[Any, str, Any]:
    """Run the part. Raises RidgelineError for an input that never ends, unless `windows` are given."""
    part = part_of(app, source)
    endless = [one.name for one in part.operators if never_ends(one.operator)]
    if endless and windows is None:
        msg = f"input `{endless[0]}` never ends, so this would never return; give `windows=`, "
        msg += 'or let it end with `until="end"`'
        raise RidgelineError(msg)
    name, schema = collecting(part, source, _NAME)
    return run_of(part, windows=windows), name, schema


def as_polars(table: pa.Table) -> Any:
    """A table as a frame of polars. Raises RidgelineError if that is not installed."""
    try:
        import polars as pl
    except ImportError as error:
        msg = f"`to_frame` needs polars, which cannot be imported ({error}); "
        msg += "install it: pip install 'ridgeline[frames]', or take `to_frame(\"arrow\")`"
        raise RidgelineError(msg) from error
    return pl.from_arrow(table)


def as_pandas(table: pa.Table) -> Any:
    """A table as a frame of pandas. Raises RidgelineError if that is not installed."""
    try:
        return table.to_pandas()
    except ImportError as error:
        raise RidgelineError(
            f"`to_frame` needs pandas, which cannot be imported ({error}); install it: pip install pandas"
        ) from error
