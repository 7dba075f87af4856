"""The driver's part of `FileOutput`: which segments are published, when, and what is left after a crash.

Exactly once rests on the order of operations. Only the manifest names segments (`stage`), and the manifest is
the commit. Names and contents of published files are decided before they appear: in the manifest (`rolls`),
or between windows by an empty file `rolling-<last committed window>`. All unpublished segments as of that
window are published together. So two drivers that both publish make the same files, with the same names,
from the same segments. To publish:

1. merge the segments into a hidden file `merged-e<epoch>.tmp`, checking them, and sync it (a single segment
   is checked and renamed);
2. check that this driver still owns the checkpoint;
3. rename the file to `<operator>-<run id>-<first window>-<last window>.<format>`, and sync the folder;
4. do the same for each folder of `partition_by`, and for each schema;
5. rename the marker `published-<window>`;
6. delete the segments.

A driver that starts takes the next epoch, deletes the `.tmp` files of earlier ones, and looks for what is
published. An earlier driver that passed step 2 has by then renamed its file in step 3, or fails to. Windows
up to the marker, or in its folder up to a published file's last window, are published, whatever segments are
left. The
marker is needed because readers may remove the files. The hidden folder and the marker are created at the
first start of a run and stay. Where they are missing, the folder is not the one that the run has written to.
"""

from __future__ import annotations

import contextlib
import io
import itertools
import re
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import quote, unquote

import pyarrow as pa
import pyarrow.parquet as pq
from rich.text import Text

from ridgeline.api.errors import RidgelineError
from ridgeline.api.publisher import PublisherContext
from ridgeline.api.support.files import StoreAwayError
from ridgeline.api.support.masking import mask_text
from ridgeline.api.support.secrets.addresses import mask_addresses
from ridgeline.connect.output_files import OutputFiles, SummedStream
from ridgeline.connect.window_output import GONE, explaining, other_copy, safe_name
from ridgeline.operators._segments import DamagedError, Segment, SegmentPublisher, check, merge

if TYPE_CHECKING:
    from ridgeline.operators.file_output import FileOutput


class Published(NamedTuple):
    """A published file: its folder within the output's, its name with that, and its windows."""

    folder: str
    name: str
    first: int
    last: int


def published(names: Sequence[str], prefix: str, format: str = "(?:parquet|jsonl)") -> list[Published]:
    """The published files of a run among these names."""
    pattern = re.compile(rf"(?:(.+)/)?{re.escape(prefix)}-(\d+)-(\d+)\.{format}")
    found = [(name, pattern.fullmatch(name)) for name in names]
    return [Published(one[1] or "", name, int(one[2]), int(one[3])) for name, one in found if one]


class Rewound(NamedTuple):
    """A rewind, as a state has it: back from window `last` to window `to`.

    `rows`: the windows whose rows were not published as of `to`, each with how many there were, and the
    folder. None: the output was not there then, so a file with rows of both is not its own.
    """

    to: int
    last: int
    rows: Sequence[tuple[int, int, str]] | None


def take_back(
    files: OutputFiles, folder: str, prefix: str, format: str, rewound: Rewound, context: PublisherContext
) -> None:
    """Remove published files of windows after `to`, and cut the one that has rows of both.

    `prefix`: with it the names of the files begin. Files that readers have taken away are theirs. Raises
    RidgelineError if a file to be cut is not as it was published, FencedError, OSError.
    """
    for file in published(_shown(files), prefix, format):
        if not rewound.to < file.last <= rewound.last:
            continue
        if file.first <= rewound.to:
            if rewound.rows is None:
                continue
            own = [(window, rows) for window, rows, folder in rewound.rows if folder == file.folder]
            kept = [(window, rows) for window, rows in own if window >= file.first]
            last = kept[-1][0] if kept else rewound.to
            unfinished = f"{folder}/merged-e{context.epoch}.tmp"
            _cut(files, f"{files.root}/{file.name}", unfinished, sum(rows for _, rows in kept))
            name = f"{prefix}-{file.first:010d}-{last:010d}.{format}"
            name = quote(f"{file.folder}/{name}" if file.folder else name, safe="")
            files.move(unfinished, f"{folder}/rewound-{name}")
            files.sync(folder)
        context.check_owner()
        files.delete(f"{files.root}/{file.name}")
        files.sync(f"{files.root}/{file.folder}")
    for name in files.names(folder):
        if name.startswith("rewound-"):
            target = f"{files.root}/{unquote(name.removeprefix('rewound-'))}"
            context.check_owner()
            files.move(f"{folder}/{name}", target)
            files.sync(target.rpartition("/")[0])


