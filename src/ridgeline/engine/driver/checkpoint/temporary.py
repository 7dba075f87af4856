"""Temporary checkpoint folders, for runs without `--checkpoint`."""

from __future__ import annotations

import os
import shutil
import tempfile
from contextlib import suppress
from pathlib import Path

from ridgeline.api.errors import CheckpointError

_PREFIX = "ridgeline-checkpoint-"
_OVER = "over"
"""A file that marks a folder as not needed any more, should a driver be killed while it removes it."""


def temporary_checkpoint(application: str) -> str:
    """Make a folder, and remove this user's folders that are not needed any more.

    Raises CheckpointError if none can be made.
    """
    try:
        return _fresh(application)
    except OSError as error:
        remedy = "free some space, let TMPDIR name another folder, or give `--checkpoint`"
        what = "no folder for the run's state can be made in the temporary folder"
        msg = f"{what}: {error.strerror or error}; {remedy}"
        raise CheckpointError(msg) from error


def _fresh(application: str) -> str:
    for mark in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*/{_OVER}"):
        with suppress(OSError):
            if mark.parent.lstat().st_uid == os.getuid():
                shutil.rmtree(mark.parent, ignore_errors=True)
    return tempfile.mkdtemp(prefix=f"{_PREFIX}{application}-")


def remove_temporary(folder: str) -> None:
    """Remove a folder that is not needed any more. What cannot be removed stays."""
    with suppress(OSError):
        Path(folder, _OVER).touch()
    shutil.rmtree(folder, ignore_errors=True)
