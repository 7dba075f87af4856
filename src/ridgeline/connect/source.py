"""The driver's half of a connector: which source partitions there are, and how far each one is."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, ClassVar, Literal, NamedTuple, TypeAlias

from ridgeline.api.clock import Clock
from ridgeline.api.errors import RidgelineError

Position: TypeAlias = Any
"""A place in a source partition, of JSON's types. A number, a text, a list."""
Begin: TypeAlias = "Literal['earliest', 'latest'] | datetime"
"""Where a source partition begins that was never read."""


class SourceUnavailableError(RidgelineError):
    """The other side cannot be reached now: it is asked again, with growing pauses, until it answers.

    An `OSError` counts as one, too.

    Example:
        >>> from ridgeline import RidgelineError
        >>> from ridgeline.connect import SourceUnavailableError
        >>> issubclass(SourceUnavailableError, RidgelineError)
        True
    """


class Amount(NamedTuple):
    """How much lies between two positions; `bytes` is 0 where it is not known.

    Example:
        >>> from ridgeline.connect import Amount
        >>> Amount(records=3).bytes
        0.0
    """

    records: float
    bytes: float = 0.0


@dataclass(frozen=True)
class SourceContext:
    """The surroundings of a `Source`.

    Attributes:
        application: The name of the application.
        operator: The name of the input operator.
        run_id: The same for all runs on one checkpoint.
        clock: The source of all times.
        wake: Says that there is something new: `ends` is asked at once. From any thread.
        warn: Shows a text to the user: on the terminal, in the log, as an event. From any thread.
        staging: The URI of a folder in the checkpoint, for files of the source.
        memory: The last committed value of `Source.remember`; None if there is none.
        windows_kept: How many commits back a rewind may go.

    Example:
        >>> from ridgeline.connect import Source, SourceContext
        >>> class Named(Source):
        ...     def open(self, context: SourceContext) -> None:
        ...         self.group = f"{context.application}-{context.operator}"
    """

    application: str
    operator: str
    run_id: str
    clock: Clock
    wake: Callable[[], None]
    warn: Callable[[str], None]
    staging: str = ""
    memory: Any = None
    windows_kept: int = 5


