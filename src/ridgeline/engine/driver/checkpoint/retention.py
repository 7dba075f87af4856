"""Keeps the newest windows of a checkpoint with the state files that they name; removes all else."""

from __future__ import annotations

import contextlib
import itertools
import threading
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor

from ridgeline.api.errors import RidgelineError
from ridgeline.engine.driver.checkpoint.journal import Committed, Journal
from ridgeline.engine.driver.checkpoint.sync_marker import create_witness
from ridgeline.engine.files.storage import DriverStorage
from ridgeline.engine.state import state_files

OLD_SEGMENTS = 4
"""How many files of the journal stay before the newest one, if they are appended to.

Most deltas in them are compacted meanwhile. What is not becomes a file of its own when they go.
"""


class Retention:
    """Knows the newest windows of a folder and removes the files that they do not need.

    Files that cannot be removed are left for the next purge. `beside`: purge in a thread, one at a time.
    """

    def __init__(self, storage: DriverStorage, epoch: int, journal: Journal, *, beside: bool) -> None:
        self._storage = storage
        self._epoch = epoch
        self._journal = journal
        self._recent: deque[Committed] = deque()
        self._expected: frozenset[str] = frozenset()
        self._lock = threading.Lock()
        self._pool = ThreadPoolExecutor(1, "ridgeline-purge") if beside else None
        self._job: Future[None] | None = None
        self._commits = 0
        self._wasted = 0
        self._due: int | None = 1
        self._closed = False

    def windows(self) -> Iterator[Committed]:
        """The windows that are kept and can be read, newest first."""
        with self._lock:
            recent = list(self._recent)
        yield from reversed(recent)
        yield from self._journal.pictures()

    def committed(self, window: Committed) -> None:
        """A window is committed."""
        with self._lock:
            begins = not self._recent or self._recent[-1].base != window.base
            self._recent.append(window)
            self._commits += 1
            if self._expected:
                self._expected = frozenset(
                    stem for stem in self._expected if not any(name.startswith(stem) for name in window.added)
                )
            if window.added or begins:
                self._wasted = self._commits

    def expect(self, stem: str) -> None:
        """Keep state files whose names begin with `stem` until a window names one, or `give_up`."""
        with self._lock:
            self._expected |= {stem}

    def give_up(self, stem: str) -> None:
        """No window will name these files: let the next purge remove them."""
        with self._lock:
            self._expected -= {stem}
            self._wasted = self._commits

    def purge(self, windows_kept: int) -> None:
        """After a commit: remove what no kept window needs, some windows after there may be something.

        A driver's first purge also removes state files that earlier drivers wrote and never committed. It
        must not come before the first commit, nor touch files of later windows or drivers. Until then a
        driver that is being fenced off may still commit the window that this one begins with.
        """
        with self._lock:
            while len(self._recent) > 2 * windows_kept + 2:
                self._recent.popleft()
            if self._due is None and self._wasted:
                self._due, self._wasted = self._wasted + windows_kept + 2, 0
            due = self._due is not None and self._commits >= self._due
        if not due or (self._job is not None and not self._job.done()):
            return
        if self._pool is None:
            self._purge(windows_kept)
        else:
            self._job = self._pool.submit(self._purge, windows_kept)

    def close(self) -> None:
        """End a purge that is under way."""
        self._closed = True
        if self._pool is not None:
            self._pool.shutdown(cancel_futures=True)

    def _purge(self, windows_kept: int) -> None:
        """Remove files of the journal, then state files. Runs in the purge thread."""
        with contextlib.suppress(OSError, RidgelineError):
            with self._lock:
                begun = self._commits
                kept = list(self._recent)[-windows_kept:]
            newest = kept[-1].manifest.window_id
            kept += itertools.islice(self._journal.pictures(), windows_kept - len(kept))
            if not self._journal.appends:  # it has no note of its own
                create_witness(self._storage, newest)
            self._purge_journal(kept)
            if self._closed:
                return
            self._purge_states(kept, newest)
            with self._lock:
                self._due = None
                if self._wasted == 0 and begun < windows_kept:
                    self._wasted = begun  # windows from before this driver were kept

    def _purge_journal(self, kept: Sequence[Committed]) -> None:
        """Remove the files of the journal before those of the kept windows, unless a delta is needed."""
        numbers = self._journal.numbers()
        first = min(window.base for window in kept)
        if self._journal.appends:
            first = min([first, *numbers[-1 - OLD_SEGMENTS :][:1]])
        named: dict[int, set[str]] = {}
        for name in _names(kept):
            if (place := state_files.slice_place(name)) and place[0] < first:
                named.setdefault(place[0], set()).add(name)
        for number in numbers:
            if number >= first or self._closed:
                return
            if number not in named or self._journal.appends:
                for name in named.get(number, ()):
                    file = f"{state_files.FOLDER}/{state_files.file_of(name)}"
                    self._storage.create(file, state_files.load(self._storage, name))
                self._storage.delete([state_files.segment_file(number)])

    def _purge_states(self, kept: Sequence[Committed], newest: int) -> None:
        """Remove the state files that neither a kept nor a later window names, nor a compaction writes."""
        names = self._storage.names(state_files.FOLDER)
        with self._lock:  # after listing: files that are named or expected later are not listed
            expected = tuple(self._expected)
            later = [window for window in self._recent if window.manifest.window_id > newest]
            known = {state_files.file_of(name) for name in _names([*kept, *later])}
        gone = (
            name
            for name in names
            if name not in known and not name.startswith(expected) and self._is_old(name, newest)
        )
        state_files.delete(self._storage, self._until_closed(gone))

    def _is_old(self, name: str, newest: int) -> bool:
        return (
            state_files.is_state(name)
            and state_files.window_of(name) <= newest
            and state_files.epoch_of(name) <= self._epoch
        )

    def _until_closed(self, names: Iterable[str]) -> Iterator[str]:
        for name in names:
            if self._closed:
                return
            yield name


def _names(windows: Iterable[Committed]) -> set[str]:
    """The state files that windows name."""
    return {name for window in windows for version in window.manifest.states.values() for name in version}
