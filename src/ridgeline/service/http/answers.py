"""Answers of the web service beside those of `ridgeline.measure.answers`: plans, containers, itself."""

from __future__ import annotations

from typing import Annotated, Any

from typing_extensions import TypedDict

from ridgeline.measure.answers.changes import RequestedChange
from ridgeline.measure.answers.operators import (
    ContainerAnswer,
    OperatorAnswer,
    RecordAgeAnswer,
    StreamAnswer,
)
from ridgeline.measure.answers.regions import InRegionAnswer
from ridgeline.measure.answers.windows import WindowSummaryAnswer


class ErrorAnswer(TypedDict):
    """Why there is no answer."""

    error: Annotated[str, "What is wrong."]
    hint: Annotated[str, "What to do."]


class IndexAnswer(TypedDict):
    """The application and the paths of the service."""

    name: Annotated[str, "Name of the application."]
    version: Annotated[str, "Version of Ridgeline."]
    links: Annotated[dict[str, str], "Paths by what they answer."]


class PagePathAnswer(TypedDict):
    """Where the page is opened."""

    path: Annotated[str, "The path, with a code that is good once."]


class VersionsAnswer(TypedDict):
    """The versions of what the driver runs on."""

    ridgeline: Annotated[str, "Of Ridgeline."]
    python: Annotated[str, "Of Python."]
    pyspark: Annotated[str, "Of Spark."]
    pyarrow: Annotated[str, "Of Arrow."]
    java: Annotated[str, "Of the Java that Spark runs on; empty if Spark does not run in this process."]
    system: Annotated[str, "Of the operating system."]


class HealthAnswer(TypedDict):
    """Whether the application works."""

    status: Annotated[
        str,
        "`ok` while it runs, `stuck` while nothing is committed and nothing moves, `region failed` while "
        "others run; else its state: "
        "`pending`, `paused`, `finished`, `stopped`, `failed`.",
    ]


class ReadyAnswer(TypedDict):
    """That the application is ready; one that is not answers 503 with an error."""

    status: Annotated[str, "`ready`."]
    windowsCommitted: Annotated[int, "Windows that this run has committed."]


class LogicalPortAnswer(TypedDict):
    """A port of a logical operator."""

    name: Annotated[str, "Name of the port."]
    type: Annotated[str, "`input` or `output`."]
    connected: Annotated[bool, "True if a stream begins or ends at it."]
    schema: Annotated[str | None, "Schema of its tuples, as text; null if it is not connected."]
    attributes: Annotated[dict[str, Any], "Its attributes, with defaults."]
    unifierAttributes: Annotated[dict[str, Any], "Those of its unifiers; empty for an input port."]


class LogicalPortsAnswer(TypedDict):
    """The ports of a logical operator."""

    ports: Annotated[list[LogicalPortAnswer], "Input ports first."]


# `class` is a field's name, so this form.
LogicalPlanOperatorAnswer = TypedDict(
    "LogicalPlanOperatorAnswer",
    {
        "name": Annotated[str, "Name of the operator."],
        "module": Annotated[str | None, "Full name of the module that it is in; null if in none."],
        "class": Annotated[str, "Full name of its class."],
        "attributes": Annotated[dict[str, Any], "Its attributes, with defaults."],
        "properties": Annotated[dict[str, Any], "Its properties; secrets are masked."],
        "ports": Annotated[list[LogicalPortAnswer], "Its ports."],
    },
)
LogicalPlanOperatorAnswer.__doc__ = "An operator as its author added it."


class LogicalPortRefAnswer(TypedDict):
    """A port of a logical operator, by name."""

    operatorName: Annotated[str, "Name of the operator."]
    portName: Annotated[str, "Name of the port."]


class LogicalStreamAnswer(TypedDict):
    """A stream as its author added it."""

    name: Annotated[str, "Name of the stream."]
    source: Annotated[LogicalPortRefAnswer, "The output port that it begins at."]
    sinks: Annotated[list[LogicalPortRefAnswer], "The input ports that it ends at."]
    persisted: Annotated[list[LogicalPortRefAnswer], "Those of the sinks that only write it down."]
    locality: Annotated[str | None, "The locality of all its sinks; null if none, or if they differ."]
    localities: Annotated[list[str | None], "The locality of each sink; null if none was asked for."]
    schema: Annotated[str, "Schema of its tuples, as text."]


