"""The half of a connector that lives in a container: it reads records between two positions."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

import pyarrow as pa

from ridgeline.api.columns.schema import Schema
from ridgeline.api.context import OperatorContext

DELETIONS = {b"ridgeline": b"deleted"}
"""The metadata of a column that says which rows are deleted, a field of booleans of a `pyarrow.Schema`.

So tables of streams find it.
"""


def deletions_of(schema: pa.Schema) -> str | None:
    """The column that says which rows are deleted; None if none is marked.

    >>> deletions_of(pa.schema([pa.field("gone", pa.bool_(), metadata=DELETIONS)]))
    'gone'
    """
    marked = [field.name for field in schema if (field.metadata or {}).items() >= DELETIONS.items()]
    return marked[0] if marked else None


class Records(NamedTuple):
    """Records as a connector has read them, with their times.

    `rows`: an Arrow batch or table with the columns of the schema, or a list of tuples. `times`: when the
    records happened. An array of whole numbers (microseconds since 1970), Arrow timestamps, or the name of a
    column; None if that is not known.

    Example:
        >>> import pyarrow as pa
        >>> from ridgeline.connect import Records
        >>> Records(pa.table({"at": [1, 2]}), times="at").rows.num_rows
        2
    """

    rows: Any
    times: Any = None


class Lost(NamedTuple):
    """Records of a source partition that were gone before a window could read them, and were left out.

    Example:
        >>> from ridgeline.connect.reader import Lost
        >>> Lost("orders-0", 5, "records 10 to 14 are gone (retention)").records
        5
    """

    partition: str
    records: int
    text: str


Read: TypeAlias = "Records | pa.RecordBatch | pa.Table | Sequence[Any]"
"""The values that a reader yields."""


@dataclass
class SourceRange:
    """The part of a source partition that a window reads: from `start` up to, and without, `end`.

    `note`: a small value that is kept with the position. The reader may assign it; None at first.

    Example:
        >>> from ridgeline.connect import SourceRange
        >>> SourceRange("orders-0", start=3, end=5).note is None
        True
    """

    partition: str
    start: Any
    end: Any
    note: Any = None


@dataclass(frozen=True)
class ReaderContext:
    """The surroundings of a `SourceReader`.

    Attributes:
        operator: The context of the operator.
        schema: The schema of the tuples.
        leave_out: Leaves out a record that cannot be read: `leave_out(partition, position, record, reason)`.
            With `on_error=SKIP` it becomes a dead letter. Otherwise it raises RidgelineError.
        lost: Counts records that are gone, and are left out: `lost(partition, records, what)`. Once the
            window is committed the application says so.
        skips: Whether `on_error` is SKIP.

    Example:
        >>> from ridgeline.connect import ReaderContext, SourceReader
        >>> class Lines(SourceReader):
        ...     def open(self, context: ReaderContext) -> None:
        ...         self.columns = context.schema.arrow.names
    """

    operator: OperatorContext
    schema: Schema
    leave_out: Callable[[str, Any, str, str], None]
    skips: bool
    lost: Callable[[str, int, str], None]


class SourceReader:
    """Reads records in a container, in the thread of the operator.

    Where the other side cannot be reached, it raises `OSError` or `SourceUnavailableError`. Then what it has
    read in this window is dropped, and `close`, `open` and `read_all` are called until it answers. Any other
    exception is a failure of the operator.

    Example:
        >>> from ridgeline.connect import SourceRange, SourceReader
        >>> class Numbers(SourceReader):
        ...     def read(self, part):
        ...         yield [(part.partition, number) for number in range(part.start, part.end)]
        >>> list(Numbers().read_all([SourceRange("even", 3, 5)]))
        [('even', [('even', 3), ('even', 4)])]
    """

    def open(self, context: ReaderContext) -> None:
        """Connect. Called before the first read of a container, and again after a failure."""

    def read(self, part: SourceRange) -> Iterable[Read]:
        """Read the records of one source partition from `part.start` up to, and without, `part.end`."""
        raise NotImplementedError

    def read_all(self, parts: Sequence[SourceRange]) -> Iterable[tuple[str, Read]]:
        """Read several source partitions: (source partition, records). Those of each one are in order.

        The default reads one after the other.
        """
        for part in parts:
            for records in self.read(part):
                yield part.partition, records

    def close(self) -> None:
        """Let go of connections. Called before a retry, and at the end."""
