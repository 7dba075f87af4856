"""Segments: the rows of a window and partition as a hidden file; the marker of what readers can see."""

from __future__ import annotations

import contextlib
import re
import zlib
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from ridgeline.api.errors import RidgelineError
from ridgeline.api.publisher import PublisherContext
from ridgeline.connect.output_files import OutputFiles, SummedStream

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


def clear(
    files: OutputFiles,
    folder: str,
    segments: Sequence[Segment],
    is_left_over: Callable[[str], bool],
    context: PublisherContext,
) -> None:
    """Delete the files that are left over in a publisher's folder, if this driver still owns the checkpoint.

    Not those of `segments`, which are still to be published. Raises FencedError, OSError.
    """
    kept = {segment.name for segment in segments}
    names = [name for name in files.sizes(folder) if name not in kept and is_left_over(name)]
    if names:
        context.check_owner()
    for name in names:
        files.delete(f"{folder}/{name}")


def lost_rows(
    operator: str, folder: str, segment: Segment, what: str, remedy: str, marker: str
) -> RidgelineError:
    """The error of a publisher for a missing or damaged segment.

    `marker`: the empty file that makes the publisher skip these rows.
    """
    rows = f"`{folder}/{segment.name}`, committed rows of window {segment.window}"
    give_up = f"to give these rows up, create the empty file `{marker}`"
    return RidgelineError(f"`{operator}`: {rows}, is damaged: {what}; {remedy}; {give_up}")


def merge(
    files: OutputFiles, folder: str, segments: Sequence[Segment], out: SummedStream, format: str
) -> None:
    """Write the rows of all segments to a stream, and check them. Raises DamagedError, OSError."""
    if format == "parquet":
        _merge_parquet(files, folder, segments, out)
        return
    for segment in segments:
        found = files.copy_into(f"{folder}/{segment.name}", segment.name, out)
        _check(segment, found)


def check(files: OutputFiles, folder: str, segment: Segment) -> None:
    """Read a whole segment and compare its checksum. Raises DamagedError, OSError."""
    _check(segment, files.checksum(f"{folder}/{segment.name}", segment.name))


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
