"""Keeps a checkpoint's newest manifests and the state files that they name; removes all others."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor

from ridgeline.api.errors import RidgelineError
from ridgeline.engine.driver import manifest
from ridgeline.engine.state import state_files
from ridgeline.engine.state.storage import DriverStorage

WITNESS = "committed"
"""Folder with one file, named after a committed window: it shows if `manifests` was emptied or replaced."""


class Retention:
    """Knows the manifests of a folder and removes the files that are not needed any more.

    Files that cannot be removed are left for the next purge. `beside`: purge in a thread, one at a time.
    """

    def __init__(
        self,
        storage: DriverStorage,
        epoch: int,
        windows: Iterable[int],
        named: Callable[[int], frozenset[str]],
        *,
        beside: bool,
    ) -> None:
        """`windows`: of all manifests, in order. `named(window)`: the state files that a manifest names."""
        self._storage = storage
        self._epoch = epoch
        self._windows = list(windows)
        self._named = named
        self._chains: dict[int, frozenset[str]] = {}
        self._expected: frozenset[str] = frozenset()
        self._witnesses: list[str] = []
        self._lock = threading.Lock()
        self._pool = ThreadPoolExecutor(1, "ridgeline-purge") if beside else None
        self._job: Future[None] | None = None
        self._leftovers = True
        self._closed = False

    @property
    def windows(self) -> list[int]:
        """The windows whose manifests are in the folder, in order."""
        with self._lock:
            return list(self._windows)

    def witness(self) -> int:
        """The last window that was committed, even if its manifest is lost; -1 if there was none.

        Raises OSError.
        """
        self._witnesses = [name for name in self._storage.names(WITNESS) if name.isdecimal()]
        return max(map(int, self._witnesses), default=-1)

    def committed(self, window_id: int, named: frozenset[str]) -> None:
        """A window is committed, and its manifest names these state files."""
        with self._lock:
            self._windows.append(window_id)
            self._chains[window_id] = named
            if self._expected:
                self._expected = frozenset(
                    stem for stem in self._expected if not any(name.startswith(stem) for name in named)
                )

    def expect(self, stem: str) -> None:
        """Keep state files whose names begin with `stem` until a manifest names one, or `give_up`."""
        with self._lock:
            self._expected |= {stem}

    def give_up(self, stem: str) -> None:
        """No manifest will name these files: let the next purge remove them."""
        with self._lock:
            self._expected -= {stem}

    def purge(self, windows_kept: int) -> None:
        """After a commit: remove old manifests and unnamed state files, once there are enough of them.

        A driver's first purge also removes state files that earlier drivers wrote and never committed. It
        must not come before the first commit, nor touch files of later windows or drivers. Until then a
        driver that is being fenced off may still commit the window that this one begins with.
        """
        if self._job is not None and not self._job.done():
            return
        with self._lock:
            enough = len(self._windows) >= 2 * windows_kept + 2
        if not (enough or self._leftovers):
            return
        if self._pool is None:
            self._purge(windows_kept if enough else 0)
        else:
            self._job = self._pool.submit(self._purge, windows_kept if enough else 0)

    def close(self) -> None:
        """End a purge that is under way."""
        self._closed = True
        if self._pool is not None:
            self._pool.shutdown(cancel_futures=True)

    def _purge(self, windows_kept: int) -> None:
        """Remove old manifests (none if `windows_kept` is 0), then state files. Runs in the purge thread."""
        with contextlib.suppress(OSError, RidgelineError):
            windows = self.windows
            old, recent = windows[:-windows_kept], windows[-windows_kept:]
            if not windows_kept:
                old, recent = [], windows
            for window_id in recent:
                if window_id not in self._chains:
                    named = self._named(window_id)
                    with self._lock:
                        self._chains[window_id] = named
            self._write_witness(recent[-1])
            self._storage.delete(self._until_closed(map(manifest.file_name, old)))
            if self._closed:
                return
            with self._lock:
                self._windows = [window_id for window_id in self._windows if window_id not in old]
                self._chains = {window_id: self._chains[window_id] for window_id in self._windows}
            self._purge_states(recent[-1])
            self._leftovers = False

    def _write_witness(self, window_id: int) -> None:
        name = f"{window_id:012d}"
        if name not in self._witnesses:
            self._storage.create(f"{WITNESS}/{name}", b"")
            self._storage.delete(f"{WITNESS}/{other}" for other in self._witnesses if int(other) < window_id)
            self._witnesses = [name]

    def _purge_states(self, newest: int) -> None:
        names = self._storage.names(state_files.FOLDER)
        with self._lock:  # after listing: files that are named or expected later are not listed
            kept = frozenset().union(*self._chains.values())
            expected = tuple(self._expected)
        gone = (
            name
            for name in names
            if name not in kept and not name.startswith(expected) and self._is_old(name, newest)
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
