"""STRAM's decisions about compactions: when to compact, when windows wait, when to retry, when to give up."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from ridgeline.api.operator import Operator, is_stateless, operator_type
from ridgeline.api.state import State
from ridgeline.plan.execution import Plan
from ridgeline.plan.protocol import OperatorReport, StateVersion

COMPACT_BYTES = 1 << 24
"""A version is compacted once its deltas have this many bytes, and no fewer than the snapshot below them."""
LIMIT_BYTES = 1 << 27
"""Back pressure: windows wait once a version's deltas exceed its snapshot by this many bytes."""
INTERVAL = 16
"""The default of `snapshot_interval` where windows take their time."""
PACE_SECONDS = 1.0
"""By default a state is not compacted again sooner: next to short windows that would be most of the work."""
MOST_DELTAS = 256
"""By default so many deltas are compacted in any case."""
LIMIT_INTERVALS = 10
"""Back pressure: windows wait once a version has this many times `snapshot_interval` deltas."""
ATTEMPTS = 3
"""The run ends once this many compactions of a version have failed in a row and windows wait for it."""


@dataclass(frozen=True, slots=True)
class StateSize:
    """The files of a version: `compacted` are its segments and snapshot, the others are deltas.

    `snapshot_bytes` and `delta_bytes` are what a reader has to load of each kind.
    """

    compacted: StateVersion = ()
    snapshot_bytes: int = 0
    delta_bytes: int = 0


# Events -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Compacted:
    """The compaction of an operator's state has ended: the files `names` hold what `version` holds."""

    operator: int
    version: StateVersion
    names: StateVersion
    snapshot_bytes: int


@dataclass(frozen=True, slots=True)
class CompactionFailed:
    """The compaction of an operator's state has failed. `cause`: the text of the error."""

    operator: int
    cause: str


# Instructions -----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Compact:
    """Begin to compact a version of an operator's state, of which `size_bytes` have to be read."""

    operator: int
    version: StateVersion
    size_bytes: int


@dataclass(frozen=True, slots=True)
class AwaitCompaction:
    """Back pressure: begin no further window until the operator's compaction has ended."""

    operator: int


@dataclass(frozen=True, slots=True)
class DiscardCompaction:
    """The files of the operator's last compaction are of no use: no version begins with what they replace."""

    operator: int


@dataclass(frozen=True, slots=True)
class ReportCompaction:
    """Report to subscribers that `files` of a version were compacted to a snapshot of `size_bytes`."""

    operator: int
    files: int
    size_bytes: int


@dataclass(frozen=True, slots=True)
class WarnOfState:
    """Report a warning about an operator's state to subscribers."""

    operator: int
    text: str


@dataclass(frozen=True, slots=True)
class GiveUpCompaction:
    """End the run: windows cannot continue without a compaction that keeps failing."""

    message: str


CompactionInstruction = (
    Compact | AwaitCompaction | DiscardCompaction | ReportCompaction | WarnOfState | GiveUpCompaction
)


@dataclass(slots=True)
class _Growth:
    """How far one operator's version has grown since its last compaction.

    `compacting_bytes`: the bytes of the deltas in the compaction that runs, None if none runs. `failures`:
    compactions that failed in a row. `blocks`: windows wait for the compaction. `begun`, `changed`: when the
    last compaction was decided on, and when the last delta was made, by the clock of the operator's host.
    """

    compacted: StateVersion = ()
    snapshot_bytes: int = 0
    delta_bytes: int = 0
    compacting_bytes: int | None = None
    failures: int = 0
    blocks: bool = False
    begun: float = -math.inf
    changed: float = -math.inf

    def deltas(self, version: StateVersion) -> int:
        """The number of deltas in the operator's present version."""
        length = len(self.compacted)
        return len(version) - length if version[:length] == self.compacted else len(version)


