"""The steps of `Stream` that take expressions: polars expressions, SQL text, or functions of tuples."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Unpack, overload

from ridgeline.api import OperatorAttributes, RidgelineError
from ridgeline.api.errors import nearest, shorten
from ridgeline.operators import (
    Branch,
    Cast,
    Drop,
    Filter,
    FilterRows,
    Rename,
    Select,
    Transform,
    WithColumns,
)
from ridgeline.streams.connecting import Outputs, Pair, Steps, T_co
from ridgeline.streams.expressing import branches, computes

if TYPE_CHECKING:
    import polars as pl

    from ridgeline.streams.stream import Stream

    Frames = Callable[[pl.LazyFrame], pl.LazyFrame | pl.DataFrame]

Record = dict[str, Any]
ATTRIBUTES = frozenset(OperatorAttributes.__optional_keys__)


class ExpressionSteps(Steps[T_co]):
    """The steps of `Stream` that take expressions.

    An expression is one of polars, such as `pl.col("cents") / 100`, or SQL text, such as `"cents / 100"`. A
    text that is the name of a column is the column. A function takes a tuple. Expressions are checked against
    the columns of the stream when the application is validated.
    """

    @overload
    def filter(
        self, name: str, predicate: str | pl.Expr, **attributes: Unpack[OperatorAttributes]
    ) -> Stream[T_co]: ...
    @overload
    def filter(
        self, name: str, predicate: Callable[[T_co], bool], **attributes: Unpack[OperatorAttributes]
    ) -> Stream[T_co]: ...
    def filter(self, name: str, predicate: Any, **attributes: Unpack[OperatorAttributes]) -> Stream[T_co]:
        """Let the tuples through for which an expression is true, or a function returns True."""
        if callable(predicate):
            return self._step(name, Filter(predicate), attributes, "data")
        return self._step(name, FilterRows(predicate), attributes)

    @computes
    def select(self, name: str, /, *columns: str | pl.Expr, **named: Any) -> Stream[Record]:
        """Choose and compute columns: `select("short", "id", "upper(city) as city", euros="cents / 100")`.

        `columns`: names, SQL text or polars expressions. Keyword arguments are columns, too, and attributes
        such as `partitions=2`. Raises RidgelineError for what is neither.
        """
        own, attributes = divided(name, named)
        return self._step(name, Select(list(columns), own), attributes)

    @computes
    def with_columns(self, name: str, /, *columns: str | pl.Expr, **named: Any) -> Stream[Record]:
        """Add computed columns, or compute some again: `with_columns("euros", euros="cents / 100")`.

        Arguments are as of `select`. All other columns stay.
        """
        own, attributes = divided(name, named)
        return self._step(name, WithColumns(list(columns), own), attributes)

    def rename(
        self, name: str, columns: Mapping[str, str], **attributes: Unpack[OperatorAttributes]
    ) -> Stream[Record]:
        """Give columns other names: `rename("ids", {"id": "order_id"})`."""
        return self._step(name, Rename(dict(columns)), attributes)

    def drop(self, name: str, *columns: str, **attributes: Unpack[OperatorAttributes]) -> Stream[Record]:
        """Leave columns out: `drop("public", "card", "address")`."""
        return self._step(name, Drop(list(columns)), attributes)

    def cast(
        self, name: str, types: Mapping[str, Any], **attributes: Unpack[OperatorAttributes]
    ) -> Stream[Record]:
        """Cast columns: `cast("typed", {"cents": float, "day": "date", "amount": pl.Decimal(10, 2)})`.

        Types are those of Python, polars or Arrow, or SQL text. A value that cannot be cast is an error.
        """
        return self._step(name, Cast(dict(types)), attributes)

    def split(
        self,
        name: str,
        predicate: str | pl.Expr | Callable[[T_co], bool],
        **attributes: Unpack[OperatorAttributes],
    ) -> tuple[Stream[T_co], Stream[T_co]]:
        """Divide in two: `valid, refused = orders.split("valid", "cents > 0")`.

        The second stream has all tuples for which the predicate is not true: null counts as false.
        """
        parts = Branch[Any]({"matching": predicate})
        others = self._step(name, parts, attributes, output="rest")
        return Pair((self.app.stream(getattr(parts, "matching")), others))  # noqa: B009  a port by its name

    @branches
    def branch(self, name: str, /, **named: Any) -> Outputs:
        """Divide by several predicates: `parts = orders.branch("size", large="cents > 1000")`.

        Each tuple goes to the first whose predicate is true: `parts.large`. The others go to `parts.rest`.
        Keyword arguments that are attributes, such as `partitions=2`, count as such.
        """
        own, attributes = divided(name, named)
        operator = Branch[Any](own)
        rest = self._step(name, operator, attributes, output="rest")
        streams = {port: self.app.stream(getattr(operator, port)) for port in operator.shape or ()}
        return Outputs(name, {**streams, "rest": rest})

    def transform(
        self, name: str, function: Frames, **attributes: Unpack[OperatorAttributes]
    ) -> Stream[Record]:
        """Transform each batch by a function of a `polars.LazyFrame`: several expressions as one query.

        See `ridgeline.operators.Transform` for the times of the rows.
        """
        return self._step(name, Transform(function), attributes)


def divided(name: str, given: Mapping[str, Any]) -> tuple[dict[str, Any], Any]:
    """The expressions and the attributes among the keyword arguments of a step.

    Raises RidgelineError for a value that is neither, such as that of a misspelled attribute.
    """
    own = {key: value for key, value in given.items() if key not in ATTRIBUTES}
    for key, value in own.items():
        if not (isinstance(value, str) or callable(value) or hasattr(value, "meta")):
            close = nearest(key, ATTRIBUTES)
            remedy = (
                f"did you mean the attribute `{close}`?" if close else f"a constant is `pl.lit({value!r})`"
            )
            raise RidgelineError(
                f"`{key}` of step `{name}` is {shorten(value)}, which is no expression; {remedy}"
            )
    return own, {key: value for key, value in given.items() if key in ATTRIBUTES}


def split_options(given: Mapping[str, Any], options: Any) -> tuple[dict[str, Any], Any]:
    """Those that are options of a step, and others: they are attributes, or a fault of the step."""
    own = options.__optional_keys__ - ATTRIBUTES
    return (
        {name: value for name, value in given.items() if name in own},
        {name: value for name, value in given.items() if name not in own},
    )
