"""The committed version of each state, and STRAM's decisions about compactions.

These are when to compact, when windows wait, when to retry, and when to give up.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from ridgeline.api.operator import Operator, is_stateless, operator_type
from ridgeline.api.state import State
from ridgeline.plan.execution import Plan
from ridgeline.plan.protocol import StateVersion, WindowReport

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


@dataclass(frozen=True, slots=True)
class Repaired:
    """Broken files of a state are replaced: `names` hold what the prefix `replaced` of its version held.

    `compacted`: the segments and the snapshot among `names`. `fault`: what was wrong with the broken files.
    """

    operator: int
    replaced: StateVersion
    names: StateVersion
    compacted: StateVersion
    fault: str


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


class StateVersions:
    """The versions of states as of the last committed window, by physical id, and their compactions.

    At most one compaction of an operator runs at a time. One that fails is retried with patience: after `n`
    failures the version has to grow by `n + 1` intervals. Only `Master` calls it.
    """

    def __init__(
        self,
        plan: Plan,
        versions: Mapping[int, StateVersion],
        tails: Mapping[int, int],
        sizes: Mapping[int, StateSize],
        before: StateVersions | None,
    ) -> None:
        """`tails`: the tail of each head of a delay operator, whose state the head reads.

        `sizes`: what the files of versions hold, where they are not as `before`, under the plan before.
        """
        self._plan = plan
        self._versions: dict[int, StateVersion] = dict(versions)
        self._tails = tails
        self._replaced: set[int] = set()
        """Operators whose files were replaced since the last commit was decided on."""
        self.stale = True
        """Containers hold no states, or hold them in old files: the next request must carry the versions."""
        given: int | None = plan.logical.attributes["snapshot_interval"]
        self._interval = INTERVAL if given is None else given
        self._most = MOST_DELTAS if given is None else given
        """How many deltas are compacted however quickly they come."""
        known: Mapping[int, _Growth] = {} if before is None else before.growth
        operators = plan.physical.operators
        stateful = (one.id for one in operators if not is_stateless(one.operator))
        self.growth: Mapping[int, _Growth] = {
            operator: known.get(operator) or _Growth() for operator in stateful
        }
        self._plain = {one.id for one in operators if _is_plain(one.operator)}
        for operator, size in sizes.items():
            if (growth := self.growth.get(operator)) is not None:
                growth.compacted = size.compacted
                growth.snapshot_bytes, growth.delta_bytes = size.snapshot_bytes, size.delta_bytes

    @property
    def versions(self) -> Mapping[int, StateVersion]:
        """The version of each state, by physical id; a read-only view."""
        return MappingProxyType(self._versions)

    def for_request(self) -> dict[int, StateVersion]:
        """The versions for a request; heads of delay operators get those of their tails."""
        of_tails = {
            head: self._versions[tail] for head, tail in self._tails.items() if tail in self._versions
        }
        return self._versions | of_tails

    # Commits ------------------------------------------------------------------------------------------------

    def changed(
        self, windows: Mapping[int, Iterable[WindowReport]], names: Mapping[str, str]
    ) -> dict[int, StateVersion]:
        """The versions that these windows have changed. `names`: what changes are called since the commit."""
        versions: dict[int, StateVersion] = {}
        for window in windows.values():
            for report in window:
                for one in report.operators:
                    if one.change:
                        operator = one.window.operator
                        before = versions.get(operator, self._versions.get(operator, ()))
                        change = names.get(one.change, one.change)
                        versions[operator] = (change,) if one.replaces else (*before, change)
        return versions

    def to_commit(self, windows: Mapping[int, Iterable[WindowReport]]) -> dict[int, StateVersion]:
        """The versions that a commit of these windows has to write: all others are as in the one before."""
        replaced = {operator: self._versions[operator] for operator in self._replaced}
        self._replaced.clear()
        return replaced | self.changed(windows, {})

    def commit(self, windows: Mapping[int, Iterable[WindowReport]], names: Mapping[str, str]) -> None:
        """Take in what committed windows have changed, and count the deltas that they have added."""
        self._versions |= self.changed(windows, names)
        for one in (one for reports in windows.values() for report in reports for one in report.operators):
            growth = self.growth.get(one.window.operator)
            if one.window.state_bytes and growth is not None:  # else a watermark alone, replaced each time
                if one.replaces:
                    growth.compacted, growth.delta_bytes = (), 0
                growth.delta_bytes += one.window.state_bytes
                growth.changed = one.window.ended

    # Compactions --------------------------------------------------------------------------------------------

    def decide(self) -> Iterator[CompactionInstruction]:
        """The instructions on each state between two windows."""
        for operator, growth in self.growth.items():
            version = self._versions.get(operator, ())
            if len(version) >= self._interval or growth.delta_bytes >= COMPACT_BYTES:
                yield from self._decide(operator, growth)

    def succeeded(self, event: Compacted) -> Iterator[CompactionInstruction]:
        """The instructions after a compaction that has ended well.

        Its files are of no use if the state was reset since: the version does not begin so any more.
        """
        growth = self.growth[event.operator]
        compacted_bytes = growth.compacting_bytes or 0
        growth.compacting_bytes, growth.failures, growth.blocks = None, 0, False
        if self._replace(event.operator, event.version, event.names, growth.compacted):
            growth.compacted, growth.snapshot_bytes = event.names, event.snapshot_bytes
            growth.delta_bytes -= compacted_bytes
            yield ReportCompaction(event.operator, len(event.version), event.snapshot_bytes)
        else:
            yield DiscardCompaction(event.operator)
        yield from self._decide(event.operator, growth)

    def failed(self, event: CompactionFailed) -> Iterator[CompactionInstruction]:
        """The instructions after a compaction that has failed: retry it now or later, or give up."""
        growth = self.growth[event.operator]
        waited = growth.blocks
        growth.compacting_bytes, growth.blocks = None, False
        growth.failures += 1
        name = self._name(event.operator)
        outlook = "nothing is lost, it is tried again"
        yield WarnOfState(event.operator, f"{name} could not be merged: {event.cause}; {outlook}")
        if waited and growth.failures >= ATTEMPTS:
            deltas = growth.deltas(self._versions.get(event.operator, ()))
            waiting = f"the changes of {deltas} windows ({growth.delta_bytes} bytes) wait for it"
            remedy = "put right what was said before and run again with the same `--checkpoint`"
            yield GiveUpCompaction(f"{name} cannot be merged; {waiting}; {remedy}")
        else:
            yield from self._decide(event.operator, growth)

    def repaired(self, event: Repaired) -> WarnOfState:
        """Other files hold what broken ones did."""
        self._replace(event.operator, event.replaced, event.names, ())
        self.stale = True
        if (growth := self.growth.get(event.operator)) is not None:
            growth.compacted = event.compacted
        remedy = "the files that it was merged from are used instead, nothing is lost"
        return WarnOfState(event.operator, f"{event.fault}; {remedy}")

    def _replace(
        self, operator: int, replaced: StateVersion, names: StateVersion, compacted: StateVersion
    ) -> bool:
        """Replace a prefix of a version by files that hold the same. `compacted`: its compacted part so far.

        Containers that hold the state may keep it. But they must open other segments, to be rid of what they
        hold beside the old ones. False if the version does not begin with `replaced` any more.
        """
        version, length = self._versions.get(operator, ()), len(replaced)
        if version[:length] != replaced or names == replaced:
            return False
        self._versions[operator] = (*names, *version[length:])
        self._replaced.add(operator)
        self.stale |= max(len(names), len(compacted)) > 1
        return True

    def _decide(self, operator: int, growth: _Growth) -> Iterator[CompactionInstruction]:
        """Begin a compaction that is due, and let windows wait for it where the version has grown too far."""
        version = self._versions.get(operator, ())
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
