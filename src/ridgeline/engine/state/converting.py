"""Write the state of an operator again, as the classes and states of a plan want it.

Values are read with another class in the place of each that has changed. Fields are matched by name, new ones
get their default. The new file has no trace of the classes before.
"""

from __future__ import annotations

import contextlib
import copy
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import compress
from typing import Any, cast

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from ridgeline.api.cells.cell import Change, Kind, StateCell
from ridgeline.api.cells.migrations import Former
from ridgeline.api.columns.schema import Schema, holds_pickles
from ridgeline.api.errors import StateError, described
from ridgeline.api.operator import operator_type
from ridgeline.api.state import KeyedCell, KeyedState, ListCell, ListState
from ridgeline.api.support.pickling import Reader, dumps
from ridgeline.engine.state import state_files
from ridgeline.engine.state.compaction import cells_of, write_cells
from ridgeline.engine.state.keyed_columns import (
    NOTHING,
    EntryColumn,
    Leaf,
    VaryingLeaf,
    encode,
    kind_of,
    zero,
)
from ridgeline.engine.state.keyed_hash import hash_many
from ridgeline.engine.state.keyed_segment import TOMBSTONE, Segment
from ridgeline.engine.state.keyed_segments import Part, SegmentsChange
from ridgeline.engine.state.segment_compaction import Entries, Merge
from ridgeline.engine.state.segment_files import SegmentFiles
from ridgeline.engine.state.versions import attach
from ridgeline.plan.change.state_schemas import Conversion, Replacement, defaults_of
from ridgeline.plan.physical import PhysicalOperator
from ridgeline.plan.protocol import StateVersion

# Stand-ins for a class while values are read that were written when it was another one.
#
# Fields are matched by name, after migrations have renamed, dropped and converted them. New ones get their
# default. No code of the class runs.

_WRITTEN_IN_PYTHON = 1 << 9
"""The flag of classes that are not built in."""


def placeholder(one: Replacement) -> Callable[..., Any]:
    """A callable that makes instances of the class of now of what pickles say of the class before."""
    kind = one.old["kind"]
    if one.former:
        return _former(one)
    if kind == "NamedTuple":
        return _named_tuple(one)
    if kind in {"dataclass", "model"}:
        return _held(one, _filler(one))
    if kind == "Enum":
        names = {value: one.fields.get(name, name) for name, value in reversed(one.old["members"])}
        new: Any = one.new
        return lambda value: new[names[repr(value)]]
    if kind == "Flag":
        return _flag(one.new, [(one.fields.get(name, name), value) for name, value in one.old["members"]])
    return one.new


def _named_tuple(one: Replacement) -> Callable[..., Any]:
    """A class that makes a NamedTuple of the values in a pickle, in the order of the fields before."""
    new: Any = one.new
    before = [name for name, *_ in one.old["fields"]]
    defaults = defaults_of(new)

    class StandIn:
        def __new__(cls, *values: Any) -> Any:
            held = _migrated(one, zip(before, values, strict=True))
            found = (held[name] if name in held else copy.deepcopy(defaults[name]()) for name in new._fields)
            return tuple.__new__(new, found)

    return StandIn


def _migrated(one: Replacement, fields: Iterable[tuple[str, Any]]) -> dict[str, Any]:
    """Fields under their new names, with what functions make of them."""
    named = [(one.fields.get(name, name), value) for name, value in fields]
    return {name: one.values[name](value) if name in one.values else value for name, value in named if name}


def _flag(new: Any, before: Sequence[Sequence[str]]) -> Callable[..., Any]:
    """A function that makes a flag of its number: that of the members whose bits it had."""
    numbers = {name: int(value) for name, value in before}

    def made(value: int) -> Any:
        found, left = new(0), int(value)
        for name, number in numbers.items():
            if number and number & (number - 1) == 0 and number & left:
                found |= new[name]
                left &= ~number
        if left:
            raise ValueError(f"a `{new.__name__}` has bits that no member had: {value}")
        return found

    return made


def _filler(one: Replacement) -> Callable[[Any, Any], None]:
    """A function that gives an instance the state in a pickle: pickle makes the instance first.

    A dataclass has its values in order or by name, a class of pydantic or attrs reads them by itself.
    """
    before = [name for name, *_ in one.old["fields"]]
    own = getattr(one.new, "__setstate__", None) if one.old["kind"] == "model" else None
    changed = bool(one.fields or one.values)

    def filled(self: Any, state: Any) -> None:
        if own is not None:
            own(self, _model_state(one, before, state) if changed else state)
            return
        for name, value in _migrated(one, _by_name(before, state).items()).items():
            object.__setattr__(self, name, value)

    return filled


def _model_state(one: Replacement, before: Sequence[str], state: Any) -> Any:
    """The state of a class of pydantic or attrs, with its fields after migrations."""
    if isinstance(state, tuple):  # of attrs, with slots: values in order
        state = dict(zip(before, state, strict=True))
    if "__dict__" not in state:
        return _migrated(one, state.items())
    found = {**state, "__dict__": _migrated(one, state["__dict__"].items())}
    if (given := state.get("__pydantic_fields_set__")) is not None:
        found["__pydantic_fields_set__"] = {name for old in given if (name := one.fields.get(old, old))}
    return found