def _shown(files: OutputFiles) -> list[str]:
    """The files at any depth that readers see."""
    return [name for name in files.below(files.root) if not any(map(_is_hidden, name.split("/")))]


def _is_hidden(name: str) -> bool:
    return name.startswith(".")


def _cut(files: OutputFiles, source: str, target: str, rows: int) -> None:
    """Write the first rows of a file into another one."""
    with files.writing(target) as out:
        if source.endswith(".parquet"):
            found = _cut_parquet(files.read(source), out, rows)
        else:
            found = 0
            with io.BufferedReader(files.reading(source)) as lines:
                for line in itertools.islice(lines, rows):
                    out.write(line)
                    found += line.endswith(b"\n")  # else the file was cut in the middle of a row
    if found < rows:
        raise RidgelineError(
            f"`{source}` has {found} rows of windows up to that to which the run was rewound, it was "
            f"published with {rows}; restore the file from a copy and start again, or delete it"
        )


def _cut_parquet(data: pa.Buffer, out: SummedStream, rows: int) -> int:
    """The same for Parquet, by row groups; returns how many rows there were of those wanted."""
    found = 0
    with (
        pq.ParquetFile(pa.BufferReader(data)) as file,
        pq.ParquetWriter(out, file.schema_arrow, compression="zstd") as writer,
    ):
        for group in range(file.num_row_groups):
            if found < rows:
                table = file.read_row_group(group, use_threads=False).slice(0, rows - found)
                writer.write_table(table)
                found += table.num_rows
    return found


HIDDEN = ".ridgeline"
"""The folder, within the output's, of all that is not published.

Readers of data sets pass over names with a dot in front.
"""


