"""What workers need of the user's code: files in the checkpoint folder, named by their contents.

The name of a file has the epoch of the driver that wrote it, so no two drivers share one. A driver removes
those of drivers before it. A later one's it leaves alone: it may be displaced without knowing it.
"""

from __future__ import annotations

import hashlib
import re

from ridgeline.api.errors import UntrustedError
from ridgeline.engine.files.storage import DriverStorage, Storage

FOLDER = "plans"
_NAME = re.compile(r"(\d+)-")


def place_of(sha256: str, epoch: int) -> str:
    """The file with these contents of a driver, in the checkpoint folder."""
    return f"{FOLDER}/{epoch:08d}-{sha256}"


def ship(storage: DriverStorage, data: bytes, epoch: int) -> str:
    """Write a file; returns its digest. Raises OSError."""
    sha256 = hashlib.sha256(data).hexdigest()
    storage.create(place_of(sha256, epoch), data)
    return sha256


def read(storage: Storage, sha256: str, epoch: int) -> bytes:
    """Read what a driver has written. Raises OSError, UntrustedError if it is another thing."""
    place = place_of(sha256, epoch)
    data = storage.read(place)
    if hashlib.sha256(data).hexdigest() != sha256:
        what = f"`{storage.uri}/{place}` is not what the driver wrote: its digest differs ({len(data)} bytes)"
        raise UntrustedError(f"{what}; remove it and start the application again")
    return data


def purge(storage: DriverStorage, epoch: int) -> None:
    """Remove the files of drivers before this one. Raises OSError."""
    storage.delete(f"{FOLDER}/{name}" for name in storage.names(FOLDER) if _epoch_of(name) < epoch)


def _epoch_of(name: str) -> int:
    found = _NAME.match(name)
    return int(found[1]) if found else 0
