"""When states are merged, where, and what becomes of it: the driver's side of compaction, and of what recovery finds broken."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from ridgeline.api.errors import CheckpointError, Failure, RidgelineError, StateError
from ridgeline.api.operator import Operator, operator_type
from ridgeline.api.state import State
from ridgeline.engine.driver.checkpoint import Checkpoint
from ridgeline.engine.driver.compactor import Compactor
from ridgeline.engine.state import state_files
from ridgeline.engine.state.compaction import Merge, Merged, Merger
from ridgeline.engine.state.integrity import FileCheck, equals
from ridgeline.engine.state.segment_files import SegmentFiles
from ridgeline.engine.state.storage import explain
from ridgeline.engine.worker import plan_distribution
from ridgeline.plan.container_spec import container_specs
from ridgeline.plan.execution import Plan
from ridgeline.plan.protocol import StateVersion, WindowReport
from ridgeline.stram.master import Master, Rebased

SMALL_BYTES = 1 << 20
"""What has less than this to be read is merged in a thread of the driver, the rest in the compactor process."""
COMPACT_BYTES = 1 << 24
"""Deltas of so many bytes (and of no less than the snapshot that they add to) are merged however few they are."""
LIMIT_BYTES = 1 << 27
"""Where deltas that are not merged yet have so many bytes, windows wait."""
LIMIT_INTERVALS = 10
"""Where there are so many times `snapshot_interval` deltas, windows wait."""
TRIES = 3
"""So often a merge that windows wait for is tried."""

Tell = Callable[[int, str], None]
"""Takes a warning: the physical id of the operator, and what is to be said of its state."""


@dataclass(slots=True)
class _Chain:
    """What is known of an operator's version: bytes of its snapshot and of its deltas, the merge that runs, how many failed in a row."""

    operator: int
    snapshot_bytes: int = 0
    delta_bytes: int = 0
    job: _Job | None = None
    failures: int = 0


@dataclass(frozen=True, slots=True)
class _Job:
    merge: Merge
    delta_bytes: int
    outcome: Future[Merged]


