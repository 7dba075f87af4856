"""Segments: the rows of a window and partition as a hidden file; the marker of what readers can see.

`SegmentPublisher` is what the publishers of files and of Spark share.
"""

from __future__ import annotations

import contextlib
import re
import zlib
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from ridgeline.api.errors import RidgelineError
from ridgeline.api.publisher import Publisher, PublisherContext
from ridgeline.connect.output_files import OutputFiles, SummedStream
from ridgeline.connect.window_output import explaining, publish_failure

_ROW_GROUP_ROWS = 1_048_576
_ROW_GROUP_BYTES = 128 * 2**20


class Segment(NamedTuple):
    """An unpublished segment. `schema`: a fingerprint; `crc32`: of its name and bytes.

    `folder`: in which its rows are published, within the output's; "": in that itself.
    """

    window: int
    name: str
    rows: int
    bytes: int
    schema: str
    crc32: int
    folder: str = ""


class DamagedError(Exception):
    """The bytes of a segment differ from those written."""

    def __init__(self, segment: Segment, crc32: int) -> None:
        super().__init__(
            f"the checksum of its {segment.bytes} bytes is {crc32:08x}, "
            f"it was written with {segment.crc32:08x}"
        )
        self.segment = segment


def merge(
    files: OutputFiles, folder: str, segments: Sequence[Segment], out: SummedStream, format: str
) -> None:
    """Write the rows of all segments to a stream, and check them. Raises DamagedError, OSError."""
    if format == "parquet":
        _merge_parquet(files, folder, segments, out)
        return
    for segment in segments:
        check(files, folder, segment, out)


def check(files: OutputFiles, folder: str, segment: Segment, out: SummedStream | None = None) -> None:
    """Read a whole segment and compare its checksum; copy it to a stream, if one is given.

    Raises DamagedError, OSError.
    """
    _check(segment, files.checksum(f"{folder}/{segment.name}", segment.name, out))


def _check(segment: Segment, crc32: int) -> None:
    if crc32 != segment.crc32:
        raise DamagedError(segment, crc32)


def _merge_parquet(files: OutputFiles, folder: str, segments: Sequence[Segment], out: SummedStream) -> None:
    """Write all rows in large row groups; holds one row group and the bytes of one segment in memory."""
    with contextlib.ExitStack() as stack:
        writer: pq.ParquetWriter | None = None
        waiting: list[pa.Table] = []
        for segment in segments:
            data = files.read(f"{folder}/{segment.name}")
            _check(segment, zlib.crc32(data, zlib.crc32(segment.name.encode())))
            with pq.ParquetFile(pa.BufferReader(data)) as file:
                for group in range(file.num_row_groups):
                    waiting.append(file.read_row_group(group, use_threads=False))
                    writer = writer or stack.enter_context(
                        pq.ParquetWriter(out, waiting[0].schema, compression="zstd")
                    )
                    rows, size = (
                        sum(table.num_rows for table in waiting),
                        sum(table.nbytes for table in waiting),
                    )
                    if rows >= _ROW_GROUP_ROWS or size >= _ROW_GROUP_BYTES:
                        writer.write_table(pa.concat_tables(waiting))
                        waiting = []
        if writer is not None and waiting:
            writer.write_table(pa.concat_tables(waiting))


class Marker:
    """The file `<name>-<window>` in a folder, renamed for each window. It exists once `make` returned.

    Methods raise OSError.
    """

    def __init__(self, files: OutputFiles, folder: str, name: str) -> None:
        self._files, self._folder, self._name = files, folder, name
        self.window = -1

    def path(self, window: int) -> str:
        """The marker's path for a window (-1: before the first)."""
        return f"{self._folder}/{self._name}-{window}"

    def find(self, names: Iterable[str]) -> int | None:
        """Find the marker's window among the file names of its folder; None if it is missing. Sets `window`.

        After a crash an older marker may be left; the newest one counts.
        """
        found = max((window for name in names if (window := self.window_of(name)) is not None), default=None)
        self.window = -1 if found is None else found
        return found

    def window_of(self, name: str) -> int | None:
        """The window in the name of a marker; None for another name."""
        found = re.fullmatch(re.escape(self._name) + r"-(-?\d+)", name)
        return int(found[1]) if found else None

    def make(self, window: int) -> None:
        """Create the folder and the marker in it; both survive a power cut once this returns."""
        self._files.make_folder(self._folder)
        self._files.touch(self.path(window))
        self.window = window
        self._files.sync(self._folder)
        self._files.sync_above(self._folder)

    def move(self, window: int) -> None:
        """Rename the marker to a window. A driver that was fenced off may already have done the same."""
        if window == self.window:  # a store copies, then deletes
            return
        try:
            self._files.move(self.path(self.window), self.path(window))
        except OSError:
            if not self._files.is_file(self.path(window)):
                raise
        self.window = window