# As above.
LogicalModuleAnswer = TypedDict(
    "LogicalModuleAnswer",
    {
        "name": Annotated[str, "Full name of the module; names of its operators begin with it and a dot."],
        "module": Annotated[str | None, "Full name of the module that it is in; null if in none."],
        "class": Annotated[str, "Full name of its class."],
        "properties": Annotated[dict[str, Any], "Its properties; secrets are masked."],
        "inputs": Annotated[
            dict[str, list[LogicalPortRefAnswer]], "Its input ports, with the operators' ports they lead to."
        ],
        "outputs": Annotated[
            dict[str, LogicalPortRefAnswer], "Its output ports, with the operators' ports they stand for."
        ],
    },
)
LogicalModuleAnswer.__doc__ = "A module: an operator that is made of operators."


class SpecificationAnswer(TypedDict):
    """The running application, with options and changes, as a specification."""

    specification: Annotated[dict[str, Any], "As a file has it; `POST /changes` takes it back as `spec`."]


class LogicalPlanAnswer(TypedDict):
    """The application as its author wrote it."""

    operators: Annotated[list[LogicalPlanOperatorAnswer], "The operators."]
    streams: Annotated[list[LogicalStreamAnswer], "The streams."]
    modules: Annotated[list[LogicalModuleAnswer], "The modules, each after the one that it is in."]
    attributes: Annotated[dict[str, Any], "The application's attributes, with defaults."]


class LogicalOperatorAnswer(TypedDict):
    """A logical operator with the figures of its partitions; null where no partition knows."""

    name: Annotated[str, "Name of the operator."]
    className: Annotated[str, "Full name of its class."]
    totalTuplesProcessed: Annotated[int | None, "Tuples in since the start, over all partitions it ever had."]
    totalTuplesEmitted: Annotated[int | None, "Tuples out since the start, over all it ever had."]
    tuplesProcessedPSMA: Annotated[float | None, "Tuples in per second, over its partitions."]
    tuplesEmittedPSMA: Annotated[float | None, "Tuples out per second, over its partitions."]
    cpuPercentageMA: Annotated[float | None, "Processor time per wall time in percent, unifiers included."]
    latencyMA: Annotated[float | None, "Mean latency of the last 10 windows, in milliseconds."]
    status: Annotated[dict[str, int], "How many partitions and unifiers are in each state."]
    lastHeartbeat: Annotated[float | None, "The oldest of its containers' last heartbeats."]
    failureCount: Annotated[int | None, "Failures, unifiers included."]
    recoveryWindowId: Annotated[int | None, "The lowest of the last committed windows."]
    currentWindowId: Annotated[int | None, "The lowest of the windows that they work on."]
    containerIds: Annotated[list[int], "Ids of its containers."]
    partitions: Annotated[list[int], "Physical ids of its partitions."]
    unifiers: Annotated[list[int], "Physical ids of its unifiers."]
    hosts: Annotated[list[str], "Hosts of its containers."]
    autoMetrics: Annotated[
        dict[str, float | None],
        "The metrics that it declares: of gauges the last value, of counters the total.",
    ]


class LogicalOperatorsAnswer(TypedDict):
    """All logical operators."""

    operators: Annotated[list[LogicalOperatorAnswer], "In the order of the plan."]


class PhysicalPlanAnswer(TypedDict):
    """All physical operators and the streams between them."""

    operators: Annotated[list[OperatorAnswer], "In topological order."]
    streams: Annotated[list[StreamAnswer], "Connected output ports, and who reads from them."]


class OperatorsAnswer(TypedDict):
    """All physical operators."""

    operators: Annotated[list[OperatorAnswer], "In topological order."]


class StreamsAnswer(TypedDict):
    """All physical streams."""

    streams: Annotated[list[StreamAnswer], "Connected output ports, and who reads from them."]


