"""The files that a path, a folder or a pattern leads to, and what is checked of one that is read."""

from __future__ import annotations

import fnmatch
import glob
import logging
import os
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from pathlib import Path, PurePosixPath
from typing import NamedTuple
from urllib.parse import quote

import pyarrow as pa
import pyarrow.fs

from ridgeline.api.columns.nulls import optional_columns
from ridgeline.api.columns.schema import Schema
from ridgeline.api.errors import RidgelineError, did_you_mean, nearest, shorten
from ridgeline.api.support.files import is_local, is_refused, resolve
from ridgeline.api.support.masking import mask_text

WILDCARDS = frozenset("*?[")
_TEMPORARY = (".tmp", ".temp", ".part", ".partial", ".crdownload", ".filepart", ".inprogress", ".swp", "~")
_COPYING = "._COPYING_"
"""The ending of a file that Hadoop's shell writes."""
_FRESH = "start on a fresh checkpoint"
_log = logging.getLogger(__name__)


class InputFile(NamedTuple):
    """One file to be read.

    `entry`: the entry of the property `path` that led to it. `path`: its path in that entry's file system.
    `bytes`: its size when it was found. `may_grow`: only those bytes count, and a store that does not answer
    is asked again. Otherwise all partitions must find the same file.
    """

    entry: str
    path: str
    bytes: int
    may_grow: bool = False

    def open(self) -> pa.NativeFile:
        """Open the file for random access. Raises RidgelineError if it is gone or may not be read."""
        try:
            return resolve(self.entry)[0].open_input_file(self.path)
        except OSError as error:
            is_gone = isinstance(error, (FileNotFoundError, PermissionError)) or is_refused(error)
            if self.may_grow and not is_gone:
                raise
            remedy = "leave such files out with `on_error=SKIP`" if self.may_grow else _FRESH
            raise RidgelineError(
                f"file `{self.path}` cannot be opened: {mask_text(str(error))}; "
                f"it was there before: bring it back, or {remedy}"
            ) from error

    def check_size(self, found: int | None = None) -> None:
        """Raise RidgelineError if the size has changed so that other rows would be read."""
        if found is None:
            found = resolve(self.entry)[0].get_file_info(self.path).size
        if found == self.bytes or (self.may_grow and (found or 0) > self.bytes):
            return
        remedy = f"bring it back, or {_FRESH}"
        if self.may_grow:
            remedy = "write files under a temporary name, and rename them once they are whole"
        elif (found or 0) > self.bytes:
            remedy += " (a file that is still written cannot be replayed)"
        raise RidgelineError(
            f"file `{self.path}` has {found or 'no'} bytes, it had {self.bytes} when it was found; {remedy}"
        )


def entries_of(path: str | Path | Sequence[str | Path]) -> list[str]:
    """The entries of a property `path`."""
    return [str(path)] if isinstance(path, str | Path) else list(map(str, path))


def find_files(entries: Sequence[str]) -> list[InputFile]:
    """Find the files of all entries, in the entries' order; those of one folder or pattern by name.

    Raises RidgelineError for an entry without any file, and for a link whose file is not there.
    """
    return [found for entry in entries for found in _find(entry)]


def _find(entry: str) -> list[InputFile]:
    """The files of one entry, by path. Raises as `find_files`."""
    files, path = resolve(entry)
    try:
        infos = infos_of(files, path, local=is_local(entry))
    except OSError as error:
        raise RidgelineError(
            f"`{entry}` cannot be read: {error}; let the user that runs it read there, or give another `path`"
        ) from error
    lost = sorted(info.path for info in infos if info.type == pyarrow.fs.FileType.NotFound)
    if lost:
        raise RidgelineError(
            f"`{lost[0]}` of `{entry}` cannot be read: it is a link to a file that is not there, or was "
            "removed just now; fix or remove it"
        )
    found = [InputFile(entry, info.path, info.size) for info in infos if info.is_file]
    if not found:
        raise RidgelineError(
            f"nothing to replay in `{entry}`: there is no such file, or only ones whose names begin with `.` "
            "or `_`, or end as those of temporary files; give the `path` of a file, a folder or a pattern "
            "such as `data/*.csv`"
        )
    return sorted(found, key=lambda file: file.path)


def infos_of(files: pyarrow.fs.FileSystem, path: str, *, local: bool) -> list[pyarrow.fs.FileInfo]:
    """What a path leads to, a file, a folder or a pattern; none if nothing is there yet. Raises OSError."""
    info = files.get_file_info(path)
    if info.is_file:
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


def listed(files: pyarrow.fs.FileSystem, folder: str, *, local: bool) -> list[pyarrow.fs.FileInfo]:
    """The entries of a folder; of a local one, also links whose files are missing."""
    if local:
        return _named(files, map(str, Path(folder).iterdir()))
    return list(files.get_file_info(pyarrow.fs.FileSelector(folder)))


