"""The driver's half of `FileOutput`: which segments are published, when, and what a crash leaves behind.

Order of operations, on which exactly once rests. A segment is known by the manifest only (`stage`); the manifest is the commit. `publish`
makes one file of all segments that wait: a hidden file first, then one atomic rename to a name that holds the range of its windows, then a
marker (the last window published), then the segments are deleted. After a crash `open` gets the list from the last manifest; windows that
the marker or a published file covers are published, whatever segments are left of them: the marker, because somebody may have taken the
published file away by then. An orderly end publishes all and removes the hidden folder: where it is missing, nothing waits. All else that
lies in it is of attempts that failed.
"""

from __future__ import annotations

import contextlib
import itertools
import re
import shutil
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.fs
import pyarrow.parquet as pq

from ridgeline.api.errors import RidgelineError
from ridgeline.api.files import resolve
from ridgeline.api.publisher import Publisher, PublisherContext
from ridgeline.operators._window_output import safe_name, write_failure

HIDDEN = ".ridgeline"
"""The folder, within the output's, of all that is not published. Readers of data sets pass over names with a dot in front."""

_ENDINGS = (".parquet", ".jsonl")
_ROW_GROUP_ROWS = 1_048_576
_ROW_GROUP_BYTES = 128 * 2**20


class Settings(NamedTuple):
    """The properties of a `FileOutput`."""

    path: str
    format: str
    roll_seconds: float
    roll_bytes: int
    mode: str


class Segment(NamedTuple):
    """A segment that waits: its window, file name, rows, bytes, and the fingerprint of its schema."""

    window: int
    name: str
    rows: int
    bytes: int
    schema: str


