"""The events of a run, read from its log as far as it is written, and on from there."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO

from ridgeline.api.errors import RidgelineError
from ridgeline.engine.files.rotation import size_of
from ridgeline.measure.encoding import from_dict
from ridgeline.measure.events import ApplicationPlanned, RunEvent
from ridgeline.observe.watch import Watch
from ridgeline.service.event_log import CONTINUED, FileHead, Repeats, RunFiles, check_suffix, reason

_LONGEST = 256 * 1024 * 1024
"""The longest line that is read: a plan of 5,000 operators has 15 MB."""


class Tail:
    """Reads the events of a run once, in order, from all files of its log. One thread at a time.

    Files may be renamed while it reads.

    Args:
        path: One of its files.
        note: Called with each thing that is missing.
        run: As `FileHead.run`, of a log whose files may be of several runs; default: that of the path.
    """

    def __init__(self, path: Path, note: Callable[[str], None], run: object = None) -> None:
        self.path = path
        self.read = 0
        """Bytes that were read."""
        self._note = note
        self._files = RunFiles(path, run)
        self._file: _Lines | None = None
        self._head: FileHead | None = None
        self._repeats = Repeats()

    def size(self) -> int:
        """The bytes that the log has now. Raises RidgelineError if it cannot be read."""
        try:
            return sum(size_of(file) for file, _ in self._files.of_run())
        except OSError as error:
            raise _unreadable(error) from error

    def written_at(self) -> float:
        """When it was written to last, seconds since 1970; 0 if that is not known."""
        try:
            files = [file for file, _ in self._files.of_run()]
            return max((file.stat().st_mtime for file in files), default=0.0)
        except OSError:
            return 0.0

    def events(self) -> Iterator[RunEvent]:
        """The events since the last call, as far as they are whole.

        Raises RidgelineError naming the line that is no event, or if the log cannot be read.
        """
        try:
            if self._file is None and not self._open(self._files.first()):
                return
            while self._file is not None and self._head is not None:
                following = self._files.after(self._head)  # before reading: the file is whole if there is one
                yield from self._rest(self._file, self._head)
                if following is None:
                    return
                self._file.close()
                gone = following[1].part - self._head.part - 1
                if gone:
                    self._note(f"{_several(gone)} missing before `{following[0].name}`")
                self._open(following)
        except OSError as error:
            raise _unreadable(error) from error

    def torn(self) -> str:
        """The line that is not whole; "" if all are."""
        return "" if self._file is None else self._file.torn()

    def close(self) -> None:
        """Close the file that is read."""
        if self._file is not None:
            self._file.close()

    def _open(self, found: tuple[Path, FileHead] | None) -> bool:
        """Begin with a file; False if there is none."""
        if found is None:
            return False
        path, head = found
        is_first = self._head is None
        self._head = head
        self._file = _Lines(path)
        self._repeats.begin(head)
        if is_first and head.part:
            self._note(f"it begins in the middle of the run: {_several(head.part)} missing")
        if head.lost:
            self._note(f"{head.lost:,} events before `{path.name}` are missing: it could not be written")
        return True

    def _rest(self, file: _Lines, head: FileHead) -> Iterator[RunEvent]:
        """The events of a file that were not read. Raises RidgelineError."""
        for where, text, size in file.lines():
            self.read += size
            try:
                data = json.loads(text)
                if isinstance(data, dict) and data.get("event") == CONTINUED:
                    continue
                event = from_dict(data)
            except (ValueError, AttributeError, RecursionError) as error:
                why = str(error)[:200]
                remedy = "was the file changed, or is it of another version? remove the line to read on"
                raise RidgelineError(f"`{file.path.name}`, {where} is no event: {why}; {remedy}") from error
            if self._repeats.is_new(event):
                yield event


class _Lines:
    """A file of JSON lines, which stays open: it may be renamed."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._opened: IO[bytes] = path.open("rb")
        self._number = 0

    def lines(self) -> Iterator[tuple[str, bytes, int]]:
        """The lines that are whole: where each stands, it, and its bytes. Raises OSError, RidgelineError."""
        while True:
            at = self._opened.tell()
            line = self._opened.readline(_LONGEST)
            if len(line) == _LONGEST:
                raise RidgelineError(
                    f"`{self.path.name}`, line {self._number + 1} has more than {_LONGEST:,} bytes"
                )
            if not line.endswith(b"\n"):
                self._opened.seek(at)
                return
            self._number += 1
            yield f"line {self._number}", line, len(line)

    def torn(self) -> str:
        """The line that has no end; "" if there is none."""
        at = self._opened.tell()
        rest = self._opened.read(1)
        self._opened.seek(at)
        return f"line {self._number + 1}" if rest else ""

    def close(self) -> None:
        self._opened.close()


class NoRunError(RidgelineError):
    """An event log that does not hold a run from its beginning."""


def read_event_log(path: str, note: Callable[[str], None] = lambda _: None) -> Iterator[RunEvent]:
    """The events of a run, in order, from all files of its log.

    `path`: the file that was given to the run, for the last one; or one of those before, for its run. `note`:
    called with what is missing: files, or a last line that a killed run cut off.

    Raises RidgelineError if the log cannot be read, or naming the line that is no event.
    """
    check_suffix(path)
    tail = Tail(Path(path), lambda text: note(f"event log `{path}`: {text}"))
    try:
        yield from tail.events()
        if torn := tail.torn():
            note(f"event log `{path}`, {torn}: the last event is torn and skipped; the run was killed")
    except RidgelineError as error:
        raise RidgelineError(f"event log `{path}`: {error}") from error
    finally:
        tail.close()


def read_run(path: str, note: Callable[[str], None] = lambda _: None) -> Iterator[RunEvent]:
    """As `read_event_log`. Raises NoRunError for a log that is empty or begins in the middle."""
    empty = True
    for event in read_event_log(path, note):
        if empty and not isinstance(event, ApplicationPlanned):
            raise NoRunError(
                f"event log `{path}` begins with `{type(event).__name__}` instead of `ApplicationPlanned`; "
                "give a whole log"
            )
        empty = False
        yield event
    if empty:
        raise NoRunError(f"event log `{path}` holds no events; give a file that `--event-log` has written")


def replay(path: str, note: Callable[[str], None] = lambda _: None) -> Watch:
    """The figures of a run as they were when its log ended. Raises RidgelineError as `read_run`."""
    at = 0.0
    watch = Watch(lambda: at)
    for event in read_run(path, note):
        at = max(at, event.at)
        watch.observe(event)
    return watch


def _several(files: int) -> str:
    return "a file is" if files == 1 else f"{files} files are"


def _unreadable(error: Exception) -> RidgelineError:
    return RidgelineError(f"it cannot be read: {reason(error)}; give a file that `--event-log` has written")
