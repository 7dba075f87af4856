"""Which files of plans are in use, and which may go: each change of a plan writes new ones.

The name of a file has the epoch of the driver that wrote it, so no two drivers share one. A driver removes
files of its own and of those before it. A later one's it leaves alone: it may be displaced without knowing
it. A file of its own is in use as long as something in this process holds the `PlanFile` that names it.
Others go with the second purge that finds them. At the first one a slot may still be about to read them.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Collection
from typing import Protocol
from weakref import ReferenceType, ref

from ridgeline.engine.files.storage import DriverStorage

FOLDER = "plans"
_NAME = re.compile(r"(\d+)-")


def place_of(sha256: str, epoch: int) -> str:
    """The file with these contents of a driver, in the checkpoint folder."""
    return f"{FOLDER}/{epoch:08d}-{sha256}"


def _epoch_of(name: str) -> int:
    """Who wrote a file; 0 for one without an epoch, of an earlier version."""
    found = _NAME.match(name)
    return int(found[1]) if found else 0


class Named(Protocol):
    """A `PlanFile`."""

    @property
    def names(self) -> Collection[str]:
        """The files that it needs."""


class PlanFiles:
    """The files of plans of one process. Any thread may call it."""

    def __init__(self) -> None:
        self._held: list[ReferenceType[Named]] = []
        self._lock = threading.Lock()

    def create(self, storage: DriverStorage, name: str, data: bytes, file: Named) -> None:
        """Write a file, which is in use from now on. `file`: the `PlanFile` that names it. Raises OSError."""
        with self._lock:  # a purge that is under way is over; later ones find that it is in use
            self._held.append(ref(file))
        storage.create(name, data)

    def purge(
        self, storage: DriverStorage, epoch: int, unused: Collection[str] | None = None
    ) -> frozenset[str]:
        """Remove the files that were not in use before and are not now; returns those that are not any more.

        Those of drivers after this `epoch` stay.

        `unused`: what the purge before has returned; None: at the start, when all others are of drivers
        before. Raises OSError.
        """
        with self._lock:
            held = [file for one in self._held if (file := one()) is not None]
            self._held = list(map(ref, held))
            used = {name for file in held for name in file.names}
            found = frozenset(
                name
                for one in storage.names(FOLDER)
                if (name := f"{FOLDER}/{one}") not in used and _epoch_of(one) <= epoch
            )
            gone = found if unused is None else found.intersection(unused)
            storage.delete(sorted(gone))
            return found - gone


PLAN_FILES = PlanFiles()
"""Those of this process."""
