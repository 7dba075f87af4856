"""Takes states out of Parquet into a checkpoint, as one more window: one record of its journal.

All rows are read and checked before anything is written. A process that is killed before the record has
changed nothing: its files are removed by the next run.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from rich.console import Console

from ridgeline.api.clock import Clock
from ridgeline.api.columns.nan import one_nan
from ridgeline.api.errors import CheckpointError, RidgelineError, StateError, did_you_mean, shorten
from ridgeline.api.operator import operator_type
from ridgeline.api.publisher import PublisherContext
from ridgeline.api.state import KeyedCell, KeyedState, ListCell, StateCell, ValueCell
from ridgeline.api.support.files import is_local, local_path
from ridgeline.engine.driver.checkpoint.folder import Checkpoint
from ridgeline.engine.driver.checkpoint.manifest import Manifest
from ridgeline.engine.driver.checkpoint.planning import Planner, read_last
from ridgeline.engine.driver.checkpoint.rewinding import replace_states
from ridgeline.engine.driver.checkpoint.run_description import REGIONS, described, read_if_there
from ridgeline.engine.driver.checkpoint.state_moves import judge_states
from ridgeline.engine.driver.checkpoint.upkeep.exporting import FORMAT, KINDS, LISTING, PARTITION, POSITION
from ridgeline.engine.driver.checkpoint.upkeep.state_columns import (
    ENCODINGS,
    JSON,
    PICKLE,
    NoFormError,
    RowError,
    columns_of,
)
from ridgeline.engine.files.storage import LocalStorage
from ridgeline.engine.state import state_files
from ridgeline.engine.state.compaction import cells_of, write_cells
from ridgeline.engine.state.keyed_moves import KeyedMove
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
_NUMBERS = count(1)
_AT_A_BORDER = -1
Step = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Imported:
    """The result: the new window, and the rows of each state, by `operator.state`."""

    window: int
    rows: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class _Rows:
    """The rows of one state. `keys`: of a list, the positions; of one value, nothing."""

    state: str
    kind: str
    partitions: Sequence[int] | None
    keys: Sequence[Any]
    values: Sequence[Any]
    kinds: Collection[str]


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
            msg = f"`{self.folder}` has no region `{region}`; {did_you_mean(region, self.regions)}"
            raise CheckpointError(msg)
        if self.regions and not region:
            msg = f"`{self.folder}` is of several regions, and the application has none now"
            raise CheckpointError(msg)
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
            msg = f"{shorten(file)} is no name of a file in it"
            raise ValueError(msg)
        for part in parts:
            if part["encoding"] not in ENCODINGS:
                msg = f"{shorten(part['encoding'])} is none of {', '.join(ENCODINGS)}"
                raise ValueError(msg)
            columns_of("value", part["type"], JSON, {}, {})
    names = [(str(one["operator"]), str(one["state"])) for one in states]
    if len(set(names)) < len(names):
        msg = "it has a state twice"
        raise ValueError(msg)


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

    No driver may be at work. `source`: the folder, or what was read of it. `uri`, `plan`, `planner` are those
    of `region`, if the application has several. `operators`: the names of those wanted, none: all in the
    folder. `any_window`: also rows of another window or run. `pickles`: read them, which may run code.
    `step`: called with the name of each step, before it. Raises CheckpointError, StateError, OSError; nothing
    has changed then.
    """
    step = step or _nothing
    if not is_local(uri):
        msg = f"`{uri}` is not on a local disk: copy it to one (`checkpoint copy`), and back"
        raise CheckpointError(msg)
    storage = LocalStorage(local_path(uri))
    if read_if_there(storage, REGIONS) is not None or plan.logical.regions:
        msg = "the application has several regions: an import is into one of them"
        raise CheckpointError(msg)
    application = plan.logical.application
    last = read_last(storage, application)
    if last is None:
        msg = f"`{storage.uri}` has no window yet: there is no state to replace"
        raise CheckpointError(msg)
    listing = source if isinstance(source, Listing) else Listing(source)
    listing.choose(region)
    _check_window(listing, last, described(storage, application), application, any_window=any_window)
    chosen = _chosen(listing, operators)
    step("check the plan")
    _check_plan(plan, storage, last, planner)
    groups = _groups(plan)
    rows = [(one["operator"], _read(listing, one, groups, pickles=pickles)) for one in chosen]
    step("own the checkpoint")
    owned = Checkpoint(storage, application)
    try:
        now = owned.last()
        if now is None or now.window_id != last.window_id:
            msg = f"`{storage.uri}` was at window {last.window_id}, and has continued since; export again"
            raise CheckpointError(msg)
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
        msg = f"`{listing.folder}` is of the application `{listing.application}`, not of `{application}`"
        raise CheckpointError(msg)
    if any_window:
        return
    if listing.run != run:
        msg = f"`{listing.folder}` is of another run, {listing.run}; `--any-window` takes it all the same"
        raise CheckpointError(msg)
    if listing.window != last.window_id:
        what = f"`{listing.folder}` is of window {listing.window}, and the checkpoint is at {last.window_id}"
        msg = f"{what}: changes since would be lost; export again, or give `--any-window`"
        raise CheckpointError(msg)


