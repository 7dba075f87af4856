"""State files: what the operators of one container changed in one window, written by one attempt; never changed once written."""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from typing import Any

from ridgeline.api.errors import StateError
from ridgeline.api.pickling import dumps, loads
from ridgeline.api.state import Change
from ridgeline.engine.storage import Storage

FOLDER = "state"
_MAGIC = b"RLST1\n"
CellChanges = Mapping[str, Change]
"""Changes of an operator's cells, by the name of the state."""


def file_name(window_id: int, container: int, epoch: int, attempt: int, tag: str) -> str:
    """The name of the state file of one attempt at a container's window; begins with the window."""
    return f"{window_id:012d}-c{container}-e{epoch}-r{attempt}-{tag}"


def window_of(name: str) -> int:
    """The window that a state file belongs to."""
    return int(name[:12])


def write(storage: Storage, name: str, sections: Mapping[int, CellChanges]) -> int:
    """Write the changes of several operators (by physical id) as one file; returns its size in bytes. Raises OSError."""
    payload = dumps({operator: dict(changes) for operator, changes in sections.items()})
    data = _MAGIC + zlib.crc32(payload).to_bytes(4, "little") + payload
    storage.write(f"{FOLDER}/{name}", data)
    return len(data)


def read(storage: Storage, name: str) -> dict[int, dict[str, Change]]:
    """The changes in a state file, by operator. Raises StateError naming the file if it is missing or corrupt."""
    try:
        data = storage.read(f"{FOLDER}/{name}")
    except FileNotFoundError as error:
        msg = f"state file `{storage.uri}/{FOLDER}/{name}` is missing; the checkpoint needs it; put it back from a copy"
        raise StateError(msg) from error
    header = len(_MAGIC)
    payload = memoryview(data)[header + 4 :]
    if len(data) < header + 4 or data[:header] != _MAGIC or zlib.crc32(payload) != int.from_bytes(data[header : header + 4], "little"):
        msg = f"state file `{storage.uri}/{FOLDER}/{name}` is corrupt ({len(data)} bytes, checksum differs); restore it from a copy"
        raise StateError(msg)
    try:
        content: Any = loads(payload)
    except Exception as error:
        what = f"{type(error).__name__}: {error}"
        msg = f"state file `{storage.uri}/{FOLDER}/{name}` cannot be read: {what}; run it with the code that wrote it"
        raise StateError(msg) from error
    return content
