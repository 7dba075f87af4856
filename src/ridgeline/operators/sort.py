"""Sort a stream by the times of its records, within their lateness."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa

from ridgeline.api import InputPort, ListState, OutputPort, SchemaError, metric
from ridgeline.api.cells.cell import Declaration
from ridgeline.api.columns.schema import holds_pickles
from ridgeline.api.times import Times
from ridgeline.operators._divided import Columns, DividedOperator, moved_records

_TIME = "_time"


class Sort(DividedOperator):
    """Emit records in the order of their times, once the watermark has passed them.

    Input: any stream with columns and record times. Output: the same records, sorted; of equal times in the
    order in which they came. So they come later by the `lateness` of the inputs. At the end of the input all
    come.

    `key`: a column, or several. With it, records of a key are in order with any number of partitions; without
    it, those of each partition are.

    A record is late if it is older than the watermark was when its streaming window began. Late records, and
    those without a time, are counted and go to the error port `late`. Raises RidgelineError for streams
    without record times.

    State: the records that the watermark has not passed. The metric `held_records` says how many.

    Partitions: by `key`, else round robin. With a key, round robin is refused with RidgelineError.

    Example:
        >>> from datetime import UTC, datetime
        >>> from typing import NamedTuple
        >>> from ridgeline import Application
        >>> from ridgeline.operators import Sort
        >>> from ridgeline.testing import END_WINDOW, CollectorSink, ListInput, run_local
        >>> Click = NamedTuple("Click", [("page", str), ("time", datetime)])
        >>> def at(second):
        ...     return datetime(2026, 1, 1, 12, 0, second, tzinfo=UTC)
        >>> clicks = [("b", at(2)), ("d", at(4)), END_WINDOW, ("c", at(3)), ("a", at(1))]
        >>> app = Application("clicks")
        >>> source = app.add_operator("source", ListInput(Click, clicks, "time", lateness="2s"))
        >>> ordered = app.add_operator("ordered", Sort())
        >>> sink = app.add_operator("sink", CollectorSink(Click))
        >>> late = app.add_operator("late", CollectorSink(Click))
        >>> app.add_stream("clicks", source.output, ordered.input)
        >>> app.add_stream("ordered", ordered.output, sink.input)
        >>> app.add_stream("late", ordered.late, late.input)
        >>> run = run_local(app)
        >>> [click.page for click in run.collected("sink")], [click.page for click in run.collected("late")]
        (['b', 'c', 'd'], ['a'])
    """

    state_depends_on = ("input", "key")

    input = InputPort(Any)
    output = OutputPort(Any)
    late = OutputPort(Any, late=True, optional=True)

    key: Columns | None = None

    held = ListState(pa.RecordBatch, moves="sum")
    """The records that the watermark has not passed, with their times as the last column."""

    @classmethod
    def states_of(cls, keys: Mapping[str, Sequence[str]]) -> dict[str, Declaration]:
        """Records move with their keys."""
        return {"held": ListState(pa.RecordBatch, moves_to=partial(moved_records, keys["input"]))}

    @metric(help="Records that the watermark has not passed.")
    def held_records(self) -> int:
        """The number of records that are held."""
        return sum(map(len, self.held))

    def needs_times(self) -> str:
        """To sort by them."""
        return "sorts records"

    @input.process_batch
    def take(self, batch: pa.RecordBatch) -> None:
        """Hold the records of a batch; late ones go to `late`. Raises SchemaError for `object`."""
        if holds_pickles(batch):
            raise SchemaError(
                f"`{self.context.name}` cannot sort a stream of `object`; give the port before it a schema"
            )
        batch, times = self.on_time(batch, self.late, "sorts records")
        if len(batch):
            self.refuse_strays(batch, self.key_names)
            self.held.append(batch.append_column(_TIME, pa.array(times)))

    def end_window(self) -> None:
        """Emit the records that the watermark has passed."""
        watermark = self.context.watermark_microseconds
        times = [batch.column(batch.num_columns - 1).to_numpy() for batch in self.held]
        if not times or min(int(one.min()) for one in times) > watermark:
            return
        table = pa.Table.from_batches(list(self.held)).combine_chunks()
        every = np.concatenate(times)
        order = np.argsort(every, kind="stable")
        count = int(np.searchsorted(every[order], watermark, side="right"))
        due = table.take(pa.array(order[:count])).drop_columns([_TIME])
        left = table.take(pa.array(np.sort(order[count:])))
        self.held[:] = left.combine_chunks().to_batches() if len(left) else []
        place = 0
        for batch in due.combine_chunks().to_batches():
            own = every[order[place : place + len(batch)]]
            self.output.emit_timed(batch.cast(self.output.schema.arrow), Times(own))
            place += len(batch)
