"""Takes states out of Parquet into a checkpoint, as one more window: one record of its journal.

All rows are read and checked before anything is written. They are read twice, in pieces: the second time
they become segments. A process that is killed before the record has changed nothing: its files are removed by
the next run.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import count, islice
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from rich.console import Console

from ridgeline.api.clock import Clock
from ridgeline.api.columns.nan import one_nan
from ridgeline.api.errors import CheckpointError, RidgelineError, StateError, did_you_mean, shorten
from ridgeline.api.publisher import PublisherContext
from ridgeline.api.state import ListCell, StateCell, ValueCell
from ridgeline.api.support.files import is_local
from ridgeline.engine.driver.checkpoint.folder import Checkpoint
from ridgeline.engine.driver.checkpoint.manifest import Manifest
from ridgeline.engine.driver.checkpoint.planning import Planner, read_last
from ridgeline.engine.driver.checkpoint.rewinding import replace_states
from ridgeline.engine.driver.checkpoint.run_description import REGIONS, described, read_if_there
from ridgeline.engine.driver.checkpoint.state_moves import judge_states
from ridgeline.engine.driver.checkpoint.upkeep.contents import open_folder
from ridgeline.engine.driver.checkpoint.upkeep.exporting import FORMAT, KINDS, LISTING, PARTITION, POSITION
from ridgeline.engine.driver.checkpoint.upkeep.filling import KeyedFill
from ridgeline.engine.driver.checkpoint.upkeep.keys_twice import HashedRows, Rows
from ridgeline.engine.driver.checkpoint.upkeep.state_columns import (
    ENCODINGS,
    JSON,
    PICKLE,
    Columns,
    NoFormError,
    RowError,
    columns_of,
)
from ridgeline.engine.files.storage import DriverStorage
from ridgeline.engine.state import state_files
from ridgeline.engine.state.compaction import cells_of, write_cells
from ridgeline.engine.state.segment_files import SegmentFiles
from ridgeline.engine.state.versions import load
from ridgeline.plan.change.state_shapes import (
    Schemas,
    Shape,
    class_names,
    class_shapes,
    state_shapes,
    with_inner,
)
from ridgeline.plan.change.state_verdicts import Outcome
from ridgeline.plan.execution import Plan
from ridgeline.plan.physical import PhysicalOperator

_MOST_FAULTS = 10
_MOST_FOUND = 10_000
"""Rows with a key twice that are counted."""
_NUMBERS = count(1)
_AT_A_BORDER = -1
_ROWS = 1 << 15
"""The rows that are read at a time."""
_BUFFER_BYTES = 1 << 20
Step = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Imported:
    """The result: the new window, and the rows of each state, by `operator.state`."""

    window: int
    rows: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class _Rows:
    """The rows of a state of one value, or of a list. `keys`: of a list, the positions; else nothing."""

    state: str
    kind: str
    partitions: Sequence[int]
    keys: Sequence[Any]
    values: Sequence[Any]
    kinds: Collection[str]

    @property
    def count(self) -> int:
        """How many there are."""
        return len(self.values)


@dataclass(frozen=True, slots=True)
class _KeyedRows:
    """The rows of a keyed state, which are read in pieces. `titles`: of keys, then of values."""

    state: str
    rows: _File
    titles: Sequence[Columns]
    count: int
    kinds: Collection[str]

    def pieces(self) -> Iterator[list[tuple[Any, Any]]]:
        """Keys and values of some rows at a time. Raises StateError naming rows, CheckpointError."""
        start = 0
        for batch in self.rows.batches():
            keys, values = (self.rows.values(one, batch, start) for one in self.titles)
            start += batch.num_rows
            yield list(zip(one_nan(keys), values, strict=True))


@dataclass(frozen=True, slots=True)
class _File:
    """A file with the rows of a state. `where`: the state, as `operator.state`.

    `version`: which file it was when its rows were checked. Another one is not read.
    """

    path: Path
    name: str
    where: str
    version: tuple[int, ...]

    def columns(self) -> list[str]:
        """The names of its columns. Raises CheckpointError."""
        with self._read() as file:
            return list(file.schema_arrow.names)

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Its rows, some at a time. Raises CheckpointError."""
        with self._read() as file:
            yield from file.iter_batches(_ROWS, use_threads=False)

    def table(self) -> pa.Table:
        """All rows. Raises CheckpointError."""
        with self._read() as file:
            return file.read(use_threads=False)

    @contextmanager
    def _read(self) -> Iterator[pq.ParquetFile]:
        """Open it for one of the readers above. Raises CheckpointError, also if it has changed."""
        try:
            self._check_version()
            with pq.ParquetFile(self.path, buffer_size=_BUFFER_BYTES) as file:
                yield file
            self._check_version()
        except FileNotFoundError:
            msg = f"`{self.path}`, the rows of `{self.where}`, is missing; export again, or `--operator` "
            msg += "names others"
            raise CheckpointError(msg) from None
        except (pa.ArrowException, OSError) as error:
            msg = f"`{self.path}`, the rows of `{self.where}`, cannot be read: {error}; write it again"
            raise CheckpointError(msg) from None

    def _check_version(self) -> None:
        """Raise CheckpointError if another file is there, or it was written to. A missing one is none."""
        if _version(self.path) not in {(), self.version}:
            msg = f"`{self.path}`, the rows of `{self.where}`, was written while it was read: rows that were "
            msg += "not checked are not taken; import again, and leave the file alone meanwhile"
            raise CheckpointError(msg)

    def values(self, title: Columns, batch: pa.RecordBatch, start: int) -> list[Any]:
        """The values of some rows, of which the first has this number. Raises StateError."""
        try:
            return title.read(batch)
        except RowError as error:
            raise self.wrong([(start + error.row, str(error))]) from None

    def wrong(self, faults: Sequence[tuple[int, str]]) -> StateError:
        """The error for rows, by their numbers from 0."""
        texts = [f"row {row + 1}: {what}" for row, what in faults[:_MOST_FAULTS]]
        more = f"; and {len(faults) - _MOST_FAULTS:,} more" if len(faults) > _MOST_FAULTS else ""
        msg = f"`{self.name}` cannot be `{self.where}`: {'; '.join(texts)}{more}; nothing was changed"
        return StateError(msg)


