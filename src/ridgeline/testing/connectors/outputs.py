"""Conformance tests of output connectors."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from copy import deepcopy
from functools import partial
from io import StringIO
from itertools import count
from typing import Any, NamedTuple

from rich.console import Console

from ridgeline.api.application import Application
from ridgeline.api.attributes import OnError
from ridgeline.api.errors import RidgelineError
from ridgeline.connect.partitioned_output import PartitionedOutput
from ridgeline.connect.sink import SinkUnavailableError
from ridgeline.engine.files.storage import DriverStorage, MemoryStorage
from ridgeline.measure.events import StateWarning
from ridgeline.plan.edits import Edit, Repartition
from ridgeline.testing.connectors.target import (
    CONTAINER_POINTS,
    DRIVER_POINTS,
    LINES,
    SINK_POINTS,
    ConnectorReport,
    ConnectorRow,
    ConnectorTarget,
    Outcome,
    Strikes,
)
from ridgeline.testing.list_input import END_WINDOW, ListInput
from ridgeline.testing.local_run import LocalRun
from ridgeline.testing.run_local import run_local

_WINDOWS = 8
_ROWS = 6
"""Rows of each window."""
_KEYS = 5
_MOST_STARTS = 10
_MOST_SAID = 5
"""The most windows that a fault names."""
_FAILED_CALLS = 5
"""After so many the other side is up again."""
_MOST_LINES = 12
"""Of a `write` with more lines as many are struck, at equal distances."""
_JOIN_SECONDS = 60.0
_DRAIN_SECONDS = 300.0
"""A server that is started again takes its time."""
_NO_POISON = "there is no row that it refuses"


class _Check(NamedTuple):
    """One check. `sink`: it is for outputs with a sink, or for those without; None: for all."""

    name: str
    run: Callable[[Trial], None]
    sink: bool | None = None


def connector_checks(
    target: Callable[[], ConnectorTarget],
    *,
    guarantee: str = "exactly once",
    only: Collection[str] = (),
) -> ConnectorReport:
    """Run the conformance tests of an output connector, and say which guarantee they have shown.

    `target` makes a fresh place at the other side for each check. Applications run in process, against the
    real other side. Each check writes the same rows and compares what is there with a plain list:

    - containers are killed before and after each `encode` and each segment
    - the driver is killed before, in and after each step: stage, commit, open, mark, write, end; and within
      `write`, before its lines
    - a driver that was overtaken writes late; two drivers write at once
    - the other side is gone for 60 s of a clock that is stepped, slow, or full
    - the application is stopped and continued, and continued from an older copy of its checkpoint
    - it is rewound, its output gets other partitions while it runs, it has 1, 2, 3 and 5 of them
    - a row is refused: by default the run ends and names it, with `on_error=SKIP` all others arrive

    `guarantee`: the least that has to be shown. `only`: the names of the checks to run, or parts of them.
    Raises AssertionError with the report if a check does not hold, or if less is shown.

    Example:
        >>> from ridgeline.connect import PartitionedOutput, Sink
        >>> from ridgeline.testing import ConnectorTarget, connector_checks
        >>> class DictSink(Sink):
        ...     protocol, appends = "idempotent", False
        ...
        ...     def __init__(self, store):
        ...         self.store = store
        ...
        ...     def write(self, batches, mark):
        ...         for batch in batches:
        ...             self.store.update((row["id"], tuple(row.values())) for row in batch.data.to_pylist())
        >>> class DictOutput(PartitionedOutput):
        ...     store: object
        ...
        ...     def sink(self):
        ...         return DictSink(self.store.rows_by_id)
        >>> class Store:
        ...     def __init__(self):
        ...         self.rows_by_id = {}
        >>> class InMemory(ConnectorTarget):
        ...     def __init__(self):
        ...         self.store = Store()
        ...
        ...     def output(self):
        ...         return DictOutput(store=self.store)
        ...
        ...     def rows(self):
        ...         return list(self.store.rows_by_id.values())
        >>> report = connector_checks(InMemory, only=["write"])
        >>> report.guarantee
        'exactly once'
    """
    outcomes = []
    for check in _checks():
        if only and not any(part in check.name for part in only):
            continue
        if (found := _outcome(check, target())) is not None:
            outcomes.append(found)
    report = ConnectorReport(outcomes)
    if report.faults or (guarantee == "exactly once" and report.guarantee != guarantee):
        raise AssertionError(str(report))
    return report


class _SkippedError(Exception):
    """A check cannot be run; the text says why."""


def _outcome(check: _Check, place: ConnectorTarget) -> Outcome | None:
    """Run a check of a place. None: it is not for an output of its kind."""
    try:
        trial = Trial(place)
        if check.sink not in (None, trial.has_sink):
            return None
        check.run(trial)
    except _SkippedError as error:
        return Outcome(check.name, "", "none", str(error))
    except AssertionError as error:
        return Outcome(check.name, str(error), "none")
    except Exception as error:  # noqa: BLE001  a check that fails is a part of the report
        return Outcome(check.name, f"{type(error).__name__}: {error}", "none")
    finally:
        place.close()
    return trial.outcome(check.name)


def _checks() -> Iterator[_Check]:
    """All checks, in the order in which they run."""
    for partitions in (1, 2, 3, 5):
        yield _Check(f"{partitions} partitions", partial(Trial.plain, partitions=partitions))
    for point in CONTAINER_POINTS:
        for number in (0, 7):
            struck = partial(Trial.killed, point=point, number=number)
            yield _Check(f"container killed, {point}, time {number}", struck)
    for point in DRIVER_POINTS:
        for number in (0, 1, 2, 3) if point == "write: in" else (0, 2):  # of each partition's batch
            if number and point.startswith(("open", "mark", "close")):
                continue
            struck = partial(Trial.killed, point=point, number=number)
            yield _Check(f"driver killed, {point}, time {number}", struck, point in SINK_POINTS or None)
    yield _Check("driver killed, write: line by line", Trial.killed_by_line, sink=True)
    for point in ("write: before", "write: in"):
        struck = partial(Trial.overtaken, point=point)
        yield _Check(f"overtaken driver writes late, {point}", struck, sink=True)
    at_once = partial(Trial.overtaken, point="write: before", at_once=True)
    yield _Check("two drivers write at once", at_once, sink=True)
    late = partial(Trial.overtaken, point="commit: after")  # of a sink the writes are what counts
    yield _Check("overtaken driver publishes late", late, sink=False)
    yield _Check("nothing is there before its commit", Trial.hidden)
    gone = _times(60, lambda: SinkUnavailableError("gone"))
    yield _Check("gone for 60 s", partial(Trial.failing, error=gone, said="stuck"), sink=True)
    yield _Check("down and up again", Trial.down, sink=True)
    yield _Check("slow", partial(Trial.failing, error=_slow), sink=True)
    full = _times(10, lambda: OSError(28, "No space left on device"))
    yield _Check("full", partial(Trial.failing, error=full), sink=True)
    yield _Check("stopped and continued", Trial.continued)
    yield _Check("continued from an older copy of the checkpoint", Trial.older)
    yield _Check("rewound", Trial.rewound)
    yield _Check("other partitions while it runs", Trial.repartitioned)
    yield _Check("a row is refused", Trial.refused)
    yield _Check("a row is refused and left out", Trial.left_out)


def _times(count: int, error: Callable[[], Exception]) -> Callable[[], Exception | None]:
    """What gives so many errors, a new one each time, then none."""
    left = iter(range(count))
    return lambda: None if next(left, None) is None else error()


def _slow() -> None:
    """Let several windows wait, so that they are written together."""
    threading.Event().wait(0.05)


def rows_of_windows(windows: int = _WINDOWS) -> list[list[ConnectorRow]]:
    """The rows of each window."""
    texts = ["plain", "", None, 'quoted "\\', "tab\tand\nline", "Zürich 🌊"]
    return [
        [
            ConnectorRow(number, number % _KEYS, texts[number % len(texts)], number / 8 - 1.0)
            for number in range(window * _ROWS, (window + 1) * _ROWS)
        ]
        for window in range(windows)
    ]


class Trial:
    """One check of one place. `kind`: whether all rows were there once, or some of them again."""

    def __init__(self, place: ConnectorTarget) -> None:
        self.place = place
        self.kind, self.twice = "exact", "rows twice"
        self.windows = rows_of_windows()
        self.said: list[str] = []
        self._kind = type(place.output())
        self.has_sink = issubclass(self._kind, PartitionedOutput)

    # The application, and what it should have written -------------------------------------------------------

    def _application(self, partitions: int = 2, **attributes: Any) -> Application:
        app = Application(self.place.application)
        listed = [item for window in self.windows for item in (*window, END_WINDOW)]
        source = app.add_operator("source", ListInput(ConnectorRow, listed))
        output = app.add_operator("out", self.place.output(), partitions=partitions, **attributes)
        if isinstance(output, PartitionedOutput):
            output.drain_seconds = max(output.drain_seconds, _DRAIN_SECONDS)
        app.add_stream("rows", source.output, output.input)
        return app

    def _run(self, storage: DriverStorage, partitions: int = 2, **options: Any) -> LocalRun:
        attributes = options.pop("attributes", {})
        console = Console(file=StringIO())
        app = self._application(partitions, **attributes)
        run = run_local(app, checkpoint=storage, console=console, **options)
        self.said += [event.text for event in run.events if isinstance(event, StateWarning)]
        return run

    def run_to_end(self, strikes: Strikes, storage: DriverStorage, **options: Any) -> None:
        """Run until it has come to its end, with a new driver each time one is killed."""
        for _ in range(_MOST_STARTS):
            try:
                with strikes.in_place(self._kind):
                    self._run(storage, **options)
            except RidgelineError:
                if not strikes.killed:
                    raise
                strikes.killed = False
                continue
            return
        raise AssertionError(f"it has not come to its end in {_MOST_STARTS} starts")

    def expect(self, rows: Sequence[ConnectorRow] | None = None) -> None:
        """Compare what is there with what should be. Raises AssertionError."""
        written = [row for window in self.windows for row in window] if rows is None else list(rows)
        wanted = written
        if self.place.upserts:
            wanted = list({row.key: row for row in wanted}.values())
        expected, found = Counter(map(tuple, wanted)), Counter(map(tuple, self.place.rows()))
        if lost := expected - found:
            verb = "is" if lost.total() == 1 else "are"
            msg = f"{self._counted(lost)} {verb} missing, such as {next(iter(lost))}; found {found.total()}"
            raise AssertionError(msg)
        if more := found - expected:
            strange = [row for row in more if row not in expected]
            if replaced := [row for row in strange if row in set(map(tuple, written))]:
                msg = f"{len(replaced)} rows are there that later ones of their key replace, such as "
                msg += f"{replaced[0]}: the key that it writes by is not `key`, or rows came out of order"
                raise AssertionError(msg)
            if strange:
                msg = f"rows are there that were never written, such as {strange[0]}"
                raise AssertionError(msg)
            self.kind = "repeats"
            self.twice = f"{self._counted(more)} twice, such as {next(iter(more))}"

    def _counted(self, rows: Counter[tuple[Any, ...]]) -> str:
        """How many rows there are, and of which windows, in words."""
        count = "1 row" if rows.total() == 1 else f"{rows.total()} rows"
        numbers = sorted({row[0] // _ROWS for row in rows if 0 <= row[0] < _ROWS * len(self.windows)})
        if not numbers:
            return count
        listed = ", ".join(map(str, numbers[:_MOST_SAID]))
        more = f" and {len(numbers) - _MOST_SAID} more" if len(numbers) > _MOST_SAID else ""
        return f"{count} of window{'s' if len(numbers) > 1 else ''} {listed}{more}"

    def outcome(self, name: str) -> Outcome:
        """The outcome of a check that has not failed."""
        return Outcome(name, "", self.kind, twice=self.twice)

    # The checks ---------------------------------------------------------------------------------------------

    def plain(self, partitions: int) -> None:
        """Nothing fails."""
        self._run(MemoryStorage(), partitions)
        self.expect()

    def killed(self, point: str, number: int) -> None:
        """A container or the driver is killed at a point."""
        strikes = Strikes(point, number)
        self.run_to_end(strikes, MemoryStorage())
        if not strikes.struck and not point.startswith("mark"):
            raise AssertionError(f"point `{point}` was not reached {number + 1} times")
        self.expect()

    def killed_by_line(self) -> None:
        """A driver is killed before a line of its sink, the next one before a later line, and so on.

        So a sink is found that writes rows in one transaction and its mark in another.
        """
        storage, counting = MemoryStorage(), Strikes("write: after")
        counting.by_line = True
        self._start(counting, storage)
        count = counting.reached(LINES)
        for number in range(0, count, -(-count // _MOST_LINES) or 1):
            self._start(Strikes(LINES, number), storage)
        self.run_to_end(Strikes(), storage)
        self.expect()

    def _start(self, strikes: Strikes, storage: DriverStorage) -> None:
        """Run until the driver is killed, or to the end."""
        try:
            with strikes.in_place(self._kind):
                self._run(storage)
        except RidgelineError:
            if not strikes.killed:
                raise

    def overtaken(self, point: str, *, at_once: bool = False) -> None:
        """A driver hangs in a write, another one continues; then the first one writes."""
        reached, free = threading.Event(), threading.Event()

        def hang() -> None:
            reached.set()
            free.wait(_JOIN_SECONDS)

        storage, first = MemoryStorage(), Strikes(point, 1, hang)
        freeing = Strikes("commit: after", 2, free.set) if at_once else Strikes()
        if point == "write: in":  # it may hold a lock that the other one waits for
            freeing = Strikes("write: before", 0, free.set)
        threads = set(threading.enumerate())
        try:
            with first.in_place(self._kind):
                threading.Thread(target=self._run_aside, args=(storage,), daemon=True).start()
                if not reached.wait(_JOIN_SECONDS):
                    raise AssertionError(f"point `{point}` was not reached twice")  # noqa: TRY301
            self.run_to_end(freeing, storage)
        except BaseException:
            first.killed = True
            raise
        finally:  # before its place is removed
            free.set()
            for thread in set(threading.enumerate()) - threads:
                thread.join(_JOIN_SECONDS)
        self.expect()

    def _run_aside(self, storage: DriverStorage) -> None:
        """The run of a driver that is overtaken: that it ends so is right."""
        try:
            self._run(storage)
        except Exception:  # noqa: BLE001  what counts is at the other side
            return

    def hidden(self) -> None:
        """At no commit is a row there of its window, or of a later one, nor once such a one is prepared."""
        seen: list[tuple[int, int]] = []

        def look(window: int) -> None:
            found = [row[0] for row in map(tuple, self.place.rows())]
            seen.extend((window, one) for one in found if one >= window * _ROWS)

        strikes = Strikes()
        self._run_aside_of_tables()
        strikes.commits = look
        strikes.prepared = lambda windows: look(min(windows))
        strikes.holds, strikes.settled = True, len(self.windows)
        self.run_to_end(strikes, MemoryStorage())
        if seen:
            raise AssertionError(f"before the commit of window {seen[0][0]} row {seen[0][1]} was there")
        self.expect()

    def _run_aside_of_tables(self) -> None:
        """Let the output make its table, where it makes one: with an application without rows."""
        windows, self.windows = self.windows, [[]]
        self._run(MemoryStorage())
        self.windows = windows

    def failing(self, error: Callable[[], Exception | None], said: str = "") -> None:
        """Calls of the sink fail as a function says. `said`: what the user is told meanwhile."""
        self.run_to_end(Strikes(sink_error=error), MemoryStorage())
        self.expect()
        if said and not any(said in text for text in self.said):
            raise AssertionError(f"it has not said that it is {said}; it said {self.said}")

    def down(self) -> None:
        """The other side itself is made unavailable while the application runs, and comes back."""
        if not self.place.down():
            raise _SkippedError(self.place.why_not_down)
        calls = count(1)

        def repaired() -> None:
            if next(calls) == _FAILED_CALLS:
                self.place.up()

        self.failing(repaired)

    def continued(self) -> None:
        """It is stopped in order after three windows and after five, and continued."""
        storage = MemoryStorage()
        for windows in (3, 2, None):
            self._run(storage, windows=windows)
        self.expect()

    def older(self) -> None:
        """It is continued from a copy of its checkpoint that is older: refused, or without effect."""
        storage = MemoryStorage()
        self._run(storage, windows=3)
        older = MemoryStorage()
        older._files = deepcopy(storage._files)  # noqa: SLF001  a copy, as of a folder
        self._run(storage)
        try:
            self._run(older)
        except RidgelineError as error:
            if "newer than the checkpoint" not in str(error):
                raise
        self.expect()

    def rewound(self) -> None:
        """It is rewound to window 3: refused where rows stay, else they are written again."""
        storage = MemoryStorage()
        self._run(storage)
        try:
            self._run(storage, from_window=3)
        except RidgelineError as error:
            if "cannot take back" not in str(error):
                raise
        self.expect()

    def repartitioned(self) -> None:
        """It gets other numbers of partitions while it runs."""
        changes: dict[int, list[Edit]] = {2: [Repartition("out", 3)], 5: [Repartition("out", 1)]}
        self._run(MemoryStorage(), changes=changes)
        self.expect()

    def refused(self) -> None:
        """The other side refuses a row: the run ends, and the error names the output."""
        if (poison := self.place.poison()) is None:
            raise _SkippedError(_NO_POISON)
        self.windows[3].insert(2, poison)
        try:
            self._run(MemoryStorage())
        except RidgelineError as error:
            if "out" not in str(error):
                raise AssertionError(f"the error does not name the output: {error}") from error
        else:
            raise AssertionError("it was not refused")
        del self.windows[3][2]
        rows, part = self._arrived()
        self.expect([*rows, *part])
        if part:  # without transactions
            self.kind = "repeats"

    def _arrived(self) -> tuple[list[ConnectorRow], list[ConnectorRow]]:
        """The rows of the first windows, as many as are there, and those of the window with the poison."""
        found = {row[0] for row in map(tuple, self.place.rows())}
        last = max(found, default=-1) // _ROWS
        if last > 3:  # noqa: PLR2004  the window with the poison
            raise AssertionError(f"rows of window {last} are there, window 3 could not be written")
        rows = [row for window in self.windows[: min(last + 1, 3)] for row in window]
        return rows, [row for row in self.windows[3] if row.id in found]

    def left_out(self) -> None:
        """The same with `on_error=SKIP`: all others arrive."""
        if (poison := self.place.poison()) is None:
            raise _SkippedError(_NO_POISON)
        self.windows[3].insert(2, poison)
        self._run(MemoryStorage(), attributes={"on_error": OnError.SKIP})
        del self.windows[3][2]
        self.expect()
