"""Read Python iterables, async generators and frames."""

from __future__ import annotations

import asyncio
import threading
import uuid
from collections.abc import AsyncIterable, AsyncIterator, Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import pyarrow as pa

from ridgeline.api.columns.schema import Schema, is_struct, tuple_maker
from ridgeline.api.columns.struct_types import SchemaType
from ridgeline.api.errors import RidgelineError, SchemaError, shorten
from ridgeline.operators._shaped import T
from ridgeline.operators._staged_source import StagedInput, StagedSource

_FRAME_ROWS = 65_536


class _Items(NamedTuple):
    """Items of this process. `once`: they can be read once only."""

    schema: Any
    pull: Callable[[threading.Event], Iterable[Any]]
    once: bool


_ITEMS: dict[str, _Items] = {}
"""By the token of their operators, whose copies travel to containers without them."""


class IterableInput(StagedInput[T]):
    """Emit items of Python: made by `from_iterable` and `from_frame`.

    The items are taken in a thread of the driver, and written to the checkpoint before they count. So each is
    processed once, whatever fails meanwhile. It finishes with the last one.

    Example:
        >>> from typing import NamedTuple
        >>> from ridgeline import Application
        >>> from ridgeline.operators import from_iterable
        >>> from ridgeline.testing import CollectorSink, run_local
        >>> class Number(NamedTuple):
        ...     value: int
        >>> def numbers():
        ...     for value in range(3):
        ...         yield Number(value)
        >>> app = Application("numbers")
        >>> sink = app.read("numbers", from_iterable(numbers, Number)).write("sink", CollectorSink(Number))
        >>> run_local(app).collected("sink")
        [Number(value=0), Number(value=1), Number(value=2)]
    """

    token: str = ""

    def __post_init__(self) -> None:
        """Give the output port the schema of the items."""
        if self.token in _ITEMS:
            self.declare_schema("output", _ITEMS[self.token].schema)

    def source(self) -> StagedSource:
        """The half that takes the items."""
        items = self._items()
        schema = Schema(items.schema)

        def encode(rows: list[Any]) -> pa.Table:
            return pa.Table.from_batches([schema.encode(rows)])

        return StagedSource(items.pull, encode, keeps=items.once)

    def _items(self) -> _Items:
        if self.token not in _ITEMS:
            raise RidgelineError(
                "`IterableInput` has no items in this process; make it by `from_iterable` or `from_frame`"
            )
        return _ITEMS[self.token]


def from_iterable(
    items: Iterable[Any] | AsyncIterable[Any] | Callable[[], Iterable[Any] | AsyncIterable[Any]],
    schema: SchemaType[T] | None = None,
    *,
    timestamp: str | None = None,
    lateness: float | str | None = None,
) -> IterableInput[T]:
    """An input of items: a list, an iterator, an async generator, or a function that returns one.

    `schema`: their type; a plain tuple becomes one of it. Without it, it is the type of the first item of a
    list, or `object`. `timestamp` and `lateness` are as of `PartitionedInput`.

    A restart calls a function, or reads a list, again. They must give the same items; those that were
    processed are passed over. An iterator can be read once only. After a restart all that it gives then is
    read.

    Example:
        >>> from ridgeline import Application
        >>> from ridgeline.operators import from_iterable
        >>> from ridgeline.testing import CollectorSink, run_local
        >>> app = Application("words")
        >>> sink = app.read("words", from_iterable(["one", "two"])).write("sink", CollectorSink(object))
        >>> run_local(app).collected("sink")
        ['one', 'two']
    """
    if schema is None:
        first = items[0] if isinstance(items, Sequence) and items else None
        kind: Any = type(first) if first is not None and is_struct(type(first)) else object
    else:
        kind = schema
    make = tuple_maker(kind)
    once = not callable(items) and isinstance(items, (Iterator, AsyncIterator))

    def pull(_: threading.Event) -> Iterator[Any]:
        found: Any = items() if callable(items) else items
        return map(make, _of_async(found) if isinstance(found, AsyncIterable) else found)

    return _made(kind, pull, once, timestamp, lateness)


def from_frame(
    frame: Any, *, timestamp: str | None = None, lateness: float | str | None = None
) -> IterableInput[dict[str, Any]]:
    """An input of the rows of a frame: of pandas, polars or Arrow, which has the columns.

    The index of a pandas frame is a column if it has a name. A restart must give the same rows, and passes
    over those that were processed.

    Example:
        >>> import pyarrow as pa
        >>> from ridgeline import Application
        >>> from ridgeline.operators import from_frame
        >>> from ridgeline.testing import CollectorSink, run_local
        >>> app = Application("numbers")
        >>> numbers = app.read("numbers", from_frame(pa.table({"n": [1, 2]})))
        >>> sink = numbers.filter("odd", "n % 2 = 1").write("sink", CollectorSink())
        >>> run_local(app).collected("sink")
        [{'n': 1}]
    """
    table = table_of(frame, "`from_frame`")
    chunks = [table.slice(first, _FRAME_ROWS) for first in range(0, table.num_rows, _FRAME_ROWS)]
    return _made(table.schema, lambda _: iter(chunks), once=False, timestamp=timestamp, lateness=lateness)


def _made(schema: Any, pull: Any, once: bool, timestamp: str | None, lateness: Any) -> IterableInput[Any]:  # noqa: FBT001
    token = uuid.uuid4().hex
    _ITEMS[token] = _Items(schema, pull, once)
    return IterableInput(token=token, timestamp=timestamp, lateness=lateness)


def table_of(frame: Any, taker: str) -> pa.Table:
    """A frame as a table. `taker`: who takes it. Raises SchemaError for anything else."""
    if isinstance(frame, pa.RecordBatch):
        frame = pa.Table.from_batches([frame])
    if not isinstance(frame, pa.Table):
        if hasattr(frame, "collect_schema") and hasattr(frame, "collect"):
            frame = frame.collect()  # lazy, of polars
        if type(frame).__module__.partition(".")[0] == "pandas":
            named = frame.index.name is not None or any(name is not None for name in frame.index.names)
            frame = pa.Table.from_pandas(frame, preserve_index=named)
        elif hasattr(frame, "__arrow_c_stream__"):
            frame = pa.table(frame)
        else:
            raise SchemaError(f"{taker} takes a frame of pandas, polars or Arrow; got {shorten(frame)}")
    return frame.replace_schema_metadata(None)


def _of_async(items: AsyncIterable[Any]) -> Iterator[Any]:
    """The items of an async iterable, in a loop of this thread."""
    found = aiter(items)
    with asyncio.Runner() as runner:
        while True:
            try:
                yield runner.run(_next(found))
            except StopAsyncIteration:
                return


async def _next(items: AsyncIterator[Any]) -> Any:
    return await anext(items)
