"""Runs the compactions that STRAM decides on, beside the windows: in a thread or in the compactor."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from ridgeline.api.errors import RidgelineError
from ridgeline.engine.driver.checkpoint.compactor import Compactor
from ridgeline.engine.driver.checkpoint.folder import Checkpoint
from ridgeline.engine.process import plan_distribution
from ridgeline.engine.state import state_files
from ridgeline.engine.state.compaction import CompactionResult, CompactionTask, StateCompactor
from ridgeline.engine.state.segment_files import SegmentFiles
from ridgeline.plan.container_spec import container_specs
from ridgeline.plan.execution import Plan
from ridgeline.stram.compaction import Compact, Compacted, CompactionFailed

SMALL_BYTES = 1 << 20
"""A compaction that reads no more than this runs in a thread, a larger one in the compactor process."""
_FILES_IN_A_ROW = 4
"""How many deltas are merged, a tenth of a millisecond, before windows may run undisturbed for a while."""
_BREATH_SECONDS = 0.0005

Outcome = Compacted | CompactionFailed


@dataclass(frozen=True, slots=True)
class _Job:
    task: CompactionTask
    future: Future[CompactionResult]


class Compactions:
    """The compactions that run, at most one an operator. For one thread.

    Without a `compactor` each is over when `start` returns. Nothing here decides when to compact or to retry.
    """

    def __init__(self, plan: Plan, checkpoint: Checkpoint, compactor: Compactor | None = None) -> None:
        self._plan = plan
        self._checkpoint = checkpoint
        self._compactor = compactor
        self._closing = threading.Event()
        self._files_read = 0
        self._in_thread = self._made()
        self._small: Executor = ThreadPoolExecutor(1, "ridgeline-compaction") if compactor else AtOnce()
        self._large: Executor = ThreadPoolExecutor(1, "ridgeline-compactor") if compactor else AtOnce()
        self._jobs: dict[int, _Job] = {}
        self._stems: dict[int, str] = {}
        self._started = 0

    @classmethod
    def in_background(cls, plan: Plan, checkpoint: Checkpoint) -> Compactions:
        """With a thread for small states and a process for large ones."""

        def distribute() -> plan_distribution.ShippedPlan:
            specs = container_specs(made._plan)
            return plan_distribution.distribute(checkpoint.storage, specs, epoch=checkpoint.epoch)

        made = cls(plan, checkpoint, Compactor(checkpoint.storage.uri, distribute, checkpoint.run_id))
        return made

    def _made(self) -> StateCompactor:
        files = SegmentFiles(self._checkpoint.storage, self._checkpoint.run_id)
        each = self._breathe if self._compactor is not None else None
        return StateCompactor(files, self._plan.physical.operators, each)

    def _breathe(self) -> None:
        """Let windows have Python's lock for most of the time. Called in the thread of small states."""
        self._files_read += 1
        if self._files_read % _FILES_IN_A_ROW == 0:
            self._closing.wait(_BREATH_SECONDS)

    def change(self, plan: Plan) -> None:
        """Compact the states of another plan from now on. Compactions of operators that stay continue."""
        before = {operator.id for operator in self._plan.physical.operators}
        present = {operator.id for operator in plan.physical.operators}
        self._plan = plan
        self._in_thread = self._made()
        if self._compactor is not None and present - before:
            self._compactor.begin_again()
        for operator in self._stems.keys() - present:  # also those that no window has named so far
            self._jobs.pop(operator, None)
            self.discard(operator)
            del self._stems[operator]

    def start(self, instruction: Compact) -> None:
        """Begin a compaction. Purges leave its files alone until a manifest names them or it is discarded."""
        operator, version = instruction.operator, instruction.version
        self._started += 1
        stem = state_files.compacted_stem(version, operator, self._checkpoint.epoch, self._started)
        self._stems[operator] = stem
        self._checkpoint.expect(stem)
        task = CompactionTask(operator, version, stem)
        large = instruction.size_bytes > SMALL_BYTES or bool(state_files.segments_of(version))
        if large and self._compactor is not None:
            future = self._large.submit(self._compactor.compact, task)
        else:
            future = self._small.submit(self._in_thread.compact, task)
        self._jobs[operator] = _Job(task, future)

    def finished(self) -> list[Outcome]:
        """The outcomes of all compactions that have ended since the last call; does not block."""
        ended = [operator for operator, job in self._jobs.items() if job.future.done()]
        return [outcome for operator in ended for outcome in self.wait(operator)]

    def wait(self, operator: int) -> list[Outcome]:
        """The outcome of an operator's compaction; empty if it was returned before. Blocks until it ends."""
        job = self._jobs.pop(operator, None)
        if job is None:
            return []
        try:
            result = job.future.result()
        except Exception as error:  # noqa: BLE001  STRAM decides what becomes of it
            self.discard(operator)
            cause = str(error) if isinstance(error, RidgelineError) else f"{type(error).__name__}: {error}"
            return [CompactionFailed(operator, cause)]
        return [Compacted(operator, job.task.version, result.names, result.size_bytes)]

    def discard(self, operator: int) -> None:
        """Let the next purge remove the files of the operator's last compaction."""
        self._checkpoint.give_up(self._stems[operator])

    def close(self) -> None:
        """End all compactions, also in their midst. The files that they have written count for nothing."""
        self._closing.set()
        if self._compactor is not None:
            self._compactor.close()
        for executor in (self._small, self._large):
            executor.shutdown(cancel_futures=True)


class AtOnce(Executor):
    """Runs what is submitted before it returns."""

    def submit(self, function: Callable[..., object], /, *arguments: object, **named: object) -> Future[Any]:
        """A future that is done."""
        outcome: Future[Any] = Future()
        try:
            outcome.set_result(function(*arguments, **named))
        except Exception as error:  # noqa: BLE001  `result` raises it
            outcome.set_exception(error)
        return outcome
