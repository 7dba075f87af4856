"""Copies a checkpoint folder, also while a driver is at work in it.

The copy has the windows that are kept, written to a journal of its own, and the files that they need. Until
it is whole it has no `run.json`, so no run begins with half of it. A file that a driver removes meanwhile
begins the next round, with the windows that are kept by then. State files never change, so they are copied
once.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

from ridgeline.api.errors import CheckpointError
from ridgeline.api.support.sealed import seal, unseal
from ridgeline.engine.driver.checkpoint import journal
from ridgeline.engine.driver.checkpoint.journal import Journal
from ridgeline.engine.driver.checkpoint.manifest import Manifest
from ridgeline.engine.driver.checkpoint.run_description import (
    FORMAT,
    NAME,
    REGIONS,
    read_if_there,
)
from ridgeline.engine.driver.checkpoint.upkeep.contents import (
    UNFINISHED,
    Folder,
    Run,
    hold,
    infos,
    open_folder,
    runs_of,
    verify,
    walk,
)
from ridgeline.engine.files.storage import LocalStorage, Storage
from ridgeline.engine.state import state_files
from ridgeline.engine.state.integrity import FileCheck

COPYING = "copying.json"
"""Marks a copy that is not whole yet."""
ROUNDS = 100
_PART_BYTES = 8 << 20
_OWN = frozenset({NAME, REGIONS, COPYING, "lock"})
_REMADE = frozenset({journal.FOLDER, journal.MARKERS, "epochs", "plans", state_files.FOLDER})
Step = Callable[[str], None]
"""Called with the name of each step, before it."""


@dataclass(frozen=True, slots=True)
class Copied:
    """The result: `windows` that can be gone back to, and what was written."""

    windows: Sequence[int]
    files: int
    size_bytes: int


def copy(
    source: str,
    target: str,
    places: Mapping[str, str] | None = None,
    step: Step = lambda _step: None,
) -> Copied:
    """Copy a checkpoint folder to one that is empty, or that holds a copy of it which was not finished.

    `places`: folders that lie elsewhere for the copy, by their old paths, such as those of outputs.
    A run of several regions must not be at work. Raises CheckpointError, OSError; the copy is not used then.
    """
    root, to = open_folder(source), open_folder(target)
    if root.uri == to.uri:
        raise CheckpointError(f"`{source}` and `{target}` are the same folder; give another one")
    if f"{to.uri}/".startswith(f"{root.uri}/") or f"{root.uri}/".startswith(f"{to.uri}/"):
        raise CheckpointError(
            f"one of `{source}` and `{target}` lies within the other; give a folder beside it"
        )
    with ExitStack() as locks:
        if read_if_there(root, REGIONS) is not None:
            for run in runs_of(source):
                _lock(run, locks)
        # only now: a driver may have added a region before it was locked out
        runs, whole = runs_of(source), read_if_there(root, REGIONS)
        return _copy(root, to, runs, whole, {**(places or {}), root.uri: to.uri}, step)


def _copy(
    root: Folder, to: Folder, runs: Sequence[Run], whole: bytes | None, renames: Mapping[str, str], step: Step
) -> Copied:
    """As `copy`. `whole`: what says which regions there are; no driver is at work in them then."""
    to.prepare(())
    _begin(root.uri, to, runs, step)
    parts = []
    for run in runs:
        part = to if run.storage.uri == root.uri else open_folder(to.uri + run.storage.uri[len(root.uri) :])
        parts.append(_RunCopy(run, part, renames, step).copy())
    files, size = sum(one.files for one in parts), sum(one.size_bytes for one in parts)
    if whole is not None:
        inside = tuple(f"{run.storage.uri[len(root.uri) + 1 :]}/" for run in runs)
        for name, one in infos(root.uri).items():
            if name not in _OWN and not name.startswith(inside) and not UNFINISHED.search(name):
                _copy_file(root, name, to, one.size or 0)
                files, size = files + 1, size + (one.size or 0)
        step("name the regions")
        to.write(REGIONS, whole)
    step("finish")
    to.delete([COPYING])
    return Copied(parts[0].windows if whole is None else (), files, size)


def _begin(source: str, to: Storage, runs: Sequence[Run], step: Step) -> None:
    """Mark the target as a copy that is not whole. Raises CheckpointError if it holds something else."""
    wanted = {"format": FORMAT, "source": source, "runs": [run.run_id for run in runs]}
    marked = read_if_there(to, COPYING)
    if marked is None and (there := sorted(walk(to.uri).keys() - {"lock"})):
        raise CheckpointError(f"`{to.uri}` is not empty: it holds `{there[0]}`; give an empty folder")
    found = wanted if marked is None else unseal(COPYING, marked, f"`{to.uri}/{COPYING}`", FORMAT)
    if found != wanted:
        what = f"`{to.uri}` holds an unfinished copy of `{found['source']}`"
        raise CheckpointError(f"{what}; remove it, or finish that")
    step("mark the copy")
    to.write(COPYING, seal(COPYING, wanted))


class _RunCopy:
    """The copy of one run. `renames`: folders that lie elsewhere, by their old paths."""

    def __init__(self, run: Run, to: Folder, renames: Mapping[str, str], step: Step) -> None:
        self._run = run
        self._to = to
        self._renames = sorted(renames.items(), key=lambda one: -len(one[0]))
        self._step = step
        self._states: set[str] = set()
        self._size = 0

    def copy(self) -> Copied:
        """Copy it. Raises CheckpointError, OSError."""
        epoch, windows, extras = self._rounds()
        self._step("write the journal")
        self._to.delete([f"{journal.FOLDER}/{name}" for name in self._to.names(journal.FOLDER)])
        made = Journal(self._to, self._run.run_id, appends=isinstance(self._to, LocalStorage))
        try:
            made.seal(epoch)
            for manifest in reversed(windows):
                made.append(self._moved(manifest), {})
        finally:
            made.close()
        self._step("check the copy")
        verdict = verify(Run(self._to, self._run.application, self._run.run_id))
        if verdict.faults:
            raise CheckpointError(f"the copy in `{self._to.uri}` is damaged: {verdict.faults[0]}; copy again")
        self._step("name the run")
        self._to.delete([NAME])
        self._to.create(NAME, self._run.storage.read(NAME))
        return Copied([one.window_id for one in windows], len(self._states) + extras, self._size)

    def _rounds(self) -> tuple[int, list[Manifest], int]:
        """Copy until all of some moment is there. Returns epoch, windows and the number of other files."""
        for number in range(ROUNDS):
            self._step("look" if number == 0 else "look again")
            try:
                before = self._extras()
                found = self._run.journal()
                check = FileCheck(self._run.files, thoroughly=False)
                windows = [one.manifest for one in found.pictures() if check.has_all(one.manifest.files)]
                extras = self._extras()
                if before.keys() - extras.keys():
                    continue
                for name, one in extras.items():
                    self._copy(name, one.size or 0)
                for name in dict.fromkeys(name for one in windows for name in one.files):
                    self._copy_state(name)
                if self._have_changed(extras):
                    continue
            except FileNotFoundError:
                continue
            return found.epoch, windows, len(extras)
        msg = (
            f"`{self._run.storage.uri}` changes faster than it can be copied; stop the application first, or "
        )
        msg += "raise the attribute `windows_kept`"
        raise CheckpointError(msg)

    def _extras(self) -> dict[str, Any]:
        """The files beside journal and states, which outputs, inputs and recordings have written."""
        return {
            name: one
            for name, one in infos(self._run.storage.uri).items()
            if name.partition("/")[0] not in _REMADE | _OWN and not UNFINISHED.search(name)
        }

    def _have_changed(self, before: Mapping[str, Any]) -> bool:
        """Whether one of them is gone or has another content; one that has grown was appended to."""
        now = self._extras()
        return any(
            name not in now
            or (now[name].size or 0) < (one.size or 0)
            or (now[name].size == one.size and now[name].mtime_ns != one.mtime_ns)
            for name, one in before.items()
        )

    def _copy(self, name: str, size: int) -> None:
        self._step(f"copy {name}")
        _copy_file(self._run.storage, name, self._to, size)
        self._size += size

    def _copy_state(self, name: str) -> None:
        """Copy a state file, once; what lies in the journal becomes a file."""
        file = state_files.file_of(name)
        if file in self._states:
            return
        self._step(f"copy {name}")
        if state_files.slice_place(name) is not None:
            self._size += state_files.write_apart(self._run.storage, name, self._to.write)
        else:
            self._size += _copy_file(self._run.storage, f"{state_files.FOLDER}/{file}", self._to, None)
        self._states.add(file)

    def _moved(self, manifest: Manifest) -> Manifest:
        """A window with each change in a file of its own, and with folders where they lie now."""
        files = {
            key: [state_files.file_of(name) for name in version] for key, version in manifest.states.items()
        }
        return Manifest.of({**self._renamed(manifest.picture()), "states": files})

    def _renamed(self, value: Any) -> Any:
        """A value of JSON, with paths that begin with an old folder."""
        if isinstance(value, str):
            for old, new in self._renames:
                pattern = rf"(?<![\w/.-]){re.escape(old)}(?![\w.-])"
                value = new.join(re.split(pattern, value))
            return value
        if isinstance(value, Mapping):
            return {self._renamed(key): self._renamed(one) for key, one in value.items()}
        if isinstance(value, (list, tuple)):
            return [self._renamed(one) for one in value]
        return value


def _copy_file(source: Storage, name: str, to: Storage, size: int | None) -> int:
    """Copy the first `size` bytes of a file, None: all. Returns their number. Raises OSError."""

    def parts() -> Iterator[bytes]:
        offset = 0
        while size is None or offset < size:
            most = _PART_BYTES if size is None else min(_PART_BYTES, size - offset)
            data = source.read_range(name, offset, most)
            yield data
            offset += len(data)
            if len(data) < most:
                if size is not None:
                    raise FileNotFoundError(name)  # it was cut meanwhile
                return

    return to.write_parts(name, parts())


def _lock(run: Run, locks: ExitStack) -> None:
    """Keep drivers from a run's folder.

    Raises CheckpointError if a driver is at work in it, OSError.
    On an object store, which has no locks, a driver is fenced off: it stops at its next commit.
    """
    hold(run.storage, "ridgeline checkpoint copy", locks)
    if isinstance(run.storage, LocalStorage):
        return
    epoch = max(run.journal().epoch, *(int(one) for one in run.storage.names("epochs") if one.isdecimal()), 0)
    run.storage.write(f"epochs/{epoch + 1:08d}", b"copied\n")
