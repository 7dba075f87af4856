"""All that inputs emit and outputs get in a window, as it is, for a version that runs beside.

Other than a recording for people it masks nothing and keeps the times of records. Watermarks, control tuples
and the ends of inputs are in it, too.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import pyarrow as pa

from ridgeline.api.columns.schema import Schema, holds_pickles
from ridgeline.api.columns.tuples import Tuples
from ridgeline.api.errors import capped, described
from ridgeline.api.operator import InputOperator, has_finished
from ridgeline.api.support.control import Control
from ridgeline.api.times import Mark
from ridgeline.engine.container.recording import FOLDER, INLINE_BYTES
from ridgeline.engine.exchange.block import OpenedTimes, encode_times, opened_times
from ridgeline.engine.operator.runtime import OperatorRuntime
from ridgeline.plan.protocol import ExactPart, WindowRequest

EXACT = f"{FOLDER}/exact"
"""The folder for parts that do not fit into a report, until their window is committed."""
PackedTimes = str | tuple[bytes, bytes | None] | None


class Batch(NamedTuple):
    """A sequence of tuples: `rows` as an Arrow IPC stream, `times` as blocks have them."""

    rows: bytes
    times: PackedTimes

    def opened(self) -> Tuples:
        """The tuples, by the columns that they were written with."""
        table = pa.ipc.open_stream(self.rows).read_all().combine_chunks()
        (batch,) = table.to_batches() or [pa.RecordBatch.from_pylist([], schema=table.schema)]
        times: OpenedTimes
        if isinstance(self.times, tuple):
            newest, oldest = self.times
            times = pa.py_buffer(newest), None if oldest is None else pa.py_buffer(oldest)
        else:
            times = self.times
        schema = Schema(object) if holds_pickles(batch) else Schema(batch.schema)
        return Tuples.of_batch(schema, batch, opened_times(times, len(batch)))


class Share(NamedTuple):
    """The part of one partition in a window.

    `ports`: its tuples, those that an input emitted or an output got. `mark`: its watermark, and whether it
    is idle; None without one. `controls`: the control tuples that it emitted, by port. `finished`: the input
    has finished. `time`: when the window began, in microseconds since 1970.
    """

    ports: Mapping[str, Sequence[Batch]]
    mark: Mark | None
    controls: Mapping[str, Sequence[Control]]
    finished: bool
    time: int

    @classmethod
    def decode(cls, data: bytes) -> Share:
        """From the bytes of a part, which only the user may have written: it is unpickled."""
        made: Share = pickle.loads(data)
        return made


def record_exactly(
    runtime: OperatorRuntime,
    request: WindowRequest,
    parts: Mapping[str, Sequence[Tuples]],
    write: Callable[[str, bytes], None],
    tag: str,
) -> ExactPart | None:
    """Record the ports of an operator that the request names; None for none.

    `parts`: the tuples of all its ports. `write` writes a file of the checkpoint; `tag` is unique to the
    attempt. An input has a part in each window, an output only where it got tuples. Never fails the window:
    what cannot be recorded is in the part.
    """
    spec = runtime.spec
    ports = [port for port in (*spec.inputs, *spec.outputs) if (spec.id, port) in request.exact]
    tuples = sum(len(part) for port in ports for part in parts.get(port, ()))
    is_input = isinstance(runtime.operator, InputOperator)
    if not ports or not (tuples or is_input):
        return None
    limit = max(request.exact[spec.id, port] for port in ports)
    try:
        share = _share(runtime, request, {port: parts.get(port, ()) for port in ports})
        data = pickle.dumps(share, 5)
        if len(data) > limit:
            why = f"`{spec.name}` has {len(data):,} bytes in window {request.window_id}, the limit is "
            return ExactPart(tuples, b"", "", 0, f"{why}{limit:,}")
        if len(data) <= INLINE_BYTES:
            return ExactPart(tuples, data, "", len(data), "")
        name = f"{EXACT}/w{request.window_id:010d}-{spec.id}-{tag}.part"
        write(name, data)
        return ExactPart(tuples, b"", name, len(data), "")
    except Exception as error:  # noqa: BLE001  a recording must not fail what it records
        why = f"window {request.window_id} of `{spec.name}` could not be recorded: "
        return ExactPart(tuples, b"", "", 0, why + capped(described(error)))


def _share(runtime: OperatorRuntime, request: WindowRequest, parts: Mapping[str, Sequence[Tuples]]) -> Share:
    operator, signals = runtime.operator, runtime.instance.signals
    return Share(
        {port: [_batch(part) for part in taken if len(part)] for port, taken in parts.items()},
        signals.marks.get(runtime.spec.id),
        {port: list(signals.controls.get((runtime.spec.id, port), ())) for port in parts},
        isinstance(operator, InputOperator) and has_finished(operator),
        request.time,
    )


def _batch(part: Tuples) -> Batch:
    """The tuples as bytes that need no schema to be read; `_share` calls it."""
    sink, batch = pa.BufferOutputStream(), part.batch
    with pa.ipc.new_stream(sink, batch.schema) as stream:
        stream.write_batch(batch)
    times = encode_times(part)
    if isinstance(times, tuple):
        newest, oldest = times
        return Batch(
            sink.getvalue().to_pybytes(),
            (newest.to_pybytes(), None if oldest is None else oldest.to_pybytes()),
        )
    return Batch(sink.getvalue().to_pybytes(), times)
