"""How far the journal has been synced, noted beside it: shows when the journal is lost, cut or an older copy.

The note may be older than the journal, never newer. On a local disk the file `last` is written after each
sync, and not synced itself. Elsewhere a file that is named by its window is created now and then.
"""

from __future__ import annotations

import contextlib
import re
import zlib
from dataclasses import dataclass, replace

from ridgeline.engine.files.storage import AppendedFile, DriverStorage, LocalStorage

FOLDER = "committed"
_NAME = f"{FOLDER}/last"
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
    window_id = max(map(int, filter(str.isdecimal, storage.names(FOLDER))), default=-1)
    with contextlib.suppress(FileNotFoundError):
        found = _NOTE.fullmatch(storage.read(_NAME))
        if found and int(found[2], 16) == _checksum(run_id, found[1]):
            segment, end, noted = map(int, found[1].split())
            return SyncMarker(segment, end, max(window_id, noted))
    return replace(NOTHING, window_id=window_id)


def create_sync_marker(storage: DriverStorage, window_id: int) -> None:
    """Note a committed window by a file of its own, and remove those before. Raises OSError."""
    storage.create(f"{FOLDER}/{window_id:012d}", b"")
    before = [name for name in storage.names(FOLDER) if name.isdecimal() and int(name) < window_id]
    storage.delete(f"{FOLDER}/{name}" for name in before)


class MarkerFile:
    """The note of the driver that runs. As long as it cannot be written there is none."""

    def __init__(self, storage: LocalStorage, run_id: str) -> None:
        self._storage = storage
        self._run_id = run_id
        self._file: AppendedFile | None = None

    def note(self, marker: SyncMarker) -> None:
        """Overwrite the note; takes some microseconds."""
        text = f"{marker.segment:08d} {marker.end:012d} {marker.window_id:012d}".encode()
        with contextlib.suppress(OSError):
            if self._file is None:
                self._storage.create(_NAME, b"")
                self._file = self._storage.appended(_NAME)
            self._file.write(b"%b %08x\n" % (text, _checksum(self._run_id, text)), 0)

    def close(self) -> None:
        """Close it."""
        if self._file is not None:
            self._file.close()
            self._file = None


def _checksum(run_id: str, text: bytes) -> int:
    return zlib.crc32(text, zlib.crc32(run_id.encode()))
