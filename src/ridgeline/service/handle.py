"""A running application in the hands of a script or notebook: what `Application.start` returns."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

import pyarrow as pa
from rich.console import Console

from ridgeline.api.clock import SystemClock
from ridgeline.api.columns.arrow_stream import from_ipc
from ridgeline.api.errors import ChangeError, OperatorError
from ridgeline.api.support.option import taken
from ridgeline.api.support.secrets.providers import provided_settings
from ridgeline.api.support.tracebacks import users_line
from ridgeline.engine.container.samples import ports_of_stream
from ridgeline.engine.driver.checkpoint.planning import Planner
from ridgeline.engine.driver.checkpoint.resuming import ResumeOptions, refuse_others
from ridgeline.engine.driver.run.options import Options, Outcome
from ridgeline.engine.spark.submitted import chosen_master
from ridgeline.observe.metric_tables import MetricTables
from ridgeline.plan.execution import Plan
from ridgeline.plan.planner import plan_application
from ridgeline.regions.planning import WHOLE, Scope, resume_of
from ridgeline.service import recorded
from ridgeline.service.advising import advice_answer, keys_answer
from ridgeline.service.change_client import ChangeClient
from ridgeline.service.measured import run_measured
from ridgeline.service.notebook import Showing
from ridgeline.service.options import ServiceOptions
from ridgeline.service.origin import origin_of
from ridgeline.service.regions.running import RegionsRun
from ridgeline.testing.sinks import collected, result_of

if TYPE_CHECKING:
    from ridgeline.api.application import Application
    from ridgeline.measure.answers.changes import AdviceAnswer
    from ridgeline.measure.answers.operators import KeysAnswer
    from ridgeline.observe.watch import Watch
    from ridgeline.regions.joined_run import AnyRun
    from ridgeline.service.http.server import WebServer

_LONGEST_TAIL = 10_000
_ENDING_SECONDS = 30.0
"""Seconds that the end of a run may take after its last window."""
_CLOCK = SystemClock()


def start(
    app: Application,
    *,
    conf: Mapping[str, str] | None,
    properties: Mapping[str, object] | None,
    attributes: Mapping[str, object] | None,
    quiet: bool,
    context: Any,
    resume: ResumeOptions,
    **options: Any,
) -> Handle:
    """Implement `Application.start`, which documents the arguments and has their defaults.

    `options`: those of `Options` and `ServiceOptions`.
    """
    given = dict(properties or {})
    refuse_others("start", resume)

    def planner_of(planned: Application, scope: Scope = WHOLE) -> Planner:
        own = {name: value for name, value in given.items() if name in scope}
        return Planner(
            lambda values, kept, edits: plan_application(
                planned, {**values, **own}, attributes or {}, edits=edits, kept=kept
            ),
            own,
            resume=resume_of(resume, scope),
        )

    planner = planner_of(app)
    origin = origin_of(app, planner, given, attributes or {})
    run = Options(**taken(Options, {**options, "conf": provided_settings(dict(conf or {}))}))
    plan = planner.first(run.checkpoint, app.name)
    run = replace(run, master=chosen_master(run.master, run.conf))
    service = ServiceOptions(**taken(ServiceOptions, options))

    def launch(**given: Any) -> Outcome:
        if plan.logical.regions:
            return RegionsRun(app, plan, planner_of, run, service, origin=origin, **given).run()
        return run_measured(plan, run, service, planner=planner, origin=origin, **given)

    handle = Handle(plan, launch, Console(quiet=quiet), context, planner)
    handle.wait_until_started()
    return handle


class Handle(Showing, ChangeClient, MetricTables):
    """An application that runs in a thread of this process, or has run.

    `latency()`, `critical_path()`, `record_age()`, `progress()` and `windows()` answer with `pyarrow.Table`s,
    also after the end. `set_property`, `repartition`, `plan_change` and others change what runs. As a context
    manager it stops the application at the end of the block.

    A notebook shows it: the sentence and the plan. `plot` has pictures. `await` and `async for` are for
    asyncio.
    """

    def __init__(
        self,
        plan: Plan,
        launch: Callable[..., Outcome],
        console: Console,
        context: Any = None,
        planner: Planner | None = None,
    ) -> None:
        """`launch` is called as `run_measured`, with what it has no value for yet."""
        self.name = plan.logical.application
        self._plan = plan
        self._console = console
        self._planner = planner
        self._stop = threading.Event()
        self._settled = threading.Event()
        self._run: AnyRun | None = None
        self._watch: Watch | None = None
        self._web: WebServer | None = None
        self._outcome: Outcome | None = None
        self._error: BaseException | None = None

        def run() -> None:
            try:
                self._outcome = launch(
                    stop=self._stop, console=console, context=context, started=self._started
                )
            except BaseException as error:  # noqa: BLE001  raised in the thread that waits
                self._error = error
                if isinstance(error, OperatorError) and (line := users_line(error.failure.traceback)):
                    error.args = (
                        f"{error.failure}\n{line}",
                    )  # what a notebook shows; all of it is in `failure.traceback`
            finally:
                self._settled.set()

        self._thread = threading.Thread(target=run, name="ridgeline-windows", daemon=True)
        self._thread.start()

    def _started(self, run: AnyRun, watch: Watch, web: WebServer | None) -> None:
        self._plan, self._run, self._watch, self._web = run.plan, run, watch, web
        if self._planner is not None and self._planner.resume_note:
            self._console.print(self._planner.resume_note, markup=False, highlight=False, soft_wrap=True)
        self._settled.set()

    def wait_until_started(self) -> None:
        """Block until the first window is about to run. Raises what kept the application from starting."""
        try:
            self._settled.wait()
        except BaseException:  # interrupted: it must not go on by itself
            self._stop.set()
            raise
        if self._watch is None:
            self.wait()

    @property
    def watch(self) -> Watch:
        """The figures as plain data."""
        if self._watch is None:
            raise RuntimeError(f"`{self.name}` has not started")
        return self._watch

    @property
    def url(self) -> str | None:
        """Where its web service answers; None: it has none."""
        return None if self._web is None else self._web.url

    def page(self) -> str:
        """An address that opens the page in a browser, with the right to change something.

        It does so once, within an hour; each call makes another one. Raises RuntimeError without a web
        service.
        """
        if self._web is None:
            raise RuntimeError(f"`{self.name}` has no web service; start it with a `port`")
        return self._web.page()

    @property
    def checkpoint(self) -> str:
        """The checkpoint folder from which a run can continue."""
        return str(self._run.checkpoint.storage.uri) if self._run is not None else ""

    @property
    def state(self) -> str:
        """`RUNNING`, `FINISHED` (all inputs have), `STOPPED` or `FAILED`."""
        return str(self.watch.info()["state"])

    def collected(self, operator: str, window: int | None = None) -> list[Any]:
        """The tuples that a `CollectorSink` has got in this run so far: of one window, or of all.

        They are in the memory of this process: meant for what is looked at, not for what is kept.
        Raises KeyError naming the collectors that there are.
        """
        publishers = self._run.publishers if self._run is not None else {}
        return collected(publishers, operator, window)

    def result(self, operator: str) -> Any:
        """The result of a `CountSink`, `HashSink` or `FirstLastSink` in this run so far.

        Raises KeyError naming those that there are.
        """
        return result_of(self._run.publishers if self._run is not None else {}, operator)

    def tail(self, name: str, n: int = 20, timeout: float = 10.0) -> list[Any]:
        """The last tuples of a stream, or of an output port that has one.

        They are a sample of the next committed window that has any.

        The containers send them with that window's report; other windows pay nothing.

        Args:
            name: A stream's name, or `"operator.port"`.
            n: How many tuples at most, over all partitions; up to 10,000.
            timeout: Seconds to wait for such a window.

        Returns:
            Tuples of the stream's type, the newest last; none if no window had any in time, or the
            application has ended meanwhile.

        Raises:
            KeyError: If there is no such stream.
            RuntimeError: If the application runs no more.
        """
        ports, schema = ports_of_stream(self._plan if self._run is None else self._run.plan, name)
        if not 1 <= n <= _LONGEST_TAIL:
            raise ValueError(f"a tail has 1 to {_LONGEST_TAIL:,} tuples; got {n}")
        if self._run is None or not self._thread.is_alive():
            raise RuntimeError(
                f"`{self.name}` runs no more; ask while it runs, or let a `CollectorSink` keep the tuples"
            )
        asked = self._run.samples.request(ports, n)
        deadline = _CLOCK.monotonic() + timeout
        while not asked.answered.wait(0.05) and self._thread.is_alive() and _CLOCK.monotonic() < deadline:
            pass
        self._run.samples.forget(asked)
        rows = [row for found in asked.found for batch in from_ipc(found) for row in schema.decode(batch)]
        return rows[-n:]

    def query(
        self,
        sql: str,
        *,
        every: float | str = 0.0,
        duration: float | str | None = None,
        times: int = 0,
        rows: int = 10_000,
        seconds: float = 1.0,
        memory_mb: int = 256,
        timeout: float = 60.0,
    ) -> Iterator[pa.Table]:
        """Run SQL over streams of this application: a table for each period, as it comes.

        The query is inserted as an operator, and removed once the iterator ends or is closed, or if no
        table is taken for 30 seconds. The metadata of a table's schema say which windows it is of, and its
        cost.

        Args:
            sql: A SELECT, whose tables are the names of streams, or `"operator.port"` in double quotes.
            every: How long a period is, in windows of the application: as many as make this duration.
            duration: The iterator ends after so long; None: it does not by itself.
            times: It ends after so many tables; 0: it does not by itself.
            rows: How many rows a table may have; the rest is left out.
            seconds: How long the SQL of a period may take.
            memory_mb: How much memory DuckDB may take, and the tuples of a period.
            timeout: Seconds to wait until the query is inserted.

        Raises:
            QueryError: If the SQL is wrong; nothing is inserted. While iterating: if the query has failed.
            ChangeError: If the application runs no more, or refuses the change.
            TimeoutError: If no window began in time.
        """
        from ridgeline.service import queries

        found = queries.queries_of(self._running())
        request = queries.QueryRequest(sql, queries.seconds_of(every), times, rows, seconds, memory_mb)
        lasting = None if duration is None else queries.seconds_of(duration)
        name = found.add(request, "Python", timeout)
        return queries.tables_of(found, name, lasting, times, self._alive)

    def advice(self) -> AdviceAnswer:
        """Advice to lower latency or raise throughput: by how much, and by which command.

        Nothing is changed. Figures are kept from the first question on, so ask again after some windows.
        """
        return advice_answer(self.watch, self.name, self._run if self._alive() else None)

    def keys(self, operator: str | None = None) -> KeysAnswer:
        """How the tuples of all operators that are divided by key, or of one, are spread over keys.

        Keys are counted from the first question on, for a minute after the last one, so ask again after some
        windows. Raises KeyError for an unknown name.
        """
        return keys_answer(self._running(), operator)

    def start_recording(
        self,
        operator: str,
        port: str | None = None,
        *,
        windows: int = 1_000,
        max_mb: float = 64,
        timeout: float = 30.0,
    ) -> str:
        """Record the tuples of an operator from the next window on; returns the recording's id.

        Only committed windows are in it, in files of Parquet in the checkpoint, see `recordings`.

        Args:
            operator: Its name.
            port: One of its ports; None: all that are connected.
            windows: It ends by itself after so many windows.
            max_mb: It ends before a window with which it would exceed so many megabytes.
            timeout: Seconds to wait until its first window is committed.

        Raises:
            ChangeError: If it cannot be recorded, or the application runs no more.
            TimeoutError: If no window was committed in time; it is recorded from the next one on.
        """
        limits = {"windows": windows, "limit_bytes": max(1, int(max_mb * 2**20))}
        what = recorded.begins(self._running(), (operator, port), limits, "Python")
        self._ask(what, timeout)
        return what.result

    def stop_recording(self, recording: str, timeout: float = 30.0) -> None:
        """End a recording before the next window. Raises as `start_recording`."""
        self._ask(recorded.ends(self._running(), recording), timeout)

    def recordings(self) -> list[dict[str, Any]]:
        """All recordings in the checkpoint, each as REST shows it; `folder` has a folder for each port.

        `pandas.read_parquet(folder)` reads it. `_window`, `_partition` and `_position` say where each tuple
        was.
        """
        return recorded.rows(self._run) if self._run is not None else []

    def _running(self) -> AnyRun:
        if self._run is None or not self._alive():
            raise ChangeError(
                f"`{self.name}` runs no more; start it from its checkpoint, which keeps the changes"
            )
        return self._run

    @property
    def is_running(self) -> bool:
        """True until the run has ended."""
        return self._alive()

    def _alive(self) -> bool:
        return self._thread.is_alive()

    def _present_plan(self) -> Plan:
        return self._plan if self._run is None else self._run.plan

    def _failure(self) -> BaseException | None:
        if self._run is not None and self._run.changes.closed:
            self._thread.join(_ENDING_SECONDS)
        return self._error

    def _rows(self) -> Sequence[dict[str, Any]]:
        return self._run.changes.rows() if self._run is not None else []

    def wait(self, timeout: float | None = None) -> Outcome:
        """Block until the application has ended.

        Args:
            timeout: Seconds to wait at most; None: as long as it takes.

        Returns:
            How it ended.

        Raises:
            RidgelineError: If the application failed.
            TimeoutError: If it still runs; it continues to run.
        """
        self._thread.join(timeout)
        if self._thread.is_alive():
            raise TimeoutError(f"`{self.name}` still runs after {timeout:g} s; wait longer, or `stop()` it")
        if self._error is not None:
            raise self._error
        if self._outcome is None:
            raise RuntimeError(f"`{self.name}` ended without an outcome")
        return self._outcome

    def stop(self, timeout: float | None = None) -> Outcome:
        """End the application after the window that runs, and wait for it as `wait` does.

        May be called again.
        """
        self._stop.set()
        return self.wait(timeout)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with (
            contextlib.suppress(Exception) if error is not None else contextlib.nullcontext()
        ):  # the block's error comes first
            self.stop()

    def __repr__(self) -> str:
        info = self.watch.info()
        committed = info["stats"]["recoveryWindowId"] if "id" in info else None
        window = "no window committed" if committed is None else f"window {committed} committed"
        return f"<{self.name}: {self.state}, {window}, {self.url or 'no web service'}>"
