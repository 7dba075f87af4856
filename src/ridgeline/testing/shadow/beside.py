"""Run a version of an application beside the one that is at work, on the windows that this one commits."""

from __future__ import annotations

import contextlib
import json
import time
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from threading import Event
from typing import Any

import numpy as np
from rich.console import Console

from ridgeline.api.clock import SystemClock
from ridgeline.api.support.loops import DelayTail
from ridgeline.engine.driver.checkpoint.planning import Planner
from ridgeline.engine.files.storage import LocalStorage
from ridgeline.measure.events import OperatorWindow
from ridgeline.testing.local_run import LocalRun
from ridgeline.testing.matching import Tolerance
from ridgeline.testing.run_local import InProcessRun, finished
from ridgeline.testing.shadow.judging import Counts, judge
from ridgeline.testing.shadow.moved_classes import moved_batch
from ridgeline.testing.shadow.recorded import ExactWindows
from ridgeline.testing.shadow.standing_in import Stage

STOP, PROGRESS = "stop", "progress.json"
"""In the folder of a job: ends it once it is there; how far it has come."""
_MACHINE = SystemClock()
_POLL_SECONDS = 0.05
_WRITE_SECONDS = 0.5
_MOST_TIMES = 20_000
"""The number of times of windows that are kept for percentiles."""


@dataclass(frozen=True, slots=True)
class Job:
    """A run beside the one at work.

    `folder`: for what it writes. `state`: the copy of the checkpoint that it continues. `checkpoint`,
    `recording`: where it finds its windows. `names`: names of operators in the recording by its own, where
    they differ. `modules`: its own module by that of the version at work, of applications that are files.
    `leave_out`: outputs that are not compared. `root`: removed if its parent dies.
    """

    folder: str
    state: str
    checkpoint: str
    recording: str
    root: str
    names: Mapping[str, str] = field(default_factory=dict)
    leave_out: Sequence[str] = ()
    tolerance: float = 0.0
    modules: Mapping[str, str] = field(default_factory=dict)

    def encode(self) -> dict[str, Any]:
        """As JSON values."""
        return asdict(self)


@dataclass(slots=True)
class Compared(Counts):
    """The comparison of one output over all windows so far.

    `windows`: those that differ. `first`: some differences of the first one of these, as texts.
    """

    windows: list[int] = field(default_factory=list)
    first: list[str] = field(default_factory=list)


@dataclass(slots=True)
class Progress:
    """The result so far, as the file of a job has it.

    `first`, `last`: the windows that were compared, None before the first. `outputs`: by operator. `new`:
    outputs that the recording does not have, with their rows. `missing`: those that only it has. `seconds`:
    how long each of the last windows took. `cpu_seconds`: of the whole process, since its first window.
    `operators`: processor seconds by operator. `error`: why it failed.
    """

    first: int | None = None
    last: int | None = None
    windows: int = 0
    outputs: dict[str, Compared] = field(default_factory=dict)
    new: dict[str, int] = field(default_factory=dict)
    missing: list[str] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)
    cpu_seconds: float = 0.0
    operators: dict[str, float] = field(default_factory=dict)
    over: bool = False
    error: str = ""

    @classmethod
    def read(cls, folder: str) -> Progress:
        """The progress of the job in a folder; an empty one before it has any."""
        try:
            found = json.loads(Path(folder, PROGRESS).read_text())
        except FileNotFoundError:
            return cls()
        outputs = {name: Compared(**one) for name, one in found.pop("outputs").items()}
        return cls(**found, outputs=outputs)

    def write(self, folder: str) -> None:
        """Put it into the folder, whole or not at all. Raises OSError."""
        hidden = Path(folder, f".{PROGRESS}")
        hidden.write_text(json.dumps(asdict(self)))
        hidden.replace(Path(folder, PROGRESS))


class WindowClock(SystemClock):
    """A clock that stands at the time of the window that runs; durations are real.

    Its `wait` returns at once: windows follow each other as they come.
    """

    def __init__(self) -> None:
        self._microseconds: int | None = None
        self._waited = 0.0

    def begin(self, microseconds: int) -> None:
        """A window begins that the one at work began at this time."""
        self._microseconds = microseconds

    def wall(self) -> float:
        """When the window began; before the first one the machine's time."""
        return super().wall() if self._microseconds is None else self._microseconds / 1_000_000

    def monotonic(self) -> float:
        """The machine's, with all waits."""
        return super().monotonic() + self._waited

    def wait(self, seconds: float, stop: Event | None = None) -> bool:
        """Count the wait as over."""
        if stop is not None and stop.is_set():
            return True
        self._waited += max(0.0, seconds)
        return False


