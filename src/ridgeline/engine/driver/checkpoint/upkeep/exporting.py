"""Writes the states of a checkpoint as Parquet: a file for each state of an operator.

A driver may be at work in the folder. The classes of the values must be importable.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from ridgeline.api.cells.cell import MISSING, Kind, StateCell
from ridgeline.api.cells.list_state import ListCell
from ridgeline.api.errors import CheckpointError, StateError, did_you_mean
from ridgeline.api.state import KeyedCell, ValueCell
from ridgeline.api.support.pickling import dumps
from ridgeline.engine.driver.checkpoint.manifest import Manifest
from ridgeline.engine.driver.checkpoint.upkeep.contents import Run, runs_of
from ridgeline.engine.state.versions import load
from ridgeline.plan.change.state_schemas import held_states

CELLS: Mapping[str, Callable[[], StateCell]] = {
    "keyed": lambda: KeyedCell(Kind(object, ""), MISSING),
    "value": lambda: ValueCell(None),
    "list": ListCell,
}
"""An empty cell for each kind of state that has a file."""
NAMED = {"keyed": "key", "list": "position"}
_ROWS = 1 << 16
_ROUNDS = 20
Row = tuple[int, Any, Any]
"""Partition, key or position in a list, value."""
Cells = dict[int, dict[str, StateCell]]
"""By partition, by the name of the state."""


@dataclass(frozen=True, slots=True)
class Exported:
    """The result. `files`: name and rows of each; `notes`: a sentence for each thing that is not as usual."""

    window: int
    files: Sequence[tuple[str, int]]
    notes: Sequence[str]


def export_states(
    uri: str, out: Path, operators: Collection[str] = (), window: int | None = None
) -> Exported:
    """Write the states of a window, None: the last one, into a folder that is empty or not there.

    `operators`: the names of those wanted, none: all. Raises CheckpointError, StateError, OSError.
    """
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise CheckpointError(f"`{out}` is not empty; give a folder that is, or that is not there")
    runs = runs_of(uri)
    if window is not None and len(runs) > 1:
        raise CheckpointError("each region has windows of its own; leave `--window` out")
    out.mkdir(parents=True, exist_ok=True)
    for number in range(_ROUNDS):
        found = [(run, _window(run, window)) for run in runs]
        known = {_operator(key) for _, one in found for key in one.states}
        if unknown := sorted(set(operators) - known):
            meant = did_you_mean(unknown[0], known)
            raise CheckpointError(f"the checkpoint has no state of an operator `{unknown[0]}`; {meant}")
        try:
            return _export(found, out, operators)
        except BaseException as error:
            for one in out.glob("*.parquet"):
                one.unlink()
            if not isinstance(error, (StateError, FileNotFoundError)) or number == _ROUNDS - 1:
                raise
            if all(one.states in [other.states for other in run.kept()] for run, one in found):
                raise  # else a driver has removed files meanwhile
    raise AssertionError


def _window(run: Run, window: int | None) -> Manifest:
    """The window to export. Raises CheckpointError."""
    kept = {one.window_id: one for one in run.kept()}
    wanted = next(iter(kept), None) if window is None else window
    if wanted not in kept:
        known = ", ".join(map(str, kept)) or "none"
        raise CheckpointError(f"`{run.storage.uri}` has not window {window} to export; committed: {known}")
    return kept[wanted]


def _operator(key: str) -> str:
    return key.rsplit("/", 2)[0]


def _export(found: Sequence[tuple[Run, Manifest]], out: Path, operators: Collection[str]) -> Exported:
    """Write the files of some operators, none: of all. Raises StateError, OSError."""
    files, notes = list[tuple[str, int]](), list[str]()
    for run, manifest in found:
        for operator in sorted(set(map(_operator, manifest.states))):
            if operators and operator not in operators:
                continue
            held = held_states(manifest.schemas, operator).items()
            kinds = {name: one["kind"] for name, one in held if name[0] not in "_#" and one["kind"] in CELLS}
            cells = _read(run, manifest, operator, kinds)
            for state, kind in kinds.items():
                where = f"{operator}.{state}"
                file = f"{re.sub(r'[^A-Za-z0-9_.-]', '_', where)}.parquet"
                count, pickled = _write(out / file, kind, partial(_rows, cells, state))
                files.append((file, count))
                notes += [f"`{where}` has pickles in `{one}`: Arrow has no type for it" for one in pickled]
        if run.region:
            notes.append(f"region `{run.region}` is of window {manifest.window_id}")
    return Exported(found[0][1].window_id, files, notes)


def _read(run: Run, manifest: Manifest, operator: str, kinds: Mapping[str, str]) -> Cells:
    """The states of some names. Raises StateError, OSError."""
    found: Cells = {}
    for key, version in manifest.states.items():
        if _operator(key) == operator:
            cells = found[int(key.rsplit("/", 2)[1])] = {name: CELLS[kind]() for name, kind in kinds.items()}
            load(run.files, key, cells, version)
    return found


def _rows(cells: Cells, state: str) -> Iterator[list[Row]]:
    """The rows of a state, in chunks."""

    def each() -> Iterator[Row]:
        for partition, cell in ((number, cells[number][state]) for number in sorted(cells)):
            if isinstance(cell, KeyedCell):
                yield from ((partition, key, value) for key, value in cell.items())
            elif isinstance(cell, ListCell):
                yield from ((partition, position, value) for position, value in enumerate(cell))
            elif isinstance(cell, ValueCell):
                yield partition, None, cell.snapshot()[0]

    rows = each()
    return iter(lambda: list(islice(rows, _ROWS)), [])


def _write(path: Path, kind: str, rows: Callable[[], Iterator[list[Row]]]) -> tuple[int, list[str]]:
    """Write the rows of a state, which are read twice; returns their number, and columns that are pickled."""
    names = {0: "partition", 2: "value"} | ({1: NAMED[kind]} if kind in NAMED else {})
    types = {place: _type([row[place] for row in chunk] for chunk in rows()) for place in sorted(names)}
    schema, count = pa.schema([(names[place], one or pa.binary()) for place, one in types.items()]), 0
    with pq.ParquetWriter(path, schema, compression="zstd") as writer:
        for chunk in rows():
            count += len(chunk)
            columns = [
                pa.array(
                    (dumps(row[place]) if one is None else _plain(row[place]) for row in chunk), field.type
                )
                for (place, one), field in zip(types.items(), schema, strict=True)
            ]
            writer.write_batch(pa.RecordBatch.from_arrays(columns, schema=schema))
    return count, [names[place] for place, one in types.items() if one is None]


def _type(chunks: Iterable[list[Any]]) -> pa.DataType | None:
    """The type of Arrow for all values, None if there is none."""
    found = pa.schema({"": pa.null()})
    try:
        for chunk in chunks:
            own = pa.schema({"": pa.array(map(_plain, chunk)).type})
            found = pa.unify_schemas([found, own], promote_options="permissive")
    except (pa.ArrowException, OverflowError, TypeError):
        return None
    return found.field(0).type


def _plain(value: Any) -> Any:
    """A value as Arrow takes it: classes and tuples as structs, dictionaries as lists of keys and values."""
    if isinstance(value, Enum):
        return value.name
    if isinstance(value, dict):
        return [{"key": _plain(key), "value": _plain(one)} for key, one in value.items()]
    if isinstance(value, (list, set, frozenset)):
        return list(map(_plain, value))
    kind = type(value)
    for names in ("__dataclass_fields__", "model_fields", "__match_args__"):
        if fields := getattr(kind, names, None):
            return {name: _plain(getattr(value, name)) for name in fields}
    if kind is tuple:
        return {str(place): _plain(one) for place, one in enumerate(value)}
    return value
