"""An input operator that emits the items of a list."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Any

import pyarrow.fs
import pyarrow.parquet as pq
from typing_extensions import TypeVar

from ridgeline.api.columns.schema import Schema, tuple_maker
from ridgeline.api.columns.struct_types import SchemaType
from ridgeline.api.errors import ContainerAbortError, RidgelineError
from ridgeline.api.operator import InputOperator
from ridgeline.api.ports import OutputPort
from ridgeline.api.state import State
from ridgeline.api.support.emitting import Emits
from ridgeline.api.support.event_time import EventTime
from ridgeline.api.support.files import resolve

T = TypeVar("T", default=Any)


class Mark:
    """An item of a list that is no tuple; equal to itself only, in every process."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __reduce__(self) -> str:
        return self.name

    def __deepcopy__(self, _memo: object) -> Mark:
        return self

    def __repr__(self) -> str:
        return self.name


END_WINDOW = Mark("END_WINDOW")
"""The window ends here; what follows belongs to the next one."""
ABORT = Mark("ABORT")
"""The container dies here, once; its window is replayed."""
EOF = Mark("EOF")
"""The input finishes here, whatever follows."""


class ListInput(EventTime, InputOperator, Emits[T]):
    """Emit the items of a list; finish with the window of the last item.

    Items are tuples of `schema` or plain tuples with its values. `END_WINDOW` ends a window, `ABORT` kills
    the container once, so that its window is replayed, and `EOF` ends the input. `timestamp` names the column
    that holds the records' times. `lateness` and `idle_after` are as of `FileReplayInput`. Partition p of n
    emits every n-th item. Raises SchemaError for a plain
    tuple of the wrong length.

    Example:
        >>> from typing import NamedTuple
        >>> from ridgeline import Application
        >>> from ridgeline.testing import ABORT, END_WINDOW, CollectorSink, ListInput, run_local
        >>> class Payment(NamedTuple):
        ...     account: int
        ...     cents: int
        >>> app = Application("payments")
        >>> source = app.add_operator("source", ListInput(Payment, [(1, 100), END_WINDOW, (2, 5), ABORT]))
        >>> sink = app.add_operator("sink", CollectorSink(Payment))
        >>> app.add_stream("payments", source.output, sink.input)
        >>> run = run_local(app)
        >>> run.collected("sink")
        [Payment(account=1, cents=100), Payment(account=2, cents=5)]
        >>> run.windows_committed, len(run.retries)
        (2, 1)
    """

    progress_unit = "records"
    output = OutputPort[T](Any)

    position = State(0, moves="same")

    def __init__(
        self,
        schema: SchemaType[T],
        items: Iterable[Any],
        timestamp: str | None = None,
        lateness: float | str | None = None,
        idle_after: float | str | None = None,
    ) -> None:
        super().__init__(timestamp=timestamp, lateness=lateness, idle_after=idle_after)
        self.declare_schema("output", schema)
        self.items = list(map(tuple_maker(schema), items))

    def emit_tuples(self) -> None:
        """Emit the items of one window."""
        aborts = 0
        items, context = self.items, self.context
        for index in range(self.position, len(items)):
            item = items[index]
            if item is END_WINDOW:
                self.position = index + 1
                break
            if item is ABORT:
                aborts += 1
                if aborts > context.attempt:
                    raise ContainerAbortError(
                        f"`{context.name}` aborts in window {context.window_id}, as its list says"
                    )
            elif item is EOF:
                self.position = len(items)
                break
            elif index % context.partitions == context.partition:
                self.output.emit(item)
        else:
            self.position = len(items)
        if self.position >= len(items):
            self.finish()

    def progress(self) -> tuple[float, float | None]:
        """Items emitted and items still to be emitted."""
        return float(self.position), float(len(self.items) - self.position)


def recorded(folder: str | os.PathLike[str], schema: SchemaType[T]) -> list[T | Mark]:
    """The tuples of a recorded port, window by window, as `run_local(inputs=)` takes them.

    `folder`: `recordings/ID/PORT` in a checkpoint. What the recording has masked stays masked. Raises
    RidgelineError if it has no tuples, or not the columns of `schema`.

    Example:
        >>> import tempfile
        >>> from typing import NamedTuple
        >>> class Price(NamedTuple):
        ...     symbol: str
        ...     cents: int
        >>> recorded(tempfile.mkdtemp(), Price)
        Traceback (most recent call last):
        ridgeline.api.errors.RidgelineError: `...` has no recorded tuples; give `recordings/ID/PORT` of ...
    """
    files, root = resolve(os.fspath(folder))
    selector = pyarrow.fs.FileSelector(root, allow_not_found=True)
    found = sorted(info.path for info in files.get_file_info(selector) if info.extension == "parquet")
    if not found:
        raise RidgelineError(f"`{folder}` has no recorded tuples; give `recordings/ID/PORT` of a checkpoint")
    kind, items = Schema(schema), list[T | Mark]()
    window = _window_of(found[0])
    for path in found:
        items += [END_WINDOW] * (_window_of(path) - window)
        window = _window_of(path)
        with files.open_input_file(path) as file:
            table = pq.read_table(file)
        if missing := sorted(set(kind.arrow.names) - set(table.column_names)):
            raise RidgelineError(
                f"`{folder}` has no column `{missing[0]}`, which {kind.describe()} has; "
                f"it has {', '.join(table.column_names)}"
            )
        for batch in table.select(kind.arrow.names).cast(kind.arrow).to_batches():
            items += kind.decode(batch)
    return items


def _window_of(path: str) -> int:
    """The window of a file `w<window>-p<partition>.parquet`."""
    return int(path.rpartition("/")[2].partition("-")[0].removeprefix("w"))
