"""One run of an application on one checkpoint: STRAM's instructions carried out, window by window, whoever drives and executes them."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from ridgeline.api.clock import Clock, Timeline
from ridgeline.api.errors import CheckpointError, Failure, OperatorError, RidgelineError, described
from ridgeline.api.publisher import Publisher, PublisherContext
from ridgeline.engine.driver.checkpoint import Checkpoint
from ridgeline.engine.driver.compactions import Compactions, Tell
from ridgeline.engine.driver.manifest import Manifest, SourceOffsets, digest
from ridgeline.engine.driver.state_warnings import StateWarnings
from ridgeline.engine.worker.tails import Tails
from ridgeline.measure.events import (
    OutputPublished,
    RunEvent,
    StateWarning,
    WindowCommitted,
    WindowPlanned,
    WindowRetried,
    WindowStarted,
)
from ridgeline.plan.container_spec import has_committed
from ridgeline.plan.execution import Plan
from ridgeline.plan.protocol import StateVersion, WindowReport, WindowRequest
from ridgeline.stram.master import (
    Commit,
    GiveUp,
    ManifestWritten,
    Master,
    Publish,
    RunWindow,
    Skip,
    WindowDue,
    WindowFailed,
    WindowRan,
)
from ridgeline.stram.reporting import report_events

IDLE_SECONDS = 1.0
"""How often outputs may publish while no window runs."""


@dataclass(frozen=True, slots=True)
class Ran:
    """What all containers reported of an attempt, and when its job was given to Spark (wall clock)."""

    reports: Sequence[WindowReport]
    launched: float


class WindowExecutor(Protocol):
    """Runs all containers of a plan for one window: as a Spark job, or in this process."""

    def run(self, request: WindowRequest, source: Any) -> Ran:
        """Run an attempt; blocks until all containers have reported.

        `source` is what the window's driver got from Spark, None for ticks.

        Raises OperatorError if a container failed for good in this attempt.
        """

    def committed(self, window_id: int, states: Mapping[int, StateVersion]) -> None:
        """Tell the operators that asked for it that a window is committed. Blocks. Raises OperatorError."""

    def close(self) -> Sequence[Failure]:
        """Tear the containers down, in bounded time. Returns what failed in it and is no reason to fail."""


Observe = Callable[[RunEvent], None]
"""Who hears of what happens: called in the thread where it happens, must be quick and raise nothing."""


class ApplicationRun:
    """An application on its checkpoint: `window(w)` runs, commits and publishes one window.

    Made from a checkpoint that holds a run, it goes on from the last committed window. Raises CheckpointError
    if the checkpoint's operators are not the plan's.
    """

    def __init__(
        self,
        plan: Plan,
        checkpoint: Checkpoint,
        executor: WindowExecutor,
        clock: Clock,
        publisher_context: Callable[[str], PublisherContext],
        observe: Observe | None = None,
        compactions: Callable[[Plan, Checkpoint, Tell], Compactions] = Compactions,
    ) -> None:
        self.plan = plan
        self.checkpoint = checkpoint
        self._executor = executor
        self.tails = Tails()
        self._clock = clock
        self._observe = observe or (lambda _event: None)
        self._wants_commit = _wants_commit(plan)
        last = checkpoint.last()
        self.master = _master(plan, checkpoint, last)
        self._warnings = StateWarnings(self._observe, clock)
        self._compactions = compactions(plan, checkpoint, self._warnings.tell)
        self._compactions.recover(self.master)
        self.publishers: dict[str, Publisher] = {}
        self._visible: dict[str, int] = {}
        self._shown: list[OutputPublished] = []
        for logical in plan.logical.operators:
            publisher = logical.operator.publisher()
            if publisher is not None:
                self.publishers[logical.name] = publisher
        states = last.publishers if last else {}
        for name, publisher in self.publishers.items():
            self._guard(name, "open", publisher.open, publisher_context(name), states.get(name))
        if last:
            self._publish(last.window_id)

    @property
    def next_window(self) -> int:
        """The first window that is not committed."""
        return self.master.committed + 1

    @property
    def ended(self) -> bool:
        """True once all inputs have finished and their last window is committed."""
        return self.master.ended

    def window(
        self,
        window_id: int,
        source: Any = None,
        due: float | None = None,
        offsets: SourceOffsets | None = None,
    ) -> None:
        """Run a window until it is committed and published; one that is committed already only returns.

        `offsets`: where the window's Spark sources end. `due`: when it should have begun (wall clock;
        default: now). Raises OperatorError when it failed more often than `recovery_attempts` allows,
        CheckpointError or FencedError when it could not be committed: nothing of it counts then.
        """
        self._warnings.begin()
        self._compactions.begin(self.master)
        timeline = Timeline(self._clock)
        began = planned = launched = returned = staged = committed = timeline.now()
        reports: tuple[WindowReport, ...] = ()
        instruction = self.master.handle(WindowDue(window_id))
        if not isinstance(instruction, Skip):
            self._observe(
                WindowPlanned(began, window_id, self.plan.version, began if due is None else min(due, began))
            )
        while True:
            match instruction:
                case RunWindow(request, reason):
                    if request.attempt:
                        planned = timeline.now()
                        self._observe(
                            WindowRetried(
                                planned,
                                window_id,
                                request.attempt,
                                reason,
                                final=request.final and not reason,
                            )
                        )
                    self._observe(WindowStarted(planned, window_id, request.attempt))
                    try:
                        ran = self._executor.run(self.tails.asked(request), source)
                    except OperatorError as error:
                        self._compactions.mend(self.master, error.failure)
                        instruction = self.master.handle(WindowFailed(error.failure))
                    else:
                        launched, returned = ran.launched, timeline.now()
                        instruction = self.master.handle(WindowRan(ran.reports))
                case Commit():
                    reports = instruction.reports
                    manifest = self._stage(instruction, offsets)
                    staged = timeline.now()
                    self.checkpoint.commit(manifest)
                    committed = timeline.now()
                    instruction = self.master.handle(ManifestWritten(window_id))
                case Publish():
                    self._publish(window_id)
                    self.tails.take(reports)
                    self.checkpoint.purge(self.plan.logical.attributes["windows_kept"])
                    self._compactions.tend(self.master, reports)
                    published = timeline.now()
                    for event in report_events(reports, published):
                        self._observe(event)
                    attempts = max((report.window.attempt for report in reports), default=0) + 1
                    times = (began, planned, launched, returned, staged, committed, published)
                    self._report_shown()
                    tasks = {report.window.task: report.task_attempt for report in reports}
                    self._observe(
                        WindowCommitted(published, window_id, attempts, *times, sum(tasks.values()))
                    )
                    return
                case Skip():
                    return
                case GiveUp(failure, _attempts):
                    raise OperatorError(failure)

    def warn(self, operator: int, text: str) -> None:
        """Tell of something in the checkpoint that concerns an operator (physical id) and that was put right."""
        self._warnings.tell(operator, text)

    def observe(self, event: RunEvent) -> None:
        """Tell those who listen to this run of an event that happened outside of it, such as Spark's own account of a window."""
        self._observe(event)

    def idle(self) -> None:
        """Let outputs publish what has waited long enough.

        Between windows, at least once a second. Raises what a publisher raises.
        """
        for name, publisher in self.publishers.items():
            self._guard(name, "idle", publisher.idle)
            self._note_visible(name, publisher, self.master.committed)
        self._report_shown()

    def rest(self, seconds: float, stop: threading.Event | None = None) -> None:
        """Wait until the next window is due, or `stop` is set; outputs publish meanwhile.

        Raises what a publisher raises.
        """
        due = self._clock.monotonic() + seconds
        while seconds > 0 and not self._clock.wait(min(seconds, IDLE_SECONDS), stop):
            seconds = due - self._clock.monotonic()
            if seconds > 0:
                self.idle()

    def close(self, *, orderly: bool) -> None:
        """End the run.

        `orderly`: outputs show what they still hold back. The checkpoint is given back in any case.
        """
        try:
            self._compactions.close()
            for failure in self._executor.close():
                self._warn(failure)
            if orderly:
                for name, publisher in self.publishers.items():
                    self._guard(name, "close", publisher.close)
                    self._note_visible(name, publisher, self.master.committed)
                self._report_shown()
        finally:
            self.checkpoint.close()

    def _warn(self, failure: Failure) -> None:
        ids = [one.id for one in self.plan.physical.operators if failure.operator in (one.name, one.title)]
        operator = ids[min(failure.partition, len(ids) - 1)] if ids else -1
        where = f"operator `{failure.operator}` (partition {failure.partition})"
        text = f"{where}: `{failure.callback}` failed: {failure.error}; no result is lost"
        self._observe(StateWarning(self._clock.wall(), operator, text))

    def _stage(self, commit: Commit, offsets: SourceOffsets | None) -> Manifest:
        states = {}
        for name, publisher in self.publishers.items():
            ids = [
                operator.id
                for operator in self.plan.physical.operators
                if operator.name == name and not operator.unifier
            ]
            handed = {
                report.window.operator: report.handed_over
                for window in commit.reports
                for report in window.operators
            }
            values = [value for operator_id in ids for value in handed.get(operator_id, [])]
            state = self._guard(
                name, "stage", publisher.stage, commit.window_id, values, window_id=commit.window_id
            )
            self._guard(name, "stage", json.dumps, state, window_id=commit.window_id)
            states[name] = state
        keys = {operator.id: operator.state_key for operator in self.plan.physical.operators}
        return Manifest(
            window_id=commit.window_id,
            epoch=self.checkpoint.epoch,
            plan_version=self.plan.version,
            states={keys[operator]: list(version) for operator, version in commit.states.items()},
            finished=sorted(keys[operator] for operator in commit.finished),
            publishers={name: state for name, state in states.items() if state is not None},
            ended=commit.ends,
            reports=digest(commit.reports),
            offsets=offsets,
        )

    def _publish(self, window_id: int) -> None:
        for name, publisher in self.publishers.items():
            self._guard(name, "publish", publisher.publish, window_id)
            self._note_visible(name, publisher, window_id)
        if self._wants_commit:
            self._executor.committed(window_id, self.master.states)

    def _note_visible(self, name: str, publisher: Publisher, published: int) -> None:
        """Remember how far readers see, for `_report_shown`."""
        visible = publisher.visible
        visible = published if visible is None else visible
        if visible > self._visible.get(name, -1):
            self._visible[name] = visible
            self._shown.append(OutputPublished(self._clock.wall(), name, visible))

    def _report_shown(self) -> None:
        """Report what readers have come to see: after the events that say what is in the window, before the one that ends them."""
        shown, self._shown = self._shown, []
        for event in shown:
            self._observe(event)

    def _guard(
        self,
        name: str,
        what: str,
        function: Callable[..., Any],
        *arguments: Any,
        window_id: int | None = None,
    ) -> Any:
        """Call a publisher; its errors name the operator."""
        try:
            return function(*arguments)
        except RidgelineError:
            raise
        except Exception as error:
            window = self.master.committed if window_id is None else window_id
            raise OperatorError(
                Failure(self.plan.logical.application, name, 0, window, what, described(error))
            ) from error


def _wants_commit(plan: Plan) -> bool:
    return any(has_committed(operator) for operator in plan.physical.operators)


def _master(plan: Plan, checkpoint: Checkpoint, last: Manifest | None) -> Master:
    """STRAM as of the last committed window.

    Raises CheckpointError if the manifest's operators are not those of the plan.
    """
    if last is None:
        return Master(plan, epoch=checkpoint.epoch)
    ids = {operator.state_key: operator.id for operator in plan.physical.operators}
    unknown = sorted({*last.states, *last.finished} - ids.keys())
    if unknown:
        name, partition, partitions = unknown[0].rsplit("/", 2)
        msg = (
            f"checkpoint folder `{checkpoint.storage.uri}` holds state of `{name}`, partition {partition} of {partitions}, which this "
            f"application has not; run it with the same operators and partitions, or give another `--checkpoint`"
        )
        raise CheckpointError(msg)
    return Master(
        plan,
        epoch=checkpoint.epoch,
        committed=last.window_id,
        states={ids[key]: tuple(names) for key, names in last.states.items()},
        finished=frozenset(ids[key] for key in last.finished),
    )
