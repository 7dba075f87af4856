"""Reads the files of a recording."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from datetime import date, datetime, time, timedelta
from typing import Any
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.fs
import pyarrow.parquet as pq

from ridgeline.api.errors import did_you_mean
from ridgeline.api.support.files import resolve
from ridgeline.api.support.masking import printable


def folder_of(recordings: Iterable[Mapping[str, Any]], recording: str) -> str:
    """The folder of a recording in a list of them. Raises KeyError."""
    found = {row["id"]: row["folder"] for row in recordings}
    if recording not in found:
        raise KeyError(f"there is no recording `{recording}`; {did_you_mean(recording, found)}")
    return str(found[recording])


def folder_in(checkpoint: str, recording: str) -> str:
    """The folder of a recording in a checkpoint of the local disk, or in a region's. Raises KeyError."""
    regions = f"{checkpoint}/regions"
    parts = [checkpoint, *(f"{regions}/{name}" for name in _names(regions, pyarrow.fs.FileType.Directory))]
    rows = [
        {"id": name.partition(".")[0], "folder": f"{part}/recordings/{name.partition('.')[0]}"}
        for part in parts
        for kind in (pyarrow.fs.FileType.Directory, pyarrow.fs.FileType.File)
        for name in _names(f"{part}/recordings", kind)
        if name != "staged"
    ]
    return folder_of(rows, recording)


def _names(folder: str, kind: pyarrow.fs.FileType) -> list[str]:
    files, root = resolve(folder)
    found = files.get_file_info(pyarrow.fs.FileSelector(root, allow_not_found=True))
    return sorted(info.base_name for info in found if info.type == kind)


def read(folder: str, port: str | None, limit: int) -> dict[str, pa.Table]:
    """The last tuples of each port. Raises KeyError for a port that has none."""
    ports = {unquote(name): name for name in _names(folder, pyarrow.fs.FileType.Directory)}
    if port is not None and port not in ports:
        raise KeyError(f"no tuples of port `{port}` are recorded; {did_you_mean(port, ports)}")
    return {name: _last(f"{folder}/{ports[name]}", limit) for name in ports if port in {None, name}}


def _last(folder: str, limit: int) -> pa.Table:
    """The last tuples of one port: the newest files are read first."""
    files, root = resolve(folder)
    tables: list[pa.Table] = []
    for name in reversed(_names(folder, pyarrow.fs.FileType.File)):
        if limit <= sum(table.num_rows for table in tables):
            break
        with files.open_input_file(f"{root}/{name}") as file:
            tables.append(pq.read_table(file))
    table = pa.concat_tables(reversed(tables), promote_options="permissive") if tables else pa.table({})
    return table.slice(max(0, table.num_rows - limit))


def plain(ports: Mapping[str, pa.Table]) -> dict[str, list[dict[str, Any]]]:
    """The tuples as JSON has them; texts without what controls a terminal."""
    return {port: json_rows(table, printable) for port, table in ports.items()}


def json_rows(table: pa.Table, text: Callable[[str], str] = str) -> list[dict[str, Any]]:
    """The rows of a table as JSON has them; its texts as `text` gives them."""
    return [{name: _value(value, text) for name, value in row.items()} for row in table.to_pylist()]


def _value(value: Any, text: Callable[[str], str]) -> Any:
    if value is None or isinstance(value, (bool, int, float)):
        return value
    if isinstance(value, (date, datetime, time)):
        return value.isoformat()
    if isinstance(value, dict):
        return {text(str(name)): _value(part, text) for name, part in value.items()}
    if isinstance(value, (list, tuple)):
        return [_value(part, text) for part in value]
    if isinstance(value, timedelta):
        return value.total_seconds()
    return value.hex() if isinstance(value, bytes) else text(str(value))
