"""Event logs: all events of a run, in files, to compute its figures again without it.

`NAME.jsonl` (or `.json`) is JSON lines, an event a line, written line by line. A killed run leaves at most a
torn last line, which readers skip. `NAME.parquet` is a folder of Parquet files, as Spark writes them. A
Parquet file can be read only once its end is written. So a part is finished every `PART_SECONDS`, and a
killed run loses at most its last seconds. Numbers that are not finite are written as Python's `json` does
(`NaN`, `Infinity`).
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Protocol, TextIO

import pyarrow as pa
import pyarrow.parquet as pq

from ridgeline.api.errors import RidgelineError
from ridgeline.api.support import trust
from ridgeline.measure.encoding import from_dict, to_dict
from ridgeline.measure.events import (
    ApplicationEnded,
    ApplicationPlanned,
    ContainerWindow,
    OperatorWindow,
    RunEvent,
    SourceProgress,
)
from ridgeline.measure.measurement import Measurement

PART_SECONDS = 5.0
PART_EVENTS = 50_000
SCHEMA = pa.schema(
    [("event", pa.string()), ("at", pa.float64()), ("window_id", pa.int64()), ("payload", pa.string())]
)
"""The columns of a Parquet log; `payload` is the line that a JSON log would have."""
_LINES = frozenset({".jsonl", ".json"})
_PARQUET = ".parquet"
_BURST = (ContainerWindow, OperatorWindow, SourceProgress)  # a `WindowCommitted` follows them at once


class _Sink(Protocol):
    def write(self, event: RunEvent) -> None: ...

    def close(self) -> None: ...

    def remove(self) -> None: ...


class EventLogWriter:
    """Writes events to a file that must not exist yet. One thread at a time.

    Args:
        path: Ends in `.jsonl`, `.json` or `.parquet`; its folder must exist.
        failed: Called once, with the reason, if writing fails later (disk full). The log ends there, the run
            continues.

    Raises:
        RidgelineError: If the suffix is another, the file exists, or it cannot be made.
    """

    def __init__(self, path: str, failed: Callable[[str], None] | None = None) -> None:
        self.path = path
        self._failed = failed
        self._begun = False
        self._sink: _Sink | None = _open(path)

    def write(self, event: RunEvent) -> None:
        """Append an event. Never raises."""
        self._begun = True
        self._try(lambda sink: sink.write(event))

    def close(self) -> None:
        """Write what is left; a log without events is removed. Never raises; may be called twice."""
        self._try(lambda sink: sink.close())
        if not self._begun:
            self._try(lambda sink: sink.remove())
        self._sink = None

    def _try(self, action: Callable[[_Sink], None]) -> None:
        """Do something with the sink. Its first failure ends the log and is reported once."""
        sink = self._sink
        if sink is None:
            return
        try:
            action(sink)
        except Exception as error:  # noqa: BLE001  a log must never be the end of a run
            self._sink = None
            with contextlib.suppress(Exception):
                sink.close()
            if self._failed is not None:
                self._failed(
                    f"event log `{self.path}` cannot be written: {_reason(error)}; the run goes on without it"
                )


def read_event_log(path: str, note: Callable[[str], None] | None = None) -> Iterator[RunEvent]:
    """The events of a log, in order. What a killed run lost at the end is skipped and reported to `note`.

    Raises:
        RidgelineError: If the log cannot be read, or naming the line that is no event.
    """
    file = Path(path)
    _check_suffix(path)
    try:
        file.stat()
        lines = _parquet_lines(file) if file.suffix == _PARQUET else _text_lines(file)
        for where, text, torn in lines:
            try:
                event = from_dict(json.loads(text))
            except (ValueError, AttributeError) as error:
                if torn:
                    if note is not None:
                        note(
                            f"event log `{path}`, {where}: the last event is torn and skipped; the run was "
                            "killed while it was written"
                        )
                    return
                remedy = (
                    "was the file changed, or written by another version of Ridgeline? remove the line to "
                    "read the rest"
                )
                msg = f"event log `{path}`, {where}: {str(error)[:200]}; {remedy}"
                raise RidgelineError(msg) from error
            yield event
    except (OSError, pa.ArrowException, UnicodeDecodeError) as error:
        msg = (
            f"event log `{path}` cannot be read: {_reason(error)}; give a file that `--event-log` has written"
        )
        raise RidgelineError(msg) from error


def replay(path: str, note: Callable[[str], None] | None = None) -> Measurement:
    """The figures of a run as they were when its log ended. Raises RidgelineError as `read_run`."""
    measurement = Measurement()
    for event in read_run(path, note):
        measurement.apply(event)
    return measurement


class NoRunError(RidgelineError):
    """An event log that does not hold a run from its beginning."""


def read_run(path: str, note: Callable[[str], None] | None = None) -> Iterator[RunEvent]:
    """The events of a run.

    Raises RidgelineError as `read_event_log`, NoRunError for a log that is empty or begins in the middle.
    """
    empty = True
    for event in read_event_log(path, note):
        if empty and not isinstance(event, ApplicationPlanned):
            msg = (
                f"event log `{path}` begins with `{type(event).__name__}` instead of `ApplicationPlanned`; "
                "give a whole log"
            )
            raise NoRunError(msg)
        empty = False
        yield event
    if empty:
        msg = f"event log `{path}` holds no events; give a file that `--event-log` has written"
        raise NoRunError(msg)


# Writing ----------------------------------------------------------------------------------------------------


def _open(path: str) -> _Sink:
    """A new sink by the path's suffix. Raises RidgelineError."""
    _check_suffix(path)
    file = Path(path)
    try:
        if file.exists():
            msg = f"event log `{path}` exists already; give another name, or remove it"
            raise RidgelineError(msg)
        return _Parts(file) if file.suffix == _PARQUET else _Lines(file)
    except OSError as error:
        msg = (
            f"event log `{path}` cannot be written: {_reason(error)}; give a path in a folder that exists "
            "and may be written to"
        )
        raise RidgelineError(msg) from error


