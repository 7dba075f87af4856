"""The checkpoint folder: its owner, its journal, and which of its files may be purged.

- `run.json`: application, run id (see `run_description`)
- `lock`: held by the driver that runs (local disks); YARN's next attempt removes that of the one before
- `epochs/<n>`: one file per driver that has owned the folder; the greatest number is the owner
- `journal/<n>`: the committed windows, one record each (see `journal`): a record that is synced is the commit
- `committed/`: notes of how far the journal goes; shows when it is lost (see `journal`)
- `state/<file>`: state files (see `state_files`)
- `plans/`, `staging/`, `spark/`: the user's code for workers, output that waits for its commit, Spark's
  offset log (see `offset_log`)
"""

from __future__ import annotations

import contextlib
import itertools
import math
import os
import re
import socket
import tempfile
import threading
import uuid
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from types import MappingProxyType

from ridgeline.api.errors import CheckpointError, FencedError, RidgelineError
from ridgeline.engine.driver.checkpoint import journal
from ridgeline.engine.driver.checkpoint.journal import Committed, Journal
from ridgeline.engine.driver.checkpoint.manifest import Manifest
from ridgeline.engine.driver.checkpoint.run_description import identify
from ridgeline.engine.files.storage import DriverStorage, LocalStorage, Storage, explained
from ridgeline.engine.process import shipped_files
from ridgeline.engine.state import state_files

