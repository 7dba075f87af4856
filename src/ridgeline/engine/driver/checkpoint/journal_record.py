"""Records of the journal as bytes. Pure: bytes in, records out.

A record: a head (magic with the format's number, the sizes of data and text, two checksums), data, text. Data
are the small changes of state; text is JSON, with what the record says about the application:

- `{"picture": {...}, "after": ...}`: everything; `{"change": {...}, "after": ...}`: what differs from the
  record before (see `differences`)
- `after`: in the first record of a file, where the record before it ends; null if there was none

The checksum of the head covers the run's id, the file's number, the place in it, and the head. That of the
content covers the head's, that of the record before in the file, and the content. So a record that was copied
from another place, run or history is as wrong as one with a flipped bit.
"""

from __future__ import annotations

import json
import struct
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import compress, count
from operator import is_not
from typing import Any, NamedTuple

from ridgeline.api.errors import CheckpointError

FORMAT = 7
_HEAD = struct.Struct("<4sIIII")
_MAGIC = b"RLJ"
_SECTOR = 512
"""Disks write whole sectors: one that was not written before a power cut reads as zeros."""
_MOST = (1 << 32) - 1


@dataclass(frozen=True, slots=True)
class Place:
    """The end of the journal: the next record goes there.

    `checksum`: that of the last record in the file, 0 before the first.
    """

    segment: int
    offset: int = 0
    checksum: int = 0


@dataclass(frozen=True, slots=True)
class JournalRecord:
    """A record as it was found. `content`: its JSON. `end`: the place after it."""

    content: Any
    end: Place


def data_offset(place: Place) -> int:
    """Where the data of a record begin that goes to `place`."""
    return place.offset + _HEAD.size


def encode(run_id: str, place: Place, data: bytes, content: object) -> tuple[bytes, Place]:
    """The bytes of a record that goes to `place`, and the place after it.

    Raises CheckpointError if it has 4 GiB or more.
    """
    text = json.dumps(content, separators=(",", ":")).encode()
    if max(len(data), len(text)) > _MOST:
        msg = (
            f"a window's record has {len(data)} bytes of state and {len(text)} bytes of JSON, at most {_MOST}"
        )
        msg += " fit; make what publishers keep smaller"
        raise CheckpointError(msg)
    begin = _MAGIC + str(FORMAT).encode() + struct.pack("<II", len(data), len(text))
    head = _head_checksum(run_id, place, begin)
    whole = _content_checksum(head, place, data, text)
    record = b"".join((begin, struct.pack("<II", head, whole), data, text))
    return record, Place(place.segment, place.offset + len(record), whole)


def decode(run_id: str, segment: int, data: bytes, where: str, synced: int = 0) -> Iterator[JournalRecord]:
    """The records of one file, in order. A torn end is cut: what was being written when the power failed.

    `where` names the file in errors. `synced`: so many bytes were written and synced, so they are not torn;
    the first record never is.

    Raises CheckpointError naming file and place if a record is damaged, misplaced, of another run or of
    another format.
    """
    place, view = Place(segment), memoryview(data)
    while place.offset < len(data):
        record = _decode(run_id, place, view)
        if record is None:
            head = _head(run_id, place, view)
            if head is not None and head.format != str(FORMAT):
                remedy = f"this version reads {FORMAT}; run it with the version that wrote it"
                raise CheckpointError(f"`{where}` has format {head.format} at byte {place.offset}; {remedy}")
            if _is_torn(run_id, place, view):
                break
            raise _corrupt(where, place, "a record is damaged, or a copy from another place")
        yield record
        place = record.end
    if place.offset < max(synced, 1):
        raise _corrupt(where, place, "what follows was written and synced, but is gone or damaged")


def _decode(run_id: str, place: Place, view: memoryview) -> JournalRecord | None:
    """The record at a place, None if there is no whole one."""
    head = _head(run_id, place, view)
    if head is None or head.format != str(FORMAT):
        return None
    begin = data_offset(place)
    middle, end = begin + head.data_bytes, begin + head.data_bytes + head.text_bytes
    data, text = view[begin:middle], view[middle:end]
    if end > len(view) or _content_checksum(head.checksum, place, data, text) != head.whole:
        return None
    return JournalRecord(json.loads(bytes(text)), Place(place.segment, end, head.whole))


class _Head(NamedTuple):
    """A head: the number of its format, both sizes and both checksums."""

    format: str
    data_bytes: int
    text_bytes: int
    checksum: int
    whole: int


def _head(run_id: str, place: Place, view: memoryview) -> _Head | None:
    """The head at a place, None if there is none. Those of other formats keep their checksum."""
    if place.offset + _HEAD.size > len(view):
        return None
    magic, data_bytes, text_bytes, checksum, whole = _HEAD.unpack_from(view, place.offset)
    begin = view[place.offset : place.offset + 12]
    if magic[:3] != _MAGIC or _head_checksum(run_id, place, begin) != checksum:
        return None
    return _Head(chr(magic[3]), data_bytes, text_bytes, checksum, whole)