def _former(one: Replacement) -> Callable[..., Any]:
    """A class that makes a `Former` of a value whose class is no more."""
    old, name = one.old, one.former
    before = [field for field, *_ in old.get("fields", ())]
    members = {value: member for member, value in reversed(old.get("members", ()))}

    class StandIn(Former):
        def __new__(cls, *values: Any) -> Any:
            if old["kind"] == "NamedTuple":
                return Former(name, **_migrated(one, zip(before, values, strict=True)))
            if members:
                member = members.get(repr(values[0]), "")
                return Former(name, member=one.fields.get(member, member), value=values[0])
            return object.__new__(cls)

        def __init__(self, *_values: Any) -> None:
            """Its state says what it holds."""

        def __setstate__(self, state: Any) -> None:
            fields = state.get("__dict__", state) if isinstance(state, dict) else _by_name(before, state)
            object.__setattr__(self, "__class__", Former)
            vars(self).update(_migrated(one, fields.items()), former_class=name)

    return StandIn


class _Quiet:
    """Hides a subclass that users did not write from its base class."""

    __slots__ = ()

    def __init_subclass__(cls, **_named: object) -> None:
        """Do nothing."""


def _held(one: Replacement, filled: Callable[[Any, Any], None]) -> Callable[..., Any]:
    """A class whose instances become those of the new one once they get their state.

    Fields that there were not get their default. `filled(instance, state)` sets the state. No code of the new
    class runs, nor that of its metaclass or bases.
    """
    new: Any = one.new
    before = [name for name, *_ in one.old["fields"]]
    known = {one.fields.get(name, name) for name in before}
    added = {name: made for name, made in defaults_of(new).items() if name not in known}
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


Function = Callable[[Any], Any]
_KEPT = frozenset({"_waiting", "_slides", "kept"})
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
    except StateError as error:
        if f"`{operator.name}`" in str(error):
            raise
        raise StateError(f"state of operator `{operator.name}` cannot be converted: {error}") from error
    except OSError:
        raise
    except Exception as error:
        what = f"state of operator `{operator.name}` cannot be converted: {described(error)}"
        raise StateError(
            f"{what}; go on with the code that wrote it, or drop it: `--drop-state {operator.name}`"
        ) from error


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
            made = conversion.values.get(new)
            if made is not None:
                made = self._checked(new, made)
            if isinstance(change, SegmentsChange):
                assert isinstance(cell, KeyedCell)  # noqa: S101  no other has segments
                attach(
                    cell,
                    self._with_new_segments(change, made),
                    {state_files.last_part(segment.name): segment for segment in self._segments.values()},
                )
            else:
                found = self._tuples.converted(new, change) if new in _KEPT else change
                cell.apply(found if made is None else _with_values(cell, found, made))

    # Segments -----------------------------------------------------------------------------------------------

    def _with_new_segments(self, change: SegmentsChange, made: Function | None) -> SegmentsChange:
        def new(names: Sequence[str]) -> tuple[str, ...]:
            return tuple(state_files.last_part(self._new_segment(name, made).name) for name in names)

        parts = tuple(Part(new(part.names), part.keys) for part in change.parts)
        values = change.values
        if made is not None and values is not None:
            values = {key: made(value) for key, value in values.items()}
        return change._replace(names=new(change.names), parts=parts, values=values)

    def _new_segment(self, name: str, made: Function | None) -> Segment:
        """The segment with converted keys and values; it has its entries where they were."""
        found = self._segments.get(name)
        if found is None:
            old = self._files.open(name)
            keys = self._column(old.key_column)
            values = (
                self._column(old.value_column)
                if made is None
                else self._made_column(old.value_column, old.orders, made)
            )
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
        values = self._read(column, 0)  # of pickles
        kind = kind_of(values) if values else "p"
        return encode(values, "p") if kind != "-" else column

    def _read(self, column: EntryColumn, count: int) -> list[Any]:
        """The values of a column, pickled ones as the classes of now have them."""
        leaf: Leaf | None = column.leaves[0] if column.kind == "p" else None
        if isinstance(leaf, VaryingLeaf):
            return [self._reader.loads(value) for value in leaf.array.to_pylist()]
        return cast("list[Any]", column.many(np.arange(count)).tolist())

    def _made_column(self, column: EntryColumn, orders: npt.NDArray[np.int64], made: Function) -> EntryColumn:
        """A column of values with what a function makes of each; of removed keys there is none."""
        live = (orders != TOMBSTONE).tolist()
        found = list(map(made, compress(self._read(column, len(orders)), live)))
        kind = kind_of(found)
        if kind == NOTHING:
            return column  # it says of all its keys that they were removed
        values = iter(found)
        nothing = zero(kind)
        return encode([next(values) if one else nothing for one in live], kind)

    def _checked(self, name: str, made: Function) -> Function:
        """A function whose results are of the type that a state declares."""
        declared = operator_type(type(self._operator.operator)).states[name]
        if isinstance(declared, KeyedState):
            kind = Kind(declared.type, name)
        elif isinstance(declared, ListState):
            kind = Kind(Any if declared.type is None else declared.type, name)
        else:
            return made

        def checked(value: Any) -> Any:
            try:
                return kind.fit(made(value))
            except StateError as error:
                raise TypeError(str(error)) from None  # with the operator, and how to continue

        return checked


def _with_values(cell: StateCell, change: Change, made: Function) -> Change:
    """A change of a cell with what a function makes of each of its values."""
    if isinstance(cell, KeyedCell):
        full, window, values, keys = change
        return full, window, {key: made(value) for key, value in values.items()}, keys
    if isinstance(cell, ListCell):
        start, items = change
        return start, list(map(made, items))
    [value] = change
    return (made(value),)


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
