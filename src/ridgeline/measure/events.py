"""The typed events that every figure is a fold of.

All `at` are STRAM's wall clock, seconds since 1970-01-01 UTC. Times that a container read are on its own
host's clock until a fold corrects them (`ridgeline.measure.clocks`); each field says which it is.
"""

from __future__ import annotations

import typing
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from operator import attrgetter
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from ridgeline.api.support.pickling import pickled_by_values
from ridgeline.measure.topology import Topology


class RunEvent:
    """An event of a run. `at`: when, by STRAM's wall clock, seconds since 1970."""

    __slots__ = ()
    at: float
    kinds: ClassVar[dict[str, Any]] = {}
    """All events by name."""

    def __init_subclass__(cls) -> None:
        # A dataclass with slots is made twice: the second one counts.
        RunEvent.kinds[cls.__name__] = cls


Counts = Mapping[str, int]
HostTime = typing.Annotated[float, "host's clock"]
"""Seconds since 1970 by the clock of the host that read them.

`ridgeline.measure.latency.window.Windows` has them on STRAM's clock.
"""
Port = tuple[int, typing.Literal["input", "output"], str]
"""An operator, which way, and the name of the port."""


@dataclass(frozen=True, slots=True)
class ApplicationPlanned(RunEvent):
    """A run begins, or its plan has changed: the topology that later events refer to.

    `attributes` are the application's.
    """

    at: float
    application: str
    application_id: str
    plan_version: int
    window_seconds: float
    topology: Topology
    attributes: Mapping[str, Any] = field(default_factory=dict)
    info: Mapping[str, Any] = field(default_factory=dict)
    """Facts of the run: user, master, checkpoint, versions."""
    logical: Mapping[str, Any] = field(default_factory=dict)
    """The logical plan as `/logicalPlan` answers it, for event logs; empty: not kept."""


@dataclass(frozen=True, slots=True)
class WindowPlanned(RunEvent):
    """The window's trigger has fired.

    `due`: when it should have, by the application's schedule (wall clock of STRAM).
    """

    at: float
    window_id: int
    plan_version: int
    due: float


@dataclass(frozen=True, slots=True)
class WindowStarted(RunEvent):
    """An attempt is given to the containers. Attempts count from 0."""

    at: float
    window_id: int
    attempt: int


@dataclass(frozen=True, slots=True)
class WindowRetried(RunEvent):
    """An attempt did not count; `attempt` is the number of the next one.

    `final`: no failure, the last window is run again to be closed.
    """

    at: float
    window_id: int
    attempt: int
    reason: str
    final: bool = False


@pickled_by_values
@dataclass(slots=True)
class ContainerWindow:
    """What a container reports of itself as a whole; times on the clock of its host.

    The readings, in this order:
    - `task_began`: Spark's task entered Python
    - `began`: this container's turn in the task
    - `restored`: the state has the requested version
    - `ran`: its operators are done
    - `written`: the state file is written
    - `sent`: its messages were handed to Spark (the report's last clock reading)

    `received`: STRAM's clock when the report arrived.

    `ready`: when END_WINDOW of all its producers had come. From then to `began` it waited for its slot, which
    ran earlier windows or other containers. 0: it is not said, see `came`.

    `busy`: the last stretches before `ready` in which the slot ran something, and read no connection. Pairs
    of begin and end, in seconds before `ready`, in order of time.
    """

    at: float
    window_id: int
    attempt: int
    container: int
    host: str
    pid: int
    task: str
    """Containers with the same `task` ran one after the other: in one slot, a Spark task."""
    task_began: HostTime
    began: HostTime
    restored: HostTime = 0.0
    ran: HostTime = 0.0
    written: HostTime = 0.0
    received: float = 0.0
    bytes_out: int = 0
    sent: HostTime = 0.0
    ready: HostTime = 0.0
    busy: tuple[float, ...] = ()

    @property
    def ended(self) -> float:
        """When its messages had been handed to Spark; without `sent`, when its state file was written."""
        return max(self.written, self.sent)


