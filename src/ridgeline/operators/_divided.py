"""The base of operators that are divided by columns which their constructor gets."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any, ClassVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pydantic import AfterValidator

from ridgeline.api import Operator, RidgelineError, Schema, SchemaError, State, StreamCodec, stable_hash
from ridgeline.api.cells.cell import Declaration
from ridgeline.api.cells.keyed_declaration import Owns
from ridgeline.api.cells.keyed_state import KeyedCell
from ridgeline.api.codec import hash_columns
from ridgeline.api.columns.tuples import Tuples
from ridgeline.api.context import OperatorContext
from ridgeline.api.errors import did_you_mean
from ridgeline.api.operator import operator_type
from ridgeline.api.partitioner import assign_keys
from ridgeline.api.points import OutputPoint
from ridgeline.api.support.duration import parse_duration
from ridgeline.api.times import EARLIEST, Microseconds, no_times
from ridgeline.operators._exact import Index
from ridgeline.operators._shaped import ShapedOperator
from ridgeline.operators._vectors import distinct, filtered, first_rows, key_codes, timed

Columns = Annotated[
    str | Sequence[str], AfterValidator(lambda given: given if isinstance(given, str) else tuple(given))
]
"""A column, or several; a property has several as a tuple."""
SWEEPS = 8
"""So often within the time that keys live those whose time is over are looked for."""


def columns_of(key: Columns | None) -> tuple[str, ...]:
    """The names of key columns, in order."""
    if not key:
        return ()
    return (key,) if isinstance(key, str) else tuple(key)


class TogetherCodec(StreamCodec):
    """Sends all tuples to one partition: the key of a stream without a key.

    Example:
        >>> TogetherCodec().hash(("IBM", 12.3)) == stable_hash(())
        True
    """

    def hash(self, tuple: Any) -> int:
        """That of the empty key."""
        return stable_hash(())

    def hashes(self, tuples: Tuples) -> npt.NDArray[np.uint64]:
        """As `hash`."""
        return np.full(len(tuples), stable_hash(()), np.uint64)


class DividedOperator(ShapedOperator):
    """An operator whose input ports are divided by columns that its properties name.

    State that is kept by key has the value of one column as its key, or the tuple of several.
    """

    shaped_by = "key"
    beside_key: ClassVar[tuple[str, ...]] = ()
    """The properties that name columns which must be others than those of the key."""

    def property_faults(self) -> list[tuple[str, object, str]]:
        """Refuse a key that was changed, and columns that must not be those of the key."""
        faults = super().property_faults()
        for name in self.beside_key:
            both = [column for column in columns_of(vars(self).get(name)) if column in self.key_names]
            faults += [(name, column, "must not have the name of a column of the key") for column in both[:1]]
        return faults

    @property
    def key_names(self) -> tuple[str, ...]:
        """The columns that the property `key` names; none without one."""
        return columns_of(vars(self).get("key"))

    @classmethod
    def shape_of(cls, given: Mapping[str, Any]) -> tuple[tuple[str, tuple[str, ...]], ...] | None:
        """The columns of each input port that has some."""
        return tuple((port, columns) for port, columns in cls.keys_of(given).items() if columns) or None

    @classmethod
    def members_of(cls, shape: tuple[tuple[str, tuple[str, ...]], ...]) -> dict[str, Any]:
        """The ports with these keys, and the states that depend on them."""
        members: dict[str, Any] = {**cls.states_of(dict(shape))}
        for port, columns in shape:
            members[port] = copy.copy(operator_type(cls).inputs[port])
            members[port].key = columns[0] if len(columns) == 1 else columns
            members[port].declared_codec = None  # the codec of tuples without a key
        return members

    @classmethod
    def keys_of(cls, given: Mapping[str, Any]) -> dict[str, tuple[str, ...]]:
        """The key columns of each input port, by the given properties; none for a port that all get."""
        return {"input": columns_of(given.get("key"))}

    @classmethod
    def states_of(cls, keys: Mapping[str, Sequence[str]]) -> dict[str, Declaration]:  # noqa: ARG003  for subclasses
        """The states that are declared otherwise for these key columns of ports."""
        return {}

    def derived_schema(self, port: str, inputs: Mapping[str, Schema]) -> object:
        """As of the base. Raises SchemaError for columns that cannot be keys."""
        for entry, names in self.keys_of(vars(self)).items():
            if entry in inputs:
                check_keys(inputs[entry], names)
        return super().derived_schema(port, inputs)

    def refuse_strays(self, batch: pa.RecordBatch, names: Sequence[str]) -> None:
        """Raise RidgelineError for a key in a partition that does not own it."""
        if self.context.partitions > 1 and len(batch) and names:
            hashes = hash_columns(batch, names)
            refuse_strays(self, hashes, lambda row: row_keys(batch.slice(row, 1), names)[1][0])

    def own_keys(self, batch: pa.RecordBatch, names: Sequence[str] | None = None) -> tuple[Index, list[Any]]:
        """As `row_keys`, by default by the property `key`. Raises as `refuse_strays`."""
        names = self.key_names if names is None else names
        codes, keys = row_keys(batch, names)
        self.refuse_stray_keys(batch, names, codes, len(keys))
        return codes, keys

    def refuse_stray_keys(
        self, batch: pa.RecordBatch, names: Sequence[str], codes: Index, count: int
    ) -> None:
        """As `refuse_strays`, which sees each of so many keys once. `codes`: of each row that of its key."""
        if self.context.partitions > 1 and names:
            firsts = batch.select(list(names)).take(pa.array(first_rows(codes, count)))
            self.refuse_strays(firsts, names)

    def is_late(self, times: Microseconds, watermark: int) -> npt.NDArray[np.bool_]:
        """Which records came too late, by the watermark of the window before: those that are older."""
        return times < watermark

    def on_time(
        self, batch: pa.RecordBatch, late: OutputPoint, what: str
    ) -> tuple[pa.RecordBatch, Microseconds]:
        """The records that are not late, with their times; the others, also those without a time, to `late`.

        `what`, and what it raises: as `record_times`.
        """
        times = self.record_times(batch, what)
        there = timed(times)
        there &= ~self.is_late(np.where(there, times, EARLIEST), self.context.watermark_microseconds)
        if not there.all():
            late.emit_batch(filtered(batch, ~there), rows=~there)
            batch, times = filtered(batch, there), times[there]
        return batch, times

    def record_times(self, batch: pa.RecordBatch, what: str) -> Microseconds:
        """The times of the batch being processed, `NO_TIME` for a record without one.

        `what`: for which purpose, as a part of a sentence. Raises RidgelineError in a plan without times.
        """
        if self.context.engine.record_times is None:
            remedy = "declare `timestamp` and `lateness` at the input operators"
            raise RidgelineError(f"`{self.context.name}` {what} by their times, but they have none; {remedy}")
        times = self.context.batch_times()
        return no_times(len(batch)) if times is None else times

    def known_times(self, batch: pa.RecordBatch) -> Microseconds:
        """The times of the batch being processed; 0 for all that have none."""
        times = self.context.batch_times() if self.context.engine.record_times is not None else None
        return np.zeros(len(batch), np.int64) if times is None else times


class ForgettingOperator(DividedOperator):
    """An operator that forgets keys once their time is over, at most an eighth of it later."""

    lives: ClassVar[str] = "within"
    """The property that says how long keys live; None: forever."""
    purpose: ClassVar[str] = "forgets keys"
    """For what it needs the times of records, unless keys live by the clock."""

    sweep_at = State(0, moves="least")
    """When keys whose time is over are looked for next; at once, where that is beyond the time they live."""

    @property
    def by_clock(self) -> bool:
        """Whether keys live by the time at which windows begin, not by the watermark."""
        return False

    @property
    def now(self) -> int:
        """The time that keys live by."""
        context = self.context
        return context.window_time_microseconds if self.by_clock else context.watermark_microseconds

    def needs_times(self) -> str:
        """For the time that keys live, unless it is of the clock."""
        return "" if vars(self).get(self.lives) is None or self.by_clock else self.purpose

    def setup(self, context: OperatorContext) -> None:
        """Read how long keys live."""
        live = vars(self)[self.lives]
        self.live = None if live is None else round(parse_duration(live) * 1_000_000)

    def living_times(self, batch: pa.RecordBatch) -> Microseconds:
        """The times of records; raises RidgelineError for none where keys live by them."""
        return self.record_times(batch, self.purpose) if self.needs_times() else self.known_times(batch)

    def forget(self, cell: KeyedCell[Any, Any], is_over: Callable[[Any], bool]) -> None:
        """Forget the keys whose values say so, now and then."""
        now, live = self.now, self.live
        if live is None or now < self.sweep_at <= now + live or not len(cell):
            return
        for key in [key for key, value in cell.items() if is_over(value)]:
            del cell[key]
        # at the end of time all go, and another input may come after the one that has ended
        self.sweep_at = now + max(1, live // SWEEPS) if len(cell) else 0


def refuse_strays(operator: Operator, hashes: npt.NDArray[Any], key_of: Callable[[int], object]) -> None:
    """Raise RidgelineError if one of these hashes of keys belongs to another partition of the operator.

    `key_of`: the key of the hash at a position.
    """
    partitions, partition = operator.context.partitions, operator.context.partition
    own = next(iter(operator.context.keys.values()), None) or assign_keys(partitions)[partition]
    strays = ~np.isin(hashes & np.uint64(own.mask), np.fromiter(own.keys, np.uint64, len(own.keys)))
    if strays.any():
        key = key_of(int(np.argmax(strays)))
        where = f"partition {partition} of {partitions}, which does not own it"
        remedy = "partition by key: leave out `partitioner` and `partition_parallel`"
        raise RidgelineError(
            f"`{type(operator).__name__}` needs all tuples of a key in one partition; "
            f"got key {key!r} in {where}; {remedy}"
        )


def row_keys(batch: pa.RecordBatch, names: Sequence[str]) -> tuple[Index, list[Any]]:
    """For each row the number of its key, and the distinct keys in order of appearance for one column.

    A key is a value, or the tuple of several; without names all rows have the key `()`. All NaN are one key.
    """
    if not names:
        return np.zeros(len(batch), np.int64), [()]
    if len(names) == 1:
        values, codes = distinct(batch.column(names[0]))
        listed = [math.nan if value != value else value for value in values.to_pylist()]  # noqa: PLR0124  a NaN
        return codes, listed
    codes, keys = key_codes([batch.column(name) for name in names])
    return codes, list(keys)


def check_columns(schema: Schema, names: Sequence[str], what: str) -> None:
    """Raise SchemaError for a column that a stream lacks. `what`: which property names it."""
    if schema.pickled:
        raise SchemaError(
            f"{what} names columns, but tuples of `object` have none; give the port before it a schema"
        )
    for name in names:
        if name not in schema.arrow.names:
            hint = did_you_mean(name, schema.arrow.names)
            raise SchemaError(
                f"{what} names `{name}`, which the stream {schema.arrow.names} does not have; {hint}"
            )


def check_keys(schema: Schema, names: Sequence[str]) -> None:
    """Raise SchemaError for a column whose values cannot be keys: lists, maps and structs."""
    for name in names if not schema.pickled else ():
        if name in schema.arrow.names and pa.types.is_nested(schema.arrow.field(name).type):
            kind = schema.arrow.field(name).type
            msg = f"the key column `{name}` is {kind}, whose values cannot be keys; take other columns"
            if pa.types.is_list(kind):
                msg += ", or make a row of each item before, by `transform`"
            raise SchemaError(msg)


def moved_records(
    names: Sequence[str], values: Sequence[Sequence[pa.RecordBatch]], owns: Sequence[Owns]
) -> list[list[pa.RecordBatch]]:
    """Give the records of all partitions to those that get their keys from now on."""
    found: list[list[pa.RecordBatch]] = [[] for _ in owns]
    for batch in (batch for held in values for batch in held):
        hashes = hash_columns(batch, names)
        for own, into in zip(owns, found, strict=True):
            mask = own(hashes)
            if mask.any():
                into.append(filtered(batch, mask))
    return found
