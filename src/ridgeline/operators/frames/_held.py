"""The columns of tuples as steps compute them: those of an Arrow batch, and those of a frame of polars.

Steps that follow each other hand on the frame. What they have computed becomes Arrow where a batch is asked
for. Columns that pass stay the arrays that came in.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property, lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa

from ridgeline.api.columns.combined import PendingTuples
from ridgeline.api.errors import SchemaError
from ridgeline.operators.frames._expressions import first_line, imported, refuse_other

if TYPE_CHECKING:
    import polars as pl


def frame_of(batch: pa.RecordBatch | pa.Table) -> Any:
    """A polars frame of a batch. Raises SchemaError for a column that polars cannot hold."""
    polars = imported()
    try:
        return polars.from_arrow(batch)
    except BaseException as error:  # noqa: BLE001  of polars
        refuse_other(error)
        for name in batch.schema.names:
            try:
                polars.from_arrow(batch.schema.empty_table().select([name]))
            except BaseException as own:  # noqa: BLE001  of polars
                refuse_other(own)
                kind = batch.schema.field(name).type
                raise SchemaError(
                    f"column `{name}` is {kind}, which polars cannot hold; cast it before, in a `map`"
                ) from None
        raise SchemaError(
            f"polars cannot read the columns: {first_line(error)}; cast them before, in a `map`"
        ) from None


def readable(columns: pa.Schema) -> Any:
    """An empty polars frame of those columns that polars can hold."""
    names = []
    for name in columns.names:
        try:
            frame_of(columns.empty_table().select([name]))
        except SchemaError:
            continue
        names.append(name)
    return frame_of(columns.empty_table().select(names))


def type_of(dtype: Any, name: str) -> pa.DataType:  # noqa: PLR0911  a case each
    """The Arrow type of a column that polars makes. Raises SchemaError for one that Arrow does not have."""
    polars = imported()
    kind = dtype.base_type()
    if kind is polars.String:
        return pa.string()
    if kind is polars.Binary:
        return pa.binary()
    if kind is polars.Time:
        return pa.time64("us")
    if kind is polars.List:
        return pa.list_(type_of(dtype.inner, name))
    if kind is polars.Array:
        return pa.list_(type_of(dtype.inner, name), dtype.size)
    if kind is polars.Struct:
        return pa.struct([(field.name, type_of(field.dtype, name)) for field in dtype.fields])
    if kind in (polars.Categorical, polars.Enum):
        return pa.dictionary(pa.int32(), pa.string())
    try:
        found: pa.DataType = polars.Series(dtype=dtype).to_arrow().type
    except BaseException as error:  # noqa: BLE001  of polars
        refuse_other(error)
        found = pa.null()
    if kind in (polars.Object, polars.Int128) or str(kind) in ("UInt128", "Object") or _is_odd(found):
        raise SchemaError(
            f"column `{name}` would be {dtype}, which Arrow does not have; cast it: `.cast(pl.Int64)`"
        )
    if pa.types.is_map(found):
        return pa.map_(_plain(found.key_type), _plain(found.item_type))
    return found


def _plain(kind: pa.DataType) -> pa.DataType:
    """A type without the large offsets that polars uses."""
    if pa.types.is_large_string(kind):
        return pa.string()
    return pa.binary() if pa.types.is_large_binary(kind) else kind


def _is_odd(kind: pa.DataType) -> bool:
    return isinstance(kind, pa.BaseExtensionType)


def keeps_values(dtype: Any) -> bool:
    """True if a column of this type of polars is the same after it was one of Arrow."""
    polars = imported()
    kind = dtype.base_type()
    if kind in (polars.List, polars.Array):
        return keeps_values(dtype.inner)
    if kind is polars.Struct:
        return all(keeps_values(field.dtype) for field in dtype.fields)
    plain = (polars.String, polars.Binary, polars.Boolean, polars.Date, polars.Datetime, polars.Duration)
    floats = (polars.Float32, polars.Float64)
    whole = (polars.Int8, polars.Int16, polars.Int32, polars.Int64)
    return kind in (*plain, *floats, *whole, polars.UInt8, polars.UInt16, polars.UInt32, polars.UInt64)


def array_of(series: Any) -> pa.Array:
    """A column that polars has made, as one Arrow array."""
    found: Any = series.to_arrow()
    return found.combine_chunks() if isinstance(found, pa.ChunkedArray) else found


class Layout(NamedTuple):
    """Where columns lie. `sources`: by column, in order, the one of the batch that it is; None: of the frame.

    `read`: the columns of the frame, also those that it has of the batch.
    """

    sources: Mapping[str, str | None]
    read: Collection[str]

    def unread(self, needed: Sequence[str]) -> dict[str, str]:
        """The columns of the batch that the frame lacks, by the names that they have for expressions."""
        return {name: str(self.sources[name]) for name in needed if name not in self.read}


class Stage(NamedTuple):
    """How a frame becomes that of a step's result. `unread`: what it gets of the batch before.

    `adds`: what expressions make is added to it; else it is only that.
    """

    unread: Mapping[str, str]
    expressions: Sequence[pl.Expr]
    adds: bool
    after: Layout

    @classmethod
    def of(cls, before: Layout, plan: Any) -> Stage:
        """The stage of a plan, for columns that lie so."""
        unread = before.unread(plan.needed)
        known = [*before.read, *unread]
        kept = {name: source for name, source in plan.passed.items() if source in known}
        stay = all(plan.passed.get(name, False) in (name, None) for name in known)
        adds = bool(known) and stay and all(name == source for name, source in kept.items())
        copies = [] if adds else [imported().col(source).alias(name) for name, source in kept.items()]
        sources = {
            name: None if source is None else before.sources[source] for name, source in plan.passed.items()
        }
        return cls(unread, [*copies, *plan.expressions], adds, Layout(sources, {*kept, *plan.dtypes}))


@dataclass(eq=False)
class Held:
    """The columns of tuples, a row for each of `batch`."""

    batch: pa.RecordBatch
    layout: Layout
    frame: Any = None

    @classmethod
    def of(cls, given: pa.RecordBatch | PendingTuples, *, whole: bool = False) -> Held:
        """Those of a batch, or of tuples without one; `whole`: of the batch that these make."""
        if isinstance(given, PendingTuples) and not whole:
            held: Held = given.columns
            return held
        batch = given.batch if isinstance(given, PendingTuples) else given
        return cls(batch, _layout(tuple(batch.schema.names)))

    @cached_property
    def arrow(self) -> pa.RecordBatch:
        """The columns as a batch."""
        names = list(self.layout.sources)
        if not names:  # a batch without columns must know how many rows it has
            return pa.RecordBatch.from_struct_array(pa.array([{}] * len(self.batch), pa.struct([])))
        return pa.RecordBatch.from_arrays(list(map(self.column, names)), names)

    def column(self, name: str) -> pa.Array:
        """A column as an Arrow array."""
        source = self.layout.sources[name]
        return array_of(self.frame[name]) if source is None else self.batch.column(source)

    def computed(self, needed: Sequence[str], expression: pl.Expr) -> pa.Array:
        """What an expression makes of the columns that it needs. Raises what polars raises."""
        frame = self._with(self.layout.unread(needed))
        return array_of(self._selected(frame, [expression]).to_series())

    def after(self, stage: Stage) -> Held:
        """The columns of a step's result. Raises what polars raises."""
        frame = self._with(stage.unread)
        if not stage.expressions:
            frame = frame if stage.adds else None
        elif stage.adds:
            frame = frame.lazy().with_columns_seq(stage.expressions).collect(**_plainly())
        else:
            frame = self._selected(frame, stage.expressions)
        return Held(self.batch, stage.after, frame)

    def _with(self, unread: Mapping[str, str]) -> Any:
        """The frame with more columns of the batch; None without any."""
        if not unread:
            return self.frame
        frame = frame_of(self.batch.select(list(unread.values())).rename_columns(list(unread)))
        return frame if self.frame is None else self.frame.hstack(frame)

    def _selected(self, frame: Any, expressions: Sequence[pl.Expr]) -> Any:
        """A frame of what expressions make of a frame, a value for each row.

        In the thread that asks, one expression after the other: it would have no processor time to show else.
        """
        made = imported().select(expressions) if frame is None else frame.select_seq(expressions)
        rows = len(self.batch)
        if made.height not in (1, rows):
            raise ValueError(f"expressions made {made.height} rows of {rows}; each must make one row of each")
        return made if made.height == rows else made[np.zeros(rows, np.int64)]  # constants only


@lru_cache(maxsize=256)
def _layout(names: tuple[str, ...]) -> Layout:
    """That of the columns of a batch; one object, as stages are kept for it."""
    return Layout({name: name for name in names}, ())


@cache
def _plainly() -> dict[str, Any]:
    """How a query of one step runs: there is nothing to optimize, and to look whether would cost more."""
    polars = imported()
    engine = polars.InMemoryEngine(monitoring=False)
    return {"engine": engine, "optimizations": polars.QueryOptFlags.none()}
