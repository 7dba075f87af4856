"""`Stream`: the tuples that leave a port, with a method for each step that may follow."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Generic, Literal, Unpack, overload

from typing_extensions import TypeVar

from ridgeline.api import Application, Module, Operator, OperatorAttributes, RidgelineError, SchemaType
from ridgeline.api.application import KEEP
from ridgeline.api.errors import did_you_mean, shorten
from ridgeline.api.module import InputProxy, owner_of
from ridgeline.api.operator import operator_type
from ridgeline.api.points import InputPoint, OutputPoint
from ridgeline.api.support.emitting import Takes
from ridgeline.api.support.results import returned
from ridgeline.operators import (
    AsyncMap,
    ConsoleOutput,
    FlatMap,
    LimitRate,
    Map,
    Sampler,
    Sql,
    Union,
    WithTimes,
    aggregate,
)
from ridgeline.operators.sql import MOST_TABLES
from ridgeline.streams.connecting import (
    UNREAD,
    Decoupling,
    Made,
    Outputs,
    Source,
    T_co,
    add,
    advise,
    check_same,
    input_of,
    no_step,
    outputs_of,
    stream_of,
)
from ridgeline.streams.expressing import aggregates
from ridgeline.streams.expressions import ExpressionSteps, split_options
from ridgeline.streams.preview import (
    FRAMES,
    Preview,
    as_frame,
    collect,
    collect_table,
    preview,
    schema_at,
    stream_html,
)
from ridgeline.streams.shaping import ModelSteps, ShapingSteps
from ridgeline.streams.tables import KeyedSteps, StreamTable, check_windows

if TYPE_CHECKING:
    import polars as pl
    import pyarrow as pa

    from ridgeline.operators import Windows
    from ridgeline.streams.grouped import GroupedStream, WindowedStream, WindowOptions

Written = TypeVar("Written")

_ERRORS = {"late": ("late", "late_left", "late_1"), "late_right": ("late_right",), "bad": ("bad",)}
"""The streams of error ports, by the names that the ports may have."""


class EnrichOptions(OperatorAttributes, total=False):
    """Properties of `AsyncMap` that `enrich` passes on, and attributes of the operator."""

    concurrency: int
    timeout: float | str | None
    retries: int
    back_off: float | str


class Stream(ExpressionSteps[T_co], KeyedSteps[T_co], ShapingSteps[T_co], ModelSteps[T_co], Generic[T_co]):
    """The tuples that leave an output port. Each method adds one operator, and returns its stream.

    `Application.read` returns one, and `Application.stream` that of a port. The operator has the name that is
    the method's first argument. Keyword arguments are its attributes, such as `partitions=2` and
    `on_error="SKIP"`. The plan is the one that `add_operator` and `add_stream` make, and both forms mix. A
    stream that several steps read is one stream of the plan, with several sinks.

    Example:
        >>> from typing import NamedTuple
        >>> from ridgeline import Application
        >>> from ridgeline.testing import CollectorSink, ListInput, run_local
        >>> class Payment(NamedTuple):
        ...     account: int
        ...     cents: int
        >>> app = Application("payments")
        >>> payments = app.read("payments", ListInput(Payment, [(1, 100), (2, -5)]))
        >>> valid = payments.filter("valid", lambda payment: payment.cents > 0, partitions=2)
        >>> sink = valid.write("sink", CollectorSink(Payment))
        >>> run_local(app).collected("sink")
        [Payment(account=1, cents=100)]
    """

    def __init__(self, app: Application, point: Source, decoupling: Decoupling | None = None) -> None:
        self.app = app
        self.source = point
        self._decoupling = decoupling

    def __repr__(self) -> str:
        return f"Stream({self.name})"

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            if name in _ERRORS:
                raise no_step(name, "this is a stream", "its step has no such port")
            owner = vars(self).get("source")
            errors = {} if owner is None else operator_type(type(owner_of(owner))).outputs
            if name in errors:
                what = f"this stream leaves the port `{owner.name}` of an operator"
                raise no_step(
                    name, what, f"`app.stream(stream.point.operator.{name})` is that of its port `{name}`"
                )
            raise no_step(name, "this is a stream", _remedy(name, steps_of(type(self))))

    @property
    def point(self) -> OutputPoint[T_co]:
        """The output port, as `add_stream` takes it."""
        point: Any = self.source
        return point

    @property
    def late(self) -> Stream[Any]:
        """The records that came too late for the step; of a join of two streams, those of this one."""
        return self._errors("late")

    @property
    def late_right(self) -> Stream[Any]:
        """The records of the other stream of a join that came too late."""
        return self._errors("late_right")

    @property
    def bad(self) -> Stream[Any]:
        """The tuples that did not fit the step, with the reason."""
        return self._errors("bad")

    def _errors(self, kind: str) -> Stream[Any]:
        """The stream of the error port of the operator. Raises AttributeError if it has none."""
        owner = owner_of(self.source)
        for port in _ERRORS[kind]:
            if port in operator_type(type(owner)).outputs:
                return Stream(self.app, getattr(owner, port))
        raise AttributeError(kind)

    @property
    def name(self) -> str:
        """The name of the stream in the plan, once a step reads it; until then the port's."""
        added = stream_of(self.app, self.source)
        return (
            added.name if added is not None else f"{type(owner_of(self.source)).__name__}.{self.source.name}"
        )

    @property
    def schema(self) -> pa.Schema:
        """The columns of the tuples, as Arrow types. Raises SchemaError if faults hide them."""
        return schema_at(self.app, self.source)

    def preview(self, count: int = 20, *, windows: int = 20) -> Preview:
        """Run all steps that lead here in this process; return the first `count` tuples, as a table.

        Outputs write nothing. It ends once there are as many tuples, after at most `windows` windows. Raises
        ValidationError, and OperatorError if a step fails.
        """
        return preview(self.app, self.source, count, windows)

    def collect(self, *, windows: int | None = None) -> list[T_co]:
        """Run all steps that lead here in this process until their inputs end; return all tuples.

        Nothing else of the application runs, and outputs write nothing. Tuples come in the order of windows,
        within a window in that of partitions. They are all in memory: it is for tests and notebooks.
        `windows`: the most windows to run, for inputs that never end.

        Raises RidgelineError for an input that never ends, ValidationError, and OperatorError if a step
        fails. Ctrl-C ends it with KeyboardInterrupt.
        """
        return collect(self.app, self.source, windows)

    @overload
    def to_frame(self, kind: Literal["polars"] = "polars", *, windows: int | None = None) -> pl.DataFrame: ...
    @overload
    def to_frame(self, kind: Literal["arrow"], *, windows: int | None = None) -> pa.Table: ...
    @overload
    def to_frame(self, kind: Literal["pandas"], *, windows: int | None = None) -> Any: ...
    def to_frame(
        self, kind: Literal["polars", "arrow", "pandas"] = "polars", *, windows: int | None = None
    ) -> Any:
        """Run as `collect`; return all tuples as a frame of polars or pandas, or as an Arrow table.

        Raises as `collect`, and RidgelineError for a stream of `object`, for another `kind`, or where polars
        is not installed.
        """
        if kind not in FRAMES:
            raise RidgelineError(f"`to_frame` makes frames of {', '.join(map(repr, FRAMES))}; got {kind!r}")
        return as_frame(collect_table(self.app, self.source, windows), kind)

    def _repr_html_(self) -> str:
        return stream_html(self.name, self.schema)

    # Python functions ---------------------------------------------------------------------------------------

    def map(
        self,
        name: str,
        function: Callable[[T_co], Made],
        schema: SchemaType[Made] | None = None,
        **attributes: Unpack[OperatorAttributes],
    ) -> Stream[Made]:
        """Turn each tuple into what a function returns.

        `schema`: of the results. Default: the type that the function says it returns.
        """
        return self._step(name, Map(function, **_schema_of(function, schema)), attributes, "data")

    def flat_map(
        self,
        name: str,
        function: Callable[[T_co], Iterable[Made]],
        schema: SchemaType[Made] | None = None,
        **attributes: Unpack[OperatorAttributes],
    ) -> Stream[Made]:
        """Turn each tuple into those that a function returns or yields: none, one or several.

        `schema`: as of `map`. A function says it by `-> Iterable[Word]` or `-> list[Word]`.
        """
        given = _schema_of(function, schema, many=True)
        return self._step(name, FlatMap(function, **given), attributes, "data")

    def enrich(
        self,
        name: str,
        function: Callable[[T_co], Awaitable[Made]],
        schema: SchemaType[Made] | None = None,
        **options: Unpack[EnrichOptions],
    ) -> Stream[Made]:
        """Turn each tuple into what an `async def` function returns, up to `concurrency` of them at once.

        `schema`: as of `map`. See `ridgeline.operators.AsyncMap` for all others.
        """
        own, attributes = split_options(options, EnrichOptions)
        operator = AsyncMap(function, **_schema_of(function, schema), **own)
        return self._step(name, operator, attributes, "data")

    def with_times(
        self,
        name: str,
        column: str | None = None,
        *,
        lateness: float | str = 0.0,
        idle_after: float | str | None = None,
        **attributes: Unpack[OperatorAttributes],
    ) -> Stream[T_co]:
        """Give tuples the times in a column, and begin a watermark: `with_times("time", lateness="5s")`.

        `column`: default: the one with the name of the step. See `ridgeline.operators.WithTimes`.
        """
        operator = WithTimes[Any](name if column is None else column, lateness, idle_after)
        return self._step(name, operator, attributes)

    def sample(
        self,
        name: str,
        share: float,
        key: str | None = None,
        seed: int = 0,
        **attributes: Unpack[OperatorAttributes],
    ) -> Stream[T_co]:
        """Let a share of the tuples through, from 0 to 1: the same ones in each run.

        `key`: all tuples with an equal value there go the same way. See `ridgeline.operators.Sampler`.
        """
        return self._step(name, Sampler[Any](share=share, key=key, seed=seed), attributes, "data")

    def limit_rate(
        self,
        name: str,
        rate: float,
        burst: float | None = None,
        **attributes: Unpack[OperatorAttributes],
    ) -> Stream[T_co]:
        """Let at most `rate` tuples a second through, and leave others out.

        See `ridgeline.operators.LimitRate`.
        """
        return self._step(name, LimitRate[Any](rate, burst), attributes)

    # Any operator -------------------------------------------------------------------------------------------

    def union(
        self, name: str, *others: Stream[T_co], **attributes: Unpack[OperatorAttributes]
    ) -> Stream[T_co]:
        """All tuples of this stream and of others with the same columns.

        Raises RidgelineError for what is no stream.
        """
        for other in others:
            if not isinstance(other, Stream):
                what = f"step `{name}` unites streams, but got {shorten(other)}"
                raise RidgelineError(f"{what}; give streams; of a table that is `table.changes`")
            check_same(self.app, name, other.app)
        operator = Union(len(others) + 1)
        united = self._step(name, operator, attributes, "input_1")
        for number, other in enumerate(others, 2):
            other.into(getattr(operator, f"input_{number}"))
        return united

    def process(
        self,
        name: str,
        operator: Operator | Module,
        port: str | None = None,
        **attributes: Unpack[OperatorAttributes],
    ) -> Any:
        """Lead the tuples to an operator or module of one's own, or of the library.

        Returns the stream of its output port. If it has several, returns their streams by the ports' names,
        see `Outputs`. Error ports are reached by `Application.stream`. `port`: the input port, if there are
        several. Raises RidgelineError if it is not clear which, TypeError for what is no operator.
        """
        add(self.app, name, operator, attributes)
        self.into(input_of(name, operator, port))
        return streams_of(self.app, name, operator)

    def decouple(self, name: str, *, keep: float | str = KEEP) -> Stream[T_co]:
        """Put a durable queue, `name`, between this stream and the steps that read the one returned.

        They are in another region then: windows and commits are their own, and nothing before the queue waits
        for them until it is full. `keep`: how long rows stay that were read. See docs/regions.md.
        """
        return Stream(self.app, self.source, Decoupling(name, keep))

    # Keys and windows ---------------------------------------------------------------------------------------

    def group_by(self, *columns: str) -> GroupedStream:
        """Give the tuples a key of one or several columns; the steps that need one follow.

        Raises RidgelineError without a column.
        """
        from ridgeline.streams.grouped import GroupedStream

        if not columns:
            raise RidgelineError(
                'group_by needs the columns of the key: `group_by("user")`; for all tuples leave it out'
            )
        for column in columns:
            if not isinstance(column, str):
                what = f"`group_by` takes names of columns, but got {shorten(column)}"
                raise RidgelineError(
                    f'{what}; compute the key as a column before: `with_columns("keyed", key=...)`'
                )
        return GroupedStream(self, columns)

    def window(self, windows: Windows, **options: Unpack[WindowOptions]) -> WindowedStream:
        """Put all records into windows without a key, as `GroupedStream.window`: in one partition."""
        from ridgeline.streams.grouped import WindowedStream

        return WindowedStream(self, (), windows, options)

    @aggregates
    def aggregate(self, name: str, /, *unnamed: Any, **aggregates: Any) -> Stream[Any]:
        """Aggregate all records so far without a key, as `GroupedStream.aggregate`: in one partition."""
        from ridgeline.streams.grouped import GroupedStream

        return GroupedStream(self, ()).aggregate(name, *unnamed, **aggregates)

    @overload
    def write(self, name: str, **attributes: Unpack[OperatorAttributes]) -> ConsoleOutput: ...
    @overload
    def write(
        self, name: str, output: Takes[T_co, Written], **attributes: Unpack[OperatorAttributes]
    ) -> Written: ...
    @overload
    def write(
        self,
        name: str,
        output: InputPoint[T_co] | InputProxy[T_co],
        **attributes: Unpack[OperatorAttributes],
    ) -> Operator | Module: ...
    def write(self, name: str, output: Any = None, **attributes: Unpack[OperatorAttributes]) -> Any:
        """Write the tuples by an output operator; default: on the console. Returns the operator.

        An input port of it may stand for it: `write("pager", Pager().alerts)`. So type checkers see which
        tuples it takes, and one of several ports can be chosen. Raises RidgelineError for an operator with
        several input ports, and without a name.
        """
        if isinstance(name, Operator | Module):
            raise RidgelineError(
                f'`write` takes the name of the step first: `write("name", {type(name).__name__}(...))`'
            )
        chosen = isinstance(output, InputPoint | InputProxy)
        operator: Operator | Module = (
            owner_of(output) if chosen else ConsoleOutput() if output is None else output
        )
        add(self.app, name, operator, attributes)
        self.into(output if chosen else input_of(name, operator))
        return operator


