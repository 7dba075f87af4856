"""The checkpoint folder: its owner, its manifests, and which of its files may be purged.

- `run.json`: application, run id (see `run_description`)
- `lock`: held by the driver that runs (local disks)
- `epochs/<n>`: one file per driver that has owned the folder; the greatest number is the owner
- `manifests/<window>.json`: one per committed window, created atomically: the commit
- `committed/<window>`: a window that was committed; shows when manifests are lost (see `retention`)
- `state/<file>`: state files (see `state_files`)
- `plans/`, `staging/`, `spark/`: what workers need of the plan, output that waits for its commit, Spark's
  offset log (see `spark_log`)
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import re
import socket
import uuid
from collections.abc import Iterator
from typing import IO

from ridgeline.api.errors import CheckpointError, FencedError
from ridgeline.engine.driver import manifest as manifests
from ridgeline.engine.driver.manifest import Manifest
from ridgeline.engine.driver.retention import Retention
from ridgeline.engine.driver.run_description import identify
from ridgeline.engine.state import state_files, trust
from ridgeline.engine.state.storage import DriverStorage, LocalStorage, explain

_EPOCHS = "epochs"
_EPOCH = re.compile(r"\d{8}")
_IN_FLIGHT = re.compile(rb"windows in flight: (\d{1,4})\n")
_UNLOCKABLE = (errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOSYS)
_FOLDERS = (manifests.FOLDER, _EPOCHS, state_files.FOLDER, "plans", "staging", "spark")


class Checkpoint:
    """A checkpoint folder that this driver owns.

    Raises CheckpointError if the folder cannot be owned, FencedError once another driver owns it.
    """

    def __init__(
        self, storage: DriverStorage, application: str, *, beside: bool = False, in_flight: int = 1
    ) -> None:
        """`beside`: files that are not needed any more are removed in a thread.

        `in_flight`: the most windows that are under way at once. After a crash their state files lie ahead of
        the last commit.
        """
        self.storage = storage
        self._in_flight = in_flight
        self._lock: IO[str] | None = None
        self._retention: Retention | None = None
        try:
            with _explained(storage.uri):
                storage.prepare(_FOLDERS)
                self._take_lock()
                self.run_id = identify(storage, application)
                # Before the manifests: a driver that still lives may commit meanwhile, and begin the window
                # after that.
                states = [name for name in storage.names(state_files.FOLDER) if state_files.is_state(name)]
                before = self._manifests()
                if _newest(states) > (before[-1] if before else -1) + in_flight:
                    self._in_flight = max(in_flight, self._in_flight_before())
                self.epoch = self._take_epoch(self._last_epoch(before))
                windows = self._manifests()
                self._retention = Retention(
                    storage,
                    self.epoch,
                    windows,
                    lambda window_id: _named(self._read(window_id)),
                    beside=beside,
                )
                self._refuse_lost_manifests(windows[-1] if windows else -1, states)
        except BaseException:
            self.close()
            raise

    def _take_lock(self) -> None:
        """Lock the folder, on a local disk. The lock ends with the process, however the process dies."""
        if not isinstance(self.storage, LocalStorage):
            return
        lock = open(f"{self.storage.uri}/lock", "a+", opener=trust.private_opener)  # noqa: SIM115
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            lock.seek(0)
            owner = lock.read().strip() or "another process"
            lock.close()
            remedy = "stop it first, or give another `--checkpoint`"
            msg = f"checkpoint folder `{self.storage.uri}` is in use by {owner}; {remedy}"
            raise CheckpointError(msg) from None
        except OSError as error:
            lock.close()
            if error.errno in _UNLOCKABLE:  # some network file systems: epochs keep drivers apart
                return
            raise
        lock.truncate(0)
        lock.write(f"process {os.getpid()} on {socket.gethostname()}\n")
        lock.flush()
        self._lock = lock

    def _take_epoch(self, least: int) -> int:
        """Own the folder under a number greater than all before, and than `least`."""
        who = f"process {os.getpid()} on {socket.gethostname()} {uuid.uuid4().hex}"
        owner = f"{who}, windows in flight: {self._in_flight}\n".encode()
        epoch, owned, twice = least, False, False
        while not owned:
            epoch = max(self._greatest_epoch(), epoch) + 1
            if self._create(_epoch_name(epoch), owner):
                twice = self.storage.create(_epoch_name(epoch), owner)
                owned = (
                    self._greatest_epoch() == epoch
                )  # else a later driver has removed our file, or one that stood in our way
        if twice:
            what = "its file system creates a file that exists already"
            result = "two drivers could commit the same window"
            what = f"{what}, so {result}"
            msg = f"checkpoint folder `{self.storage.uri}`: {what}; give a `--checkpoint` on another one"
            raise CheckpointError(msg)
        self.storage.delete(
            [
                f"{_EPOCHS}/{name}"
                for name in self.storage.names(_EPOCHS)
                if _EPOCH.fullmatch(name) and int(name) < epoch
            ]
        )
        return epoch

    def _in_flight_before(self) -> int:
        """The most windows that the drivers before had under way at once, as they have noted it."""
        limits = [1]
        for name in filter(_EPOCH.fullmatch, self.storage.names(_EPOCHS)):
            with contextlib.suppress(FileNotFoundError):
                found = _IN_FLIGHT.search(self.storage.read(f"{_EPOCHS}/{name}"))
                limits += [int(found[1])] if found else []
        return max(limits)

    def _create(self, name: str, data: bytes, *, settled: str = "") -> bool:
        """Create a file, as the storage's `create`.

        Also true if the file holds `data` already: a first try got no answer, and the storage repeated it.
        """
        if self.storage.create(name, data, settled=settled):
            return True
        with contextlib.suppress(FileNotFoundError):
            return self.storage.read(name) == data
        return False

    def _greatest_epoch(self) -> int:
        return max((int(name) for name in self.storage.names(_EPOCHS) if _EPOCH.fullmatch(name)), default=0)

    def _last_epoch(self, windows: list[int]) -> int:
        """The epoch in the last manifest, in case the files of `epochs` are lost; 0 if none can be read."""
        with contextlib.suppress(CheckpointError):
            return self._read(windows[-1]).epoch if windows else 0
        return 0

    def _refuse_lost_manifests(self, last: int, states: list[str]) -> None:
        """Raise CheckpointError if later windows were committed than the last manifest says."""
        found = f"window {witness} was committed" if (witness := self._kept.witness()) > last else ""
        ahead = max(states, key=state_files.window_of, default="")
        if not found and ahead and state_files.window_of(ahead) > last + self._in_flight:
            found = f"`{state_files.FOLDER}/{ahead}` is of window {state_files.window_of(ahead)}"
        if found:
            newest = f"its last manifest is of window {last}" if last >= 0 else "it has no manifest"
            remedy = "restore the whole folder from one copy, or give another `--checkpoint`"
            cause = "`manifests` was emptied or is an older copy"
            msg = f"checkpoint folder `{self.storage.uri}`: {found}, but {newest}: {cause}; {remedy}"
            raise CheckpointError(msg)

    @property
    def _kept(self) -> Retention:
        assert self._retention is not None  # noqa: S101  made at the start
        return self._retention

    # Manifests ----------------------------------------------------------------------------------------------

    def _manifests(self) -> list[int]:
        found = map(manifests.window_of, self.storage.names(manifests.FOLDER))
        return sorted(window_id for window_id in found if window_id is not None)

    def last(self) -> Manifest | None:
        """The manifest of the last committed window, None before the first.

        Raises CheckpointError if it is corrupt.
        """
        windows = self._kept.windows
        return self._read(windows[-1]) if windows else None

    def _read(self, window_id: int) -> Manifest:
        name = manifests.file_name(window_id)
        with _explained(self.storage.uri):
            return Manifest.decode(
                self.storage.read(name), self.run_id, window_id, f"{self.storage.uri}/{name}"
            )

    def kept(self) -> Iterator[Manifest]:
        """The manifests that are kept and can be read, newest first."""
        for window_id in reversed(self._kept.windows):
            with contextlib.suppress(CheckpointError):
                yield self._read(window_id)

    def commit(self, manifest: Manifest) -> None:
        """Commit a window: write its manifest.

        Raises FencedError if another driver owns the folder now or has committed the window, CheckpointError
        if it cannot be written.
        """
        named = _named(manifest)
        written = any(state_files.window_of(name) == manifest.window_id for name in named)
        with _explained(self.storage.uri):
            self.check_owner()
            name, data = manifests.file_name(manifest.window_id), manifest.encode(self.run_id)
            settled = state_files.FOLDER if written else ""
            again = manifest.window_id in self._kept.windows
            created = not again and self._create(name, data, settled=settled)
        if not created:
            what = f"window {manifest.window_id} was committed to `{self.storage.uri}` by another driver"
            msg = f"{what}; this one stops, nothing is lost"
            raise FencedError(msg)
        self._kept.committed(manifest.window_id, named)

    def check_owner(self) -> None:
        """Raises FencedError if another driver owns the folder by now, OSError if it cannot be read."""
        if self._greatest_epoch() != self.epoch:
            what = f"checkpoint folder `{self.storage.uri}` was taken over by another driver"
            msg = f"{what}; this one stops, nothing is lost"
            raise FencedError(msg)

    # What is kept -------------------------------------------------------------------------------------------

    def expect(self, stem: str) -> None:
        """Keep state files whose names begin with `stem` until a manifest names one, or `give_up`."""
        self._kept.expect(stem)

    def give_up(self, stem: str) -> None:
        """No manifest will name these files: let the next purge remove them."""
        self._kept.give_up(stem)

    def purge(self, windows_kept: int) -> None:
        """After a commit: remove what is not needed any more, see `Retention.purge`."""
        self._kept.purge(windows_kept)

    def close(self) -> None:
        """Release the folder."""
        if self._retention is not None:
            self._retention.close()
        if self._lock is not None:
            self._lock.truncate(0)
            self._lock.close()
            self._lock = None


def _newest(states: list[str]) -> int:
    """The last window that a state file belongs to, -1 without any."""
    return max(map(state_files.window_of, states), default=-1)


def _named(manifest: Manifest) -> frozenset[str]:
    """The state files that a manifest names."""
    return frozenset(name for names in manifest.states.values() for name in names)


def _epoch_name(epoch: int) -> str:
    return f"{_EPOCHS}/{epoch:08d}"


class _explained(contextlib.AbstractContextManager[None]):  # noqa: N801  used like a function
    """Raises CheckpointError in place of the operating system's errors."""

    def __init__(self, uri: str) -> None:
        self._uri = uri

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, OSError) and not isinstance(error, CheckpointError):
            raise CheckpointError(explain(self._uri, error)) from error
