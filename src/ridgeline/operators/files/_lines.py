"""Read files of lines in blocks from any offset on: text, CSV and JSON lines, plain or compressed."""

from __future__ import annotations

import gzip
import re
import zlib
from typing import IO, NamedTuple, NoReturn

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from ridgeline.api.columns.schema import Schema
from ridgeline.api.errors import RidgelineError, shorten
from ridgeline.operators._halving import Sifted, sift
from ridgeline.operators.files._listing import InputFile

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


BLOCK_BYTES = 2**18
HEAD_BYTES = 2**12
CHUNK_BYTES = 64 * 2**20
Offsets = npt.NDArray[np.int64]
_WRONG = (pa.ArrowException, ValueError, TypeError)
_UNREADABLE = (OSError, EOFError, zlib.error, pa.ArrowException)
_NEWLINE, _RETURN = 10, 13
_ARROWS = re.compile(r"^(CSV parse error: |JSON parse error: |Row #\d+: )+| in row 0$")
"""What Arrow's readers say beside the reason."""
_BOM = b"\xef\xbb\xbf"


class LineParser:
    """The base of what turns lines into rows of a schema."""

    has_header = False
    blank_lines_are_rows = False
    quoting = b""
    """The delimiter, if values may be in quotes, with line ends in them; else nothing."""

    def __init__(self, schema: Schema) -> None:
        self._schema = schema

    @property
    def fields(self) -> int:
        """The number of fields of a row; 0 if that is not known."""
        return 0

    def read_header(self, file: str, line: bytes) -> None:
        """Read the first line of a file. Raises RidgelineError if it does not fit the schema."""

    def look_at(self, file: str, lines: bytes) -> None:
        """Check the first lines of a file, of which the last may be incomplete.

        Raises RidgelineError if they do not fit the schema.
        """

    def parse(self, lines: bytes, count: int) -> pa.RecordBatch:
        """Parse `count` lines into as many rows.

        Raises ValueError or an Arrow exception if they are not exactly `count` rows of the schema.
        """
        raise NotImplementedError

    def describe(self) -> str:
        """The expected form of a line, for error texts."""
        raise NotImplementedError


