"""Removes what no run needs any more from a checkpoint folder: first it says what, then it does so.

Each step may be broken off and repeated: files are removed one by one, and none that a kept window names.
"""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import pyarrow.fs

from ridgeline.api.clock import Clock
from ridgeline.api.errors import CheckpointError
from ridgeline.api.support.sealed import checked
from ridgeline.engine.driver.checkpoint import fault_dumps, folder, journal
from ridgeline.engine.driver.checkpoint.journal import Committed
from ridgeline.engine.driver.checkpoint.run_description import REGIONS
from ridgeline.engine.driver.checkpoint.upkeep.contents import (
    UNFINISHED,
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
_ENDED = re.compile(rf"{folder.RECORDINGS}/([^/]+)\.([^/.]+)\.ended\.json")


@dataclass(frozen=True, slots=True)
class Removal:
    """Files of one kind that can go. `keep_first`: names to write as files before, by their old names."""

    what: str
    names: Sequence[str]
    size_bytes: int
    keep_first: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class Pruning:
    """The files of a folder that can go. `notes`: sentences on what was left out, and why."""

    uri: str
    removals: Sequence[Removal]
    notes: Sequence[str]


def find(uri: str, clock: Clock, locks: ExitStack, windows: int = 0, older_than: float = 7 * _DAY) -> Pruning:
    """Find what can be removed. `locks`: keep drivers out until it is done.

    `windows`: so many of the newest windows stay, 0: all that are kept. `older_than`: seconds, of recordings
    that have ended and of dumps of faults. Raises CheckpointError, OSError.
    """
    runs = runs_of(uri)
    root = open_folder(uri)
    removals: list[Removal] = []
    notes: list[str] = []
    known: dict[str, pyarrow.fs.FileInfo] = infos(root.uri)
    for run in runs:
        inside = run.storage.uri[len(root.uri) :].lstrip("/")
        prefix = f"{inside}/" if inside else ""
        files = {name[len(prefix) :]: one for name, one in known.items() if name.startswith(prefix)}
        where = f" of region {run.region}" if run.region else ""
        found = list(_old(files, clock.wall() - older_than))
        if _is_free(run.storage, locks):
            found += _unnamed(run, files, windows, clock)
        else:
            notes.append(f"the run{where} is under way: it removes old windows and states itself")
        removals += [
            Removal(one.what + where, [prefix + name for name in one.names], one.size_bytes, one.keep_first)
            for one in found
        ]
    left = {name: one for name, one in known.items() if UNFINISHED.search(name)}
    left = {name: one for name, one in left.items() if _mtime(one) < clock.wall() - _HOUR}
    removals.append(_removal("files that killed processes left unfinished", left, left))
    if REGIONS in known and not notes:
        removals += _queues(root, runs, known)
    return Pruning(root.uri, [one for one in removals if one.names], notes)


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


def _removal(
    what: str, names: Iterable[str], files: Mapping[str, pyarrow.fs.FileInfo], keep_first: Sequence[str] = ()
) -> Removal:
    chosen = sorted(names)
    return Removal(what, chosen, sum(files[name].size or 0 for name in chosen), keep_first)


def _unnamed(run: Run, files: Mapping[str, pyarrow.fs.FileInfo], windows: int, clock: Clock) -> list[Removal]:
    """Journal and state files that the kept windows do not need."""
    found = run.journal()
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
        _removal("journal of older windows", segments, files, needed),
        _removal("states that no kept window names", unnamed, files),
    ]


def _segment(name: str) -> int:
    place = state_files.slice_place(name)
    return -1 if place is None else place[0]


def _old(files: Mapping[str, pyarrow.fs.FileInfo], before: float) -> list[Removal]:
    """Recordings that ended before a time, and dumps of faults from before it."""
    ports = {
        (found[1], found[2])
        for name, one in files.items()
        if (found := _ENDED.fullmatch(name)) is not None and _mtime(one) < before
    }
    ended = {recording for recording, _ in ports}
    beginnings = tuple(
        f"{folder.RECORDINGS}/{name}"
        for recording, port in ports  # others of a recording may go on
        for name in (f"{recording}/{port}/", f"{recording}.{port}.ended.json")
    )
    recorded = [name for name in files if beginnings and name.startswith(beginnings)]
    dumps = [
        name
        for name, one in files.items()
        if name.startswith(f"{fault_dumps.FOLDER}/") and _mtime(one) < before
    ]
    count = f"{len(ended)} recording{'' if len(ended) == 1 else 's'} that ended"
    return [_removal(count, recorded, files), _removal("dumps of faults", dumps, files)]


def _queues(
    root: Storage, runs: Sequence[Run], files: Mapping[str, pyarrow.fs.FileInfo]
) -> Iterator[Removal]:
    """Queues between regions whose writer is an output no more: their stream is not decoupled now."""
    outputs: dict[str, Collection[str]] = {}
    for run in runs:
        last = run.journal().last
        if last is None or last.outputs is None:
            return
        outputs[run.run_id] = {*last.outputs, *last.publishers}
    for name in sorted(files):
        if not name.startswith("queues/") or not name.endswith("/queue.json"):
            continue
        try:
            writer = checked("queue.json", root.read(name))
            used = writer["operator"] in outputs.get(writer["run_id"], ())
        except (ValueError, LookupError, TypeError):
            continue
        if not used:
            folder = name.removesuffix("queue.json")
            stream = folder.removeprefix("queues/").rstrip("/")
            inside = [one for one in files if one.startswith(folder)]
            yield _removal(f"queue of `{stream}`, which has no writer any more", inside, files)


def carry_out(pruning: Pruning) -> int:
    """Remove what was found; returns how many bytes are free now. Raises OSError, StateError."""
    root = open_folder(pruning.uri)
    freed = 0
    for one in pruning.removals:
        if one.keep_first:
            inside = one.names[0].rpartition(f"{journal.FOLDER}/")[0].rstrip("/")
            storage = open_folder(f"{root.uri}/{inside}") if inside else root
            for name in one.keep_first:
                file = f"{state_files.FOLDER}/{state_files.file_of(name)}"
                storage.create(file, state_files.load(storage, name))
        root.delete(one.names)
        freed += one.size_bytes
    return freed


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
    for path in sorted(Path(tempfile.gettempdir()).glob(f"{folder.PREFIX}*")):
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
                folder.remove_temporary(one.path)
                freed += one.size_bytes
    return freed
