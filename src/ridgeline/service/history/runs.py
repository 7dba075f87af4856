"""The runs that a history shows, each read when it is first looked at."""

from __future__ import annotations

import hashlib
import re
import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence
from pathlib import Path

from ridgeline.api.errors import did_you_mean
from ridgeline.engine.files.rotation import base_of
from ridgeline.service.event_log import head_of
from ridgeline.service.history.logged_run import LoggedRun, NotALogError
from ridgeline.service.http.endpoint import AnswerError
from ridgeline.service.registry import running

MOST_LOADED = 8
"""Runs whose figures are in memory at a time."""
PATIENCE_SECONDS = 2.0
"""How long a question waits for its run to be read, before it is answered that it is being read."""
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


def _run_of(path: Path) -> object:
    """The run that a log begins with; None if it is no log."""
    try:
        head = head_of(path)
    except OSError:
        return None
    return None if head is None else head.run


def runs_here(application_id: str) -> bool:
    """Whether an application of this user runs on this machine."""
    try:
        return any(entry.id == application_id for entry in running())
    except Exception:  # noqa: BLE001  a registry that cannot be read knows of none
        return False


class Runs:
    """The runs of some event logs. Thread-safe."""

    def __init__(self, paths: Sequence[Path], runs: Callable[[str], bool] = runs_here) -> None:
        self._runs = runs
        self._logs = {id_of(path, run): (path, run) for path in paths for run in (_run_of(path),)}
        self._lock = threading.Lock()
        self._loaded: OrderedDict[str, _Loading] = OrderedDict()

    @property
    def paths(self) -> dict[str, Path]:
        """The logs, by the ids of their runs."""
        return {run: path for run, (path, _) in self._logs.items()}

    def of(self, run: str) -> LoggedRun:
        """A run that is read.

        Raises AnswerError: 404 for an id that there is not, 503 as long as it is being read, 409 if it
        cannot be.
        """
        if run not in self._logs:
            raise AnswerError(404, f"there is no run `{run[:100]}`", did_you_mean(run, self._logs))
        path, known = self._logs[run]
        old = []
        with self._lock:
            loading = self._loaded.get(run)
            if loading is None:
                loading = self._loaded[run] = _Loading(LoggedRun(path, self._runs, run=known))
            self._loaded.move_to_end(run)
            while len(self._loaded) > MOST_LOADED:
                old.append(self._loaded.popitem(last=False)[1])
        for one in old:
            one.run.close()
        return loading.wait()

    def close(self) -> None:
        """Forget all runs."""
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

    def _load(self) -> None:
        try:
            self.run.load()
        except NotALogError as error:
            self._problem = str(error)
        except Exception as error:  # noqa: BLE001  said to who asks
            self._problem = f"`{self.run.path.name}` cannot be read: {str(error) or type(error).__name__}"
        finally:
            self._done.set()
