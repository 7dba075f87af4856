"""A checkpoint folder as it lies on its disk or store, read without owning it."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import pyarrow.fs

from ridgeline.api.errors import CheckpointError, RidgelineError
from ridgeline.api.support.files import is_local, local_path, resolve
from ridgeline.engine.driver.checkpoint import journal, journal_record
from ridgeline.engine.driver.checkpoint.folder import lost_windows
from ridgeline.engine.driver.checkpoint.journal import Journal
from ridgeline.engine.driver.checkpoint.manifest import Manifest
from ridgeline.engine.driver.checkpoint.rewinding import not_left
from ridgeline.engine.driver.checkpoint.run_description import (
    FORMAT,
    NAME,
    describe_run,
    read_if_there,
    read_regions,
)
from ridgeline.engine.files.storage import ArrowStorage, DriverStorage, LocalStorage, Storage
from ridgeline.engine.state import state_files
from ridgeline.engine.state.integrity import FileCheck
from ridgeline.engine.state.segment_files import SegmentFiles

UNFINISHED = re.compile(r"(?:^|/)\.[0-9a-f]{32}$")
"""The name of a file that a process has not finished, or was killed while it wrote it."""


class StoreStorage(ArrowStorage, DriverStorage):
    """An object store for one writer: `create` looks first, and is no protection against a second one."""

    def create(self, name: str, data: bytes, *, settled: str = "") -> bool:
        """Write a file unless there is one."""
        folder, _, last = name.rpartition("/")
        if last in self.names(folder):
            return False
        self.write(name, data)
        return True


Folder = LocalStorage | StoreStorage
"""The storage of a checkpoint folder for tools."""


def open_folder(uri: str) -> Folder:
    """The storage of a checkpoint folder. Raises CheckpointError if it cannot be reached."""
    if is_local(uri):
        return LocalStorage(local_path(uri))
    try:
        return StoreStorage(uri)
    except (RidgelineError, OSError) as error:
        raise CheckpointError(f"checkpoint folder `{uri}` cannot be reached: {error}") from error


def hold(storage: Storage, by: str, locks: contextlib.ExitStack) -> None:
    """Keep drivers from a folder until `locks` are released; an object store has no locks.

    `by`: the command. Raises CheckpointError if a driver is at work in it, OSError.
    """
    if isinstance(storage, LocalStorage) and (held := storage.lock(by)) is not None:
        locks.callback(held.release)


def walk(uri: str) -> dict[str, int]:
    """The size in bytes of all files of a folder, by their names in it. Raises OSError, RidgelineError."""
    return {name: info.size or 0 for name, info in infos(uri).items()}


def infos(uri: str) -> dict[str, pyarrow.fs.FileInfo]:
    """All files of a folder, as the file system describes them, by name. Raises OSError, RidgelineError."""
    filesystem, base = resolve(uri)
    selector = pyarrow.fs.FileSelector(base, recursive=True, allow_not_found=True)
    found = filesystem.get_file_info(selector)
    return {one.path[len(base) :].lstrip("/"): one for one in found if one.is_file}


@dataclass(frozen=True, slots=True)
class Run:
    """One run in a checkpoint folder; a region's has a name, and a folder of its own."""

    storage: Folder
    application: str
    run_id: str
    region: str = ""

    @property
    def files(self) -> SegmentFiles:
        """Its state files."""
        return SegmentFiles(self.storage, self.run_id)

    def journal(self) -> Journal:
        """Its journal. Raises CheckpointError if it is damaged, OSError."""
        return Journal(self.storage, self.run_id, appends=False)

    def kept(self) -> list[Manifest]:
        """The windows in the journal that a rewind has not left, newest first. Raises as `journal`."""
        return list(not_left(one.manifest for one in self.journal().pictures()))


def runs_of(uri: str) -> list[Run]:
    """The runs in a checkpoint folder: one, or one for each region.

    Raises CheckpointError if it holds none or is damaged, OSError.
    """
    storage = open_folder(uri)
    regions = read_regions(storage)
    if regions is None:
        return [Run(storage, *describe_run(storage))]
    found = []
    for one in regions:
        part = open_folder(f"{storage.uri}/regions/{one['number']}")
        if read_if_there(part, NAME) is not None:
            found.append(Run(part, *describe_run(part), one["name"]))
    return found


# Describe ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Description:
    """The contents of a run's folder. Sizes are bytes.

    `windows`: those that a rewind can begin with, newest first. `operators`: sizes of the last
    window's states.
    `folders`: sizes by the first part of the names; "" for files directly in the folder.
    """

    run: Run
    windows: Sequence[Manifest]
    epoch: int
    operators: Mapping[str, int]
    folders: Mapping[str, int]
    formats: Mapping[str, int]


