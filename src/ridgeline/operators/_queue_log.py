"""The log of a durable queue: an entry for each committed window of the writer.

| file | what is in it |
|---|---|
| `log/<number>.entry` | one entry |
| `log/<number>-<end>.jsonl` | a bundle: the entries from this number to, and without, `end`, a line each |

Bundles take the place of entries. Files are written as a whole, and never changed. A reader knows the number
of the next entry, and asks for its file. It lists the log only where there is none. All drivers of a run
write the same entry under a number, since the commit has it. So one that was replaced, and does not know,
does no harm.

On a disk entries are not synced, only bundles: a sync writes the last bundle anew, longer by what has come
since. The state of the writer has all entries that a power cut may take.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from ridgeline.api.errors import RidgelineError
from ridgeline.api.support.files import sync_folder
from ridgeline.api.times import Mark
from ridgeline.operators._queue_files import BUNDLE, ENTRY, LOG_FILE, Entry, LostError, QueueFolder

BUNDLE_ENTRIES = 256
"""A bundle has at most so many entries: what is dropped is dropped by the bundle."""
_TRIES = 10
_LISTS_EACH = 64
"""Where nothing comes, the log is listed at the first look, the second, the fourth, and then so seldom."""


class LogReader:
    """Reads the entries of a log in order, as they are written."""

    def __init__(self, folder: QueueFolder, number: int) -> None:
        """`number`: of the first entry to read."""
        self.next = number
        self.file = ""
        """The one from which the last entries were read, by its name in the queue's folder."""
        self._folder = folder
        self._ahead: list[Entry] = []
        """The next entries, which were read already."""
        self._looks = 0
        """How often there was nothing."""

    def read(self, limit: int = BUNDLE_ENTRIES) -> list[Entry]:
        """The next entries that are there, of one file, at most so many; none if the next one is not there.

        Raises LostError if it was dropped, RidgelineError for a damaged file, OSError.
        """
        if not self._ahead:
            self._look()
        found, self._ahead = self._ahead[:limit], self._ahead[limit:]
        self.next += len(found)
        return found

    def hurry(self) -> None:
        """There is something new: the next look lists the log, if it has to."""
        self._looks = 0

    def _look(self) -> None:
        """Read the next entry, alone or with others, if it is there. Raises as `read`."""
        name = _entry_name(self.next)
        data = self._folder.get(name)
        if _is_whole(data):
            self._take(name, [_entry(self._folder, name, data, self.next)])
            return
        self._looks += 1
        if self._looks & (self._looks - 1) and self._looks % _LISTS_EACH:
            return
        for _ in range(_TRIES):
            if (bundle := _holding(_bundles(self._folder.names("log")), self.next)) is None:
                self._refuse_lost()
                return
            data = self._folder.get(bundle.name)
            if data is not None:  # else a longer one has taken its place meanwhile
                self._take(bundle.name, _entries(self._folder, bundle, data, self.next))
                return

    def _take(self, name: str, entries: list[Entry]) -> None:
        self._ahead, self._looks, self.file = entries, 0, name

    def _refuse_lost(self) -> None:
        """Raise LostError if the next entry was dropped.

        Looks twice: while a bundle takes the place of entries, one listing may have neither.
        """
        oldest = min(self._folder.logs(), default=self.next)
        if oldest > self.next and (oldest := min(self._folder.logs(), default=self.next)) > self.next:
            raise LostError(self._folder.path, self.next, oldest)


