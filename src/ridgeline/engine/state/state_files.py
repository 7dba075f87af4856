"""State files: the changes of one container in one window, or their compaction; never changed once written.

A version of an operator's state is a tuple of names, in this order:
- segments: sorted entries of large keyed states (see `keyed_segments`)
- the snapshot, which lists the segments
- the deltas since, one per window in which something changed

A version that was never compacted has deltas only.

Names are logical. A small delta lies in the journal, within the record of its window. Since the commit its
name has a suffix that says where: `<name>.j<segment>.<offset>.<size>`. If that segment was removed, the
delta is a file of its logical name.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from ridgeline.api.cells.cell import Change
from ridgeline.api.errors import StateError, UntrustedError
from ridgeline.api.support.pickling import Classes, dumps, dumps_parts, loads
from ridgeline.api.support.sealed import checksum
from ridgeline.engine.files.storage import Storage
from ridgeline.plan.protocol import StateVersion

FOLDER = "state"
JOURNAL = "journal"
"""The folder of the journal's segments, in which small deltas lie."""
SMALL_BYTES = 1 << 15
"""Up to this size the changes of a container's window travel in its report, beyond it as a file."""
_MAGIC = b"RLST3\n"
_HEADER = len(_MAGIC) + 4
_MERGED = re.compile(r"-m\d+\.(\d+)\.\d+\.(?:snapshot|segment\d+)$")
_SLICE = re.compile(r"\.j(\d+)\.(\d+)\.(\d+)$")
_SUFFIX = re.compile(rf"(?:{_MERGED.pattern[:-1]}|{_SLICE.pattern[:-1]})$")
_NAME = re.compile(r"\d{12}-")
_EPOCH = re.compile(r"\d{12}-c\d+-e(\d+)-")
SEGMENT_SIZES = "sizes of runs"
"""In a snapshot: the section with the sizes in bytes of the operator's segments by name (each in a tuple)."""
_PLAIN = frozenset({int, float, str, bytes, bool, type(None)})
CellChanges = Mapping[str, Change]
"""Changes of an operator's cells, by the name of the state."""


# Names ------------------------------------------------------------------------------------------------------


def file_name(window_id: int, container: int, epoch: int, attempt: int, tag: str) -> str:
    """The name of the state file of one attempt at a container's window; begins with the window."""
    return f"{window_id:012d}-c{container}-e{epoch}-r{attempt}-{tag}"


def compacted_stem(version: StateVersion, operator: int, epoch: int, number: int) -> str:
    """The prefix of names of a compaction of `version`; `number` counts a driver's (`epoch`) compactions."""
    return f"{covered(version[-1])}-m{operator}.{epoch}.{number}."


def moved_stem(window_id: int, operator: int, epoch: int, number: int) -> str:
    """The prefix of names of a state that was moved to an operator; `number` counts a driver's moves."""
    return f"{window_id:012d}-c0-e{epoch}-r0-moved{number}-m{operator}.{epoch}.{number}."


def window_of(name: str) -> int:
    """The window that a state file belongs to; of a compacted one, the last window in it."""
    return int(name[:12])


def is_state(name: str) -> bool:
    """True for the name of a state file; false for any other file."""
    return _NAME.match(name) is not None


def is_segment(name: str) -> bool:
    """True for a segment."""
    return ".segment" in name


def is_compacted(name: str) -> bool:
    """True for a segment or a snapshot, false for a window's delta."""
    return _MERGED.search(name) is not None


def last_part(name: str) -> str:
    """The name of a state file from its whole name."""
    return name.rpartition("/")[2]


def belongs_to(name: str, operator: int) -> bool:
    """True for a compacted file of an operator."""
    return f"-m{operator}." in name


def compaction_epoch(name: str) -> int:
    """The epoch of the driver that had a compacted file written; -1 for a delta."""
    found = _MERGED.search(name)
    return int(found.group(1)) if found else -1


def epoch_of(name: str) -> int:
    """The epoch of the driver for which a state file was written, 0 if the name does not say."""
    if (merged := compaction_epoch(name)) >= 0:
        return merged
    found = _EPOCH.match(name)
    return int(found.group(1)) if found else 0


def covered(name: str) -> str:
    """The last delta that a compacted file covers, of a delta its logical name.

    Versions that end with the same are equal.
    """
    return _SUFFIX.sub("", name)


def slice_name(name: str, segment: int, offset: int, size: int) -> str:
    """The committed name of a small delta: where it lies in the journal."""
    return f"{name}.j{segment}.{offset}.{size}"


def slice_place(name: str) -> tuple[int, int, int] | None:
    """Segment, offset and size of a delta that lies in the journal; None for a file."""
    found = _SLICE.search(name)
    return (int(found.group(1)), int(found.group(2)), int(found.group(3))) if found else None


def file_of(name: str) -> str:
    """The file of a delta or a compaction, if it is not in the journal."""
    return _SLICE.sub("", name)


def segment_file(segment: int) -> str:
    """The name of a segment of the journal, from the checkpoint's folder."""
    return f"{JOURNAL}/{segment:08d}"


def segments_of(version: StateVersion) -> tuple[str, ...]:
    """The segments of a version."""
    return tuple(name for name in version if is_segment(name))


