"""Tables of a stream's keys: the latest row of each, its largest ones, and keys that came before."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from itertools import chain, compress
from operator import is_not
from typing import Any, ClassVar, Literal

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pydantic import Field

from ridgeline.api import InputPort, KeyedState, OutputPort, Schema, SchemaError, SchemaType, State, metric
from ridgeline.api.support.duration import PositiveDuration
from ridgeline.api.times import LATEST, NO_TIME, Microseconds
from ridgeline.operators._divided import Columns, DividedOperator, ForgettingOperator, check_columns, row_keys
from ridgeline.operators._exact import Index
from ridgeline.operators._joined import Row, arrays_of, rows_of
from ridgeline.operators._shaped import T
from ridgeline.operators._vectors import best_rows, distinct, filtered, first_rows, last_rows
from ridgeline.operators.frames._columns import columns_of as known_columns
from ridgeline.operators.key_value import BatchUnifier, FirstColumnCodec, KeyValOperator, to_batch


class LatestByKey(DividedOperator):
    """Read a stream as a table with one row a key, and pass on the rows that change it.

    Input: any stream with columns. Output: the rows that differ from the row of their key before, in their
    order. So the output has every change of the table, and no repetition; `TableJoin` and outputs that write
    by key read it.

    `key`: a column, or several. The latest row is the one that came last. `deleted`: a column of booleans. A
    row in which it is true deletes its key, and is passed on. It is so also if the table does not have the
    key: by its time it may come before a row that is there already.

    State: the latest row of each key that is not deleted. The metric `held_rows` says how many.

    Partitions: by key. Round robin is refused with RidgelineError: rows of a key would not meet.

    Example:
        >>> from typing import NamedTuple
        >>> from ridgeline import Application
        >>> from ridgeline.operators import LatestByKey
        >>> from ridgeline.testing import CollectorSink, ListInput, run_local
        >>> class User(NamedTuple):
        ...     name: str
        ...     country: str
        ...     gone: bool
        >>> rows = [("ann", "CH", False), ("ann", "CH", False), ("ann", "NO", False), ("bob", "", True)]
        >>> app = Application("users")
        >>> source = app.add_operator("source", ListInput(User, rows))
        >>> users = app.add_operator("users", LatestByKey(key="name", deleted="gone"))
        >>> sink = app.add_operator("sink", CollectorSink(User))
        >>> app.add_stream("rows", source.output, users.input)
        >>> app.add_stream("changes", users.output, sink.input)
        >>> [(user.name, user.country) for user in run_local(app).collected("sink")]
        [('ann', 'CH'), ('ann', 'NO'), ('bob', '')]
    """

    state_depends_on = ("input", "key")

    input = InputPort(Any)
    output = OutputPort(Any)

    key: Columns
    deleted: str | None = None

    latest = KeyedState(tuple)
    """By key, the values of the other columns."""

    @metric(help="Rows of the table.")
    def held_rows(self) -> int:
        """The number of rows of the table."""
        return len(self.latest)

    def derived_schema(self, port: str, inputs: Mapping[str, Schema]) -> object:
        """The columns of the stream. Raises SchemaError for a column of deletions that is none."""
        if "input" in inputs:
            check_deleted(inputs["input"], self.deleted)
        return super().derived_schema(port, inputs)

    @input.process_batch
    def note(self, batch: pa.RecordBatch) -> None:
        """Take the rows of a batch into the table; pass on those that change it."""
        codes, keys = self.own_keys(batch)
        rows = rows_of(batch, [name for name in batch.schema.names if name not in self.key_names])
        gone = deletions(batch, self.deleted)
        changes = np.zeros(len(batch), np.bool_)
        latest, before = self.latest, [self.latest.get(key) for key in keys]
        now = list(before)
        for place, (code, row, over) in enumerate(zip(codes.tolist(), rows, gone, strict=True)):
            new = None if over else row
            if over or now[code] != new:
                now[code], changes[place] = new, True
        for key, old, new in zip(keys, before, now, strict=True):
            if new is None:
                latest.pop(key, None)
            elif old != new:
                latest[key] = new
        self.output.emit_batch(filtered(batch, changes), rows=changes)


def check_deleted(schema: Schema, deleted: str | None) -> None:
    """Raise SchemaError for a column of deletions that a stream lacks, or that is not of booleans."""
    if deleted is None:
        return
    check_columns(schema, [deleted], "`deleted`")
    kind = schema.arrow.field(deleted).type
    if not pa.types.is_boolean(kind) and not pa.types.is_null(kind):
        what = f"`deleted` names `{deleted}`, which is {kind}, not a column of booleans"
        raise SchemaError(f'{what}; compute one before: `with_columns("marked", gone="op = \'delete\'")`')


def deletions(batch: pa.RecordBatch, deleted: str | None) -> list[bool]:
    """For each row whether it deletes its key; null does not."""
    if deleted is None:
        return [False] * len(batch)
    return [value is True for value in batch.column(deleted).to_pylist()]


_NEVER = np.iinfo(np.int64).min


class Deduplicate(ForgettingOperator):
    """Pass on the first tuple of each key, and leave out the others.

    Input: any stream with columns. Output `output`: the first tuples, in their order. Output `duplicates`:
    the others. `key`: a column, or several. Equal keys are one key, see docs/values.md; null is a key too.

    `within`: the time to live. A tuple is left out if a tuple of its key was passed on less than `within`
    before it; None: ever before. So a key comes at most once within this time. `by` says which time counts.
    "record": that of the records; an older record of a key that is held is left out too. One without a time
    counts as of the watermark. "clock": the time at which windows begin. By record, raises RidgelineError if
    the stream has no times.

    State: each key is held exactly, with one time of 8 bytes; the metric `held_keys` says how many. With
    `within` it goes at most an eighth of that time after its end, by the watermark or the clock. A late
    record whose key is gone is passed on.

    Partitions: by key. Round robin is refused with RidgelineError: equal keys would not meet.

    Example:
        >>> from typing import NamedTuple
        >>> from ridgeline import Application
        >>> from ridgeline.operators import Deduplicate
        >>> from ridgeline.testing import END_WINDOW, CollectorSink, ListInput, run_local
        >>> class Payment(NamedTuple):
        ...     id: int
        ...     cents: int
        >>> items = [(1, 100), (2, 5), (1, 100), END_WINDOW, (2, 5), (3, 7)]
        >>> app = Application("payments")
        >>> source = app.add_operator("source", ListInput(Payment, items))
        >>> once = app.add_operator("once", Deduplicate(key="id"))
        >>> sink = app.add_operator("sink", CollectorSink(Payment))
        >>> app.add_stream("payments", source.output, once.input)
        >>> app.add_stream("once", once.output, sink.input)
        >>> [payment.id for payment in run_local(app).collected("sink")]
        [1, 2, 3]
    """

    state_depends_on = ("input", "key", "by")

    input = InputPort(Any)
    output = OutputPort(Any)
    duplicates = OutputPort(Any, optional=True)

    key: Columns
    within: PositiveDuration | None = None
    by: Literal["record", "clock"] = "record"

    passed = KeyedState(int, default=_NEVER)
    """By key, when its last tuple was passed on, in microseconds since 1970."""

    @metric(help="Keys that are held.")
    def held_keys(self) -> int:
        """The number of keys that are held."""
        return len(self.passed)

    @property
    def by_clock(self) -> bool:
        """As `by` says."""
        return self.by == "clock"

    @property
    def _seen_at(self) -> int:
        """The time of a tuple that has none, and of all where keys are kept forever."""
        return min(max(self.now, 0), LATEST)

    @input.process_batch
    def sift(self, batch: pa.RecordBatch) -> None:
        """Pass on the rows of a batch whose keys are new."""
        codes, keys = self._keys(batch)
        if self.live is None:
            firsts = first_rows(codes, len(keys))
            new = self.passed.get_many(keys) == _NEVER
            kept = np.zeros(len(batch), np.bool_)
            kept[firsts[new]] = True
            if new.any():
                self.passed.put_many(_chosen(keys, new), np.full(int(new.sum()), self._seen_at))
        else:
            kept = self._sift_timed(batch, codes, keys, self.live)
        if kept.all():
            self.output.emit_batch(batch)
            return
        self.output.emit_batch(filtered(batch, kept), rows=kept)
        self.duplicates.emit_batch(filtered(batch, ~kept), rows=~kept)

    def _keys(self, batch: pa.RecordBatch) -> tuple[Index, Any]:
        """For each row the number of its key, and the keys; whole numbers as an array, the least first.

        State takes numbers in order quickly: it need not look for equal ones.
        """
        names = self.key_names
        self.refuse_strays(batch, names)
        column = batch.column(names[0])
        if len(names) == 1 and pa.types.is_signed_integer(column.type) and not column.null_count:
            numbers = column.to_numpy().astype(np.int64, copy=False)
            if (numbers[1:] > numbers[:-1]).all():
                return np.arange(len(numbers)), numbers
            known, codes = np.unique(numbers, return_inverse=True)
            return codes, known
        return row_keys(batch, names)

    def _sift_timed(self, batch: pa.RecordBatch, codes: Index, keys: Any, live: int) -> npt.NDArray[np.bool_]:
        """Which rows are passed on, where keys live for so many microseconds."""
        if self.by_clock:
            times: Microseconds = np.full(len(batch), self.context.window_time_microseconds)
        else:
            times = self.record_times(batch, self.purpose)
            times = np.where(times == NO_TIME, self._seen_at, times)
        last = self.passed.get_many(keys)
        kept = np.zeros(len(batch), np.bool_)
        if not len(batch):
            return kept
        order = np.argsort(codes, kind="stable")
        begins = np.searchsorted(codes[order], np.arange(len(keys)))
        ends = np.append(begins[1:], len(batch))
        # the first row of each key that may be passed on, for all keys at once, until none has any
        at, until, newest = begins.copy(), last.copy(), np.maximum.reduceat(times[order], begins)
        active = np.arange(len(keys))
        while len(active):
            rows = order[at[active]]
            due = (until[active] == _NEVER) | (times[rows] >= until[active] + live)
            kept[rows[due]] = True
            until[active[due]] = times[rows[due]]
            at[active] += 1
            left = (at[active] < ends[active]) & (newest[active] >= until[active] + live)
            active = active[left | (until[active] == _NEVER)]
        changed = until != last
        if changed.any():
            self.passed.put_many(_chosen(keys, changed), until[changed])
        return kept

    def end_window(self) -> None:
        """Forget the keys whose time is over."""
        now, live = self.now, self.live or 0
        self.forget(self.passed, lambda time: now >= LATEST or time + live <= now)


def _chosen(keys: Any, mask: npt.NDArray[np.bool_]) -> Any:
    return keys[mask] if isinstance(keys, np.ndarray) else list(compress(keys, mask.tolist()))


def largest(batch: pa.RecordBatch, size: int, by: str) -> pa.RecordBatch:
    """Return the `size` largest rows by the column `by`, the largest first.

    Rows with equal `by` are ordered by the other columns from left to right, ascending. A NaN is less than
    any number; rows whose `by` is null are left out.
    """
    batch = batch.filter(batch.column(by).is_valid())
    places = [batch.schema.get_field_index(by)]
    places += [place for place in range(batch.num_columns) if place != places[0]]
    table = pa.table({str(place): _ordered(batch.column(place)) for place in places})
    keys = [(name, "ascending" if place else "descending") for place, name in enumerate(table.column_names)]
    return batch.take(pc.sort_indices(table, sort_keys=keys)[:size])


def _ordered(column: pa.Array) -> pa.Array:
    """A column that has an order: of what has none, its text."""
    nested = pa.types.is_nested(column.type)
    return pa.array(list(map(repr, column.to_pylist())), pa.string()) if nested else column


class TopNUnifier(BatchUnifier):
    """Merge the largest tuples of partitions: keep the `size` largest by the column `by`.

    `TopN` uses it by itself. An output port of your own takes it from the method `unifier_of`.

    Example:
        >>> from typing import NamedTuple
        >>> from ridgeline import Operator, OutputPort
        >>> class Score(NamedTuple):
        ...     player: str
        ...     points: int
        >>> class Leaders(Operator):
        ...     best = OutputPort(Score)
        ...
        ...     def unifier_of(self, port: str) -> TopNUnifier:
        ...         return TopNUnifier(size=3, by="points")
    """

    size: int = Field(default=10, ge=1)
    by: str = ""

    def merge(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return the largest rows of all partitions, the largest first."""
        return largest(batch, self.size, self.by)


