"""The versions of a Delta table: which files each has added, and what else it has done."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Iterator, Mapping
from decimal import Decimal
from typing import Any
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.fs
import pyarrow.parquet as pq

from ridgeline.api.errors import RidgelineError
from ridgeline.api.support.files import is_local
from ridgeline.connect.source import SourceContext, SourceUnavailableError
from ridgeline.operators.lake.lake_source import LakeFile, Point, gone
from ridgeline.operators.lake.storage import Store, deltalake, first_line, is_away, is_hopeless, place


def file_system(store: Store) -> pyarrow.fs.FileSystem:
    """The file system below a table's folder. Raises RidgelineError for a secret that is not there."""
    if is_local(store.uri):
        return pyarrow.fs.SubTreeFileSystem(store.uri, pyarrow.fs.LocalFileSystem())
    from deltalake.fs import DeltaStorageHandler

    return pyarrow.fs.PyFileSystem(DeltaStorageHandler(store.uri, store.options()))


class DeltaLog:
    """Reads the log of a table itself: the library does not list the files that one version has added."""

    def __init__(self, store: Store, *, passes: bool) -> None:
        """`passes`: versions that removed or rewrote rows are passed over."""
        self._store, self._passes = store, passes
        self._place = place("Delta", store.uri)

    def connect(self, context: SourceContext) -> None:
        """Reach the table. Raises SourceUnavailableError while it is not there."""
        self._context = context
        self._files = file_system(self._store)
        table = self._load()
        self._newest = int(table.version())
        self._check_names(table.metadata().configuration)

    def _check_names(self, configuration: Mapping[str, str]) -> None:
        """Raise RidgelineError for a table whose files have columns under other names."""
        if configuration.get("delta.columnMapping.mode", "none") != "none":
            raise self._refused(
                "it maps columns to other names", "write a table without `delta.columnMapping.mode`"
            )

    def _load(self, version: int | None = None) -> Any:
        """The table as of a version. Raises SourceUnavailableError, RidgelineError."""
        try:
            return self._store.load(version)
        except RidgelineError:
            raise
        except Exception as error:
            missing = isinstance(error, deltalake().exceptions.TableNotFoundError)
            if is_hopeless(error):
                raise self._refused(first_line(error), "check `path` and `storage`") from error
            if version is not None and not is_away(error):
                raise gone(self._place, version, first_line(error)) from error
            text = "there is no table yet" if missing else first_line(error)
            raise SourceUnavailableError(f"{self._place}: {text}") from error

    def _refused(self, what: str, remedy: str) -> RidgelineError:
        """The error for a table that cannot be read."""
        return RidgelineError(f"`{self._context.operator}` cannot read {self._place}: {what}; {remedy}")

    def start(self, begin: Any) -> Point:
        """Where a fresh run begins. Raises RidgelineError for a time or version before the kept log."""
        if begin == "earliest":
            return Point(self._newest, whole=True, last=-1, closed=[])
        first = self._newest + 1
        if isinstance(begin, Mapping):
            first = int(begin["version"])
        elif isinstance(begin, dt.datetime):
            history = self._load().history()
            since = [one["version"] for one in history if one["timestamp"] >= begin.timestamp() * 1000]
            first = min(since, default=first)
            if 0 < first == min((one["version"] for one in history), default=0):
                raise self._refused(
                    f"commits before version {first} were cleaned up, and may be as new as `begin`",
                    "begin with a later time, or with `earliest`",
                )
        if first > self._newest + 1:
            raise self._refused(f"it has no version {first}", f"its newest one is {self._newest}")
        return Point(first - 1, whole=False, last=None, closed=[])

    def newest(self) -> int:
        """The newest version when the table was reached."""
        return self._newest

    def following(self, version: int) -> int | None:
        """The next version, if its commit is there. Raises RidgelineError if it is cleaned up.

        Raises SourceUnavailableError as `connect`.
        """
        if self._has(version + 1):
            return version + 1
        newest = self._newest
        if version >= max(newest, 0) and not self._has(version):  # what is newest may be cleaned up, too
            newest = int(self._load().version())
            if self._has(version + 1):
                return version + 1
            if newest < version:
                raise gone(self._place, version, f"the table is at version {newest}, so it is another one")
        if version < newest:
            raise gone(self._place, version + 1, "its commit was cleaned up")
        return None

    def _has(self, version: int) -> bool:
        """Whether the commit of a version is there."""
        return self._files.get_file_info(_commit(version)).type is not pyarrow.fs.FileType.NotFound

    def all_files(self, version: int) -> list[LakeFile]:
        """The files of a version by time, then name. Raises RidgelineError."""
        table = self._load(version)
        if "deletionVectors" in (table.protocol().reader_features or ()) and any(
            batch.num_rows for batch in pa.RecordBatchReader.from_stream(table.deletion_vectors())
        ):
            raise self._refused("files have deletion vectors", "purge them, or begin with a later version")
        rows = pa.table(table.get_add_actions(flatten=False)).to_pylist()
        rows.sort(key=lambda one: (one["modification_time"], one["path"]))
        return [
            self._file(
                one["path"],
                one["num_records"],
                one["size_bytes"],
                {name: _text(value) for name, value in (one.get("partition") or {}).items()},
            )
            for one in rows
        ]

    def added(self, version: int) -> list[LakeFile]:
        """The files that a version has added. Raises RidgelineError for one that has changed rows."""
        adds, removes, operation = [], 0, "unknown"
        for action in self._actions(version):
            if (add := action.get("add")) and add["dataChange"]:
                adds.append(add)
            elif (remove := action.get("remove")) and remove.get("dataChange", True):
                removes += 1
            elif metadata := action.get("metaData"):
                self._check_names(metadata.get("configuration") or {})
            operation = (action.get("commitInfo") or {}).get("operation", operation)
        if removes or any(add.get("deletionVector") for add in adds):
            what = f"version {version} of {self._place} has removed or rewritten rows ({operation})"
            if not self._passes:
                msg = f"`{self._context.operator}`: {what}, which a stream cannot take back; begin with a "
                msg += f'later version (`begin={{"version": {version + 1}}}`), or set `pass_over_changes`'
                raise RidgelineError(msg)
            self._context.warn(f"{what}; it is passed over, with the rows that it has added")
            return []
        found = []
        for add in adds:
            stats = json.loads(add.get("stats") or "{}")
            values = add.get("partitionValues") or {}
            found.append(self._file(add["path"], stats.get("numRecords"), add["size"], values))
        return found

    def _actions(self, version: int) -> Iterator[dict[str, Any]]:
        """The actions of a commit. Raises RidgelineError if it was cleaned up."""
        try:
            with self._files.open_input_stream(_commit(version)) as commit:
                text = commit.read()
        except FileNotFoundError as error:
            raise gone(self._place, version, "its commit was cleaned up") from error
        for line in text.splitlines():
            if line.strip():
                yield json.loads(line)

    def _file(self, path: str, rows: int | None, size: int, values: Mapping[str, str | None]) -> LakeFile:
        """A file; one without statistics is asked for its number of rows."""
        if "://" in path or path.startswith("/"):
            raise self._refused(f"file `{path}` is not in its folder", "copy the table")
        name = unquote(path)
        if rows is None:
            with self._files.open_input_file(name) as file:
                rows = pq.read_metadata(file).num_rows
        return LakeFile(name, int(rows), int(size), dict(values))


def _commit(version: int) -> str:
    return f"_delta_log/{version:020}.json"


def _text(value: object) -> str | None:
    """A value of a partition column as the log has it."""
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, dt.datetime):
        value = value if value.tzinfo is None else value.astimezone(dt.UTC)
        return f"{value:%Y-%m-%d %H:%M:%S.%f}"
    return f"{value:f}" if isinstance(value, Decimal) else str(value)
