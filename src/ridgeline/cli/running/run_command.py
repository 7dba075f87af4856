"""`ridgeline run`: the engine's events on one side, the terminal on the other."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from types import FrameType
from typing import TYPE_CHECKING, Any, Self, TypeVar

from rich.text import Text

from ridgeline.api.clock import SystemClock
from ridgeline.api.errors import shorten
from ridgeline.api.publisher import Publisher
from ridgeline.api.support.masking import printable
from ridgeline.cli.errors import KILLED_BY, make_console
from ridgeline.cli.output import Output, OutputGoneError
from ridgeline.cli.running.summary import print_continuation, print_summary, read_report
from ridgeline.cli.running.view import LiveView, PlainView, View, service_line
from ridgeline.cli.settings import RunSettings
from ridgeline.measure.changes import decision_row, decision_text, row_of, text_of
from ridgeline.measure.events import (
    ApplicationChanged,
    PolicyDecided,
    RunEvent,
    WindowCommitted,
    WindowRetried,
)
from ridgeline.measure.wording.units import count, plural
from ridgeline.plan.execution import Plan
from ridgeline.service.notifying import Notifier, manager
from ridgeline.service.probes import why_unready
from ridgeline.testing.sinks import Collector, ResultPublisher, result_of

if TYPE_CHECKING:
    from ridgeline.engine.driver.checkpoint.planning import Planner
    from ridgeline.engine.driver.run.options import Outcome
    from ridgeline.engine.driver.run.run import ApplicationRun
    from ridgeline.observe.watch import Watch
    from ridgeline.service.http.server import WebServer
    from ridgeline.service.origin import Origin

_WIDE = 160
_SHOWN_TUPLES = 10
"""First and last tuples of a sink that are printed."""
_MOST_SINKS = 20


@dataclass(eq=False)
class RunCommand:
    """One run with its view. `run_regions`: runs a plan of several regions, as `run_measured` one of one."""

    planner: Planner
    plan: Plan
    settings: RunSettings
    run_regions: Callable[..., Outcome]
    origin: Origin
    _watch: Watch | None = None
    _run: ApplicationRun | None = None
    _checkpoint: str = ""
    _unread: bool = False
    _over: bool = False
    _notifier: Notifier | None = None

    def __post_init__(self) -> None:
        self._clock = SystemClock()
        self._console = Output(self._output_gone, highlight=False, emoji=False)
        if not self._console.is_terminal:
            self._console.width = _WIDE  # nothing to wrap for
        self._view = self._make_view()
        self._stopper = Stopper(self._view.stopping, self._killed)

    def run(self) -> None:
        """Run to the end, then print the summary.

        Raises what `run_measured` raises; OutputGoneError if not all of it could be printed.
        """
        settings, managed = self.settings, manager()
        self._notifier = None if managed is None else Notifier(managed, self._clock)
        for name in settings.exposed():
            what = f"all users of this host can read `{name}` in the list of processes"
            make_console().print(f"{what}; name its place instead, `env:NAME` or `file:/PATH`")
        with self._stopper, self._notifier or contextlib.nullcontext():
            self._view.starting()
            try:
                outcome = in_thread(self._launch)
            finally:
                self._view.close()
        self._over = True
        if not settings.view.quiet:
            metrics = None
            if self._watch is not None:
                metrics = self._watch.summary(), read_report(self._watch, self._clock.wall())
            found = () if self._run is None else results(self._run.publishers)
            print_summary(self._console, outcome, metrics, settings, self._stopper.stopped_by, found)
        if self._unread:
            if not outcome.ended:
                self.print_how_to_continue()
            raise OutputGoneError

    def asked_to_end(self) -> bool:
        """Whether a user has asked that it ends."""
        return self._stopper.event.is_set() or (self._run is not None and self._run.stopping)

    def print_how_to_continue(self) -> None:
        """To standard error: what is committed, and the command that continues from it."""
        if self._checkpoint:
            console = make_console()
            console.print()
            windows = self._watch.run()["windows"] if self._watch is not None else 0
            console.print(
                f"{plural(windows, 'window')} of this run committed"
                if windows
                else "no window of this run is committed"
            )
            if windows or self.settings.options.checkpoint is not None:
                print_continuation(console, self.settings, self._checkpoint)

    def _launch(self) -> Outcome:
        """Run the plan with everything that the settings ask for. Blocks until it has ended."""
        from ridgeline.service.measured import run_measured

        launch = (
            self.run_regions
            if self.plan.logical.regions
            else partial(run_measured, self.plan, planner=self.planner)
        )
        return launch(
            options=self.settings.launched(),
            service=self.settings.service,
            stop=self._stopper.event,
            console=self._console,
            clock=self._clock,
            started=self._started,
            origin=self.origin,
        )

    def _make_view(self) -> View:
        if self.settings.view.quiet:
            return View()
        application = self.plan.logical.application
        if self._console.is_terminal and self._console.file.isatty() and not self._console.is_dumb_terminal:
            return LiveView(self._console, self._clock, application, self.settings)
        return PlainView(self._console, self._clock, application, self.settings)

    def _started(self, run: ApplicationRun, watch: Watch, web: WebServer | None) -> None:
        """Show with which window and checkpoint the run begins; `run_measured` calls it."""
        self._checkpoint = run.checkpoint.storage.uri
        self._watch, self._run = watch, run
        if self._notifier is not None:
            self._notifier.started(watch, lambda: why_unready(watch, run.plan, run))
        watch.subscribe(self._show)  # by itself: a view that fails must not stop the counting
        # A code is for who sits here, not for those who read a log.
        service = "" if web is None else service_line(web.page() if self._console.is_terminal else web.url)
        self._view.started(self._checkpoint, run.next_window, service, watch)
        if self.planner.resume_note and not self.settings.view.quiet:
            self._console.print(Text(self.planner.resume_note), soft_wrap=True)
        self._print_where_output_goes()

    def _print_where_output_goes(self) -> None:
        from ridgeline.engine.spark.cluster import prints_place
        from ridgeline.engine.spark.submitted import active_context

        context = active_context()
        place = "" if context is None else prints_place(str(context.master), str(context.applicationId))
        if place and not self.settings.view.quiet:
            self._console.print(
                f"what operators print is in the logs of the executors: {place}", soft_wrap=True, markup=False
            )

    def _show(self, event: RunEvent) -> None:
        """Subscribed to the watch: show what has happened."""
        match event:
            case WindowCommitted():
                self._view.committed()
            case WindowRetried(final=False):
                self._view.retried(event.window_id, event.attempt, event.reason)
            case ApplicationChanged():
                self._view.changed(printable(text_of(row_of(event))))
            case PolicyDecided(state="FAILED"):
                self._view.changed(printable(f"{decision_text(decision_row(event))}\n{event.found.rstrip()}"))
            case _:
                pass

    def _output_gone(self) -> None:
        """The reader of the run's output is gone: end as on Ctrl-C, so that nothing is lost."""
        self._unread = True
        if not self._over:
            self._stopper.stop("the end of its output")
            make_console().print("nobody reads the output any more; stopping after windows under way")

    def _killed(self) -> None:
        """The second Ctrl-C."""
        self._view.close()
        console = make_console()
        console.print("killed; the windows under way are not committed and will be replayed")
        if self._checkpoint:
            print_continuation(console, self.settings, self._checkpoint)


