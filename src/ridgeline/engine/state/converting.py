"""Write the state of an operator again, as the classes and states of a plan want it.

Values are read with another class in the place of each that has changed. Fields are matched by name, new ones
get their default. The new file has no trace of the classes before.
"""

from __future__ import annotations

import contextlib
import copy
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from ridgeline.api.cells.cell import Change, StateCell
from ridgeline.api.columns.schema import Schema, holds_pickles
from ridgeline.api.errors import StateError, described
from ridgeline.api.state import KeyedCell
from ridgeline.api.support.pickling import Reader, dumps
from ridgeline.engine.state import state_files
from ridgeline.engine.state.compaction import cells_of, write_cells
from ridgeline.engine.state.keyed_columns import EntryColumn, Leaf, VaryingLeaf, encode, kind_of
from ridgeline.engine.state.keyed_hash import hash_many
from ridgeline.engine.state.keyed_segment import Segment
from ridgeline.engine.state.keyed_segments import Part, SegmentsChange
from ridgeline.engine.state.segment_compaction import Entries, Merge
from ridgeline.engine.state.segment_files import SegmentFiles
from ridgeline.engine.state.versions import attach
from ridgeline.plan.change.state_schemas import Conversion, Replacement, defaults_of
from ridgeline.plan.physical import PhysicalOperator
from ridgeline.plan.protocol import StateVersion

_KEPT = frozenset({"_waiting", "_slides", "kept"})
_WRITTEN_IN_PYTHON = 1 << 9
"""The flag of classes that are not built in."""
_MAKES_BATCH = "pyarrow.lib:_reconstruct_record_batch"
"""The function that pickles of batches name."""


def convert(
    files: SegmentFiles,
    key: str,
    version: StateVersion,
    operator: PhysicalOperator,
    conversion: Conversion,
    stem: Callable[[], str],
) -> StateVersion:
    """Write a version as the operator wants it; returns the new one, under the same state key.

    `stem`: gives the beginning of the names of new files. Raises StateError naming the operator, OSError.
    """
    if not version:
        return version
    try:
        return _Converter(files, key, operator, conversion, stem).convert(version)
    except (OSError, StateError):
        raise
    except Exception as error:
        what = f"state of operator `{operator.name}` cannot be converted: {described(error)}"
        msg = f"{what}; go on with the code that wrote it, or drop it: `--drop-state {operator.name}`"
        raise StateError(msg) from error


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
        stands = {name: placeholder(one) for name, one in conversion.classes.items()}
        if stands:
            stands[_MAKES_BATCH] = self._batch_with_pickles
        self._reader = Reader(stands, gone=bool(conversion.dropped))
        self._tuples = _Tuples(conversion, operator, self._reader)
        self._segments: dict[str, Segment] = {}
        """The new segments, by the names of those that they come from."""

    def convert(self, version: StateVersion) -> StateVersion:
        cells = cells_of(self._operator)
        for name in version:
            if not state_files.is_segment(name):
                self._apply(cells, state_files.read(self._files.storage, name, self._key, self._reader.loads))
        result, _ = write_cells(self._files, self._key, cells, self._stem())
        return result.names

    def _batch_with_pickles(self, columns: Sequence[pa.Array], schema: pa.Schema) -> pa.RecordBatch:
        """A batch that was pickled; the tuples of a stream of `object` as the classes of now have them."""
        batch = pa.RecordBatch.from_arrays(list(columns), schema=schema)
        return with_pickles(batch, self._reader) if holds_pickles(batch) else batch

    def _apply(self, cells: Mapping[str, StateCell], changes: Mapping[str, Change]) -> None:
        """Apply changes of a file to the cells that are still wanted."""
        conversion = self._conversion
        for name, change in changes.items():
            new = conversion.renamed.get(name, name)
            cell = cells.get(new)
            if name in conversion.dropped or cell is None:
                continue
            if isinstance(change, SegmentsChange):
                assert isinstance(cell, KeyedCell)  # noqa: S101  no other has segments
                attach(
                    cell,
                    self._with_new_segments(change),
                    {state_files.last_part(segment.name): segment for segment in self._segments.values()},
                )
            else:
                cell.apply(self._tuples.converted(new, change) if new in _KEPT else change)

    # Segments -----------------------------------------------------------------------------------------------

    def _with_new_segments(self, change: SegmentsChange) -> SegmentsChange:
        def new(names: Sequence[str]) -> tuple[str, ...]:
            return tuple(state_files.last_part(self._new_segment(name).name) for name in names)

        parts = tuple(Part(new(part.names), part.keys) for part in change.parts)
        return change._replace(names=new(change.names), parts=parts)

    def _new_segment(self, name: str) -> Segment:
        """The segment with converted keys and values; it has its entries where they were."""
        found = self._segments.get(name)
        if found is None:
            old = self._files.open(name)
            keys, values = self._column(old.key_column), self._column(old.value_column)
            if keys is old.key_column and values is old.value_column:
                found = old
            else:
                entries = Entries(old.hashes, old.orders, keys, values, old.size_bytes)
                if keys is not old.key_column:
                    entries = _sorted(entries)
                title = f"{self._stem()}segment0"
                merge = Merge([entries], oldest=False)
                where = f"{state_files.FOLDER}/{title}"
                self._files.storage.write_parts(where, merge.file(title, old.live, old.next_order))
                found = self._files.open(title)
            self._segments[name] = found
        return found

    def _column(self, column: EntryColumn) -> EntryColumn:
        """A column with values as the classes of now have them; itself if it has no pickles."""
        if column.kind != "p" or not self._conversion.classes:
            return column
        leaf: Leaf = column.leaves[0]
        assert isinstance(leaf, VaryingLeaf)  # noqa: S101  as pickles are
        values = [self._reader.loads(value) for value in leaf.array.to_pylist()]
        kind = kind_of(values) if values else "p"
        return encode(values, "p") if kind != "-" else column


