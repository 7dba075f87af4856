"""The snapshots of an Iceberg table: which files each has added, and what else it has done."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from typing import Any

from ridgeline.api.errors import RidgelineError
from ridgeline.connect.source import SourceContext, SourceUnavailableError
from ridgeline.operators.lake.iceberg import IcebergTable, is_away, is_hopeless, pyiceberg, text_of
from ridgeline.operators.lake.lake_source import LakeFile, Point, gone

_NONE = -1
"""The version before the first snapshot."""


class IcebergFiles:
    """Opens files of a table as a file system of pyarrow does."""

    def __init__(self, table: IcebergTable) -> None:
        self._catalog = table.catalog()
        self._io = self._catalog.load_table(table.name).io

    def open_input_file(self, path: str) -> Any:
        """Open a file for random access. Raises OSError."""
        return self._io.new_input(path).open(seekable=True)


class IcebergLog:
    """Follows the main branch: a version is the id of a snapshot."""

    def __init__(self, table: IcebergTable, *, passes: bool) -> None:
        """`passes`: snapshots that removed or rewrote rows are passed over."""
        self._named, self._passes = table, passes
        self._table: Any = None

    def connect(self, context: SourceContext) -> None:
        """Reach the table. Raises SourceUnavailableError while it is not there."""
        self._context = context
        self._refresh(fresh=True)

    def _refresh(self, *, fresh: bool = False) -> None:
        """Read the table's metadata again. Raises SourceUnavailableError, RidgelineError."""
        try:
            if fresh:
                self._table = self._named.catalog().load_table(self._named.name)
            else:
                self._table.refresh()
        except RidgelineError:
            raise
        except Exception as error:
            library = pyiceberg().exceptions
            missing = isinstance(error, library.NoSuchTableError | library.NoSuchNamespaceError)
            if is_hopeless(error) or not (missing or is_away(error)):
                raise self._refused(text_of(error), "check `table` and `properties`") from error
            text = "there is no table yet" if missing else text_of(error)
            raise SourceUnavailableError(f"{self._named.place}: {text}") from error
        self._check_names()

    def _check_names(self) -> None:
        """Refuse columns that were renamed, or removed and added again: files have them by their number."""
        names: dict[int, str] = {}
        numbers: dict[str, int] = {}
        for schema in self._table.metadata.schemas:
            for number in schema.field_ids:
                name = schema.find_column_name(number)
                if names.setdefault(number, name) != name or numbers.setdefault(name, number) != number:
                    raise self._refused(
                        f"column `{name}` was renamed, or removed and added again", "copy it into a new table"
                    )

    def _refused(self, what: str, remedy: str) -> RidgelineError:
        """The error for a table that cannot be read."""
        place = self._named.place
        return RidgelineError(f"`{self._context.operator}` cannot read {place}: {what}; {remedy}")

    def _chain(self) -> list[Any]:
        """The snapshots of the main branch that are kept, the newest first."""
        metadata, found = self._table.metadata, []
        snapshot = self._table.current_snapshot()
        while snapshot is not None:
            found.append(snapshot)
            parent = snapshot.parent_snapshot_id
            snapshot = None if parent is None else metadata.snapshot_by_id(parent)
        return found

    def start(self, begin: Any) -> Point:
        """Where a fresh run begins. Raises RidgelineError for a snapshot that is not there."""
        chain = self._chain()
        newest = chain[0].snapshot_id if chain else _NONE
        if begin == "earliest" and chain:
            return Point(newest, whole=True, last=-1, closed=[])
        first = None
        if isinstance(begin, Mapping):
            first = next((one for one in chain if one.snapshot_id == int(begin["version"])), None)
            if first is None:
                raise self._refused(
                    f"its main branch has no snapshot {begin['version']}", f"its newest one is {newest}"
                )
        elif isinstance(begin, dt.datetime):
            since = [one for one in chain if one.timestamp_ms >= begin.timestamp() * 1000]
            first = since[-1] if since else None
            if since and first is chain[-1] and (first.sequence_number or 0) > 1:
                raise self._refused(
                    f"snapshots before {first.snapshot_id} have expired, and may be as new as `begin`",
                    "begin with a later time, or with `earliest`",
                )
        if first is not None:
            return Point(first.snapshot_id, whole=False, last=-1, closed=[])
        return Point(newest, whole=False, last=None, closed=[])

    def newest(self) -> int:
        """The snapshot that is current."""
        chain = self._chain()
        return chain[0].snapshot_id if chain else _NONE

    def following(self, version: int) -> int | None:
        """The next snapshot. Raises RidgelineError if it is not kept any more, or was rolled back."""
        for again in (False, True):
            if again:
                self._refresh()
            chain = self._chain()
            if not chain or chain[0].snapshot_id == version:
                continue
            if version == _NONE and (chain[-1].sequence_number or 0) <= 1:
                return int(chain[-1].snapshot_id)
            for snapshot in chain:  # the parent is left out of the oldest one once it has expired
                if snapshot.parent_snapshot_id == version:
                    return int(snapshot.snapshot_id)
            raise gone(self._named.place, version, "what follows has expired, or it was rolled back")
        return None

    def all_files(self, version: int) -> list[LakeFile]:
        """The files of a snapshot by name. Raises RidgelineError."""
        if self._table.metadata.snapshot_by_id(version) is None:
            raise gone(self._named.place, version, "the snapshot has expired")
        found = []
        for task in self._table.scan(snapshot_id=version).plan_files():
            if task.delete_files:
                raise self._refused(
                    "delete files have removed rows", "compact them, or begin with a later snapshot"
                )
            found.append(self._file(task.file))
        return sorted(found)

    def added(self, version: int) -> list[LakeFile]:
        """The files that a snapshot has added, by name. Raises RidgelineError for one that changed rows."""
        snapshot = self._table.metadata.snapshot_by_id(version)
        if snapshot is None:
            raise gone(self._named.place, version, "the snapshot has expired")
        operation = snapshot.summary.operation.value if snapshot.summary else "unknown"
        if operation == "replace":
            return []
        if operation != "append":
            what = f"snapshot {version} of {self._named.place} has removed or rewritten rows ({operation})"
            if not self._passes:
                msg = f"`{self._context.operator}`: {what}, which a stream cannot take back; begin with a "
                msg += "later snapshot, or set `pass_over_changes`"
                raise RidgelineError(msg)
            self._context.warn(f"{what}; it is passed over, with the rows that it has added")
            return []
        found = []
        for manifest in snapshot.manifests(self._table.io):
            if manifest.added_snapshot_id != version:
                continue
            for entry in manifest.fetch_manifest_entry(self._table.io):
                is_new = entry.status.name == "ADDED" and entry.snapshot_id in {None, version}
                if is_new and entry.data_file.content.name == "DATA":
                    found.append(self._file(entry.data_file))
        return sorted(found)

    def _file(self, file: Any) -> LakeFile:
        """A file of the table."""
        if file.file_format.name != "PARQUET":
            raise self._refused(f"file `{file.file_path}` is {file.file_format.name}", "write Parquet")
        return LakeFile(file.file_path, int(file.record_count), int(file.file_size_in_bytes), {})
