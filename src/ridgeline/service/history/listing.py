"""The list of runs: each in a few words, worked out by a thread, one log after the other."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from typing_extensions import TypedDict

from ridgeline.api.clock import SystemClock
from ridgeline.api.errors import RidgelineError
from ridgeline.engine.files.rotation import base_of, size_of
from ridgeline.measure.wording.sentence import sentence_of
from ridgeline.service.event_log import LINES, PARQUET, RunFiles, event_logs, head_of
from ridgeline.service.history.logged_run import LoggedRun, NotALogError, is_written
from ridgeline.service.history.tail import Tail

AGAIN_SECONDS = 5.0
"""A log that is still written is read again for the list at most so often."""
_CLOCK = SystemClock()


class RunRow(TypedDict):
    """A run in the list."""

    id: Annotated[str, "Its id, as in `/run/ID/`."]
    file: Annotated[str, "The file of its log."]
    bytes: Annotated[int, "The size of its log."]
    name: Annotated[str, "The application; empty as long as the log is not read."]
    application: Annotated[str, "The id of this run of the application."]
    began: Annotated[float | None, "When it began, seconds since 1970."]
    ended: Annotated[float | None, "When its last event was; null as long as the log is not read."]
    state: Annotated[str, "That of its sentence; `asking`: not read yet; `running`; `strange`: not readable."]
    sentence: Annotated[str, "How it did."]
    windows: Annotated[int | None, "The windows that were committed."]
    notes: Annotated[list[str], "The parts of the log that are missing."]
    problem: Annotated[str, "Why it cannot be read, or not to its end."]


@dataclass(frozen=True, slots=True)
class Log:
    """A log: one of its files, and which run it is of (as `FileHead.run`; None: it is no log)."""

    path: Path
    run: object

    @property
    def began(self) -> float | None:
        """When its run began, as far as its first line says."""
        return self.run[1] if isinstance(self.run, tuple) and self.run[1] else None


def logs_in(place: Path) -> list[Log]:
    """The logs of a folder, one a run; or the one that a file is. Raises OSError."""
    in_folder = place.is_dir() and place.suffix != PARQUET
    found = [Path(path) for path in event_logs(str(place))] if in_folder else [place]
    heads = [(path, head_of(path)) for path in found]
    return [Log(path, None if head is None else head.run) for path, head in heads]


def is_log(path: Path) -> bool:
    """Whether a file has the name of an event log."""
    return path.suffix in {*LINES, PARQUET}


class Listing:
    """Works out the rows of runs, the smallest logs first, in a thread that begins with the first question.

    Rows are kept until their log changes, or is not written any more without an end of its run.
    """

    def __init__(self, logs: Callable[[], dict[str, Log]], runs: Callable[[str], bool]) -> None:
        self._logs = logs
        self._runs = runs
        self._rows: dict[str, tuple[int, RunRow]] = {}
        self._lock = threading.Lock()
        self._wake = threading.Event()
        self._closed = threading.Event()
        self._thread: threading.Thread | None = None

    def rows(self) -> list[RunRow]:
        """The runs there are, the newest first; those that are not read yet without their figures."""
        with self._lock:
            if self._thread is None:
                self._thread = threading.Thread(target=self._work, name="ridgeline-history-list", daemon=True)
                self._thread.start()
            known = dict(self._rows)
        self._wake.set()
        found = [known[run][1] if run in known else _row(run, log) for run, log in self._logs().items()]
        return sorted(found, key=lambda row: row["began"] or 0.0, reverse=True)

    def close(self) -> None:
        """End the thread."""
        self._closed.set()
        self._wake.set()

    def _work(self) -> None:
        """Read logs that are new or have changed, whenever a list is asked for."""
        while not self._closed.is_set():
            self._wake.wait()
            self._wake.clear()
            logs = self._logs()
            sizes = {run: _size(log) for run, log in logs.items()}
            for run in sorted(logs, key=sizes.__getitem__):
                if self._closed.is_set():
                    return
                with self._lock:
                    known = self._rows.get(run)
                if known is None or known[0] != sizes[run] or self._has_broken_off(logs[run], known[1]):
                    row = summarize(run, logs[run], self._runs)
                    with self._lock:
                        self._rows[run] = sizes[run], row
            self._closed.wait(AGAIN_SECONDS)

    def _has_broken_off(self, log: Log, row: RunRow) -> bool:
        """Whether a run that was under way has left nothing more: its driver was killed."""
        if row["state"] != "running":
            return False
        tail = Tail(log.path, lambda _: None, log.run)
        return not is_written(tail, _CLOCK, runs=self._runs(row["application"]))


def _row(run: str, log: Log, **known: Any) -> RunRow:
    """A run of which only its file is known, and what is `known`."""
    row: RunRow = {
        "id": run,
        "file": base_of(log.path).name,
        "bytes": _size(log),
        "name": "",
        "application": "",
        "began": log.began,
        "ended": None,
        "state": "asking",
        "sentence": "",
        "windows": None,
        "notes": [],
        "problem": "",
    }
    return {**row, **known}  # type: ignore[typeddict-item]  # names of its own


def summarize(run: str, log: Log, runs: Callable[[str], bool]) -> RunRow:
    """A run in a few words: its whole log is read."""
    logged = LoggedRun(log.path, runs, run=log.run)
    try:
        logged.load(follow=False)
    except NotALogError as error:
        return _row(run, log, state="strange", problem=str(error))
    except Exception as error:  # noqa: BLE001  one log that cannot be read must not end the list
        return _row(run, log, state="strange", problem=str(error) or type(error).__name__)
    finally:
        logged.close()
    overview = logged.watch.overview()
    info, said = overview["info"], sentence_of(overview)
    if "id" not in info:
        return _row(run, log, state="strange", problem="it has no plan")
    running = info["state"] in {"RUNNING", "PAUSED"}
    return _row(
        run,
        log,
        name=info["name"],
        application=info["id"],
        began=info["startTime"],
        ended=logged.watch.now(),
        state="running" if running else said["state"],
        sentence=said["text"],
        windows=info["stats"]["windowsCommitted"],
        notes=logged.notes,
        problem=logged.problem,
    )


def _size(log: Log) -> int:
    """The bytes of all files of a log; 0 if it is gone."""
    try:
        files = RunFiles(log.path, log.run).of_run() if log.run is not None else []
        return sum(size_of(file) for file, _ in files) or size_of(log.path)
    except (OSError, RidgelineError):
        return 0
