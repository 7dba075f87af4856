"""Read the state of an operator as the classes and states of a plan want it.

Values of classes that have changed, and those that a migration's function gets, are read as records. What is
declared now is made of them, with fields matched by name. What is written then has no
trace of the classes before.
"""

from __future__ import annotations

import contextlib
import copy
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa

from ridgeline.api.cells.cell import Change
from ridgeline.api.columns.arrow_stream import from_ipc, to_ipc
from ridgeline.api.columns.schema import Schema, holds_pickles
from ridgeline.api.errors import StateError, described
from ridgeline.api.operator import operator_type
from ridgeline.api.partitioner import PartitionKeys
from ridgeline.api.state import KeyedCell, ListCell, ValueCell
from ridgeline.api.support.loops import DelayHead, DelayTail
from ridgeline.api.support.pickling import Reader, dumps
from ridgeline.engine.state import state_files
from ridgeline.engine.state.compaction import cells_of
from ridgeline.engine.state.keyed_columns import EntryColumn, VaryingLeaf
from ridgeline.engine.state.keyed_hash import routed
from ridgeline.engine.state.keyed_segment import Segment, belong
from ridgeline.engine.state.keyed_segments import Part, SegmentsChange
from ridgeline.engine.state.records import Function, Maker, record_class
from ridgeline.engine.state.segment_files import SegmentFiles
from ridgeline.plan.change.state_schemas import LIVE_REMEDY, Conversion
from ridgeline.plan.change.state_shapes import defaults_of, value_type
from ridgeline.plan.physical import PhysicalOperator


class Converter:
    """Reads the states that an operator has left under the name `base` as changes of those of one now."""

    def __init__(
        self, files: SegmentFiles, base: str, operator: PhysicalOperator, conversion: Conversion
    ) -> None:
        self._files, self._base, self._operator = files, base, operator
        self._conversion = conversion
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
        self._cells = cells_of(operator)
        self._state = ""
        """The state that is converted now, by its name before."""

    @property
    def classes(self) -> set[type]:
        """Those of the values that functions of migrations have made, and of keys."""
        return self._values.classes | self._migrated.classes | self._keys.classes

    def changes(self, name: str, key: str) -> dict[str, Change]:
        """The changes in a state file under a state key, of the states that are still wanted."""
        found = state_files.read(self._files.storage, name, key, self._reader.loads)
        return {new: change for before, one in found.items() for new, change in self._converted(before, one)}

    @contextlib.contextmanager
    def refusing(self) -> Iterator[None]:
        """What is raised while its changes are read and written becomes a StateError naming the operator.

        OSError stays.
        """
        try:
            yield
        except OSError:
            raise
        except Exception as error:
            if isinstance(error, StateError) and f"`{self._operator.name}`" in str(error):
                raise
            raised = StateError(self._refusal(error))
            raised.operator = self._operator.name
            raise raised from error

    def _refusal(self, error: Exception) -> str:
        """Why the state is not converted, and what to do about it."""
        before = self._base.partition("#")[0]
        before += f".{self._state}" if self._state else ""
        remedy = f"go on with the code that wrote it, or drop it: `--drop-state {before}`"
        where = f"state of operator `{self._operator.name}` cannot be converted, `{before}`"
        return f"{where}: {described(error)}; {LIVE_REMEDY if self._conversion.live else remedy}"

    def _converted(self, name: str, change: Change) -> Iterator[tuple[str, Change]]:
        """The name of a state now, and its change; nothing of one that is not wanted."""
        new, self._state = self._conversion.renamed.get(name, name), name
        cell = self._cells.get(new)
        if name in self._conversion.dropped or cell is None:
            return
        value, key = self._value_function(new), self._key_function(new)
        if isinstance(change, SegmentsChange):
            yield new, self._of_segments(change, new, key, value)
        elif isinstance(cell, KeyedCell):
            full, window, values, keys = change
            values = {key(one): value(held) for one, held in values.items()}
            yield new, (full, window, values, list(map(key, keys)))
        elif isinstance(cell, ListCell):
            start, items = change
            yield new, (start, list(map(value, items)))
        elif isinstance(cell, ValueCell):
            yield new, (value(change[0]),)
        else:
            yield new, value(change)

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

    def _of_segments(self, change: SegmentsChange, state: str, key: Function, value: Function) -> Change:
        """The same segments if none of their entries changes, else all of these beside."""
        segments = {name: self._files.open(name) for name in change.names}
        kinds = {column.kind for one in segments.values() for column in (one.key_column, one.value_column)}
        changed, removed = (list(map(key, keys)) for keys in (change.changed, change.removed))
        values = {key(one): value(held) for one, held in (change.values or {}).items()}
        is_other = self._is_other(state) or state in self._conversion.rekeyed
        if not is_other and not (self._conversion.classes and "p" in kinds):
            return change._replace(changed=changed, values=values, removed=removed)
        pairs: dict[Any, Any] = {}
        for names, own in change.parts or (Part(change.names, None),):
            for name in names:
                self._update(pairs, segments[name], own, key, value)
        for one in removed:
            pairs.pop(one, None)
        return True, change.application_window, pairs | values, changed

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
