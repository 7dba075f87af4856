"""Metrics of an operator's own: fields and methods whose values are read at the end of each window."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from numbers import Integral, Real
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, TypedDict, TypeVar, Unpack, overload

from ridgeline.api.errors import RidgelineError, shorten

MetricKind: TypeAlias = Literal["gauge", "counter"]
"""`gauge`: a value that goes up and down. `counter`: how many; it is added up over the windows."""
Aggregate: TypeAlias = Literal["sum", "min", "max", "mean", "last"] | Callable[[Sequence[float]], float]
"""How the values of partitions become one: by a known function, or by one of your own."""
AGGREGATES: Mapping[str, Callable[[Sequence[float]], float]] = {
    "sum": sum,
    "min": min,
    "max": max,
    "mean": lambda values: math.fsum(values) / len(values),
    "last": lambda values: values[-1],
}
"""The known functions. `last`: the value of the highest partition that has one."""
_MOST = 2**63
Method = TypeVar("Method", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True)
class MetricOptions:
    """The arguments of a declared metric; see `metric`. `method`: a method returns the value."""

    name: str
    default: float = 0
    aggregate: Aggregate = "sum"
    kind: MetricKind = "gauge"
    help: str = ""
    unit: str = ""
    cumulative: bool = False
    by_partition: bool = False
    method: bool = False

    @property
    def aggregate_name(self) -> str:
        """The function as people read it."""
        if isinstance(self.aggregate, str):
            return self.aggregate
        return str(getattr(self.aggregate, "__name__", type(self.aggregate).__name__))


class _Options(TypedDict, total=False):
    aggregate: Aggregate
    kind: MetricKind
    help: str
    unit: str
    by_partition: bool


class Metric:
    """A metric that an operator keeps as a number: `errors = Metric(0, kind="counter")`.

    It is `default` when an application window begins, and what the operator has made of it is read when that
    ends. Void attempts are not counted. So a `counter` has what the window adds.
    Ridgeline adds the windows up, from the start of the run. A `gauge` has the window's value.

    Reading and assigning it costs what any attribute costs. Give no more than a number: `int` or `float`.

    Args:
        default: The value at the beginning of each application window.
        aggregate: How the values of the partitions become one: `sum`, `min`, `max`, `mean`, `last`, or a
            function of the list of values.
        kind: `gauge` or `counter`.
        help: What it is, in a sentence.
        unit: The base unit: `seconds`, `bytes`, or what is counted. It becomes part of the exported name.
        by_partition: Export each partition, with the label `partition`, in place of the aggregate.

    Example:
        >>> from typing import NamedTuple
        >>> from ridgeline import Application, InputPort, Metric, Operator, State, metric
        >>> from ridgeline.testing import ListInput, run_local
        >>> class Text(NamedTuple):
        ...     text: str
        >>> class Parse(Operator):
        ...     texts = InputPort(Text)
        ...     bad = Metric(0, kind="counter", help="Texts that are no number.")
        ...     total = State(0)
        ...
        ...     @texts.process
        ...     def parse(self, text: Text) -> None:
        ...         if text.text.isdigit():
        ...             self.total += int(text.text)
        ...         else:
        ...             self.bad += 1
        ...
        ...     @metric(aggregate="max", help="The sum of all numbers.")
        ...     def sum_of_all(self) -> int:
        ...         return self.total
        >>> app = Application("parsing")
        >>> texts = app.add_operator("texts", ListInput(Text, [("1",), ("x",), ("2",)]))
        >>> parse = app.add_operator("parse", Parse())
        >>> app.add_stream("texts", texts.output, parse.texts)
        >>> for row in run_local(app).metrics().to_pylist():
        ...     print(row["operator"], row["metric"], row["kind"], row["value"], row["total"])
        parse bad counter 1.0 1.0
        parse sum_of_all gauge 3.0 None
    """

    def __init__(self, default: float = 0, **options: Unpack[_Options]) -> None:
        self.options = MetricOptions("", default, **options)

    def __set_name__(self, owner: type, name: str) -> None:
        self.options = replace(self.options, name=name)

    @overload
    def __get__(self, instance: None, owner: type) -> Metric: ...
    @overload
    def __get__(self, instance: object, owner: type) -> Any: ...
    def __get__(self, instance: object, owner: type) -> Any:
        """The default: the engine puts the value beside it, where Python looks first."""
        return self if instance is None else self.options.default

    if TYPE_CHECKING:

        def __set__(self, instance: object, value: float) -> None: ...


def metric(*, cumulative: bool = False, **options: Unpack[_Options]) -> Callable[[Method], Method]:
    """Declare a method without arguments as a metric: `@metric(aggregate="max")`.

    It is called when an application window ends, after `end_window`. It returns an `int` or `float`, or None
    for no value. It must not emit. The arguments are those of `Metric`, without `default`, and one more.

    Args:
        cumulative: Of a counter: the method returns the total, not what the window adds. Keep the total in
            declared state, then the counter continues after a restart. All others begin at 0.
        **options: As of `Metric`.

    Example:
        >>> from ridgeline import InputOperator, State, metric
        >>> class Numbers(InputOperator):
        ...     position = State(0)
        ...
        ...     @metric(kind="counter", cumulative=True, unit="records", help="Numbers made.")
        ...     def made(self) -> int:
        ...         return self.position
    """

    def declare(method: Method) -> Method:
        made = MetricOptions(getattr(method, "__name__", ""), cumulative=cumulative, method=True, **options)
        method._metric = made  # type: ignore[attr-defined]  # noqa: SLF001  a function has what it is given
        return method

    return declare


def declared_metrics(members: Mapping[str, object]) -> dict[str, MetricOptions]:
    """The metrics among the members of a class, by name."""
    found = {}
    for name, value in members.items():
        options = value.options if isinstance(value, Metric) else getattr(value, "_metric", None)
        if isinstance(options, MetricOptions):
            found[name] = replace(options, name=name)
    return found


def checked_value(value: object) -> float | None:
    """The value of a metric as a plain number, None for none. Raises RidgelineError for what is none."""
    if value is None:
        return None
    if isinstance(value, Integral):
        number: float = int(value)
    elif isinstance(value, Real):
        number = float(value)
    else:
        kind = type(value).__name__
        raise RidgelineError(
            f"a metric is a number; got {shorten(value)}, a `{kind}`; give an `int` or `float`"
        )
    if isinstance(number, int) and abs(number) >= _MOST:
        raise RidgelineError(f"a metric has at most 64 bits; got {shorten(value)}; give a `float`")
    if not math.isfinite(number):
        raise RidgelineError(
            f"a metric is a finite number; got {number}; return None where there is no value"
        )
    return number
