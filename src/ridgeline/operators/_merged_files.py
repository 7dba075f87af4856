"""Small published files of a `FileOutput` become large ones, in one step for those who read them.

With `merge_seconds` published files lie in folders `<operator>-<run id>-<first window>`. A folder takes files
until they have `merge_bytes` together, or its first one is `merge_seconds` old; the next file begins another
folder. Then it is merged:

1. write all its rows to a file in the hidden folder `merging-e<epoch>`, and sync it;
2. write `rows-<first window>-<last window>` into the hidden folder: how many rows each small file had, for a
   rewind;
3. check that this driver still owns the checkpoint, and that nothing of the folder has changed;
4. exchange the two folders. The system does so in one step;
5. rename the hidden folder, which has the small files now, to `replaced-<n>`, and delete it a minute later. A
   reader that has opened it finds all names until then.

So who lists the names gets the small files, or the large one. Who opens a small file afterwards gets an
error, and lists again. Libraries that look at each file while they list pass over one that has just gone:
`listed` does not. All rows were published before: whatever dies between two steps, either folder has
them. A driver that starts removes both hidden ones of earlier drivers. It renames them first: an earlier
driver that is about to exchange finds nothing then.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import re
from collections.abc import Sequence
from typing import NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from ridgeline.api.errors import RidgelineError
from ridgeline.api.publisher import PublisherContext
from ridgeline.connect.output_files import OutputFiles, SummedStream

MERGED = "-merged"
"""The end of a merged file's name, before that of its format."""
_FOLDER = re.compile(r".+-[^-]+-\d{10}")
_FILE = re.compile(rf".+-[^-]+-\d{{10}}-\d{{10}}(?:{MERGED})?\.(?:parquet|jsonl)")
_KEPT_SECONDS = 60.0
_NOTES_KEPT = 16
"""How many merged files a rewind can cut."""
_ROW_GROUP_ROWS = 1_048_576
_ROW_GROUP_BYTES = 128 * 2**20


class Rule(NamedTuple):
    """When published files are merged: `seconds` after the first one, or with so many bytes together."""

    seconds: float
    bytes: int


class Published(NamedTuple):
    """A published file: its path below the output's folder, and its windows."""

    path: str
    first: int
    last: int

    @property
    def is_merged(self) -> bool:
        """Whether it was made of others."""
        return MERGED in self.path


def published(files: OutputFiles, prefix: str, format: str = "(?:parquet|jsonl)") -> list[Published]:
    """The published files of a run that are there, also those in folders. Raises OSError."""
    pattern = re.compile(rf"{re.escape(prefix)}-(\d+)-(\d+)(?:{MERGED})?\.{format}")
    own = re.compile(re.escape(prefix) + r"-\d{10}")
    found: list[Published] = []
    for name in files.names(files.root):
        inner = (
            [f"{name}/{one}" for one in files.names(f"{files.root}/{name}")] if own.fullmatch(name) else []
        )
        found += [
            Published(path, int(windows[1]), int(windows[2]))
            for path in inner or [name]
            if (windows := pattern.fullmatch(path.rpartition("/")[2]))
        ]
    return found


def listed(files: OutputFiles) -> list[str]:
    """The paths of the published files of all runs below a folder. Raises OSError."""
    return sorted(path for path in files.walk(files.root) if _FILE.fullmatch(path.rpartition("/")[2]))


def remove_folders(files: OutputFiles, others: Sequence[str], endings: tuple[str, ...]) -> None:
    """Remove the files in folders of other runs, and the folders if nothing else is in them."""
    for folder in others:
        if _FOLDER.fullmatch(folder) and files.is_folder(f"{files.root}/{folder}"):
            names = files.names(f"{files.root}/{folder}")
            for name in names:
                if name.endswith(endings):
                    files.delete(f"{files.root}/{folder}/{name}")
            if all(name.endswith(endings) for name in names):
                files.remove_folder(f"{files.root}/{folder}")


def rows_of_merged(
    files: OutputFiles, folder: str, first: int, last: int
) -> list[tuple[int, int, int]] | None:
    """First window, last window and rows of the files that a merged one was made of; None: not known."""
    try:
        found = json.loads(files.read(f"{folder}/{_rows_name(first, last)}").to_pybytes())
    except (FileNotFoundError, ValueError):
        return None
    return [(one[0], one[1], one[2]) for one in found]


def _rows_name(first: int, last: int) -> str:
    return f"rows-{first}-{last}"


