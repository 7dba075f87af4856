"""The files of this user about applications that were submitted to a cluster: payload, settings, token.

They lie in `$RIDGELINE_HOME/submitted/NAME-STORE/ID`, by the id of the submission. Old ones of that name are
removed at the next submission. One that another command has just begun stays: YARN may read from there. So
does that of the name's entry: YARN may be about to start its driver again.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

from ridgeline.api.clock import SystemClock
from ridgeline.api.errors import RidgelineError
from ridgeline.api.support import trust
from ridgeline.service.store.entry import is_name

if TYPE_CHECKING:
    from ridgeline.service.store.entry import StoreEntry

_ID = re.compile(r"[0-9a-f]{32}")
_OLD_SECONDS = 3600.0
_TOKEN = "token"  # noqa: S105  the name of a file
_LONGEST = 10_000


def make_folder(store: str, name: str, submission: str, last: str = "") -> Path:
    """A new folder for a submission. `last`: that of the name's entry. Raises RidgelineError."""
    parent = _parent(store, name)
    try:
        trust.private_folder(str(parent), "the folder for submitted applications", "set `RIDGELINE_HOME`")
        for old in parent.iterdir():
            if _ID.fullmatch(old.name) and old.name != last and _is_old(old):
                shutil.rmtree(old, ignore_errors=True)
        folder = parent / submission
        folder.mkdir(mode=0o700)
    except OSError as error:
        raise RidgelineError(
            f"`{parent}` cannot be made: {error.strerror}; set `RIDGELINE_HOME` to a folder of yours"
        ) from None
    return folder


def _is_old(folder: Path) -> bool:
    """Whether no command has written there for long; False once another one has removed it."""
    with contextlib.suppress(FileNotFoundError):
        return SystemClock().wall() - folder.stat().st_mtime > _OLD_SECONDS
    return False


def keep_token(folder: Path, token: str) -> None:
    """Keep the token that was made for an application. Raises OSError."""
    with open(folder / _TOKEN, "x", opener=trust.private_opener) as file:
        file.write(token)


def token_of(store: str, entry: StoreEntry) -> str | None:
    """The token that this user's `submit` has made for an application on a cluster; None for none."""
    if not _ID.fullmatch(entry.submission) or not is_name(entry.name) or entry.deploy_mode != "cluster":
        return None
    path = _parent(store, entry.name) / entry.submission / _TOKEN
    with contextlib.suppress(OSError, RidgelineError):
        trust.check(str(path), "the token", "set `RIDGELINE_HOME`")
        with path.open() as file:
            return file.read(_LONGEST) or None
    return None


def _parent(store: str, name: str) -> Path:
    home = os.environ.get("RIDGELINE_HOME")
    base = Path(home).expanduser() if home else Path.home() / ".ridgeline"
    return base / "submitted" / f"{name}-{hashlib.sha256(store.encode()).hexdigest()[:8]}"