def _version(path: Path) -> tuple[int, ...]:
    """Another one for another file, and for one that was written since; () for none."""
    try:
        found = path.stat()
    except OSError:
        return ()
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns


class Listing:
    """A folder that `export-state` has written. Raises CheckpointError if it is none, or not whole."""

    def __init__(self, folder: Path) -> None:
        """Read what it has of all regions."""
        self.folder = folder
        try:
            found = json.loads((folder / LISTING).read_text())
            version = found["format"]
            self.application, self.run = str(found["application"]), str(found["run"])
            self.window = int(found["window"])
            self.regions = {
                str(name): (str(one["run"]), int(one["window"]))
                for name, one in found.get("regions", {}).items()
            }
            self.states: list[dict[str, Any]] = list(found["states"])
            self.classes: Mapping[str, Shape] = dict(found["classes"])
            _check_listed(self.states)
        except FileNotFoundError:
            msg = f"`{folder}` has no `{LISTING}`: give a folder that `export-state` has written to its end"
            raise CheckpointError(msg) from None
        except (ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
            msg = f"`{folder / LISTING}` is damaged ({type(error).__name__}: {error}); export again"
            raise CheckpointError(msg) from None
        if version != FORMAT:
            msg = f"`{folder / LISTING}` has format {shorten(version)}, and this version of Ridgeline reads "
            msg += f"{FORMAT}; export with the same version"
            raise CheckpointError(msg)

    def choose(self, region: str) -> None:
        """Leave the states of one region, "" where there is none. Raises CheckpointError."""
        if region and region not in self.regions:
            raise CheckpointError(
                f"`{self.folder}` has no region `{region}`; {did_you_mean(region, self.regions)}"
            )
        if self.regions and not region:
            raise CheckpointError(f"`{self.folder}` is of several regions, and the application has none now")
        if region:
            self.run, self.window = self.regions[region]
            self.states = [one for one in self.states if one.get("region") == region]


def _check_listed(states: Sequence[Mapping[str, Any]]) -> None:
    """Raise ValueError, LookupError or TypeError for states that no export has listed so."""
    for one in states:
        file, parts = (
            str(one["file"]),
            [one["value"], *([one["key"]] if one["shape"]["kind"] == "keyed" else [])],
        )
        if Path(file).name != file:
            raise ValueError(f"{shorten(file)} is no name of a file in it")
        for part in parts:
            if part["encoding"] not in ENCODINGS:
                raise ValueError(f"{shorten(part['encoding'])} is none of {', '.join(ENCODINGS)}")
            columns_of("value", part["type"], JSON, {}, {})
    names = [(str(one["operator"]), str(one["state"])) for one in states]
    if len(set(names)) < len(names):
        raise ValueError("it has a state twice")


def regions_in(listing: Listing, operators: Collection[str]) -> list[str]:
    """The regions whose states an import of a folder would replace. Raises CheckpointError.

    `operators`: the names of those wanted, none: all.
    """
    return list(dict.fromkeys(str(one.get("region", "")) for one in _chosen(listing, operators)))


def import_states(  # noqa: PLR0913  each says one thing
    uri: str,
    source: Path | Listing,
    plan: Plan,
    planner: Planner,
    clock: Clock,
    *,
    operators: Collection[str] = (),
    any_window: bool = False,
    pickles: bool = False,
    region: str = "",
    step: Step | None = None,
) -> Imported:
    """Replace states of a run's last window by the rows in a folder; the run continues from there.

    No driver may be at work. On an object store, which has no locks, one is fenced off. `source`: the folder,
    or what was read of it. `uri`, `plan`, `planner` are those of `region`, if the application has several.
    `operators`: the names of those wanted, none: all in the
    folder. `any_window`: also rows of another window or run. `pickles`: read them, which may run code.
    `step`: called with the name of each step, before it. Raises CheckpointError, StateError, OSError; nothing
    has changed then.
    """
    step = step or _nothing
    storage = open_folder(uri)
    if read_if_there(storage, REGIONS) is not None or plan.logical.regions:
        raise CheckpointError("the application has several regions: an import is into one of them")
    application = plan.logical.application
    last = read_last(storage, application)
    if last is None:
        raise CheckpointError(f"`{storage.uri}` has no window yet: there is no state to replace")
    listing = source if isinstance(source, Listing) else Listing(source)
    listing.choose(region)
    _check_window(listing, last, described(storage, application), application, any_window=any_window)
    chosen = _chosen(listing, operators)
    if not is_local(uri):
        plan = planner.settled(last)  # whoever has made the plan could not read it
    step("check the plan")
    _check_plan(plan, storage, last, planner)
    groups = _groups(plan)
    rows = [(one["operator"], _read(listing, one, groups, pickles=pickles)) for one in chosen]
    step("own the checkpoint")
    owned = Checkpoint(storage, application)
    try:
        now = owned.last()
        if now is None or now.window_id != last.window_id:
            raise CheckpointError(
                f"`{storage.uri}` was at window {last.window_id}, and has continued since; export again"
            )
        return _commit(owned, plan, now, groups, rows, clock, step)
    finally:
        owned.close()


def _nothing(_step: str) -> None:
    pass


def _check_window(
    listing: Listing, last: Manifest, run: str | None, application: str, *, any_window: bool
) -> None:
    """Raise CheckpointError if rows are of another application, run or window."""
    if listing.application != application:
        raise CheckpointError(
            f"`{listing.folder}` is of the application `{listing.application}`, not of `{application}`"
        )
    if any_window:
        return
    if listing.run != run:
        raise CheckpointError(
            f"`{listing.folder}` is of another run, {listing.run}; `--any-window` takes it all the same"
        )
    if listing.window != last.window_id:
        what = f"`{listing.folder}` is of window {listing.window}, and the checkpoint is at {last.window_id}"
        raise CheckpointError(f"{what}: changes since would be lost; export again, or give `--any-window`")


def _chosen(listing: Listing, operators: Collection[str]) -> list[dict[str, Any]]:
    known = {one["operator"] for one in listing.states}
    for name in operators:
        if name not in known:
            raise CheckpointError(
                f"`{listing.folder}` has no state of an operator `{name}`; {did_you_mean(name, known)}"
            )
    found = [one for one in listing.states if not operators or one["operator"] in operators]
    if not found:
        raise CheckpointError(f"`{listing.folder}` has no state")
    return found


def _check_plan(plan: Plan, storage: DriverStorage, last: Manifest, planner: Planner) -> None:
    """Raise CheckpointError unless the application continues with each state as it is."""
    run_id = described(storage, plan.logical.application)
    assert run_id is not None  # noqa: S101  it has a window
    others = [
        one
        for one in judge_states(plan, storage, run_id, last, planner)
        if one.outcome is not Outcome.KEPT and one.outcome is not Outcome.ENDED
    ]
    if others:
        listed = "; ".join(map(str, others))
        raise CheckpointError(
            f"APP is another version than the one that wrote the checkpoint: {listed}; start it once first"
        )


def _groups(plan: Plan) -> dict[str, list[PhysicalOperator]]:
    """The partitions of each operator, by name."""
    found: dict[str, list[PhysicalOperator]] = {}
    for one in plan.physical.operators:
        if not one.unifier:
            found.setdefault(one.name, []).append(one)
    return {name: sorted(group, key=lambda one: one.partition) for name, group in found.items()}


# Read -------------------------------------------------------------------------------------------------------


def _read(
    listing: Listing,
    listed: Mapping[str, Any],
    groups: Mapping[str, Sequence[PhysicalOperator]],
    *,
    pickles: bool,
) -> _Rows | _KeyedRows:
    """The rows of one state, checked. Raises CheckpointError, StateError naming rows."""
    where = f"{listed['operator']}.{listed['state']}"
    group = groups.get(listed["operator"])
    if group is None:
        raise CheckpointError(
            f"the application has no operator `{listed['operator']}`; {did_you_mean(where, groups)}"
        )
    if group[0].slides:
        raise CheckpointError(
            f"`{listed['operator']}` slides, and its slides have values of its states: import is not there"
        )
    kinds: dict[str, type] = {}
    shape = state_shapes(group[0], kinds).get(listed["state"])
    kinds = with_inner(kinds)
    if shape is None or shape != listed["shape"] or shape["kind"] not in KINDS:
        what = "there is no such state" if shape is None else f"it is declared as {json.dumps(shape)}"
        raise CheckpointError(
            f"`{where}` was exported as {json.dumps(listed['shape'])}, and {what}; export again"
        )
    for name, now in class_shapes(kinds).items():
        if listing.classes.get(name, now) != json.loads(json.dumps(now)):
            raise CheckpointError(
                f"`{where}`: the class `{name}` has other fields than when it was exported; export again"
            )
    parts = [listed.get("key"), listed["value"]]
    if any(one and one["encoding"] == PICKLE for one in parts) and not pickles:
        raise CheckpointError(
            f"`{where}` has pickles, which run code when they are read; `--allow-pickle` reads them"
        )
    path = listing.folder / listed["file"]
    file = _File(path, listed["file"], where, _version(path))
    try:
        return _rows_of(file, listed, shape["kind"], listing.classes, kinds, len(group))
    except NoFormError as error:
        raise CheckpointError(
            f"`{listing.folder / LISTING}`: values of `{where}` cannot be read as `{error}`; export again"
        ) from None


def _rows_of(
    file: _File,
    listed: Mapping[str, Any],
    kind: str,
    classes: Mapping[str, Shape],
    kinds: Mapping[str, type],
    partitions: int,
) -> _Rows | _KeyedRows:
    """The rows of a file as keys and values. Raises StateError naming rows, from 1."""
    title = columns_of("value", listed["value"]["type"], listed["value"]["encoding"], classes, kinds)
    titles = [title]
    if kind == "keyed":
        titles.insert(0, columns_of("key", listed["key"]["type"], listed["key"]["encoding"], classes, kinds))
    wanted = [name for one in titles for name in one.fields]
    needed = [*wanted, *([] if kind == "keyed" else [PARTITION]), *([POSITION] if kind == "list" else [])]
    names = file.columns()
    missing = [name for name in needed if name not in names]
    more = [name for name in names if name not in {*needed, PARTITION}]
    if missing or more or len(set(names)) != len(names):
        listing = f"it has {', '.join(names)}, and needs {', '.join(needed)}"
        raise StateError(f"the columns of `{listed['file']}` are others: {listing}")
    noted = class_names([one for name, one in kinds.items() if name in classes])
    if kind == "keyed":
        rows = _KeyedRows(listed["state"], file, titles, 0, noted)
        return replace(rows, count=_checked(rows))
    table = file.table()
    values: list[Any] = []
    for batch in table.to_batches():
        values += file.values(title, batch, len(values))
    places = table.column(PARTITION).to_pylist()
    keys = table.column(POSITION).to_pylist() if kind == "list" else [None] * len(places)
    if faults := list(_faults(kind, places, keys, partitions)):
        raise file.wrong(faults)
    if kind == "value" and sorted(places) != list(range(partitions)):
        raise StateError(f"`{file.name}` needs one row for each of {partitions} partitions of `{file.where}`")
    return _Rows(listed["state"], kind, places, keys, values, noted)


def _checked(rows: _KeyedRows) -> int:
    """Read all rows; returns how many there are. Raises StateError for a key twice or without a hash."""
    count = 0
    with HashedRows() as hashes:
        for piece in rows.pieces():
            keys = [key for key, _ in piece]
            try:
                hashes.add(keys)
            except TypeError:
                raise rows.rows.wrong(list(_without_hash(keys, count))) from None
            count += len(keys)
        for alike in hashes.alike():
            if faults := list(islice(_twice(rows, alike), _MOST_FOUND)):
                raise rows.rows.wrong(faults)
    return count


def _without_hash(keys: Sequence[Any], start: int) -> Iterator[tuple[int, str]]:
    for row, key in enumerate(keys):
        try:
            hash(key)
        except TypeError:
            yield start + row, f"the key {shorten(key)} cannot be one: it has no hash"


def _twice(rows: _KeyedRows, alike: Rows) -> Iterator[tuple[int, str]]:
    """Rows whose key is that of an earlier one, of those with hashes that are alike, in ascending order."""
    seen: dict[Any, int] = {}
    start = 0
    for piece in rows.pieces():
        begin, end = np.searchsorted(alike, (start, start + len(piece)))
        for row in alike[begin:end].tolist():
            key, _ = piece[row - start]
            if (first := seen.setdefault(key, row)) != row:
                yield row, f"the key {shorten(key)} is in row {first + 1}, too"
        start += len(piece)


def _faults(
    kind: str, places: Sequence[Any], keys: Sequence[Any], partitions: int
) -> Iterator[tuple[int, str]]:
    """Rows with a partition that there is not, or a position that is none, or is there twice."""
    for row, place in enumerate(places):
        if type(place) is not int or not 0 <= place < partitions:
            yield row, f"partition {shorten(place)} is none of {partitions}, from 0"
    if kind == "value":
        return
    seen: dict[Any, int] = {}
    for row, key in enumerate(keys):
        if type(key) is not int:
            yield row, f"position {shorten(key)} is no whole number"
        elif (first := seen.setdefault((places[row], key), row)) != row:
            yield row, f"the position {shorten(key)} is in row {first + 1}, too"


# Write ------------------------------------------------------------------------------------------------------


def _commit(
    owned: Checkpoint,
    plan: Plan,
    last: Manifest,
    groups: Mapping[str, Sequence[PhysicalOperator]],
    rows: Sequence[tuple[str, _Rows | _KeyedRows]],
    clock: Clock,
    step: Step,
) -> Imported:
    """Write the states of operators, then the record that names them. Raises StateError, OSError."""
    files = SegmentFiles(owned.storage, owned.run_id)
    schemas = Schemas(plan.physical.operators, last.schemas)
    states = dict(last.states)
    stems: list[str] = []

    def stem_of(operator: int) -> str:
        stems.append(stem := state_files.moved_stem(last.window_id, operator, owned.epoch, next(_NUMBERS)))
        owned.expect(stem)
        return stem

    by_operator: dict[str, list[_Rows | _KeyedRows]] = {}
    for operator, one in rows:
        by_operator.setdefault(operator, []).append(one)
    try:
        for operator, several in by_operator.items():
            step(f"write {operator}")
            group = groups[operator]
            held = [_loaded(files, one, last) for one in group]
            for one in several:
                if isinstance(one, _KeyedRows):
                    KeyedFill(one.state, group, held, files, clock, stem_of).fill(one.pieces())
                else:
                    _fill(one, [cells[one.state] for cells in held])
                schemas.note(operator, {one.state: tuple(one.kinds)})
            for target, cells in zip(group, held, strict=True):
                result, _ = write_cells(files, target.state_key, cells, stem_of(target.id))
                states[target.state_key] = result.names
        step("commit")
        made = replace_states(
            owned, plan, states, schemas.picture, clock, lambda name: _context(owned, plan, name, clock)
        )
    except BaseException:
        for stem in stems:
            owned.give_up(stem)
        raise
    step("done")
    return Imported(made.window_id, {f"{operator}.{one.state}": one.count for operator, one in rows})


def _loaded(files: SegmentFiles, operator: PhysicalOperator, last: Manifest) -> dict[str, StateCell]:
    cells = cells_of(operator)
    load(files, operator.state_key, cells, last.states.get(operator.state_key, ()))
    return cells


def _context(owned: Checkpoint, plan: Plan, operator: str, clock: Clock) -> PublisherContext:
    """The environment of a publisher, without Spark."""
    return PublisherContext(
        application=plan.logical.application,
        operator=operator,
        run_id=owned.run_id,
        clock=clock,
        console=Console(stderr=True),
        staging=f"{owned.storage.uri}/staging",
        spark=_no_spark,
        epoch=owned.epoch,
        check_owner=owned.check_owner,
        committed=owned.committed,
    )


def _no_spark() -> Any:
    raise RidgelineError("an output needs Spark to be opened, which an import does not start")


def _fill(rows: _Rows, cells: Sequence[Any]) -> None:
    """Replace what the cells of a state hold."""
    if rows.kind == "value":
        for place, value in zip(rows.partitions, rows.values, strict=True):
            assert isinstance(cells[place], ValueCell)  # noqa: S101  of its kind
            cells[place].apply((value,))
        return
    items: list[list[tuple[int, Any]]] = [[] for _ in cells]
    for place, position, value in zip(rows.partitions, rows.keys, rows.values, strict=True):
        items[place].append((position, value))
    for cell, some in zip(cells, items, strict=True):
        assert isinstance(cell, ListCell)  # noqa: S101  of its kind
        some.sort(key=lambda one: one[0])
        cell.reset()
        cell.begin(_AT_A_BORDER)
        cell.extend([value for _, value in some])
        cell.changes()