def matches(files: pyarrow.fs.FileSystem, pattern: str, *, local: bool) -> list[pyarrow.fs.FileInfo]:
    """The files that match a pattern; `**` stands for any depth."""
    if local:
        return _named(files, dict.fromkeys(_local_matches(pattern)))
    parts = PurePosixPath(pattern).parts
    plain = next(number for number, part in enumerate(parts) if WILDCARDS & set(part))
    rest = (*parts[plain:], "*") if parts[-1] == "**" else parts[plain:]
    selector = pyarrow.fs.FileSelector(
        str(PurePosixPath(*parts[:plain])), recursive=len(rest) > 1, allow_not_found=True
    )
    infos = files.get_file_info(selector)
    return [info for info in infos if _fits(PurePosixPath(info.path).parts[plain:], rest)]


def _named(files: pyarrow.fs.FileSystem, paths: Iterable[str]) -> list[pyarrow.fs.FileInfo]:
    """What is known of local files, but for those whose names are not UTF-8."""
    found = [path for path in paths if not _is_left_out(path)]
    return list(files.get_file_info(found)) if found else []


@cache
def _is_left_out(path: str) -> bool:
    """Whether a name is not UTF-8, which a line of the log says once."""
    try:
        path.encode()
    except UnicodeEncodeError:
        shown = os.fsencode(path).decode(errors="backslashreplace")
        _log.warning("left out: `%s`, whose name is not UTF-8; rename it", shown)
        return True
    return False


def _fits(names: Sequence[str], pattern: Sequence[str]) -> bool:
    """True if a path matches a pattern as `glob` has it; `**` stands for any folders but hidden ones."""
    if not pattern or not names:
        return not pattern and not names
    hidden = names[0].startswith(".") and not pattern[0].startswith(".")
    if pattern[0] == "**":
        return _fits(names, pattern[1:]) or (not hidden and _fits(names[1:], pattern))
    return not hidden and fnmatch.fnmatchcase(names[0], pattern[0]) and _fits(names[1:], pattern[1:])


def _local_matches(pattern: str) -> Iterator[str]:
    """The paths that match a pattern, `**` being any depth.

    Unlike `glob`, it does not follow a link to a folder that the link is in: that would read files again.
    """
    before, deep, after = pattern.partition("**/") if "**/" in pattern else pattern.partition("**")
    if not deep or (before and not before.endswith("/")):
        yield from glob.glob(pattern)  # noqa: PTH207  a pattern, not a path
        return
    for top in glob.glob(before) if before else [""]:  # noqa: PTH207
        for folder in _folders(Path(top)):
            yield from _local_matches(f"{glob.escape(str(folder))}/{after or '*'}")


def _folders(top: Path, above: frozenset[Path] = frozenset()) -> Iterator[Path]:
    """A folder and those within it, at any depth, but for hidden ones. `above`: those that it is in."""
    yield top
    here = above | {top.resolve()}
    for folder in sorted(path for path in top.iterdir() if path.is_dir()):
        found = folder.resolve()
        if not any(one.is_relative_to(found) for one in here) and not folder.name.startswith("."):
            yield from _folders(folder, here)


def refuse_folders(file: str, lacking: Iterable[str]) -> None:
    """Raise RidgelineError for a column that a file lacks since it names a folder, which would be null."""
    for name in lacking:
        if f"/{quote(name, safe='')}=" in file:
            msg = f"file `{file}` has no column `{name}`, which is in the name of its folder; "
            raise RidgelineError(msg + "leave it out of `schema`, or read the folders by `SparkInput`")


def checked_columns(file: str, schema: Schema, found: Sequence[str], header: str | None = None) -> list[str]:
    """The columns of a schema that a file has. `header`: the text that names them, if there is one.

    A column that may be null need not be there, unless none is, or the file has one of a similar name. Raises
    RidgelineError for another one that is missing, for one that is there twice, or that names a folder.
    """
    beside = "" if header is None else f" its header is {shorten(header)};"
    names = schema.arrow.names
    refuse_folders(file, [name for name in names if name not in found])
    there = [name for name in names if name in found]
    optional, others = optional_columns(schema), set(found) - set(names)
    for name in names:
        if name not in found and (not there or name not in optional or nearest(name, others)):
            remedy = "so" if header is None else "as the header does, or set `delimiter`"
            raise RidgelineError(
                f"file `{file}` has no column `{name}`;{beside} {did_you_mean(name, found)} "
                f"Name the columns of `schema` {remedy}"
            )
        if found.count(name) > 1:
            remedy = "write it once" if header is None else "rename one of them"
            raise RidgelineError(f"file `{file}` has the column `{name}` twice;{beside} {remedy}")
    return there