@pickled_by_values
@dataclass(frozen=True, slots=True)
class AgeSample:
    """The ages of the records of one operator in one window, at one place.

    `place`: `source`, `state`, `emit`, or `commit`.

    All ages are in seconds. At `commit` they are as of `as_of`, by the host's clock (0: the operator's
    end-window timestamp). The fold adds the time from there to the commit. `oldest_maximum`: the greatest age
    of the oldest record that went into a result. `buckets`: (bucket, count) pairs of a
    `ridgeline.measure.age.histogram.Histogram` with `TRANSPORT_BITS`. They hold the ages that are not
    negative, less `base`, the least of them. `ahead`: those of the negative ages, less `minimum`.
    """

    place: str
    count: int
    negative: int
    minimum: float
    maximum: float
    total: float
    oldest_maximum: float
    buckets: tuple[tuple[int, int], ...] = ()
    as_of: float = 0.0
    base: float = 0.0
    ahead: tuple[tuple[int, int], ...] = ()


@pickled_by_values
@dataclass(frozen=True, slots=True)
class WatermarkReading:
    """The watermark of one operator after a window, in microseconds since 1970.

    - `entered`: as the operator sees it, `OperatorContext.watermark`
    - `left`: as it passes it on; it is older by the time for which results may be held back
    - `idle`: it holds no operator up, since all its inputs, or itself, have had no record for long
    - `ahead`: records of an input in the window that were too far ahead of the clock to count

    Before any record it is `EARLIEST`, once all inputs have finished `LATEST`, of `ridgeline.api.times`.
    """

    entered: int
    left: int
    idle: bool = False
    ahead: int = 0


@pickled_by_values
@dataclass(slots=True)
class OperatorWindow:
    """What a container reports of one of its operators. A new number here is a column of `WindowReported`.

    `began`, `ended` (the end-window timestamp: `end_window()` has returned and the output is routed): clock
    of its host. The times within its container:
    - `wait_seconds`: from the restored state to its turn (its siblings ran)
    - `compute_seconds`: in its own callbacks
    - `transfer_seconds`: the rest between `began` and `ended` (decode, encode, route)
    - `state_seconds`: the part of the transfer spent on changes of its state

    `state_written`: when its container had written what this operator's state has changed, 0 if nothing. That
    took `write_seconds` for all its operators together, after the last of them had ended.

    Of `compute_seconds`, `end_seconds` were spent in `end_window`. `watermark`: None if no input upstream
    declares a lateness. `late`: records that came too late. `held_bytes`: size of the last windows that a
    slider keeps. `cpu_seconds`: processor time of the
    operator's thread in its callbacks. The rest of `compute_seconds` it slept, or others had the processor.
    None: not known.
    """

    at: float
    window_id: int
    attempt: int
    operator: int
    container: int = -1
    host: str = ""
    began: HostTime = 0.0
    ended: HostTime = 0.0
    compute_seconds: float = 0.0
    wait_seconds: float = 0.0
    transfer_seconds: float = 0.0
    tuples_in: Counts = field(default_factory=dict)
    tuples_out: Counts = field(default_factory=dict)
    errors: int = 0
    state_bytes: int = 0
    finished: bool = False
    dropped: str = ""
    error_tuples: tuple[str, ...] = ()
    ages: tuple[AgeSample, ...] = ()
    state_seconds: float = 0.0
    end_seconds: float = 0.0
    held_bytes: int = 0
    watermark: WatermarkReading | None = None
    late: int = 0
    cpu_seconds: float | None = None
    state_written: HostTime = 0.0
    write_seconds: float = 0.0


_NUMBERS: Mapping[Any, type] = {int: np.int64, float: np.float64, float | None: np.float64, bool: np.bool_}
_OF_WINDOW = {"at", "window_id", "attempt"}


def _numbers(kind: type) -> list[tuple[str, type]]:
    """The fields of a report that are numbers, as the columns of a table."""
    hints = typing.get_type_hints(kind)
    known = [(one.name, _NUMBERS.get(hints[one.name])) for one in fields(kind) if one.name not in _OF_WINDOW]
    return [(name, number) for name, number in known if number is not None]


