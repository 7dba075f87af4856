"""Streams with a key, their windows, and streams of steps that have another one, of what does not fit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, TypedDict, Unpack

from ridgeline.api import Module, Operator, OperatorAttributes, RidgelineError
from ridgeline.api.errors import listed, nearest, shorten
from ridgeline.api.operator import operator_type
from ridgeline.operators import Detect, Running, TopByKey, Windowed, Windows, aggregate
from ridgeline.operators.aggregate import Aggregate
from ridgeline.operators.patterns import Pattern
from ridgeline.operators.windows import KINDS
from ridgeline.streams.connecting import NoStream, input_of
from ridgeline.streams.expressing import aggregates
from ridgeline.streams.expressions import ATTRIBUTES
from ridgeline.streams.stream import Stream


class WindowOptions(TypedDict, total=False):
    """Properties of `Windowed` that `window` passes on."""

    lateness: float | str
    timestamp: str | None
    early: float | str | None
    early_count: int | None
    accumulation: Literal["accumulating", "discarding"]
    close_after: float | str | None
    combine: bool


class _Keyed(NoStream):
    """A stream with a key."""

    def __init__(self, stream: Stream[Any], columns: tuple[str, ...]) -> None:
        self.stream = stream
        self.columns = columns

    @property
    def _key(self) -> str | tuple[str, ...]:
        return self.columns[0] if len(self.columns) == 1 else self.columns

    def _followed(self, name: str, operator: Operator, attributes: Any) -> Stream[Any]:
        """Add an operator by this key; return the stream of its output."""
        stream: Stream[Any] = self.stream.process(name, operator, **attributes)
        return stream


class WindowedStream(_Keyed):
    """A stream in windows: `stream.group_by("user").window(session("30m"))`.

    Example:
        >>> from datetime import UTC, datetime
        >>> from typing import NamedTuple
        >>> from ridgeline import Application
        >>> from ridgeline.operators import aggregate as agg, tumbling
        >>> from ridgeline.testing import CollectorSink, ListInput, run_local
        >>> Click = NamedTuple("Click", [("page", str), ("time", datetime)])
        >>> noon = datetime(2026, 1, 1, 12, tzinfo=UTC)
        >>> app = Application("clicks")
        >>> clicks = app.read("clicks", ListInput(Click, [("/", noon), ("/a", noon)], "time", lateness="5s"))
        >>> minutes = clicks.window(tumbling("1m")).aggregate("minutes", clicks=agg.count())
        >>> sink = minutes.write("sink", CollectorSink())
        >>> run_local(app).collected("sink")[0]["clicks"]
        2
    """

    no_stream = (
        "`window(...)` is a stream in windows",
        'aggregate the windows first: `.aggregate("name", records=agg.count()).{name}(...)`',
    )

    def __init__(
        self, stream: Stream[Any], columns: tuple[str, ...], windows: Windows, options: WindowOptions
    ) -> None:
        if not isinstance(windows, (*KINDS, Mapping)):
            raise RidgelineError(
                f'`window` takes windows, such as `tumbling("1m")`, `session("30m")`; got {shorten(windows)}'
            )
        super().__init__(stream, columns)
        self.windows = windows
        self.options = options

    @aggregates
    def aggregate(self, name: str, /, *unnamed: object, **aggregates: Any) -> Stream[Any]:
        """Aggregate the records of each window, see `Windowed`: `aggregate("counts", clicks=agg.count())`.

        Results have the columns of the key, `window_start`, `window_end`, and one for each aggregate. A start
        or an end that is among the aggregates stands there instead. Their times are the ends of windows.
        Other keyword arguments are attributes of the operator. Raises RidgelineError for no aggregate.
        """
        values, attributes = divided(name, unnamed, aggregates)
        kinds = {one.kind for one in values.values()}
        border = {"window_start": aggregate.window_start(), "window_end": aggregate.window_end()}
        values = {column: one for column, one in border.items() if one.kind not in kinds} | values
        refuse_keys(name, self.columns, values)
        end = next(column for column, one in values.items() if one.kind == "window_end")
        options: dict[str, Any] = {"timestamp": end, **self.options}
        operator = Windowed(self.windows, key=self._key, values=values, **options)
        return self._followed(name, operator, attributes)


class GroupedStream(_Keyed):
    """A stream with a key: `stream.group_by("user")`; the steps that need one are its methods.

    Example:
        >>> from datetime import UTC, datetime
        >>> from typing import NamedTuple
        >>> from ridgeline import Application
        >>> from ridgeline.operators import aggregate as agg, session
        >>> from ridgeline.testing import CollectorSink, ListInput, run_local
        >>> Click = NamedTuple("Click", [("user", str), ("page", str), ("time", datetime)])
        >>> def at(minute):
        ...     return datetime(2026, 1, 1, 12, minute, tzinfo=UTC)
        >>> items = [("ann", "/", at(0)), ("ann", "/a", at(9)), ("ann", "/", at(50))]
        >>> app = Application("clicks")
        >>> clicks = app.read("clicks", ListInput(Click, items, "time", lateness="5s"))
        >>> visits = clicks.group_by("user").window(session("30m"))
        >>> sink = visits.aggregate("visits", exit=agg.last("page")).write("sink", CollectorSink())
        >>> [row["exit"] for row in run_local(app).collected("sink")]
        ['/a', '/']
    """

    no_stream = (
        "`group_by(...)` is a stream with a key",
        "call `{name}` before `group_by`, or of what its own steps give",
    )

    def window(self, windows: Windows, **options: Unpack[WindowOptions]) -> WindowedStream:
        """Put the records of each key into windows, such as `tumbling("1m")`.

        Options are those of `Windowed`: `lateness`, `early`, `early_count`, `accumulation`, `close_after`,
        `combine`.
        """
        return WindowedStream(self.stream, self.columns, windows, options)

    @aggregates
    def aggregate(self, name: str, /, *unnamed: object, **aggregates: Any) -> Stream[Any]:
        """Aggregate all records of each key so far, see `Running`: `aggregate("totals", n=agg.count())`.

        Results have the columns of the key, and one for each aggregate. `emit="records"` has one for each
        record, `ttl="1h"` forgets keys. Other keyword arguments are attributes of the operator. Raises
        RidgelineError for no aggregate.
        """
        own = ("emit", "ttl", "ttl_by")
        values, attributes = divided(name, unnamed, aggregates, *own)
        options = {one: attributes.pop(one) for one in own if one in attributes}
        refuse_keys(name, self.columns, values)
        return self._followed(name, Running(self._key, values=values, **options), attributes)

    def detect(
        self,
        name: str,
        pattern: Pattern,
        *,
        value: str | None = None,
        at: str | None = None,
        **attributes: Unpack[OperatorAttributes],
    ) -> Stream[Any]:
        """Find a pattern in the records of each key, see `Detect`: `detect("silent", absence("10s"))`.

        Results have the columns of the key, `what` and `since`. `value` and `at` name further columns: how
        much, and when it was found.
        """
        return self._followed(name, Detect(pattern, self._key, value=value, at=at), attributes)

    def top(
        self,
        name: str,
        size: int,
        by: str,
        *,
        smallest: bool = False,
        **attributes: Unpack[OperatorAttributes],
    ) -> Stream[Any]:
        """The largest tuples of each key by a column, with their `rank`: `top("top", 10, by="cents")`.

        See `TopByKey`. `smallest`: the smallest ones.
        """
        return self._followed(name, TopByKey(self._key, size, by=by, smallest=smallest), attributes)

    def process(
        self,
        name: str,
        operator: Operator | Module,
        port: str | None = None,
        **attributes: Unpack[OperatorAttributes],
    ) -> Any:
        """Lead the tuples to an operator whose input port has this key; else as `Stream.process`.

        Raises RidgelineError for a port with another key, or without one.
        """
        if not isinstance(operator, (Operator, Module)):
            return self.stream.process(name, operator, port, **attributes)
        point: Any = input_of(name, operator, port)
        declared = operator_type(type(operator)).inputs[point.name].key
        if self.columns not in ((declared,), declared):
            what = f"the tuples of step `{name}` are grouped by {listed(self.columns)}"
            found = f"but port `{point.name}` has key={declared!r}"
            raise RidgelineError(f"{what}, {found}; declare it as `InputPort(..., key={self._key!r})`")
        return self.stream.process(name, operator, port, **attributes)


def divided(
    name: str, unnamed: Sequence[object], given: Mapping[str, Any], *options: str
) -> tuple[dict[str, Aggregate], Any]:
    """The aggregates and the attributes among the keyword arguments of a step.

    `unnamed`: aggregates without a name for their column. `options`: keywords that are neither. Raises
    RidgelineError for these, for no aggregate, for a function of `aggregate` that was not called, and for
    other keywords.
    """
    if unnamed:
        kind = getattr(unnamed[0], "kind", "count")
        what = f"step `{name}` has {shorten(unnamed[0])} without a name for its column"
        raise RidgelineError(f'{what}; name it: `aggregate("{name}", result=agg.{kind}(...))`')
    values = {column: one for column, one in given.items() if isinstance(one, Aggregate)}
    for column, one in given.items():
        if callable(one) and getattr(one, "__module__", "").startswith(aggregate.__name__):
            raise RidgelineError(
                f"`{column}` of step `{name}` is a function; call it: `{column}=agg.{one.__name__}(...)`"
            )
    known = (*ATTRIBUTES, *options)
    for column, one in given.items():
        if values and column not in values and column not in known:
            close = nearest(column, known)
            remedy = f"give one, such as `{column}=agg.count()`"
            remedy += f"; or did you mean `{close}`?" if close else ""
            if column in WindowOptions.__annotations__:
                remedy = f"it is an option of the windows: `window(..., {column}=...)`"
            elif column in ("emit", "ttl"):
                remedy = "it is an option of aggregates without `window(...)`; leave one of them out"
            raise RidgelineError(
                f"`{column}` of step `{name}` is {shorten(one)}, which is no aggregate; {remedy}"
            )
    if not values:
        example = f'`aggregate("{name}", records=agg.count())`'
        raise RidgelineError(
            f"step `{name}` has no aggregate; got {shorten(dict(given))}; give one, such as {example}"
        )
    return values, {column: one for column, one in given.items() if column not in values}


def refuse_keys(name: str, keys: Sequence[str], values: Mapping[str, Aggregate]) -> None:
    """Raise RidgelineError for a column of the key that an aggregate or a border of windows would replace."""
    for key in keys:
        if key in values:
            what = f"step `{name}` is grouped by `{key}`, and has an aggregate of that name, too"
            raise RidgelineError(f"{what}; give it another name: `at=agg.{values[key].kind}(...)`")
