"""Segments as files: opened once in a process, mapped from the checkpoint or from the host's copies."""

from __future__ import annotations

from weakref import WeakValueDictionary

from ridgeline.api.errors import StateError
from ridgeline.engine.files.local_tier import LocalTier, folder_of
from ridgeline.engine.files.storage import Storage
from ridgeline.engine.state import state_files
from ridgeline.engine.state.keyed_segments import Segment
from ridgeline.plan.protocol import StateVersion


class SegmentFiles:
    """The segments of a checkpoint's operators, for one process.

    A segment stays open while it is referenced.
    """

    def __init__(self, storage: Storage, run_id: str) -> None:
        self.storage = storage
        self._open: WeakValueDictionary[str, Segment] = WeakValueDictionary()
        self._tier = LocalTier(storage, folder_of(run_id))
        self._held: dict[int, frozenset[str]] = {}
        """The segments of operators, of which several may share one."""

    def open(self, name: str, epoch: int = 0) -> Segment:
        """A segment by the name of its state file.

        It is read as a whole, for its checksum. A file that the driver of this `epoch` had written is not:
        the compactor has just read it back. Raises StateError naming the file if it is missing or corrupt,
        OSError.
        """
        segment = self._open.get(name)
        if segment is None:
            try:
                segment = self._open[name] = self._read(
                    name, checked=state_files.compaction_epoch(name) == epoch
                )
            except FileNotFoundError as error:
                raise state_files.missing(self.storage, name) from error
        return segment

    def _read(self, name: str, *, checked: bool) -> Segment:
        where, file = state_files.where(self.storage, name), f"{state_files.FOLDER}/{name}"
        buffer = self.storage.map(file)
        if buffer is not None:
            return Segment(buffer, where, checked=checked)
        try:
            return Segment(self._tier.map(file), where)
        except StateError:  # is it the copy, or the file itself?
            self._tier.forget(file)
            return Segment(self._tier.map(file), where)

    def retire(self, operator: int, version: StateVersion) -> None:
        """Remove the host's copies of an operator's segments that its `version` has not any more."""
        segments = frozenset(state_files.segments_of(version))
        left = self._held.get(operator, frozenset()) - segments
        if segments:
            self._held[operator] = segments
            held = frozenset().union(*self._held.values())
            self._tier.retain(
                lambda name: name in held or not (name in left or state_files.belongs_to(name, operator))
            )
