"""Leave out tuples whose key has come before, in bounded memory: by Bloom filters."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import numpy as np
import pyarrow as pa
from pydantic import Field

from ridgeline.api import InputPort, ListState, OutputPort, State, metric
from ridgeline.api.cells.cell import Declaration
from ridgeline.api.cells.state_division import Owns
from ridgeline.api.codec import hash_columns
from ridgeline.api.context import OperatorContext
from ridgeline.api.support.duration import parse_duration, positive_duration_faults
from ridgeline.api.times import LATEST, NO_TIME
from ridgeline.operators._divided import Columns, DividedOperator, columns_of
from ridgeline.operators._window_parts import filtered
from ridgeline.operators.shaping._bloom import Bloom, Hashes, Mask, Shape, wide_hashes

_PARTS = 4
"""Full filters that together hold the keys which must be remembered; one more is being filled."""
_NONE = np.iinfo(np.int64).min


class DeduplicateBloom(DividedOperator):
    """Pass on the first tuple of each key, by Bloom filters: about 2 bytes a key instead of all keys.

    Input: any stream with columns. Output `output`: the first tuples, in their order. Output `duplicates`:
    the others. `key`: a column, or several. Equal keys are one key; null is a key too.

    No duplicate passes whose key is remembered. But a new key is taken for a duplicate with a probability of
    at most `error_rate`. Each partition remembers at least its newest `capacity` keys, and at most a quarter
    more; older ones are forgotten. So its memory is bounded.

    `within`: keys are forgotten that were passed on so long before, too, at most a quarter of it later. `by`
    says which time counts: "record" that of records, by the watermark, "clock" the time at which windows
    begin. If `capacity` is less than the keys that come within this time, keys are forgotten earlier.

    State: the filters, and for keys of the newest one 16 bytes each until it is full. The metric `held_keys`
    says how many keys are remembered. When the number of partitions changes, all get all full filters. Until
    these are forgotten, the error may be as many times as large as there were partitions.

    Partitions: by key. Round robin is refused with RidgelineError: equal keys would not meet.

    Example:
        >>> from typing import NamedTuple
        >>> from ridgeline import Application
        >>> from ridgeline.operators import DeduplicateBloom
        >>> from ridgeline.testing import END_WINDOW, CollectorSink, ListInput, run_local
        >>> class Payment(NamedTuple):
        ...     id: int
        ...     cents: int
        >>> items = [(1, 100), (2, 5), (1, 100), END_WINDOW, (2, 5), (3, 7)]
        >>> app = Application("payments")
        >>> source = app.add_operator("source", ListInput(Payment, items))
        >>> once = app.add_operator("once", DeduplicateBloom("id", capacity=1000))
        >>> sink = app.add_operator("sink", CollectorSink(Payment))
        >>> app.add_stream("payments", source.output, once.input)
        >>> app.add_stream("once", once.output, sink.input)
        >>> [payment.id for payment in run_local(app).collected("sink")]
        [1, 2, 3]
    """

    input = InputPort(Any)
    output = OutputPort(Any)
    duplicates = OutputPort(Any, optional=True)

    key: Columns
    capacity: int = Field(ge=_PARTS)
    error_rate: float = Field(default=0.01, gt=0, lt=1)
    within: float | str | None = None
    by: Literal["record", "clock"] = "record"

    full = ListState(tuple, moves="sum")
    """The full filters, the oldest first: (newest time, keys that count, hashes of a key, bits) each."""
    newest = ListState(bytes, moves="sum")
    """The hashes of the keys of the filter that is being filled, as they came."""
    span = State((_NONE, _NONE))
    """Of that filter the time at which it was begun, and the newest time of a key."""

    @classmethod
    def states_of(cls, keys: Mapping[str, Sequence[str]]) -> dict[str, Declaration]:  # noqa: ARG003  as the base
        """Full filters go to all; hashes of the newest one to the partitions that get their keys."""
        return {
            "full": ListState(tuple, moves=_to_all),
            "newest": ListState(bytes, moves_to=_to_owners),
            "span": State((_NONE, _NONE), moves=_widest),
        }

    @metric(help="Keys that are remembered.")
    def held_keys(self) -> int:
        """The number of keys that are remembered."""
        return round(sum(count for _, count, *_ in self.full)) + sum(map(len, self.newest)) // _ENTRY

    def property_faults(self) -> list[tuple[str, object, str]]:
        """Refuse a key that was changed, and a time to live that is none."""
        return [*self.key_faults("key"), *positive_duration_faults(self, "within")]

    def needs_times(self) -> str:
        """To forget keys, unless the clock says when."""
        return "" if self.within is None or self.by == "clock" else "forgets keys"

    def setup(self, context: OperatorContext) -> None:
        """Read the duration."""
        self.names = columns_of(self.key)
        self.live = None if self.within is None else round(parse_duration(self.within) * 1_000_000)
        each = -(-self.capacity // _PARTS)
        self.filters = _Filters(Shape(each, self.error_rate / (_PARTS + 1)), each)

    @property
    def _now(self) -> int:
        context = self.context
        return context.watermark_microseconds if self.by == "record" else context.window_time_microseconds

    @input.process_batch
    def sift(self, batch: pa.RecordBatch) -> None:
        """Pass on the rows of a batch whose keys are new."""
        if not len(batch):
            return
        self.refuse_strays(batch, self.names)
        owners = hash_columns(batch, self.names)
        hashes = wide_hashes(batch, self.names)
        _, firsts = np.unique(hashes, return_index=True)
        firsts.sort()
        fresh = firsts[~self.filters.hold(hashes[firsts], self.full, self.newest)]
        kept: Mask = np.zeros(len(batch), np.bool_)
        kept[fresh] = True
        if len(fresh):
            self._remember(hashes[fresh], owners[fresh], self._newest_time(batch))
        if kept.all():
            self.output.emit_batch(batch)
            return
        self.output.emit_batch(filtered(batch, kept), rows=kept)
        self.duplicates.emit_batch(filtered(batch, ~kept), rows=~kept)

    def _newest_time(self, batch: pa.RecordBatch) -> int:
        """The newest time of a key in a batch; of one without a time that of the watermark."""
        if self.live is None or self.by == "clock":
            return self._now
        times = self.record_times(batch, "forgets keys")
        timed = times[times != NO_TIME]
        return max(int(timed.max()) if len(timed) else _NONE, self._now)

    def _remember(self, hashes: Hashes, owners: Hashes, time: int) -> None:
        """Add new keys; begin the next filter whenever one is full."""
        while len(hashes):
            taken = min(len(hashes), self.filters.room(self.newest))
            if not taken:  # the keys of several partitions have come together
                self._seal()
                continue
            began, newest = self.span
            self.span = (self._now if began == _NONE else began, max(newest, time))
            self.filters.add(hashes[:taken], owners[:taken], self.newest)
            hashes, owners = hashes[taken:], owners[taken:]
            if not self.filters.room(self.newest):
                self._seal()

    def _seal(self) -> None:
        """The newest filter is over: keep its bits, and forget the oldest that are not needed any more."""
        count, hashes, bits = self.filters.sealed(self.newest)
        if count:
            self.full.append((self.span[1], float(count), hashes, bits))
        self.newest.clear()
        self.span = (_NONE, _NONE)
        needed, counts = 0.0, [one[1] for one in self.full]
        for place in range(len(counts) - 1, -1, -1):
            if needed >= self.capacity:
                self.full[:] = list(self.full)[place + 1 :]
                break
            needed += counts[place]

    def end_window(self) -> None:
        """Forget the filters whose time is over."""
        if self.live is None:
            return
        now, began = self._now, self.span[0]
        if began != _NONE and (now >= LATEST or now >= began + self.live // _PARTS):
            self._seal()
        over = [now >= LATEST or newest + self.live <= now for newest, *_ in self.full]
        if any(over):
            self.full[:] = [one for one, gone in zip(self.full, over, strict=True) if not gone]


_ENTRY = 16
"""Bytes of a key: its hash, and the one that says which partition owns it."""


class _Filters:
    """The filters in memory, made of what the state has; made again if that is not what they were made of."""

    def __init__(self, shape: Shape, most: int) -> None:
        self._shape = shape
        self._most = most
        self._open = Bloom.empty(shape)
        self._seen: tuple[int, bytes | None, int] = (0, None, 0)
        """Of the open filter how many pieces of hashes there were, the last of them, and how many keys."""

    def hold(self, hashes: Hashes, full: Sequence[Any], newest: Sequence[bytes]) -> Mask:
        """Which hashes one of the filters holds."""
        self._catch_up(newest)
        found = self._open.holds(hashes)
        for _, _, number, bits in full:
            found |= Bloom.of(bits, number).holds(hashes)
        return found

    def room(self, newest: Sequence[bytes]) -> int:
        """How many keys the open filter still takes."""
        self._catch_up(newest)
        return max(0, self._most - self._seen[2])

    def add(self, hashes: Hashes, owners: Hashes, newest: Any) -> None:
        """Add keys to the open filter, and to the state."""
        self._catch_up(newest)
        piece = np.stack([hashes, owners], axis=1).tobytes()
        newest.append(piece)
        self._open.add(hashes)
        self._seen = len(newest), piece, self._seen[2] + len(hashes)

    def sealed(self, newest: Sequence[bytes]) -> tuple[int, int, bytes]:
        """How many keys the open filter has, its hashes of a key, and its bits."""
        self._catch_up(newest)
        return self._seen[2], self._open.hashes, self._open.bits()

    def _catch_up(self, newest: Sequence[bytes]) -> None:
        """Make the open filter again if the state is not that of the last call: a window runs again."""
        pieces, last, _ = self._seen
        if len(newest) == pieces and (not pieces or newest[-1] is last):
            return
        self._open = Bloom.empty(self._shape)
        count = 0
        for piece in newest:
            hashes = _pairs(piece)[:, 0]
            self._open.add(hashes)
            count += len(hashes)
        self._seen = len(newest), newest[-1] if newest else None, count


def _pairs(piece: bytes) -> Any:
    """The hash of each key, and the one that says which partition owns it."""
    return np.frombuffer(piece, np.uint64).reshape(-1, 2)


def _to_all(values: Sequence[Sequence[Any]], partitions: int) -> list[list[Any]]:
    """All full filters for each partition, which owns its part of their keys."""
    every = sorted((one for held in values for one in held), key=lambda one: one[0])
    shared = [(newest, count / partitions, hashes, bits) for newest, count, hashes, bits in every]
    return [list(shared) for _ in range(partitions)]


def _to_owners(values: Sequence[Sequence[bytes]], owns: Sequence[Owns]) -> list[list[bytes]]:
    """The keys of newest filters for the partitions that own them."""
    pairs = _pairs(b"".join(piece for held in values for piece in held))
    found = []
    for own in owns:
        mine = own(pairs[:, 1])
        found.append([pairs[mine].tobytes()] if mine.any() else [])
    return found


def _widest(values: Sequence[tuple[int, int]], partitions: int) -> list[tuple[int, int]]:
    """The first beginning and the newest time of all."""
    began = min((begin for begin, _ in values if begin != _NONE), default=_NONE)
    return [(began, max(newest for _, newest in values))] * partitions
