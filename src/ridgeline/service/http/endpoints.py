"""All paths of the web service that answer JSON, and what each does."""

from __future__ import annotations

import platform
from collections.abc import Iterable, Mapping
from functools import partial
from typing import Any

from ridgeline.api.errors import did_you_mean
from ridgeline.engine.spark.shared_context import java_version
from ridgeline.measure.answers.application import (
    DebugDumpAnswer,
    InfoAnswer,
    PendingInfoAnswer,
    SentenceAnswer,
)
from ridgeline.measure.answers.changes import AdviceAnswer, DecisionsAnswer, MarksAnswer, PromisesAnswer
from ridgeline.measure.answers.history import ApplicationHistoryAnswer, OperatorHistoryAnswer
from ridgeline.measure.answers.operators import (
    ContainerAnswer,
    KeysAnswer,
    LinesAnswer,
    MetricHistoryAnswer,
    MetricsAnswer,
    OperatorAnswer,
    RecordAgesAnswer,
    ThroughputAnswer,
)
from ridgeline.measure.answers.progress import ProgressAnswer
from ridgeline.measure.answers.watermarks import WatermarksAnswer
from ridgeline.measure.answers.windows import CriticalPathAnswer, LatencyAnswer, WindowAnswer
from ridgeline.measure.own_metrics import by_operator
from ridgeline.measure.wording.sentence import sentence_of
from ridgeline.observe import identity
from ridgeline.service.advising import advice_answer, keys_answer
from ridgeline.service.http import apex
from ridgeline.service.http.answers import (
    ContainersAnswer,
    LogicalOperatorAnswer,
    LogicalOperatorsAnswer,
    LogicalPlanAnswer,
    LogicalPortsAnswer,
    OperatorsAnswer,
    PhysicalPlanAnswer,
    StackTraceAnswer,
    StreamsAnswer,
    VersionsAnswer,
    WindowsAnswer,
)
from ridgeline.service.http.endpoint import AnswerError, Call, Endpoint, Handler, Parameter, found
from ridgeline.service.http.regions import REGION, answers_of

BASE = "/ws/v2/stram"

_NAME = Parameter("name", "string", "the name of a logical operator")
_OPERATOR_ID = Parameter("id", "integer", "the id of a physical operator, from `/physicalPlan/operators`", 0)
_CONTAINER_ID = Parameter("id", "integer", "the id of a container, from `/physicalPlan/containers`", 0)
_WINDOW_ID = Parameter("id", "integer", "the id of a committed window, from `/windows`", 0)
_WINDOW = Parameter(
    "windowId", "integer", "the id of a committed window, from `/windows`; default: the last", 0
)
_SPAN = (
    Parameter(
        "from", "integer", "seconds since 1970; below 0: before now; default: the last 15 minutes", -86_400
    ),
    Parameter(
        "step",
        "integer",
        "the least seconds of a step; default: as short as steps are kept so far back",
        1,
        86_400,
    ),
)
_STATES = ("PENDING", "RUNNING", "IDLE", "SILENT")


def _selected(values: Mapping[str, Any], name: str | None, kind: str) -> Mapping[str, Any]:
    """All values, or the one that was asked for."""
    if name is None:
        return values
    if name not in values:
        raise AnswerError(404, f"there is no {kind} `{name}`", did_you_mean(name, values))
    return {name: values[name]}


def _described(call: Call, names: Iterable[str]) -> list[LogicalOperatorAnswer]:
    """Logical operators with the figures of their partitions."""
    watch, classes = call.watch, call.classes()
    rows, totals = watch.operators(), watch.operator_totals()
    latencies = {row["operator"]: row["averageMs"] for row in watch.latency()["logical"]}
    metrics = by_operator(watch.own_metrics()["metrics"])
    return [
        apex.logical_operator(name, classes[name], rows, latencies, metrics.get(name, {}), totals.get(name))
        for name in names
    ]


def _stack_trace(call: Call) -> StackTraceAnswer:
    """Where a container's thread is. Asking its process may take a second."""
    container = found(call.watch.container, call["id"])
    host, pid = container["host"], container["pid"]
    fresh = (
        call.stack_of(host, pid)
        if call.stack_of is not None and host is not None and pid is not None
        else None
    )
    return {
        "id": container["id"],
        "host": host,
        "pid": pid,
        "lastHeartbeat": container["lastHeartbeat"],
        "stack": container["stack"],
        "fresh": fresh,
    }


def _containers(call: Call) -> ContainersAnswer:
    """All containers, or those in the states asked for. Raises AnswerError."""
    containers = call.watch.containers()
    wanted = call.get("states")
    if wanted is not None:
        states = {state.strip().upper() for state in wanted.split(",")}
        for state in sorted(states - set(_STATES)):
            raise AnswerError(
                400,
                f"`states` has `{state[:100]}`, which is no state of containers",
                did_you_mean(state, _STATES),
            )
        containers = [container for container in containers if container["state"] in states]
    return {"containers": containers}