def base_of(version: StateVersion) -> StateVersion:
    """The compacted part of a version: segments and snapshot."""
    return tuple(name for name in version if is_compacted(name))


# Content ----------------------------------------------------------------------------------------------------


def encode(
    name: str, sections: Mapping[str, CellChanges], classes: dict[str, Classes] | None = None
) -> tuple[bytes, dict[str, int]]:
    """The changes of several operators (by state key) as the content of one file, and the size of each.

    `classes`: gets the classes of the values, by state key and name of the state.
    """
    parts = {
        operator: dumps(dict(changes))
        if classes is None or _plain(changes)
        else dumps_parts(changes, classes.setdefault(operator, {}))
        for operator, changes in sections.items()
    }
    payload = dumps(parts)
    data = _MAGIC + checksum(name, payload).to_bytes(4, "little") + payload
    return data, {operator: len(part) for operator, part in parts.items()}


def _plain(changes: CellChanges) -> bool:
    """True if all that has changed are single values of built-in types."""
    return all(len(change) == 1 and type(change[0]) in _PLAIN for change in changes.values())


def write(storage: Storage, name: str, data: bytes) -> None:
    """Write what `encode` made as a file. Raises OSError."""
    storage.write(f"{FOLDER}/{name}", data)


def read(storage: Storage, name: str, key: str, unpickled: Callable[[Any], Any] = loads) -> dict[str, Change]:
    """An operator's changes in a state file, empty if it has none there. `unpickled` reads its pickle.

    Raises StateError naming the file if it is missing or corrupt.
    """
    try:
        section = _sections(storage, name).get(key)
        changes: dict[str, Change] = {} if section is None else unpickled(section)
    except (StateError, UntrustedError):
        raise
    except Exception as error:
        what = f"{type(error).__name__}: {error}"
        unreadable = isinstance(error, OSError)
        remedy = "run it with the code that wrote it; what a state holds must come back from `pickle`"
        remedy = "see to the disk, then run again" if unreadable else remedy
        raise StateError(f"state file `{where(storage, name)}` cannot be read: {what}; {remedy}") from error
    return changes


def sizes(storage: Storage, name: str) -> dict[str, int]:
    """The sizes in bytes of the changes in a state file, by operator.

    Raises StateError naming the file if it is missing or corrupt.
    """
    return {operator: len(section) for operator, section in _sections(storage, name).items()}


def _sections(storage: Storage, name: str) -> dict[str, Any]:
    """Read and check the parts of a state file. Raises StateError if it is corrupt."""
    try:
        data = load(storage, name)
    except FileNotFoundError as error:
        raise missing(storage, name) from error
    payload = memoryview(data)[_HEADER:]
    if not _is_whole(name, data):
        what = "checksum differs: damaged, or a copy of another file"
        size = f"{len(data)} bytes, {what}"
        raise StateError(f"state file `{where(storage, name)}` is corrupt ({size}); restore it from a copy")
    sections: dict[str, Any] = loads(payload)
    return sections


def load(storage: Storage, name: str) -> bytes:
    """The bytes of a state file, from the journal if they lie there. Raises FileNotFoundError.

    Its place in the journal may be another driver's. One that was taken over before its first record can go
    on with numbers that are free again. What was there has a file of its own then.
    """
    place = slice_place(name)
    if place is None:
        return storage.read(f"{FOLDER}/{name}")
    segment, offset, size = place
    try:
        data = storage.read_range(segment_file(segment), offset, size)
    except FileNotFoundError:
        return storage.read(f"{FOLDER}/{file_of(name)}")
    if not _is_whole(name, data):
        with contextlib.suppress(FileNotFoundError):
            return storage.read(f"{FOLDER}/{file_of(name)}")
    return data


def write_apart(storage: Storage, name: str, write: Callable[[str, bytes], object]) -> int:
    """Write what lies in the journal as a file of its own, by `write`; returns its size. Raises OSError."""
    data = load(storage, name)
    write(f"{FOLDER}/{file_of(name)}", data)
    return len(data)


def _is_whole(name: str, data: bytes) -> bool:
    """Whether these are the bytes of the file."""
    sum_ = int.from_bytes(data[len(_MAGIC) : _HEADER], "little")
    whole = len(data) >= _HEADER and data[: len(_MAGIC)] == _MAGIC
    return whole and checksum(file_of(name), memoryview(data)[_HEADER:]) == sum_


def where(storage: Storage, name: str) -> str:
    """The whole name of a state file; of a delta in the journal, its segment and place."""
    if place := slice_place(name):
        segment, offset, size = place
        return f"{storage.uri}/{segment_file(segment)}, bytes {offset} to {offset + size}"
    return f"{storage.uri}/{FOLDER}/{name}"


def missing(storage: Storage, name: str) -> StateError:
    """The error for a state file that is not there."""
    return StateError(
        f"state file `{where(storage, name)}` is missing; the checkpoint needs it; put it back from a copy"
    )


def delete(storage: Storage, names: Iterable[str]) -> None:
    """Remove state files. Raises OSError."""
    storage.delete(f"{FOLDER}/{name}" for name in names)