def describe(run: Run) -> Description:
    """Read what a run's folder holds; a driver may be at work in it. Raises CheckpointError, OSError."""
    found = run.journal()
    check = FileCheck(run.files, thoroughly=False)
    windows = [
        one for one in not_left(window.manifest for window in found.pictures()) if check.has_all(one.files)
    ]
    sizes = walk(run.storage.uri)
    operators: dict[str, int] = {}
    if windows:
        for key, version in windows[0].states.items():
            with contextlib.suppress(FileNotFoundError):  # a driver is at work
                operators[key] = _state_size(run, sizes, key, version)
    folders: dict[str, int] = {}
    for name, size in sizes.items():
        folder = name.partition("/")[0] if "/" in name else ""
        folders[folder] = folders.get(folder, 0) + size
    formats = {"journal": journal_record.FORMAT, "run": FORMAT}
    return Description(run, windows, found.epoch, operators, folders, formats)


def _state_size(run: Run, sizes: Mapping[str, int], key: str, version: Sequence[str]) -> int:
    """The bytes of an operator's state: its own part of files that it shares."""
    size = 0
    for name in version:
        if state_files.is_segment(name):
            size += sizes.get(f"{state_files.FOLDER}/{name}", 0)
        else:
            size += state_files.sizes(run.storage, name).get(key, 0)
    return size


# Verify -----------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class Verdict:
    """The result of reading all files of a run. `faults`: a sentence for each damaged file."""

    files: int = 0
    size_bytes: int = 0
    windows: int = 0
    faults: list[str] = field(default_factory=list)

    def note(self, fault: str) -> None:
        """Add a fault, once."""
        if fault and fault not in self.faults:
            self.faults.append(fault)


def verify(run: Run) -> Verdict:
    """Read every file that the windows of a run need; see that the journal is not cut. Raises OSError.

    A file that a driver removes meanwhile is no fault if its window is kept no more.
    """
    verdict = Verdict()
    states = [name for name in run.storage.names(state_files.FOLDER) if state_files.is_state(name)]
    try:
        found = run.journal()
        verdict.note(lost_windows(run.storage, found, states))
        windows = [one.manifest for one in found.pictures()]
    except CheckpointError as error:
        verdict.note(str(error))
        windows = []
    for name in filter(str.isdecimal, run.storage.names(journal.FOLDER)):
        _verify_journal(run, int(name), verdict)
    check = FileCheck(run.files, thoroughly=True)
    windows = _not_removed(windows, check)
    verdict.windows = len(windows)
    sizes = walk(run.storage.uri)
    named: set[str] = set()
    checked: set[tuple[str, ...]] = set()
    for manifest in windows:
        for version in manifest.states.values():
            if version in checked:
                continue
            checked.add(version)
            named.update(state_files.file_of(name) for name in version)
            if fault := check.fault(version):
                still = any(version in one.states.values() for one in _kept_now(run))
                verdict.note(fault if still else "")
    own = [f"{state_files.FOLDER}/{name}" for name in named]
    verdict.files += sum(name in sizes for name in own)
    verdict.size_bytes += sum(sizes.get(name, 0) for name in own)
    return verdict


def _not_removed(windows: list[Manifest], check: FileCheck) -> list[Manifest]:
    """The windows without the oldest, whose files a driver has removed; at least the newest one.

    A driver removes files from the oldest window on. Windows whose states are all in the journal say nothing
    of that: the first ones of a run are such.
    """
    names = [set(one.files) for one in windows]
    there = list(map(check.has_all, names))
    if all(there):
        return windows
    whole = [
        number
        for number, own in enumerate(names)
        if there[number] and any(state_files.slice_place(name) is None for name in own)
    ]
    return windows[: max(whole, default=0) + 1]


def _kept_now(run: Run) -> list[Manifest]:
    with contextlib.suppress(CheckpointError, FileNotFoundError):
        return [one.manifest for one in run.journal().pictures()]
    return []


def _verify_journal(run: Run, number: int, verdict: Verdict) -> None:
    """Read a file of the journal, if a driver has not removed it. Raises OSError."""
    name = state_files.segment_file(number)
    with contextlib.suppress(FileNotFoundError):
        data = run.storage.read(name)
        verdict.files += 1
        verdict.size_bytes += len(data)
        try:
            list(journal_record.decode(run.run_id, number, data, f"{run.storage.uri}/{name}"))
        except CheckpointError as error:
            verdict.note(str(error))
