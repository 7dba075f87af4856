"""The runs that a history shows, each read when it is first looked at."""

from __future__ import annotations

import contextlib
import hashlib
import re
import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence
from pathlib import Path

from ridgeline.api.clock import SystemClock
from ridgeline.api.errors import did_you_mean
from ridgeline.engine.files.rotation import base_of
from ridgeline.service.history.listing import Listing, Log, RunRow, logs_in
from ridgeline.service.history.logged_run import LoggedRun, NotALogError
from ridgeline.service.http.endpoint import AnswerError
from ridgeline.service.registry import running

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
        self._loaded: OrderedDict[str, _Loading] = OrderedDict()
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
        with self._lock:
            loading = self._loaded.get(run)
        if loading is not None and loading.is_outdated():
            with self._lock:
                if self._loaded.get(run) is loading:
                    del self._loaded[run]
            loading.run.close()
            loading = None
        logs = {} if loading is not None else self.logs()
        if loading is None and run not in logs:
            raise AnswerError(404, f"there is no run `{run[:100]}`", did_you_mean(run, logs))
        old = []
        with self._lock:
            loading = self._loaded.get(run) or loading
            if loading is None:
                loading = _Loading(LoggedRun(logs[run].path, self._runs, run=logs[run].run))
            self._loaded[run] = loading
            self._loaded.move_to_end(run)
            while len(self._loaded) > MOST_LOADED:
                old.append(self._loaded.popitem(last=False)[1])
        for one in old:
            one.run.close()
        return loading.wait()

    def close(self) -> None:
        """Forget all runs. May be called twice."""
        self._listing.close()
        with self._lock:
            loaded, self._loaded = self._loaded, OrderedDict()
        for one in loaded.values():
            one.run.close()


class _Loading:
    """A run that a thread reads."""

    def __init__(self, run: LoggedRun) -> None:
        self.run = run
        self._done = threading.Event()
        self._problem = ""
        threading.Thread(target=self._load, name="ridgeline-history-read", daemon=True).start()

    def wait(self) -> LoggedRun:
        """The run once it is read. Raises AnswerError (503, 409)."""
        if not self._done.wait(PATIENCE_SECONDS):
            share = f"{100 * self.run.share():.0f} %"
            raise AnswerError(503, f"the log is being read: {share}", "the page opens once it is")
        if self._problem:
            what, _, hint = self._problem.partition("; ")
            raise AnswerError(409, what, hint)
        return self.run

    def is_outdated(self) -> bool:
        """Whether it is to be read again: there is more by now, or something else."""
        return self._done.is_set() and self.run.is_outdated()

    def _load(self) -> None:
        try:
            self.run.load()
        except (NotALogError, AnswerError) as error:
            hint = getattr(error, "hint", "")
            self._problem = f"{error}; {hint}" if hint else str(error)
        except Exception as error:  # noqa: BLE001  said to who asks
            self._problem = f"`{self.run.path.name}` cannot be read: {str(error) or type(error).__name__}"
        finally:
            self._done.set()
