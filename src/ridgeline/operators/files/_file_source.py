"""The driver's half of `FileInput`: which files are read next, which were read, and what has changed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, ClassVar, NamedTuple

from ridgeline.api.clock import SystemClock
from ridgeline.connect.source import Amount, Begin, Source, SourceContext
from ridgeline.connect.window_output import safe_name
from ridgeline.operators.files._listing import Found, Listing
from ridgeline.operators.files._seen import Seen, hashed, identity

_MOST_OPEN = 256
"""The most files that are given to windows and not read to their end."""
_LISTING_SHARE = 4
_LEAST_BYTES = 64 * 1024
_MOST_WARNINGS = 20
"""Changed files that are named; of more only the number is said."""
Place = list[Any]
"""A position: bytes passed, the size, the number of the entry of `path`."""


class Settings(NamedTuple):
    """The properties of a `FileInput` that its source needs."""

    entries: tuple[str, ...]
    begin: Begin
    until: str | None
    settle: float
    discover_every: float


class FileSource(Source):
    """Each file is a source partition, which is closed once it is read.

    Files are given to windows by their time, then name, at most 256 at once. Where a file that is being read
    ends is its size when it was listed last.
    """

    poll_seconds: ClassVar[float] = 0.2
    silent_seconds: ClassVar[float] = 120.0  # to list a million files takes long
    mentions_new: ClassVar[bool] = False

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._clock = SystemClock()
        self._seen: Seen | None = None
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
        if self._seen is None:
            self._context = context
            self._fresh = context.memory is None
            folder = f"{context.staging}/inputs/{safe_name(context.operator)}-{context.run_id}"
            self._seen = Seen(None if context.staging.startswith("memory:") else folder, context.memory)
        self._listing = Listing(self._settings.entries)

    def resume(self, positions: Mapping[str, Place]) -> Mapping[str, Place]:
        """These files were being read."""
        for name, (_, size, entry) in positions.items():
            self._given.setdefault(name, Found(entry, name, size, 0))
        return positions

    def finished(self) -> bool:
        """With `until="end"`, once all files that were there at the start are given to windows."""
        return self._settings.until is not None and self._listed is not None and not self._queue

    def has_new(self) -> bool:
        """Whether files wait that may be given to windows."""
        return bool(self._queue) and len(self._given) <= _MOST_OPEN // 2

    def partitions(self) -> Sequence[str]:
        """The files that windows may read."""
        now = self._clock.monotonic()
        every = self._settings.discover_every
        if self._listed is None or (self._settings.until is None and now - self._listed >= every):
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
        seen = self._seen
        assert seen is not None  # noqa: S101  `open` has made it
        entries = [self._entry_of(self._closing[name]) for name in closed]
        if memory is None:
            entries += [self._entry_of(found) for found in self._skipped]
        return seen.remember(memory, entries)

    def forget(self, closed: Sequence[str]) -> None:
        """These files are read for good."""
        seen = self._seen
        assert seen is not None  # noqa: S101  `open` has made it
        seen.add([self._entry_of(self._closing.pop(name)) for name in closed])
        for name in closed:
            self._given.pop(name, None)

    def _entry_of(self, found: Found) -> tuple[int, int]:
        return hashed(found.path), identity(found.size, found.modified)

    def _look(self) -> None:
        """List the files, and sort out which are new, changed, removed or still being written."""
        every = self._listing.look()
        seen = self._seen
        assert seen is not None  # noqa: S101  `open` has made it
        known = seen.find([found.path for found in every])
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
        settings = self._settings
        if settings.until is not None or not found.modified:
            return True
        whole = settings.entries[found.entry].startswith(("s3", "gs", "gcs", "abfs"))
        age = now - found.modified / 1e9
        return whole or age >= settings.settle or age < -settings.settle

    def _left_out(self, new: list[Found], every: Sequence[Found]) -> list[Found]:
        """The files that a fresh run reads, by `begin`; the others count as read, settled or not."""
        begin = self._settings.begin
        if begin == "earliest":
            return new
        least = begin.timestamp() * 1e9 if isinstance(begin, datetime) else float("inf")
        self._skipped = [found for found in every if found.modified < least]
        assert self._seen is not None  # noqa: S101  `open` has made it
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
        for name in changed[:_MOST_WARNINGS]:
            remedy = "write a new file, or give a longer `settle`"
            self._context.warn(
                f"file `{name}` was changed after it was read, and is not read again; {remedy}"
            )
        if len(changed) > _MOST_WARNINGS:
            more = len(changed) - _MOST_WARNINGS
            self._context.warn(f"{more} more files were changed after they were read, and are not read again")
        self._warned.update(changed)
        if not every and not self._said_nothing:
            self._said_nothing = True
            names = ", ".join(f"`{entry}`" for entry in self._settings.entries)
            self._context.warn(f"there is no file in {names} yet")