class SegmentPublisher(Publisher):
    """The base of publishers whose rows wait as segments in a folder, until a marker says that they are out.

    A segment is staged once the manifest of its window names it. Once its rows are out the marker moves to
    its window, then it is deleted. So after a crash the marker says which segments of a manifest still wait.
    """

    restored = "restore the file from a copy and start again"
    """What is to be done about a segment that is lost."""

    def _enter(self, context: PublisherContext, uri: str, folder: str, marker: str, state: Any) -> None:
        """Find the folder, within `uri`, and begin with no segment. Called by `open`."""
        self._context, self._uri = context, uri
        self._files = OutputFiles(uri)
        self._folder = f"{self._files.root}/{folder}"
        self._marker = Marker(self._files, self._folder, marker)
        self._window: int = state["window"] if state else context.committed
        """The last window that is committed, or staged."""
        self._pending: list[Segment] = []
        """The segments that wait, by window."""
        self._synced: int | None = None
        """Where the marker was when its folder was last synced; None: it is not known."""

    def _staged(self, window_id: int, values: Sequence[Any]) -> list[Segment]:
        """The segments that partitions have handed over; their names outlive a power cut.

        Raises RidgelineError if one is missing, or the file system refuses.
        """
        staged = [Segment(window_id, *value) for value in values]
        with explaining(self._failure):
            for segment in staged:
                if not self._files.holds(f"{self._folder}/{segment.name}", segment.bytes):
                    raise FileNotFoundError(f"{self._folder}/{segment.name}")
            if staged or self._marker.window != self._synced:  # the record must not outlive what it names
                self._files.sync(self._folder)
                self._synced = self._marker.window
        return staged

    def _let_go(self, window: int) -> None:
        """The rows of all segments are out, up to a window: move the marker, delete them. Raises OSError."""
        if self._pending:
            self._marker.move(window)
        done, self._pending = self._pending, []
        for segment in done:
            self._files.delete(f"{self._folder}/{segment.name}")

    def _clear(self) -> None:
        """Delete segments of failed attempts up to the last committed window, and what else is left over.

        Segments of later windows stay: a driver that is being fenced off may be about to commit one of them.
        Raises FencedError, OSError.
        """
        kept = {segment.name for segment in self._pending}
        names = [name for name in self._files.sizes(self._folder) if name not in kept]
        names = [name for name in names if self._is_left_over(name)]
        if names:
            self._context.check_owner()
        for name in names:
            self._files.delete(f"{self._folder}/{name}")

    def _is_left_over(self, name: str) -> bool:
        """True if a file of the folder is needed no more, by its name; unknown names stay."""
        if (marker := self._marker.window_of(name)) is not None:
            return marker < self._marker.window
        segment = re.fullmatch(r"w(\d+)-.*\.(?:segment|parquet)", name)
        return segment is not None and int(segment[1]) <= self._window

    def _lost(self, segment: Segment, what: str) -> RidgelineError:
        """The error for a committed segment that is missing or damaged."""
        rows = f"`{self._folder}/{segment.name}`, committed rows of window {segment.window}"
        give_up = f"to give these rows up, create the empty file `{self._marker.path(self._window)}`"
        operator = self._context.operator
        return RidgelineError(f"`{operator}`: {rows}, is damaged: {what}; {self.restored}; {give_up}")

    def _failure(self, error: OSError) -> RidgelineError:
        """The error for one of the file system.

        Raises FencedError if another driver has taken over: then its work is the cause.
        """
        self._context.check_owner()
        return publish_failure(self._context.operator, self._uri, error)
