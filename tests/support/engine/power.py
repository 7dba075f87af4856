"""Power cuts of the real file system: what would be left if only what was synced had reached the disk.

The operating system's own calls are recorded, so nothing of the engine's storage is replaced. Kept is what
the standard promises and no more: the content of a file as of its last sync, the names in a folder as of the
folder's last sync. A folder that was never synced is empty, a file that was never synced has no bytes.
"""

from __future__ import annotations

import os
import stat
import threading
from pathlib import Path
from typing import NamedTuple


class Synced(NamedTuple):
    """What the disk has: bytes by inode, and the names of folders with their inodes."""

    files: dict[int, bytes]
    folders: dict[int, dict[str, int]]


class Power:
    """Records every sync below a folder. `cuts` has what the disk had after each of them, the first first."""

    def __init__(self, root: Path, monkeypatch) -> None:
        self.root = root
        self._inode = root.stat().st_ino
        self.cuts: list[Synced] = []
        self._lock = threading.Lock()
        self._held: dict[int, int] = {}
        """A descriptor of each inode that is known, so that no other file gets its number."""
        self._now = Synced({}, {})
        fsync, fdatasync = os.fsync, os.fdatasync

        def syncing(whole):
            def sync(descriptor):
                whole(descriptor)
                self._note(descriptor if isinstance(descriptor, int) else descriptor.fileno())

            return sync

        monkeypatch.setattr(os, "fsync", syncing(fsync))
        monkeypatch.setattr(os, "fdatasync", syncing(fdatasync))

    def close(self) -> None:
        """Let all files go."""
        for descriptor in self._held.values():
            os.close(descriptor)
        self._held.clear()

    def _note(self, descriptor: int) -> None:
        path = Path(f"/proc/self/fd/{descriptor}").readlink()
        if self.root not in (path, *path.parents):
            return
        with self._lock:
            found = os.fstat(descriptor)
            self._hold(found.st_ino, path, descriptor)
            files, folders = self._now
            if stat.S_ISDIR(found.st_mode):
                names = {}
                for entry in os.scandir(path):
                    names[entry.name] = entry.inode()
                    self._hold(entry.inode(), path / entry.name)
                self._now = Synced(files, {**folders, found.st_ino: names})
            else:
                data = Path(f"/proc/self/fd/{descriptor}").read_bytes()
                self._now = Synced({**files, found.st_ino: data}, folders)
            self.cuts.append(self._now)

    def _hold(self, inode: int, path: Path, descriptor: int | None = None) -> None:
        if inode not in self._held:
            try:
                self._held[inode] = os.open(path, os.O_RDONLY) if descriptor is None else os.dup(descriptor)
            except FileNotFoundError:  # removed meanwhile
                return

    def restore(self, cut: Synced, folder: Path) -> None:
        """Make what a cut has left of `root` in another, empty folder."""
        self._restore(cut, self._inode, folder)

    def _restore(self, cut: Synced, inode: int, folder: Path) -> None:
        folder.mkdir(mode=0o700, exist_ok=True)
        for name, of in cut.folders.get(inode, {}).items():
            descriptor = self._held.get(of)
            if descriptor is not None and stat.S_ISDIR(os.fstat(descriptor).st_mode):
                self._restore(cut, of, folder / name)
            else:
                target = folder / name
                target.write_bytes(cut.files.get(of, b""))
                target.chmod(0o600)