def _schema_of(function: Callable[..., Any], schema: Any, *, many: bool = False) -> dict[str, Any]:
    """The property `schema` of a step with a function: what is given, or what it says it returns."""
    made: Any = schema if schema is not None else returned(function, many=many)
    return {} if made is None else {"schema": made}


def _remedy(name: str, steps: list[str]) -> str:
    """What to do in place of a step that streams do not have."""
    from ridgeline.streams.grouped import GroupedStream

    if name in steps_of(GroupedStream):
        return f'it needs a key: `.group_by("key").{name}(...)`'
    if name in aggregate.__all__:
        return (
            f'it is an aggregate: `.aggregate("totals", {name}=agg.{name}(...))`, after `window` if you like'
        )
    return did_you_mean(name, steps)


def steps_of(kind: type) -> list[str]:
    """The names of the methods of streams."""
    return [name for name in dir(kind) if not name.startswith("_")]


def streams_of(app: Application, name: str, operator: Operator | Module) -> Stream[Any] | Outputs:
    """The stream of the output port of an operator; if it has several, or none, all by their names."""
    names = outputs_of(operator)
    streams = {port: Stream[Any](app, getattr(operator, port)) for port in names}
    return streams[names[0]] if len(names) == 1 else Outputs(name, streams)


def read(app: Application, name: str, source: Any, attributes: OperatorAttributes) -> Stream[Any] | Outputs:
    """Do the work of `Application.read`."""
    if isinstance(source, OutputPoint):
        add(app, name, source.operator, attributes)
        advise(app, source.operator, output=UNREAD)
        return Stream(app, source)
    if isinstance(source, Operator) and operator_type(type(source)).inputs:
        what = f"`read` adds inputs, but `{name}` is a `{type(source).__name__}`, which takes tuples"
        raise RidgelineError(
            f'{what}; lead a stream to it: `stream.write("{name}", ...)` or `stream.process("{name}", ...)`'
        )
    add(app, name, source, attributes)
    if isinstance(source, Operator):
        advise(app, source, output=UNREAD)
    return streams_of(app, name, source)


