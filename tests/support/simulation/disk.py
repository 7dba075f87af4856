"""A simulated disk: what was not synced may be lost, in parts, when the power fails."""

from __future__ import annotations

import contextlib
import errno
import random
from collections.abc import Callable, Iterable
from typing import NamedTuple

from typing_extensions import Buffer

from ridgeline.api.errors import CheckpointError
from ridgeline.engine.files.storage import DriverStorage, LocalStorage
from support.simulation.process import Process

SECTOR = 512
_AHEAD = 3 * SECTOR


class File:
    """A file: what processes read of it, and what the disk itself has.

    `dirty`: the ranges that were written since the last sync.
    """

    __slots__ = ("data", "dirty", "links", "synced")

    def __init__(self, data: bytes = b"") -> None:
        self.data = bytearray(data)
        self.synced = bytearray()
        self.dirty: list[tuple[int, int]] = [(0, len(data))] if data else []
        self.links = 1

    def sync(self) -> None:
        """Let what was written survive a power cut."""
        for begin, end in self.dirty:
            if len(self.synced) < begin:
                self.synced.extend(bytes(begin - len(self.synced)))
            self.synced[begin:end] = self.data[begin:end]
        self.dirty.clear()

    def cut(self, place: int) -> Callable[[], None]:
        """Let the file end where it once did; returns what mends it, unless somebody has gone on with it."""
        lost = bytes(self.data[place:])
        del self.data[place:]

        def mend() -> None:
            if len(self.data) == place:
                self.data.extend(lost)

        return mend

    def rot(self, place: int, flipped: int) -> Callable[[], None]:
        """Let a byte be another one; returns what mends it."""

        def flip() -> None:
            for content in (self.data, self.synced):
                if place < len(content):
                    content[place] ^= flipped

        flip()
        return flip

    def lose_power(self, luck: random.Random) -> None:
        """Keep some of what was not synced: of what is new a part, of what was overwritten whole sectors."""
        known = len(self.synced)
        chance = luck.random()
        for begin, end in self.dirty:
            for first in range(begin - begin % SECTOR, end, SECTOR):
                if luck.random() < chance:
                    low, high = max(first, begin), min(first + SECTOR, end)
                    if len(self.synced) < low:
                        self.synced.extend(bytes(low - len(self.synced)))
                    self.synced[low:high] = self.data[low:high]
        if self.dirty and len(self.data) > known:
            fate = luck.randrange(3)
            if fate == 0:
                del self.synced[known:]
            elif fate == 1:
                del self.synced[luck.randint(known, len(self.data)) :]
            elif len(self.synced) < len(self.data):
                self.synced.extend(bytes(len(self.data) - len(self.synced)))
        self.dirty.clear()
        self.data = bytearray(self.synced)


class Rename:
    """A file's new name, which may be in another folder. The old one is there until the new one is safe."""

    __slots__ = ("safe",)

    def __init__(self) -> None:
        self.safe = False


class Change(NamedTuple):
    """What a folder's next sync makes safe: a name of a file, of a folder (`_FOLDER`), or that it is gone."""

    name: str
    file: File | None
    rename: Rename | None = None


_FOLDER = File()


