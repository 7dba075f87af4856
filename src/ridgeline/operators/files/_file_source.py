"""The driver's half of `FileInput`: which files are read next, which were read, and what has changed."""

from __future__ import annotations

import hashlib
import uuid
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, ClassVar, NamedTuple

import numpy as np
import pyarrow.fs

from ridgeline.api.clock import SystemClock
from ridgeline.api.errors import RidgelineError, listed
from ridgeline.api.support.files import is_local, is_refused, resolve
from ridgeline.api.support.masking import mask_text
from ridgeline.connect.output_files import checkpoint_files
from ridgeline.connect.source import Amount, Begin, Source, SourceContext
from ridgeline.connect.window_output import safe_name
from ridgeline.operators.files._listing import infos_of

_RECENT = 128
"""The most files that the commit of a window names itself."""
_FANOUT = 16
_ENTRY_BYTES = 16
"""Of a file in a segment: the hash of its name and its identity."""


def hashed(name: str) -> int:
    """A text as a number of 64 bits, not 0."""
    return (
        int.from_bytes(hashlib.blake2b(name.encode("utf-8", "surrogateescape"), digest_size=8).digest()) or 1
    )


def identity(size: int, modified: int) -> int:
    """The size and the time of a file, as a number that differs if one of them does."""
    return hashed(f"{size}:{modified}")


class Seen:
    """The files that were read, by the hash of their name: the identity that they had.

    For a million of them it has 16 bytes each, in a few files of the checkpoint. A window's commit keeps a
    small value (`memory`): the last files by their hashes, and the names of segments with all before. A
    segment is never changed. Of 16 segments of a size one is made, so that there are at most a few dozen.
    """

    def __init__(self, folder: str, memory: Any) -> None:
        """`folder`: where segments are. Raises RidgelineError for a lost one."""
        self._files = checkpoint_files(folder)
        self._identities: dict[int, int] = {}
        if memory is not None:
            for _, name, count in memory["segments"]:
                self.add(self._load(name, count))
            self.add(memory["recent"])

    @property
    def names(self) -> set[int]:
        """The hashes of all names."""
        return set(self._identities)

    def add(self, entries: Iterable[Sequence[int]]) -> None:
        """These files were read, by a committed window: hash of the name, identity."""
        self._identities.update((name, found) for name, found in entries)

    def find(self, names: Sequence[str]) -> list[int]:
        """The identity of each of these files when it was read; 0 if it was not."""
        return [self._identities.get(hashed(name), 0) for name in names]

    def remember(self, memory: Any, entries: Sequence[tuple[int, int]]) -> Any:
        """The memory with files that a window has read. Writes a segment if it would be large otherwise."""
        segments = [] if memory is None else memory["segments"]
        recent = [*([] if memory is None else memory["recent"]), *map(list, entries)]
        if len(recent) <= _RECENT:
            return {"recent": recent, "segments": segments}
        segments = [*segments, self._write(0, recent)]
        level = 0
        while len(own := [one for one in segments if one[0] == level]) >= _FANOUT:
            merged = [entry for _, name, count in own for entry in self._load(name, count)]
            segments = [one for one in segments if one[0] != level] + [self._write(level + 1, merged)]
            level += 1
        return {"recent": [], "segments": segments}

    def _write(self, level: int, entries: Sequence[Sequence[int]]) -> list[Any]:
        """Write a segment, and sync it. Returns its level, name and length."""
        files = self._files
        files.make_folder(files.root)
        files.sync_above(files.root)
        name = f"{uuid.uuid4().hex}.seen"
        with files.writing(f"{files.root}/{name}") as out:
            out.write(np.array(entries, "<u8").tobytes())
        files.sync(files.root)
        return [level, name, len(entries)]

    def _load(self, name: str, count: int) -> list[list[int]]:
        """Read a segment. Raises RidgelineError if it is gone, or has another length."""
        path = f"{self._files.root}/{name}"
        try:
            found = self._files.read(path)
        except OSError as error:
            raise RidgelineError(
                f"`{path}`, the list of files that were read, cannot be read: {error}; restore it"
            ) from error
        if found.size != count * _ENTRY_BYTES:
            raise RidgelineError(
                f"`{path}`, the list of files that were read, has {found.size} bytes, it had "
                f"{count * _ENTRY_BYTES}; restore it"
            )
        entries: list[list[int]] = np.frombuffer(found, "<u8").reshape(-1, 2).tolist()
        return entries


class Found(NamedTuple):
    """A file that is there. `entry`: the number of the entry of `path` that led to it.

    `modified`: in nanoseconds since 1970; 0 where the file system does not say.
    """

    entry: int
    path: str
    size: int
    modified: int


