"""Runs of tuples that a stream codec serialises on their way to an input port."""

from __future__ import annotations

import struct
from itertools import islice

import pyarrow as pa

from ridgeline.api.columns.schema import Schema
from ridgeline.api.columns.tuples import Tuples
from ridgeline.api.errors import RidgelineError, described, shorten
from ridgeline.api.times import Times
from ridgeline.engine.exchange.block import OpenedTimes, opened_times
from ridgeline.plan.physical import Encoding

_COUNT = struct.Struct("<Q")
"""Before the bytes: the number of tuples."""


class DecodeError(RidgelineError):
    """A codec cannot decode what it has encoded."""


def encode(tuples: Tuples, encoding: Encoding) -> pa.Buffer:
    """The bytes of a sequence of tuples. Raises RidgelineError for what the codec raises."""
    who = f"the codec `{type(encoding.codec).__name__}` of {encoding.where}"
    try:
        data = encoding.codec.encode_all(tuples.read_as(encoding.schema))
    except Exception as error:
        first = shorten(tuples.rows[0])
        what = f"{who} cannot encode {len(tuples)} tuples, the first being {first}: {described(error)}"
        raise RidgelineError(f"{what}; let `encode` take whatever its port may get") from error
    try:
        view = memoryview(data).cast("B")
    except TypeError:
        raise RidgelineError(
            f"{who} made {shorten(data)} of {len(tuples)} tuples, which is no `bytes`; return `bytes`"
        ) from None
    return pa.py_buffer(_COUNT.pack(len(tuples)) + view)


def decode(data: pa.Buffer, encoding: Encoding, times: OpenedTimes) -> Tuples:
    """The tuples of these bytes. Raises DecodeError for what the codec raises or makes."""
    view = memoryview(data).cast("B").toreadonly()
    (count,), body = _COUNT.unpack_from(view), view[_COUNT.size :]
    try:
        found = encoding.codec.decode_all(body, count, encoding.schema)
        return _tuples(found, count, encoding.schema, opened_times(times, count))
    except Exception as error:
        name = f"the codec `{type(encoding.codec).__name__}`"
        what = f"{name} cannot decode {count} tuples of {body.nbytes} bytes: {described(error)}"
        raise DecodeError(f"{what}; let `decode` return what `encode` got") from error


def _tuples(found: object, count: int, schema: Schema, times: Times | str | None) -> Tuples:
    """The values of a codec, as tuples of its port. Raises ValueError, TypeError or SchemaError."""
    if isinstance(found, Tuples):
        batch, made = found.batch, len(found)
        if not batch.schema.equals(schema.arrow):
            raise TypeError(f"it made tuples of {found.schema.describe()}, not {schema.describe()}")
        tuples = Tuples.of_batch(schema, batch, times)
    else:
        rows = list(islice(iter(found), count + 1))  # type: ignore[call-overload]  # what is no sequence, raises
        made = len(rows)
        tuples = Tuples.of_rows(schema, rows, times)
    if made != count:
        raise ValueError(f"it made {made if made <= count else 'more'} tuples of {count}")
    return tuples