class CompactionScheduler:
    """Decides on the compactions of an application, operator by operator.

    At most one compaction of an operator runs at a time. One that fails is retried with patience: after `n`
    failures the version has to grow by `n + 1` intervals. Only `Master` calls it, with the versions as they
    are after the event.
    """

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        given: int | None = plan.logical.attributes["snapshot_interval"]
        self._interval = INTERVAL if given is None else given
        self._most = MOST_DELTAS if given is None else given
        """How many deltas are compacted however quickly they come."""
        self._growth = {
            operator.id: _Growth()
            for operator in plan.physical.operators
            if not is_stateless(operator.operator)
        }
        self._plain = {operator.id for operator in plan.physical.operators if _is_plain(operator.operator)}

    def follow(self, before: CompactionScheduler) -> None:
        """Take over the states of operators that were there before the plan changed."""
        kept = self._growth.keys() & before._growth.keys()
        self._growth |= {operator: before._growth[operator] for operator in kept}

    def take_sizes(self, sizes: Mapping[int, StateSize]) -> None:
        """Take in what the files of versions hold."""
        for operator, size in sizes.items():
            if (growth := self._growth.get(operator)) is not None:
                growth.compacted = size.compacted
                growth.snapshot_bytes, growth.delta_bytes = size.snapshot_bytes, size.delta_bytes

    def count_deltas(self, reports: Iterable[OperatorReport]) -> None:
        """Count the deltas that a committed window has added to the versions."""
        for report in reports:
            growth = self._growth.get(report.window.operator)
            if report.window.state_bytes and growth is not None:  # else a watermark alone, replaced each time
                if report.replaces:
                    growth.compacted, growth.delta_bytes = (), 0
                growth.delta_bytes += report.window.state_bytes
                growth.changed = report.window.ended

    def decide(self, states: Mapping[int, StateVersion]) -> Iterator[CompactionInstruction]:
        """The instructions on each state between two windows."""
        for operator, growth in self._growth.items():
            version = states.get(operator, ())
            if len(version) >= self._interval or growth.delta_bytes >= COMPACT_BYTES:
                yield from self._decide(operator, growth, version)

    def compacted(self, operator: int) -> StateVersion:
        """The compacted part of an operator's present version: segments and a snapshot."""
        return self._growth[operator].compacted if operator in self._growth else ()

    def replaced(self, operator: int, compacted: StateVersion) -> None:
        """Take in that other files hold the compacted part of a version: `compacted`, and deltas after it."""
        if operator in self._growth:
            self._growth[operator].compacted = compacted

    def succeeded(
        self, event: Compacted, version: StateVersion, *, installed: bool
    ) -> Iterator[CompactionInstruction]:
        """The instructions after a compaction that has ended well.

        `installed`: the present `version` begins with its files. It does not if the state was reset since.
        """
        growth = self._growth[event.operator]
        compacted_bytes = growth.compacting_bytes or 0
        growth.compacting_bytes, growth.failures, growth.blocks = None, 0, False
        if installed:
            growth.compacted, growth.snapshot_bytes = event.names, event.snapshot_bytes
            growth.delta_bytes -= compacted_bytes
            yield ReportCompaction(event.operator, len(event.version), event.snapshot_bytes)
        else:
            yield DiscardCompaction(event.operator)
        yield from self._decide(event.operator, growth, version)

    def failed(self, event: CompactionFailed, version: StateVersion) -> Iterator[CompactionInstruction]:
        """The instructions after a compaction that has failed: retry it now or later, or give up."""
        growth = self._growth[event.operator]
        waited = growth.blocks
        growth.compacting_bytes, growth.blocks = None, False
        growth.failures += 1
        name = self._name(event.operator)
        outlook = "nothing is lost, it is tried again"
        yield WarnOfState(event.operator, f"{name} could not be merged: {event.cause}; {outlook}")
        if waited and growth.failures >= ATTEMPTS:
            deltas = growth.deltas(version)
            waiting = f"the changes of {deltas} windows ({growth.delta_bytes} bytes) wait for it"
            remedy = "put right what was said before and run again with the same `--checkpoint`"
            yield GiveUpCompaction(f"{name} cannot be merged; {waiting}; {remedy}")
        else:
            yield from self._decide(event.operator, growth, version)

    def _decide(
        self, operator: int, growth: _Growth, version: StateVersion
    ) -> Iterator[CompactionInstruction]:
        """Begin a compaction that is due, and let windows wait for it where the version has grown too far."""
        deltas = growth.deltas(version)
        if deltas <= 1 and operator in self._plain:
            return  # the one delta holds the whole state
        blocks = (
            deltas >= LIMIT_INTERVALS * self._most
            or growth.delta_bytes >= LIMIT_BYTES + growth.snapshot_bytes
        )
        if growth.compacting_bytes is None and (blocks or self._is_due(growth, deltas)):
            growth.compacting_bytes, growth.begun = growth.delta_bytes, growth.changed
            yield Compact(operator, version, growth.snapshot_bytes + growth.delta_bytes)
        if blocks and not growth.blocks:
            growth.blocks = True
            yield AwaitCompaction(operator)

    def _is_due(self, growth: _Growth, deltas: int) -> bool:
        patience = 1 + growth.failures
        enough_bytes = max(COMPACT_BYTES, growth.snapshot_bytes)
        enough = self._interval if growth.changed - growth.begun >= PACE_SECONDS else self._most
        return deltas >= enough * patience or growth.delta_bytes >= enough_bytes * patience

    def _name(self, operator: int) -> str:
        physical = self._plan.physical.operator(operator)
        title = physical.title if physical.unifier else physical.name
        return f"state of operator `{title}`, partition {physical.partition},"


def _is_plain(operator: Operator) -> bool:
    """True if all state is single values: a window that sets them all writes the whole state."""
    return all(isinstance(declared, State) for declared in operator_type(type(operator)).states.values())