def _sorted(entries: Entries) -> Entries:
    """Entries with other keys: in the order of their hashes."""
    keys = entries.key_column.many(np.arange(len(entries.hashes))).tolist()
    hashes = hash_many(keys)
    places = np.argsort(hashes, kind="stable")
    columns = entries.key_column.gathered(places), entries.value_column.gathered(places)
    return Entries(hashes[places], entries.orders[places], *columns, entries.size_bytes)


class _Tuples:
    """Converts tuples of a port that are kept as batches."""

    def __init__(self, conversion: Conversion, operator: PhysicalOperator, reader: Reader) -> None:
        self._conversion, self._reader = conversion, reader
        schemas = [*operator.inputs.values(), *operator.outputs.values()]
        self._schema: Schema | None = schemas[0] if schemas else None

    def converted(self, name: str, change: Change) -> Change:
        """The change of a state in which tuples are kept."""
        wanted = name in self._conversion.columns
        if name == "kept" and isinstance(change[0], bytes) and change[0]:
            return (self._stream(change[0], wanted=wanted),)
        found = self._walked(change, wanted=wanted)
        assert isinstance(found, tuple)  # noqa: S101  as it was
        return found

    def _walked(self, value: Any, *, wanted: bool) -> Any:
        if isinstance(value, pa.RecordBatch):
            return self._batch(value, wanted=wanted)
        if type(value) is tuple:
            return tuple(self._walked(one, wanted=wanted) for one in value)
        if type(value) is list:
            return [self._walked(one, wanted=wanted) for one in value]
        if type(value) is dict:
            return {key: self._walked(one, wanted=wanted) for key, one in value.items()}
        return value

    def _batch(self, batch: pa.RecordBatch, *, wanted: bool) -> pa.RecordBatch:
        """A batch with the columns of now; `wanted`: they are others."""
        if not wanted or self._schema is None:
            return batch
        arrow = self._schema.arrow
        defaults = defaults_of(self._schema.type)
        arrays = []
        for column in arrow:
            index = batch.schema.get_field_index(column.name)
            if index >= 0:
                arrays.append(batch.column(index))
            else:
                arrays.append(pa.array([defaults[column.name]()] * batch.num_rows, column.type))
        return pa.RecordBatch.from_arrays(arrays, schema=arrow)

    def _stream(self, data: bytes, *, wanted: bool) -> bytes:
        """The tuples of a delay's tail, as an Arrow IPC stream: its batches are not pickled."""
        with pa.ipc.open_stream(data) as stream:
            batches = [
                with_pickles(batch, self._reader)
                if holds_pickles(batch)
                else self._batch(batch, wanted=wanted)
                for batch in stream
            ]
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, batches[0].schema) as written:
            for batch in batches:
                written.write_batch(batch)
        return bytes(sink.getvalue().to_pybytes())


def with_pickles(batch: pa.RecordBatch, reader: Reader) -> pa.RecordBatch:
    """A batch of a stream of `object`, with what a reader makes of its tuples."""
    values = [reader.loads(one) for one in batch.column(0).to_pylist()]
    try:
        pickles = [dumps(value) for value in values]
    except TypeError:
        if reader.gone:  # of a state that is dropped: else its class had been missed at the start
            return batch
        raise
    return pa.RecordBatch.from_arrays([pa.array(pickles, pa.binary())], schema=batch.schema)


# Classes ----------------------------------------------------------------------------------------------------


