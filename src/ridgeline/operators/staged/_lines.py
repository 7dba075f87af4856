"""Lines of text from bytes that come in pieces."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import pyarrow as pa

MOST_BYTES = 16 << 20
"""The longest line."""


class Line(NamedTuple):
    """A line, without its end.

    Example:
        >>> from ridgeline.operators import Line
        >>> Line("hello").text
        'hello'
    """

    text: str


class Lines:
    """Divides bytes into lines. Bytes that are not UTF-8 become the replacement character.

    A line of more than `MOST_BYTES` comes in pieces: one that never ends would take all memory.
    """

    def __init__(self) -> None:
        self._begun: list[bytes] = []
        self._size = 0

    def add(self, data: bytes) -> Iterator[str]:
        """The lines that end in these bytes."""
        if b"\n" not in data:
            self._begun.append(data)
            self._size += len(data)
            if self._size >= MOST_BYTES:
                yield from self.rest()
            return
        *whole, rest = b"".join([*self._begun, data]).split(b"\n")
        self._begun, self._size = [rest], len(rest)
        yield from map(_text, whole)

    def rest(self) -> Iterator[str]:
        """The last line, if it has no end."""
        rest = b"".join(self._begun)
        self._begun, self._size = [], 0
        if rest:
            yield _text(rest)


def encode(lines: list[str]) -> pa.Table:
    """Lines as rows."""
    return pa.table({"text": pa.array(lines, pa.string())})


def _text(line: bytes) -> str:
    return line.removesuffix(b"\r").decode("utf-8", "replace")
