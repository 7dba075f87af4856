"""The two halves of inputs that stage their rows in the checkpoint."""

from __future__ import annotations

import math
import os
import selectors
import socket
import threading
import uuid
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import takewhile
from typing import Any, ClassVar, NamedTuple

import pyarrow as pa
from typing_extensions import TypeVar

from ridgeline.api.errors import RidgelineError, SchemaError
from ridgeline.connect.output_files import checkpoint_files
from ridgeline.connect.partitioned_input import PartitionedInput
from ridgeline.connect.reader import SourceRange, SourceReader
from ridgeline.connect.source import Begin, Source, SourceContext
from ridgeline.connect.window_output import safe_name

MOST_BYTES = 16 << 20
"""The longest line."""
_CHUNK_BYTES = 65_536
_WAIT_SECONDS = 0.1


class Line(NamedTuple):
    """A line, without its end.

    Example:
        >>> from ridgeline.operators import Line
        >>> Line("hello").text
        'hello'
    """

    text: str


class Lines:
    """Divides bytes into lines. Bytes that are not UTF-8 become the replacement character.

    A line of more than `MOST_BYTES` comes in pieces: one that never ends would take all memory.
    """

    def __init__(self) -> None:
        self._begun: list[bytes] = []
        self._size = 0

    def add(self, data: bytes) -> Iterator[str]:
        """The lines that end in these bytes."""
        if b"\n" not in data:
            self._begun.append(data)
            self._size += len(data)
            if self._size >= MOST_BYTES:
                yield from self.rest()
            return
        *whole, rest = b"".join([*self._begun, data]).split(b"\n")
        self._begun, self._size = [rest], len(rest)
        yield from map(_text, whole)

    def rest(self) -> Iterator[str]:
        """The last line, if it has no end."""
        rest = b"".join(self._begun)
        self._begun, self._size = [], 0
        if rest:
            yield _text(rest)


class Streams:
    """Reads the lines of several files and sockets as they come; those that were heard last come last."""

    def __init__(self, *others: Any) -> None:
        """`others`: they are not read, but what happens there ends a wait, too."""
        self._selector = selectors.PollSelector()  # unlike others it takes files, which are always ready
        self._lines: dict[Any, Lines] = {}
        for one in others:
            self._selector.register(one, selectors.EVENT_READ)

    def __len__(self) -> int:
        return len(self._lines)

    def add(self, stream: Any) -> None:
        """Read one more, a number or a socket."""
        self._lines[stream] = Lines()
        self._selector.register(stream, selectors.EVENT_READ)

    def received(self) -> Iterator[str]:
        """The lines that have come; waits a while for the first one. Raises OSError of a file."""
        for key, _ in self._selector.select(_WAIT_SECONDS):
            if key.fileobj not in self._lines:  # it had to go meanwhile
                continue
            try:
                data = os.read(key.fd, _CHUNK_BYTES)
            except BlockingIOError:
                continue
            except OSError:
                if not isinstance(key.fileobj, socket.socket):
                    raise  # what is behind it would be left out
                data = b""  # the other side is gone
            if data:
                lines = self._lines[key.fileobj] = self._lines.pop(key.fileobj)
                yield from lines.add(data)
            else:
                yield from self.end(key.fileobj)

    @property
    def quietest(self) -> Any:
        """The one that was heard longest ago."""
        return next(iter(self._lines))

    def end(self, stream: Any) -> Iterator[str]:
        """Let one go; its last line, if that has no end."""
        lines = self._lines.pop(stream)
        self._selector.unregister(stream)
        if isinstance(stream, socket.socket):
            stream.close()
        yield from lines.rest()

    def end_all(self) -> Iterator[str]:
        """Let all go."""
        while self._lines:
            yield from self.end(self.quietest)


def encode(lines: list[str]) -> pa.Table:
    """Lines as rows."""
    return pa.table({"text": pa.array(lines, pa.string())})


def _text(line: bytes) -> str:
    return line.removesuffix(b"\r").decode("utf-8", "replace")


