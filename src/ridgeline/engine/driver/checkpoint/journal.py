"""The journal: one record for each commit, in numbered files of the checkpoint's folder `journal`.

On a local disk a file takes many records: each is appended and synced. Elsewhere each record is a file of its
own, created on the condition that there is none. Files are numbered from 1.

Every driver begins with a new file before it does anything else. Its first record is a seal: it repeats the
last window and says where the record before it ends. What another driver writes beyond that, when it owns
the folder no longer, does not count. A file's first record is written atomically. A later one can be torn, by
a power cut before it was synced: it is cut.
"""

from __future__ import annotations

import contextlib
import re
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ridgeline.api.errors import CheckpointError
from ridgeline.engine.driver.checkpoint import journal_record
from ridgeline.engine.driver.checkpoint.journal_record import (
    JournalRecord,
    Place,
    difference,
    patched,
)
from ridgeline.engine.driver.checkpoint.manifest import Manifest
from ridgeline.engine.files.storage import AppendedFile, DriverStorage, LocalStorage
from ridgeline.engine.state import state_files

FOLDER = state_files.JOURNAL
SEGMENT_BYTES = 1 << 20
"""A file that is appended to is full at this size, or at `PICTURES` times that of its first record."""
PICTURES = 8
PICTURE_RECORDS = 8
"""Where each record is a file, every so many begin with a whole picture."""
_NAME = re.compile(r"\d{8}")
_RESTORE = "restore the whole checkpoint folder from one copy, or give another `--checkpoint`"

# How far the journal has been synced, noted beside it: shows when the journal is lost, cut or an older copy.
#
# The note may be older than the journal, never newer. On a local disk the file `last` is written after each
# sync, and not synced itself. Elsewhere a file that is named by its window is created now and then.

MARKERS = "committed"
"""The folder of the notes."""
_MARKER = f"{MARKERS}/last"
_NOTE = re.compile(rb"(\d{8} \d{12} \d{12}) ([0-9a-f]{8})\n")


@dataclass(frozen=True, slots=True)
class SyncMarker:
    """So far the journal reached at least: the last synced record's segment, end and window."""

    segment: int
    end: int
    window_id: int


NOTHING = SyncMarker(0, 0, -1)


def find_sync_marker(storage: DriverStorage, run_id: str) -> SyncMarker:
    """The notes; `NOTHING` without one, or if it is damaged or another run's. Raises OSError."""
    window_id = max(map(int, filter(str.isdecimal, storage.names(MARKERS))), default=-1)
    with contextlib.suppress(FileNotFoundError):
        found = _NOTE.fullmatch(storage.read(_MARKER))
        if found and int(found[2], 16) == _checksum(run_id, found[1]):
            segment, end, noted = map(int, found[1].split())
            return SyncMarker(segment, end, max(window_id, noted))
    return replace(NOTHING, window_id=window_id)


def create_sync_marker(storage: DriverStorage, window_id: int) -> None:
    """Note a committed window by a file of its own, and remove those before. Raises OSError."""
    storage.create(f"{MARKERS}/{window_id:012d}", b"")
    before = [name for name in storage.names(MARKERS) if name.isdecimal() and int(name) < window_id]
    storage.delete(f"{MARKERS}/{name}" for name in before)


def _checksum(run_id: str, text: bytes) -> int:
    return zlib.crc32(text, zlib.crc32(run_id.encode()))


# The windows ------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Committed:
    """A committed window.

    `base`: the number of the file whose picture it is read from. `added`: state files that this driver's
    windows before it did not name.
    """

    manifest: Manifest
    base: int
    added: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class _Chapter:
    """The records from a picture to a place, which may span files that hold one record each.

    `before`: where the record before the picture ends, None if there was none.
    """

    base: int
    records: list[JournalRecord]
    before: Place | None

    def pictures(self) -> Iterator[tuple[dict[str, Any] | None, int]]:
        """The durable state after each record, and the epoch of a seal (0: a window's); oldest first."""
        picture: dict[str, Any] | None = None
        for record in self.records:
            content = record.content
            picture = content["picture"] if "picture" in content else patched(picture, content["change"])
            yield picture, content.get("seals", 0)