class LogWriter:
    """Appends entries to a log. One process at a time."""

    def __init__(self, folder: QueueFolder, unsynced: int | None = None) -> None:
        """Read what is there. Raises OSError, RidgelineError.

        `unsynced`: the first entry that may be gone or broken, since a power cut may have come before it was
        synced. What cannot be read from there on is removed. None: all is as it was written.
        """
        self._folder = folder
        self.files: dict[int, LogFile] = {}
        """All bundles, and the entries after them, by the number of their first entry, ascending."""
        self.next = 0
        self.total = 0
        self.marks: tuple[Mark, ...] = ()
        """As of the last entry."""
        self._newest: dict[int, str] = {}
        """The last segment of each partition that an entry names: its writer may still append to it."""
        self._tail: list[bytes] = []
        """The lines of the last of `files`, which the next bundle has."""
        self._bundled = 0
        """So many of them are in a bundle."""
        self._unwritten: list[int] = []
        """The entries that may not be there yet, since writing them has failed."""
        self._read(unsynced)

    def _read(self, unsynced: int | None) -> None:
        """Read bundles, then the entries after them. Called by the constructor."""
        folder, names = self._folder, self._folder.names("log")
        found = [one for one in map(LOG_FILE.fullmatch, names) if one is not None]
        self.next = min((int(one[1]) for one in found), default=0)
        singles = [int(one[1]) for one in found if not one[2]]
        if unsynced is not None and singles:  # a power cut may have taken those before
            self.next = min(self.next, unsynced)
        used = self._read_bundles(_bundles(names))
        singles = [number for number in singles if number >= self.next]
        for number, line in zip(singles, folder.each(folder.get, map(_entry_name, singles)), strict=True):
            try:
                entry = _entry(
                    folder, _entry_name(self.next), line if number == self.next else None, self.next
                )
            except RidgelineError:
                is_unsynced = unsynced is not None and self.next >= unsynced
                if is_unsynced or (folder.is_remote and not (number == self.next and _is_whole(line))):
                    break
                raise
            self._add(entry)
        used.update(_entry_name(number) for number in range(self.next - len(self._tail), self.next))
        strays = [one[0] for one in found] + [name for name in names if name.endswith(".tmp")]
        folder.remove({f"log/{name}" for name in strays} - used)

    def _read_bundles(self, bundles: Sequence[Bundle]) -> set[str]:
        """Read one bundle after the other; longer ones have replaced others. Returns their names."""
        chain, end = list[Bundle](), self.next
        while (bundle := _holding(bundles, end)) is not None:
            chain.append(bundle)
            end = bundle.end
        names = [bundle.name for bundle in chain]
        for bundle, data in zip(chain, self._folder.each(self._folder.get, names), strict=True):
            self.files[self.next] = LogFile(self.next, bundle.name)
            for entry in _entries(self._folder, bundle, data, self.next):
                self._note(entry)
        return set(names)

    def _add(self, entry: Entry) -> None:
        """There is one more entry after the last bundle."""
        if not self._tail:
            self.files[self.next] = LogFile(self.next)
        self._note(entry)
        self._tail.append(entry.line)

    def _note(self, entry: Entry) -> None:
        """There is one more entry."""
        self.files[max(self.files)].add(entry)
        self.next, self.total, self.marks = entry.number + 1, entry.total, entry.marks
        self._newest.update((part.partition, part.segment) for part in entry.parts)

    def append(self, entries: Sequence[Entry], roll_bytes: int, roll_seconds: float) -> None:
        """Write entries that are not there yet, on a disk without a sync.

        A bundle ends once it has `BUNDLE_ENTRIES` entries, or its rows so many bytes, or spans so much time.
        Raises OSError; it may be called again then.
        """
        self._write_rest()
        for entry in entries:
            if entry.number < self.next:  # it is there
                continue
            if entry.number > self.next:
                raise AssertionError(f"entry {entry.number} cannot follow entry {self.next - 1}")
            if self._tail and self.files[max(self.files)].is_full(entry, roll_bytes, roll_seconds):
                self._write_rest()
                self._bundle()
                self._tail, self._bundled = [], 0
            self._add(entry)
            self._unwritten.append(entry.number)
        self._write_rest()

    def _write_rest(self) -> None:
        """Write the entries that are not there yet; again, if that has failed."""
        if unwritten := self._unwritten:
            self._folder.create(list(map(_entry_name, unwritten)), self._tail[-len(unwritten) :])
            self._unwritten = []

    def _bundle(self) -> None:
        """Put the last entries into their bundle, which outlives a power cut."""
        if self._bundled < len(self._tail):
            file = self.files[max(self.files)]
            bundle = Bundle(file.first, self.next)
            self._folder.create([bundle.name], [b"".join(self._tail)], sync=True)
            replaced = [file.bundle] if file.bundle else []
            singles = map(_entry_name, range(file.first + self._bundled, self.next))
            self._folder.remove_later([*replaced, *singles])
            file.bundle, self._bundled = bundle.name, len(self._tail)

    def sync(self) -> None:
        """Let all that was appended outlive a power cut. Raises OSError; it may be called again then."""
        if not self._folder.is_remote:
            self._bundle()

    @property
    def size(self) -> int:
        """The bytes of all rows."""
        return sum(one.size for one in self.files.values())

    def drop(self, first: int) -> None:
        """Remove a bundle, the oldest one, and the segments that no other names. Raises OSError.

        Not those to which a partition may still append: they stay until it has another one. After an error it
        may be called again.
        """
        if not self._folder.is_remote:
            sync_folder(str(self._folder.log))  # raises if a mount is gone: nothing is passed over then
        end = self.files[first].next
        found = filter(None, map(LOG_FILE.fullmatch, self._folder.names("log")))
        before = {f"log/{one[0]}" for one in found if int(one[1]) < end}  # also what an error has left
        self._folder.remove(before - {one.bundle for number, one in self.files.items() if number != first})
        dropped = self.files.pop(first).segments
        removed = dropped.difference(self.segments, self._newest.values())
        oldest = next(iter(self.files.values()))
        oldest.segments |= dropped  # those that stay, and those that an error leaves, go with it
        self._folder.remove_later(f"segments/{name}" for name in removed)
        oldest.segments -= removed

    @property
    def segments(self) -> set[str]:
        """All segments that an entry names."""
        return set().union(*(one.segments for one in self.files.values()))