def _is_torn(run_id: str, place: Place, view: memoryview) -> bool:
    """Whether what is no whole record can be one that was being written: it ends early, or sectors are zeros.

    It cannot be if a later record follows: a driver writes one only after it has synced the one before.
    """
    rest = bytes(view[place.offset :])
    found = rest.find(_MAGIC, 1)
    while found >= 0:
        if _head(run_id, Place(place.segment, place.offset + found), view) is not None:
            return False
        found = rest.find(_MAGIC, found + 1)
    head = _head(run_id, place, view)
    written = rest.rstrip(b"\0")  # the text of a record ends with a bracket
    if head is not None:
        length = _HEAD.size + head.data_bytes + head.text_bytes
        return len(written) < length or (len(written) == length and _has_unwritten(place.offset, written))
    if len(written) < _HEAD.size:
        magic = _MAGIC + str(FORMAT).encode()
        return written.startswith(magic) or magic.startswith(written)
    return _has_unwritten(place.offset, written)


def _has_unwritten(offset: int, rest: bytes) -> bool:
    """Whether what begins at `offset` of a file has a sector, or the last part of one, that is all zeros."""
    begin = 0
    while begin < len(rest):
        end = min(len(rest), begin + _SECTOR - (offset + begin) % _SECTOR)
        if not any(rest[begin:end]):
            return True
        begin = end
    return False


def _head_checksum(run_id: str, place: Place, begin: bytes | memoryview) -> int:
    return zlib.crc32(begin, zlib.crc32(f"{run_id}/{place.segment}/{place.offset}".encode()))


def _content_checksum(head: int, place: Place, data: bytes | memoryview, text: bytes | memoryview) -> int:
    seed = zlib.crc32(struct.pack("<II", head, place.checksum))
    return zlib.crc32(text, zlib.crc32(data, seed))


def _corrupt(where: str, place: Place, found: str) -> CheckpointError:
    remedy = "restore the whole checkpoint folder from one copy, or give another `--checkpoint`"
    return CheckpointError(f"`{where}` is corrupt at byte {place.offset}: {found}; {remedy}")


# Differences of JSON values: `patched(old, difference(old, new))` is `new`.
#
# Values are of JSON's types; a tuple is a list. A difference is JSON too: `{"is": value}`, for lists
# `{"keep": [first, last], "put": [...]}`, for objects `{"set": {...}, "change": {key: difference}, "drop":
# [...]}` with the parts that are needed.

_LISTS = (list, tuple)


def difference(old: Any, new: Any) -> dict[str, Any] | None:
    """The difference that turns `old` into `new`; None if they are the same JSON: 1, 1.0 and true are not.

    Values that are the same object are not looked into.
    """
    if isinstance(old, str) and isinstance(new, str):
        return None if old == new else {"is": new}
    if isinstance(old, dict) and isinstance(new, dict):
        pairs = ((key, old[key], value) for key, value in new.items() if key in old)
        changes = ((key, difference(was, is_)) for key, was, is_ in pairs if was is not is_)
        parts = {
            "set": {key: value for key, value in new.items() if key not in old},
            "change": {key: change for key, change in changes if change is not None},
            "drop": sorted(old.keys() - new.keys()),
        }
        return {name: part for name, part in parts.items() if part} or None
    if isinstance(old, _LISTS) and isinstance(new, _LISTS):
        first = common(old, new)
        if first == len(old) == len(new):
            return None
        last = min(common(old[::-1], new[::-1]), min(len(old), len(new)) - first)
        return {"keep": [first, last], "put": new[first : len(new) - last]}
    equal = repr(old) == repr(new) if isinstance(old, float) else old == new  # NaN is NaN, -0.0 is not 0.0
    return None if equal and type(old) is type(new) else {"is": new}


def patched(old: Any, change: Mapping[str, Any]) -> Any:
    """`old` as the difference `change` says; what did not change is shared with `old`.

    Raises LookupError or TypeError if it is no difference of `old`.
    """
    if "is" in change:
        return change["is"]
    if "put" in change:
        first, last = change["keep"]
        if first + last > len(old):
            raise IndexError(f"{first} and {last} of {len(old)} items")
        return [*old[:first], *change["put"], *old[len(old) - last :]]
    result = dict(old)
    for key in change.get("drop", ()):
        del result[key]
    result |= change.get("set", {})
    for key, inner in change.get("change", {}).items():
        result[key] = patched(result[key], inner)
    return result


def common(one: Sequence[Any], other: Sequence[Any]) -> int:
    """How many items two lists have in common from their beginning. Same objects cost next to nothing."""
    for number in compress(count(), map(is_not, one, other)):
        if difference(one[number], other[number]) is not None:
            return number
    return min(len(one), len(other))
