"""Leave out tuples whose key has come before."""

from __future__ import annotations

from itertools import compress
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from ridgeline.api import InputPort, KeyedState, OutputPort, metric
from ridgeline.api.support.duration import PositiveDuration
from ridgeline.api.times import LATEST, NO_TIME, Microseconds
from ridgeline.operators._divided import Columns, ForgettingOperator, row_keys
from ridgeline.operators._exact import Index
from ridgeline.operators._window_parts import filtered
from ridgeline.operators.key_value import first_rows

_NEVER = np.iinfo(np.int64).min


class Deduplicate(ForgettingOperator):
    """Pass on the first tuple of each key, and leave out the others.

    Input: any stream with columns. Output `output`: the first tuples, in their order. Output `duplicates`:
    the others. `key`: a column, or several. Equal keys are one key, see docs/values.md; null is a key too.

    `within`: the time to live. A tuple is left out if a tuple of its key was passed on less than `within`
    before it; None: ever before. So a key comes at most once within this time. `by` says which time counts.
    "record": that of the records; an older record of a key that is held is left out too. One without a time
    counts as of the watermark. "clock": the time at which windows begin. By record, raises RidgelineError if
    the stream has no times.

    State: each key is held exactly, with one time of 8 bytes; the metric `held_keys` says how many. With
    `within` it goes at most an eighth of that time after its end, by the watermark or the clock. A late
    record whose key is gone is passed on.

    Partitions: by key. Round robin is refused with RidgelineError: equal keys would not meet.

    Example:
        >>> from typing import NamedTuple
        >>> from ridgeline import Application
        >>> from ridgeline.operators import Deduplicate
        >>> from ridgeline.testing import END_WINDOW, CollectorSink, ListInput, run_local
        >>> class Payment(NamedTuple):
        ...     id: int
        ...     cents: int
        >>> items = [(1, 100), (2, 5), (1, 100), END_WINDOW, (2, 5), (3, 7)]
        >>> app = Application("payments")
        >>> source = app.add_operator("source", ListInput(Payment, items))
        >>> once = app.add_operator("once", Deduplicate(key="id"))
        >>> sink = app.add_operator("sink", CollectorSink(Payment))
        >>> app.add_stream("payments", source.output, once.input)
        >>> app.add_stream("once", once.output, sink.input)
        >>> [payment.id for payment in run_local(app).collected("sink")]
        [1, 2, 3]
    """

    state_depends_on = ("input", "key", "by")

    input = InputPort(Any)
    output = OutputPort(Any)
    duplicates = OutputPort(Any, optional=True)

    key: Columns
    within: PositiveDuration | None = None
    by: Literal["record", "clock"] = "record"

    passed = KeyedState(int, default=_NEVER)
    """By key, when its last tuple was passed on, in microseconds since 1970."""

    @metric(help="Keys that are held.")
    def held_keys(self) -> int:
        """The number of keys that are held."""
        return len(self.passed)

    @property
    def by_clock(self) -> bool:
        """As `by` says."""
        return self.by == "clock"

    @property
    def _seen_at(self) -> int:
        """The time of a tuple that has none, and of all where keys are kept forever."""
        return min(max(self.now, 0), LATEST)

    @input.process_batch
    def sift(self, batch: pa.RecordBatch) -> None:
        """Pass on the rows of a batch whose keys are new."""
        codes, keys = self._keys(batch)
        if self.live is None:
            firsts = first_rows(codes, len(keys))
            new = self.passed.get_many(keys) == _NEVER
            kept = np.zeros(len(batch), np.bool_)
            kept[firsts[new]] = True
            if new.any():
                self.passed.put_many(_chosen(keys, new), np.full(int(new.sum()), self._seen_at))
        else:
            kept = self._sift_timed(batch, codes, keys, self.live)
        if kept.all():
            self.output.emit_batch(batch)
            return
        self.output.emit_batch(filtered(batch, kept), rows=kept)
        self.duplicates.emit_batch(filtered(batch, ~kept), rows=~kept)

    def _keys(self, batch: pa.RecordBatch) -> tuple[Index, Any]:
        """For each row the number of its key, and the keys; whole numbers as an array, the least first.

        State takes numbers in order quickly: it need not look for equal ones.
        """
        names = self.key_names
        self.refuse_strays(batch, names)
        column = batch.column(names[0])
        if len(names) == 1 and pa.types.is_signed_integer(column.type) and not column.null_count:
            numbers = column.to_numpy().astype(np.int64, copy=False)
            if (numbers[1:] > numbers[:-1]).all():
                return np.arange(len(numbers)), numbers
            known, codes = np.unique(numbers, return_inverse=True)
            return codes, known
        return row_keys(batch, names)

    def _sift_timed(self, batch: pa.RecordBatch, codes: Index, keys: Any, live: int) -> npt.NDArray[np.bool_]:
        """Which rows are passed on, where keys live for so many microseconds."""
        if self.by_clock:
            times: Microseconds = np.full(len(batch), self.context.window_time_microseconds)
        else:
            times = self.record_times(batch, self.purpose)
            times = np.where(times == NO_TIME, self._seen_at, times)
        last = self.passed.get_many(keys)
        kept = np.zeros(len(batch), np.bool_)
        if not len(batch):
            return kept
        order = np.argsort(codes, kind="stable")
        begins = np.searchsorted(codes[order], np.arange(len(keys)))
        ends = np.append(begins[1:], len(batch))
        # the first row of each key that may be passed on, for all keys at once, until none has any
        at, until, newest = begins.copy(), last.copy(), np.maximum.reduceat(times[order], begins)
        active = np.arange(len(keys))
        while len(active):
            rows = order[at[active]]
            due = (until[active] == _NEVER) | (times[rows] >= until[active] + live)
            kept[rows[due]] = True
            until[active[due]] = times[rows[due]]
            at[active] += 1
            left = (at[active] < ends[active]) & (newest[active] >= until[active] + live)
            active = active[left | (until[active] == _NEVER)]
        changed = until != last
        if changed.any():
            self.passed.put_many(_chosen(keys, changed), until[changed])
        return kept

    def end_window(self) -> None:
        """Forget the keys whose time is over."""
        now, live = self.now, self.live or 0
        self.forget(self.passed, lambda time: now >= LATEST or time + live <= now)


def _chosen(keys: Any, mask: npt.NDArray[np.bool_]) -> Any:
    return keys[mask] if isinstance(keys, np.ndarray) else list(compress(keys, mask.tolist()))
