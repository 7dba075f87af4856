"""The checkpoint folder: who owns it, its manifests, and what may be purged.

- `run.json`: application, run id
- `lock`: held by the driver that runs (local disks)
- `epochs/<n>`: one file per driver that has owned the folder; the greatest number is the owner
- `manifests/<window>.json`: one per committed window, created atomically: the commit
- `state/<file>`: state files (see `state_files`)
- `plans/`, `staging/`, `spark/`: what workers need of the plan, output that waits for its commit, Spark's offset log
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import socket
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from ridgeline.api.errors import CheckpointError, FencedError
from ridgeline.engine import state_files
from ridgeline.engine.manifest import Manifest
from ridgeline.engine.storage import LocalStorage, Storage, explain

_MANIFESTS = "manifests"
_EPOCHS = "epochs"


class Checkpoint:
    """A checkpoint folder that this driver owns. Raises CheckpointError when it cannot be had, FencedError once it is another's."""

    def __init__(self, storage: Storage, application: str) -> None:
        self.storage = storage
        self._lock: IO[str] | None = None
        try:
            with _explained(storage.uri):
                self._take_lock()
                self.run_id = self._identify(application)
                self.epoch = self._take_epoch()
                self._windows = sorted(_window_of(name) for name in storage.names(_MANIFESTS))
        except BaseException:
            self.close()
            raise
        self._chains: dict[int, frozenset[str]] = {}
        self._expected: frozenset[str] = frozenset()

    def _take_lock(self) -> None:
        """On a local disk a second driver is refused at once; the lock goes with the process, however it dies."""
        if not isinstance(self.storage, LocalStorage):
            return
        path = Path(self.storage.uri) / "lock"
        path.parent.mkdir(parents=True, exist_ok=True)
        lock = path.open("a+")
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            lock.seek(0)
            owner = lock.read().strip() or "another process"
            lock.close()
            msg = f"checkpoint folder `{self.storage.uri}` is in use by {owner}; stop it first, or give another `--checkpoint`"
            raise CheckpointError(msg) from None
        lock.truncate(0)
        lock.write(f"process {os.getpid()} on {socket.gethostname()}\n")
        lock.flush()
        self._lock = lock

    def _identify(self, application: str) -> str:
        fresh = {"format": 1, "application": application, "run_id": uuid.uuid4().hex[:8]}
        self.storage.create("run.json", json.dumps(fresh).encode())
        try:
            found = json.loads(self.storage.read("run.json"))
            owner, run_id = found["application"], str(found["run_id"])
        except (ValueError, KeyError, TypeError) as error:
            msg = f"`{self.storage.uri}/run.json` is corrupt: {error}; restore it from a copy, or give another `--checkpoint`"
            raise CheckpointError(msg) from error
        if owner != application:
            msg = f"checkpoint folder `{self.storage.uri}` belongs to application `{owner}`; this is `{application}`"
            msg += "; give another `--checkpoint`"
            raise CheckpointError(msg)
        return run_id

    def _take_epoch(self) -> int:
        owner = f"process {os.getpid()} on {socket.gethostname()}\n".encode()
        epoch = 0
        while not epoch or self._greatest_epoch() > epoch:  # else a later driver removed the file that stood in our way
            epoch = self._greatest_epoch() + 1
            while not self.storage.create(f"{_EPOCHS}/{epoch:08d}", owner):
                epoch += 1
        self.storage.delete([f"{_EPOCHS}/{name}" for name in self.storage.names(_EPOCHS) if int(name) < epoch])
        return epoch

    def _greatest_epoch(self) -> int:
        return max(map(int, self.storage.names(_EPOCHS)), default=0)

    # Manifests -----------------------------------------------------------------------------------------------------

    def last(self) -> Manifest | None:
        """The manifest of the last committed window, None before the first. Raises CheckpointError if it is corrupt."""
        return self._read(self._windows[-1]) if self._windows else None

    def _read(self, window_id: int) -> Manifest:
        name = f"{_MANIFESTS}/{window_id:012d}.json"
        with _explained(self.storage.uri):
            return Manifest.decode(self.storage.read(name), f"{self.storage.uri}/{name}")

    def kept(self) -> Iterator[Manifest]:
        """The manifests that are kept and can be read, newest first."""
        for window_id in reversed(self._windows):
            with contextlib.suppress(CheckpointError):
                yield self._read(window_id)

    def commit(self, manifest: Manifest) -> None:
        """Make a window official.

        Raises FencedError if another driver owns the folder now or has committed the window, CheckpointError if it cannot be written.
        """
        name = f"{_MANIFESTS}/{manifest.window_id:012d}.json"
        with _explained(self.storage.uri):
            self.check_owner()
            created = self.storage.create(name, manifest.encode())
        if not created:
            msg = f"window {manifest.window_id} was committed to `{self.storage.uri}` by another driver; this one stops, nothing is lost"
            raise FencedError(msg)
        self._windows.append(manifest.window_id)
        self._chains[manifest.window_id] = named = _named(manifest)
        if self._expected:
            self._expected = frozenset(stem for stem in self._expected if not any(name.startswith(stem) for name in named))

    def check_owner(self) -> None:
        """Raises FencedError if another driver owns the folder by now, OSError if that cannot be found out."""
        if self._greatest_epoch() != self.epoch:
            msg = f"checkpoint folder `{self.storage.uri}` was taken over by another driver; this one stops, nothing is lost"
            raise FencedError(msg)

    # Files to come -------------------------------------------------------------------------------------------------

    def expect(self, stem: str) -> None:
        """State files whose names begin with `stem` are being written: they stay until a manifest names one of them, or `give_up`."""
        self._expected |= {stem}

    def give_up(self, stem: str) -> None:
        """No manifest will name these files: they go with the next purge."""
        self._expected -= {stem}

    # Purge ---------------------------------------------------------------------------------------------------------

    def purge(self, windows_kept: int) -> None:
        """Remove manifests of old windows, and the state files that no kept window needs. A failure to remove is left for the next time."""
        if len(self._windows) < 2 * windows_kept + 2:
            return
        old, self._windows = self._windows[:-windows_kept], self._windows[-windows_kept:]
        with contextlib.suppress(OSError):
            for window_id in self._windows:
                if window_id not in self._chains:
                    self._chains[window_id] = _named(self._read(window_id))
            self.storage.delete(f"{_MANIFESTS}/{window_id:012d}.json" for window_id in old)
            self._chains = {window_id: self._chains[window_id] for window_id in self._windows}
            self._purge_states(self._windows[-1])

    def purge_leftovers(self) -> None:
        """After the first commit: remove state files of attempts that were never committed, by drivers before this one.

        Not sooner, and none of later windows: a driver that is being fenced off may be about to commit the window that this one begins
        with, until this one has committed it.
        """
        for window_id in self._windows:
            self._chains[window_id] = _named(self._read(window_id))
        with contextlib.suppress(OSError):
            self._purge_states(self._windows[-1])

    def _purge_states(self, newest: int) -> None:
        kept = frozenset().union(*self._chains.values()) if self._chains else frozenset()
        expected = tuple(self._expected)
        names = [name for name in self.storage.names(state_files.FOLDER) if name not in kept and not name.startswith(expected)]
        state_files.delete(self.storage, (name for name in names if state_files.window_of(name) <= newest))

    def close(self) -> None:
        """Give the folder back."""
        if self._lock is not None:
            self._lock.truncate(0)
            self._lock.close()
            self._lock = None


def _named(manifest: Manifest) -> frozenset[str]:
    """The state files that a manifest names."""
    return frozenset(name for names in manifest.states.values() for name in names)


def _window_of(manifest_name: str) -> int:
    return int(manifest_name.removesuffix(".json"))


class _explained(contextlib.AbstractContextManager[None]):  # noqa: N801  used like a function
    """Turn the operating system's words into ours."""

    def __init__(self, uri: str) -> None:
        self._uri = uri

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, OSError) and not isinstance(error, CheckpointError):
            raise CheckpointError(explain(self._uri, error)) from error
