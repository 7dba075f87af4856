"""Rows of CSV whose quoted values have line ends in them."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

Offsets = npt.NDArray[np.int64]
LONGEST_BYTES = 16 * 2**20
"""A row over several lines is no longer. So a quote that is not closed is known before the file ends."""
_QUOTE = 34
_AFTER = (b"", b"\r")


class Scanned(NamedTuple):
    """A line of CSV. `open`: a quote is not closed at its end. `delimiters`: those between values.

    `clean`: each value in quotes ends with its closing quote.
    """

    open: bool
    delimiters: int
    clean: bool


def scan(line: bytes, delimiter: bytes, *, quoted: bool = False) -> Scanned:
    """Look through a line. `quoted`: a quote is open at its start.

    A quote opens a value at its beginning only; doubled it is part of a value.

    >>> scan(b'1,"a', b","), scan(b'5" pipe,2', b",").open, scan(b'a","b"c', b",", quoted=True).clean
    (Scanned(open=True, delimiters=1, clean=True), False, False)
    """
    place, delimiters, clean = 0, 0, True
    while True:
        if quoted or line.startswith(b'"', place):
            place = place if quoted else place + 1
            quoted = False
            while True:
                place = line.find(b'"', place)
                if place < 0:
                    return Scanned(True, delimiters, clean)  # noqa: FBT003  by name it is slower
                if not line.startswith(b'""', place):
                    break
                place += 2
            place += 1
            clean = clean and (line.startswith(delimiter, place) or line[place:] in _AFTER)
        place = line.find(delimiter, place) + 1
        if not place:
            return Scanned(False, delimiters, clean)  # noqa: FBT003  by name it is slower
        place += len(delimiter) - 1
        delimiters += 1


def row_ends(
    data: bytes, start: int, ends: Offsets, delimiter: bytes, fields: int, *, whole: bool
) -> tuple[Offsets, int | None]:
    """Of the ends of lines those of rows, and where a row starts whose end is not known yet.

    `start`: where the first line starts. `fields`: of a row; 0 if that is not known. `whole`: nothing follows
    after `data`. A line is a row by itself, which cannot be read, if its quote is never closed. So it is if
    the lines up to the closing quote are no row.
    """
    places = np.flatnonzero(np.frombuffer(data, np.uint8)[start:] == _QUOTE) + start
    quotes = np.diff(np.searchsorted(places, ends), prepend=0)
    lines = np.flatnonzero(quotes).tolist() if (quotes % 2).any() else []
    keep = np.ones(len(ends), bool)
    at = 0
    while at < len(lines):
        first = lines[at]
        at += 1
        begin = int(ends[first - 1]) + 1 if first else start
        if quotes[first] % 2 == 0:
            continue
        found, last = scan(data[begin : ends[first]], delimiter), at
        count = found.delimiters + 1
        while found.open and found.clean and last < len(lines) and ends[lines[last]] - begin <= LONGEST_BYTES:
            line = lines[last]
            found = scan(data[ends[line - 1] + 1 : ends[line]], delimiter, quoted=True)
            count += found.delimiters
            last += 1
        if found.open and found.clean:
            if not whole and len(data) - begin <= LONGEST_BYTES:
                return ends[:first][keep[:first]], begin
        elif found.clean and last > at and fields in {0, count}:
            keep[first : lines[last - 1]] = False
            at = last
    return ends[keep], None