def _versions() -> VersionsAnswer:
    return {
        "ridgeline": identity.version(),
        "python": platform.python_version(),
        "pyspark": identity.version("pyspark"),
        "pyarrow": identity.version("pyarrow"),
        "java": java_version(),
        "system": platform.platform(),
    }


def _debug_dump(call: Call) -> DebugDumpAnswer:
    """The last events and instructions of the run; none before its first window."""
    if call.run is None:
        return {
            "application": call.application,
            "version": identity.version(),
            "at": None,
            "fault": None,
            "committed": -1,
            "windows": [],
            "dropped": 0,
            "events": [],
        }
    return call.run.debug_dump()


def _stram(
    path: str,
    handler: Handler,
    summary: str,
    answer: Any,
    *parameters: Parameter,
    query: tuple[Parameter, ...] = (),
) -> Endpoint:
    """An endpoint below the base path; its tag is the first part of its path."""
    return Endpoint(
        f"{BASE}{path}", handler, summary, answer, parameters, query, tag=path.split("/")[1] or "info"
    )


JSON_ENDPOINTS: tuple[Endpoint, ...] = (
    _stram(
        "/info",
        lambda call: call.watch.info(),
        "The application and its figures as a whole.",
        InfoAnswer | PendingInfoAnswer,
    ),
    _stram(
        "/versions",
        lambda _: _versions(),
        "The versions of what the driver runs on.",
        VersionsAnswer,
    ),
    _stram(
        "/sentence",
        lambda call: sentence_of(call.watch.overview()),
        "In a sentence whether the application keeps up, how old records are, and who is to blame.",
        SentenceAnswer,
    ),
    _stram(
        "/logicalPlan",
        lambda call: call.logical_plan,
        "The application as its author wrote it.",
        LogicalPlanAnswer,
    ),
    _stram(
        "/logicalPlan/attributes",
        lambda call: _selected(call.logical_plan["attributes"], call.get("attributeName"), "attribute"),
        "The application's attributes, or one of them.",
        dict[str, Any],
        query=(Parameter("attributeName", "string", "the name of an attribute; default: all"),),
    ),
    _stram(
        "/logicalPlan/operators",
        lambda call: {"operators": _described(call, call.classes())},
        "All logical operators with the figures of their partitions.",
        LogicalOperatorsAnswer,
    ),
    _stram(
        "/logicalPlan/operators/{name}",
        lambda call: _described(call, [call.named_operator()["name"]])[0],
        "A logical operator with the figures of its partitions.",
        LogicalOperatorAnswer,
        _NAME,
    ),
    _stram(
        "/logicalPlan/operators/{name}/history",
        lambda call: found(
            lambda name: call.watch.operator_history(name, call.get("from"), call.get("step")), call["name"]
        ),
        "The last hours of a logical operator, in steps of a second, ten seconds or a minute.",
        OperatorHistoryAnswer,
        _NAME,
        query=_SPAN,
    ),
    _stram(
        "/logicalPlan/operators/{name}/ports",
        lambda call: {"ports": call.named_operator()["ports"]},
        "The ports of a logical operator.",
        LogicalPortsAnswer,
        _NAME,
    ),
    _stram(
        "/logicalPlan/operators/{name}/attributes",
        lambda call: _selected(call.named_operator()["attributes"], call.get("attributeName"), "attribute"),
        "The attributes of a logical operator, or one of them.",
        dict[str, Any],
        _NAME,
        query=(Parameter("attributeName", "string", "the name of an attribute; default: all"),),
    ),
    _stram(
        "/logicalPlan/operators/{name}/properties",
        lambda call: _selected(call.named_operator()["properties"], call.get("propertyName"), "property"),
        "The properties of a logical operator, or one of them. Secrets are masked.",
        dict[str, Any],
        _NAME,
        query=(Parameter("propertyName", "string", "the name of a property; default: all"),),
    ),
    _stram(
        "/physicalPlan",
        lambda call: {"operators": call.watch.operators(), "streams": call.watch.streams()},
        "All physical operators and the streams between them.",
        PhysicalPlanAnswer,
    ),
    _stram(
        "/physicalPlan/operators",
        lambda call: {"operators": call.watch.operators()},
        "All physical operators.",
        OperatorsAnswer,
    ),
    _stram(
        "/physicalPlan/operators/{id}",
        lambda call: found(call.watch.operator, call["id"]),
        "A physical operator.",
        OperatorAnswer,
        _OPERATOR_ID,
    ),
    _stram(
        "/physicalPlan/containers",
        _containers,
        "All containers, or those in some states.",
        ContainersAnswer,
        query=(Parameter("states", "string", f"states, separated by commas: {', '.join(_STATES)}"),),
    ),
    _stram(
        "/physicalPlan/containers/{id}",
        lambda call: found(call.watch.container, call["id"]),
        "A container.",
        ContainerAnswer,
        _CONTAINER_ID,
    ),
    _stram(
        "/physicalPlan/containers/{id}/stackTrace",
        _stack_trace,
        "Where a container's thread is: `stack` as its last heartbeat said, `fresh` as of now where that "
        "can be had.",
        StackTraceAnswer,
        _CONTAINER_ID,
    ),
    _stram(
        "/physicalPlan/streams",
        lambda call: {"streams": call.watch.streams()},
        "All physical streams.",
        StreamsAnswer,
    ),
    _stram(
        "/latency",
        lambda call: found(answers_of(call).latency, call.get("windowId")),
        "The latencies of all operators in a window, with averages and percentiles.",
        LatencyAnswer,
        query=(_WINDOW, REGION),
    ),
    _stram(
        "/criticalPath",
        lambda call: found(answers_of(call).critical_path, call.get("windowId")),
        "The critical path of a window, the slack of operators off it, and what the window waited for.",
        CriticalPathAnswer,
        query=(_WINDOW, REGION),
    ),
    _stram(
        "/recordAge",
        lambda call: found(call.watch.record_age, call.get("operator")),
        "How old records were over the last minute, by operator and place.",
        RecordAgesAnswer,
        query=(Parameter("operator", "string", "the name or title of an operator; default: all"),),
    ),
    _stram(
        "/progress",
        lambda call: call.watch.progress(),
        "How far the running window and the sources are.",
        ProgressAnswer,
    ),
    _stram(
        "/watermarks",
        lambda call: call.watch.watermarks(),
        "How far event time has come at each operator, who holds it back, and how many records were late.",
        WatermarksAnswer,
    ),
    _stram(
        "/history",
        lambda call: call.watch.application_history(call.get("from"), call.get("step")),
        "The last hours of all windows, with record ages, in steps of a second, ten seconds or a minute.",
        ApplicationHistoryAnswer,
        query=_SPAN,
    ),
    _stram(
        "/marks",
        lambda call: {"marks": call.watch.marks(call.get("limit"))},
        "What happened: failures, lost slots, changes, decisions, promises broken and kept again.",
        MarksAnswer,
        query=(Parameter("limit", "integer", "how many of the last marks; default: all", 1),),
    ),
    _stram(
        "/promises",
        lambda call: {"promises": call.watch.promises()},
        "What the application has promised: kept or broken, and since when.",
        PromisesAnswer,
    ),
    _stram(
        "/keys",
        lambda call: found(lambda name: keys_answer(call.run, name), call.get("operator")),
        "How tuples are spread over keys. The first call begins to count, for a minute after the last one.",
        KeysAnswer,
        query=(Parameter("operator", "string", "the name of a logical operator; default: all"),),
    ),
    _stram(
        "/lines",
        lambda call: found(call.watch.lines, call.get("operator")),
        "Where the Python time of operators goes, by line, over the last minute: an estimate by samples.",
        LinesAnswer,
        query=(Parameter("operator", "string", "the name of a logical operator; default: all"),),
    ),
    _stram(
        "/metrics",
        lambda call: found(call.watch.own_metrics, call.get("operator")),
        "The metrics that operators declare, as of their last windows.",
        MetricsAnswer,
        query=(Parameter("operator", "string", "the name of a logical operator; default: all"),),
    ),
    _stram(
        "/advice",
        lambda call: advice_answer(call.watch, call.application, call.run),
        "What would lower latency or raise throughput. The first call begins to keep the figures for it.",
        AdviceAnswer,
    ),
    _stram(
        "/debugDump",
        _debug_dump,
        "The windows in flight and the last events and instructions of the driver, for post-mortems.",
        DebugDumpAnswer,
    ),
    _stram(
        "/decisions",
        lambda call: {"decisions": call.watch.decisions(call.get("limit"))},
        "What policies and listeners have decided, and what came of it.",
        DecisionsAnswer,
        query=(Parameter("limit", "integer", "how many of the last decisions; default: all", 1),),
    ),
    _stram(
        "/metrics/{name}/{metric}",
        lambda call: found(
            partial(call.watch.metric_history, call["name"], call["metric"]), call.get("limit")
        ),
        "A metric that an operator declares, over the last windows, minutes and hours.",
        MetricHistoryAnswer,
        _NAME,
        Parameter("metric", "string", "the name of the metric"),
        query=(Parameter("limit", "integer", "how many windows, minutes and hours; default: all", 1),),
    ),
    _stram(
        "/windows",
        lambda call: {"windows": answers_of(call).windows(call.get("limit"))},
        "Summaries of the last windows, the newest last.",
        WindowsAnswer,
        query=(
            Parameter("limit", "integer", "how many windows; default: all that are kept, at most 1,000", 1),
            REGION,
        ),
    ),
    _stram(
        "/windows/{id}",
        lambda call: found(answers_of(call).window, call["id"]),
        "A window with its operators and what it waited for.",
        WindowAnswer,
        _WINDOW_ID,
        query=(REGION,),
    ),
    _stram(
        "/throughput",
        lambda call: call.watch.throughput(),
        "Tuples of every operator and port, in sum and per second.",
        ThroughputAnswer,
    ),
)