def results(publishers: Mapping[str, Publisher]) -> Iterator[Text]:
    """The results of counting and hashing sinks, and the first and last tuples of those that collect."""
    sinks = [name for name, one in publishers.items() if isinstance(one, (Collector, ResultPublisher))]
    for name in sinks[:_MOST_SINKS]:
        yield Text()
        publisher = publishers[name]
        if isinstance(publisher, Collector):
            yield from _collected(name, publisher)
        else:
            yield Text(printable(f"{name}: {shorten(result_of(publishers, name))}"))
    if len(sinks) > _MOST_SINKS:
        yield Text(f"and {plural(len(sinks) - _MOST_SINKS, 'sink')} more")


def _collected(name: str, collector: Collector) -> Iterator[Text]:
    found, first, last = collector.ends(_SHOWN_TUPLES)
    left_out = found - len(first) - len(last)
    yield Text(printable(f"{name} collected {plural(found, 'tuple')}{':' if found else ''}"))
    for row in first:
        yield Text(printable(f"  {shorten(row)}"))
    if left_out:
        yield Text(f"  ... {count(left_out)} more")
    for row in last:
        yield Text(printable(f"  {shorten(row)}"))


Result = TypeVar("Result")
_LOOK_SECONDS = 0.2
_NAMES = {signal.SIGINT: "Ctrl-C", signal.SIGTERM: "SIGTERM"}


class Stopper:
    """The first signal sets `stopped_by` and `event` and calls `announce`; the second calls `kill` and exits.

    `stop` does as the first signal without being one.

    For `with` in the main thread. The run itself belongs into another thread (see `in_thread`): then a signal
    never meets a lock that the code below it holds. Spark takes over SIGINT in the main thread only, so it
    does not interfere.
    """

    def __init__(self, announce: Callable[[], None], kill: Callable[[], None]) -> None:
        self.event = threading.Event()
        self.stopped_by = ""
        self._announce = announce
        self._kill = kill
        self._signalled = False
        self._before: dict[signal.Signals, Any] = {}

    def __enter__(self) -> Self:
        if threading.current_thread() is threading.main_thread():
            for number in _NAMES:
                self._before[number] = signal.signal(number, self._handle)
            if signal.getsignal(signal.SIGHUP) is signal.SIG_DFL and not has_terminal():
                self._before[signal.SIGHUP] = signal.signal(signal.SIGHUP, lambda *_: None)
        return self

    def __exit__(self, *_error: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def stop(self, why: str) -> None:
        """End the run after its window. From any thread; a signal that comes later is still the first one."""
        self.stopped_by = self.stopped_by or why
        self.event.set()

    def _handle(self, number: int, _frame: FrameType | None) -> None:
        """Take a signal: the first asks for the end, the second ends the process at once."""
        if not self._signalled:
            self._signalled = True
            self.stopped_by = self.stopped_by or _NAMES[signal.Signals(number)]
            try:
                self._announce()
            finally:
                self.event.set()  # last, so that a thread that waits for it finds it announced
            return
        with contextlib.suppress(Exception):
            self._kill()
        os._exit(KILLED_BY + number)


def has_terminal() -> bool:
    """Whether the process belongs to a terminal, also one that it does not read."""
    try:
        os.close(os.open("/dev/tty", os.O_RDONLY | os.O_NOCTTY))
    except OSError:
        return False
    return True


def in_thread(function: Callable[[], Result]) -> Result:
    """Call a function in a thread of its own and wait for it, signals being handled meanwhile.

    Raises what it raises.
    """
    results: list[Result] = []
    errors: list[BaseException] = []

    def call() -> None:
        try:
            results.append(function())
        except BaseException as error:  # noqa: BLE001  raised again below
            errors.append(error)

    thread = threading.Thread(target=call, name="ridgeline-windows", daemon=True)
    thread.start()
    # Not without a timeout: a signal that comes just before such a wait would be handled after it.
    while thread.is_alive():
        thread.join(_LOOK_SECONDS)
    if errors:
        raise errors[0]
    return results[0]
