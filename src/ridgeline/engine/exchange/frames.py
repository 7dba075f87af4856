"""Frames: messages on the wire, as bytes in pieces of any size. No I/O.

A frame is a header of 16 bytes and a body: the sizes of its parts, then the parts (the head, then buffers).
Each part begins at a multiple of 8. Large parts are neither copied when they are sent nor when they come in.
"""

from __future__ import annotations

import pickle
import struct
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import pyarrow as pa
from typing_extensions import Buffer

from ridgeline.engine.exchange.network import MALFORMED, TOO_LARGE, RefusedError

_HEADER = struct.Struct("<4sHxxQ")
"""The mark, the kind, the bytes of the body."""
_MARK = b"RLF1"
_LEAST_BODY = 16
"""The number of parts, and the size of the first."""
_JOINED_BYTES = 16 << 10
"""Smaller parts are copied and sent together: that costs less than a piece of their own."""
_MOST_PARTS = 1 << 20
MAXIMUM_BYTES = 1 << 30
_NONE = memoryview(b"")
_PADDING = bytes(8)


class Frame(NamedTuple):
    """One frame; `head` and `buffers` lie in one piece of memory, read-only."""

    kind: int
    head: memoryview
    buffers: Sequence[memoryview]


def encode(
    kind: int, head: Buffer, buffers: Sequence[Buffer] = (), maximum_bytes: int = MAXIMUM_BYTES
) -> list[memoryview]:
    """A frame as pieces, none of them empty; large parts are pieces of their own, not copied.

    Raises ValueError if the body would have more than `maximum_bytes`.
    """
    parts = [_raw(head), *map(_raw, buffers)]
    sizes = [part.nbytes for part in parts]
    count = len(parts)
    size = 8 * (count + 1)
    for part_size in sizes:
        size += part_size + -part_size % 8
    if size > maximum_bytes or count > _MOST_PARTS:
        most = f"{maximum_bytes} bytes in {_MOST_PARTS} parts"
        raise ValueError(f"a frame has at most {most}; got {size} in {count}; divide it")
    small = bytearray(_HEADER.pack(_MARK, kind, size))
    small += struct.pack(f"<{count + 1}Q", count, *sizes)
    pieces = []
    for part, part_size in zip(parts, sizes, strict=True):
        if part_size < _JOINED_BYTES:
            small += part
        else:
            if small:
                pieces.append(memoryview(small))
            pieces.append(part)
            small = bytearray()
        if part_size % 8:
            small += _PADDING[: -part_size % 8]
    if small:
        pieces.append(memoryview(small))
    return pieces


def _raw(part: Buffer) -> memoryview:
    """The bytes of anything that has them in one stretch. Raises BufferError."""
    return memoryview(part) if isinstance(part, bytes) else pickle.PickleBuffer(part).raw()


class FrameDecoder:
    """Makes frames of the bytes of one connection.

    Bytes come by `feed`. While a body is under way they are received into `room`, without a copy; then
    `filled` says how many they were. After a RefusedError it is of no use any more.
    """

    def __init__(self, maximum_bytes: int = MAXIMUM_BYTES) -> None:
        self.maximum_bytes = maximum_bytes
        self._start = b""
        """The beginning of a header."""
        self._kind = 0
        self._body = _NONE
        """Of the frame under way, `_filled` bytes of it have come; empty between frames."""
        self._filled = 0

    @property
    def in_frame(self) -> bool:
        """True if a frame has begun and is not whole yet."""
        return bool(self._start) or self._body is not _NONE

    def room(self) -> memoryview:
        """Where the rest of the body under way belongs; empty between bodies."""
        return self._body[self._filled :]

    def filled(self, count: int) -> Frame | None:
        """Take the bytes that were received into `room`: the frame, if it is whole. Raises RefusedError."""
        self._filled += count
        if self._filled < self._body.nbytes:
            return None
        body, self._body, self._filled = self._body, _NONE, 0
        return _frame(self._kind, body.toreadonly())

    def feed(self, data: Buffer) -> Iterator[Frame]:
        """The frames that these bytes complete, between bodies; takes all of them. Raises RefusedError.

        Nothing that it gives lies in `data`.
        """
        view = memoryview(self._start + bytes(data)) if self._start else memoryview(data)
        self._start = b""
        begin = 0
        while begin < view.nbytes:
            if view.nbytes - begin < _HEADER.size:
                self._start = bytes(view[begin:])
                _check_mark(self._start[: len(_MARK)])
                return
            kind, size = self._header(view, begin)
            begin += _HEADER.size
            if view.nbytes - begin >= size:
                yield _frame(kind, memoryview(bytes(view[begin : begin + size])))
                begin += size
            else:
                self._kind, self._body, self._filled = kind, _allocated(size), view.nbytes - begin
                self._body[: self._filled] = view[begin:]
                return

    def _header(self, view: memoryview, begin: int) -> tuple[int, int]:
        mark, kind, size = _HEADER.unpack_from(view, begin)
        if mark != _MARK:
            _check_mark(mark)
        if size > self.maximum_bytes:
            raise RefusedError(TOO_LARGE, f"a frame has at most {self.maximum_bytes} bytes; it says {size}")
        if size < _LEAST_BODY:
            raise RefusedError(MALFORMED, f"a frame has at least {_LEAST_BODY} bytes; it says {size}")
        return kind, size


def _check_mark(found: bytes) -> None:
    """Raise RefusedError for what is not the mark, or its beginning."""
    if not _MARK.startswith(found):
        raise RefusedError(MALFORMED, f"a frame begins with {_MARK!r}; got {found!r}")


def _allocated(size: int) -> memoryview:
    """Memory for a body. Raises RefusedError if there is none."""
    try:
        return memoryview(pa.allocate_buffer(size)).cast("B")
    except MemoryError as error:
        raise RefusedError(TOO_LARGE, f"no memory is left for a frame of {size} bytes") from error


def _frame(kind: int, body: memoryview) -> Frame:
    """The frame of a whole body, which it lies in. Raises RefusedError if sizes do not fit."""
    count = int.from_bytes(body[:8], "little")
    begin = 8 * (count + 1)
    if not 1 <= count <= _MOST_PARTS or begin > body.nbytes:
        raise RefusedError(MALFORMED, f"a frame of {body.nbytes} bytes cannot have {count} parts")
    parts = []
    for size in struct.unpack_from(f"<{count}Q", body, 8):
        parts.append(body[begin : begin + size])
        begin += size + -size % 8
    if begin != body.nbytes:
        raise RefusedError(
            MALFORMED, f"the parts of a frame must have {body.nbytes} bytes in all; they have {begin}"
        )
    return Frame(kind, parts[0], parts[1:])