class MergedFiles:
    """The folders of published files of a publisher. Methods raise OSError, FencedError.

    `hidden`: the publisher's hidden folder, which exists.
    """

    def __init__(
        self,
        files: OutputFiles,
        hidden: str,
        prefix: str,
        rule: Rule,
        format: str,
        context: PublisherContext,
    ) -> None:
        self._files, self._hidden, self._prefix, self._context = files, hidden, prefix, context
        self._rule, self._format = rule, format
        self._making = f"{hidden}/merging-e{context.epoch}"
        self._open: str | None = None
        """The folder that takes files."""
        self._bytes = 0
        self._since: float | None = None
        self._waits: list[str] = []
        """Folders that take no more, and are not merged."""
        self._replaced: list[tuple[float, str]] = []
        """Paths of folders with small files that were merged, and when they may go."""

    def start(self) -> None:
        """Clear what earlier drivers left, and find the folders that are there.

        Raises RidgelineError where two folders cannot be exchanged in one step.
        """
        self._clear()
        one, other = self._making, f"{self._hidden}/replaced-e{self._context.epoch}"
        for folder in (one, other):
            self._files.make_folder(folder)
        try:
            self._files.exchange(one, other)
        except OSError as error:
            self._context.check_owner()
            where = (
                f"`{self._context.operator}`: `merge_seconds` needs a local disk of Linux that can exchange"
            )
            what = f"two folders in one step, and the one of `{self._files.root}` cannot ({error})"
            remedy = "leave it out, with a larger `roll_seconds`, or write a table with `DeltaOutput`"
            raise RidgelineError(f"{where} {what}; {remedy}") from error
        finally:
            for folder in (one, other):
                self._files.remove_folder(folder)
        folders: dict[str, list[Published]] = {}
        for file in published(self._files, self._prefix):
            folder, slash, _ = file.path.rpartition("/")
            if slash:
                folders.setdefault(folder, []).append(file)
        for folder, inside in folders.items():
            if len(inside) > 1 and not any(file.is_merged for file in inside):
                self._waits.append(folder)
        last = max(folders, default=None)
        if last is not None and not any(file.is_merged for file in folders[last]):
            self._waits = [folder for folder in self._waits if folder != last]
            sizes = self._files.sizes(f"{self._files.root}/{last}")
            self._take(last, sum(sizes.values()))

    def folder(self, first: int) -> str:
        """The path of the folder for a file that begins with a window. It is made if need be."""
        if self._open is None:
            self._take(f"{self._prefix}-{first:010d}", 0)
        path = f"{self._files.root}/{self._open}"
        self._files.make_folder(path)
        self._files.sync(self._files.root)
        return path

    def found(self, name: str) -> bool:
        """Whether a file of this name was published, in any of the folders."""
        return any(file.path.rpartition("/")[2] == name for file in published(self._files, self._prefix))

    def added(self, size: int) -> None:
        """A file of so many bytes is in the open folder."""
        self._bytes += size
        if self._bytes >= self._rule.bytes:
            self._close_open()

    def merge(self) -> None:
        """Merge the folders that are due, and delete those that were replaced a while ago."""
        now = self._context.clock.monotonic()
        if self._since is not None and now - self._since >= self._rule.seconds:
            self._close_open()
        while self._waits:
            folder = self._waits.pop(0)
            try:
                self._merge(folder)
            except (OSError, pa.ArrowInvalid, _ChangedError) as error:
                self._context.check_owner()
                with contextlib.suppress(OSError):
                    self._files.remove_folder(self._making)
                what = f"the files in `{self._files.root}/{folder}` are not merged: {error}"
                self._context.warn(f"`{self._context.operator}`: {what}; they stay as they are")
        while self._replaced and self._replaced[0][0] <= now:
            self._files.remove_folder(self._replaced.pop(0)[1])

    def end(self) -> None:
        """Delete the folders that were replaced."""
        for _, path in self._replaced:
            self._files.remove_folder(path)
        self._replaced.clear()

    def _take(self, folder: str, size: int) -> None:
        self._open, self._bytes, self._since = folder, size, self._context.clock.monotonic()

    def _close_open(self) -> None:
        if self._open is not None:
            self._waits.append(self._open)
        self._open, self._since = None, None

    def _merge(self, folder: str) -> None:
        """Merge the files of a folder, unless it has one only.

        Raises _ChangedError if there are other files in it, or if some were taken away meanwhile.
        """
        path = f"{self._files.root}/{folder}"
        before = self._files.sizes(path)
        small = sorted(
            (file for file in published(self._files, self._prefix) if file.path.startswith(f"{folder}/")),
            key=lambda file: file.first,
        )
        if any(file.is_merged for file in small):
            return
        names = {file.path.rpartition("/")[2] for file in small if file.path.endswith(self._format)}
        if names != before.keys():
            other = min(before.keys() ^ names)
            raise _ChangedError(f"`{other}` is not of this output")
        groups = self._groups(small)
        if len(groups) == len(small):
            return
        self._files.make_folder(self._making)
        for name, inside in groups:
            rows = self._write(f"{self._making}/{name}", inside)
            with self._files.writing(f"{self._hidden}/{_rows_name(inside[0].first, inside[-1].last)}") as out:
                out.write(json.dumps(rows).encode())
        self._files.sync(self._making)
        self._files.sync(self._hidden)
        self._context.check_owner()
        if self._files.sizes(path) != before:
            raise _ChangedError("some were changed or taken away meanwhile")
        self._files.exchange(self._making, path)
        for name in self._files.sizes(self._making).keys() - before.keys():  # by a driver that was overtaken
            self._files.move(f"{self._making}/{name}", f"{path}/{name}")
        self._files.sync(path)
        self._files.sync(self._files.root)
        replaced = f"{self._hidden}/replaced-{small[0].first}"
        self._files.move(self._making, replaced)
        self._replaced.append((self._context.clock.monotonic() + _KEPT_SECONDS, replaced))
        notes = [name for name in self._files.sizes(self._hidden) if name.startswith("rows-")]
        for name in sorted(notes, key=lambda name: int(name.split("-")[1]))[:-_NOTES_KEPT]:
            self._files.delete(f"{self._hidden}/{name}")

    def _groups(self, small: Sequence[Published]) -> list[tuple[str, list[Published]]]:
        """The files that become one, by the name of that one: consecutive ones with the same columns."""
        groups = [list(small)]
        if self._format == "parquet":
            schemas = {file: pq.read_schema(self._source(file)) for file in small}
            groups = [list(group) for _, group in itertools.groupby(small, key=lambda file: schemas[file])]
        found = []
        for group in groups:
            end = f"{group[-1].last:010d}{MERGED}.{self._format}"
            found.append((f"{self._prefix}-{group[0].first:010d}-{end}", group))
        return found

    def _source(self, file: Published) -> pa.BufferReader:
        return pa.BufferReader(self._files.read(f"{self._files.root}/{file.path}"))

    def _write(self, path: str, small: Sequence[Published]) -> list[tuple[int, int, int]]:
        """Write the rows of files to one. Returns windows and rows of each."""
        with self._files.writing(path) as out:
            if self._format == "parquet":
                return self._write_parquet(out, small)
            rows = []
            for file in small:
                lines = 0
                with self._files.reading(f"{self._files.root}/{file.path}") as stream:
                    while chunk := stream.read(1 << 20):
                        lines += chunk.count(b"\n")
                        out.write(chunk)
                rows.append((file.first, file.last, lines))
            return rows

    def _write_parquet(self, out: SummedStream, small: Sequence[Published]) -> list[tuple[int, int, int]]:
        """The same for Parquet, in large row groups; one of them and one small file are in memory."""
        rows, waiting, writer = [], list[pa.Table](), None
        with contextlib.ExitStack() as stack:
            for file in small:
                with pq.ParquetFile(self._source(file)) as source:
                    rows.append((file.first, file.last, source.metadata.num_rows))
                    writer = writer or stack.enter_context(
                        pq.ParquetWriter(out, source.schema_arrow, compression="zstd")
                    )
                    for group in range(source.num_row_groups):
                        waiting.append(source.read_row_group(group, use_threads=False))
                        if (
                            sum(table.num_rows for table in waiting) >= _ROW_GROUP_ROWS
                            or sum(table.nbytes for table in waiting) >= _ROW_GROUP_BYTES
                        ):
                            writer.write_table(pa.concat_tables(waiting))
                            waiting.clear()
            if writer is not None and waiting:
                writer.write_table(pa.concat_tables(waiting))
        return rows

    def _clear(self) -> None:
        """Remove the hidden folders of earlier drivers."""
        left = [name for name in self._files.names(self._hidden) if re.match(r"merging-e|replaced-", name)]
        if not left:
            return
        self._context.check_owner()
        for number, name in enumerate(left):
            path = f"{self._hidden}/{name}"
            if name.startswith("merging-e"):
                moved = f"{self._hidden}/replaced-e{self._context.epoch}-{number}"
                with contextlib.suppress(FileNotFoundError):
                    self._files.move(path, moved)
                path = moved
            self._files.remove_folder(path)


class _ChangedError(Exception):
    """A folder is not as its publisher has left it."""
