"""The text of a gzip file of which members are damaged: it is read on at the next member that is whole."""

from __future__ import annotations

import zlib
from typing import Any

_CHUNK_BYTES = 2**15
_MAGIC = b"\x1f\x8b\x08"
_HEADER_BYTES = 10
_FLAGS = 3
_RESERVED = 0xE0
_TRIED_BYTES = 2**12
_TEXT_BYTES = 2**8
_WITH_HEADER = 31


class MendedGzip:
    """The text of a gzip file, which is open as `raw`, with a line in place of each part that cannot be read.

    A member can be cut off, changed or have a wrong checksum. Then a line ends here that no format can read,
    as it is no UTF-8: what was read of the last line, and why. The text of the next member follows. Where no
    further member is found, `read` raises zlib.error or EOFError, once all text before was read.
    """

    def __init__(self, raw: Any) -> None:
        self._raw = raw
        self._held = b""
        self._at = 0
        """The place in the file of the first byte that is held."""
        self._member: Any = None
        self._text = b""
        self._given = 0
        """How much of the text was read."""
        self._failed: Exception | None = None

    def read(self, size: int) -> bytes:
        """The next text, at most so many bytes; empty at the end. Raises zlib.error, EOFError, OSError."""
        while self._given == len(self._text):
            self._text, self._given = b"", 0
            if self._failed is not None:
                raise self._failed
            if not self._step():
                return b""
        text = self._text[self._given : self._given + size]
        self._given += len(text)
        return text

    def close(self) -> None:
        """The file is closed by who opened it."""

    def _step(self) -> bool:
        """Read a chunk, or up to what may be another member. False at the end of the file."""
        if self._member is None:
            self._pass(len(self._held) - len(self._held.lstrip(b"\0")))
        if not self._held and not self._fill():
            if self._member is not None:
                self._failed = EOFError("Compressed file ended before the end-of-stream marker was reached")
            return self._member is not None
        if self._member is None:
            self._pass(len(self._held) - len(self._held.lstrip(b"\0")))
            if not self._held:
                return True
            self._member, begin = zlib.decompressobj(_WITH_HEADER), 1
        else:
            begin = 0
        while self._held.endswith((_MAGIC[:1], _MAGIC[:2])) and self._fill():
            pass
        border = self._next_member(begin, sure=True)
        if border == 0:
            self._mend("it ends early, and another member begins", 0)
            return True
        self._decompress(self._held if border is None else self._held[:border])
        return True

    def _decompress(self, piece: bytes) -> None:
        """Decompress the first bytes that are held."""
        before = self._member.copy()
        try:
            self._text += self._member.decompress(piece)
        except zlib.error as error:
            border = self._next_member(1, sure=False)  # what is behind it is no part of this one
            self._text += _until_it_fails(before, piece if border is None else piece[:border])
            self._failed = error
            self._mend(str(error), 1)
            return
        if self._member.eof:
            self._pass(len(piece) - len(self._member.unused_data))
            self._member = None
        else:
            self._pass(len(piece))

    def _mend(self, reason: str, begin: int) -> None:
        """Go to the next member, and put a line in place of what is passed. Without one leave the error."""
        place = self._at
        while (border := self._next_member(begin, sure=False)) is None:
            self._pass(max(0, len(self._held) - len(_MAGIC)))
            begin = 0
            if not self._fill():
                self._failed = self._failed or EOFError(reason)
                return
        self._pass(border)
        self._member, self._failed = None, None
        note = f" damaged at byte {place} of the file: {reason}; it is read on at byte {self._at}\n"
        self._text += b"\xff" + note.encode()

    def _next_member(self, begin: int, *, sure: bool) -> int | None:
        """Where a member begins in what is held, from `begin` on; None if none does.

        `sure`: within a member that is whole so far three bytes may look like another one by chance.
        """
        while (found := self._held.find(_MAGIC, begin)) >= 0:
            while len(self._held) - found < _TRIED_BYTES and self._fill():
                pass
            if _is_member(self._held[found : found + _TRIED_BYTES], sure=sure):
                return found
            begin = found + 1
        return None

    def _fill(self) -> bool:
        """Read a chunk more. False at the end of the file."""
        chunk = self._raw.read(_CHUNK_BYTES)
        self._held += chunk
        return bool(chunk)

    def _pass(self, count: int) -> None:
        self._held = self._held[count:]
        self._at += count


def _is_member(data: bytes, *, sure: bool) -> bool:
    """Whether these bytes are the beginning of a member: it begins with some text, a lot if `sure`.

    Bytes that look like a header by chance do not decompress for so long.
    """
    if len(data) < _HEADER_BYTES or data[_FLAGS] & _RESERVED:
        return False
    member, wanted = zlib.decompressobj(_WITH_HEADER), _TEXT_BYTES if sure else 1
    try:
        text = member.decompress(data, wanted)
    except zlib.error:
        return False
    return len(text) == wanted or member.eof or len(data) < _TRIED_BYTES


def _until_it_fails(member: Any, data: bytes) -> bytes:
    """The text of the bytes before the one that cannot be read."""
    found = bytearray()
    try:
        for byte in data:
            found += member.decompress(bytes((byte,)))
    except zlib.error:
        pass
    return bytes(found)