class Journal:
    """The journal of a checkpoint that this driver owns. Reading it is safe for several threads.

    `appends`: files are appended to, which needs a local disk and a lock. Raises CheckpointError if the
    journal is damaged, OSError.
    """

    def __init__(self, storage: DriverStorage, run_id: str, *, appends: bool) -> None:
        self._storage = storage
        self._run_id = run_id
        self._local = storage if appends and isinstance(storage, LocalStorage) else None
        self._file: AppendedFile | None = None
        self._note: AppendedFile | None = None
        """The note beside it. As long as it cannot be written there is none."""
        self._first_bytes = 0
        self._records = 0
        self._picture: dict[str, Any] | None = None
        self._base = 0
        self.last: Manifest | None = None
        """The last committed window, None before the first."""
        self.epoch = 0
        """The greatest epoch of a driver that has written a record."""
        self.marker = find_sync_marker(storage, run_id)
        self._place = self._opened = self._read_last()

    @property
    def appends(self) -> bool:
        """Whether files are appended to, so that records without a reader may follow the last one."""
        return self._local is not None

    def numbers(self) -> list[int]:
        """The numbers of the files that there are, in order. Raises OSError."""
        return [int(name) for name in self._storage.names(FOLDER) if _NAME.fullmatch(name)]

    # Reading ------------------------------------------------------------------------------------------------

    def _read_last(self) -> Place | None:
        """Find the last committed window; its place, None before the first."""
        numbers = self.numbers()
        if not numbers:
            return None
        try:
            chapter = self._chapter(numbers[-1], None)
        except (CheckpointError, FileNotFoundError):
            if self.numbers() == numbers:
                raise
            return self._read_last()  # a driver that still lives has gone on, and removed old files
        for picture, seals in chapter.pictures():
            self._picture = picture
            self.epoch = max(self.epoch, seals)
        if self._picture is not None:
            self.last = Manifest.of(self._picture)
            self.epoch = max(self.epoch, self.last.epoch)
        return chapter.records[-1].end

    def pictures(self) -> Iterator[Committed]:
        """The windows that were committed when this driver opened the folder, newest first.

        Ends where files are missing or damaged.
        """
        end = self._opened
        with contextlib.suppress(CheckpointError, FileNotFoundError):
            while end is not None:
                chapter = self._chapter(end.segment, end)
                for picture, seals in reversed(list(chapter.pictures())):
                    if picture is not None and not seals:
                        yield Committed(Manifest.of(picture), chapter.base)
                end = chapter.before

    def _chapter(self, number: int, end: Place | None) -> _Chapter:
        """The records from the last picture on. `end`: where the next file says that they end."""
        records: list[JournalRecord] = []
        while True:
            found = self._records_of(number, end)
            records = found + records
            after = found[0].content["after"]
            before = None if after is None else Place(*after)
            if "picture" in found[0].content:
                return _Chapter(number, records, before)
            if before is None or before.segment >= number:
                raise self._corrupt(number, "it begins with a change of nothing")
            number, end = before.segment, before

    def _records_of(self, number: int, end: Place | None) -> list[JournalRecord]:
        """The records of a file up to `end`; of the newest file (None) those that are whole."""
        name = state_files.segment_file(number)
        try:
            data = self._storage.read(name)
        except FileNotFoundError:
            if end is None:
                raise
            found = f"`{self._where(number)}` is missing, but later files of the journal are there"
            raise CheckpointError(f"{found}; {_RESTORE}") from None
        marker = self.marker
        synced = marker.end if marker.segment == number else 0
        if end is not None:
            data, synced = data[: end.offset], end.offset
        records = list(journal_record.decode(self._run_id, number, data, self._where(number), synced))
        if end is not None and records[-1].end != end:
            raise self._corrupt(number, "it is not the file that the next one follows")
        return records

    def _where(self, number: int) -> str:
        return f"{self._storage.uri}/{state_files.segment_file(number)}"

    def _corrupt(self, number: int, found: str) -> CheckpointError:
        return CheckpointError(f"`{self._where(number)}` is corrupt: {found}; {_RESTORE}")

    # Writing ------------------------------------------------------------------------------------------------

    def seal(self, epoch: int) -> bool:
        """Begin a file before anything else, as the driver of this epoch. Raises OSError.

        False if the journal has gone on since it was read: nothing that was read counts then.
        """
        self._write_again()
        last = self._place
        place = Place(last.segment + 1 if last else 1)
        content = {"picture": self._picture, "seals": epoch, "after": _after(last)}
        record, end = journal_record.encode(self._run_id, place, b"", content)
        if not self._begin(place.segment, record, settles=False):
            return False
        self._place, self._base, self._records = end, place.segment, 1
        self.note()
        return True

    def _write_again(self) -> None:
        """Write the records that may not be on the disk, though they can be read.

        The driver before may have died before its last sync. If that failed, Linux takes the pages for
        written.
        """
        if self._local is None or self._place is None:
            return
        end, marker = self._place, self.marker
        begin = marker.end if marker.segment == end.segment else 0
        name = state_files.segment_file(end.segment)
        with contextlib.suppress(FileNotFoundError), contextlib.closing(self._local.appended(name)) as file:
            file.append(self._storage.read_range(name, begin, end.offset - begin), begin)

    def append(
        self, manifest: Manifest, changes: Mapping[str, bytes]
    ) -> tuple[Committed, Mapping[str, str]] | None:
        """Write and sync the record of a window, with small changes of state by their logical names.

        Returns the window as committed, with the names that the changes have now, and these by logical name.
        None if another driver has written a record in its place. Raises OSError: what is on the disk then is
        unknown, the next record begins a new file.
        """
        last = self._place
        assert last is not None  # noqa: S101  the journal was sealed
        begins = self._file is None or self._is_full()
        place = Place(last.segment + 1) if begins else last
        names, offset = {}, journal_record.data_offset(place)
        for name, data in changes.items():
            names[name] = state_files.slice_name(name, place.segment, offset, len(data))
            offset += len(data)
        before = self._picture or {"states": {}}
        change = difference(before, manifest.picture()) or {}
        added = _named(change, names)
        picture = patched(before, change)
        # Where files cannot be appended to each record is a file, and a picture in each would be too much.
        whole = self._picture is None or (begins and (self.appends or self._records >= PICTURE_RECORDS))
        content: dict[str, Any] = {"picture": picture} if whole else {"change": change}
        if begins:
            content["after"] = _after(last)
        record, end = journal_record.encode(self._run_id, place, b"".join(changes.values()), content)
        if begins:
            if not self._begin(place.segment, record, settles=bool(added)):
                return None
        else:
            self._extend(place, record, settles=bool(added))
        self._place = end
        self._base = place.segment if whole else self._base
        self._records = 1 if whole else self._records + 1
        self.last = Manifest.of(picture)
        self._picture = {**picture, "states": self.last.states}  # so that the next one finds the same objects
        return Committed(self.last, self._base, added), names

    def note(self) -> None:
        """Note beside the journal how far it goes: the last record counts. Takes some microseconds."""
        if self._local is None or self._place is None or self.last is None:
            return
        text = f"{self._place.segment:08d} {self._place.offset:012d} {self.last.window_id:012d}".encode()
        with contextlib.suppress(OSError):
            if self._note is None:
                self._local.create(_MARKER, b"")
                self._note = self._local.appended(_MARKER)
            self._note.write(b"%b %08x\n" % (text, _checksum(self._run_id, text)), 0)

    def _is_full(self) -> bool:
        return self._place is not None and self._place.offset >= max(
            SEGMENT_BYTES, PICTURES * self._first_bytes
        )

    def _begin(self, number: int, record: bytes, *, settles: bool) -> bool:
        """Write the first record of a file; False if another driver has written that file."""
        self._close_file()
        name = state_files.segment_file(number)
        if not create(self._storage, name, record, settled=state_files.FOLDER if settles else ""):
            return False
        self._first_bytes = len(record)
        if self._local is not None:
            self._file = self._local.appended(name)
        return True

    def _extend(self, place: Place, record: bytes, *, settles: bool) -> None:
        """Append a record. The files that it names have to survive a power cut before it does."""
        assert self._local is not None  # noqa: S101  else each record begins a file
        assert self._file is not None  # noqa: S101
        try:
            if settles:
                self._local.settle_folder(state_files.FOLDER)
            self._file.append(record, place.offset)
        except BaseException:
            self._close_file()
            raise

    def _close_file(self) -> None:
        if self._file is not None:
            self._file.cut()
            self._file.close()
            self._file = None

    def close(self) -> None:
        """Close its files."""
        self._close_file()
        if self._note is not None:
            self._note.close()
            self._note = None


def create(storage: DriverStorage, name: str, data: bytes, *, settled: str = "") -> bool:
    """Create a file, as the storage's `create`.

    Also true if the file holds `data` already: a first try got no answer, and the storage repeated it.
    """
    if storage.create(name, data, settled=settled):
        return True
    with contextlib.suppress(FileNotFoundError):
        return storage.read(name) == data
    return False


def _after(last: Place | None) -> list[int] | None:
    """In the first record of a file: where the one before it ends."""
    return None if last is None else [last.segment, last.offset, last.checksum]


def _named(change: Mapping[str, Any], names: Mapping[str, str]) -> list[str]:
    """Give small changes of state their committed `names` in a difference.

    Returns the state files that it names beside them.
    """
    states = change.get("change", {}).get("states", {})
    changed = states.get("set", {})
    for key, version in changed.items():
        changed[key] = tuple(names.get(name, name) for name in version)
    for inner in states.get("change", {}).values():
        inner["put"] = tuple(names.get(name, name) for name in inner["put"])
    versions = [*changed.values(), *(inner["put"] for inner in states.get("change", {}).values())]
    return [name for version in versions for name in version if state_files.slice_place(name) is None]