class FilePublisher(Publisher):
    """Turns the segments of committed windows into published files."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._pending: list[Segment] = []
        self._since: float | None = None
        self._waits_since: float | None = None
        self._marked = ""

    def open(self, context: PublisherContext, state: Any) -> None:
        """Take up the list of segments that wait, and clear away what a crash left.

        Raises RidgelineError if the folder cannot be reached or, with `mode="error"`, is not empty.
        """
        self._context = context
        self._files, self._root = resolve(self._settings.path)
        self._prefix = f"{safe_name(context.operator)}-{context.run_id}"
        self._folder = f"{self._root}/{HIDDEN}/{self._prefix}"
        self._merged = f"{self._folder}/merged.tmp"
        self._pending, self._since, self._waits_since, self._marked = [], None, None, ""
        try:
            if state is None:
                self._begin()
            else:
                self._resume(state)
            self._clear({segment.name for segment in self._pending} | {self._marked})
        except OSError as error:
            raise self._failure(error) from error

    def stage(self, window_id: int, values: Sequence[Any]) -> Any:
        """Add the window's segments to those that wait."""
        self._pending = [segment for segment in self._pending if segment.window < window_id]
        self._pending += [Segment(window_id, *value) for value in values]
        if values and not self._marked:
            self._mark(-1)
        self._start_waiting()
        return {
            "path": self._settings.path,
            "format": self._settings.format,
            "waits_since": self._waits_since,
            "pending": [list(segment) for segment in self._pending],
        }

    def publish(self, window_id: int) -> None:
        """Publish what waits, if it is time to. Raises RidgelineError if the file system refuses."""
        if not self._pending:
            return
        waited = self._context.clock.monotonic() - self._start_waiting()
        if waited >= self._settings.roll_seconds or sum(segment.bytes for segment in self._pending) >= self._settings.roll_bytes:
            self._roll()
            with contextlib.suppress(OSError):  # failed attempts' segments: gone at the latest when the run ends
                self._clear({self._marked}, upto=window_id)

    def close(self) -> None:
        """Publish all that waits, and remove the hidden folder."""
        self._roll()
        with contextlib.suppress(OSError):
            self._clear(set())
            for folder in (self._folder, f"{self._root}/{HIDDEN}"):
                if self._exists(folder) and not self._list(folder):
                    self._files.delete_dir(folder)

    def _start_waiting(self) -> float:
        """The monotonic time since which the oldest segment waits; also noted as wall clock time, for the driver after a crash."""
        clock = self._context.clock
        if not self._pending:
            self._since, self._waits_since = None, None
        elif self._since is None:
            self._waits_since = clock.wall() if self._waits_since is None else self._waits_since
            self._since = clock.monotonic() - max(0.0, clock.wall() - self._waits_since)
        return self._since or 0.0

    # A fresh run, and one that goes on ---------------------------------------------------------------------------------

    def _begin(self) -> None:
        """The first start on this checkpoint: what lies in the folder is of others."""
        mode = self._settings.mode
        if mode == "append" or not self._exists(self._root):
            return
        ours = f"-{self._context.run_id}-"
        others = [info for info in self._list(self._root) if ours not in info.base_name and not info.base_name.startswith(".")]
        if mode == "error" and others:
            message = (
                f"`{self._context.operator}`: folder `{self._settings.path}` is not empty, it holds `{others[0].base_name}`; "
                "empty it, give another `path`, or set `mode` to `append` or `overwrite`"
            )
            raise RidgelineError(message)
        if mode == "overwrite":
            for info in others:
                if info.type == pyarrow.fs.FileType.File and info.base_name.endswith(_ENDINGS):
                    self._files.delete_file(info.path)

    def _resume(self, state: Any) -> None:
        """Go on from what the last manifest says. What waits for another folder or format is published there and so."""
        pending = [Segment(*entry) for entry in state["pending"]]
        if (state["path"], state["format"]) != (self._settings.path, self._settings.format):
            if pending:
                before = FilePublisher(self._settings._replace(path=state["path"], format=state["format"], mode="append"))
                before.open(self._context, state)
                before.close()
            return
        if not self._exists(self._folder):
            return
        self._waits_since = state["waits_since"]
        published = list(self._published())
        self._pending = [segment for segment in pending if not any(first <= segment.window <= last for first, last in published)]

    def _published(self) -> Iterator[tuple[int, int]]:
        """Ranges of windows that this run has published: up to the marker, and of each file."""
        for info in self._list(self._folder):
            if found := re.fullmatch(r"published-(-?\d+)", info.base_name):
                self._marked = max(self._marked, info.base_name, key=_window_of)
                yield -1, int(found[1])
        pattern = re.compile(re.escape(self._prefix) + r"-(\d+)-(\d+)\.(parquet|jsonl)")
        for info in self._list(self._root):
            if found := pattern.fullmatch(info.base_name):
                yield int(found[1]), int(found[2])

    def _mark(self, window: int) -> None:
        """Write down, in a file's name, that all windows up to this one are published."""
        before, self._marked = self._marked, f"published-{window}"
        try:
            self._files.create_dir(self._folder, recursive=True)
            self._files.open_output_stream(f"{self._folder}/{self._marked}").close()
            if before not in ("", self._marked):
                self._files.delete_file(f"{self._folder}/{before}")
        except OSError as error:
            raise self._failure(error) from error

    # Publishing --------------------------------------------------------------------------------------------------------

    def _roll(self) -> None:
        """Make one published file of all segments that wait; one for each schema, if it changed while they waited."""
        try:
            while self._pending:
                _, group = next(itertools.groupby(self._pending, key=lambda segment: segment.schema))
                self._publish_file(list(group))
            self._start_waiting()
        except OSError as error:
            with contextlib.suppress(OSError):  # half a file on a full disk
                self._files.delete_file(self._merged)
            raise self._failure(error) from error

    def _publish_file(self, segments: list[Segment]) -> None:
        sources = [f"{self._folder}/{segment.name}" for segment in segments]
        target = f"{self._root}/{self._prefix}-{segments[0].window:010d}-{segments[-1].window:010d}.{self._settings.format}"
        if len(sources) == 1:
            self._files.move(sources[0], target)
        else:
            merged = self._merged
            if self._settings.format == "parquet":
                self._merge_parquet(sources, merged)
            else:
                self._concatenate(sources, merged)
            self._files.move(merged, target)
        self._mark(segments[-1].window)
        del self._pending[: len(segments)]
        for source in sources if len(sources) > 1 else ():
            self._files.delete_file(source)

    def _concatenate(self, sources: Sequence[str], merged: str) -> None:
        with self._files.open_output_stream(merged) as out:
            for source in sources:
                with self._files.open_input_stream(source) as segment:
                    shutil.copyfileobj(segment, out, 2**20)

    def _merge_parquet(self, sources: Sequence[str], merged: str) -> None:
        """All rows in large row groups; holds no more than one of them in memory, and one row group of a segment."""
        with contextlib.ExitStack() as stack:
            out = stack.enter_context(self._files.open_output_stream(merged))
            writer: pq.ParquetWriter | None = None
            waiting: list[pa.Table] = []
            for source in sources:
                with self._files.open_input_file(source) as segment, pq.ParquetFile(segment) as file:
                    for group in range(file.num_row_groups):
                        waiting.append(file.read_row_group(group, use_threads=False))
                        writer = writer or stack.enter_context(pq.ParquetWriter(out, waiting[0].schema, compression="zstd"))
                        rows, size = sum(table.num_rows for table in waiting), sum(table.nbytes for table in waiting)
                        if rows >= _ROW_GROUP_ROWS or size >= _ROW_GROUP_BYTES:
                            writer.write_table(pa.concat_tables(waiting))
                            waiting = []
            if writer is not None and waiting:
                writer.write_table(pa.concat_tables(waiting))

    # The hidden folder -------------------------------------------------------------------------------------------------

    def _clear(self, keep: set[str], upto: int | None = None) -> None:
        """Delete what lies in the hidden folder, but for the names to keep and, if `upto` is given, segments of windows after it."""
        if not self._exists(self._folder):
            return
        for info in self._list(self._folder):
            found = re.match(r"w(\d+)-", info.base_name)
            later = upto is not None and found is not None and int(found[1]) > upto
            if info.base_name not in keep and not later:
                with contextlib.suppress(FileNotFoundError):
                    self._files.delete_file(info.path)

    def _exists(self, path: str) -> bool:
        return bool(self._files.get_file_info(path).type == pyarrow.fs.FileType.Directory)

    def _list(self, folder: str) -> list[pyarrow.fs.FileInfo]:
        return sorted(self._files.get_file_info(pyarrow.fs.FileSelector(folder)), key=lambda info: str(info.path))

    def _failure(self, error: OSError) -> RidgelineError:
        return write_failure(self._context.operator, self._settings.path, error)


def _window_of(marker: str) -> int:
    return int(marker.removeprefix("published-") or -2)
