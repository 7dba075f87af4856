"""The runs that a history shows, each read when it is first looked at."""

from __future__ import annotations

import contextlib
import hashlib
import re
import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from typing_extensions import TypedDict

from ridgeline.api.clock import SystemClock
from ridgeline.api.errors import RidgelineError, did_you_mean
from ridgeline.engine.files.rotation import base_of, size_of
from ridgeline.measure.wording.sentence import sentence_of
from ridgeline.service.event_log import LINES, RunFiles, event_logs, head_of
from ridgeline.service.history.logged_run import LoggedRun, NotALogError, is_written
from ridgeline.service.history.tail import Tail
from ridgeline.service.http.endpoint import AnswerError
from ridgeline.service.registry import running

AGAIN_SECONDS = 5.0
"""A log that is still written is read again for the list at most so often."""


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
    found = [Path(path) for path in event_logs(str(place))] if place.is_dir() else [place]
    heads = [(path, head_of(path)) for path in found]
    return [Log(path, None if head is None else head.run) for path, head in heads]


def is_log(path: Path) -> bool:
    """Whether a file has the name of an event log."""
    return path.suffix in LINES


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
        logged.load()
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


MOST_LOADED = 8
"""Runs whose figures are in memory at a time."""
PATIENCE_SECONDS = 2.0
"""How long a question waits for its run to be read, before it is answered that it is being read."""
LOOK_SECONDS = 10.0
"""How long it is trusted that a folder without a change of its names has the same logs."""
_CLOCK = SystemClock()
_UNSAFE = re.compile(r"[^A-Za-z0-9._-]+")


def id_of(path: Path, run: object) -> str:
    """The id of a run, good for an address: the same as long as its log has that name.

    >>> from pathlib import Path
    >>> id_of(Path("/logs/run 1.000002.jsonl"), ("shop-1", 1.0))
    'run-1-f85e3f9f'
    """
    base = base_of(path)
    digest = hashlib.sha256(f"{base}\n{run}".encode(errors="surrogateescape")).hexdigest()
    return f"{_UNSAFE.sub('-', base.stem)[:60].strip('-.') or 'run'}-{digest[:8]}"


def runs_here(application_id: str) -> bool:
    """Whether an application of this user runs on this machine."""
    try:
        return any(entry.id == application_id for entry in running())
    except Exception:  # noqa: BLE001  a registry that cannot be read knows of none
        return False


class Runs:
    """The runs of event logs, which are files, or all logs in a folder. Thread-safe."""

    def __init__(self, places: Sequence[Path], runs: Callable[[str], bool] = runs_here) -> None:
        self._places = tuple(places)
        self._runs = runs
        self._lock = threading.Lock()
        self._loaded: OrderedDict[str, LoggedRun] = OrderedDict()
        self._found: dict[Path, tuple[int, float, list[Log]]] = {}
        self._listing = Listing(self.logs, runs)

    def logs(self) -> dict[str, Log]:
        """The logs that are there now, by the ids of their runs."""
        found: dict[str, Log] = {}
        for place in self._places:
            with contextlib.suppress(OSError):  # it is gone
                found.update((id_of(log.path, log.run), log) for log in self._logs_in(place))
        return found

    def _logs_in(self, place: Path) -> list[Log]:
        """The logs of a place, looked at again if it has changed, or after a while. Raises OSError."""
        changed, now = place.stat().st_mtime_ns, _CLOCK.monotonic()
        known = self._found.get(place)
        if known is None or known[0] != changed or now - known[1] > LOOK_SECONDS:
            known = self._found[place] = changed, now, logs_in(place)
        return known[2]

    def rows(self) -> list[RunRow]:
        """The list of runs, the newest first."""
        return self._listing.rows()

    def of(self, run: str) -> LoggedRun:
        """A run that is read.

        Raises AnswerError: 404 for an id that there is not, 503 as long as it is being read, 409 if it
        cannot be.
        """
        old = []
        with self._lock:
            logged = self._loaded.get(run)
            if logged is not None and logged.is_outdated():
                old.append(self._loaded.pop(run))
                logged = None
        logs = {} if logged is not None else self.logs()
        if logged is None and run not in logs:
            raise AnswerError(404, f"there is no run `{run[:100]}`", did_you_mean(run, logs))
        with self._lock:
            logged = self._loaded.get(run) or logged
            if logged is None:
                logged = LoggedRun(logs[run].path, self._runs, run=logs[run].run)
                logged.begin()
            self._loaded[run] = logged
            self._loaded.move_to_end(run)
            while len(self._loaded) > MOST_LOADED:
                old.append(self._loaded.popitem(last=False)[1])
        for one in old:
            one.close()
        if (fault := logged.fault(PATIENCE_SECONDS)) is None:
            share = f"{100 * logged.share():.0f} %"
            raise AnswerError(503, f"the log is being read: {share}", "the page opens once it is")
        if fault:
            what, _, hint = fault.partition("; ")
            raise AnswerError(409, what, hint)
        return logged

    def close(self) -> None:
        """Forget all runs. May be called twice."""
        self._listing.close()
        with self._lock:
            loaded, self._loaded = self._loaded, OrderedDict()
        for one in loaded.values():
            one.close()