_OF_CONTAINER, _OF_OPERATOR = _numbers(ContainerWindow), _numbers(OperatorWindow)
CONTAINERS = np.dtype([*_OF_CONTAINER, ("host", np.int64), ("task", np.int64)])
"""The columns of containers; `host` and `task` are places in those of the window."""
OPERATORS = np.dtype([*_OF_OPERATOR, ("host", np.int64), ("tuples_in", np.int64), ("tuples_out", np.int64)])
"""The columns of operators; their tuples are of all ports. NaN: a time is not known."""
_of_container, _of_operator = (attrgetter(*dict(own)) for own in (_OF_CONTAINER, _OF_OPERATOR))
Table = npt.NDArray[Any]


class _Columns:
    """How event logs have a table: a list for each column. A log may lack columns, and have others."""

    def __init__(self, columns: np.dtype[Any]) -> None:
        self._columns = columns

    def __get_pydantic_core_schema__(self, _source: object, _handler: object) -> Any:
        from pydantic_core import core_schema

        written = core_schema.plain_serializer_function_ser_schema(
            lambda table: {name: table[name].tolist() for name in table.dtype.names}
        )
        return core_schema.no_info_plain_validator_function(self._read, serialization=written)

    def _read(self, columns: Mapping[str, Sequence[Any]]) -> Table:
        found = np.zeros(max(map(len, columns.values()), default=0), self._columns)
        for name in found.dtype.fields.keys() & columns.keys():
            found[name] = columns[name]
        return found


@dataclass(frozen=True, slots=True, eq=False)
class WindowReported(RunEvent):
    """What containers and operators did in the attempt of a window that counts, just before its commit.

    `containers`, `operators`: a row for each that reported, with the numbers of `ContainerWindow` and
    `OperatorWindow`; `host`, `task`: places in `hosts` and `tasks`. `tuples`: of each of `ports`, which are
    operator, `input` or `output`, and name. What few have is by id, of containers `busy`, else of operators.
    """

    at: float
    window_id: int
    hosts: tuple[str, ...]
    tasks: tuple[str, ...]
    containers: typing.Annotated[Table, _Columns(CONTAINERS)]
    operators: typing.Annotated[Table, _Columns(OPERATORS)]
    ports: tuple[Port, ...]
    tuples: tuple[int, ...]
    busy: Mapping[int, tuple[float, ...]] = field(default_factory=dict)
    dropped: Mapping[int, str] = field(default_factory=dict)
    error_tuples: Mapping[int, tuple[str, ...]] = field(default_factory=dict)
    ages: Mapping[int, tuple[AgeSample, ...]] = field(default_factory=dict)
    watermarks: Mapping[int, WatermarkReading] = field(default_factory=dict)

    @classmethod
    def of(
        cls,
        at: float,
        window_id: int,
        containers: Sequence[ContainerWindow],
        operators: Sequence[OperatorWindow],
    ) -> WindowReported:
        """What these have reported."""
        hosts, tasks = dict[str, int](), dict[str, int]()
        of_containers = [
            (*_of_container(one), _number(hosts, one.host), _number(tasks, one.task)) for one in containers
        ]
        of_operators = [
            (
                *_of_operator(one),
                _number(hosts, one.host),
                sum(one.tuples_in.values()),
                sum(one.tuples_out.values()),
            )
            for one in operators
        ]
        tuples: dict[Port, int] = {}
        for one in operators:
            tuples |= {(one.operator, "input", port): count for port, count in one.tuples_in.items()}
            tuples |= {(one.operator, "output", port): count for port, count in one.tuples_out.items()}
        return cls(
            at,
            window_id,
            tuple(hosts),
            tuple(tasks),
            np.array(of_containers, CONTAINERS),
            np.array(of_operators, OPERATORS),
            tuple(tuples),
            tuple(tuples.values()),
            {one.container: one.busy for one in containers if one.busy},
            {one.operator: one.dropped for one in operators if one.dropped},
            {one.operator: one.error_tuples for one in operators if one.error_tuples},
            {one.operator: one.ages for one in operators if one.ages},
            {one.operator: one.watermark for one in operators if one.watermark is not None},
        )

    def __eq__(self, other: object) -> bool:
        return isinstance(other, WindowReported) and _plain(self) == _plain(other)

    __hash__ = None  # type: ignore[assignment]

    def is_of(self, topology: Topology) -> bool:
        """Whether a plan has all its operators and containers; else it is of another plan."""
        places = topology.ids.places(self.operators["operator"])
        of_containers = topology.ids_of_containers.places(self.containers["container"])
        return bool((places >= 0).all() and (of_containers >= 0).all())


