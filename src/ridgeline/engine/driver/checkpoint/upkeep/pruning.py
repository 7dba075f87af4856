"""Removes what no run needs any more from a checkpoint folder: first it says what, then it does so.

Each step may be broken off and repeated: files are removed one by one, and none that a kept window names.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import pyarrow.fs

from ridgeline.api.clock import Clock
from ridgeline.api.errors import CheckpointError
from ridgeline.engine.driver.checkpoint.folder import PREFIX, unneeded
from ridgeline.engine.driver.checkpoint.journal import Committed
from ridgeline.engine.driver.checkpoint.upkeep.contents import (
    UNFINISHED,
    Folder,
    Run,
    hold,
    infos,
    open_folder,
    runs_of,
    walk,
)
from ridgeline.engine.files.storage import LocalStorage, Storage
from ridgeline.engine.state import state_files

_COMMAND = "ridgeline checkpoint prune"
_HOUR, _DAY = 3600.0, 86_400.0


@dataclass(frozen=True, slots=True)
class Removal:
    """Files of one kind that can go. `keep_first`: names to write as files before, by their old names."""

    what: str
    storage: Folder
    names: Sequence[str]
    size_bytes: int
    keep_first: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class Pruning:
    """The files of a folder that can go. `notes`: sentences on what was left out, and why."""

    removals: Sequence[Removal]
    notes: Sequence[str]


def find(uri: str, clock: Clock, locks: ExitStack, windows: int = 0) -> Pruning:
    """Find what can be removed. `locks`: keep drivers out until it is done.

    `windows`: so many of the newest windows stay, 0: all that are kept. Raises CheckpointError, OSError.
    """
    removals: list[Removal] = []
    notes: list[str] = []
    for run in runs_of(uri):
        where = f" of region {run.region}" if run.region else ""
        if _is_free(run.storage, locks):
            removals += _unnamed(run, where, windows, clock)
        else:
            notes.append(f"the run{where} is under way: it removes old windows and states itself")
    root = open_folder(uri)
    files, before = infos(root.uri), clock.wall() - _HOUR
    left = [name for name, one in files.items() if UNFINISHED.search(name) and _mtime(one) < before]
    removals.append(_removal("files that killed processes left unfinished", root, files, left))
    return Pruning([one for one in removals if one.names], notes)


def _removal(
    what: str,
    storage: Folder,
    files: Mapping[str, pyarrow.fs.FileInfo],
    names: Iterable[str],
    keep_first: Sequence[str] = (),
) -> Removal:
    """That of some of a folder's files."""
    chosen = sorted(names)
    return Removal(what, storage, chosen, sum(files[name].size or 0 for name in chosen), keep_first)


def _is_free(storage: Storage, locks: ExitStack) -> bool:
    """Whether no driver is at work; then none begins until `locks` are released.

    True of an object store: nothing young is removed there.
    """
    try:
        hold(storage, _COMMAND, locks)
    except CheckpointError:
        return False
    return True


def _mtime(info: pyarrow.fs.FileInfo) -> float:
    return (info.mtime_ns or 0) / 1e9


def _unnamed(run: Run, where: str, windows: int, clock: Clock) -> list[Removal]:
    """Journal and state files that the kept windows do not need. `where`: the region, for people."""
    found, files = run.journal(), infos(run.storage.uri)
    kept: list[Committed] = list(islice(found.pictures(), windows or None))
    if not kept:
        return []
    journal = unneeded(kept, found.numbers())
    needed = [name for some in journal.values() for name in some]
    named = {state_files.file_of(name) for one in kept for name in one.manifest.files}
    states = [name for name in files if name.startswith(f"{state_files.FOLDER}/")]
    young = 0.0 if isinstance(run.storage, LocalStorage) else clock.wall() - _DAY
    unnamed = [
        name
        for name in states
        if (own := state_files.last_part(name)) not in named
        and state_files.is_state(own)
        and state_files.epoch_of(own) <= found.epoch
        and (not young or _mtime(files[name]) < young)
    ]
    segments = [name for name in map(state_files.segment_file, journal) if name in files]
    return [
        _removal(f"journal of older windows{where}", run.storage, files, segments, needed),
        _removal(f"states that no kept window names{where}", run.storage, files, unnamed),
    ]


def carry_out(pruning: Pruning) -> int:
    """Remove what was found; returns how many bytes are free now. Raises OSError, StateError."""
    for one in pruning.removals:
        for name in one.keep_first:
            state_files.write_apart(one.storage, name, one.storage.create)
        one.storage.delete(one.names)
    return sum(one.size_bytes for one in pruning.removals)


# Temporary folders ------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Temporary:
    """A checkpoint folder in the temporary folder, of a run without `--checkpoint`. `at`: its last change."""

    path: str
    size_bytes: int
    at: float


def temporary_folders(clock: Clock) -> list[Temporary]:
    """This user's temporary checkpoints that no process uses, and that are an hour old."""
    found = []
    for path in sorted(Path(tempfile.gettempdir()).glob(f"{PREFIX}*")):
        try:
            status = path.lstat()
            if path.is_symlink() or not path.is_dir() or status.st_uid != os.getuid():
                continue
            at = max([status.st_mtime, *(_mtime(one) for one in infos(str(path)).values())])
            with ExitStack() as locks:
                if at < clock.wall() - _HOUR and _unused(path, locks):
                    found.append(Temporary(str(path), sum(walk(str(path)).values()), at))
        except OSError:
            continue
    return found


def _unused(path: Path, locks: ExitStack) -> bool:
    """Whether no driver is at work in a folder, or in one of its regions."""
    locked = [one for one in [path, *path.glob("regions/*")] if (one / "lock").exists()]
    return all(_is_free(LocalStorage(str(one)), locks) for one in locked)


def remove_temporary_folders(folders: Sequence[Temporary]) -> int:
    """Remove those that still are unused; returns how many bytes are free now."""
    freed = 0
    for one in folders:
        with ExitStack() as locks:
            if _unused(Path(one.path), locks):
                shutil.rmtree(one.path, ignore_errors=True)
                freed += one.size_bytes
    return freed
