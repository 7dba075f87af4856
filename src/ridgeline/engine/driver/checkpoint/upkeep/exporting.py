"""Writes the states of a checkpoint as Parquet: a file for each state of an operator.

A driver may be at work in the folder. `states.json` says what the files are, and is written last.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from ridgeline.api.cells.cell import MISSING, StateCell
from ridgeline.api.cells.kind import Kind
from ridgeline.api.cells.list_state import ListCell
from ridgeline.api.errors import CheckpointError, RidgelineError, StateError, did_you_mean
from ridgeline.api.state import KeyedCell, ValueCell
from ridgeline.engine.driver.checkpoint.manifest import Manifest
from ridgeline.engine.driver.checkpoint.upkeep.contents import Run, runs_of
from ridgeline.engine.driver.checkpoint.upkeep.stand_ins import stand_ins
from ridgeline.engine.driver.checkpoint.upkeep.state_columns import (
    PICKLE,
    Columns,
    MisfitError,
    columns_of,
    tries,
)
from ridgeline.engine.state.versions import load
from ridgeline.plan.change.state_schemas import held_states
from ridgeline.plan.change.state_shapes import ANY, Shape

LISTING = "states.json"
FORMAT = 1
PARTITION = "partition"
POSITION = "position"
KINDS = frozenset({"keyed", "value", "list"})
_ROWS = 1 << 16
_SAMPLE = 1000
_ROUNDS = 20
_SKIPPED = {
    "timers": "timers",
    "slides": "the slides of an application window",
    "kept": "tuples that wait in it",
}


@dataclass(frozen=True, slots=True)
class Exported:
    """The result. `files`: name and rows of each; `notes`: a sentence for each thing that has no file."""

    window: int
    files: Sequence[tuple[str, int]]
    notes: Sequence[str]


def export_states(
    uri: str,
    out: Path,
    operators: Collection[str] = (),
    window: int | None = None,
    *,
    pickles: bool = False,
) -> Exported:
    """Write the states of a window, None: the last one, into a folder that is empty or not there.

    `operators`: the names of those wanted, none: all. `pickles`: values without an Arrow type, and that are
    no JSON, become pickles; without it they are an error. Raises CheckpointError, StateError, OSError.
    """
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise CheckpointError(f"`{out}` is not empty; give a folder that is, or that is not there")
    runs = runs_of(uri)
    if window is not None and len(runs) > 1:
        raise CheckpointError("each region has windows of its own; leave `--window` out")
    out.mkdir(parents=True, exist_ok=True)
    for number in range(_ROUNDS):
        found = [(run, _window(run, window)) for run in runs]
        _check_names(found, operators)
        try:
            return _write(found, out, operators, pickles=pickles)
        except (StateError, FileNotFoundError):
            if number == _ROUNDS - 1 or all(_is_kept(run, one) for run, one in found):
                raise
        finally:
            if not (out / LISTING).exists():
                for one in out.glob("*.parquet"):
                    one.unlink()
    raise AssertionError


def _window(run: Run, window: int | None) -> Manifest:
    """The window to export. Raises CheckpointError."""
    kept = run.kept()
    found = next((one for one in kept if window is None or one.window_id == window), None)
    if found is None:
        known = ", ".join(str(one.window_id) for one in reversed(kept))
        have = f"it has {known}" if kept else "none is committed yet"
        which = "a window" if window is None else f"window {window}"
        raise CheckpointError(f"`{run.storage.uri}` has not {which} to export; {have}")
    return found


def _is_kept(run: Run, one: Manifest) -> bool:
    """Whether a driver that is at work still keeps the states of a window."""
    return any(other.states == one.states for other in run.kept())


def _check_names(found: Sequence[tuple[Run, Manifest]], operators: Collection[str]) -> None:
    known = {_base(key) for _, one in found for key in one.states}
    for name in operators:
        if name not in known:
            raise CheckpointError(
                f"the checkpoint has no state of an operator `{name}`; {did_you_mean(name, known)}"
            )


def _base(key: str) -> str:
    return key.rsplit("/", 2)[0]


def _write(
    found: Sequence[tuple[Run, Manifest]], out: Path, operators: Collection[str], *, pickles: bool
) -> Exported:
    """Write the files of all operators, then the listing. Raises StateError, CheckpointError, OSError."""
    files: list[dict[str, Any]] = []
    notes: list[str] = []
    for run, manifest in found:
        classes: Mapping[str, Shape] = manifest.schemas.get("classes", {})
        with stand_ins(classes):
            for base, keys in _by_base(manifest).items():
                if operators and base not in operators:
                    continue
                one = _Operator(run, manifest, base, keys, classes, pickles=pickles)
                files += [{**file, "region": run.region} for file in one.write(out)]
                notes += one.notes
        if run.region:
            notes.append(f"region `{run.region}` is of window {manifest.window_id}")
    [(run, manifest), *_] = found
    listing = {
        "format": FORMAT,
        "application": run.application,
        "run": run.run_id,
        "window": manifest.window_id,
        "regions": {
            run.region: {"run": run.run_id, "window": manifest.window_id}
            for run, manifest in found
            if run.region
        },
        "states": files,
        "classes": {
            name: shape for _, one in found for name, shape in one.schemas.get("classes", {}).items()
        },
    }
    (out / LISTING).write_text(json.dumps(listing, indent=2) + "\n")
    return Exported(manifest.window_id, [(one["file"], one["rows"]) for one in files], notes)


def _by_base(manifest: Manifest) -> dict[str, list[str]]:
    """The state keys of each operator, by partition."""
    found: dict[str, list[tuple[int, str]]] = {}
    for key in manifest.states:
        base, partition, _ = key.rsplit("/", 2)
        found.setdefault(base, []).append((int(partition), key))
    return {base: [key for _, key in sorted(keys)] for base, keys in sorted(found.items())}


def empty_cell(shape: Shape) -> StateCell:
    """A cell for a state of any type. `shape`: of one of `KINDS`."""
    if shape["kind"] == "keyed":
        return KeyedCell(Kind(object, ""), MISSING)
    return ValueCell(None) if shape["kind"] == "value" else ListCell()


class _Operator:
    """The states of one operator."""

    def __init__(
        self,
        run: Run,
        manifest: Manifest,
        base: str,
        keys: Sequence[str],
        classes: Mapping[str, Shape],
        *,
        pickles: bool,
    ) -> None:
        self._run, self._manifest, self._base, self._keys = run, manifest, base, keys
        self._classes, self._pickles = classes, pickles
        self._partitions = int(keys[0].rsplit("/", 1)[1])
        self.notes: list[str] = []

    def write(self, out: Path) -> list[dict[str, Any]]:
        """Write its files; returns what the listing has of each. Raises StateError, CheckpointError."""
        held = held_states(self._manifest.schemas, self._base)
        if not held and any(self._manifest.states[key] for key in self._keys):
            self.notes.append(
                f"`{self._base}`: an earlier version of Ridgeline wrote its state without a schema; start it "
                "once with this one"
            )
        wanted = {}
        for name, shape in held.items():
            if name.startswith("#") or shape["kind"] == "lifetimes":
                continue
            if shape["kind"] in KINDS and not name.startswith("_"):
                wanted[name] = shape
            else:
                what = _SKIPPED.get(shape["kind"], f"a state of kind `{shape['kind']}`")
                self.notes.append(f"`{self._base}.{name}` has no file: {what}")
        cells = self._read(wanted) if wanted else {}
        return [self._write_state(out, name, shape, cells[name]) for name, shape in wanted.items()]

    def _read(self, wanted: Mapping[str, Shape]) -> dict[str, list[tuple[int, StateCell]]]:
        """The cells of each state, with the number of their partition. Raises StateError."""
        found: dict[str, list[tuple[int, StateCell]]] = {name: [] for name in wanted}
        for key in self._keys:
            cells = {name: empty_cell(shape) for name, shape in wanted.items()}
            try:
                load(self._run.files, key, cells, self._manifest.states[key])
            except (RidgelineError, OSError):
                raise
            except Exception as error:
                what = f"{type(error).__name__}: {error}"
                raise StateError(
                    f"the state of `{self._base}` cannot be read: {what}; export it where its code is"
                ) from error
            for name, cell in cells.items():
                found[name].append((int(key.rsplit("/", 2)[1]), cell))
        return found

    def _write_state(
        self, out: Path, name: str, shape: Shape, cells: Sequence[tuple[int, StateCell]]
    ) -> dict[str, Any]:
        """Write the file of one state, with the first encoding that holds all of its values."""
        where = f"{self._base}.{name}"
        file = f"{re.sub(r'[^A-Za-z0-9_.-]', '_', where)}.parquet"
        keyed = shape["kind"] == "keyed"
        sample = list(islice(_rows(cells), _SAMPLE))
        keys = tries(shape["key"], [one[1] for one in sample], self._classes) if keyed else [(None, "")]
        values = tries(shape.get("type", ANY), [one[2] for one in sample], self._classes)
        at, rows = [0, 0], 0
        while True:
            (key, key_encoding), (value, encoding) = keys[at[0]], values[at[1]]
            if PICKLE in {key_encoding, encoding} and not self._pickles:
                msg = f"`{where}` has values that no column of Parquet holds, nor JSON: `--allow-pickle` "
                msg += "writes them as pickles, `--operator` leaves it out"
                raise StateError(msg)
            titles = [columns_of("key", key, key_encoding, self._classes, {})] if keyed else []
            titles.append(columns_of("value", value, encoding, self._classes, {}))
            try:
                rows = _write_file(out / file, shape["kind"], titles, cells)
                break
            except _ColumnMisfitError as error:
                place = error.part if keyed else 1
                if at[place] + 1 == len((keys, values)[place]):
                    msg = f"`{where}` cannot be written: {error}; leave it out: `--operator` names others"
                    raise StateError(msg) from None
                at[place] += 1
        if PICKLE in {key_encoding, encoding}:
            self.notes.append(f"`{where}` has pickles: import them only from where no one else could write")
        listed: dict[str, Any] = {
            "file": file,
            "operator": self._base,
            "state": name,
            "partitions": self._partitions,
            "rows": rows,
            "shape": {part: one for part, one in shape.items() if part != "classes"},
            "value": {"type": value, "encoding": encoding},
        }
        return listed | ({"key": {"type": key, "encoding": key_encoding}} if keyed else {})


class _ColumnMisfitError(Exception):
    """Values do not fit. `part`: 0 the keys, 1 the values."""

    def __init__(self, part: int, what: str) -> None:
        super().__init__(what)
        self.part = part


def _rows(cells: Sequence[tuple[int, StateCell]]) -> Iterator[tuple[int, Any, Any]]:
    """Partition, key or position, and value of each row."""
    for partition, cell in cells:
        if isinstance(cell, KeyedCell):
            yield from ((partition, key, value) for key, value in cell.items())
        elif isinstance(cell, ListCell):
            yield from ((partition, position, value) for position, value in enumerate(cell))
        else:
            assert isinstance(cell, ValueCell)  # noqa: S101  no other is made
            yield partition, None, cell.snapshot()[0]


def _write_file(
    path: Path, kind: str, titles: Sequence[Columns], cells: Sequence[tuple[int, StateCell]]
) -> int:
    """Write the rows of a state; returns their number. Raises _ColumnMisfitError, OSError."""
    fields = [pa.field(PARTITION, pa.int32())]
    if kind == "list":
        fields.append(pa.field(POSITION, pa.int64()))
    fields += [pa.field(name, one.arrow) for title in titles for name, one in title.fields.items()]
    count = 0
    rows = _rows(cells)
    with pq.ParquetWriter(path, pa.schema(fields), compression="zstd") as writer:
        while chunk := list(islice(rows, _ROWS)):
            partitions, keys, values = zip(*chunk, strict=True)
            columns = [pa.array(partitions, pa.int32())]
            if kind == "list":
                columns.append(pa.array(keys, pa.int64()))
            for part, (title, held) in enumerate(zip(titles, [keys, values][-len(titles) :], strict=True)):
                try:
                    columns += title.arrays(held)
                except MisfitError as error:
                    raise _ColumnMisfitError(part, str(error)) from None
            writer.write_batch(pa.RecordBatch.from_arrays(columns, schema=pa.schema(fields)))
            count += len(chunk)
    return count


__all__ = ["FORMAT", "KINDS", "LISTING", "PARTITION", "POSITION", "Exported", "empty_cell", "export_states"]
