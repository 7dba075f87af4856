"""Write the state of an operator again, as the classes and states of a plan want it.

Values of classes that have changed, and those that a migration's function gets, are read as records. What is
declared now is made of them, with fields matched by name. The new file has no trace of the classes before.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa

from ridgeline.api.cells.cell import Change, StateCell
from ridgeline.api.columns.arrow_stream import from_ipc, to_ipc
from ridgeline.api.columns.schema import Schema, holds_pickles
from ridgeline.api.errors import StateError, described
from ridgeline.api.operator import operator_type
from ridgeline.api.partitioner import PartitionKeys
from ridgeline.api.state import KeyedCell, ListCell, ValueCell
from ridgeline.api.support.loops import DelayHead, DelayTail
from ridgeline.api.support.pickling import Reader, dumps
from ridgeline.engine.state import state_files
from ridgeline.engine.state.compaction import cells_of, write_cells
from ridgeline.engine.state.keyed_columns import EntryColumn, VaryingLeaf
from ridgeline.engine.state.keyed_segment import Segment
from ridgeline.engine.state.keyed_segments import Part, SegmentsChange
from ridgeline.engine.state.records import Function, Maker, record_class
from ridgeline.engine.state.segment_files import SegmentFiles
from ridgeline.engine.state.shared_segments import belong, routed
from ridgeline.engine.state.versions import attach
from ridgeline.plan.change.state_schemas import LIVE_REMEDY, Conversion
from ridgeline.plan.change.state_shapes import defaults_of, value_type
from ridgeline.plan.physical import PhysicalOperator
from ridgeline.plan.protocol import StateVersion


def convert(
    files: SegmentFiles,
    key: str,
    version: StateVersion,
    operator: PhysicalOperator,
    conversion: Conversion,
    stem: Callable[[], str],
    classes: set[type],
) -> StateVersion:
    """Write a version as the operator wants it; returns the new one, under the same state key.

    `stem`: gives the beginning of the names of new files. `classes`: gets those of the values that functions
    of migrations have made, and of keys. Raises StateError naming the operator, OSError.
    """
    if not version:
        return version
    converter = _Converter(files, key, operator, conversion, stem)
    try:
        return converter.convert(version, classes)
    except OSError:
        raise
    except Exception as error:
        if isinstance(error, StateError) and f"`{operator.name}`" in str(error):
            raise
        raised = StateError(converter.refusal(error))
        raised.operator = operator.name
        raise raised from error


class _Converter:
    def __init__(
        self,
        files: SegmentFiles,
        key: str,
        operator: PhysicalOperator,
        conversion: Conversion,
        stem: Callable[[], str],
    ) -> None:
        self._files, self._key, self._operator = files, key, operator
        self._conversion, self._stem = conversion, stem
        classes = conversion.classes
        self._reader = Reader(
            {
                name: one.new if one.is_opaque and one.new is not None else record_class(name, one.old)
                for name, one in classes.items()
            },
            gone=bool(conversion.dropped),
        )
        schemas = [*operator.inputs.values(), *operator.outputs.values()]
        self._schema: Schema | None = schemas[0] if schemas else None
        self._values = Maker(classes, self._with_pickles)
        self._migrated = Maker(classes, self._with_pickles, migrated=True)
        self._keys = Maker(classes, self._with_pickles, keys=True)
        self._state = ""
        """The state that is converted now, by its name before."""

    def convert(self, version: StateVersion, classes: set[type]) -> StateVersion:
        cells = cells_of(self._operator)
        for name in version:
            if not state_files.is_segment(name):
                self._apply(cells, state_files.read(self._files.storage, name, self._key, self._reader.loads))
        classes |= self._values.classes | self._migrated.classes | self._keys.classes
        result, _ = write_cells(self._files, self._key, cells, self._stem())
        return result.names

    def refusal(self, error: Exception) -> str:
        """Why the state is not converted, and what to do about it."""
        before = self._key.rsplit("/", 2)[0].partition("#")[0]
        before += f".{self._state}" if self._state else ""
        remedy = f"go on with the code that wrote it, or drop it: `--drop-state {before}`"
        where = f"state of operator `{self._operator.name}` cannot be converted, `{before}`"
        return f"{where}: {described(error)}; {LIVE_REMEDY if self._conversion.live else remedy}"

    def _apply(self, cells: Mapping[str, StateCell], changes: Mapping[str, Change]) -> None:
        """Apply changes of a file to the cells that are still wanted."""
        for name, change in changes.items():
            new, self._state = self._conversion.renamed.get(name, name), name
            cell = cells.get(new)
            if name in self._conversion.dropped or cell is None:
                continue
            value, key = self._value_function(new), self._key_function(new)
            if isinstance(change, SegmentsChange):
                assert isinstance(cell, KeyedCell)  # noqa: S101  no other has segments
                self._apply_segments(cell, change, new, key, value)
            elif isinstance(cell, KeyedCell):
                full, window, values, keys = change
                values = {key(one): value(held) for one, held in values.items()}
                cell.apply((full, window, values, list(map(key, keys))))
            elif isinstance(cell, ListCell):
                start, items = change
                cell.apply((start, list(map(value, items))))
            elif isinstance(cell, ValueCell):
                cell.apply((value(change[0]),))
            else:
                cell.apply(value(change))

    def _is_other(self, state: str) -> bool:
        """Whether the values of a state become others, of whatever classes they are."""
        return state in self._conversion.functions or state in self._conversion.retyped

    def _value_function(self, state: str) -> Function:
        """What makes each value of a state, or each item, from the one before."""
        if not self._is_other(state):
            has_columns = state in self._conversion.columns
            tuples = self._with_columns if has_columns else self._with_pickles
            if state == "kept" and isinstance(self._operator.operator, (DelayHead, DelayTail)):
                return partial(self._stream, batch=tuples)
            return Maker(self._conversion.classes, tuples).make if has_columns else self._values.make
        kind = value_type(operator_type(type(self._operator.operator)).states[state])
        functions = self._conversion.functions.get(state)
        if functions is None:
            return partial(self._values.make, kind=kind)

        def made(value: Any) -> Any:
            value = copy.deepcopy(value)  # parts of it may be in other values, too, and functions change them
            for function in functions:
                value = function(value)
            return self._migrated.make(value, kind)

        return made

    def _key_function(self, state: str) -> Function:
        """What makes each key of a state of the one before."""
        if state not in self._conversion.rekeyed:
            return self._keys.make
        declared: Any = operator_type(type(self._operator.operator)).states[state]
        return partial(self._keys.make, kind=declared.key)

    # Segments -----------------------------------------------------------------------------------------------

    def _apply_segments(
        self, cell: KeyedCell[Any, Any], change: SegmentsChange, state: str, key: Function, value: Function
    ) -> None:
        """Attach a cell to the segments if none of their entries changes, else hold all of these in it."""
        segments = {name: self._files.open(name) for name in change.names}
        kinds = {column.kind for one in segments.values() for column in (one.key_column, one.value_column)}
        changed, removed = (list(map(key, keys)) for keys in (change.changed, change.removed))
        values = {key(one): value(held) for one, held in (change.values or {}).items()}
        is_other = self._is_other(state) or state in self._conversion.rekeyed
        if not is_other and not (self._conversion.classes and "p" in kinds):
            attach(cell, change._replace(changed=changed, values=values, removed=removed), segments)
            return
        pairs: dict[Any, Any] = {}
        for names, own in change.parts or (Part(change.names, None),):
            for name in names:
                self._update(pairs, segments[name], own, key, value)
        for one in removed:
            pairs.pop(one, None)
        cell.apply((True, change.application_window, pairs | values, changed))

    def _update(
        self,
        pairs: dict[Any, Any],
        segment: Segment,
        own: PartitionKeys | None,
        key: Function,
        value: Function,
    ) -> None:
        """Apply the entries of a segment to those of older ones; `own`: which belong to the cell."""
        keys = list(map(key, self._read(segment.key_column, segment.keys)))
        values = self._read(segment.value_column, segment.keys)
        mine = np.ones(len(keys), np.bool_) if own is None else belong(routed(keys), own)
        for place in np.flatnonzero(mine).tolist():
            if segment.there[place]:
                pairs[keys[place]] = value(values[place])
            else:
                pairs.pop(keys[place], None)

    def _read(self, column: EntryColumn, count: int) -> Sequence[Any]:
        """The keys or values of a segment; those of classes that have changed as records."""
        if column.kind == "p" and isinstance(leaf := column.leaves[0], VaryingLeaf):
            return list(map(self._reader.loads, leaf.array.to_pylist()))
        found: Sequence[Any] = column.many(np.arange(count)).tolist()
        return found

    # Tuples that are kept -----------------------------------------------------------------------------------

    def _with_columns(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """A batch with the columns that the port has now."""
        if holds_pickles(batch) or self._schema is None:
            return self._with_pickles(batch)
        defaults = defaults_of(self._schema.type)
        arrays = [
            batch.column(index)
            if (index := batch.schema.get_field_index(column.name)) >= 0
            else pa.array([defaults[column.name]()] * batch.num_rows, column.type)
            for column in self._schema.arrow
        ]
        return pa.RecordBatch.from_arrays(arrays, schema=self._schema.arrow)

    def _with_pickles(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """A batch; its tuples as the classes of now have them, if it is of a stream of `object`."""
        if not holds_pickles(batch):
            return batch
        maker = Maker(self._conversion.classes, self._with_pickles)
        values = [maker.make(self._reader.loads(one)) for one in batch.column(0).to_pylist()]
        try:
            pickles = [dumps(value) for value in values]
        except TypeError:
            if self._reader.gone:  # of a state that is dropped: else its class had been missed at the start
                return batch
            raise
        return pa.RecordBatch.from_arrays([pa.array(pickles, pa.binary())], schema=batch.schema)

    def _stream(self, data: bytes | None, batch: Callable[[pa.RecordBatch], pa.RecordBatch]) -> bytes | None:
        """The tuples of a delay's tail, as an Arrow IPC stream: its batches are not pickled."""
        return to_ipc(list(map(batch, from_ipc(data)))) if data else data
