"""The files that are there: by pattern, folder or list, with size and time."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import PurePosixPath
from typing import NamedTuple

import pyarrow.fs

from ridgeline.api.errors import RidgelineError
from ridgeline.api.support.files import is_local, is_refused, resolve
from ridgeline.api.support.masking import mask_text
from ridgeline.operators._replay_files import WILDCARDS, listed, matches

_TEMPORARY = (".tmp", ".temp", ".part", ".partial", ".crdownload", ".filepart", ".inprogress", ".swp", "~")
_COPYING = "._COPYING_"
"""The ending of a file that Hadoop's shell writes."""


class Found(NamedTuple):
    """A file that is there. `entry`: the number of the entry of `path` that led to it.

    `modified`: in nanoseconds since 1970; 0 where the file system does not say.
    """

    entry: int
    path: str
    size: int
    modified: int


class Listing:
    """Lists the files of all entries of `path`."""

    def __init__(self, entries: Sequence[str]) -> None:
        """Raises RidgelineError for an entry that pyarrow cannot reach."""
        self.entries = entries
        self._places = [resolve(entry) for entry in entries]

    def look(self) -> list[Found]:
        """All files that are there now, by time and name; each once.

        Raises OSError, RidgelineError where a store refuses it.
        """
        found: dict[str, Found] = {}
        for number, entry in enumerate(self.entries):
            try:
                infos = self._infos(number)
            except OSError as error:
                if not is_refused(error):
                    raise
                msg = f"`{mask_text(entry)}` cannot be listed: {mask_text(str(error))}; check the keys "
                msg += "(`AWS_ACCESS_KEY_ID` and others), their rights, and the bucket"
                raise RidgelineError(msg) from error
            for info in infos:
                if info.type == pyarrow.fs.FileType.File:
                    found.setdefault(info.path, Found(number, info.path, info.size, info.mtime_ns or 0))
        return sorted(found.values(), key=lambda one: (one.modified, one.path))

    def _infos(self, number: int) -> list[pyarrow.fs.FileInfo]:
        """The files of an entry; none if nothing is there yet."""
        files, path = self._places[number]
        local = is_local(self.entries[number])
        info = files.get_file_info(path)
        if info.type == pyarrow.fs.FileType.File:
            return [info]
        if info.type == pyarrow.fs.FileType.Directory:
            return [one for one in listed(files, path, local=local) if is_whole(one.base_name, "")]
        if WILDCARDS & set(path):
            named = PurePosixPath(path).name
            return [one for one in matches(files, path, local=local) if is_whole(one.base_name, named)]
        return []


def is_whole(name: str, pattern: str) -> bool:
    """True unless the name is that of a hidden file, or of one that is being written.

    A pattern that begins or ends so itself takes them.
    """
    if name[:1] in (".", "_") and pattern[:1] != name[:1]:
        return False
    if name.endswith(_COPYING):
        return False
    return not any(name.endswith(ending) and not pattern.endswith(ending) for ending in _TEMPORARY)
