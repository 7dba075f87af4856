"""The columns of a step's result: those that it passes on, and those that polars computes."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from ridgeline.api.columns.holding import held
from ridgeline.api.columns.nulls import is_optional, optional_columns
from ridgeline.api.columns.schema import Schema
from ridgeline.api.errors import SchemaError, did_you_mean
from ridgeline.api.support.results import deferred, returned
from ridgeline.operators.frames._expressions import (
    first_line,
    guesses_formats,
    imported,
    never_null,
    reads_other_rows,
    refuse_other,
    resolved,
    searched,
    tree,
)
from ridgeline.operators.frames._held import Held, Layout, Stage, readable, type_of

if TYPE_CHECKING:
    import polars as pl

_ACROSS = (
    "reads other rows or makes another number of rows, and a batch is no window; "
    "use `window(...)` and `aggregate(...)`, or `transform` for each batch by itself"
)
_GUESSES = "guesses the format from the first row of each batch; give it: "
_FORMATS = '`format="%Y-%m-%dT%H:%M:%S%z"`, or as your texts have it'


@dataclass(frozen=True)
class Made:
    """A column of the result. `source`: the column of the input that it is, None: polars computes it."""

    field: pa.Field
    source: str | None


class Plan:
    """How batches of some tuples become those of the result. Raises SchemaError for a stream of `object`."""

    def __init__(self, tuples: Schema) -> None:
        self.tuples = tuples
        self.columns = columns_of(tuples)
        self.made: list[Made] = []
        self.expressions: list[pl.Expr] = []
        self.functions: dict[str, Callable[[Any], Any]] = {}
        self.needed: list[str] = []
        self.dtypes: dict[str, Any] = {}
        """By column that polars computes, its type there."""
        self.whole = False
        """It reads batches: functions need tuples, and what makes several columns depends on all of them."""
        self._stage: tuple[Layout, Stage] | None = None
        self._faults: list[str] = []

    @cached_property
    def empty(self) -> Any:
        """An empty frame with the columns."""
        return readable(self.columns)

    @property
    def schema(self) -> pa.Schema:
        """The columns of the result. Raises SchemaError with all faults."""
        names = [made.field.name for made in self.made]
        for name in sorted({name for name in names if names.count(name) > 1}):
            self._faults.append(f"the result has column `{name}` twice; rename one: `.alias(...)`")
        if self._faults:
            raise SchemaError("; ".join(self._faults))
        return pa.schema([made.field for made in self.made])

    @cached_property
    def passed(self) -> dict[str, str | None]:
        """By column of the result the one of the input that it is, None for one that is computed."""
        return {made.field.name: made.source for made in self.made}

    def keep(self, names: Iterable[str]) -> None:
        """Pass columns on."""
        self.made += [Made(self.columns.field(name), name) for name in names]

    def add_given(self, given: Any, name: str | None = None) -> None:
        """Add the columns of a property: of a function, or see `resolved`. Faults are noted.

        `name`: of the column, if it makes one.
        """
        if callable(given):
            self._add_function(given, name)
            return
        try:
            expression = resolved(given, self.columns.names)
            self._add(expression if name is None else expression.alias(name))
        except SchemaError as error:
            self._faults.append(f"`{name}`: {error}" if name is not None else str(error))

    def _add_function(self, function: Callable[[Any], Any], name: str | None) -> None:
        """Add the column that a function of tuples makes, of the type that it says it returns."""
        kind, rule = returned(function), deferred(function)
        if name is None:
            self._faults.append("a function was given without a name for its column; give `name=function`")
        elif rule:
            self._faults.append(f"`{name}`: its function {rule}")
        elif kind is None:
            what = f"`{name}`: its function does not say what it returns"
            self._faults.append(f"{what}; annotate it, or use `map` with a `schema`")
        else:
            try:
                field = pa.field(name, held(kind, name).type, nullable=is_optional(kind))
            except SchemaError as error:
                self._faults.append(str(error))
                return
            self.made.append(Made(field, None))
            self.functions[name] = function
            self.whole = True

    def keep_others(self) -> None:
        """Pass all columns on; those that were added stand in the place of equal names, then the others."""
        new = {made.field.name: made for made in self.made}
        if len(new) < len(self.made):
            return  # a fault, which `schema` finds
        kept = [new.pop(field.name, Made(field, field.name)) for field in self.columns]
        self.made = [*kept, *new.values()]

    def _add(self, expression: pl.Expr) -> None:
        """Add the columns of an expression: those that it only passes on are taken as they are.

        Raises SchemaError.
        """
        found = self.types_of(expression)
        plain = expression.meta.undo_aliases()
        if plain.meta.is_column() and len(found) == 1:
            (name,), (source,) = found, plain.meta.root_names()
            self.made.append(Made(self.columns.field(source).with_name(name), source))
            return
        if expression.meta.is_column_selection():
            self.keep(found)
            return
        node = tree(expression)
        sure = [field.name for field in self.columns if not field.nullable]
        nullable = len(found) != 1 or not never_null(node, sure)
        for name, dtype in found.items():
            self.made.append(Made(pa.field(name, type_of(dtype, name), nullable=nullable), None))
        self.expressions.append(expression)
        self.dtypes |= found
        self.whole = self.whole or expression.meta.has_multiple_outputs()
        self.needed += [one for one in self.roots_of(expression) if one not in self.needed]

    def types_of(self, expression: pl.Expr) -> dict[str, Any]:
        """The columns that an expression makes, with polars' types.

        Raises SchemaError for what these columns do not have, and for expressions over several rows.
        """
        for name in expression.meta.root_names():
            if name not in self.columns.names:
                raise SchemaError(f"there is no column `{name}`; {did_you_mean(name, self.columns.names)}")
        try:
            node = tree(expression)
            across = reads_other_rows(node) or self._searches_columns(node)
            found = {} if across else dict(self.empty.select(expression).schema)
        except SchemaError:
            raise
        except BaseException as error:  # noqa: BLE001  of polars
            refuse_other(error)
            text, roots = first_line(error), expression.meta.root_names()
            if roots and not any(name in text for name in roots):
                text = f"`{expression}`: {text}"
            raise SchemaError(f"{text}; {_remedy(error)}") from None
        if across:
            guesses = guesses_formats(node)
            raise SchemaError(f"`{expression}` {_GUESSES + _FORMATS if guesses else _ACROSS}")
        return found

    def _searches_columns(self, node: Any) -> bool:
        """True if a function looks for values in a column: polars does so in all its rows."""
        kinds = (imported().List, imported().Array)
        return any(
            kind is not None and kind.base_type() not in kinds
            for kind in (self._type_of_values(one) for one in searched(node))
        )

    def _type_of_values(self, values: pl.Expr) -> Any:
        """The type of values of columns in polars; None for constants, and parts of structs and lists."""
        if not values.meta.root_names():
            return None
        try:
            return self.empty.select(values.alias("values")).schema["values"]
        except Exception:  # noqa: BLE001  of polars
            return None

    def roots_of(self, expression: pl.Expr) -> list[str]:
        """The columns that an expression reads; all if they depend on the schema."""
        if expression.meta.has_multiple_outputs():
            return list(self.empty.columns)
        return list(dict.fromkeys(expression.meta.root_names()))

    def keeps(self, name: str) -> bool:
        """True if the column is passed on under its name."""
        return any(made.source == name == made.field.name for made in self.made)

    def run(self, held: Held) -> Held:
        """The columns of the result, row by row. Raises what polars raises."""
        if self._stage is None or self._stage[0] is not held.layout:
            self._stage = held.layout, Stage.of(held.layout, self)
        made = held.after(self._stage[1])
        if not self.functions:
            return made
        rows = self.tuples.decode(held.batch)
        arrays = [
            pa.array([self.functions[field.name](row) for row in rows], field.type)
            if field.name in self.functions
            else made.column(field.name)
            for field in (one.field for one in self.made)
        ]
        return Held.of(pa.RecordBatch.from_arrays(arrays, list(self.passed)))


def columns_of(schema: Schema) -> pa.Schema:
    """The columns of a stream, null only where its type says so. Raises SchemaError for one of `object`."""
    if schema.pickled:
        raise SchemaError(
            "expressions need columns, and a stream of `object` has none; `map` it to a type with fields"
        )
    if isinstance(schema.type, pa.Schema):
        return schema.arrow
    optional = optional_columns(schema)
    return pa.schema([field.with_nullable(field.name in optional) for field in schema.arrow])


def _remedy(error: BaseException) -> str:
    """A remedy for a fault that polars has found."""
    text = first_line(error)
    if "compare 'date/datetime/time' to a string" in text or ("comparison" in text and "Datetime(" in text):
        return "write the time as one, in SQL: `timestamptz '2026-01-01 12:00:00'`"
    if "cast" in text or "did you mean" in text:
        return "change the expression"
    return "cast the columns, or change the expression"
