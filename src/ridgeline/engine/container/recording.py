"""Tuples of one port in one window as a file of Parquet: what a recording consists of."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from ridgeline.api.columns.tuples import Tuples
from ridgeline.api.errors import capped, described, shorten
from ridgeline.api.support.masking import MASK, mask, mask_text, masked_and_shortened, printable
from ridgeline.api.support.secret_names import is_secret
from ridgeline.plan.physical import PhysicalOperator
from ridgeline.plan.protocol import WindowRequest

FOLDER = "recordings"
STAGED = f"{FOLDER}/staged"
_TEXT_LIMIT = 1_000
_SUSPECT = r"(?i)[:=<]|--|bearer|basic|password|identified|authorization|cookie|-----|[\w-]{14}"
"""What a text has in which `mask_text` finds something; most texts have none of it."""
Recorded = tuple[int, int, str, str]
"""How many tuples, the bytes and the name of their file; or why there is none."""


def record(
    spec: PhysicalOperator,
    request: WindowRequest,
    parts: Mapping[str, Sequence[Tuples]],
    write: Callable[[str, bytes], None],
    tag: str,
) -> dict[str, Recorded]:
    """Record the ports that the request names; `parts`: the tuples of all ports of the operator.

    `write` writes a file of the checkpoint; `tag` is unique to the attempt. Never fails the window: what
    cannot be recorded is in the report.
    """
    found: dict[str, Recorded] = {}
    for port, taken in parts.items():
        limit = request.recording.get((spec.id, port))
        count = sum(map(len, taken))
        if limit is None or not count:
            continue
        try:
            data = _file(spec, request.window_id, taken)
            if len(data) > limit:
                why = f"window {request.window_id} has {len(data):,} bytes, the limit is {limit:,}"
                found[port] = count, 0, "", why
            else:
                name = f"{STAGED}/w{request.window_id:010d}-{spec.id}-{port}-{tag}.parquet"
                write(name, data)
                found[port] = count, len(data), name, ""
        except Exception as error:  # noqa: BLE001  a recording must not fail what it records
            why = f"window {request.window_id} could not be recorded: {capped(described(error))}"
            found[port] = count, 0, "", why
    return found


def _file(spec: PhysicalOperator, window_id: int, parts: Sequence[Tuples]) -> bytes:
    """A file with all tuples. Columns of Arrow that Parquet does not have become texts."""
    columns: dict[str, Any] = {}
    tables = [_table(part) for part in parts if len(part)]
    table = pa.concat_tables(tables)
    count = table.num_rows
    marks = {
        "window": pa.repeat(pa.scalar(window_id, pa.int64()), count),
        "partition": pa.repeat(pa.scalar(spec.partition, pa.int32()), count),
        "position": pa.array(range(count), pa.int64()),
    }
    for name, values in marks.items():
        mark = f"_{name}"
        while mark in table.column_names:
            mark = f"_{mark}"
        columns[mark] = values
    for number, name in enumerate(table.column_names):
        shown = name if name not in columns else f"{name}_{number}"
        columns[shown] = _masked(name, table.column(number))
    try:
        return _parquet(columns)
    except pa.ArrowException:
        return _parquet({name: _writable(values) for name, values in columns.items()})


def _table(part: Tuples) -> pa.Table:
    if part.schema.pickled:
        texts = [printable(masked_and_shortened(row, _TEXT_LIMIT)) for row in part.rows]
        return pa.table({"tuple": pa.array(texts, pa.string())})
    return pa.Table.from_batches([part.batch]).replace_schema_metadata(None)


def _parquet(columns: Mapping[str, Any]) -> bytes:
    sink = pa.BufferOutputStream()
    pq.write_table(pa.table(dict(columns)), sink, compression="zstd")
    return bytes(sink.getvalue().to_pybytes())


def _writable(values: Any) -> Any:
    """The column, or its values as texts where Parquet has no such type."""
    try:
        _parquet({"column": values})
    except pa.ArrowException:
        return pa.array([None if value is None else shorten(value) for value in values.to_pylist()])
    return values


def _masked(name: str, values: Any) -> Any:
    """A column without secrets: all of its values if its name is a secret's, else those in its texts."""
    if isinstance(values, pa.ChunkedArray):
        values = values.combine_chunks()
        values = values.chunk(0) if isinstance(values, pa.ChunkedArray) else values
    kind = values.type
    if is_secret(name) and not pa.types.is_boolean(kind):
        return pc.if_else(pc.is_valid(values), pa.scalar(MASK), pa.scalar(None, pa.string()))
    if pa.types.is_struct(kind) and kind.num_fields:
        fields = [kind.field(number) for number in range(kind.num_fields)]
        inner = [_masked(field.name, part) for field, part in zip(fields, values.flatten(), strict=True)]
        names = [field.name for field in fields]
        return pa.StructArray.from_arrays(inner, names, mask=pc.is_null(values))
    if pa.types.is_nested(kind) and not pa.types.is_struct(kind):
        masked = [mask(name, value) for value in values.to_pylist()]
        try:
            return pa.array(masked, kind)
        except (pa.ArrowException, TypeError, ValueError):
            return pa.array([None if value is None else shorten(value, _TEXT_LIMIT) for value in masked])
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        suspect = pc.fill_null(pc.match_substring_regex(values, _SUSPECT), fill_value=False)
        if pc.any(suspect).as_py():
            texts = [mask_text(text) for text in values.filter(suspect).to_pylist()]
            return pc.replace_with_mask(values, suspect, pa.array(texts, kind))
    return values
