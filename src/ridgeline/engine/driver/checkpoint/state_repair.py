"""Checks the state files that a checkpoint names, and finds others in the place of those that are broken."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping

from ridgeline.api.errors import StateError
from ridgeline.engine.driver.checkpoint.folder import Checkpoint
from ridgeline.engine.files.storage import explained
from ridgeline.engine.state import state_files
from ridgeline.engine.state.integrity import FileCheck, equals
from ridgeline.engine.state.segment_files import SegmentFiles
from ridgeline.plan.execution import Plan
from ridgeline.plan.protocol import StateVersion
from ridgeline.stram.compaction import Repaired, StateSize


class StateRepair:
    """Reads a checkpoint's state files and writes none. A repair counts once a window names its files."""

    def __init__(self, plan: Plan, checkpoint: Checkpoint) -> None:
        self._checkpoint = checkpoint
        self._storage = checkpoint.storage
        self._keys = {operator.id: operator.state_key for operator in plan.physical.operators}

    def recover(self, states: Mapping[int, StateVersion]) -> tuple[list[Repaired], Mapping[int, StateSize]]:
        """Check the files of the last committed window at the start of a run.

        Returns the repairs, and what the files hold with them. Raises StateError naming a broken file that
        nothing can replace, CheckpointError if the folder cannot be read.
        """
        repairs, sizes = [], {}
        with explained(self._storage.uri):
            check = self._check(thoroughly=False)
            for operator, version in states.items():
                if fault := check.fault(version):
                    repair = self._find_repair(operator, version, check, fault)
                    if repair is None:
                        raise StateError(fault)
                    repairs.append(repair)
                    version = (*repair.names, *version[len(repair.replaced) :])  # noqa: PLW2901  as repaired
                sizes[operator] = self._size(operator, version, check)
        return repairs, sizes

    def repair(self, states: Mapping[int, StateVersion]) -> list[Repaired]:
        """Check thoroughly, after an attempt could not read its state. A file that nothing can replace stays.

        Raises FencedError if the files are gone because another driver owns the checkpoint.
        """
        repairs = []
        with contextlib.suppress(OSError):  # the next attempt reports what is wrong with the folder
            self._checkpoint.check_owner()
            check = self._check(thoroughly=True)
            for operator, version in states.items():
                if fault := check.fault(version):
                    repair = self._find_repair(operator, version, check, fault)
                    repairs += [] if repair is None else [repair]
        return repairs

    def _check(self, *, thoroughly: bool) -> FileCheck:
        return FileCheck(SegmentFiles(self._storage, self._checkpoint.run_id), thoroughly=thoroughly)

    def _find_repair(
        self, operator: int, version: StateVersion, check: FileCheck, fault: str
    ) -> Repaired | None:
        """Find what replaces a version's compacted files in older windows; None if those are broken too."""
        key = self._keys[operator]
        compacted = state_files.base_of(version)
        older = (manifest.states.get(key, ()) for manifest in self._checkpoint.kept())
        for names in equals(version, older):
            if not check.fault((*names, *version[len(compacted) :])):
                return Repaired(operator, compacted, names, state_files.base_of(names), fault)
        return None

    def _size(self, operator: int, version: StateVersion, check: FileCheck) -> StateSize:
        key = self._keys[operator]
        compacted = state_files.base_of(version)
        deltas = version[len(compacted) :]
        return StateSize(compacted, check.size(key, compacted[-1:]), check.size(key, deltas))