def _chosen(listing: Listing, operators: Collection[str]) -> list[dict[str, Any]]:
    known = {one["operator"] for one in listing.states}
    for name in operators:
        if name not in known:
            msg = f"`{listing.folder}` has no state of an operator `{name}`; {did_you_mean(name, known)}"
            raise CheckpointError(msg)
    found = [one for one in listing.states if not operators or one["operator"] in operators]
    if not found:
        msg = f"`{listing.folder}` has no state"
        raise CheckpointError(msg)
    return found


def _check_plan(plan: Plan, storage: LocalStorage, last: Manifest, planner: Planner) -> None:
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
        msg = f"APP is another version than the one that wrote the checkpoint: {listed}; start it once first"
        raise CheckpointError(msg)


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
) -> _Rows:
    """The rows of one state, checked. Raises CheckpointError, StateError naming rows."""
    where = f"{listed['operator']}.{listed['state']}"
    group = groups.get(listed["operator"])
    if group is None:
        msg = f"the application has no operator `{listed['operator']}`; {did_you_mean(where, groups)}"
        raise CheckpointError(msg)
    if group[0].slides:
        msg = f"`{listed['operator']}` slides, and its slides have values of its states: import is not there"
        raise CheckpointError(msg)
    kinds: dict[str, type] = {}
    shape = state_shapes(group[0], kinds).get(listed["state"])
    kinds = with_inner(kinds)
    if shape is None or shape != listed["shape"] or shape["kind"] not in KINDS:
        what = "there is no such state" if shape is None else f"it is declared as {json.dumps(shape)}"
        msg = f"`{where}` was exported as {json.dumps(listed['shape'])}, and {what}; export again"
        raise CheckpointError(msg)
    for name, now in class_shapes(kinds).items():
        if listing.classes.get(name, now) != json.loads(json.dumps(now)):
            msg = f"`{where}`: the class `{name}` has other fields than when it was exported; export again"
            raise CheckpointError(msg)
    parts = [listed.get("key"), listed["value"]]
    if any(one and one["encoding"] == PICKLE for one in parts) and not pickles:
        msg = f"`{where}` has pickles, which run code when they are read; `--allow-pickle` reads them"
        raise CheckpointError(msg)
    table = _table(listing.folder / listed["file"], where)
    try:
        return _rows_of(where, listed, shape["kind"], table, listing.classes, kinds, len(group))
    except NoFormError as error:
        msg = f"`{listing.folder / LISTING}`: values of `{where}` cannot be read as `{error}`; export again"
        raise CheckpointError(msg) from None


def _table(path: Path, where: str) -> pa.Table:
    try:
        return pq.read_table(path)
    except FileNotFoundError:
        msg = f"`{path}`, the rows of `{where}`, is missing; export again, or `--operator` names others"
        raise CheckpointError(msg) from None
    except (pa.ArrowException, OSError) as error:
        msg = f"`{path}`, the rows of `{where}`, cannot be read: {error}; write it again"
        raise CheckpointError(msg) from None