class FilePublisher(SegmentPublisher):
    """Turns the segments of committed windows into published files. Runs on the driver."""

    groups_windows = True
    only_files = True

    def __init__(self, output: FileOutput, path: str, format: str) -> None:
        """`path`, `format`: those of `output`, or those that it had before."""
        self._output, self._path, self._format = output, path, format
        self._found = False
        """Whether its folder was there once: without it later, a mount is gone."""

    def place(self) -> str:
        """The folder, and in which format."""
        where = "folders of " if self._output.partition_by else ""
        return f"{self._format} files in {where}{self._path}"

    def open(self, context: PublisherContext, state: Any) -> None:
        """Load the list of unpublished segments, and delete what a crash left.

        Raises RidgelineError if the folder cannot be reached, or is not the one of the checkpoint's run.
        """
        self._prefix = f"{safe_name(context.operator)}-{context.run_id}"
        self._enter(context, self._path, f"{HIDDEN}/{self._prefix}", "published", state)
        self._root = self._files.root
        self._merged = f"{self._folder}/merged-e{context.epoch}.tmp"
        self._intended = False
        """Whether the manifest, or a file `rolling-<window>`, says that all that waits is published."""
        self._renamed: set[str] = set()
        """The published files that have their names, and whose segments are there still."""
        self._last = -1
        """The last window of any published file, if some folders lack theirs: a driver died in between."""
        self._since: float | None = None
        self._waits_since: float | None = None
        with explaining(self._failure):
            if state is None:
                self._mention_other_runs()
                self._make_folder()
            elif self._is_here(state):
                self._resume(state)
            else:
                self._finish_before(state)
                self._make_folder()
            self._clear()
        self._found = True

    def _is_here(self, state: Any) -> bool:
        """Whether a state is of this path, format and name."""
        return (state["path"], state["format"], state["name"]) == (
            self._path,
            self._format,
            self._context.operator,
        )

    def stage(self, window_id: int, values: Sequence[Any]) -> Any:
        """Add the window's segments to the unpublished ones, and decide whether to publish with this window.

        Returns the state that the manifest keeps. Raises RidgelineError if partitions wrote different
        columns, if a segment is missing, or if the file system refuses.
        """
        staged = self._staged(window_id, values)
        if len({segment.schema for segment in staged}) > 1:
            raise RidgelineError(
                f"`{self._context.operator}`: its partitions wrote different columns in window {window_id}; "
                "give its input one schema"
            )
        self._pending = [segment for segment in self._pending if segment.window < window_id] + staged
        self._intended = bool(self._pending) and self._is_due()
        return self._state(window_id, self._pending, rolls=self._intended)

    def _state(self, window_id: int, pending: Sequence[Segment], *, rolls: bool = False, **more: Any) -> Any:
        """The state after a window in which these segments waited."""
        return {
            "window": window_id,
            "name": self._context.operator,
            "path": self._path,
            "format": self._format,
            "published": self._marker.window,
            "rolls": rolls,
            "waits_since": self._waits_since if pending else None,
            "pending": [list(segment) for segment in pending],
            **more,
        }

    def publish(self, window_id: int) -> None:
        """Publish the segments if the manifest says so, or if they are due.

        Raises RidgelineError if the file system refuses or a segment is damaged.
        """
        self._window = window_id
        self.idle()

    def idle(self) -> None:
        """Publish the segments if they are due. Called between windows."""
        if self._pending and (self._intended or self._is_due()):
            self._roll()

    @property
    def visible(self) -> int | None:
        """The last window whose rows readers see; None if all committed windows are published."""
        return self._pending[0].window - 1 if self._pending else None

    def close(self) -> None:
        """Publish all segments."""
        if self._pending:
            self._roll()
        with contextlib.suppress(OSError):
            self._clear()

    def _is_due(self) -> bool:
        """True if the oldest segment is `roll_seconds` old, or all together have `roll_bytes`."""
        clock = self._context.clock
        if self._since is None:
            self._waits_since = clock.wall() if self._waits_since is None else self._waits_since
            self._since = clock.monotonic() - max(0.0, clock.wall() - self._waits_since)
        waited = clock.monotonic() - self._since
        return (
            waited >= self._output.roll_seconds
            or sum(segment.bytes for segment in self._pending) >= self._output.roll_bytes
        )

    def rewind(self, window_id: int, state: Any, at: int) -> Any:
        """Say which files are to be taken back; the next `open` does it.

        Raises RidgelineError if `path` or `format` was another one.
        """
        if state and not self._is_here(state):
            raise RidgelineError(
                f"`{self._context.operator}` has another name, `path` or `format` than in window {window_id},"
                " so its files would stay"
            )
        waited = [Segment(*entry) for entry in state["pending"]] if state else []
        pending = [segment for segment in self._pending if segment.window <= window_id]
        if self._files.is_folder(self._folder):
            self._files.sync(self._folder)  # the record names where the marker is
        rows = [(one.window, one.rows, one.folder) for one in waited] if state else None
        return self._state(at, pending, rewound=list(Rewound(window_id, self._window, rows)))

    # A fresh run, and a continued one -----------------------------------------------------------------------

    def _mention_other_runs(self) -> None:
        """Print which other runs of this operator wrote to the folder: their checkpoint may be lost."""
        run = re.compile(re.escape(self._prefix.removesuffix(self._context.run_id)) + r"[^-]+")
        for name in self._files.names(f"{self._root}/{HIDDEN}"):
            if name == self._prefix or not run.fullmatch(name):
                continue
            found = "; this run has a new checkpoint, so it adds its output to that one"
            left = self._files.names(f"{self._root}/{HIDDEN}/{name}")
            if waiting := sum(file.endswith(".segment") for file in left):
                start = "start that run's `--checkpoint` to publish them"
                found = f", with {waiting} unpublished segments; {start}"
            what = f"folder `{self._path}` holds the output of another run, `{name}`"
            text = f"`{self._context.operator}`: {what}{found}"
            self._context.console.print(Text(mask_addresses(text), "yellow"), soft_wrap=True)

    def _make_folder(self) -> None:
        """Create the hidden folder and its marker; windows committed before count as published."""
        self._marker.find(self._files.names(self._folder))
        self._check_not_beyond(self._marker.window)
        self._marker.make(self._window)

    def _finish_before(self, state: Any) -> None:
        """After a change of path, format or name: publish the segments as it would have been done before."""
        if state["pending"] or state["path"] == self._path or "rewound" in state:
            before = FilePublisher(self._output, state["path"], state["format"])
            before.open(replace(self._context, operator=state["name"]), state)
            before.close()

    def _resume(self, state: Any) -> None:
        """Continue from the state in the last manifest.

        Raises RidgelineError if the folder is missing, older or newer than the checkpoint, or if a segment is
        lost.
        """
        # before the published files: a segment that is missing here is in one of them
        hidden = self._files.sizes(self._folder)
        marked = self._marker.find(hidden)
        self._pending = [Segment(*entry) for entry in state["pending"]]
        if marked is None:
            raise self._gone()
        if marked < state["published"]:
            what = f"output folder `{self._path}` is older than the checkpoint; windows up to "
            what += f"{state['published']} were published, its marker is at {marked}"
            raise other_copy(self._context.operator, what, "folder", " and `path`")
        if "rewound" in state:
            rewound, own = Rewound(*state["rewound"]), (self._prefix, self._format)
            take_back(self._files, self._folder, *own, rewound, self._context)
        folders = {"", *(segment.folder for segment in self._pending)}
        covered = {folder: max([marked, *self._last_windows(folder)]) for folder in folders}
        most = max(covered.values())
        self._check_not_beyond(most)
        self._pending = [one for one in self._pending if one.window > covered[one.folder]]
        for segment in self._pending:
            if segment.name not in hidden:
                raise self._lost(segment, "it is missing")
            if (found := hidden[segment.name]) != segment.bytes:
                raise self._lost(segment, f"it has {found} bytes, it was written with {segment.bytes}")
        if most > marked:
            self._last = most
            for folder, last in covered.items():
                if last > marked:  # the driver that has renamed the file may have died before
                    self._files.sync(self._place(folder))
            self._marker.move(min([most, *(one.window - 1 for one in self._pending[:1])]))
        self._waits_since = state["waits_since"] if self._pending else None
        self._intended = bool(self._pending) and (state["rolls"] or f"rolling-{self._window}" in hidden)

    def _check_not_beyond(self, published: int) -> None:
        """Raise RidgelineError if a window was published that this checkpoint has not committed."""
        if published > self._window:
            committed = f"window {self._window}" if self._window >= 0 else "no window"
            what = f"output folder `{self._path}` is newer than the checkpoint and would get rows "
            what += f"twice; window {published} of this run is published, {committed} is committed"
            raise other_copy(self._context.operator, what, "checkpoint", " and `path`")

    def _last_windows(self, folder: str) -> list[int]:
        """The last windows of the run's published files in a folder that still exist."""
        return [file.last for file in published(self._files.names(self._place(folder)), self._prefix)]

    def _place(self, folder: str) -> str:
        return f"{self._root}/{folder}" if folder else self._root

    # Publishing --------------------------------------------------------------------------------------------

    def _roll(self) -> None:
        """Publish all segments: as one file for each folder, and each schema if it changed meanwhile.

        That is decided on the disk before: a driver that takes over makes the same files.
        """
        parts = sorted(self._pending, key=lambda segment: segment.folder)
        try:
            if not self._intended:
                self._files.touch(f"{self._folder}/rolling-{self._window}")
                self._intended = True
            for _, group in itertools.groupby(parts, key=lambda one: (one.folder, one.schema)):
                self._publish_file(list(group))
            self._let_go(max(self._last, self._pending[-1].window))
            self._renamed.clear()
        except DamagedError as error:
            raise self._lost(error.segment, str(error)) from error
        except OSError as error:
            raise self._failure(error) from error
        finally:
            with contextlib.suppress(OSError):  # half a file on a full disk
                self._files.delete(self._merged)
        self._intended = False  # not after an error: the call may be made again
        self._since, self._waits_since = None, None
        with contextlib.suppress(OSError):  # segments of attempts that failed: they go with the next file
            self._clear()

    def _publish_file(self, segments: list[Segment]) -> None:
        """Publish segments of one folder and schema as one file.

        Raises DamagedError, FencedError, OSError. Safe to repeat: the file's name depends on the windows
        only.
        """
        place = self._place(segments[0].folder)
        name = f"{self._prefix}-{segments[0].window:010d}-{segments[-1].window:010d}.{self._format}"
        target = f"{place}/{name}"
        if target not in self._renamed:  # else readers may have removed it since, before an error
            try:
                if len(segments) == 1:
                    check(self._files, self._folder, segments[0])
                    source = f"{self._folder}/{segments[0].name}"
                else:
                    source = self._merged
                    with self._files.writing(source) as out:
                        merge(self._files, self._folder, segments, out, self._format)
                if place != self._root and not self._files.is_folder(place):
                    self._files.make_folder(place)
                    self._files.sync_above(place)
                self._context.check_owner()
                self._files.move(source, target)
            except OSError:
                if not self._files.is_file(target):
                    raise
                # else a driver that was fenced off has made it
            self._renamed.add(target)
        self._files.sync(place)

    def _is_left_over(self, name: str) -> bool:
        """Also files of earlier drivers, and decisions that are carried out."""
        found = re.fullmatch(r"rolling-(\d+)|merged-e(\d+)\.tmp", name)
        if found is None:
            return super()._is_left_over(name)
        if found[2]:
            return int(found[2]) < self._context.epoch
        return int(found[1]) < self._window or not self._pending

    # Errors -----------------------------------------------------------------------------------------------

    def _gone(self) -> RidgelineError:
        """The error if the folder is missing, or is not the one of this run."""
        if self._files.is_folder(self._root):
            what = (
                f"has nothing of this run (no `{self._folder}/published-*`): the wrong folder, or not mounted"
            )
        else:
            what = "is missing"
        message = (
            f"`{self._context.operator}`: output folder `{self._path}` {what}; {self._waiting()}; "
            "mount or restore it and start again, nothing is lost; "
            f"to give these rows up, create the empty file `{self._marker.path(self._window)}`"
        )
        return RidgelineError(message)

    def _lost(self, segment: Segment, what: str) -> RidgelineError:
        """The error if an unpublished segment is missing or damaged."""
        return super()._lost(segment, f"{what}; {self._waiting()}")

    def _waiting(self) -> str:
        """Which committed windows are not published, for error texts."""
        windows = [segment.window for segment in self._pending]
        if not windows:
            return "all committed rows were published"
        first, last = windows[0], windows[-1]
        which = f"window {first}" if first == last else f"windows {first} to {last}"
        return f"as of the last commit rows of {which} were not published"

    def _failure(self, error: OSError) -> RidgelineError:
        """As of the base; StoreAwayError if the folder was there before."""
        failure = super()._failure(error)
        if isinstance(error, FileNotFoundError) and not self._files.is_file(
            self._marker.path(self._marker.window)
        ):
            gone, path = self._gone(), mask_text(self._path)
            return StoreAwayError(str(gone), path, GONE) if self._found else gone
        return failure
