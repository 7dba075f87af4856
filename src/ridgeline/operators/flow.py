"""Steps that leave tuples as they are: which of them go on, where to, when, in which order."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Generic

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pydantic import Field

from ridgeline.api import (
    InputPort,
    ListState,
    Module,
    Operator,
    OutputPort,
    RidgelineError,
    Schema,
    SchemaError,
    SchemaType,
    State,
    metric,
)
from ridgeline.api.cells.cell import Declaration
from ridgeline.api.codec import hash_column, mix
from ridgeline.api.columns.schema import holds_pickles
from ridgeline.api.errors import did_you_mean
from ridgeline.api.support.duration import Duration, parse_duration
from ridgeline.api.support.loops import HEAD, TAIL, DelayHead, DelayTail
from ridgeline.api.times import Times
from ridgeline.operators._divided import Columns, DividedOperator, moved_records
from ridgeline.operators._shaped import ShapedOperator, T


class Union(ShapedOperator, Generic[T]):
    """All tuples of `inputs` streams, which enter at `input_1`, `input_2` and so on.

    The streams have the same columns, in any order. A column of the output may be null if it may be null in
    one of them. Tuples keep their times, and the order of their stream. Partitions: round robin.

    Example:
        >>> from typing import NamedTuple
        >>> from ridgeline import Application
        >>> from ridgeline.operators import Union
        >>> from ridgeline.testing import CollectorSink, ListInput, run_local
        >>> class Number(NamedTuple):
        ...     value: int
        >>> app = Application("numbers")
        >>> low = app.add_operator("low", ListInput(Number, [(1,), (2,)]))
        >>> high = app.add_operator("high", ListInput(Number, [(10,)]))
        >>> union = app.add_operator("union", Union(2))
        >>> sink = app.add_operator("sink", CollectorSink(Number))
        >>> app.add_stream("low", low.output, union.input_1)
        >>> app.add_stream("high", high.output, union.input_2)
        >>> app.add_stream("all", union.output, sink.input)
        >>> run_local(app).collected("sink")
        [Number(value=1), Number(value=2), Number(value=10)]
    """

    output = OutputPort[T](Any)

    inputs: int = Field(2, ge=1)

    shaped_by = "inputs"

    @classmethod
    def shape_of(cls, given: Mapping[str, Any]) -> int | None:
        """The number of input ports."""
        inputs = given.get("inputs", 2)
        return inputs if isinstance(inputs, int) and inputs >= 1 else None

    @classmethod
    def members_of(cls, shape: int) -> dict[str, Any]:
        """So many input ports, and what takes their tuples."""

        def take(self: Any, batch: pa.RecordBatch) -> None:
            self.output.emit_batch(batch)

        members: dict[str, Any] = {"take": take}
        for number in range(1, shape + 1):
            members[f"input_{number}"] = InputPort[Any](Any)
            members[f"input_{number}"].process_batch(take)
        return members

    def derived_schema(self, port: str, inputs: Mapping[str, Schema]) -> object:
        """The columns of the streams. Raises SchemaError if they differ."""
        if port != "output" or not inputs:
            return None
        (first, one), *others = inputs.items()
        fields = {field.name: field for field in one.arrow}
        for name, other in others:
            difference = _difference(one, other)
            if difference is not None:
                remedy = "let `select`, `rename` or `cast` make the columns the same"
                raise SchemaError(f"the streams of `{first}` and `{name}` differ: {difference}; {remedy}")
            for field in other.arrow if not one.pickled else ():
                mine = fields[field.name]
                fields[field.name] = mine.with_nullable(mine.nullable or field.nullable)
        if one.pickled or all(other.type is one.type for _, other in others):
            return one.type
        return pa.schema(list(fields.values()))


def _difference(one: Schema, other: Schema) -> str | None:
    """The first column that two streams do not both have; None if they have the same, in any order."""
    if one.pickled or other.pickled:
        return one.difference(other) or other.difference(one)
    mine, theirs = ({field.name: field.type for field in schema.arrow} for schema in (one, other))
    for name in [*mine, *theirs]:
        if name not in mine or name not in theirs:
            return f"only one of them has column `{name}`"
        if mine[name] != theirs[name]:
            return f"column `{name}` is {mine[name]} and {theirs[name]}"
    return None


def chosen(keys: list[pa.Array], share: float, seed: int) -> npt.NDArray[np.bool_]:
    """Which rows are in a share: the same for equal keys, in any partition and process."""
    mixed = np.full(len(keys[0]) if keys else 0, seed % 2**64, np.uint64)
    for column in keys:
        if pa.types.is_nested(column.type):  # what cannot be a key can still decide, as text
            column = pa.array([repr(value) for value in column.to_pylist()], pa.string())  # noqa: PLW2901
        mixed = mix(mixed ^ hash_column(column))
    return (mixed >> np.uint64(11)).astype(np.float64) / 2.0**53 < share


class Sampler(Operator, Generic[T]):
    """Let a share of the tuples through, on `output`; the others go to `rest`, if a stream reads it.

    `share`: from 0 to 1. `key`: the column that decides: all tuples of a key go the same way. Without one all
    columns decide: equal tuples go the same way. `seed`: another one chooses others. The same
    tuples are chosen in each run, with any number of partitions. Partitions: round robin.

    Example:
        >>> from typing import NamedTuple
        >>> from ridgeline import Application
        >>> from ridgeline.operators import Sampler
        >>> from ridgeline.testing import CollectorSink, ListInput, run_local
        >>> class Number(NamedTuple):
        ...     value: int
        >>> app = Application("some")
        >>> numbers = app.add_operator("numbers", ListInput(Number, [(n,) for n in range(1000)]))
        >>> sampler = app.add_operator("sampler", Sampler(share=0.01, seed=7), partitions=2)
        >>> sink = app.add_operator("sink", CollectorSink(Number))
        >>> app.add_stream("all", numbers.output, sampler.data)
        >>> app.add_stream("some", sampler.output, sink.input)
        >>> sorted(number.value for number in run_local(app).collected("sink"))
        [105, 213, 244, 258, 331, 451, 562, 847, 904, 944, 973, 978]
    """

    data = InputPort[T](Any)
    output = OutputPort[T](Any)
    rest = OutputPort[T](Any, optional=True)

    share: float = Field(ge=0, le=1)
    key: str | None = None
    seed: int = 0

    @data.process_batch
    def sample(self, batch: pa.RecordBatch) -> None:
        """Divide a batch. Raises RidgelineError for a key that is no column."""
        if self.key is not None and self.key not in batch.schema.names:
            hint = did_you_mean(self.key, batch.schema.names)
            raise RidgelineError(
                f"`{self.context.name}` samples by the key `{self.key}`, which is no column; {hint}"
            )
        columns = batch.columns if self.key is None else [batch.column(self.key)]
        mask = chosen(columns, self.share, self.seed)
        self.output.emit_batch(batch.filter(pa.array(mask)), rows=mask)
        self.rest.emit_batch(batch.filter(pa.array(~mask)), rows=~mask)


class LimitRate(Operator, Generic[T]):
    """Let at most `rate` tuples a second through, on `output`; the others go to `rest`, if a stream reads it.

    `burst`: how many may pass at once after a quiet time; default: as many as in a second. The clock is that
    of the windows: an attempt that is made again lets the same tuples through. Each partition has an equal
    share. Partitions: round robin.

    Example:
        >>> from typing import NamedTuple
        >>> from ridgeline import Application
        >>> from ridgeline.operators import LimitRate
        >>> from ridgeline.testing import END_WINDOW, CollectorSink, ListInput, run_local
        >>> class Number(NamedTuple):
        ...     value: int
        >>> app = Application("few", window="1s")
        >>> items = [(1,), (2,), (3,), END_WINDOW, (4,), (5,)]
        >>> numbers = app.add_operator("numbers", ListInput(Number, items))
        >>> few = app.add_operator("few", LimitRate(rate=1, burst=2))
        >>> sink = app.add_operator("sink", CollectorSink(Number))
        >>> app.add_stream("numbers", numbers.output, few.input)
        >>> app.add_stream("few", few.output, sink.input)
        >>> run_local(app).collected("sink")
        [Number(value=1), Number(value=2), Number(value=4)]
    """

    input = InputPort[T](Any)
    output = OutputPort[T](Any)
    rest = OutputPort[T](Any, optional=True)

    rate: float = Field(gt=0)
    burst: float | None = Field(None, ge=1)

    debt = State(0.0, moves="sum")
    """How many tuples have passed that the time since has not made up for."""
    counted_at = State(0, moves="greatest")
    """The window time up to which `debt` is counted, in microseconds since 1970."""

    @input.process_batch
    def limit(self, batch: pa.RecordBatch) -> None:
        """Divide a batch: the first tuples pass."""
        share = 1 / self.context.partitions
        now = self.context.window_time_microseconds
        if now > self.counted_at:
            passed = (now - self.counted_at) / 1_000_000 if self.counted_at else 0.0
            self.debt = max(0.0, self.debt - passed * self.rate * share)
            self.counted_at = now
        most = (self.burst if self.burst is not None else max(1.0, self.rate)) * share
        count = min(batch.num_rows, max(0, int(max(most, 1.0) - self.debt + 1e-9)))
        self.debt += count
        self.output.emit_batch(batch.slice(0, count), rows=list(range(count)))
        self.rest.emit_batch(batch.slice(count), rows=list(range(count, batch.num_rows)))


if TYPE_CHECKING:
    from ridgeline.api import Application


class Delay(Module, Generic[T]):
    """Lead tuples of `schema` back to an operator upstream, one window later: each loop goes through one.

    Tuples of window `w` leave in window `w + 1`. `first_window`: the tuples that leave in the
    application's first window, when none can have come in. Tuples between two windows are state:
    they are committed with the window, and a void attempt leaves none of them.

    An application whose inputs have finished ends with the first window that leaves nothing in its delays.
    It runs one window at a time. Partitions: round robin; each passes on what it took. Tuples that have come
    by a loop hold no watermark up.

    Example:
        >>> from typing import NamedTuple
        >>> from ridgeline import Application, InputPort, Operator, OutputPort
        >>> from ridgeline.operators import Delay
        >>> from ridgeline.testing import CollectorSink, run_local
        >>> class Pair(NamedTuple):
        ...     last: int
        ...     next: int
        >>> class Step(Operator):
        ...     pairs = InputPort(Pair)
        ...     steps = OutputPort(Pair)
        ...
        ...     @pairs.process
        ...     def step(self, pair: Pair) -> None:
        ...         if pair.next < 20:
        ...             self.steps.emit(Pair(pair.next, pair.last + pair.next))
        >>> app = Application("fibonacci")
        >>> step = app.add_operator("step", Step())
        >>> delay = app.add_module("delay", Delay(Pair, first_window=[Pair(0, 1)]))
        >>> sink = app.add_operator("sink", CollectorSink(Pair))
        >>> app.add_stream("again", delay.output, step.pairs)
        >>> app.add_stream("steps", step.steps, delay.input, sink.input)
        >>> [pair.last for pair in run_local(app).collected("sink")]
        [1, 1, 2, 3, 5, 8, 13]
    """

    input = InputPort[T](Any)
    output = OutputPort[T](Any)

    schema: SchemaType[T]
    first_window: Sequence[T] = Field(default=(), kw_only=True)

    def populate(self, app: Application) -> None:
        """Add the two ends of the delay, which share a state."""
        tail = app.add_operator(TAIL, DelayTail())
        head = DelayHead(first_window=list(self.first_window))
        head.declare_schema("output", self.schema)
        app.add_operator(HEAD, head)
        self.input.connect(tail.input)
        self.output.connect(head.output)


class WithTimes(Operator, Generic[T]):
    """Give tuples the times that are in a column, and begin a watermark: after parsing, for example.

    `column`: of times; a null is no time. `lateness` promises that no tuple is older by more than the newest
    before it, as at an input operator. Older ones may be late downstream. `idle_after`: a partition that
    gets no tuple with a time for so long holds no watermark up. Times and watermarks from upstream end here.
    When all inputs upstream have finished, all windows downstream close. Partitions: round robin; each has a
    watermark of its own, and the least of them counts.

    Example:
        >>> from datetime import UTC, datetime
        >>> from typing import NamedTuple
        >>> from ridgeline import Application
        >>> from ridgeline.operators import Map, Windowed, WithTimes, aggregate, tumbling
        >>> from ridgeline.testing import CollectorSink, ListInput, run_local
        >>> Line = NamedTuple("Line", [("text", str)])
        >>> Click = NamedTuple("Click", [("user", str), ("time", datetime)])
        >>> def parse(line):
        ...     user, seconds = line.text.split()
        ...     return Click(user, datetime.fromtimestamp(int(seconds), UTC))
        >>> app = Application("clicks")
        >>> lines = app.read("lines", ListInput(Line, [("ann 5",), ("ann 62",), ("bob 3",)]))
        >>> clicks = lines.map("parse", parse, schema=Click).with_times("timed", "time", lateness="5s")
        >>> counts = clicks.group_by("user").window(tumbling("1m")).aggregate("n", clicks=aggregate.count())
        >>> sink = counts.write("sink", CollectorSink())
        >>> for row in run_local(app).collected("sink"):
        ...     print(row["user"], row["window_start"].strftime("%H:%M"), row["clicks"])
        ann 00:00 1
        bob 00:00 1
        ann 00:01 1
    """

    gives_times = True
    input = InputPort[T](Any)
    output = OutputPort[T](Any)

    column: str
    lateness: Duration = 0.0
    idle_after: Duration | None = None

    def timestamp_of(self, port: str) -> str | None:
        """The column."""
        return self.column if port == "output" else super().timestamp_of(port)

    def lateness_of(self, port: str) -> float | None:
        """The `lateness` in seconds."""
        return parse_duration(self.lateness) if port == "output" else None

    def idle_seconds(self) -> float | None:
        """The time `idle_after` in seconds."""
        return None if self.idle_after is None else parse_duration(self.idle_after)

    def end_of_input(self) -> None:
        """Nothing more comes: the watermark passes all windows."""

    @input.process_batch
    def pass_on(self, batch: pa.RecordBatch) -> None:
        """Emit a batch; its times are in the column."""
        self.output.emit_batch(batch)


_TIME = "_time"


class Sort(DividedOperator):
    """Emit records in the order of their times, once the watermark has passed them.

    Input: any stream with columns and record times. Output: the same records, sorted; of equal times in the
    order in which they came. So they come later by the `lateness` of the inputs. At the end of the input all
    come.

    `key`: a column, or several. With it, records of a key are in order with any number of partitions; without
    it, those of each partition are.

    A record is late if it is older than the watermark was when its streaming window began. Late records, and
    those without a time, are counted and go to the error port `late`. Raises RidgelineError for streams
    without record times.

    State: the records that the watermark has not passed. The metric `held_records` says how many.

    Partitions: by `key`, else round robin. With a key, round robin is refused with RidgelineError.

    Example:
        >>> from datetime import UTC, datetime
        >>> from typing import NamedTuple
        >>> from ridgeline import Application
        >>> from ridgeline.operators import Sort
        >>> from ridgeline.testing import END_WINDOW, CollectorSink, ListInput, run_local
        >>> Click = NamedTuple("Click", [("page", str), ("time", datetime)])
        >>> def at(second):
        ...     return datetime(2026, 1, 1, 12, 0, second, tzinfo=UTC)
        >>> clicks = [("b", at(2)), ("d", at(4)), END_WINDOW, ("c", at(3)), ("a", at(1))]
        >>> app = Application("clicks")
        >>> source = app.add_operator("source", ListInput(Click, clicks, "time", lateness="2s"))
        >>> ordered = app.add_operator("ordered", Sort())
        >>> sink = app.add_operator("sink", CollectorSink(Click))
        >>> late = app.add_operator("late", CollectorSink(Click))
        >>> app.add_stream("clicks", source.output, ordered.input)
        >>> app.add_stream("ordered", ordered.output, sink.input)
        >>> app.add_stream("late", ordered.late, late.input)
        >>> run = run_local(app)
        >>> [click.page for click in run.collected("sink")], [click.page for click in run.collected("late")]
        (['b', 'c', 'd'], ['a'])
    """

    state_depends_on = ("input", "key")

    input = InputPort(Any)
    output = OutputPort(Any)
    late = OutputPort(Any, late=True, optional=True)

    key: Columns | None = None

    held = ListState(pa.RecordBatch, moves="sum")
    """The records that the watermark has not passed, with their times as the last column."""

    @classmethod
    def states_of(cls, keys: Mapping[str, Sequence[str]]) -> dict[str, Declaration]:
        """Records move with their keys."""
        return {"held": ListState(pa.RecordBatch, moves_to=partial(moved_records, keys["input"]))}

    @metric(help="Records that the watermark has not passed.")
    def held_records(self) -> int:
        """The number of records that are held."""
        return sum(map(len, self.held))

    def needs_times(self) -> str:
        """To sort by them."""
        return "sorts records"

    @input.process_batch
    def take(self, batch: pa.RecordBatch) -> None:
        """Hold the records of a batch; late ones go to `late`. Raises SchemaError for `object`."""
        if holds_pickles(batch):
            raise SchemaError(
                f"`{self.context.name}` cannot sort a stream of `object`; give the port before it a schema"
            )
        batch, times = self.on_time(batch, self.late, "sorts records")
        if len(batch):
            self.refuse_strays(batch, self.key_names)
            self.held.append(batch.append_column(_TIME, pa.array(times)))

    def end_window(self) -> None:
        """Emit the records that the watermark has passed."""
        watermark = self.context.watermark_microseconds
        times = [batch.column(batch.num_columns - 1).to_numpy() for batch in self.held]
        if not times or min(int(one.min()) for one in times) > watermark:
            return
        table = pa.Table.from_batches(list(self.held)).combine_chunks()
        every = np.concatenate(times)
        order = np.argsort(every, kind="stable")
        count = int(np.searchsorted(every[order], watermark, side="right"))
        due = table.take(pa.array(order[:count])).drop_columns([_TIME])
        left = table.take(pa.array(np.sort(order[count:])))
        self.held[:] = left.combine_chunks().to_batches() if len(left) else []
        place = 0
        for batch in due.combine_chunks().to_batches():
            own = every[order[place : place + len(batch)]]
            self.output.emit_timed(batch.cast(self.output.schema.arrow), Times(own))
            place += len(batch)