def _rows_of(
    where: str,
    listed: Mapping[str, Any],
    kind: str,
    table: pa.Table,
    classes: Mapping[str, Shape],
    kinds: Mapping[str, type],
    partitions: int,
) -> _Rows:
    """The rows of a file as keys and values. Raises StateError naming rows, from 1."""
    title = columns_of("value", listed["value"]["type"], listed["value"]["encoding"], classes, kinds)
    titles = [title]
    if kind == "keyed":
        titles.insert(0, columns_of("key", listed["key"]["type"], listed["key"]["encoding"], classes, kinds))
    wanted = [name for one in titles for name in one.fields]
    needed = [*wanted, *([] if kind == "keyed" else [PARTITION]), *([POSITION] if kind == "list" else [])]
    missing = [name for name in needed if name not in table.column_names]
    more = [name for name in table.column_names if name not in {*needed, PARTITION}]
    if missing or more or len(set(table.column_names)) != len(table.column_names):
        listing = f"it has {', '.join(table.column_names)}, and needs {', '.join(needed)}"
        msg = f"the columns of `{listed['file']}` are others: {listing}"
        raise StateError(msg)
    found: list[list[Any]] = [[] for _ in titles]
    start = 0
    for batch in table.to_batches():
        for column, one in zip(found, titles, strict=True):
            try:
                column.extend(one.read(batch))
            except RowError as error:
                raise _wrong(listed["file"], where, [(start + error.row, str(error))]) from None
        start += batch.num_rows
    places = table.column(PARTITION).to_pylist() if PARTITION in table.column_names else None
    keys: Sequence[Any] = found[0] if kind == "keyed" else [None] * len(places or ())
    if kind == "list":
        keys = table.column(POSITION).to_pylist()
    faults = list(_faults(kind, places, keys, partitions))
    if faults:
        raise _wrong(listed["file"], where, faults)
    if kind == "value" and sorted(places or ()) != list(range(partitions)):
        msg = f"`{listed['file']}` needs one row for each of {partitions} partitions of `{where}`"
        raise StateError(msg)
    noted = class_names([one for name, one in kinds.items() if name in classes])
    return _Rows(listed["state"], kind, places, keys, found[-1], noted)


def _faults(
    kind: str, places: Sequence[Any] | None, keys: Sequence[Any], partitions: int
) -> Iterator[tuple[int, str]]:
    """Rows with a key twice or without a hash, a position that is none, or a partition that there is not."""
    if places is not None and (kind != "keyed"):
        for row, place in enumerate(places):
            if type(place) is not int or not 0 <= place < partitions:
                yield row, f"partition {shorten(place)} is none of {partitions}, from 0"
    if kind == "value":
        return
    seen: dict[Any, int] = {}
    for row, key in enumerate(one_nan(list(keys))):
        if kind == "list" and type(key) is not int:
            yield row, f"position {shorten(key)} is no whole number"
            continue
        whole = key if kind == "keyed" else ((places or ())[row], key)
        try:
            first = seen.setdefault(whole, row)
        except TypeError:
            yield row, f"the key {shorten(key)} cannot be one: it has no hash"
            continue
        if first != row:
            what = "the key" if kind == "keyed" else "the position"
            yield row, f"{what} {shorten(key)} is in row {first + 1}, too"


def _wrong(file: str, where: str, faults: Sequence[tuple[int, str]]) -> StateError:
    texts = [f"row {row + 1}: {what}" for row, what in faults[:_MOST_FAULTS]]
    more = f"; and {len(faults) - _MOST_FAULTS:,} more" if len(faults) > _MOST_FAULTS else ""
    msg = f"`{file}` cannot be `{where}`: {'; '.join(texts)}{more}; nothing was changed"
    return StateError(msg)


# Write ------------------------------------------------------------------------------------------------------


def _commit(
    owned: Checkpoint,
    plan: Plan,
    last: Manifest,
    groups: Mapping[str, Sequence[PhysicalOperator]],
    rows: Sequence[tuple[str, _Rows]],
    clock: Clock,
    step: Step,
) -> Imported:
    """Write the states of operators, then the record that names them. Raises StateError, OSError."""
    files = SegmentFiles(owned.storage, owned.run_id)
    schemas = Schemas(plan.physical.operators, last.schemas)
    states = dict(last.states)
    stems: list[str] = []
    by_operator: dict[str, list[_Rows]] = {}
    for operator, one in rows:
        by_operator.setdefault(operator, []).append(one)
    try:
        for operator, several in by_operator.items():
            step(f"write {operator}")
            group = groups[operator]
            held = [_loaded(files, one, last) for one in group]
            for one in several:
                _Filled(group, held, files, clock).fill(one)
                schemas.note(operator, {one.state: tuple(one.kinds)})
            for target, cells in zip(group, held, strict=True):
                stem = state_files.moved_stem(last.window_id, target.id, owned.epoch, next(_NUMBERS))
                owned.expect(stem)
                stems.append(stem)
                result, _ = write_cells(files, target.state_key, cells, stem)
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
    return Imported(made.window_id, {f"{operator}.{one.state}": len(one.values) for operator, one in rows})


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
    msg = "an output needs Spark to be opened, which an import does not start"
    raise RidgelineError(msg)


