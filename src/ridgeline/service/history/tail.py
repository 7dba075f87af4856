"""An event log read as far as it is written, and on from there."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import IO

import pyarrow as pa
import pyarrow.parquet as pq

from ridgeline.api.errors import RidgelineError
from ridgeline.measure.encoding import from_dict
from ridgeline.measure.events import RunEvent

PARQUET = ".parquet"
SUFFIXES = frozenset({".json", ".jsonl", PARQUET})
_LONGEST = 256 * 1024 * 1024
"""The longest line that is read: a plan of 5,000 operators has 15 MB."""


class Tail:
    """Reads the events of a log once, in order. One thread at a time.

    `torn`: bytes of an event that is not written to its end.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.read = 0
        """Bytes that were read."""
        self.torn = 0
        self._lines = 0
        self._parts: set[str] = set()

    def size(self) -> int:
        """The bytes that the log has now. Raises RidgelineError if it cannot be read."""
        try:
            if not self.path.is_dir():
                return self.path.stat().st_size
            return sum(part.stat().st_size for part in self._all_parts())
        except OSError as error:
            raise self._unreadable(error) from error

    def events(self) -> Iterator[RunEvent]:
        """The events since the last call, as far as they are whole.

        Raises RidgelineError naming the line that is no event, or if the log cannot be read.
        """
        try:
            for where, text in self._parquet() if self.path.suffix == PARQUET else self._text():
                try:
                    event = from_dict(json.loads(text))
                except (ValueError, AttributeError, RecursionError) as error:
                    msg = f"{where} is no event: {str(error).partition('; known are')[0][:200]}"
                    raise RidgelineError(msg) from error
                yield event
        except (OSError, pa.ArrowException) as error:
            raise self._unreadable(error) from error

    def _text(self) -> Iterator[tuple[str, bytes]]:
        """Where a line stands, and the line; one without its end is left for the next call."""
        with self.path.open("rb") as file:
            if self.path.stat().st_size < self.read:
                msg = "it has become shorter while it was read"
                raise RidgelineError(msg)
            file.seek(self.read)
            while line := self._line(file):
                if not line.endswith(b"\n"):
                    self.torn = len(line)
                    return
                self.torn = 0
                self.read += len(line)
                self._lines += 1
                yield f"line {self._lines}", line

    def _line(self, file: IO[bytes]) -> bytes:
        line = file.readline(_LONGEST)
        if len(line) == _LONGEST:
            msg = f"line {self._lines + 1} has more than {_LONGEST:,} bytes"
            raise RidgelineError(msg)
        return line

    def _parquet(self) -> Iterator[tuple[str, str]]:
        """Where a row stands, and its event; parts that were read are left out."""
        for part in self._all_parts():
            if part.name in self._parts:
                continue
            size = part.stat().st_size
            with pq.ParquetFile(part) as opened:
                row = 0
                for batch in opened.iter_batches(1000, columns=["payload"]):
                    for payload in batch.column(0).to_pylist():
                        row += 1
                        yield f"{part.name}, row {row}", payload or ""
            self._parts.add(part.name)
            self.read += size

    def _all_parts(self) -> list[Path]:
        return sorted(self.path.glob("[!.]*.parquet")) if self.path.is_dir() else [self.path]

    def _unreadable(self, error: Exception) -> RidgelineError:
        reason = error.strerror if isinstance(error, OSError) else None
        return RidgelineError(f"it cannot be read: {(reason or str(error) or type(error).__name__)[:200]}")
