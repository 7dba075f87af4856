"""Sinks for tests: all tuples, none, a count, a hash, the first and last."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Self, overload

import pyarrow as pa
from typing_extensions import TypeVar

from ridgeline.api.columns.arrow_stream import from_ipc, to_ipc
from ridgeline.api.columns.schema import Schema, holds_pickles
from ridgeline.api.columns.struct_types import SchemaType
from ridgeline.api.errors import did_you_mean
from ridgeline.api.operator import Operator, port_schema
from ridgeline.api.ports import InputPort
from ridgeline.api.publisher import Publisher
from ridgeline.testing.matching import row_of

T = TypeVar("T", default=Any)


class CollectorSink(Operator, Generic[T]):
    """Keep the tuples of committed windows in the memory of the driver, for `run.collected(name)`.

    That returns tuples of `schema`; without a schema dictionaries, or the values themselves of an `object`
    stream.

    Example:
        >>> from typing import NamedTuple
        >>> from ridgeline import Application
        >>> from ridgeline.testing import END_WINDOW, CollectorSink, ListInput, run_local
        >>> class Number(NamedTuple):
        ...     value: int
        >>> app = Application("numbers")
        >>> numbers = app.add_operator("numbers", ListInput(Number, [(1,), END_WINDOW, (2,)]))
        >>> sink = app.add_operator("sink", CollectorSink(Number))
        >>> app.add_stream("numbers", numbers.output, sink.input)
        >>> run = run_local(app)
        >>> run.collected("sink")
        [Number(value=1), Number(value=2)]
        >>> run.collected("sink", window=1)
        [Number(value=2)]
    """

    input = InputPort[T](Any)

    if TYPE_CHECKING:  # rows of expressions are dictionaries, whose columns are checked with the plan

        @overload
        def _takes(self, value: T, /) -> Self: ...
        @overload
        def _takes(self, value: Mapping[str, Any], /) -> Self: ...
        def _takes(self, value: Any, /) -> Self: ...

    @overload
    def __init__(self: CollectorSink[Any]) -> None: ...
    @overload
    def __init__(self, schema: SchemaType[T]) -> None: ...
    def __init__(self, schema: object = Any) -> None:
        super().__init__()
        if schema is not Any:
            self.declare_schema("input", schema)

    @input.process_batch
    def collect(self, batch: pa.RecordBatch) -> None:
        """Hand a batch over to the driver."""
        self.context.hand_over(to_ipc([batch]))

    def publisher(self) -> Collector:
        """The part that runs on the driver."""
        return Collector(port_schema(self, "input"))


class Collector(Publisher):
    """The batches of committed windows, by window."""

    groups_windows = True
    lasting = False

    def __init__(self, schema: Schema | None) -> None:
        self.schema = schema
        self.windows: dict[int, list[pa.RecordBatch]] = {}
        self._staged: dict[int, list[pa.RecordBatch]] = {}

    def stage(self, window_id: int, values: Sequence[Any]) -> None:
        """Decode the batches."""
        if batches := [batch for value in values for batch in from_ipc(value)]:
            self._staged[window_id] = batches

    def publish(self, window_id: int) -> None:
        """Add the staged batches to the committed windows."""
        self.windows |= self._staged
        self._staged = {}

    def rewind(self, window_id: int, state: object, at: int) -> None:
        """Forget the windows after that one."""
        self.windows = {one: batches for one, batches in self.windows.items() if one <= window_id}

    def tuples(self, window: int | None) -> list[Any]:
        """The tuples of one window, or of all in order."""
        # `list` first: a running application may add windows meanwhile.
        chosen = [window] if window is not None else sorted(list(self.windows))  # noqa: C414
        batches = [batch for window_id in chosen for batch in self.windows.get(window_id, [])]
        return [row for batch in batches for row in self._decode(batch)]

    def ends(self, most: int) -> tuple[int, list[Any], list[Any]]:
        """How many tuples there are, the first ones, and the last ones that are not among them.

        `most`: of each. Only these are decoded.
        """
        batches = [batch for window_id in sorted(self.windows) for batch in self.windows[window_id]]
        count = sum(batch.num_rows for batch in batches)
        first: list[Any] = []
        for batch in batches:
            if len(first) < most:
                first += self._decode(batch.slice(0, most - len(first)))
        last: list[Any] = []
        wanted = min(most, count - len(first))
        for batch in reversed(batches):
            if len(last) < wanted:
                rows = min(batch.num_rows, wanted - len(last))
                last[:0] = self._decode(batch.slice(batch.num_rows - rows))
        return count, first, last

    def _decode(self, batch: pa.RecordBatch) -> list[Any]:
        return list((self.schema or schema_of(batch)).decode(batch))


def collected(publishers: Mapping[str, Publisher], operator: str, window: int | None) -> list[Any]:
    """The tuples that a CollectorSink of a run kept, of one window or of all.

    Raises KeyError with the names of the collectors.
    """
    collectors = {
        name: publisher for name, publisher in publishers.items() if isinstance(publisher, Collector)
    }
    if operator not in collectors:
        none = "this application has none; connect one to the stream"
        remedy = did_you_mean(operator, collectors) if collectors else none
        raise KeyError(f"`{operator}` is not a `CollectorSink`; {remedy}")
    return collectors[operator].tuples(window)


def schema_of(batch: pa.RecordBatch) -> Schema:
    """The schema of a batch on a port of `Any`: `object` for pickled values, else the batch's columns."""
    return Schema(object) if holds_pickles(batch) else Schema(batch.schema)


