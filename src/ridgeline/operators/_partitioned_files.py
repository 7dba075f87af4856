"""The driver's part of a `FileOutput` with `partition_by`: one `FilePublisher` for each folder.

A folder such as `country=ch` has a hidden folder, a marker and files of its own. Each is published in the
order of operations that `_file_publisher` describes. So each folder has the guarantee by itself: a reader
sees no row twice and none of an uncommitted window. Folders are published one after the other.

The state has the folders with segments that wait. All rows of the others were published, and their markers
moved, before the commit that leaves them out. The publisher of a folder begins with the first rows of it: its
marker says then which windows are committed.
"""

from __future__ import annotations

import contextlib
import math
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any
from urllib.parse import quote

import numpy as np
import pyarrow as pa
import pyarrow.fs

from ridgeline.api.errors import RidgelineError, did_you_mean
from ridgeline.api.publisher import Publisher, PublisherContext
from ridgeline.api.support.files import resolve
from ridgeline.connect.window_output import publish_failure, safe_name
from ridgeline.operators._file_publisher import HIDDEN, FilePublisher, Settings

_NULL = "__HIVE_DEFAULT_PARTITION__"
_MOST_FOLDERS = 1_000
"""The most folders that a partition writes to in a window: each is a file."""
_ENDINGS = (".parquet", ".jsonl")


class PartitionedFilePublisher(Publisher):
    """Publishes into a folder for each value of the columns. Runs on the driver."""

    groups_windows = True
    only_files = True

    def __init__(self, settings: Settings, *, left: bool = False) -> None:
        """`left`: as of `FilePublisher`."""
        self._settings, self._left = settings, left

    @classmethod
    def of_state(cls, state: Any) -> PartitionedFilePublisher:
        """One for the folder and format of a state."""
        return cls(Settings(state["path"], state["format"], math.inf, sys.maxsize, "append"), left=True)

    def place(self) -> str:
        """The folder, and in which format."""
        return f"{self._settings.format} files in folders of {self._settings.path}"

    def open(self, context: PublisherContext, state: Any) -> None:
        """Open the publishers of folders with segments that wait. Raises as `FilePublisher.open`."""
        self._context = context
        self._window = context.committed
        self._children: dict[str, FilePublisher] = {}
        if state is None:
            try:
                self._begin()
            except OSError as error:
                raise publish_failure(context.operator, self._settings.path, error) from error
            return
        if "folders" not in state:  # it was not divided before
            before = FilePublisher.of_state(state)
            before.open(context, state)
            before.close()
            return
        self._window = state["window"]
        for folder, own in state["folders"].items():
            self._child(folder, own)

    def stage(self, window_id: int, values: Sequence[Any]) -> Any:
        """Add the segments of a window to those of their folders. Raises as `FilePublisher.stage`."""
        by_folder: dict[str, list[Any]] = {}
        for folder, *value in values:
            by_folder.setdefault(folder, []).append(value)
        folders = {}
        for folder in sorted(by_folder):
            if folder not in self._children:
                self._child(folder, None)
        for folder, child in self._children.items():
            if folder in by_folder or child.waits:
                own = child.stage(window_id, by_folder.get(folder, []))
                if own["pending"]:
                    folders[folder] = own
        return {
            "window": window_id,
            "path": self._settings.path,
            "format": self._settings.format,
            "folders": folders,
        }

    def publish(self, window_id: int) -> None:
        """Publish what is due in each folder. Raises as `FilePublisher.publish`."""
        self._window = window_id
        for child in self._children.values():
            child.publish(window_id)

    def idle(self) -> None:
        """Publish what is due by time."""
        for child in self._children.values():
            child.idle()

    @property
    def visible(self) -> int | None:
        """The last window whose rows readers see in all folders."""
        return min(
            (one for child in self._children.values() if (one := child.visible) is not None), default=None
        )

    def close(self) -> None:
        """Publish all segments."""
        for child in self._children.values():
            child.close()

    def rewind(self, window_id: int, state: Any, at: int) -> Any:
        """Say what is to be taken back in each folder that the run has written to."""
        if state and ("folders" not in state or state["path"] != self._settings.path):
            msg = f"`{self._context.operator}` had other folders in window {window_id}, "
            msg += "so its files would stay; rewind to a later window"
            raise RidgelineError(msg)
        for folder in self._written():
            if folder not in self._children:
                self._child(folder, None)
        folders = {}
        for folder, child in self._children.items():
            own = None if state is None else state["folders"].get(folder) or child.empty_state(window_id)
            folders[folder] = child.rewind(window_id, own, at)
        return {
            "window": at,
            "path": self._settings.path,
            "format": self._settings.format,
            "folders": folders,
        }

    def _child(self, folder: str, state: Any) -> FilePublisher:
        """Open the publisher of a folder."""
        path = self._settings.path.rstrip("/")
        child = FilePublisher(
            self._settings._replace(path=f"{path}/{folder}", mode="append"), left=self._left
        )
        child.open(replace(self._context, committed=self._window), state)
        self._children[folder] = child
        return child

    # The folders --------------------------------------------------------------------------------------------

    def _infos(self) -> list[pyarrow.fs.FileInfo]:
        files, root = resolve(self._settings.path)
        selector = pyarrow.fs.FileSelector(root, recursive=True, allow_not_found=True)
        return [(info, info.path[len(root) :].strip("/")) for info in files.get_file_info(selector)]

    def _written(self) -> list[str]:
        """The folders that this run has written to."""
        end = f"/{HIDDEN}/{safe_name(self._context.operator)}-{self._context.run_id}"
        paths = {path for _, path in self._infos()}
        inside = {path.partition(f"{end}/")[0] for path in paths if f"{end}/" in f"/{path}"}
        return sorted({path.removesuffix(end) for path in paths if path.endswith(end)} | inside)

    def _begin(self) -> None:
        """The first start on this checkpoint: files that are there belong to others."""
        mode, ours = self._settings.mode, f"-{self._context.run_id}-"
        if mode == "append":
            return
        files, _ = resolve(self._settings.path)
        for info, path in self._infos():
            hidden = any(part.startswith(".") for part in path.split("/"))
            if info.type != pyarrow.fs.FileType.File or hidden or ours in info.base_name:
                continue
            if mode == "error":
                msg = f"`{self._context.operator}`: folder `{self._settings.path}` is not empty; it holds "
                msg += f"`{path}`; empty it, give another `path`, or set `mode` to `append` or `overwrite`"
                raise RidgelineError(msg)
            if info.base_name.endswith(_ENDINGS):
                with contextlib.suppress(FileNotFoundError):
                    files.delete_file(info.path)