_SEGMENT_NAME = "{:015d}-{:09d}.rows"


class RowStore:
    """Segments of rows in a folder; a segment's name says its first row and how many it has."""

    def __init__(self, folder: str) -> None:
        """Raises RidgelineError if the folder cannot be reached."""
        self.folder = folder
        self._files = checkpoint_files(folder)
        self._known: list[str] = []

    @staticmethod
    def new(parent: str) -> RowStore:
        """A store in a new folder."""
        store = RowStore(f"{parent}/{uuid.uuid4().hex}")
        store._files.make_folder(store._files.root)
        store._files.sync_above(store._files.root)
        return store

    def add(self, first: int, rows: pa.Table) -> None:
        """Write rows, of which the first has this number. They survive a power cut. Raises OSError."""
        name = _SEGMENT_NAME.format(first, rows.num_rows)
        self._files.write_rows(f"{self._files.root}/{name}", rows)
        self._files.sync(self._files.root)

    def read(self, first: int, end: int) -> Iterator[pa.Table]:
        """The rows from number `first` up to, and without, `end`. Raises RidgelineError if some are gone."""
        for lists_anew in (False, True):
            if lists_anew:
                self._known = self.names()
            for name in self._known:
                begin, over = _span(name)
                if begin <= first < over and first < end:
                    rows = self.load(name).slice(first - begin, end - first)
                    yield rows
                    first += rows.num_rows
            if first >= end:
                return
        msg = f"`{self.folder}` has no row {first}, though the driver has written it; "
        raise RidgelineError(msg + "the checkpoint must be in a folder that all hosts share")

    def following(self, first: int) -> Iterator[pa.Table]:
        """The segments that have the rows from number `first` on, up to the first row that is missing."""
        return (self.load(name) for *_, name in _following([self], first))

    @staticmethod
    def all_in(parent: str) -> list[RowStore]:
        """The stores of all drivers of a run, as far as they are there."""
        files = checkpoint_files(parent)
        names = [name for name in files.names(files.root) if files.is_folder(f"{files.root}/{name}")]
        return [RowStore(f"{parent}/{name}") for name in names]

    def drop(self, before: int, after: float = math.inf) -> bool:
        """Delete segments that end by number `before`, and those from `after` on. True if none is left.

        Raises OSError.
        """
        names = self.names()
        old = [name for name in names if _span(name)[1] <= before or _span(name)[0] >= after]
        for name in old:
            self._files.delete(f"{self._files.root}/{name}")
        return len(old) == len(names)

    def remove(self) -> None:
        """Delete the folder, which is empty. Raises OSError."""
        self._files.remove_folder(self._files.root)

    def names(self) -> list[str]:
        """The names of its segments, in the order of their rows."""
        return [name for name in self._files.names(self._files.root) if name.endswith(".rows")]

    def load(self, name: str) -> pa.Table:
        """The rows of a segment. Raises OSError, RidgelineError if it is damaged."""
        return self._files.read_rows(f"{self._files.root}/{name}")


def _following(stores: Iterable[RowStore], first: int) -> Iterator[tuple[int, int, RowStore, str]]:
    """The segments that have the rows from number `first` on, up to the first row that is missing."""
    every = [(*_span(name), store, name) for store in stores for name in store.names()]
    for segment in sorted(every, key=lambda one: one[:2]):
        if segment[0] <= first < segment[1]:
            yield segment
            first = segment[1]


def _span(name: str) -> tuple[int, int]:
    """The first row of a segment, and the first one after it."""
    first, _, count = name.removesuffix(".rows").partition("-")
    return int(first), int(first) + int(count)


_NAME = "rows"
"""The name of the one source partition."""
_MOST_WAITING = 262_144
"""Rows that are taken from the outside and not committed, at most."""
_PAUSE = 0.01
_MOST_AT_ONCE = 65_536
Pull = Callable[[threading.Event], Iterable[Any]]
"""Yields items as they come, one by one or as tables, until the event is set. It may block."""