class NullSink(Operator):
    """Takes all tuples and does nothing with them.

    Example:
        >>> from ridgeline import Application
        >>> from ridgeline.testing import ListInput, NullSink, run_local
        >>> app = Application("words")
        >>> words = app.add_operator("words", ListInput(object, ["a", "b"]))
        >>> sink = app.add_operator("sink", NullSink())
        >>> app.add_stream("words", words.output, sink.input)
        >>> run_local(app).tuples_in("sink")
        2
    """

    input = InputPort(Any)

    @input.process_batch
    def take(self, batch: pa.RecordBatch) -> None:
        """Nothing."""


class ResultSink(Operator):
    """The base of sinks with one result, `run.result(name)`, of all committed windows of a run.

    `start`: the result before anything came. `schema`: of the tuples; default: that of the stream.
    """

    input = InputPort(Any)
    start: ClassVar[Any] = None

    def __init__(self, schema: object = Any) -> None:
        super().__init__()
        if schema is not Any:
            self.declare_schema("input", schema)

    @input.process_batch
    def take(self, batch: pa.RecordBatch) -> None:
        """Hand over what the result of a batch is."""
        self.context.hand_over(self.part(batch))

    def part(self, batch: pa.RecordBatch) -> Any:
        """The result of a batch."""
        raise NotImplementedError

    @staticmethod
    def add(result: Any, part: Any) -> Any:
        """The result so far, with that of a batch."""
        return result + part

    def publisher(self) -> ResultPublisher:
        """The part that runs on the driver."""
        return ResultPublisher(self.start, self.add)

    def rows(self, batch: pa.RecordBatch) -> list[Any]:
        """The tuples of a batch."""
        return list((port_schema(self, "input") or schema_of(batch)).decode(batch))


class ResultPublisher(Publisher):
    """Adds what the partitions hand over in committed windows to one result."""

    groups_windows = True
    lasting = False

    def __init__(self, result: Any, add: Callable[[Any, Any], Any]) -> None:
        self.result = result
        self._add = add
        self._staged: list[object] = []

    def stage(self, window_id: int, values: Sequence[object]) -> None:
        """Keep what was handed over until the window is committed."""
        self._staged += values

    def publish(self, window_id: int) -> None:
        """Add it."""
        staged, self._staged = self._staged, []
        for value in staged:
            self.result = self._add(self.result, value)

    def rewind(self, window_id: int, state: object, at: int) -> None:
        """Nothing is to be taken back: a result is that of one run."""


class CountSink(ResultSink):
    """Counts tuples: `run.result("sink")` is how many came.

    Example:
        >>> from ridgeline import Application
        >>> from ridgeline.testing import CountSink, ListInput, run_local
        >>> app = Application("words")
        >>> words = app.add_operator("words", ListInput(object, ["a", "b", "a"]))
        >>> sink = app.add_operator("sink", CountSink())
        >>> app.add_stream("words", words.output, sink.input)
        >>> run_local(app).result("sink")
        3
    """

    start = 0

    def part(self, batch: pa.RecordBatch) -> int:
        """The number of tuples."""
        return batch.num_rows


class HashSink(ResultSink):
    """Adds the hashes of all tuples: equal for the same tuples, in any order, from any partitions.

    `run.result("sink")` is a number of 64 bits. It is the same in each run and in each process.

    Example:
        >>> from ridgeline import Application
        >>> from ridgeline.testing import HashSink, ListInput, run_local
        >>> def hashed(*given: str) -> int:
        ...     app = Application("words")
        ...     words = app.add_operator("words", ListInput(object, given))
        ...     sink = app.add_operator("sink", HashSink())
        ...     app.add_stream("words", words.output, sink.input)
        ...     return run_local(app).result("sink")
        >>> hashed("a", "b", "b") == hashed("b", "a", "b"), hashed("a", "b") == hashed("a", "b", "b")
        (True, False)
    """

    start = 0

    def part(self, batch: pa.RecordBatch) -> int:
        """The sum of hashes."""
        return sum(map(_hash, self.rows(batch)))

    @staticmethod
    def add(result: int, part: int) -> int:
        """The sum, in 64 bits."""
        return (result + part) % 2**64


def _hash(value: object) -> int:
    row = row_of(value)
    # `hash` of a text differs between processes; half of a surrogate pair is a value too
    text = repr((row.shape, row.numbers)).encode("utf-8", "surrogatepass")
    return int.from_bytes(hashlib.blake2b(text, digest_size=8).digest(), "little")


class FirstLastSink(ResultSink):
    """Keeps the first and the last tuple: `run.result("sink")` is both, or None if none came.

    Example:
        >>> from ridgeline import Application
        >>> from ridgeline.testing import FirstLastSink, ListInput, run_local
        >>> app = Application("words")
        >>> words = app.add_operator("words", ListInput(object, ["a", "b", "c"]))
        >>> sink = app.add_operator("sink", FirstLastSink())
        >>> app.add_stream("words", words.output, sink.input)
        >>> run_local(app).result("sink")
        ('a', 'c')
    """

    def part(self, batch: pa.RecordBatch) -> tuple[Any, Any]:
        """The first and the last tuple of a batch."""
        return self.rows(batch.slice(0, 1))[0], self.rows(batch.slice(batch.num_rows - 1))[0]

    @staticmethod
    def add(result: tuple[Any, Any] | None, part: tuple[Any, Any]) -> tuple[Any, Any]:
        """The first of all, and the last."""
        return (result or part)[0], part[1]


def result_of(publishers: Mapping[str, Publisher], operator: str) -> Any:
    """The result of a sink. Raises KeyError with the names of those that have one."""
    found = {name: one for name, one in publishers.items() if isinstance(one, ResultPublisher)}
    if operator not in found:
        hint = did_you_mean(operator, found) if found else "this application has no sink with a result"
        raise KeyError(f"`{operator}` has no result; {hint}")
    return found[operator].result