def divided(rows: pa.Table, columns: Sequence[str], operator: str) -> Iterator[tuple[str, pa.Table]]:
    """The rows of each folder (`country=ch/day=2026-01-01`), in order, without the columns.

    Raises RidgelineError for a column that is not there or cannot name a folder, where none is left, and for
    too many folders.
    """
    for name in columns:
        if name not in rows.column_names:
            advice = did_you_mean(name, rows.column_names)
            msg = f"`{operator}`: `partition_by` names `{name}`, which the stream does not have; {advice}"
            raise RidgelineError(msg)
        kind = rows.schema.field(name).type
        if pa.types.is_nested(kind) or pa.types.is_floating(kind) or pa.types.is_binary(kind):
            msg = f"`{operator}`: `partition_by` names `{name}`, and a value of {kind} cannot name a folder; "
            msg += "name a column of text, whole numbers, booleans or dates"
            raise RidgelineError(msg)
    if set(columns) == set(rows.column_names):
        msg = f"`{operator}`: `partition_by` names all columns, so that files would have none; "
        msg += "leave one out of it, or write without `partition_by`"
        raise RidgelineError(msg)
    texts = [_folder_names(rows.column(name), name) for name in columns]
    names = ["/".join(parts) for parts in zip(*texts, strict=True)]
    order: dict[str, list[int]] = {}
    for row, name in enumerate(names):
        order.setdefault(name, []).append(row)
    if len(order) > _MOST_FOLDERS:
        msg = f"`{operator}`: the rows of a window belong to {len(order)} folders by `partition_by`, "
        msg += f"at most {_MOST_FOLDERS} can be; name columns with fewer values"
        raise RidgelineError(msg)
    kept = rows.drop_columns(list(columns))
    for name in sorted(order):
        yield name, kept.take(pa.array(np.array(order[name])))


def _folder_names(column: pa.ChunkedArray, name: str) -> list[str]:
    """The name of the folder of each value, as Hive, Spark and pyarrow write and read them."""
    whole = column.combine_chunks()
    coded = whole if pa.types.is_dictionary(whole.type) else whole.dictionary_encode()
    known = [f"{quote(name, safe='')}={_folder_name(value)}" for value in coded.dictionary.to_pylist()]
    none = f"{quote(name, safe='')}={_NULL}"
    return [none if code is None else known[code] for code in coded.indices.to_pylist()]


def _folder_name(value: Any) -> str:
    """A value as text. An empty text is as null, as of Hive."""
    if value is None or value == "":
        return _NULL
    text = str(value).lower() if isinstance(value, bool) else str(value)
    return quote(text, safe=" ").replace(".", "%2E") if text in (".", "..") else quote(text, safe=" ")
