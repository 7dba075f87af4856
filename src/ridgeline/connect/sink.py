"""The driver's half of an output connector, which its author writes: it sends rows to the other side."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, ClassVar, Literal, NamedTuple

import pyarrow as pa

from ridgeline.api.clock import Clock
from ridgeline.api.errors import FencedError, RidgelineError

Protocol = Literal["idempotent", "transactional"]
"""How a window arrives once: see `Sink`."""


class SinkUnavailableError(Exception):
    """The other side cannot be reached now: the application waits and tries again.

    Example:
        >>> from ridgeline.connect import SinkUnavailableError
        >>> raise SinkUnavailableError("answered 503")
        Traceback (most recent call last):
        ...
        ridgeline.connect.sink.SinkUnavailableError: answered 503
    """


class Mark(NamedTuple):
    """How far the other side is: the last window that is in, and the driver that wrote it.

    Attributes:
        window: The last window whose rows are in; all before it are, too.
        epoch: The number of the driver that wrote it; each driver of a checkpoint gets a greater one.

    Example:
        >>> from ridgeline.connect import Mark
        >>> Mark(window=7, epoch=1) < Mark(window=8, epoch=1)
        True
    """

    window: int
    epoch: int


@dataclass(eq=False, kw_only=True)
class Batch:
    """The rows that one partition wrote in one window, as `encode` left them.

    Attributes:
        window: The window's number.
        partition: The operator's partition.
        rows: How many rows there were, before `encode`.
        size: Bytes of its segment.
        read: Returns data and schema; it is called at the first use of either.

    Example:
        >>> import pyarrow as pa
        >>> from ridgeline.connect import Batch
        >>> Batch(window=3, partition=0, rows=2, size=4, read=lambda: (b"1;2;", pa.schema([]))).data
        b'1;2;'
    """

    window: int
    partition: int
    rows: int
    size: int
    read: Callable[[], tuple[Any, pa.Schema]] = field(repr=False)

    @property
    def data(self) -> Any:
        """A `pyarrow.Table` of what `encode` returned, or its bytes joined.

        Raises RidgelineError if the segment is missing or damaged.
        """
        return self._content[0]

    @property
    def schema(self) -> pa.Schema:
        """The columns of the rows, before `encode`. Raises as `data`."""
        return self._content[1]

    @cached_property
    def _content(self) -> tuple[Any, pa.Schema]:
        return self.read()


def _unheard(*values: object) -> None:
    """Takes texts and refused rows where nothing is done with them."""


@dataclass(frozen=True)
class SinkContext:
    """The surroundings of a sink.

    Attributes:
        application: The name of the application.
        operator: The name of the output operator.
        run_id: The same for all runs on one checkpoint.
        mark_name: The name of the run's mark at the other side; it stays if the operator is renamed.
        epoch: The number of this driver.
        clock: The source of all times.
        schema: The columns of the stream, before `encode`; None if they are not known before rows come.
        skips: The operator has `on_error=SKIP`: refused rows are left out and given to `refused`.
        refused: Takes a row that the other side refuses: the batch, the row as text, and the reason.
        warn: Takes a text that is shown to the user, with the operator's name before it.

    Example:
        >>> from ridgeline.connect import Sink, SinkContext
        >>> class Named(Sink):
        ...     def open(self, context: SinkContext) -> None:
        ...         self.context, self.client_id = context, f"ridgeline-{context.mark_name}"
    """

    application: str
    operator: str
    run_id: str
    mark_name: str
    epoch: int
    clock: Clock
    schema: pa.Schema | None
    skips: bool
    refused: Callable[[Batch, str, str], None] = _unheard
    warn: Callable[[str], None] = _unheard

    def unwritten(self, batches: Sequence[Batch], found: Mark | None) -> list[Batch]:
        """The batches of windows after a mark, which was read in the transaction that writes them.

        Raises FencedError if a later driver has written the mark, or this one has with a later window, while
        this write hung. It must not write any more.
        """
        if found is None:
            return list(batches)
        if found.epoch > self.epoch:
            msg = f"`{self.operator}`: driver {found.epoch} has written the mark `{self.mark_name}`; "
            msg += f"this is driver {self.epoch}, it stops, nothing is lost"
            raise FencedError(msg)
        if batches and found.window > batches[-1].window:  # it would be set back
            msg = (
                f"`{self.operator}`: window {found.window} is marked in `{self.mark_name}` already, and this "
            )
            msg += f"write ends with window {batches[-1].window}; another one has taken over, nothing is lost"
            raise FencedError(msg)
        return [batch for batch in batches if batch.window > found.window]

    def unmarked(self, place: str) -> RidgelineError:
        """The error for a mark that is gone while its run writes: rows without one might come twice."""
        msg = f"`{self.operator}` cannot write to {place}: its mark `{self.mark_name}` is gone; put it back, "
        msg += "or start anew with another `--checkpoint` and place"
        return RidgelineError(msg)


class Sink:
    """The driver's half of an output connector: it writes committed windows to the other side, in order.

    All methods but `place` are called in one thread of the operator's, never concurrently. So windows
    run while the other side is slow or gone. After an error of `open`, `mark`, `prepare` or `write` comes
    `close`, then `open` again; `is_unavailable` says whether it is worth trying.

    `protocol` says how a window arrives once:

    - `transactional`: `write` puts rows and mark in one transaction. After doubt `mark` is asked: windows up
      to it are in. So rows arrive exactly once.
    - `idempotent`: `write` may be repeated with the same rows (keyed upsert, a key made of run, window and
      row). `mark` is not asked.

    `appends`: what was written cannot be replaced by a later write. Then a run is not rewound to a window
    before the last that was written.

    Example:
        >>> from ridgeline.connect import Mark, Sink
        >>> class Numbered(Sink):
        ...     protocol, appends = "idempotent", False
        ...     rows: dict[int, bytes] = {}
        ...
        ...     def write(self, batches, mark: Mark) -> None:
        ...         for batch in batches:
        ...             self.rows[batch.window, batch.partition] = batch.data
    """

    protocol: ClassVar[Protocol] = "transactional"
    appends: bool = True
    most_bytes: ClassVar[int] = 64 * 2**20
    """Waiting windows are written together up to so many bytes of segments; a larger window alone."""
    prepares: ClassVar[bool] = False
    """True: `prepare` is called. It lets a window's rows travel while its commit is synced."""
    first_retry_seconds: float = 0.1
    most_retry_seconds: float = 5.0

    def place(self) -> str:
        """Say where rows go, as a text for people without secrets: `table prices in db.example.com/sales`."""
        return type(self).__name__

    def open(self, context: SinkContext) -> None:
        """Connect, and check that rows can be written.

        Raises RidgelineError with what is wrong and the remedy; other errors as `write`.
        """

    def mark(self) -> Mark | None:
        """How far the other side is; None before the first window. Asked after `open`."""
        return None

    def prepare(self, batches: Sequence[Batch], mark: Mark) -> None:
        """Send batches whose commit is under way, and the mark, in a transaction that stays open.

        Called if `prepares` is true, and nothing else waits to be written. Next comes `write` with the same
        windows and mark, once they are committed. Or `close` comes: nothing of them may ever be seen then.
        May do nothing, so that `write` does all. Raises as `write`.
        """

    def write(self, batches: Sequence[Batch], mark: Mark) -> None:
        """Write the batches, by window and partition in order, all or nothing, and set the mark with them.

        The mark in the other side is compared in the same transaction (`SinkContext.unwritten`): two drivers
        may be at work. Raises RidgelineError if rows are refused (with operator, window, row and remedy), or
        if it can never work: the run ends. Raises FencedError if another driver has taken over.
        """
        raise NotImplementedError

    def close(self) -> None:
        """Let go of connections. Called after errors too; errors are ignored."""

    def is_unavailable(self, error: Exception) -> bool:
        """Whether it is worth trying again after an error: the other side is gone, overloaded or full.

        Not asked for SinkUnavailableError, which says so, and for RidgelineError, which ends the run.
        """
        return isinstance(error, (OSError, SinkUnavailableError))


class UnwritableError(RidgelineError):
    """The other side refuses a row: `window`, `row` (its text) and the reason are in the message.

    Example:
        >>> from ridgeline.connect import UnwritableError
        >>> raise UnwritableError("prices", 7, "(3, None)", "`price` is null", "leave it out upstream")
        Traceback (most recent call last):
        ...
        ridgeline.connect.sink.UnwritableError: `prices` cannot write a row of window 7: `price` is null; \
row: (3, None); leave it out upstream
    """

    def __init__(self, operator: str, window: int, row: str, reason: str, remedy: str) -> None:
        super().__init__(
            f"`{operator}` cannot write a row of window {window}: {reason}; row: {row}; {remedy}"
        )
        self.window, self.row, self.reason = window, row, reason