# Keeps the newest windows of a checkpoint with the state files that they name; removes all else.

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
        """The last commit since which a file is not needed any more, once no kept window names it."""
        self._purged = -math.inf
        """The last commit as of which all was removed that could be."""
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

        A driver's first purge also removes what earlier drivers shipped to workers, and state files that
        they wrote and never committed. It must not come before the first commit, nor touch files of later
        windows or drivers. Until then a driver that is being fenced off may still commit the window that this
        one begins with.
        """
        with self._lock:
            while len(self._recent) > 2 * windows_kept + 2:
                self._recent.popleft()
            rested = self._commits >= self._purged + windows_kept + 2
            due = rested and self._purged < self._wasted + windows_kept
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
                journal.create_sync_marker(self._storage, newest)
            self._purge_journal(kept)
            if self._closed:
                return
            self._purge_states(kept, newest)
            shipped_files.purge(self._storage, self._epoch)
            self._purged = begun

    def _purge_journal(self, kept: Sequence[Committed]) -> None:
        """Remove the files of the journal before those of the kept windows, unless a delta is needed."""
        appends, numbers = self._journal.appends, self._journal.numbers()
        for number, needed in unneeded(kept, numbers[: -1 - OLD_SEGMENTS] if appends else numbers).items():
            if self._closed:
                return
            if appends or not needed:
                for name in needed:
                    state_files.write_apart(self._storage, name, self._storage.create)
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


def unneeded(kept: Sequence[Committed], numbers: Iterable[int]) -> dict[int, list[str]]:
    """The files of the journal before those of kept windows, by number, with the deltas that these need."""
    first = min(window.base for window in kept)
    found: dict[int, list[str]] = {number: [] for number in numbers if number < first}
    for name in _names(kept):
        if (place := state_files.slice_place(name)) and place[0] in found:
            found[place[0]].append(name)
    return found


def _names(windows: Iterable[Committed]) -> set[str]:
    """The state files that windows name."""
    return {name for window in windows for name in window.manifest.files}


_EPOCHS = "epochs"
_EPOCH = re.compile(r"\d{8}")
_FOLDERS = (
    journal.FOLDER,
    journal.MARKERS,
    _EPOCHS,
    state_files.FOLDER,
    shipped_files.FOLDER,
    "staging",
    "spark",
    "recordings",
)
_NO_CHANGES: Mapping[str, bytes] = MappingProxyType({})


def lost_windows(storage: Storage, found: Journal, states: Iterable[str]) -> str:
    """The fault of a journal that has continued after where it ends now; "" if it has none.

    `states`: the names of state files that were there before the journal was read.
    """
    last = found.last.window_id if found.last else -1
    known = found.marker.window_id
    newest = max(states, key=state_files.epoch_of, default="")
    why = f"window {known} was committed" if known > last else ""
    if not why and newest and state_files.epoch_of(newest) > found.epoch:
        why = f"`{state_files.FOLDER}/{newest}` is of a later driver"
    if not why:
        return ""
    end = f"its journal ends with window {last}" if last >= 0 else "its journal is empty"
    remedy = "restore the whole folder from one copy, or give another `--checkpoint`"
    cause = f"`{journal.FOLDER}` was emptied or is an older copy"
    return f"checkpoint folder `{storage.uri}`: {why}, but {end}: {cause}; {remedy}"


class Checkpoint:
    """A checkpoint folder that this driver owns.

    Raises CheckpointError if the folder cannot be owned, FencedError once another driver owns it.
    """

    def __init__(self, storage: DriverStorage, application: str, *, beside: bool = False) -> None:
        """`beside`: files that are not needed any more are removed in a thread."""
        self.storage = storage
        with contextlib.ExitStack() as held, explained(storage.uri):
            storage.prepare(_FOLDERS)
            self._lock = storage.lock() if isinstance(storage, LocalStorage) else None
            if self._lock is not None:
                held.callback(self._lock.release)
            self.run_id = identify(storage, application)
            self._take_over(held)
            self._retention = Retention(storage, self.epoch, self._journal, beside=beside)
            held.callback(self._retention.close)
            self._held = held.pop_all()

    def _take_over(self, held: contextlib.ExitStack) -> None:
        """Own the folder, read the journal, and seal it: what drivers before write from then on is void."""
        # Before the journal: drivers seal it before containers write their first state file.
        states = [name for name in self.storage.names(state_files.FOLDER) if state_files.is_state(name)]
        self.epoch = self._take_epoch(0)
        while True:
            self._journal = Journal(self.storage, self.run_id, appends=self._lock is not None)
            held.callback(self._journal.close)
            self.check_owner()  # after reading: a driver that is fenced off must not seal
            if self._journal.epoch >= self.epoch:  # the files of epochs were lost
                self.epoch = self._take_epoch(self._journal.epoch)
            if fault := lost_windows(self.storage, self._journal, states):
                raise CheckpointError(fault)
            if self._journal.seal(self.epoch):
                return

    def _take_epoch(self, least: int) -> int:
        """Own the folder under a number greater than all before, and than `least`."""
        owner = f"process {os.getpid()} on {socket.gethostname()} {uuid.uuid4().hex}\n".encode()
        epoch, owned, twice = least, False, False
        while not owned:
            epoch = max(self._greatest_epoch(), epoch) + 1
            if journal.create(self.storage, _epoch_name(epoch), owner):
                twice = self.storage.create(_epoch_name(epoch), owner)
                # else a later driver has removed our file, or one that stood in our way
                owned = self._greatest_epoch() == epoch
        if twice:
            what = "its file system creates a file that exists already, so two drivers could commit the "
            what += "same window"
            raise CheckpointError(
                f"checkpoint folder `{self.storage.uri}`: {what}; give a `--checkpoint` on another one"
            )
        self.storage.delete(
            [
                f"{_EPOCHS}/{name}"
                for name in self.storage.names(_EPOCHS)
                if _EPOCH.fullmatch(name) and int(name) < epoch
            ]
        )
        return epoch

    def _greatest_epoch(self) -> int:
        return max((int(name) for name in self.storage.names(_EPOCHS) if _EPOCH.fullmatch(name)), default=0)

    # Windows ------------------------------------------------------------------------------------------------

    def last(self) -> Manifest | None:
        """The last committed window, None before the first."""
        return self._journal.last

    @property
    def committed(self) -> int:
        """The number of the last committed window, -1 before the first."""
        last = self.last()
        return -1 if last is None else last.window_id

    def kept(self) -> Iterator[Manifest]:
        """The windows that are kept and can be read, newest first. Raises OSError."""
        return (window.manifest for window in self._retention.windows())

    def commit(self, manifest: Manifest, changes: Mapping[str, bytes] = _NO_CHANGES) -> Mapping[str, str]:
        """Commit a window: write its record and sync it, once.

        `changes`: small changes of state, by the names that the manifest's versions have for them. Returns
        their committed names, by which they can be read from now on.

        Raises FencedError if another driver owns the folder now or has committed the window, CheckpointError
        if it cannot be written.
        """
        with explained(self.storage.uri):
            last = self._journal.last
            if last is not None and last.window_id >= manifest.window_id:
                raise self._committed_by_another(manifest.window_id)
            written = self._journal.append(manifest, changes)
            self.check_owner()  # after the record is there: a driver that takes over then has read it
            if written is None:
                raise self._committed_by_another(manifest.window_id)
        window, names = written
        self._journal.note()
        self._retention.committed(window)
        return names

    def _committed_by_another(self, window_id: int) -> FencedError:
        what = f"window {window_id} was committed to `{self.storage.uri}` by another driver"
        return FencedError(f"{what}; this one stops, nothing is lost")

    def check_owner(self) -> None:
        """Raises FencedError if another driver owns the folder by now, OSError if it cannot be read."""
        why = ""
        if self._greatest_epoch() != self.epoch:
            why = "was taken over by another driver"
        elif self._lock is not None and self._lock.is_broken:  # a list of files may be old on NFS
            why = "has lost its `lock`, which a driver removes that takes over"
        if why:
            raise FencedError(
                f"checkpoint folder `{self.storage.uri}` {why}; this one stops, nothing is lost"
            )

    def taken_over(self, error: Exception) -> FencedError | None:
        """The cause of an error if another driver owns the folder, and so removes files of this one."""
        try:
            self.check_owner()
        except FencedError as fenced:
            fenced.__cause__ = error
            return None if isinstance(error, FencedError) else fenced
        except Exception:  # noqa: BLE001  it cannot be read any more; the error counts
            return None
        return None

    # What is kept -------------------------------------------------------------------------------------------

    def expect(self, stem: str) -> None:
        """Keep state files whose names begin with `stem` until a window names one, or `give_up`."""
        self._retention.expect(stem)

    def give_up(self, stem: str) -> None:
        """No window will name these files: let the next purge remove them."""
        self._retention.give_up(stem)

    def purge(self, windows_kept: int) -> None:
        """After a commit: remove what is not needed any more, see `Retention.purge`."""
        self._retention.purge(windows_kept)

    def close(self) -> None:
        """Release the folder."""
        self._held.close()


def _epoch_name(epoch: int) -> str:
    return f"{_EPOCHS}/{epoch:08d}"


# Temporary folders, for runs without `--checkpoint` ---------------------------------------------------------

PREFIX = "ridgeline-checkpoint-"


def temporary_checkpoint(application: str) -> str:
    """Make a folder. Raises CheckpointError if none can be made."""
    try:
        return tempfile.mkdtemp(prefix=f"{PREFIX}{application}-")
    except OSError as error:
        remedy = "free some space, let TMPDIR name another folder, or give `--checkpoint`"
        what = "no folder for the run's state can be made in the temporary folder"
        raise CheckpointError(f"{what}: {error.strerror or error}; {remedy}") from error
