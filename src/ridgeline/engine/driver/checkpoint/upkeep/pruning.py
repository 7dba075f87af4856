"""Removes what no run needs any more from a checkpoint folder: first it says what, then it does so.

Each step may be broken off and repeated: files are removed one by one, and none that a kept window names.
"""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import pyarrow.fs

from ridgeline.api.clock import Clock
from ridgeline.api.errors import CheckpointError
from ridgeline.api.support.sealed import checked
from ridgeline.engine.driver.checkpoint import fault_dumps
from ridgeline.engine.driver.checkpoint.folder import PREFIX, RECORDINGS, remove_temporary
from ridgeline.engine.driver.checkpoint.journal import Committed
from ridgeline.engine.driver.checkpoint.run_description import REGIONS
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
from ridgeline.measure.wording.units import plural

_COMMAND = "ridgeline checkpoint prune"
_DUMPS = f"{fault_dumps.FOLDER}/"
_HOUR, _DAY = 3600.0, 86_400.0
_ENDED = re.compile(rf"{RECORDINGS}/([^/]+)\.([^/.]+)\.ended\.json")


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


class _Folder:
    """A folder and all of its files. `where`: said of what can go there."""

    def __init__(self, storage: Folder, where: str = "") -> None:
        self.storage = storage
        self.files: dict[str, pyarrow.fs.FileInfo] = infos(storage.uri)
        self._where = where

    def older(self, before: float) -> dict[str, pyarrow.fs.FileInfo]:
        """The files that were written before a time."""
        return {name: one for name, one in self.files.items() if _mtime(one) < before}

    def removal(self, what: str, names: Iterable[str], keep_first: Sequence[str] = ()) -> Removal:
        """Of some of its files."""
        chosen = sorted(names)
        size = sum(self.files[name].size or 0 for name in chosen)
        return Removal(f"{what}{self._where}", self.storage, chosen, size, keep_first)


def find(uri: str, clock: Clock, locks: ExitStack, windows: int = 0, older_than: float = 7 * _DAY) -> Pruning:
    """Find what can be removed. `locks`: keep drivers out until it is done.

    `windows`: so many of the newest windows stay, 0: all that are kept. `older_than`: seconds, of recordings
    that have ended and of dumps of faults. Raises CheckpointError, OSError.
    """
    runs = runs_of(uri)
    root = _Folder(open_folder(uri))
    removals: list[Removal] = []
    notes: list[str] = []
    for run in runs:
        where = f" of region {run.region}" if run.region else ""
        folder = _Folder(run.storage, where)
        removals += _old(folder, clock.wall() - older_than)
        if _is_free(run.storage, locks):
            removals += _unnamed(run, folder, windows, clock)
        else:
            notes.append(f"the run{where} is under way: it removes old windows and states itself")
    left = filter(UNFINISHED.search, root.older(clock.wall() - _HOUR))
    removals.append(root.removal("files that killed processes left unfinished", left))
    if REGIONS in root.files and not notes:
        removals += _queues(root, runs)
    return Pruning([one for one in removals if one.names], notes)


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


def _unnamed(run: Run, folder: _Folder, windows: int, clock: Clock) -> list[Removal]:
    """Journal and state files that the kept windows do not need."""
    found, files = run.journal(), folder.files
    kept: list[Committed] = list(islice(found.pictures(), windows or None))
    if not kept:
        return []
    names = [name for one in kept for name in one.manifest.files]
    first = min(one.base for one in kept)
    numbers = [number for number in found.numbers() if number < first]
    needed = [name for name in dict.fromkeys(names) if _segment(name) in numbers]
    named = {state_files.file_of(name) for name in names}
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
    segments = [state_files.segment_file(number) for number in numbers]
    segments = [name for name in segments if name in files]
    return [
        folder.removal("journal of older windows", segments, needed),
        folder.removal("states that no kept window names", unnamed),
    ]


def _segment(name: str) -> int:
    place = state_files.slice_place(name)
    return -1 if place is None else place[0]


def _old(folder: _Folder, before: float) -> list[Removal]:
    """Recordings that ended before a time, and dumps of faults from before it."""
    old = folder.older(before)
    ports = {(found[1], found[2]) for found in map(_ENDED.fullmatch, old) if found is not None}
    beginnings = tuple(
        f"{RECORDINGS}/{name}"
        for recording, port in ports  # others of a recording may go on
        for name in (f"{recording}/{port}/", f"{recording}.{port}.ended.json")
    )
    recorded = [name for name in folder.files if beginnings and name.startswith(beginnings)]
    count = len({recording for recording, _ in ports})
    return [
        folder.removal(f"{plural(count, 'recording')} that ended", recorded),
        folder.removal(
            "dumps of faults", [name for name in old if name.startswith(f"{fault_dumps.FOLDER}/")]
        ),
    ]


def _queues(root: _Folder, runs: Sequence[Run]) -> Iterator[Removal]:
    """Queues between regions whose writer is an output no more: their stream is not decoupled now."""
    outputs: dict[str, Collection[str]] = {}
    for run in runs:
        last = run.journal().last
        if last is None or last.outputs is None:
            return
        outputs[run.run_id] = {*last.outputs, *last.publishers}
    for name in sorted(root.files):
        if not name.startswith("queues/") or not name.endswith("/queue.json"):
            continue
        try:
            writer = checked("queue.json", root.storage.read(name))
            used = writer["operator"] in outputs.get(writer["run_id"], ())
        except (ValueError, LookupError, TypeError):
            continue
        if not used:
            inside = name.removesuffix("queue.json")
            what = f"queue of `{inside.removeprefix('queues/').rstrip('/')}`, which has no writer any more"
            yield root.removal(what, [one for one in root.files if one.startswith(inside)])


def carry_out(pruning: Pruning) -> int:
    """Remove what was found; returns how many bytes are free now. Raises OSError, StateError."""
    for one in pruning.removals:
        for name in one.keep_first:
            file = f"{state_files.FOLDER}/{state_files.file_of(name)}"
            one.storage.create(file, state_files.load(one.storage, name))
        one.storage.delete(one.names)
    return sum(one.size_bytes for one in pruning.removals)


# Temporary folders ------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Temporary:
    """A checkpoint folder in the temporary folder, of a run without `--checkpoint`. `at`: its last change."""

    path: str
    size_bytes: int
    at: float


def temporary_folders(clock: Clock, older_than: float = _HOUR) -> list[Temporary]:
    """This user's temporary checkpoints that no process uses, and that are so many seconds old."""
    found = []
    for path in sorted(Path(tempfile.gettempdir()).glob(f"{PREFIX}*")):
        try:
            status = path.lstat()
            if path.is_symlink() or not path.is_dir() or status.st_uid != os.getuid():
                continue
            at = max([status.st_mtime, *(_mtime(one) for one in infos(str(path)).values())])
            with ExitStack() as locks:
                if at < clock.wall() - older_than and _unused(path, locks):
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
                remove_temporary(one.path)
                freed += one.size_bytes
    return freed
