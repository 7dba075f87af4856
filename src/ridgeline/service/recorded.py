"""Recordings: the changes that begin and end them, which there are, and what their files hold."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from datetime import date, datetime, time, timedelta
from itertools import count
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.fs
import pyarrow.parquet as pq

from ridgeline.api.errors import ChangeError, did_you_mean
from ridgeline.api.support.files import resolve
from ridgeline.api.support.masking import printable
from ridgeline.operators._recorder import ENDED, FOLDER, RecordedTuples, Recorder
from ridgeline.plan.edits import AddOperator, AddSink, Edit, RemoveOperator
from ridgeline.plan.spec.writer import spec_of_operator
from ridgeline.regions.joined_run import JoinedRun
from ridgeline.stram.changes import EditPlan

if TYPE_CHECKING:
    from ridgeline.engine.files.storage import Storage
    from ridgeline.regions.joined_run import AnyRun


def begins(run: AnyRun, port: tuple[str, str | None], limits: Mapping[str, int], by: str) -> EditPlan:
    """The change that records an operator's port; None: all of its ports that are connected.

    `limits`: those of `windows` and `limit_bytes` that are given. Raises ChangeError for names that are not
    there.
    """
    logical, (operator, wanted) = run.plan.logical, port
    streams = {one.source.port: one for one in logical.streams if one.source.operator == operator}
    for stream in logical.streams:
        streams |= {sink.port: stream for sink in stream.sinks if sink.operator == operator}
    names = [one.name for one in logical.operators]
    if operator not in names:
        raise ChangeError(f"there is no operator `{operator}`; {did_you_mean(operator, names)}")
    if wanted is not None and wanted not in streams:
        what = f"`{operator}` has no connected port `{wanted}`"
        raise ChangeError(f"{what}; {did_you_mean(wanted, streams)}")
    known = {row["id"] for row in rows(run)} | {row["result"] for row in run.changes.rows()} | _folders(run)
    recording = next(name for one in count(1) if (name := f"recording_{one}") not in known)
    edits = list[Edit]()
    modes = {one.name: one.attributes["processing_mode"] for one in logical.operators}
    for name in streams if wanted is None else [wanted]:
        recorder = Recorder(recording=recording, of=operator, port=name, by=by, **limits)
        added = f"{recording}_{name}"
        mode = {"processing_mode": modes[streams[name].source.operator]}
        edits += [AddOperator(added, spec_of_operator(added, recorder, mode))]
        edits += [AddSink(streams[name].name, f"{added}.input")]
    return EditPlan(tuple(edits), f"record `{operator}{f'.{wanted}' if wanted else ''}`", recording)


def ends(run: AnyRun, recording: str) -> EditPlan:
    """The change that ends a recording. Raises ChangeError if it does not go on."""
    found = {name: one.row["id"] for name, one in _recorders(run)}
    edits = tuple(RemoveOperator(name) for name, known in found.items() if known == recording)
    if not edits:
        raise ChangeError(f"no recording `{recording}` goes on; {did_you_mean(recording, found.values())}")
    return EditPlan(edits, f"stop recording `{recording}`", recording)


def rows(run: AnyRun) -> list[dict[str, Any]]:
    """All recordings of a checkpoint, as REST shows them, in the order in which they began."""
    found = [{"state": "RECORDING", **one.row} for _, one in _recorders(run)]
    live = [(row["id"], row["ports"]) for row in found]
    for region, storage in _storages(run):
        files = [one for one in storage.names(FOLDER) if one.endswith(ENDED)]
        ended = [json.loads(storage.read(f"{FOLDER}/{file}")) for file in files]
        found += [row for row in ended if (row["id"], row["ports"]) not in live]  # else the run is over
        for row in found if region else ():
            if row["folder"].startswith(f"{storage.uri}/"):
                row["region"] = region
    whole: dict[str, dict[str, Any]] = {}
    for row in sorted(found, key=lambda one: one["startTime"]):
        first = whole.setdefault(row["id"], row)
        if first is not row:  # another port of the same recording
            first["ports"] = [*first["ports"], *row["ports"]]
            first["windows"] = max(first["windows"], row["windows"])
            first["tuples"], first["bytes"] = first["tuples"] + row["tuples"], first["bytes"] + row["bytes"]
            first["state"], first["reason"] = (
                max(first["state"], row["state"]),
                first["reason"] or row["reason"],
            )
    return list(whole.values())


def _storages(run: AnyRun) -> list[tuple[str, Storage]]:
    """The checkpoints of a run, each with the name of its region, or ""."""
    runs = [(one.name, one.run) for one in run.regions] if isinstance(run, JoinedRun) else [("", run)]
    return [(name, own.checkpoint.storage) for name, own in runs if own is not None]


def _folders(run: AnyRun) -> set[str]:
    """The folders of recordings that are there, also of those that a rewind has taken out of the list."""
    folders = [f"{storage.uri}/{FOLDER}" for _, storage in _storages(run)]
    kept = [one for one in folders if not one.startswith("memory:")]
    return {name for one in kept for name in _names(one, pyarrow.fs.FileType.Directory)}


def _recorders(run: AnyRun) -> list[tuple[str, RecordedTuples]]:
    """The outputs of a run that record, by name."""
    found = [(name, one) for name, one in run.publishers.items() if isinstance(one, RecordedTuples)]
    return [(name, one) for name, one in found if "folder" in one.row]  # it is open


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
    """A value as JSON has it; `text` masks what may be a secret."""
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