class ContainersAnswer(TypedDict):
    """Containers."""

    containers: Annotated[list[ContainerAnswer], "By id."]


class StackTraceAnswer(TypedDict):
    """Where a container's thread is."""

    id: Annotated[int, "Id of the container."]
    host: Annotated[str | None, "Host of its process."]
    pid: Annotated[int | None, "Id of its process."]
    lastHeartbeat: Annotated[float | None, "When its last heartbeat came."]
    stack: Annotated[str, "Where its thread was by its last heartbeat; empty if none said."]
    fresh: Annotated[str | None, "The stacks of its process as of now; null where they cannot be had."]


class KilledContainerAnswer(TypedDict):
    """A container whose process was ended."""

    id: Annotated[int, "Id of the container."]
    host: Annotated[str, "Host of its process."]
    pid: Annotated[int, "Id of its process."]
    containers: Annotated[list[int], "Ids of all containers that lived in it."]


class WindowsAnswer(TypedDict):
    """Windows in short."""

    windows: Annotated[list[WindowSummaryAnswer], "The newest last."]


class KeptWindowAnswer(InRegionAnswer, TypedDict):
    """A window to which a run, or a region of it, can be rewound."""

    windowId: Annotated[int, "The window."]
    committedAt: Annotated[float | None, "When it was committed; null if its figures are not kept."]
    planVersion: Annotated[int, "Version of the plan that it ran under."]
    stateBytes: Annotated[int | None, "Bytes of the state files that it needs; null if not known."]
    stateFiles: Annotated[int, "How many these are."]
    rewoundTo: Annotated[int | None, "The window that it repeats, if the run was rewound to it."]
    ended: Annotated[bool, "All inputs had finished."]
    command: Annotated[str, "The command that starts the application again from it."]


class CheckpointsAnswer(TypedDict):
    """The windows to which a run can be rewound."""

    folder: Annotated[str, "The checkpoint's folder; secrets are masked."]
    windowsKept: Annotated[int | None, "How many windows are kept at least (attribute `windows_kept`)."]
    windows: Annotated[list[KeptWindowAnswer], "The newest first, by region."]
    note: Annotated[str, "Why there are none, if there are none."]


class SinkAnswer(TypedDict):
    """An output operator: where it writes, what readers see, and how old that is."""

    operator: Annotated[str, "Name of the output operator."]
    className: Annotated[str, "Full name of its class."]
    deadLetters: Annotated[bool, "It gets the tuples that operators leave out, and no results."]
    place: Annotated[str | None, "Where results appear; null if its publisher does not say."]
    protocol: Annotated[
        str,
        "`transactional`, `idempotent`, `staged` before the commit and published after it, or `none`.",
    ]
    mode: Annotated[str, "Its processing mode, such as `EXACTLY_ONCE`."]
    partitions: Annotated[int, "How many partitions it has."]
    visibleWindow: Annotated[int | None, "Readers see results up to this window; null before the first."]
    visibleAt: Annotated[float | None, "Since when."]
    timesPublished: Annotated[int, "How often results became visible in this run."]
    problem: Annotated[str, "Why committed results do not get through; empty if they do."]
    committedAge: Annotated[
        RecordAgeAnswer | None, "Ages at the commit over the last minute, of the worst partition."
    ]
    visibleAge: Annotated[RecordAgeAnswer | None, "Ages when readers may see the records, likewise."]


class SinksAnswer(TypedDict):
    """The output operators."""

    sinks: Annotated[list[SinkAnswer], "In topological order."]


class ConfiguredValueAnswer(TypedDict):
    """A value, and where it was set."""

    value: Annotated[Any, "The value; secrets are masked."]
    layer: Annotated[str, "The layer that says it, such as `default`, `code`, `user file`; empty: not known."]
    place: Annotated[str, "The file and line, the option, or else the layer."]


class ConfiguredAnswer(ConfiguredValueAnswer):
    """A value that counts, and what it overrides."""

    key: Annotated[str, "Its key in a configuration."]
    operator: Annotated[str, "Name of the operator or module; empty: the application or the run."]
    insteadOf: Annotated[list[ConfiguredValueAnswer], "What it overrides, what would count next first."]