class LineReader:
    """A file of lines, open at a byte offset (of the decompressed text, if it is compressed).

    Holds in memory the rows that were peeked and about one block. A compressed file is read from its start.
    """

    def __init__(self, file: InputFile, parser: LineParser, place: int, lines: int) -> None:
        """Open `file`, check header and first lines, move to `place`. Raises RidgelineError.

        `lines`: how many lines are before `place`.
        """
        self.file = file
        self._before = 0
        """Lines before the bytes that are held."""
        self._counted = (0, 0)
        """A byte, and how many lines are before it: counting continues there."""
        self._damage: RidgelineError | None = None
        """Why nothing can be read behind the bytes that are held."""
        self.parser = parser
        self._raw = file.open()
        self._compressed = compression(file.path) is not None
        self._source = decompressed(self._raw, file.path)
        self._forget(0)
        if place and not self._compressed and place > self._raw.size():
            self._changed(place)
        file.check_size(self._raw.size())
        if parser.has_header or not place:
            self._read_head(HEAD_BYTES if place else BLOCK_BYTES)
        if place > self.place:
            self._seek(place)
            if not self._compressed:
                self._before = lines

    def peek(self, rows: int) -> int:
        """How many rows follow, at most `rows` and at most 64 MiB; 0 at the end of the file.

        Of a damaged file first the blocks before the damage; then raises RidgelineError.
        """
        while len(self._ends) - self._next < rows and not self._ended and self._held() < CHUNK_BYTES:
            if self._damage is not None and self._held():
                break
            self._load(rows)
        start = self._next
        stop = min(start + rows, len(self._ends))
        if stop > start:
            limit = int(np.searchsorted(self._ends, self._starts[start] + CHUNK_BYTES))
            stop = max(start + 1, min(stop, limit))
        return stop - start

    def sift(self, rows: int, first: int = 0, step: int = 1, *, strict: bool) -> Sifted:
        """Parse every `step`-th row from row `first` on of the next ones, but for lines that do not fit.

        `rows`: what `peek` has returned. If it is `strict`, raises RidgelineError for the first line
        that does not fit.
        """
        chosen = slice(self._next + first, self._next + rows, step)
        starts, ends = self._starts[chosen], self._ends[chosen]

        def parse(begin: int, end: int) -> pa.RecordBatch:
            return self._parse(starts[begin:end], ends[begin:end], whole=step == 1)

        def describe(row: int, error: Exception) -> tuple[str, str]:
            byte = self._base + int(starts[row])
            place = f"line {self.lines_before(byte) + 1}, byte {byte}"
            line = self._data[starts[row] : ends[row]].removesuffix(b"\r").decode(errors="backslashreplace")
            reason = _ARROWS.sub("", str(error)).strip()
            return line, f"{place} of `{self.file.path}` is not {self.parser.describe()}: {reason}"

        return sift(np.arange(first, rows, step), parse, describe, _WRONG, _refused if strict else None)

    def _parse(self, starts: Offsets, ends: Offsets, *, whole: bool) -> pa.RecordBatch:
        data = self._data
        if whole:
            return self.parser.parse(data[starts[0] : ends[-1]], len(ends))
        lines = [data[start:end] for start, end in zip(starts.tolist(), ends.tolist(), strict=True)]
        return self.parser.parse(b"\n".join(lines), len(ends))

    def skip(self, rows: int) -> None:
        """Pass rows that `peek` has found."""
        self._next += rows

    @property
    def place(self) -> int:
        """The byte offset of the next row."""
        return self._place_of(self._next)

    @property
    def lines(self) -> int:
        """How many lines are before the next row."""
        return self.lines_before(self.place)

    def lines_before(self, byte: int) -> int:
        """How many lines are before a byte that is held."""
        begin, count = self._counted
        if not self._base <= begin <= byte:
            begin, count = self._base, self._before
        count += self._data.count(b"\n", begin - self._base, byte - self._base)
        self._counted = byte, count
        return count

    def passed(self) -> float:
        """Bytes passed; of a compressed file the bytes read, which is up to a block more."""
        return float(self._raw.tell()) if self._compressed else float(self.place)

    def close(self) -> None:
        """Close the file."""
        self._source.close()
        self._raw.close()

    def _held(self) -> int:
        """Bytes of the complete rows that are read and not yet passed."""
        return int(self._ends[-1] - self._starts[self._next]) if self._next < len(self._ends) else 0

    def _place_of(self, row: int) -> int:
        return self._base + int(self._starts[row] if row < len(self._starts) else self._tail)

    def _forget(self, base: int) -> None:
        """Drop what is held; the next byte read is at offset `base`."""
        self._data, self._base, self._next, self._tail, self._ended = b"", base, 0, 0, False
        self._starts = self._ends = np.empty(0, np.int64)

    def _read_head(self, least: int) -> None:
        """Pass the byte order mark and the header, if there are any; at least `least` bytes are read."""
        self._load(1, least)
        if self._data.startswith(_BOM):
            self._index(len(_BOM))
        if not self._base:
            self.parser.look_at(self.file.path, self._data)
        if self.parser.has_header:
            while not len(self._ends) and not self._ended:
                self._load(1, least)
            if len(self._ends):  # an empty file has no rows, whatever they are
                self.parser.read_header(self.file.path, self._data[self._starts[0] : self._ends[0]])
                self.skip(1)
                self._index(self.place - self._base)  # now that the number of fields is known

    def _seek(self, place: int) -> None:
        if not self._compressed:
            self._raw.seek(place)
            self._forget(place)
            return
        while self._base + len(self._data) < place and not self._ended:
            self._next = len(self._ends)
            self._load(1)
        if self._base + len(self._data) < place:
            self._changed(place)
        self._index(place - self._base)

    def _load(self, rows: int, least: int = 0) -> None:
        """Read a block more: enough for `rows` rows, judged by the length of those seen."""
        keep = self._place_of(self._next) - self._base
        rest = self._data[keep:]
        seen = len(self._ends) - self._next
        wanted = max(least or BLOCK_BYTES, len(rest), (rows - seen) * (len(rest) // seen + 1) if seen else 0)
        if self._damage is not None:
            raise self._damage
        try:
            block = bytes(self._source.read(min(wanted, CHUNK_BYTES)))
        except _UNREADABLE as error:
            self._damage = RidgelineError(
                f"file `{self.file.path}` is corrupt or cannot be read, "
                f"after byte {self._base + len(self._data)}{' of its text' if self._compressed else ''}: "
                f"{error}; fix or remove it"
            )
            if self._held():
                return
            raise self._damage from error
        self._ended = not block
        if self._ended:
            self.file.check_size()
        elif self._raw.tell() > self.file.bytes:  # it would never end
            self.file.check_size()
            self.file.check_size(self._raw.tell())
        self._before = self.lines_before(self._base + keep)
        self._data, self._base = rest + block, self._base + keep
        self._index(0)

    def _index(self, start: int) -> None:
        """Find where rows start and end in the bytes that are held, from `start` on."""
        data = np.frombuffer(self._data, np.uint8)
        ends = np.flatnonzero(data[start:] == _NEWLINE) + start
        self._tail = int(ends[-1]) + 1 if len(ends) else start
        if self._ended and self._tail < len(data):
            ends = np.append(ends, len(data))
            self._tail = len(data)
        if self.parser.quoting:
            quoting, fields = self.parser.quoting, self.parser.fields
            ends, begun = row_ends(self._data, start, ends, quoting, fields, whole=self._ended)
            self._tail = self._tail if begun is None else begun
        starts = np.empty_like(ends)
        starts[:1] = start
        starts[1:] = ends[:-1] + 1
        if not self.parser.blank_lines_are_rows and len(ends):
            lengths = ends - starts
            blank = (lengths == 0) | ((lengths == 1) & (data[np.minimum(starts, len(data) - 1)] == _RETURN))
            starts, ends = starts[~blank], ends[~blank]
        self._starts, self._ends, self._next = starts, ends, 0

    def _changed(self, place: int) -> NoReturn:
        raise RidgelineError(
            f"file `{self.file.path}` has shrunk: it was read up to byte {place} before; "
            "bring it back, or start on a fresh checkpoint"
        )


def _refused(line: str, what: str, _: Exception) -> RidgelineError:
    remedy = "fix or remove the line, change `schema`, or leave such lines out by `on_error=SKIP`"
    return RidgelineError(f"{what}; got {shorten(line)}; {remedy}")


def decompressed(raw: pa.NativeFile, path: str) -> IO[bytes] | pa.NativeFile:
    """The decompressed bytes of a file that is open; the file itself if its name has no such ending.

    Several gzip members may follow each other, with zeros between and after them, as tapes and blocks have.
    """
    codec = compression(path)
    if codec == "gzip":
        return gzip.GzipFile(fileobj=raw, mode="rb")
    return pa.CompressedInputStream(raw, codec) if codec else raw


def compression(path: str) -> str | None:
    """The compression that a file name's ending stands for: `gzip`, `bz2`, `zstd`, `lz4` or None."""
    return {"gz": "gzip", "gzip": "gzip", "bz2": "bz2", "zst": "zstd", "zstd": "zstd", "lz4": "lz4"}.get(
        path.rpartition(".")[2].lower()
    )
