"""Event logs: all events of a run, in files, to compute its figures again without it.

`NAME.jsonl` (or `.json`) is JSON lines, an event a line, written line by line. A killed run leaves at most a
torn last line, which readers skip. Numbers that are not finite are written as Python's `json` does (`NaN`,
`Infinity`).

A log that is full is renamed, and `NAME.jsonl` begins again (see `ridgeline.engine.files.rotation`). So it is
where a run begins. A file that continues a run begins with a line `LogContinued`, and repeats the plan. Hence
each can be read by itself, and all together are the run.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ridgeline.api.errors import RidgelineError
from ridgeline.engine.files.rotation import Rotation, base_of, earlier, put_away, remove_old
from ridgeline.measure.encoding import to_json
from ridgeline.measure.events import (
    ApplicationPlanned,
    PromiseChanged,
    RunEvent,
    SourceProgress,
    WindowReported,
)
from ridgeline.measure.slot_events import SlotEvent
from ridgeline.service.line_file import LineFile

RETRY_SECONDS = 5.0
"""After so long a log that could not be written is tried again; then after twice as long, and so on."""
_MOST_RETRIES = 6
CONTINUED = "LogContinued"
"""The `event` of the first line of a file that continues a run."""
LINES = frozenset({".jsonl", ".json"})
_FIRST = b'{"event":'
_BEGINNING_BYTES = 256
_BURST = (WindowReported, SourceProgress)  # a `WindowCommitted` follows them at once


class EventLogWriter:
    """Writes the events of a run, in as many files as `rotation` says. One thread at a time.

    A log that is there is put away, and so is one that is full. One that another program renames is begun
    again. While it cannot be written (disk full) events are left out, and counted in the next file.

    Args:
        path: Ends in `.jsonl` or `.json`; its folder must exist.
        failed: Called with the reason if writing fails later, and once it is possible again.
        rotation: When the next file begins, and how much is kept.

    Raises:
        RidgelineError: If the suffix is another, or it cannot be made. Also if another run writes the file,
            or it is no event log.
    """

    def __init__(
        self, path: str, failed: Callable[[str], None] | None = None, rotation: Rotation | None = None
    ) -> None:
        self.path = path
        self._file = Path(path)
        self._failed = failed
        self._rotation = rotation or Rotation()
        self._standing = _Standing()
        self._begun = False
        self._part = 0
        self._part_began = 0.0
        self._lost = 0
        self._retry_at = 0.0
        self._failures = 0
        self._sink: _Lines | None = _open(path)
        remove_old(self._file, self._rotation)

    def write(self, event: RunEvent) -> None:
        """Append an event. Never raises."""
        self._standing.note(event)
        if not self._begun:
            self._begun, self._part_began = True, event.at
        if self._sink is None and not self._begin_again(event):
            self._lost += 1
            return
        if self._try(lambda sink: sink.write(event), event.at) and not isinstance(event, _BURST):
            self._try(lambda sink: self._look(sink, event.at), event.at)

    def close(self) -> None:
        """Write what is left; a log without events is removed. Never raises; may be called twice."""
        self._try(lambda sink: sink.close(), 0.0)
        if not self._begun:
            self._try(lambda _: self._file.unlink(), 0.0)
        self._sink = None
        self._retry_at = float("inf")

    def _look(self, sink: _Lines, at: float) -> None:
        """Begin the next file if this one is full, or has been renamed."""
        moved = not sink.is_at(self._file)
        if not moved and sink.status.st_size < self._rotation.size_bytes:
            return
        sink.flush()
        if not moved:
            put_away(self._file)  # before its lock is released
        sink.close()
        self._sink = None
        self._continue(at)
        remove_old(self._file, self._rotation)

    def _continue(self, at: float) -> None:
        """Begin a file that continues the run. Raises OSError, RidgelineError."""
        sink = _open(self.path)
        try:
            repeated = self._standing.events()
            sink.add(self._head(at, len(repeated)))
            for one in repeated:
                sink.add(to_json(one))
            sink.flush()
        except BaseException:
            with contextlib.suppress(Exception):
                sink.close()
            raise
        self._sink, self._part, self._part_began, self._lost = sink, self._part + 1, at, 0

    def _head(self, at: float, repeated: int) -> str:
        """The first line of a file that continues the run."""
        head = {"event": CONTINUED, "at": at, **self._standing.run, "part": self._part + 1}
        head |= {"repeated": repeated, "lost": self._lost}
        return json.dumps(head, ensure_ascii=False, separators=(",", ":"))

    def _begin_again(self, event: RunEvent) -> bool:
        """After a failure: try a new file now and then, where a window ends."""
        if event.at < self._retry_at or isinstance(event, _BURST) or not self._standing.run:
            return False
        lost = self._lost
        try:
            self._continue(event.at)
        except Exception:  # noqa: BLE001  it has been said
            self._wait(event.at)
            return False
        self._say(f"event log `{self.path}` is written again; {lost:,} events are missing in it")
        return True

    def _try(self, action: Callable[[_Lines], None], at: float) -> bool:
        """Do something with the sink. The first of several failures is said."""
        sink = self._sink
        if sink is None:
            return False
        try:
            action(sink)
        except Exception as error:  # noqa: BLE001  a log must never be the end of a run
            self._lost += sink.pending
            self._sink = None
            if at > self._part_began + RETRY_SECONDS * 2**_MOST_RETRIES:
                self._failures = 0  # it had been written for long
            self._wait(at)
            with contextlib.suppress(Exception):
                sink.close()
            self._say(
                f"event log `{self.path}` cannot be written: {reason(error)}; the run continues, and events "
                "are left out until it can be"
            )
            return False
        return True

    def _wait(self, at: float) -> None:
        """Try again later."""
        self._retry_at = at + RETRY_SECONDS * 2**self._failures
        self._failures = min(self._failures + 1, _MOST_RETRIES)

    def _say(self, text: str) -> None:
        if self._failed is not None:
            self._failed(text)


class _Standing:
    """The events that a file repeats if it continues a run: plan, slots, states of promises."""

    def __init__(self) -> None:
        self.run: dict[str, Any] = {}
        """Identifies the run in the first lines of its files; empty before its plan."""
        self._planned: list[RunEvent] = []
        self._sized: list[RunEvent] = []
        self._slots: dict[int, RunEvent] = {}
        self._promises: dict[tuple[str, str], RunEvent] = {}

    def note(self, event: RunEvent) -> None:
        """Take an event in."""
        match event:
            case ApplicationPlanned():
                if not self.run:
                    self.run = {"application_id": event.application_id, "began": event.at}
                self._planned = [event]
            case SlotEvent(kind="sized" | "spread"):
                self._sized = [event]
            case SlotEvent(kind="joined" | "restarted"):
                self._slots[event.slot] = event
            case SlotEvent(kind="lost"):
                self._slots.pop(event.slot, None)
            case PromiseChanged():
                self._promises[event.operator, event.promise] = event
            case _:
                pass

    def events(self) -> list[RunEvent]:
        """Those that hold now."""
        return [*self._planned, *self._sized, *self._slots.values(), *self._promises.values()]


class Repeats:
    """Says which events of the next file of a run were read with those before.

    An event that is repeated, and was not read, was in a file that is missing, or could not be written.
    """

    def __init__(self) -> None:
        self._standing = _Standing()
        self._known: frozenset[str] = frozenset()
        self._left = 0

    def begin(self, head: FileHead) -> None:
        """A file begins."""
        self._known, self._left = frozenset(map(_text, self._standing.events())), head.repeated

    def is_new(self, event: RunEvent) -> bool:
        """Whether the next event of the file was not read before."""
        self._left -= 1
        if self._left >= 0 and _text(event) in self._known:
            return False
        self._standing.note(event)
        return True


def _text(event: RunEvent) -> str:
    """By it events are equal whose figures are no numbers. "" for one made to harm, nested too deeply."""
    try:
        return to_json(event)
    except RecursionError:
        return ""


def event_logs(folder: str) -> list[str]:
    """The event logs in a folder, one path for each run, as `read_run` takes it. Raises OSError.

    Of a run with several files it is the last one. Files with other contents are left out.
    """
    runs: dict[tuple[object, ...], tuple[int, str]] = {}
    for path in sorted(Path(folder).iterdir()):
        if path.suffix not in LINES or path.name.startswith("."):
            continue
        head = head_of(path)
        if head is not None and head.part >= runs.get((base_of(path), head.run), (0, ""))[0]:
            runs[base_of(path), head.run] = head.part, str(path)
    return sorted(path for _, path in runs.values())


# Files ------------------------------------------------------------------------------------------------------


class FileHead:
    """The first line of a file: of which run it is, and the how many-th file.

    `repeated`: so many events after it are known from the files before. `lost`: events that are missing
    before it.
    """

    def __init__(self, line: str) -> None:
        """Raises ValueError, TypeError or KeyError for a line that is no beginning."""
        data = json.loads(line)
        continued = data["event"] == CONTINUED
        began = data["began"] if continued else data["at"]
        self.run = (str(data.get("application_id", "")), float(began))
        self.part = int(data["part"]) if continued else 0
        self.repeated = int(data["repeated"]) if continued else 0
        self.lost = int(data["lost"]) if continued else 0


def head_of(file: Path) -> FileHead | None:
    """The head of a file, None if it has no event or another content. Raises OSError."""
    if not _begins(file):
        return None  # also of a file of another content whose first line is huge
    with file.open("rb") as lines:
        try:
            return FileHead(lines.readline().decode("utf-8", "replace"))
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
            return None


def _begins(file: Path) -> bool:
    """Whether a file begins as an event log does. Raises OSError."""
    with file.open("rb") as opened:
        return opened.read(len(_FIRST)) == _FIRST


def _beginning(file: Path) -> bytes:
    """The first bytes of a file, which have the time of its first event. Raises OSError."""
    with file.open("rb") as opened:
        return opened.read(_BEGINNING_BYTES)


class RunFiles:
    """The files of the run that a path names. A run that writes may rename them meanwhile.

    `run`: as `FileHead.run`; by default that of the file at the path.
    """

    def __init__(self, path: Path, run: object = None) -> None:
        self._path = path
        self._base = base_of(path)
        self._heads: dict[tuple[object, ...], FileHead | None] = {}
        self._run = run

    def first(self) -> tuple[Path, FileHead] | None:
        """The first file that is there; None if it holds nothing. Raises OSError."""
        if self._run is not None:
            return min(self.of_run(), key=lambda one: one[1].part, default=None)
        path = self._path
        if path == self._base and not path.exists():
            path = (earlier(path) or [path])[-1]
        path.stat()
        head = self._head(path)
        if head is None:  # let the reader say what is wrong with it
            none = FileHead('{"event":"","at":0}')
            return path, none
        self._run = head.run
        found = self.of_run()
        return min(found, key=lambda one: one[1].part) if found else (path, head)

    def after(self, head: FileHead) -> tuple[Path, FileHead] | None:
        """The next file. Raises OSError."""
        found = [one for one in self.of_run() if one[1].part > head.part]
        return min(found, key=lambda one: one[1].part, default=None)

    def of_run(self) -> list[tuple[Path, FileHead]]:
        """The files of the run that are there, with their heads. Raises OSError."""
        found = []
        for path in [*earlier(self._base), self._base]:
            with contextlib.suppress(FileNotFoundError):  # renamed meanwhile
                head = self._head(path)
                if head is not None and head.run == self._run:
                    found.append((path, head))
        return found

    def _head(self, path: Path) -> FileHead | None:
        """The head of a file, read once. Raises OSError.

        A new file may get the number (`st_ino`) of one that was removed, so its beginning counts, too.
        """
        status = path.stat()
        key = status.st_dev, status.st_ino, _beginning(path)
        if self._heads.get(key) is None:
            self._heads[key] = head_of(path)
        return self._heads[key]


# Writing ----------------------------------------------------------------------------------------------------


def _open(path: str) -> _Lines:
    """A new sink by the path's suffix; what was there is put away. Raises RidgelineError."""
    check_suffix(path)
    file = Path(path)
    try:
        if file.is_dir():
            raise _another_content(file)
        lines = _Lines(file)
        if lines.status.st_size:
            with contextlib.closing(lines):
                _put_away(file)
            lines = _Lines(file)
    except BlockingIOError:
        raise RidgelineError(f"event log `{file}` is written by another run; give another name") from None
    except OSError as error:
        raise RidgelineError(
            f"event log `{path}` cannot be written: {reason(error)}; give a path in a folder that exists "
            "and may be written to"
        ) from error
    return lines