class StagedSource(Source):
    """Takes rows from the outside in a thread, and writes them to the checkpoint before they count.

    A position is the number of a row, the folder that holds it, and how many rows had been written then. With
    `keeps` a restart takes the rows first that are in the folder of the run before. Without, the outside
    gives all again, and the first rows are passed over.
    """

    poll_seconds: ClassVar[float] = 0.05
    mentions_new: ClassVar[bool] = False
    ends_itself: ClassVar[bool] = True

    def __init__(self, pull: Pull, encode: Callable[[list[Any]], pa.Table], *, keeps: bool) -> None:
        """`encode` makes rows of items. `keeps`: they come once only. Else `pull` gives the same again."""
        self._pull = pull
        self._encode = encode
        self._keeps = keeps
        self._store: RowStore
        self._arrived = threading.Event()
        self._waiting: deque[Any] = deque()
        self._taken: list[Any] = []
        """Items that are to be written next."""
        self._stop = threading.Event()
        self._done = False
        self._error: Exception | None = None
        self._count = self._committed = 0
        self._passed = 0
        self._before: list[RowStore] = []
        """Those of drivers before, as long as a rewind needs their rows."""
        self._first = 0
        """The first row that was taken over from them."""
        self._thread: threading.Thread | None = None

    def open(self, context: SourceContext) -> None:
        """Make the folder; rows are taken once it is known where the run continues."""
        self._context = context
        self._recent: deque[int] = deque(maxlen=context.windows_kept + 1)
        """Where the last windows have ended: a rewind may begin there."""
        self._parent = f"{context.staging}/inputs/{safe_name(context.operator)}-{context.run_id}"

    def resume(self, positions: Mapping[str, Any]) -> Mapping[str, Any]:
        """Continue after these rows. Raises RidgelineError if the last rows that were written are gone."""
        if self._thread is not None or _NAME not in positions:
            return positions
        number, _, written = positions[_NAME]
        self._begin(number, written)
        return positions

    def unreachable(self, positions: Mapping[str, Any], last: Mapping[str, Any], memory: Any) -> str:
        """Rows that are not kept any more. Those that the outside gives again need not be."""
        if not self._keeps:
            return ""
        number, (_, _, written) = positions[_NAME][0], last[_NAME]
        *_, end = number, *(one[1] for one in _following(RowStore.all_in(self._parent), number))
        return "" if end >= written else f"row {end} is not kept any more"

    def _begin(self, number: int, written: int) -> None:
        """Make the folder, and take rows; those that drivers before have written come first."""
        self._before = RowStore.all_in(self._parent)
        self._store, self._first = RowStore.new(self._parent), number
        if self._keeps:
            for start, end, one, name in _following(self._before, number):  # a row has one number in all
                self._store.add(max(start, number), one.load(name).slice(max(start, number) - start))
                number = end
            if number < written:
                what = f"`{self._context.operator}`: rows {number} to {written - 1}, which it had taken, "
                what += f"are gone: the last file in `{self._parent}` is missing"
                raise RidgelineError(f"{what}; restore it from a copy, or begin on a fresh checkpoint")
        else:
            self._passed = number
        self._count = self._committed = number
        # not before: on a full disk it is begun again
        self._thread = threading.Thread(target=self._take, name="ridgeline-staging", daemon=True)
        self._thread.start()

    def partitions(self) -> Sequence[str]:
        """There is one."""
        if self._thread is None:
            self._begin(0, 0)
        return [_NAME]

    def start(self, partitions: Sequence[str], begin: Begin) -> Mapping[str, Any]:
        """At the first row."""
        return {_NAME: [0, self._folder, 0]}

    def ends(self, wait: float) -> Mapping[str, Any]:
        """Write what has come. Raises what the outside has raised, and OSError.

        Rows that could not be written are written when it is asked again.
        """
        if not self._waiting and not self._taken and not self._done:
            self._arrived.wait(wait)
        self._arrived.clear()
        while self._waiting and len(self._taken) < _MOST_AT_ONCE:
            self._taken.append(self._waiting.popleft())
        while self._taken:
            items = list(takewhile(lambda item: not isinstance(item, pa.Table), self._taken))
            self._add(self._encoded(items) if items else self._taken[0])
            del self._taken[: len(items) or 1]
        if self._error is not None and not self._waiting:
            raise self._error
        return {_NAME: [self._count, self._folder, self._count]}

    def finished(self) -> bool:
        """Once the outside has ended, and all is written."""
        return self._done and not self._waiting and not self._taken and self._error is None

    def amount(self, partition: str, start: Any, end: Any) -> Any:
        """Rows."""
        return super().amount(partition, start[0], end[0])

    def cut(self, partition: str, start: Any, end: Any, share: float) -> Any:
        """At a row."""
        return [super().cut(partition, start[0], end[0], share), *end[1:]]

    def committed(self, positions: Mapping[str, Any]) -> None:
        """Delete rows that no rewind needs any more, and what this driver has taken over."""
        number, folder, _ = positions[_NAME]
        if self._thread is None or folder != self._folder:
            return
        self._committed = number
        self._recent.append(number)
        oldest = self._recent[0] if len(self._recent) == self._recent.maxlen else 0
        self._store.drop(oldest)
        for one in [one for one in self._before if one.drop(oldest, self._first)]:
            one.remove()
            self._before.remove(one)

    def stop(self) -> None:
        """End the thread."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join(1.0)

    @property
    def _folder(self) -> str:
        return self._store.folder.rpartition("/")[2]

    def _add(self, rows: pa.Table) -> None:
        if rows.num_rows:
            self._store.add(self._count, rows)
            self._count += rows.num_rows

    def _encoded(self, items: list[Any]) -> pa.Table:
        try:
            return self._encode(items)
        except SchemaError as error:
            raise SchemaError(
                f"`{self._context.operator}`: an item does not fit: {error}; fix it, or give `schema`"
            ) from error

    def _take(self) -> None:
        """Take items, in a thread; wait while too many are not committed."""
        taken, left = self._count, self._passed
        try:
            for item in self._pull(self._stop):
                if self._stop.is_set():
                    return
                rows = item.num_rows if isinstance(item, pa.Table) else 1
                if left:
                    passed, left = min(left, rows), max(0, left - rows)
                    if passed == rows:
                        continue
                    item, rows = item.slice(passed), rows - passed  # noqa: PLW2901  the rest of it
                taken += rows
                self._waiting.append(item)
                if not self._arrived.is_set():
                    self._arrived.set()
                while taken - self._committed > _MOST_WAITING and not self._stop.wait(_PAUSE):
                    pass
            if left:
                msg = f"`{self._context.operator}`: the items have ended {left} before the place at which "
                msg += "the run continues; give the same items as before, or start on a fresh checkpoint"
                self._error = RidgelineError(msg)
        except RidgelineError as error:
            self._error = error
        except Exception as error:  # noqa: BLE001  it is raised where the source is asked
            msg = f"`{self._context.operator}`: its items have failed: {type(error).__name__}: {error}"
            self._error = RidgelineError(msg)
        finally:
            self._done = True
            self._arrived.set()


class StagedReader(SourceReader):
    """Reads rows from the checkpoint."""

    def open(self, context: Any) -> None:
        """Folders are opened when they are read."""
        operator = context.operator
        self._parent = f"{operator.staging}/inputs/{safe_name(operator.name)}-{operator.run_id}"
        self._stores: dict[str, RowStore] = {}

    def read(self, part: SourceRange) -> Iterator[pa.Table]:
        """Read the rows of a window."""
        first, (end, folder, _) = part.start[0], part.end
        if folder not in self._stores:
            self._stores = {folder: RowStore(f"{self._parent}/{folder}")}
        yield from self._stores[folder].read(first, end)


T = TypeVar("T", default=Any)


class StagedInput(PartitionedInput[T]):
    """The base of inputs whose source is a `StagedSource`. They end by themselves, or never."""

    def reader(self) -> StagedReader:
        """The half that reads the rows in containers."""
        return StagedReader()