def _plain(event: WindowReported) -> list[object]:
    """The values of an event: a time that is not known, NaN, is equal to itself."""
    values = (getattr(event, one.name) for one in fields(event))
    return [value.tobytes() if isinstance(value, np.ndarray) else value for value in values]


def _number(known: dict[str, int], one: str) -> int:
    """The place of a text among those that are known; a new one is the last."""
    return known.setdefault(one, len(known))


@dataclass(frozen=True, slots=True)
class OperatorMetrics(RunEvent):
    """The metrics that an operator declares, as of an application window that has ended with this window.

    `operator`: the name of the logical operator, or the title of its unifiers. `values`: over all partitions,
    by metric; missing where no partition has a value. `partitions`: by partition, from 0 on. `faults`: by
    metric, why the author's function has made no value of the partitions'.
    """

    at: float
    window_id: int
    operator: str
    values: Mapping[str, Any]
    partitions: tuple[Mapping[str, Any], ...]
    faults: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class WindowCommitted(RunEvent):
    """The window is committed and published. All times are STRAM's wall clock, in this order.

    The readings, in this order:
    - `began`: `foreachBatch` or the trigger entered Ridgeline
    - `planned`: the attempt that counts began (earlier ones had failed, or `closing`)
    - `launched`: its job was given to Spark
    - `returned`: its reports arrived
    - `staged`: outputs had staged
    - `committed`: the manifest is durable
    - `published`: outputs had published

    `tasks_retried`: how often Spark had repeated tasks of the attempt that counts, since their processes were
    lost. `held_seconds`: how long it waited for the commit of a later window, since nothing had moved in it.
    The last three readings are without that time; `at` is not. `closing`: nothing had failed; the window ran
    again to be closed, since all inputs had ended in it.
    """

    at: float
    window_id: int
    attempts: int
    began: float
    planned: float
    launched: float
    returned: float
    staged: float
    committed: float
    published: float
    tasks_retried: int = 0
    held_seconds: float = 0.0
    closing: bool = False


@dataclass(frozen=True, slots=True)
class OutputPublished(RunEvent):
    """Readers may see the results of an output operator up to a window.

    `operator` is its name: all partitions are published at once.

    With a window it comes after the window's `WindowReported` and before its `WindowCommitted`. Results that
    were held back may also be published between windows, and when the run ends.
    """

    at: float
    operator: str
    window_id: int


@dataclass(frozen=True, slots=True)
class OutputAsked(RunEvent):
    """Committed results of an output operator do not get through, or do again.

    `operator` is its name. `problem`: why, as of the moment when it began; empty once they get through.
    """

    at: float
    operator: str
    problem: str = ""


@dataclass(frozen=True, slots=True)
class SparkTrigger(RunEvent):
    """Spark's own account of a micro-batch, once it is over (applications with Spark sources).

    `triggered`: STRAM's wall clock.

    `phases`: seconds by Spark's names (`latestOffset`, `getBatch`, `queryPlanning`, `walCommit`, `addBatch`,
    `commitOffsets`, `triggerExecution`).
    """

    at: float
    window_id: int
    triggered: float
    phases: Mapping[str, float]