class Source:
    """Says on the driver which source partitions there are, and where each one ends now.

    All methods are called in one background thread, never concurrently, so they may block. The exceptions
    are `amount`, `waiting`, `divide`, `cut`, `limit`, `closes` and `remember`. They are called where windows
    begin, and must be quick.

    Where the other side cannot be reached they raise `OSError` or `SourceUnavailableError`. Then `close` is
    called, and `open` again after a pause. Any other exception ends the run.

    Example:
        >>> from ridgeline.connect import Source
        >>> class Numbers(Source):
        ...     def partitions(self):
        ...         return ["even", "odd"]
        ...
        ...     def ends(self, wait):
        ...         return {"even": 5, "odd": 5}
        ...
        ...     def start(self, partitions, begin):
        ...         return {name: 5 if begin == "latest" else 0 for name in partitions}
        >>> Numbers().cut("even", 0, 5, share=0.5)
        2
    """

    poll_seconds: ClassVar[float] = 0.1
    """`ends` is asked at least so often."""
    silent_seconds: ClassVar[float] = 10.0
    """A call that takes longer counts as no answer: it is said, and what waits there is not known."""
    mentions_new: ClassVar[bool] = True
    """Whether source partitions that come and go while the application runs are shown to the user."""
    ends_itself: ClassVar[bool] = False
    """Whether it alone looks at `until`."""

    def open(self, context: SourceContext) -> None:
        """Connect. Called at the start, and again after a failure."""

    def partitions(self) -> Iterable[str]:
        """The names of the source partitions that there are now. Asked every `discover_every`."""
        raise NotImplementedError

    def has_new(self) -> bool:
        """True if `partitions` is to be asked at once, before `discover_every` is over."""
        return False

    def ends(self, wait: float) -> Mapping[str, Position]:
        """The position after the newest record of each source partition.

        It may block up to `wait` seconds until there is something new. Otherwise it returns at once, and is
        asked again after `poll_seconds`. It may lack those that are not known yet: with `until="end"` windows
        wait for them. That of a source partition without records is where it begins.
        """
        raise NotImplementedError

    def start(self, partitions: Sequence[str], begin: Begin) -> Mapping[str, Position]:
        """Where source partitions begin that were never read: at the earliest record, after the latest one.

        With a time: at the first record that is not older.
        """
        raise NotImplementedError

    def resume(self, positions: Mapping[str, Position]) -> Mapping[str, Position]:
        """A run continues at these positions, or is connected again there: called after `open`.

        Return them. If they are gone, raise RidgelineError, or return others and `warn`.
        """
        return positions

    def unreachable(
        self, positions: Mapping[str, Position], last: Mapping[str, Position], memory: Any
    ) -> str:
        """Why what was read after these positions cannot be read again; empty if it can.

        Asked before a rewind, after `open`. `last`, `memory`: as committed last. The default asks `resume`.
        """
        try:
            self.resume(positions)
        except SourceUnavailableError:
            raise
        except RidgelineError as error:
            return str(error)
        return ""

    def committed(self, positions: Mapping[str, Position]) -> None:
        """All records before these positions are processed for good: the other side may forget them."""

    def finished(self) -> bool:
        """True once nothing will be added any more. Asked before `partitions` and `ends`."""
        return False

    def amount(self, partition: str, start: Position, end: Position) -> Amount:
        """How much lies between two positions. The default is for positions that count records."""
        return Amount(float(end - start))

    def total(self, ranges: Mapping[str, tuple[Position, Position]]) -> Amount:
        """How much lies between start and end of all these source partitions."""
        amounts = [self.amount(name, start, end) for name, (start, end) in ranges.items()]
        return Amount(sum(one.records for one in amounts), sum(one.bytes for one in amounts))

    def waiting(self) -> Amount:
        """How much is there beside the source partitions that are listed: for the backlog."""
        return Amount(0.0)

    def divide(
        self, ranges: Mapping[str, tuple[Position, Position]], most: Amount, partitions: int
    ) -> Mapping[str, Position]:
        """Where a window ends that cannot read all: of each source partition that it reads.

        `ranges`: start and end of what is there, in the order in which source partitions were found. `most`:
        what the window may have. `partitions`: how many partitions of the operator read it. The default reads
        the same share of each.
        """
        records, size = self.total(ranges)
        share = min(1.0, most.records / records if records else 1.0, most.bytes / size if size else 1.0)
        return {name: self.cut(name, start, end, share) for name, (start, end) in ranges.items()}

    def cut(self, partition: str, start: Position, end: Position, share: float) -> Position:
        """The position up to which about this share of what lies between two positions is read.

        It is after `start`, and not after `end`. The default is for positions that are whole numbers.
        """
        return min(end, start + max(1, int((end - start) * share)))

    def limit(self, partition: str, start: Position, end: Position) -> Position:
        """The position that no window reads past which begins at `start`. The default is `end`."""
        return end

    def closes(self, partition: str, position: Position) -> bool:
        """True if nothing will follow in a source partition that is read up to its end, `position`.

        It is not read again: `remember` has to take care of that.
        """
        return False

    def remember(self, memory: Any, closed: Sequence[str]) -> Any:
        """The memory, a small value of JSON's types, with source partitions that are closed now.

        `memory`: what it returned before; None in the first window. It is called for windows that close some,
        have new ones, or are the first of a run or since it was opened again. The window's commit keeps it.
        """
        return memory

    def forget(self, closed: Sequence[str]) -> None:
        """Source partitions are closed by a committed window: they need not be listed any more."""

    def close(self) -> None:
        """Let go of connections. `open` may follow."""

    def stop(self) -> None:
        """The run ends. Called once, after the last `close`."""