class TopN(KeyValOperator[T]):
    """Emit the `size` largest tuples by the column `by`, the largest first.

    Input: tuples with at least the columns of the output. Output: at the end of the (application) window, if
    there are any tuples. Rows with equal `by` are ordered by the other columns, ascending. A NaN is less than
    any number. Rows whose `by` is null are left out. Raises SchemaError if columns are missing.

    `schema`: the columns of the output; None: those of the input. `keyed`: the first column is a key, and a
    newer tuple replaces the older one of the same key, even if it is smaller. `cumulative`: the largest of
    all tuples since the start; otherwise each application window starts empty.

    Partitions: by the first column, merged by `TopNUnifier`. Round robin gives the same result unless
    `keyed`. With `keyed` it is refused with RidgelineError: newer and older tuples of a key would not meet.
    Slides with `slide_by_window_count`, unless `keyed` or `cumulative`.

    Example:
        >>> from typing import NamedTuple
        >>> from ridgeline import Application
        >>> from ridgeline.operators import TopN
        >>> from ridgeline.testing import CollectorSink, ListInput, run_local
        >>> class Score(NamedTuple):
        ...     player: str
        ...     points: int
        >>> app = Application("leaders")
        >>> scores = app.add_operator("scores", ListInput(Score, [("Ann", 3), ("Bob", 9), ("Cyd", 5)]))
        >>> leaders = app.add_operator("leaders", TopN(size=2, by="points"))
        >>> sink = app.add_operator("sink", CollectorSink(Score))
        >>> app.add_stream("scores", scores.output, leaders.data)
        >>> app.add_stream("leaders", leaders.top, sink.input)
        >>> run_local(app).collected("sink")
        [Score(player='Bob', points=9), Score(player='Cyd', points=5)]
    """

    emits: ClassVar[str] = "top"
    state_depends_on = ("data", "kept")

    data = InputPort(Any, codec=FirstColumnCodec())
    top = OutputPort[T](Any)

    schema: SchemaType[T] | None = None
    size: int = Field(default=10, ge=1)
    by: str = Field(kw_only=True)
    keyed: bool = False
    cumulative: bool = False

    newest = KeyedState(tuple)  # if keyed: each key's newest tuple
    largest = State[Any]((), moves="sum")  # otherwise: the largest tuples so far, as tuples of values

    @property
    def kept(self) -> tuple[object, ...]:
        """Which tuples outlive a window: none, unless cumulative."""
        return ("largest", self.size, self.by, self.keyed) if self.cumulative else ()

    def unifier_of(self, port: str) -> TopNUnifier:
        """Return a `TopNUnifier` with this operator's `size` and `by`."""
        return TopNUnifier(**{name: vars(self)[name] for name in ("size", "by") if name in vars(self)})

    def slider_of(self, port: str) -> TopNUnifier | None:
        """Return the unifier; None with `keyed` or `cumulative`, where older windows count otherwise."""
        return None if self.keyed or self.cumulative else self.unifier_of(port)

    def derived_schema(self, port: str, inputs: Mapping[str, Schema]) -> object:
        """That of the input. Raises SchemaError without the column `by`."""
        if "data" in inputs:
            check_columns(inputs["data"], [self.by], "`by`")
        return None

    @data.process_batch
    def note(self, batch: pa.RecordBatch) -> None:
        """Keep the rows of a batch that may be among the largest."""
        names = self.output_schema().names
        # with a `schema` nothing is derived, so the plan has not looked
        missing = [name for name in (*names, self.by) if name not in batch.schema.names]
        if missing:
            raise SchemaError(
                f"`TopN` needs column `{missing[0]}`; got tuples with the columns {batch.schema.names}; "
                "put a `Map` before it"
            )
        if self.by not in names:
            raise SchemaError(
                f"`TopN` orders by `{self.by}`, which is no column of its `schema` {names}; add it there"
            )
        batch, keyed = batch.select(names), batch.column(0)
        self.check_fit(batch.columns)
        if self.keyed:
            keys, index = distinct(keyed)
            self.refuse_strays(keys)
            last = batch.take(pa.array(last_rows(index, len(keys))))
            for key, row in zip(keys.to_pylist(), _rows(last), strict=True):
                self.newest[key] = row
            return
        if self.largest:
            before = to_batch(batch.schema, list(zip(*self.largest, strict=True)), "TopN")
            batch = pa.Table.from_batches([before, batch]).combine_chunks().to_batches()[0]
        self.largest = tuple(_rows(largest(batch, self.size, self.by)))

    def end_window(self) -> None:
        """Emit the largest tuples; clear them unless `cumulative`."""
        rows = list(self.newest.values()) if self.keyed else self.largest
        if rows:
            batch = self.check_fit(list(zip(*rows, strict=True)))
            self.top.emit_batch(largest(batch, self.size, self.by))
        if not self.cumulative:
            self.newest.clear()
            self.largest = ()