class Compactions:
    """Merges the states of an application, operator by operator, beside its windows. For one thread.

    After so many deltas as `snapshot_interval` says a version is merged: in a thread, or in another process
    where it is large (`compactor`; without one everything is merged at once, in the thread that asks). A
    merge that fails is told and tried again some windows later.
    """

    def __init__(
        self, plan: Plan, checkpoint: Checkpoint, tell: Tell, compactor: Compactor | None = None
    ) -> None:
        self._plan = plan
        self._checkpoint = checkpoint
        self._storage = checkpoint.storage
        self._tell = tell
        self._compactor = compactor
        self._interval: int = plan.logical.attributes["snapshot_interval"]
        self._chains = {
            operator.id: _Chain(operator.id)
            for operator in plan.physical.operators
            if not operator.operator.stateless
        }
        self._plain = {operator.id for operator in plan.physical.operators if _is_plain(operator.operator)}
        self._merger = Merger(SegmentFiles(self._storage, checkpoint.run_id), plan.physical.operators)
        self._small: Executor = ThreadPoolExecutor(1, "ridgeline-merge") if compactor else _AtOnce()
        self._large: Executor = ThreadPoolExecutor(1, "ridgeline-compactor") if compactor else _AtOnce()
        self._merges = 0
        self._begun = False

    @classmethod
    def in_background(cls, plan: Plan, checkpoint: Checkpoint, tell: Tell) -> Compactions:
        """With a thread for small states and a process for large ones."""

        def ship() -> plan_distribution.PlanFile:
            return plan_distribution.distribute(checkpoint.storage, container_specs(plan))

        return cls(plan, checkpoint, tell, Compactor(checkpoint.storage.uri, ship, checkpoint.run_id))

    # What is broken ------------------------------------------------------------------------------------------------

    def recover(self, master: Master) -> None:
        """At a run's start: check the files of the last window, replace merged ones that are broken by what they were merged from.

        Raises StateError naming a broken file that nothing can replace, CheckpointError if the folder cannot
        be read.
        """
        try:
            check = self._mend(master, thoroughly=False)
        except OSError as error:
            raise CheckpointError(explain(self._storage.uri, error)) from error
        keys = {operator.id: operator.state_key for operator in self._plan.physical.operators}
        for operator, chain in self._chains.items():
            version = master.states.get(operator, ())
            base = state_files.base_of(version)
            chain.snapshot_bytes = check.size(keys[operator], base[-1:])
            chain.delta_bytes = check.size(keys[operator], version[len(base) :])

    def mend(self, master: Master, failure: Failure) -> None:
        """After an attempt that could not read its state: as `recover`, with a more thorough look.

        What cannot be replaced stays.
        """
        if failure.callback != "state":
            return
        with contextlib.suppress(OSError):  # the window says what is the matter with the folder
            self._mend(master, thoroughly=True)

    def _mend(self, master: Master, *, thoroughly: bool) -> FileCheck:
        check = FileCheck(SegmentFiles(self._storage, self._checkpoint.run_id), thoroughly=thoroughly)
        for operator, version in list(master.states.items()):
            fault = check.fault(version)
            if fault and not self._replace(master, operator, version, check, fault) and not thoroughly:
                raise StateError(fault)
        return check

    def _replace(
        self, master: Master, operator: int, version: StateVersion, check: FileCheck, fault: str
    ) -> bool:
        key = next(
            physical.state_key for physical in self._plan.physical.operators if physical.id == operator
        )
        base = state_files.base_of(version)
        for found in equals(
            version, (tuple(manifest.states.get(key, ())) for manifest in self._checkpoint.kept())
        ):
            if not check.fault((*found, *version[len(base) :])):
                master.install_compaction(Rebased(operator, base, found))
                self._tell(
                    operator, f"{fault}; the files that it was merged from are used instead, nothing is lost"
                )
                return True
        return False

    # Merging -------------------------------------------------------------------------------------------------------

    def begin(self, master: Master) -> None:
        """Before a window: if it is this run's first, begin what was left to be merged. Raises as `tend`."""
        if not self._begun:
            self._begun = True
            self.tend(master, ())

    def tend(self, master: Master, reports: Sequence[WindowReport]) -> None:
        """After a window's commit: take over what has been merged, and begin what is due.

        Waits where too much is left to be merged.

        Raises CheckpointError if a state cannot be merged at all.
        """
        for window in reports:
            for report in window.operators:
                if report.window.state_bytes:
                    chain = self._chains[report.window.operator]
                    begins = len(report.state_version) == 1
                    chain.delta_bytes = report.window.state_bytes + (0 if begins else chain.delta_bytes)
        for chain in self._chains.values():
            if chain.job is not None and chain.job.outcome.done():
                self._take_over(master, chain)
            version = master.states.get(chain.operator, ())
            if len(version) >= self._interval or chain.delta_bytes >= COMPACT_BYTES:
                self._merge(master, chain)

    def close(self) -> None:
        """End all merging; what is not done is left."""
        if self._compactor is not None:
            self._compactor.close()
        for executor in (self._small, self._large):
            executor.shutdown(cancel_futures=True)

    def _merge(self, master: Master, chain: _Chain) -> None:
        while True:
            version = master.states.get(chain.operator, ())
            deltas = len(version) - len(state_files.base_of(version))
            if deltas <= 1 and chain.operator in self._plain:
                return  # one delta says everything already
            waits = (
                deltas >= LIMIT_INTERVALS * self._interval
                or chain.delta_bytes >= LIMIT_BYTES + chain.snapshot_bytes
            )
            if chain.job is None and (waits or self._is_due(chain, deltas)):
                self._begin(chain, version)
            if chain.job is None or not (waits or chain.job.outcome.done()):
                return
            self._take_over(master, chain)
            if waits and chain.failures >= TRIES:
                waiting = f"the changes of {deltas} windows ({chain.delta_bytes} bytes) wait for it"
                remedy = "put right what was said before and run again with the same `--checkpoint`"
                msg = f"{self._name(chain.operator)} cannot be merged; {waiting}; {remedy}"
                raise CheckpointError(msg)

    def _is_due(self, chain: _Chain, deltas: int) -> bool:
        patience = 1 + chain.failures
        return (
            deltas >= self._interval * patience
            or chain.delta_bytes >= max(COMPACT_BYTES, chain.snapshot_bytes) * patience
        )

    def _begin(self, chain: _Chain, version: StateVersion) -> None:
        self._merges += 1
        stem = state_files.compacted_stem(version, chain.operator, self._checkpoint.epoch, self._merges)
        merge = Merge(chain.operator, version, stem)
        self._checkpoint.expect(stem)
        large = self._compactor is not None and (
            chain.snapshot_bytes + chain.delta_bytes > SMALL_BYTES or state_files.segments_of(version)
        )
        if large and self._compactor is not None:
            outcome = self._large.submit(self._compactor.merge, merge)
        else:
            outcome = self._small.submit(self._merger.merge, merge)
        chain.job = _Job(merge, chain.delta_bytes, outcome)

    def _take_over(self, master: Master, chain: _Chain) -> None:
        job, chain.job = chain.job, None
        if job is None:
            return
        try:
            merged = job.outcome.result()
        except Exception as error:  # noqa: BLE001  the windows go on without it
            chain.failures += 1
            self._checkpoint.give_up(job.merge.stem)
            what = str(error) if isinstance(error, RidgelineError) else f"{type(error).__name__}: {error}"
            self._tell(
                chain.operator,
                f"{self._name(chain.operator)} could not be merged: {what}; nothing is lost, it is tried again",
            )
            return
        chain.failures = 0
        if master.install_compaction(Rebased(chain.operator, job.merge.version, merged.names)):
            chain.snapshot_bytes = merged.size_bytes
            chain.delta_bytes -= job.delta_bytes
        else:
            self._checkpoint.give_up(job.merge.stem)

    def _name(self, operator: int) -> str:
        physical = self._plan.physical.operator(operator)
        return f"state of operator `{physical.title if physical.unifier else physical.name}`, partition {physical.partition},"


class _AtOnce(Executor):
    """Does what is submitted before it returns."""

    def submit(self, function: Callable[..., Any], /, *arguments: Any, **named: Any) -> Future[Any]:
        """A future that is done."""
        outcome: Future[Any] = Future()
        try:
            outcome.set_result(function(*arguments, **named))
        except Exception as error:  # noqa: BLE001  whoever asks for the result gets it
            outcome.set_exception(error)
        return outcome


def _is_plain(operator: Operator) -> bool:
    """True if single values are all of its state: a window that sets them all says everything."""
    return all(isinstance(declared, State) for declared in operator_type(type(operator)).states.values())