class Disk:
    """The files of a world. `names` is what processes see; a folder's names need a sync as well.

    So does the name of a folder that `make_folder` has made, in the one above. Others are always there.
    """

    def __init__(self, luck: random.Random) -> None:
        self.names: dict[str, File] = {}
        self.folders: dict[str, set[str]] = {}
        self.made: set[str] = set()
        """The folders that were made."""
        self._durable: dict[str, File] = {}
        self._safe_folders: set[str] = set()
        self._pending: dict[str, list[Change]] = {}
        self._luck = luck
        self.full = False
        self.bad_syncs = 0
        """So many syncs fail from now on."""
        self.unanswered = 0
        """An answer of a store is lost so many times: its client asks again, or (odd) gives up."""
        self.forgets = False
        """What a sync that has failed should have written is never written, whoever syncs it again."""
        self.owner: Process | None = None
        """Who has locked the folder."""
        self.lock_is_broken = False
        """The lock lets another one in, as a lock server does that has lost a client."""
        self.on_delete: Callable[[str], None] = lambda _name: None
        self.on_change: Callable[[str], None] = lambda _name: None

    @property
    def safe_names(self) -> Iterable[str]:
        """Names that are there after a power cut."""
        return self._durable.keys()

    def link(self, name: str, file: File | None) -> None:
        """Give a file a name, or (None) take it away."""
        folder, _, last = name.rpartition("/")
        if file is None:
            self.names.pop(name).links = 0
            self.folders[folder].discard(last)
        else:
            self.names[name] = file
            self.folders.setdefault(folder, set()).add(last)
        self._pending.setdefault(folder, []).append(Change(name, file))
        self.on_change(name)

    def rename(self, source: str, target: str) -> None:
        """Give a file another name, in place of that which it has, and of a file that had it."""
        if source == target:
            return
        file, rename = self.names.pop(source), Rename()
        (before, _, old), (after, _, new) = source.rpartition("/"), target.rpartition("/")
        self.folders[before].discard(old)
        self.names[target] = file
        self.folders.setdefault(after, set()).add(new)
        self._pending.setdefault(after, []).append(Change(target, file, rename))
        self._pending.setdefault(before, []).append(Change(source, None, rename))
        self.on_change(target)

    def make_folder(self, path: str) -> None:
        """Make a folder and those above."""
        parts = path.split("/")
        for name in ("/".join(parts[: count + 1]) for count in range(len(parts))):
            if name and name not in self.made:
                self.made.add(name)
                self._pending.setdefault(name.rpartition("/")[0], []).append(Change(name, _FOLDER))

    def sync_folder(self, folder: str) -> None:
        """Let a folder's names survive a power cut."""
        kept = [change for change in self._pending.pop(folder, ()) if not self._settle(change)]
        if kept:
            self._pending[folder] = kept

    def fail_sync(self) -> None:
        """Raise OSError if a sync is to fail now."""
        if self.bad_syncs:
            self.bad_syncs -= 1
            raise OSError(errno.EIO, "simulated")

    def sync(self, file: File) -> None:
        """Sync a file. Raises OSError."""
        try:
            self.fail_sync()
        except OSError:
            if self.forgets:
                file.dirty.clear()
            raise
        file.sync()

    def write(self, file: File, data: Buffer, offset: int) -> None:
        """Write a piece. Raises OSError, after a part of it, if the disk is full."""
        piece = bytes(memoryview(data))
        if self.full and len(file.data) < offset + len(piece):
            piece = piece[: self._luck.randint(0, len(piece) - 1)] if piece else piece
        end = offset + len(piece)
        if len(file.data) < offset:
            file.data.extend(bytes(offset - len(file.data)))
        file.data[offset:end] = piece
        file.dirty.append((offset, end))
        if self.full:
            raise OSError(errno.ENOSPC, "simulated")

    def _settle(self, change: Change) -> bool:
        """Make a change safe; False for an old name, as long as the new one is not."""
        name, file, rename = change
        if file is None:
            if rename is not None and not rename.safe:
                return False
            self._durable.pop(name, None)
        elif file is _FOLDER:
            self._safe_folders.add(name)
        else:
            self._durable[name] = file
            if rename is not None:
                rename.safe = True
        return True

    def lose_power(self) -> None:
        """Forget what was not synced. Of a folder's names the first few of the newest remain."""
        kept = [
            change
            for pending in self._pending.values()
            for change in pending[: self._luck.randint(0, len(pending))]
        ]
        for change in kept:
            if change.rename is not None and change.file is not None:
                change.rename.safe = True
        for change in kept:
            self._settle(change)
        self._pending.clear()
        self._lose_folders()
        self.names = dict(self._durable)
        self.folders = {}
        for name, file in self.names.items():
            file.lose_power(self._luck)
            folder, _, last = name.rpartition("/")
            self.folders.setdefault(folder, set()).add(last)
        self.owner = None

    def _lose_folders(self) -> None:
        """Folders whose names, or those above, were not synced are gone, and so is what was in them."""
        lost = tuple(f"{one}/" for one in self.made - self._safe_folders)
        if lost:
            self.made = {one for one in self.made if not f"{one}/".startswith(lost)}
            self._safe_folders &= self.made
            self._durable = {one: file for one, file in self._durable.items() if not one.startswith(lost)}


class _Lock:
    """A `FolderLock` of a simulated disk. It never says that it is broken: epochs alone have to do."""

    is_broken = False

    def __init__(self, disk: Disk, process: Process) -> None:
        self._disk = disk
        self._process = process

    def release(self) -> None:
        if self._disk.owner is self._process:
            self._disk.owner = None


class SimulatedFile:
    """An `AppendedFile` of a simulated disk."""

    def __init__(self, disk: Disk, name: str, process: Process) -> None:
        self._disk = disk
        self._name = name
        self._file = disk.names[name]
        self._process = process
        self._length = len(self._file.data)
        self._end: int | None = None

    def append(self, data: bytes, offset: int) -> None:
        """Write, with zeros ahead, and sync."""
        end, self._end = offset + len(data), None
        self.write(data, offset)
        if end > self._length:
            self._length = end
            with contextlib.suppress(OSError):
                self.write(bytes(_AHEAD), end)
                self._length += _AHEAD
        self._process.point("append sync")
        self._process.syncs()
        self._process.point("append synced")
        self._disk.sync(self._file)
        self._process.syncs()
        self._process.point("append")
        if not self._file.links:
            raise FileNotFoundError(f"`{self._name}` was removed")
        self._end = end

    def cut(self) -> None:
        """Cut off the zeros; a power cut brings them back."""
        self._process.point("append cut")
        if self._end is not None:
            del self._file.data[self._end :]

    def write(self, data: bytes, offset: int) -> None:
        self._process.point("append write")
        self._disk.write(self._file, data, offset)

    def close(self) -> None:
        """Nothing is held."""