_MOST_OPEN = 256
"""The most files that are given to windows and not read to their end."""
_LISTING_SHARE = 4
_LEAST_BYTES = 64 * 1024
_MOST_NAMED = 20
"""Changed files that are named; of more only the number is said."""
Place = list[Any]
"""A position: bytes passed, the size, the number of the entry of `path`."""


class FileSource(Source):
    """Each file is a source partition, which is closed once it is read.

    Files are given to windows by their time, then name, at most 256 at once. Where a file that is being read
    ends is its size when it was listed last.
    """

    poll_seconds: ClassVar[float] = 0.2
    silent_seconds: ClassVar[float] = 120.0  # to list a million files takes long
    mentions_new: ClassVar[bool] = False
    ends_itself: ClassVar[bool] = True

    def __init__(
        self, entries: Sequence[str], begin: Begin, until: str | None, settle: float, discover_every: float
    ) -> None:
        """See the properties of `FileInput`."""
        self._entries, self._begin, self._until = entries, begin, until
        self._settle, self._every = settle, discover_every
        self._clock = SystemClock()
        self._fresh: bool | None = None
        """Whether nothing was ever read; None before it was opened."""
        self._given: dict[str, Found] = {}
        """The files that windows read, or have closed in windows that are not committed."""
        self._closing: dict[str, Found] = {}
        """Those that windows have closed which are not committed, as they were read."""
        self._queue: list[Found] = []
        self._skipped: list[Found] = []
        self._listed: float | None = None
        self._warned: set[str] = set()
        self._said_nothing = False

    def open(self, context: SourceContext) -> None:
        """Load the list of files that were read. Raises RidgelineError if it is lost."""
        if self._fresh is None:
            self._context = context
            self._fresh = context.memory is None
            self._seen = self._files_read(context.memory)
        self._places = [resolve(entry) for entry in self._entries]

    def _files_read(self, memory: Any) -> Seen:
        """As of a memory."""
        context = self._context
        folder = f"{context.staging}/inputs/{safe_name(context.operator)}-{context.run_id}"
        return Seen(folder, memory)

    def resume(self, positions: Mapping[str, Place]) -> Mapping[str, Place]:
        """These files were being read."""
        for name, (_, size, entry) in positions.items():
            self._given.setdefault(name, Found(entry, name, size, 0))
        return positions

    def unreachable(self, positions: Mapping[str, Place], last: Mapping[str, Place], memory: Any) -> str:
        """Files that are gone, of those that were being read or were read since. Raises as `open`."""
        then, now = (self._files_read(one).names for one in (self._context.memory, memory))
        there = {hashed(found.path) for found in self._list()}
        begun = {hashed(name) for name, (passed, size, _) in positions.items() if passed < size}
        gone = len((begun | now) - then - there)
        return f"{gone} files that were read after that window are gone" if gone else ""

    def finished(self) -> bool:
        """With `until="end"`, once all files that were there at the start are given to windows."""
        return self._until is not None and self._listed is not None and not self._queue

    def has_new(self) -> bool:
        """Whether files wait that may be given to windows."""
        return bool(self._queue) and len(self._given) <= _MOST_OPEN // 2

    def partitions(self) -> Sequence[str]:
        """The files that windows may read."""
        now = self._clock.monotonic()
        if self._listed is None or (self._until is None and now - self._listed >= self._every):
            self._look()
            took = self._clock.monotonic() - now
            self._listed = now + _LISTING_SHARE * took  # of many files it takes long
        while self._queue and len(self._given) < _MOST_OPEN:
            found = self._queue.pop(0)
            self._given[found.path] = found
        return list(self._given)

    def ends(self, wait: float) -> Mapping[str, Place]:
        """The sizes of files."""
        return {name: [found.size, found.size, found.entry] for name, found in self._given.items()}

    def start(self, partitions: Sequence[str], begin: Begin) -> Mapping[str, Place]:
        """Each at its beginning, but for files that are there already where `begin` says so."""
        return {name: [0, 0, self._given[name].entry] for name in partitions}

    def amount(self, partition: str, start: Place, end: Place) -> Amount:
        """Bytes."""
        return Amount(0.0, float(max(0, end[0] - start[0])))

    def waiting(self) -> Amount:
        """The bytes of files that are not given to windows yet."""
        return Amount(0.0, float(sum(found.size for found in self._queue)))

    def divide(
        self, ranges: Mapping[str, tuple[Place, Place]], most: Amount, partitions: int
    ) -> Mapping[str, Place]:
        """File by file, as many at once as the operator has partitions."""
        left, found = most.bytes, {}
        share = max(_LEAST_BYTES, left / partitions)
        for name, (start, end) in ranges.items():
            if left <= 0:
                break
            passed = min(end[0], start[0] + int(share))
            found[name] = end if passed == end[0] else [passed, *end[1:]]
            left -= passed - start[0]
        return found

    def closes(self, partition: str, position: Place) -> bool:
        """True once it is read up to its size, unless it has been found to be longer since."""
        found = self._given.get(partition) or Found(0, partition, position[0], 0)
        if position[0] != position[1] or found.size != position[1]:
            return False
        self._closing[partition] = found
        return True

    def remember(self, memory: Any, closed: Sequence[str]) -> Any:
        """The memory with files that are read; in the first window also with those that are passed over."""
        entries = [self._entry_of(self._closing[name]) for name in closed]
        if memory is None:
            entries += [self._entry_of(found) for found in self._skipped]
        return self._seen.remember(memory, entries)

    def forget(self, closed: Sequence[str]) -> None:
        """These files are read for good."""
        self._seen.add([self._entry_of(self._closing.pop(name)) for name in closed])
        for name in closed:
            self._given.pop(name, None)

    def _entry_of(self, found: Found) -> tuple[int, int]:
        return hashed(found.path), identity(found.size, found.modified)

    def _list(self) -> list[Found]:
        """All files that are there now, by time and name; each once.

        Raises OSError, RidgelineError where a store refuses it.
        """
        found: dict[str, Found] = {}
        for number, entry in enumerate(self._entries):
            try:
                infos = infos_of(*self._places[number], local=is_local(entry))
            except OSError as error:
                if not is_refused(error):
                    raise
                msg = f"`{mask_text(entry)}` cannot be listed: {mask_text(str(error))}; check the keys "
                msg += "(`AWS_ACCESS_KEY_ID` and others), their rights, and the bucket"
                raise RidgelineError(msg) from error
            for info in infos:
                if info.type == pyarrow.fs.FileType.File:
                    found.setdefault(info.path, Found(number, info.path, info.size, info.mtime_ns or 0))
        return sorted(found.values(), key=lambda one: (one.modified, one.path))

    def _look(self) -> None:
        """List the files, and sort out which are new, changed, removed or still being written."""
        every = self._list()
        known = self._seen.find([found.path for found in every])
        queued = {found.path for found in self._queue}
        now = self._clock.wall()
        new: list[Found] = []
        changed: list[str] = []
        for found, before in zip(every, known, strict=True):
            if found.path in self._given:
                self._given[found.path] = found
            elif before:
                if before != identity(found.size, found.modified) and found.path not in self._warned:
                    changed.append(found.path)
            elif found.path in queued or self._is_settled(found, now):
                new.append(found)
        self._mention_removed(every)
        if self._listed is None and self._fresh:
            new = self._left_out(new, every)
        self._queue = new
        self._mention(every, changed)

    def _is_settled(self, found: Found, now: float) -> bool:
        """True if a file has not been changed for `settle`; objects of a store appear whole."""
        if self._until is not None or not found.modified:
            return True
        whole = self._entries[found.entry].startswith(("s3", "gs", "gcs", "abfs"))
        age = now - found.modified / 1e9
        return whole or age >= self._settle or age < -self._settle

    def _left_out(self, new: list[Found], every: Sequence[Found]) -> list[Found]:
        """The files that a fresh run reads, by `begin`; the others count as read, settled or not."""
        begin = self._begin
        if begin == "earliest":
            return new
        least = begin.timestamp() * 1e9 if isinstance(begin, datetime) else float("inf")
        self._skipped = [found for found in every if found.modified < least]
        self._seen.add([self._entry_of(found) for found in self._skipped])
        return [found for found in new if found.modified >= least]

    def _mention_removed(self, every: Sequence[Found]) -> None:
        """Say which files are gone before they were read."""
        there = {found.path for found in every}
        for name in [name for name in self._given if name not in there and name not in self._closing]:
            found = self._given.pop(name)
            self._context.warn(f"file `{found.path}` was removed before it was read to its end")
        for found in self._queue:
            if found.path not in there:
                self._context.warn(f"file `{found.path}` was removed before it was read")

    def _mention(self, every: Sequence[Found], changed: Sequence[str]) -> None:
        """Say which files were changed after they were read, and that there is none."""
        if changed:
            what = f"changed after they were read, and not read again: {listed(changed, _MOST_NAMED)}"
            self._context.warn(f"{what}; write new files, or give a longer `settle`")
        self._warned.update(changed)
        if not every and not self._said_nothing:
            self._said_nothing = True
            self._context.warn(f"there is no file in {listed(self._entries)} yet")