@pickled_by_values
@dataclass(frozen=True, slots=True)
class SourceProgress(RunEvent):
    """How far an input operator is: `consumed` and `remaining`, cumulative, in `unit`.

    The unit is `records`, `bytes` or what else the operator counts.

    Since the run's start. None means unknown; a negative `remaining` means infinite. `remaining_bytes` where
    it is known beside records. Of one partition, or of the whole source (`operator` is then its first
    partition, `whole` is true). `asked`: when it said so, STRAM's clock; 0: `at`. `paced`: it holds back what
    is not due, so what remains is no backlog. `before`: consumed when the window began, reported in the first
    window after its state was restored.
    """

    at: float
    window_id: int
    operator: int
    consumed: float | None
    remaining: float | None
    unit: str = "records"
    remaining_bytes: float | None = None
    whole: bool = False
    asked: float = 0.0
    paced: bool = False
    before: float | None = None


@dataclass(frozen=True, slots=True)
class SourceTaken(RunEvent):
    """The records that a partition of a Python input has taken by the end of a window under way.

    As in `SourceProgress`, which follows once the window is committed, if this attempt counts. It is left out
    for windows that are committed soon after. Heartbeats repeat it with what remains by now; `at` and `asked`
    are 0 there. `seconds`, `produced`: of the window, tuples by output port; heartbeats have them themselves.
    """

    at: float
    window_id: int
    attempt: int
    operator: int
    consumed: float | None
    remaining: float | None
    unit: str
    asked: float
    paced: bool = False
    before: float | None = None
    seconds: float = 0.0
    produced: Counts = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class SourceAsked(RunEvent):
    """The answer of a Spark source to a request on a timer, beside the windows.

    In records; `operator` is its first partition.

    `taken`: since the run's start, into windows that are done or run. `held`: the part of these in the window
    that runs (`window_id`, -1: none does). `waiting`: arrived and in no window. None: unknown. `problem`: why
    the source could not be asked; the last answer stays then. `cut`: of the micro-batch more waits than the
    window may have.
    """

    at: float
    window_id: int
    operator: int
    taken: float | None = None
    held: float = 0.0
    waiting: float | None = None
    problem: str = ""
    cut: bool = False


@dataclass(frozen=True, slots=True)
class RunningOperator:
    """One operator in a window that runs, for heartbeats. `state` is `waiting`, `running` or `done`.

    These are Beam's metrics:
    - `seconds`: spent in its own callbacks so far
    - `consumed`: tuples per input port
    - `queued`: tuples per input port that are delivered and not consumed, without active ones
    - `active`: tuples being processed
    - `produced`: per output port, for consumed tuples
    - `active_produced`: per output port, for active tuples
    - `active_remaining`: per output port, expected for active tuples (missing: not reported; negative:
      infinite)
    - `work`: consumed, and remaining or None, as an input operator's `progress()` returns, also once it is
      done
    - `oldest_in_flight`: per output, the lowest time of the records in flight, seconds since 1970
    - `end_seconds`: the part of `seconds` spent in `end_window`, None before it
    - `before`: consumed by an input operator when the window began, as `SourceProgress.before`
    - `callback_seconds`: for how long heartbeats have found it in one callback with the same counts
    - `record`: the one that is being processed then, if that is known, cut to 200 characters
    """

    id: int
    state: str
    seconds: float = 0.0
    consumed: Counts = field(default_factory=dict)
    queued: Counts = field(default_factory=dict)
    active: int = 0
    produced: Counts = field(default_factory=dict)
    active_produced: Counts = field(default_factory=dict)
    active_remaining: Mapping[str, float] = field(default_factory=dict)
    work: tuple[float, float | None] | None = None
    oldest_in_flight: Mapping[str, float] = field(default_factory=dict)
    end_seconds: float | None = None
    before: float | None = None
    callback_seconds: float = 0.0
    record: str = ""


@dataclass(frozen=True, slots=True)
class ProcessUsage:
    """The usage of a process: resident memory, and since its start processor time and full collections."""

    memory_bytes: int
    cpu_seconds: float
    collections: int


@dataclass(frozen=True, slots=True)
class LineTime:
    """Time that an operator (physical id) spent at a line of Python, by samples.

    `function`: its qualified name. `text`: the line. `line` 0: all that is not said by line, such as what the
    engine does for the operator.
    """

    operator: int
    file: str
    line: int
    function: str
    text: str
    seconds: float