def _rows(batch: pa.RecordBatch) -> list[Any]:
    return list(zip(*(column.to_pylist() for column in batch.columns), strict=True))


RANK = "rank"


class TopByKey(DividedOperator):
    """The `size` largest tuples of each key by the column `by`, of all tuples so far.

    Output: at the end of the (application) window, for each key whose list has changed, its whole list. That
    is all columns and `rank`, from 1 for the largest. So the newest row of a key and a rank counts. Of equal
    values the older tuple comes first. Tuples whose `by` is null are left out; a NaN is less than any number.

    `smallest`: the smallest ones instead, a NaN after all numbers. Raises SchemaError for columns that are
    not there, and for a stream that has a column `rank`.

    State: the list of each key, forever. The metric `held_rows` says how many tuples.

    Partitions: by `key`. Round robin is refused with RidgelineError: larger tuples of a key would not meet.

    Example:
        >>> from typing import NamedTuple
        >>> from ridgeline import Application
        >>> from ridgeline.operators import TopByKey
        >>> from ridgeline.testing import CollectorSink, ListInput, run_local
        >>> class Bid(NamedTuple):
        ...     item: str
        ...     cents: int
        >>> app = Application("auction")
        >>> bids = app.read("bids", ListInput(Bid, [("a", 5), ("b", 2), ("a", 9), ("a", 7)]))
        >>> sink = bids.group_by("item").top("top", 2, by="cents").write("sink", CollectorSink())
        >>> for row in run_local(app).collected("sink"):
        ...     print(row["item"], row["rank"], row["cents"])
        a 1 9
        a 2 7
        b 1 2
    """

    state_depends_on = ("input", "key", "size", "by", "smallest")

    input = InputPort(Any)
    output = OutputPort(Any)

    key: Columns
    size: int = Field(default=10, ge=1)
    by: str = Field(kw_only=True)
    smallest: bool = Field(default=False, kw_only=True)

    tops = KeyedState(tuple)
    """By key its tuples, the largest first: the values of all columns, one tuple after the other."""
    held_count = State(0, moves="sum")
    """How many tuples are held."""

    @metric(help="Tuples in the lists of all keys.")
    def held_rows(self) -> int:
        """The number of tuples that are held."""
        return self.held_count

    def derived(self, given: Schema) -> object:
        """The columns of the stream, and the rank. Raises SchemaError for columns that do not fit."""
        check_columns(given, [*self.key_names, self.by], "`key` or `by`")
        if pa.types.is_nested(given.arrow.field(self.by).type):
            kind = given.arrow.field(self.by).type
            raise SchemaError(
                f"`by` names `{self.by}`, which is {kind} and has no order; take another column"
            )
        if RANK in given.arrow.names:
            raise SchemaError(f"the stream has a column `{RANK}` already; rename it before")
        return pa.schema([*known_columns(given), pa.field(RANK, pa.int64(), nullable=False)])

    @input.process_batch
    def take(self, batch: pa.RecordBatch) -> None:
        """Take the rows of a batch into the lists of their keys."""
        batch = filtered(batch, batch.column(self.by).is_valid().to_numpy(zero_copy_only=False))
        if not len(batch):
            return
        codes, keys = self.own_keys(batch)
        best = best_rows(codes, batch.column(self.by), self.size, highest=not self.smallest)
        batch, codes = batch.take(pa.array(best)), codes[best]
        place, width = batch.schema.get_field_index(self.by), batch.num_columns
        rows = rows_of(batch, batch.schema.names)
        begins = np.flatnonzero(np.diff(codes, prepend=-1))
        for begin, end in zip(begins.tolist(), [*begins[1:].tolist(), len(codes)], strict=True):
            key = keys[codes[begin]]
            held = rows_from(self.tops.get(key) or (), width)
            both = [*held, *rows[begin:end]]
            merged = sorted(both, key=partial(self._order, place), reverse=not self.smallest)[: self.size]
            # what is new is behind what is held where both are equal
            if len(merged) > len(held) or any(map(is_not, merged, held)):
                self.tops[key] = tuple(chain.from_iterable(merged))
                self.held_count += len(merged) - len(held)

    def _order(self, place: int, row: Row) -> tuple[bool, Any]:
        """The sort key of a row: a NaN is after all numbers in both directions."""
        value = row[place]
        is_number = value == value  # noqa: PLR0124  not of a NaN
        return is_number != self.smallest, value if is_number else 0

    def end_window(self) -> None:
        """Emit the lists that have changed."""
        schema = self.output.schema.arrow
        lists = [rows_from(values, len(schema) - 1) for _, values in self.tops.changed()]
        rows = [(*row, rank) for held in lists for rank, row in enumerate(held, 1)]
        if rows:
            self.output.emit_batch(pa.RecordBatch.from_arrays(arrays_of(rows, list(schema)), schema=schema))


def rows_from(values: Row, width: int) -> list[Row]:
    """Rows of so many values each, from the values of all."""
    return [values[begin : begin + width] for begin in range(0, len(values), width)]