class Beside:
    """One run beside. `make_planner` makes its planner of the stage that feeds its inputs."""

    def __init__(self, job: Job, application: str, make_planner: Callable[[Stage], Planner]) -> None:
        self._job = job
        self._application = application
        self._clock = WindowClock()
        self._windows = ExactWindows(job.checkpoint, job.recording)
        self._stage = Stage(self._windows.shares, job.names, job.modules)
        self._planner = make_planner(self._stage)
        self._progress = Progress()
        self._at = -1
        self._compared = -1
        self._began = 0.0
        self._cpu: float | None = None
        self._written = 0.0
        self._run: InProcessRun | None = None
        self._judging = 0.0
        """Processor seconds of the comparison, which no version takes."""
        self._labels: Mapping[str, str | None] | None = None
        self._tolerance = Tolerance(job.tolerance, job.tolerance)

    def run(self) -> None:
        """Run until the recording has ended or the job is stopped; raises nothing: the progress says why."""
        progress = self._progress
        try:
            storage = LocalStorage(self._job.state)
            self._planner.first(storage, self._application)
            for window in self._windows.windows()[:1]:
                self._begin_clock(window)
            run = InProcessRun(
                self._planner, storage, self._clock, Console(stderr=True), None, None, None, {}
            )
            run.inspects = False
            run.until = self._look
            self._run = run
            finished(run.steps(self._application, None, capture=False))
            self._compare()
        except BaseException as error:
            progress.error = str(error) or type(error).__name__
            raise
        finally:
            progress.over = True
            self._save()

    def _look(self, result: LocalRun) -> bool:
        """Compare what is committed, and wait for the next window; True if none comes any more."""
        assert self._run is not None and self._run.current is not None  # noqa: S101, PT018  it asks
        master = self._run.current.master
        self._note(result)
        if master.committed < self._at:
            return False
        self._compared_up_to(master.committed)
        window = master.next_window
        while not self._windows.has(window):
            if Path(self._job.folder, STOP).exists() or self._is_past(window):
                return True
            self._save_sometimes()
            _MACHINE.wait(_POLL_SECONDS)
        self._begin_clock(window)
        self._at = window
        self._began = _MACHINE.monotonic()
        if self._cpu is None:
            self._cpu = time.process_time()
        return False

    def _begin_clock(self, window: int) -> None:
        """Let the clock stand where that of the one at work stood when a window began."""
        shares = self._stage.shares(window)
        self._clock.begin(max(share.time for parts in shares.values() for _, share in parts))

    def _is_past(self, window: int) -> bool:
        """Whether the recording has ended before a window."""
        end = self._windows.end()
        return end is not None and window >= end and not self._windows.has(window)

    def _note(self, result: LocalRun) -> None:
        """Add up what operators took, and forget the events: there is no end of them."""
        assert self._run is not None and self._run.current is not None  # noqa: S101, PT018  it asks
        names = {one.id: one.name for one in self._run.current.plan.physical.operators if not one.unifier}
        sums: defaultdict[str, float] = defaultdict(float, self._progress.operators)
        for event in result.events:
            if isinstance(event, OperatorWindow) and event.operator in names:
                sums[names[event.operator]] += event.cpu_seconds or 0.0
        self._progress.operators = dict(sums)
        result.events.clear()

    def _compare(self) -> None:
        """Compare the last windows, once no further one begins."""
        assert self._run is not None and self._run.current is not None  # noqa: S101, PT018  it has run
        self._compared_up_to(self._run.current.master.committed)

    def _compared_up_to(self, committed: int) -> None:
        """Compare the window that runs, if it is committed and was not compared before."""
        if self._at < 0 or committed < self._at or self._compared >= self._at:
            return
        window, progress = self._at, self._progress
        took = _MACHINE.monotonic() - self._began
        self._compare_window(window)
        self._compared = window
        progress.first = window if progress.first is None else progress.first
        progress.last = window
        progress.windows += 1
        progress.seconds = [*progress.seconds[-_MOST_TIMES:], took]
        progress.cpu_seconds = time.process_time() - (self._cpu or 0.0) - self._judging
        self._save_sometimes()

    def _compare_window(self, window: int) -> None:
        """Compare what each output got with what the one at work published."""
        began = time.process_time()
        progress, job = self._progress, self._job
        published: dict[str, list[Any]] = defaultdict(list)
        for operator, parts in self._stage.shares(window).items():
            for _, share in parts:
                for port, batches in share.ports.items():
                    own_classes = [moved_batch(batch.opened().batch, job.modules) for batch in batches]
                    published[f"{operator}.{port}"] += own_classes
        got = {f"{name}.{port}": batches for (name, port), batches in self._stage.got(window).items()}
        for label, there in self._outputs().items():
            own = got.get(label, [])
            if there is None:
                progress.new[label] = progress.new.get(label, 0) + sum(batch.num_rows for batch in own)
                continue
            found = judge(published[there], own, self._tolerance)
            sums = progress.outputs.setdefault(label, Compared())
            sums.add(found)
            if not found.equal:
                sums.first = sums.first or found.shown
                sums.windows.append(window)
        self._judging += time.process_time() - began

    def _outputs(self) -> Mapping[str, str | None]:
        """The outputs that are compared, each with its name in the recording; None for one that is new."""
        if self._labels is not None:
            return self._labels
        assert self._run is not None and self._run.current is not None  # noqa: S101, PT018  it asks
        recorded, names, skipped = set(self._windows.outputs), self._job.names, set(self._job.leave_out)
        labels: dict[str, str | None] = {}
        for one in self._run.current.plan.logical.operators:
            if one.is_input or one.outputs or isinstance(one.operator, DelayTail) or one.name in skipped:
                continue
            for port in one.inputs:
                there = f"{names.get(one.name, one.name)}.{port}"
                if f"{one.name}.{port}" not in skipped:
                    labels[f"{one.name}.{port}"] = there if there in recorded else None
        gone = recorded - set(labels.values())
        self._progress.missing = sorted(one for one in gone if not {one, one.rpartition(".")[0]} & skipped)
        self._labels = labels
        return labels

    def _save_sometimes(self) -> None:
        if _MACHINE.monotonic() - self._written >= _WRITE_SECONDS:
            self._save()

    def _save(self) -> None:
        self._written = _MACHINE.monotonic()
        with contextlib.suppress(OSError):  # a full disk: the next one may be written
            self._progress.write(self._job.folder)


def percentile(seconds: Sequence[float], share: float) -> float:
    """The time that so great a share of windows did not exceed; 0 without any."""
    return float(np.quantile(seconds, share)) if seconds else 0.0