def _check_suffix(path: str) -> None:
    if Path(path).suffix not in {*_LINES, _PARQUET}:
        msg = (
            f"event log `{path}` must end in `.jsonl`, `.json` or `.parquet`; did you mean "
            f"`{Path(path).with_suffix('.jsonl')}`?"
        )
        raise RidgelineError(msg)


def _line(event: RunEvent) -> str:
    return json.dumps(to_dict(event), ensure_ascii=False, separators=(",", ":"))


class _Lines:
    """JSON lines: whole windows and single events reach the file at once."""

    def __init__(self, file: Path) -> None:
        self._path = file
        self._file: TextIO = open(file, "x", encoding="utf-8", newline="\n", opener=trust.private_opener)  # noqa: SIM115

    def write(self, event: RunEvent) -> None:
        self._file.write(_line(event) + "\n")
        if not isinstance(event, _BURST):
            self._file.flush()

    def close(self) -> None:
        self._file.close()

    def remove(self) -> None:
        self._path.unlink()


class _Parts:
    """Parquet files of whole windows, each of which appears when it is complete."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(mode=0o700)
        self._folder = folder
        self._rows: list[dict[str, Any]] = []
        self._number = 0

    def write(self, event: RunEvent) -> None:
        window = getattr(event, "window_id", None)
        self._rows.append(
            {"event": type(event).__name__, "at": event.at, "window_id": window, "payload": _line(event)}
        )
        full = event.at - self._rows[0]["at"] >= PART_SECONDS or len(self._rows) >= PART_EVENTS
        if isinstance(event, ApplicationEnded) or (full and not isinstance(event, _BURST)):
            self.close()

    def close(self) -> None:
        """Finish the part."""
        if not self._rows:
            return
        name = f"part-{self._number:05d}.parquet"
        unfinished = self._folder / f".{name}"  # readers of folders skip hidden files
        try:
            with open(unfinished, "wb", opener=trust.private_opener) as file:
                pq.write_table(pa.Table.from_pylist(self._rows, SCHEMA), file, compression="zstd")
            unfinished.rename(self._folder / name)
        except BaseException:
            unfinished.unlink(missing_ok=True)
            raise
        finally:
            self._rows = []
        self._number += 1

    def remove(self) -> None:
        self._folder.rmdir()


# Reading ----------------------------------------------------------------------------------------------------

_Found = Iterator[tuple[str, str, bool]]
"""Where a line stands, the line, and whether it may be torn."""


def _text_lines(file: Path) -> _Found:
    with file.open("rb") as lines:
        for number, line in enumerate(lines, 1):
            torn = not line.endswith(b"\n")
            yield f"line {number}", line.decode("utf-8", "replace" if torn else "strict"), torn


def _parquet_lines(path: Path) -> _Found:
    for part in sorted(path.glob("[!.]*.parquet")) if path.is_dir() else [path]:
        row = 0
        with pq.ParquetFile(part) as opened:
            for batch in opened.iter_batches(1000, columns=["payload"]):
                for payload in batch.column(0).to_pylist():
                    row += 1
                    yield f"{part.name}, row {row}", payload or "", False


def _reason(error: Exception) -> str:
    text = error.strerror if isinstance(error, OSError) else None
    return (text or str(error) or type(error).__name__)[:200]
