"""The committed version of each state, and what compactions and repairs replace in it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType

from ridgeline.plan.execution import Plan
from ridgeline.plan.protocol import StateVersion, WindowReport
from ridgeline.stram.compaction import (
    Compacted,
    CompactionFailed,
    CompactionInstruction,
    CompactionScheduler,
    StateSize,
    WarnOfState,
)
from ridgeline.stram.control import Repaired, RunStarted

StateEvent = RunStarted | Repaired | Compacted | CompactionFailed


class StateVersions:
    """The versions of states as of the last committed window, by physical id."""

    def __init__(self, plan: Plan, versions: Mapping[int, StateVersion], tails: Mapping[int, int]) -> None:
        """`tails`: the tail of each head of a delay operator, whose state the head reads."""
        self._versions: dict[int, StateVersion] = dict(versions)
        self._tails = tails
        self._replaced: set[int] = set()
        """Operators whose files were replaced since the last commit was decided on."""
        self._compactions = CompactionScheduler(plan)
        self.stale = True
        """Containers hold no states, or hold them in old files: the next request must carry the versions."""

    def follow(self, before: StateVersions) -> None:
        """Take over what is known of compactions under the plan before."""
        self._compactions.follow(before._compactions)

    def take_sizes(self, sizes: Mapping[int, StateSize]) -> None:
        """Take in what the files of versions hold, where they are not as under the plan before."""
        self._compactions.take_sizes(sizes)

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
        """Take in what committed windows have changed."""
        self._versions |= self.changed(windows, names)
        for reports in windows.values():
            self._compactions.count_deltas(operator for report in reports for operator in report.operators)

    def decide(self) -> tuple[CompactionInstruction, ...]:
        """Decide on compactions between two windows."""
        return tuple(self._compactions.decide(self._versions))

    def handle(self, event: StateEvent) -> tuple[CompactionInstruction, ...]:
        """Take an event in; returns what to do next."""
        match event:
            case RunStarted():
                return self.decide()
            case Repaired():
                return (self._repaired(event),)
            case Compacted(operator, version, names):
                installed = self._replace(operator, version, names)
                present = self._versions.get(operator, ())
                return tuple(self._compactions.succeeded(event, present, installed=installed))
            case CompactionFailed(operator):
                return tuple(self._compactions.failed(event, self._versions.get(operator, ())))

    def _replace(self, operator: int, replaced: StateVersion, names: StateVersion) -> bool:
        """Replace a prefix of a version by files that hold the same.

        Containers that hold the state may keep it. But they must open other segments, to be rid of what they
        hold beside the old ones. False if the version does not begin with `replaced` any more.
        """
        version = self._versions.get(operator, ())
        self._versions[operator] = _with_prefix(version, replaced, names)
        installed = self._versions[operator] != version
        if installed:
            self._replaced.add(operator)
        if installed and max(len(names), len(self._compactions.compacted(operator))) > 1:
            self.stale = True
        return installed

    def _repaired(self, event: Repaired) -> WarnOfState:
        self._replace(event.operator, event.replaced, event.names)
        self.stale = True
        self._compactions.replaced(event.operator, event.compacted)
        remedy = "the files that it was merged from are used instead, nothing is lost"
        return WarnOfState(event.operator, f"{event.fault}; {remedy}")


def _with_prefix(version: StateVersion, replaced: StateVersion, names: StateVersion) -> StateVersion:
    """The version with its prefix `replaced` replaced by `names`; unchanged if it does not begin so."""
    length = len(replaced)
    return (*names, *version[length:]) if version[:length] == replaced else version