def _put_away(file: Path) -> None:
    """Rename the log of a run before. Raises RidgelineError for another content, OSError."""
    if head_of(file) is None and not _is_torn(file):
        raise _another_content(file)
    put_away(file)


def _another_content(file: Path) -> RidgelineError:
    return RidgelineError(f"`{file}` exists already, and is no event log; give another name, or remove it")


def _is_torn(file: Path) -> bool:
    """Whether a file has no more than the beginning of its first line."""
    with file.open("rb") as opened:
        first = opened.readline()
    return first.startswith(_FIRST) and not first.endswith(b"\n")


def check_suffix(path: str) -> None:
    """Raise RidgelineError for a name that no event log has."""
    if Path(path).suffix not in LINES:
        raise RidgelineError(
            f"event log `{path}` must end in `.jsonl` or `.json`; did you mean "
            f"`{Path(path).with_suffix('.jsonl')}`?"
        )


class _Lines(LineFile):
    """JSON lines: whole windows and single events reach the file at once or never."""

    def __init__(self, file: Path) -> None:
        self._waiting: list[bytes] = []
        super().__init__(file)

    def close(self) -> None:
        try:
            self.flush()
        finally:
            super().close()

    @property
    def pending(self) -> int:
        return len(self._waiting)

    def write(self, event: RunEvent) -> None:
        self.add(to_json(event))
        if not isinstance(event, _BURST):
            self.flush()

    def add(self, line: str) -> None:
        """Let a line wait for `flush`."""
        self._waiting.append(line.encode("utf-8", "surrogatepass") + b"\n")

    def flush(self) -> None:
        """Write what waits."""
        if self._waiting:
            self.append(b"".join(self._waiting))
            self._waiting.clear()


def reason(error: Exception) -> str:
    """An error of the system in its own words."""
    text = error.strerror if isinstance(error, OSError) else None
    return (text or str(error) or type(error).__name__)[:200]