@dataclass(frozen=True, slots=True)
class ContainerHeartbeat(RunEvent):
    """A container's running figures.

    `sent`, `began` (of its window) are its host's clock, `at` is STRAM's when it was received.
    `usage`: of its process, None if not known.

    `container` -1: no container runs, or not for long. Then the message carries its clock. `stack`: where its
    thread is. `unsent`: heartbeats of its process that could not be sent since the one before.
    `taken`: by the input operators of the process until the end of their last window, without one that runs
    now. `lines`: where the time of the process's
    operators went since the last message that said so. `at_work`: its thread runs a container, or what a
    commit calls.
    """

    at: float
    container: int
    host: str
    pid: int
    sent: float
    window_id: int = -1
    attempt: int = 0
    began: float = 0.0
    operators: tuple[RunningOperator, ...] = ()
    stack: str = ""
    usage: ProcessUsage | None = None
    unsent: int = 0
    taken: tuple[SourceTaken, ...] = ()
    lines: tuple[LineTime, ...] = ()
    at_work: bool = False


@dataclass(frozen=True, slots=True)
class MessagesRefused(RunEvent):
    """Messages to STRAM, or connections, did not count.

    `reason`: `unauthenticated`, `malformed`, `too large`, `late` or `too many`.

    `count` of them since the last such event of this reason. `peer` sent the last of them, "" if unknown.
    """

    at: float
    reason: str
    peer: str = ""
    count: int = 1


@dataclass(frozen=True, slots=True)
class StateCompacted(RunEvent):
    """An operator's state (by physical id) was compacted: `files` became one of `size_bytes`."""

    at: float
    operator: int
    files: int
    size_bytes: int


@dataclass(frozen=True, slots=True)
class StateWarning(RunEvent):
    """Something was wrong with an operator's state files or its `teardown`, without any loss.

    `operator` is its physical id, `text` says what was wrong.
    """

    at: float
    operator: int
    text: str


@dataclass(frozen=True, slots=True)
class ApplicationChanged(RunEvent):
    """A change is requested, or has come to its end.

    `number` counts the changes of a run. `what`: the change in words; `edits`: those of a change of the plan,
    as `ridgeline.plan.edits` writes them. `state` is `QUEUED`, `APPLIED` (with the window that begins with
    it, once that is committed), `REFUSED` or `WITHDRAWN` with `reason`. `held_seconds`: from
    the last window before it to the first one with it, as they were published.
    """

    at: float
    number: int
    by: str
    note: str
    what: str
    state: str
    window_id: int | None = None
    reason: str = ""
    plan_version: int = 0
    edits: tuple[Mapping[str, Any], ...] = ()
    held_seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class PolicyDecided(RunEvent):
    """A policy or a listener has decided on a change, or something has become of its decision.

    `number` counts the decisions of a run; `by` is who decided, such as `policy CriticalPathPolicy`. `note`:
    why; `what`: the change in words; `expected`: the effect that it should have. `state` is `ASKED`, then
    `APPLIED` or `REFUSED`. Once it is seen what came of it, it is `HELPED` or `MISSED`, which `found` says in
    words. `change` is the number of the change, `undoes` the decision that it takes back.

    `FAILED` comes in place of a decision: `by` has raised `note`, with the traceback `found`.
    """

    at: float
    number: int
    by: str
    state: str
    note: str
    what: str
    expected: str = ""
    found: str = ""
    change: int | None = None
    undoes: int | None = None


@dataclass(frozen=True, slots=True)
class PromiseChanged(RunEvent):
    """A promise of the application is kept or broken from now on; `kept` None: nothing can be said of it.

    The first event of a promise comes when the run begins, others with another verdict. `figure` (None: there
    is none) and `limit` are in `unit`; `operator` "": a promise of the application as a whole.
    """

    at: float
    promise: str
    kind: str
    operator: str
    kept: bool | None
    figure: float | None
    limit: float
    unit: str


@dataclass(frozen=True, slots=True)
class ApplicationEnded(RunEvent):
    """The run is over: `outcome` is `finished`, `stopped` or `failed` with `reason`."""

    at: float
    outcome: str
    reason: str = ""