def placeholder(one: Replacement) -> Callable[..., Any]:
    """What makes instances of the class of now of what pickles say of the class before."""
    kind = one.old["kind"]
    if kind == "NamedTuple":
        return _named_tuple(one.new, [name for name, *_ in one.old["fields"]])
    if kind == "dataclass":
        return _dataclass(one.new, one.old)
    if kind == "model":
        return _model(one.new, one.old)
    if kind == "Enum":
        names = {value: name for name, value in reversed(one.old["members"])}
        new: Any = one.new
        return lambda value: new[names[repr(value)]]
    if kind == "Flag":
        return _flag(one.new, one.old["members"])
    return one.new


def _named_tuple(new: Any, before: Sequence[str]) -> Callable[..., Any]:
    defaults = defaults_of(new)

    class StandIn:
        def __new__(cls, *values: Any) -> Any:
            held = dict(zip(before, values, strict=True))
            found = (held[name] if name in held else copy.deepcopy(defaults[name]()) for name in new._fields)
            return tuple.__new__(new, found)

    return StandIn


def _flag(new: Any, before: Sequence[Sequence[str]]) -> Callable[..., Any]:
    """What makes a flag of its number: that of the members whose bits it had."""
    numbers = {name: int(value) for name, value in before}

    def made(value: int) -> Any:
        found, left = new(0), int(value)
        for name, number in numbers.items():
            if number and number & (number - 1) == 0 and number & left:
                found |= new[name]
                left &= ~number
        if left:
            msg = f"a `{new.__name__}` has bits that no member had: {value}"
            raise ValueError(msg)
        return found

    return made


def _dataclass(new: Any, old: Mapping[str, Any]) -> Callable[..., Any]:
    """What makes a dataclass of the state in a pickle: pickle makes an instance, then sets its state."""
    before = [name for name, *_ in old["fields"]]

    def filled(self: Any, state: Any) -> None:
        for name, value in _by_name(before, state).items():
            object.__setattr__(self, name, value)

    return _held(new, before, filled)


def _model(new: Any, old: Mapping[str, Any]) -> Callable[..., Any]:
    """The same of a class that keeps its fields by name itself, as those of pydantic and attrs do."""
    own = getattr(new, "__setstate__", None)

    def filled(self: Any, state: Any) -> None:
        if own is not None:
            own(self, state)
            return
        for name, value in _by_name((), state).items():
            object.__setattr__(self, name, value)

    return _held(new, [name for name, *_ in old["fields"]], filled)


class _Quiet:
    """Hides a subclass that users did not write from its base class."""

    __slots__ = ()

    def __init_subclass__(cls, **_named: object) -> None:
        """Do nothing."""


def _held(new: Any, before: Sequence[str], filled: Callable[[Any, Any], None]) -> Callable[..., Any]:
    """A class whose instances become those of `new` once they get their state.

    `before`: the fields that there were; others get their default. `filled(instance, state)` sets the state.
    No code of `new` runs, nor that of its metaclass or bases.
    """
    added = {name: made for name, made in defaults_of(new).items() if name not in before}
    maker = next(base.__new__ for base in new.__mro__ if not base.__flags__ & _WRITTEN_IN_PYTHON)

    def empty(cls: Any, *values: Any) -> Any:
        return object.__new__(cls) if maker is object.__new__ else maker(cls, *values)

    def set_state(self: Any, state: Any) -> None:
        object.__setattr__(self, "__class__", new)
        filled(self, state)
        for name, default in added.items():
            object.__setattr__(self, name, copy.deepcopy(default()))

    def made(cls: Any, *values: Any) -> Any:
        instance = empty(cls, *values)
        if not before:
            set_state(instance, {})  # pickles of what has no fields have no state
        return instance

    def untouched(self: Any, *_values: Any) -> None:
        """Its state says what it holds."""

    names = {"__new__": made, "__init__": untouched, "__setstate__": set_state}
    without = names | {"__slots__": ()}
    for kind, bases, own in ((type, (), names), (type(new), (_Quiet, new), without)):
        held = type.__new__(kind, new.__name__, bases, own)
        with contextlib.suppress(TypeError):  # its layout is another one
            object.__setattr__(empty(held), "__class__", new)
            return held
    return type.__new__(type(new), new.__name__, (new,), without)


def _by_name(names: Iterable[str], state: Any) -> Mapping[str, Any]:
    """The values of fields in what a pickle has of a dataclass."""
    if isinstance(state, list):
        return dict(zip(names, state, strict=True))
    if isinstance(state, tuple):
        return {**(state[0] or {}), **(state[1] or {})}
    found: Mapping[str, Any] = state
    return found
