"""The driver's half of blocks by reference: a folder in memory that all containers of a local Spark see.

The driver holds a lock on a file in its folder. A folder whose file is not locked was left by a driver that
was killed: the next driver on the host removes it.
"""

from __future__ import annotations

import fcntl
import os
import re
import secrets
import shutil
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from ridgeline.engine.exchange.shared_blocks import SMALLEST_BYTES, SharedPlace, free_bytes
from ridgeline.engine.spark.cluster import is_local

if TYPE_CHECKING:
    from pyspark import SparkContext

SETTING = "spark.ridgeline.blocks.byReference"
"""Spark's setting that turns this off: `false` sends all blocks by value."""
_MEMORY = "/dev/shm"  # noqa: S108  the folder itself is private
_PREFIX = "ridgeline-blocks-"
_LOCK = "lock"
_WINDOW = re.compile(r"c\d+w(\d+)e")
"""The window in the name of a file of blocks."""
_SMALLEST_BYTES = 256 << 20
"""Where less is free, no folder is made."""
_SHARED_BYTES = SMALLEST_BYTES // 2
"""A container that sends less has no block by reference."""


class SharedFolder:
    """A folder of this driver for blocks. Containers get its `place`.

    Half of what is free when it is made is kept free. Raises OSError.
    """

    def __init__(self, root: str) -> None:
        name = f"{_PREFIX}{os.getpid()}-{secrets.token_hex(4)}"
        hidden = Path(root, f".{name}")
        hidden.mkdir(mode=0o700)
        self._lock = os.open(hidden / _LOCK, os.O_CREAT | os.O_RDWR, 0o600)
        fcntl.flock(self._lock, fcntl.LOCK_EX)
        # Locked before others can find it: none takes it for a leftover.
        self._path = hidden.rename(Path(root, name))
        self.place = SharedPlace(str(self._path), free_bytes(root) // 2)

    def clean(self, through: int) -> None:
        """Remove the blocks of windows that have ended, well or not: all up to `through`.

        Mapped blocks stay readable.
        """
        with suppress(OSError):
            for path in self._path.iterdir():
                found = _WINDOW.match(path.name)
                if path.name != _LOCK and (found is None or int(found.group(1)) <= through):
                    path.unlink(missing_ok=True)

    def close(self) -> None:
        """Remove the folder."""
        shutil.rmtree(self._path, ignore_errors=True)
        os.close(self._lock)


def purge(root: str) -> None:
    """Remove the folders of this user's drivers that live no more."""
    for path in Path(root).glob(f"{_PREFIX}*/{_LOCK}"):
        with suppress(OSError):  # somebody else's, or just removed
            descriptor = os.open(path, os.O_RDWR | os.O_NOFOLLOW)
            try:
                if os.fstat(descriptor).st_uid == os.geteuid():
                    fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    shutil.rmtree(path.parent, ignore_errors=True)
            finally:
                os.close(descriptor)


def open_folder(roots: Sequence[str]) -> SharedFolder | None:
    """A folder in the first of `roots` with enough space; None if there is none.

    Leftovers in all of them are removed.
    """
    for root in roots:
        purge(root)
    for root in roots:
        with suppress(OSError):
            if free_bytes(root) >= _SMALLEST_BYTES:
                return SharedFolder(root)
    return None


class BlockSharing:
    """Decides window by window whether blocks go by reference: on a local Spark.

    A retried window sends them by value, so that a block that was lost once is not lost again. The folder is
    made for the first window that needs it. Blocks are removed in a thread, once their window is committed.
    """

    def __init__(self, context: SparkContext) -> None:
        settings = context.getConf()
        on_disk = (
            os.environ.get("SPARK_LOCAL_DIRS") or settings.get("spark.local.dir") or tempfile.gettempdir()
        )
        by_value = not is_local(str(context.master)) or settings.get(SETTING, "true").lower() == "false"
        self._roots = [] if by_value else [_MEMORY, on_disk.split(",")[0]]
        self._folder: SharedFolder | None = None
        self._cleaner = ThreadPoolExecutor(1, "ridgeline-cleaner")
        self._begun = self._left = -1
        """The last window that was begun, and the last that may have left blocks."""

    def place(self, window_id: int, attempt: int) -> SharedPlace | None:
        """Where containers may leave blocks in this attempt at a window; None if all go by value."""
        self._begun = max(self._begun, window_id)
        if attempt or not self._roots:
            return None
        if self._folder is None:
            self._folder = open_folder(self._roots)
        if self._folder is None:
            self._roots = []
            return None
        return self._folder.place

    def reported(self, window_id: int, bytes_out: int) -> None:
        """A container has run a window, and sent so much."""
        if bytes_out >= _SHARED_BYTES:
            self._left = max(self._left, window_id)

    def void(self) -> None:
        """All attempts are void: no report says what they have left."""
        self._left = self._begun

    def committed(self, window_id: int) -> None:
        """Remove the blocks of windows up to this one, soon."""
        if self._left >= 0 and self._folder is not None:
            # In a thread: windows would wait while large files are removed.
            self._cleaner.submit(self._folder.clean, window_id)
            if window_id >= self._left:
                self._left = -1

    def close(self) -> None:
        """Remove the folder."""
        self._cleaner.shutdown(wait=True)
        self._roots = []
        if self._folder is not None:
            self._folder.close()
            self._folder = None