class LogFile:
    """Summary of one bundle of the log. `bundle`: its name, once it was written."""

    def __init__(self, first: int, bundle: str = "") -> None:
        self.bundle = bundle
        self.first = first
        self.next = first
        self.size = 0
        self.began = self.ended = 0.0
        self.segments: set[str] = set()

    def add(self, entry: Entry) -> None:
        """It has one more entry."""
        if self.next == self.first:
            self.began = entry.time
        self.next, self.ended = entry.number + 1, entry.time
        self.size += entry.size
        self.segments.update(part.segment for part in entry.parts)

    def is_full(self, entry: Entry, size: int, seconds: float) -> bool:
        """Whether another bundle begins with this entry."""
        is_long = self.next - self.first >= BUNDLE_ENTRIES
        return is_long or self.size >= size or entry.time - self.began >= seconds


def _entry_name(number: int) -> str:
    return f"log/{number:012d}{ENTRY}"


class Bundle(NamedTuple):
    """The entries from number `first` up to, and without, `end`, in one file."""

    first: int
    end: int

    @property
    def name(self) -> str:
        """Of its file."""
        return f"log/{self.first:012d}-{self.end:012d}{BUNDLE}"


def _bundles(names: Iterable[str]) -> list[Bundle]:
    """Those among the files of a log."""
    return [Bundle(int(one[1]), int(one[2])) for one in map(LOG_FILE.fullmatch, names) if one and one[2]]


def _holding(bundles: Iterable[Bundle], number: int) -> Bundle | None:
    """The bundle with this entry that has the most after it; None if there is none."""
    holding = [bundle for bundle in bundles if bundle.first <= number < bundle.end]
    return max(holding, key=lambda bundle: bundle.end, default=None)


def _is_whole(data: bytes | None) -> bool:
    """Whether a file was written to its end: on HDFS one may see half of it, after a power cut zeros."""
    return data is not None and data.endswith(b"\n")


def _entries(folder: QueueFolder, bundle: Bundle, data: bytes | None, number: int) -> list[Entry]:
    """Those of a bundle from this number on; none if it is gone. Raises RidgelineError if it is damaged."""
    if data is None:
        return []
    lines = dict(enumerate(data.split(b"\n")[:-1], bundle.first))
    return [_entry(folder, bundle.name, lines.get(place), place) for place in range(number, bundle.end)]


def _entry(folder: QueueFolder, name: str, line: bytes | None, number: int) -> Entry:
    """The entry with this number, from its line. Raises RidgelineError if that is another one, or none."""
    try:
        entry = Entry.of_line(line or b"")
    except (TypeError, ValueError, RecursionError) as error:
        what = f"line of entry {number} is no entry ({error})" if line is not None else "it is missing"
    else:
        if entry.number == number:
            return entry
        what = f"entry {entry.number} stands where entry {number} should"
    raise RidgelineError(
        f"`{folder.name(name)}` is damaged: {what}; after a power cut start the application that writes to "
        "the queue first, which fixes that; else restore the queue's folder from a copy"
    )