class _Filled:
    """Fills the states of an operator's partitions with rows."""

    def __init__(
        self,
        group: Sequence[PhysicalOperator],
        held: Sequence[Mapping[str, StateCell]],
        files: SegmentFiles,
        clock: Clock,
    ) -> None:
        self._group, self._held, self._files, self._clock = group, held, files, clock

    def fill(self, rows: _Rows) -> None:
        """Replace what the cells of a state hold. Raises StateError."""
        cells: Any = [cells[rows.state] for cells in self._held]
        if rows.kind == "value":
            assert rows.partitions is not None  # noqa: S101  checked
            for place, value in zip(rows.partitions, rows.values, strict=True):
                assert isinstance(cells[place], ValueCell)  # noqa: S101  of its kind
                cells[place].apply((value,))
        elif rows.kind == "list":
            self._fill_lists(rows, cells)
        else:
            self._fill_keyed(rows, cells)

    @staticmethod
    def _fill_lists(rows: _Rows, cells: Sequence[Any]) -> None:
        """Set the items of each partition, in the order of their positions."""
        assert rows.partitions is not None  # noqa: S101  checked
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

    def _fill_keyed(self, rows: _Rows, cells: Sequence[Any]) -> None:
        """Set the keys of each partition, and when they end. Raises StateError."""
        declared: Any = operator_type(type(self._group[0].operator)).states[rows.state]
        assert isinstance(declared, KeyedState)  # noqa: S101  of its kind
        pairs = list(zip(one_nan(list(rows.keys)), rows.values, strict=True))
        for cell, part in zip(cells, self._divided(declared, rows, pairs), strict=True):
            assert isinstance(cell, KeyedCell)  # noqa: S101  of its kind
            window = cell.held(table=False).application_window
            filled = declared.cell()
            filled.begin(window)
            for key, value in part.items():
                filled[key] = value  # checks its type
            cell.reset()
            cell.apply((True, window, dict(filled.items()), []))
        if declared.ttl_microseconds:
            self._set_lifetimes(declared, cells)

    def _divided(
        self, declared: KeyedState[Any, Any], rows: _Rows, pairs: list[tuple[Any, Any]]
    ) -> Sequence[Mapping[Any, Any]]:
        """The keys and values of each partition."""
        count = len(self._group)
        if count == 1 and declared.moves_to is None:
            return [dict(pairs)]
        move = KeyedMove(self._group[0], self._files, count, self._group, None)
        if declared.moves_to is not None:
            return [dict(one) for one in move.divide_whole(rows.state, [dict(pairs)])]
        by = declared.moves_by or _itself
        return [dict(one) for one in move.divide_items(rows.state, pairs, lambda pair: by(pair[0]))]

    def _set_lifetimes(self, declared: KeyedState[Any, Any], cells: Sequence[Any]) -> None:
        """Keys that were there keep their end. New ones end as the latest of them, or a `ttl` from now."""
        name = f"_{declared.name}_ends"
        before: dict[Any, tuple[int, int]] = {}
        for one in self._held:
            before.update(one[name].pairs())  # type: ignore[attr-defined]  # a timer cell
        now = round(self._clock.wall() * 1_000_000) + declared.ttl_microseconds
        if declared.ttl_by == "record" and not before and any(len(cell) for cell in cells):
            msg = f"`{declared.name}` lives by the time of records, and none has come yet: its keys would "
            msg += "have no end; let it run first"
            raise StateError(msg)
        latest = max((when for when, _ in before.values()), default=now)
        number = max((one for _, one in before.values()), default=0)
        for one, cell in zip(self._held, cells, strict=True):
            ends = {}
            for key in cell:
                number += 1
                ends[key] = (before[key][0] if key in before else latest, number)
            one[name].reset()
            one[name].apply((True, _AT_A_BORDER, ends, []))


def _itself(key: Any) -> Any:
    return key