class ConfigurationAnswer(TypedDict):
    """The values of the application that count now."""

    known: Annotated[bool, "True if the layers are known; false: `layer` is empty everywhere."]
    values: Annotated[list[ConfiguredAnswer], "The run's first, then the application's, then operators'."]


class RecordingAnswer(TypedDict):
    """A recording of tuples."""

    id: Annotated[str, "Its id."]
    operator: Annotated[str, "The operator whose ports are recorded."]
    ports: Annotated[list[str], "The ports that are recorded."]
    state: Annotated[str, "`RECORDING`, or `ENDED` once all of its windows are committed."]
    reason: Annotated[str, "Why it ended before its last window; empty if it did not."]
    by: Annotated[str, "Who asked for it."]
    startTime: Annotated[float, "When it was begun (seconds since 1970)."]
    firstWindow: Annotated[int, "Its first window."]
    endWindow: Annotated[int, "The window before which it ends."]
    windows: Annotated[int, "How many windows with tuples are written."]
    tuples: Annotated[int, "How many tuples are written."]
    bytes: Annotated[int, "How many bytes are written."]
    folder: Annotated[str, "The folder with a folder for each port, of files of Parquet."]


class RecordingsAnswer(TypedDict):
    """All recordings of the checkpoint."""

    recordings: Annotated[list[RecordingAnswer], "In the order in which they began."]


class RecordedTuplesAnswer(TypedDict):
    """The last tuples of a recording."""

    recording: Annotated[str, "Id of the recording."]
    ports: Annotated[
        dict[str, list[dict[str, Any]]],
        "By port, each with its window, partition and position there; values without JSON as text.",
    ]


class ChangeAnswer(RequestedChange):
    """A change that was requested while the application runs."""

    result: Annotated[str, "The id of what it began or ended."]


class ChangesAnswer(TypedDict):
    """The last changes."""

    changes: Annotated[list[ChangeAnswer], "The last 1,000, the newest last."]


class DifferenceAnswer(TypedDict):
    """The difference that a change would make; nothing is changed."""

    lines: Annotated[list[str], "The difference between the plans, as text."]
    edits: Annotated[list[dict[str, Any]], "The edits that make it; secrets are masked."]


class LogLineAnswer(InRegionAnswer, TypedDict):
    """A line that an operator printed or logged."""

    number: Annotated[int, "Its number in this run; later lines have greater ones."]
    at: Annotated[float, "When it was said, by the clock of its host, seconds since 1970."]
    operator: Annotated[str, "Name of the operator; empty for what no operator says, such as a thread."]
    partition: Annotated[int | None, "Its partition; null for what no operator says."]
    windowId: Annotated[int | None, "The window in which it was said; null outside of windows."]
    traceId: Annotated[str | None, "The id of that window's trace; null if windows are not traced."]
    source: Annotated[str, "`stdout`, `stderr`, or `log` for a record of `logging`."]
    level: Annotated[str, "The level of a record, such as `WARNING`; empty for what was printed."]
    logger: Annotated[str, "The logger of a record; empty for what was printed."]
    text: Annotated[str, "The line: secrets masked, control characters escaped, cut if it is long."]
    host: Annotated[str, "The host of its process."]
    pid: Annotated[int, "The id of its process."]
    leftOut: Annotated[int, "Lines before it that are not kept, since too many came."]


class LoggerAnswer(TypedDict):
    """The level of a logger that was set while the application runs."""

    target: Annotated[str, "The name of the logger; those below it have the level, too."]
    logLevel: Annotated[str, "The least severe lines that it logs."]


class LoggersAnswer(TypedDict):
    """The levels of loggers that were set while the application runs."""

    loggers: Annotated[list[LoggerAnswer], "By name."]


class LogAnswer(TypedDict):
    """The last lines that operators have said, the oldest first."""

    lines: Annotated[list[LogLineAnswer], "The lines."]
    last: Annotated[int, "The number of the newest line of the run: `after` of the next question."]
    leftOut: Annotated[int, "Lines that were said and are not kept, since the start."]
