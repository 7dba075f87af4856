"""Whether the files of a version are whole, and which other files hold the same state if they are not."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from ridgeline.api.errors import StateError
from ridgeline.engine.files.storage import LocalStorage
from ridgeline.engine.state import state_files
from ridgeline.engine.state.segment_files import SegmentFiles
from ridgeline.plan.protocol import StateVersion


class FileCheck:
    """Checks state files, each once.

    Deltas and snapshots are read, of segments the size is compared with what the snapshot says; `thoroughly`:
    segments are read too. Where files are not on a local disk a check that is not thorough only sees to it
    that they exist.
    """

    def __init__(self, files: SegmentFiles, *, thoroughly: bool) -> None:
        self._files = files
        self._storage = files.storage
        self._thoroughly = thoroughly
        self._reads = thoroughly or isinstance(self._storage, LocalStorage)
        # First the journal: a delta becomes a file of its own before its segment is removed.
        self._segments = frozenset(self._storage.names(state_files.JOURNAL))
        self._names = frozenset(self._storage.names(state_files.FOLDER))
        self._sizes: dict[str, dict[str, int]] = {}

    def fault(self, version: StateVersion) -> str:
        """The fault of the first of a version's files that is missing or corrupt, empty if none is.

        Raises OSError.
        """
        try:
            for name in version:
                if not self.exists(name):
                    raise state_files.missing(self._storage, name)
                if self._reads and not state_files.is_segment(name) and name not in self._sizes:
                    self._sizes[name] = state_files.sizes(self._storage, name)
            if self._reads:
                self._check_segments(version)
        except StateError as error:
            return str(error)
        return ""

    def exists(self, name: str) -> bool:
        """Whether a file is there; of a delta in the journal, its segment or its own file."""
        place = state_files.slice_place(name)
        if place is None:
            return name in self._names
        segment = state_files.segment_file(place[0])
        return state_files.last_part(segment) in self._segments or state_files.file_of(name) in self._names

    def has_all(self, names: Iterable[str]) -> bool:
        """Whether all of these files are there."""
        return all(map(self.exists, names))

    def size(self, key: str, names: Iterable[str]) -> int:
        """How many bytes an operator's changes (by state key) have in those of these files that were read."""
        return sum(self._sizes.get(name, {}).get(key, 0) for name in names)

    def _check_segments(self, version: StateVersion) -> None:
        """Compare the sizes of a version's segments with those that its snapshot names."""
        segments = state_files.segments_of(version)
        if not segments:
            return
        snapshot = state_files.base_of(version)[-1]
        wanted = state_files.read(self._storage, snapshot, state_files.SEGMENT_SIZES)
        for name in segments:
            if self._thoroughly:
                self._files.open(name)
            elif (size := len(self._storage.map(f"{state_files.FOLDER}/{name}") or b"")) != wanted[name][0]:
                where = state_files.where(self._storage, name)
                found = f"{size} bytes, not {wanted[name][0]}"
                raise StateError(f"state file `{where}` is corrupt ({found}); restore it from a copy")


def equals(version: StateVersion, others: Iterable[StateVersion]) -> Iterator[StateVersion]:
    """The equivalents, in `others`, of a version's compacted files: their inputs or their compactions."""
    base = state_files.base_of(version)
    if not base:
        return
    reached = state_files.covered(base[-1])
    for other in others:
        covered = [state_files.covered(name) for name in other]
        if reached in covered:
            found = other[: len(covered) - covered[::-1].index(reached)]
            if found != base:
                yield found