_OPTIONS = ("windows", "timestamp", "memory_mb")


def sql(app: Application, name: str, text: str, schema: Any, given: Mapping[str, Any]) -> Stream[Any]:
    """Do the work of `Application.sql`."""
    streams = {table: one for table, one in given.items() if isinstance(one, Stream)}
    for table, one in given.items():
        if isinstance(one, StreamTable):
            what = f"`{table}` of step `{name}` is a table"
            raise RidgelineError(f"{what}; give the stream of its changes: `{table}=table.changes`")
    if not 1 <= len(streams) <= MOST_TABLES:
        what = f"step `{name}` reads {len(streams)} streams, but SQL reads 1 to {MOST_TABLES}"
        remedy = "give each by the name that the SQL has for it: `orders=orders`"
        raise RidgelineError(f"{what}; {remedy}; got {shorten(dict(given))}")
    for table, stream in streams.items():
        if stream.app is not app:
            raise RidgelineError(
                f"`{table}` of step `{name}` is a stream of another application; read it in this one"
            )
    others = {key: value for key, value in given.items() if key not in streams}
    options = {key: others.pop(key) for key in _OPTIONS if key in others}
    if options.get("windows") is not None:
        check_windows(name, options["windows"])
    operator = Sql[Any](text, list(streams), schema=schema, **options)
    app.add_operator(name, operator, **others)
    for number, stream in enumerate(streams.values(), 1):
        stream.into(getattr(operator, f"input_{number}"))
    return Stream(app, operator.output)