class _View:
    """What a process sees of a disk or a store."""

    disk: Disk
    _process: Process

    def _file(self, name: str) -> File:
        try:
            return self.disk.names[name]
        except KeyError:
            raise FileNotFoundError(name) from None

    def read(self, name: str) -> bytes:
        self._process.point("read")
        return bytes(self._file(name).data)

    def names(self, folder: str) -> list[str]:
        self._process.point("list")
        return sorted(self.disk.folders.get(folder, ()))

    def delete(self, names: Iterable[str]) -> None:
        for name in names:
            self._process.point("delete")
            if name in self.disk.names:
                self.disk.on_delete(name)
                self.disk.link(name, None)
                self._deleted(name)

    def _deleted(self, name: str) -> None:
        """A name was removed."""


class SimulatedDisk(_View, LocalStorage):
    """A process's view of the disk, as `LocalStorage`."""

    def __init__(self, disk: Disk, process: Process) -> None:
        super().__init__("/simulated")
        self.disk = disk
        self._process = process

    def prepare(self, folders: Iterable[str]) -> None:
        """The checkpoint itself is there; what it holds is made when it is needed."""

    def _make_folder(self, name: str) -> None:
        """As the engine's: the first use syncs its name, whoever has made it."""
        folder = name.rpartition("/")[0]
        if self._process.world.case.folders and folder and folder not in self._folders:
            self._process.point("folder")
            self.disk.make_folder(folder)
            self._process.point("folder made")
            self.disk.sync_folder("")
            self._folders.add(folder)

    def lock(self) -> _Lock:
        """Lock the folder for this process. Raises CheckpointError."""
        self._process.point("lock")
        owner = self.disk.owner
        if owner is not None and owner.alive and not self.disk.lock_is_broken:
            raise CheckpointError(f"checkpoint folder `{self.uri}` is in use by {owner.name}")
        self.disk.owner = self._process
        return _Lock(self.disk, self._process)

    def read_range(self, name: str, offset: int, size: int) -> bytes:
        self._process.point("read")
        return bytes(self._file(name).data[offset : offset + size])

    def map(self, name: str) -> Buffer | None:
        return self.read(name)

    def appended(self, name: str) -> SimulatedFile:  # type: ignore[override]  the same in a simulation
        self._process.point("open")
        self._file(name)
        return SimulatedFile(self.disk, name, self._process)

    def settle_folder(self, folder: str) -> None:
        self._process.point("settle")
        self.disk.sync_folder(folder)

    def settle(self, names: Iterable[str]) -> None:
        """Sync each file and its name."""
        for name in names:
            self.disk.sync(self._file(name))
            self.disk.sync_folder(name.rpartition("/")[0])

    def write_parts(self, name: str, parts: Iterable[bytes]) -> int:
        """Write and sync the content, not the name."""
        self._process.point("write")
        data = b"".join(parts)
        file = File()
        self._make_folder(name)
        self.disk.link(name, file)
        self.disk.write(file, data, 0)
        self._process.point("write sync")
        self.disk.sync(file)
        return len(data)

    def create(self, name: str, data: bytes, *, settled: str = "") -> bool:
        """A hidden file, then a link, then a sync of the folder."""
        self._process.point("create")
        self._make_folder(name)
        hidden = File()
        if settled:
            self.disk.sync_folder(settled)
        self.disk.write(hidden, data, 0)
        self.disk.sync(hidden)
        self._process.point("create link")
        if name in self.disk.names:
            return False
        self.disk.link(name, hidden)
        self._process.point("create sync")
        self.disk.sync_folder(name.rpartition("/")[0])
        self._process.point("created")
        return True


class SimulatedStore(_View, DriverStorage):
    """A process's view of an object store: what is written is safe, a create is conditional."""

    def __init__(self, disk: Disk, process: Process) -> None:
        self.uri = "s3://simulated"
        self.disk = disk
        self._process = process

    def _put(self, name: str, data: bytes) -> None:
        if self.disk.full:
            raise OSError(errno.EDQUOT, "simulated")
        file = File(data)
        file.sync()
        self.disk.link(name, file)
        self.disk.sync_folder(name.rpartition("/")[0])

    def write(self, name: str, data: bytes) -> None:
        self._process.point("write")
        self._put(name, data)
        self._process.point("written")

    def create(self, name: str, data: bytes, *, settled: str = "") -> bool:
        """Put it if there is none."""
        self._process.point("create")
        self._process.syncs()
        self._process.check()
        if name in self.disk.names:
            return False
        self._put(name, data)
        self._process.syncs()
        self._process.point("created")
        if self.disk.unanswered:
            self.disk.unanswered -= 1
            if self.disk.unanswered % 2:
                raise OSError(errno.ETIMEDOUT, "simulated")
            return False
        return True

    def _deleted(self, name: str) -> None:
        self.disk.sync_folder(name.rpartition("/")[0])
