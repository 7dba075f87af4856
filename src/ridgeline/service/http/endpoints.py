"""The questions about figures and plans: a row each, of its path, its answer's type and its description."""

from __future__ import annotations

import platform
from functools import partial
from typing import Any

from ridgeline.api.errors import did_you_mean
from ridgeline.engine.spark.shared_context import java_version
from ridgeline.measure.answers.application import (
    DebugDumpAnswer,
    InfoAnswer,
    OverviewAnswer,
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
from ridgeline.service.http.changing import CHANGES
from ridgeline.service.http.configuration import CONFIGURATION
from ridgeline.service.http.endpoint import AnswerError, Call, Endpoint, Parameter, Rows, found, unknown
from ridgeline.service.http.kept import KEPT
from ridgeline.service.http.log import LOG
from ridgeline.service.http.querying import QUERIES
from ridgeline.service.http.regions import REGION, REGIONS, answers_of

FIGURES = Rows()

_NAME = Parameter("name", "string", "the name of a logical operator")
_OPERATOR_ID = Parameter("id", "integer", "the id of a physical operator, from `/physicalPlan/operators`", 0)
_CONTAINER_ID = Parameter("id", "integer", "the id of a container, from `/physicalPlan/containers`", 0)
_WINDOW_ID = Parameter("id", "integer", "the id of a committed window, from `/windows`", 0)
_WINDOW = Parameter(
    "windowId", "integer", "the id of a committed window, from `/windows`; default: the last", 0
)
_OPERATOR = Parameter("operator", "string", "the name of a logical operator; default: all")
_ATTRIBUTE = Parameter("attributeName", "string", "the name of an attribute; default: all")
_SINCE = "seconds since 1970; below 0: before now; default: the last 15 minutes"
_STEP = "the least seconds of a step; default: as short as steps are kept so far back"
_SPAN = (Parameter("from", "integer", _SINCE, -86_400), Parameter("step", "integer", _STEP, 1, 86_400))
_STATES = ("PENDING", "RUNNING", "IDLE", "SILENT")


def _last(what: str) -> tuple[Parameter, ...]:
    return (Parameter("limit", "integer", f"how many {what}; default: all", 1),)


def _selected(values: dict[str, Any], name: str | None, kind: str) -> dict[str, Any]:
    """All values, or the one that was asked for."""
    if name is None:
        return values
    if name not in values:
        raise unknown(kind, name, values)
    return {name: values[name]}


def _rows(call: Call, name: str | None = None) -> list[LogicalOperatorAnswer]:
    """Logical operators, all or one, with the figures of their partitions."""
    watch, planned = call.watch, call.operators()
    rows, totals = watch.operators(), watch.operator_totals()
    latencies = {row["operator"]: row["averageMs"] for row in watch.latency()["logical"]}
    metrics = by_operator(watch.own_metrics()["metrics"])
    return [
        apex.logical_operator(one, rows, latencies, metrics.get(one["name"], {}), totals.get(one["name"]))
        for one in planned.values()
        if name in {None, one["name"]}
    ]


@FIGURES.question("/info")
def _info(call: Call) -> InfoAnswer | PendingInfoAnswer:
    """The application and its figures as a whole."""
    return call.watch.info()


@FIGURES.question("/overview")
def _overview(call: Call) -> OverviewAnswer:
    """All of one moment, as of the last window and the one that runs."""
    return call.watch.overview()


@FIGURES.question("/versions")
def _versions(call: Call) -> VersionsAnswer:
    """The versions of what the driver runs on."""
    if call.is_logged:  # not those of who reads the log
        known: Any = {"ridgeline": call.watch.info().get("version") or ""}
        return known
    return {
        "ridgeline": identity.version(),
        "python": platform.python_version(),
        "pyspark": identity.version("pyspark"),
        "pyarrow": identity.version("pyarrow"),
        "java": java_version(),
        "system": platform.platform(),
    }


@FIGURES.question("/sentence")
def _sentence(call: Call) -> SentenceAnswer:
    """In a sentence whether the application keeps up, how old records are, and who is to blame."""
    return sentence_of(call.watch.overview())


@FIGURES.question("/logicalPlan")
def _logical_plan(call: Call) -> LogicalPlanAnswer:
    """The application as its author wrote it."""
    return call.logical_plan


@FIGURES.question("/logicalPlan/attributes", query=(_ATTRIBUTE,))
def _application_attributes(call: Call) -> dict[str, Any]:
    """The application's attributes, or one of them."""
    return _selected(call.logical_plan["attributes"], call.get("attributeName"), "attribute")


@FIGURES.question("/logicalPlan/operators")
def _logical_operators(call: Call) -> LogicalOperatorsAnswer:
    """All logical operators with the figures of their partitions."""
    return {"operators": _rows(call)}


@FIGURES.question("/logicalPlan/operators/{name}", _NAME)
def _logical_operator(call: Call) -> LogicalOperatorAnswer:
    """A logical operator with the figures of its partitions."""
    return _rows(call, call.named_operator()["name"])[0]


@FIGURES.question("/logicalPlan/operators/{name}/history", _NAME, query=_SPAN)
def _operator_history(call: Call) -> OperatorHistoryAnswer:
    """The last hours of a logical operator, in steps of a second, ten seconds or a minute."""
    since, step = call.get("from"), call.get("step")
    return found(lambda name: call.watch.operator_history(name, since, step), call["name"])


@FIGURES.question("/logicalPlan/operators/{name}/ports", _NAME)
def _ports(call: Call) -> LogicalPortsAnswer:
    """The ports of a logical operator."""
    return {"ports": call.named_operator()["ports"]}


@FIGURES.question("/logicalPlan/operators/{name}/attributes", _NAME, query=(_ATTRIBUTE,))
def _attributes(call: Call) -> dict[str, Any]:
    """The attributes of a logical operator, or one of them."""
    return _selected(call.named_operator()["attributes"], call.get("attributeName"), "attribute")


@FIGURES.question(
    "/logicalPlan/operators/{name}/properties",
    _NAME,
    query=(Parameter("propertyName", "string", "the name of a property; default: all"),),
)
def _properties(call: Call) -> dict[str, Any]:
    """The properties of a logical operator, or one of them. Secrets are masked."""
    return _selected(call.named_operator()["properties"], call.get("propertyName"), "property")


@FIGURES.question("/physicalPlan")
def _physical_plan(call: Call) -> PhysicalPlanAnswer:
    """All physical operators and the streams between them."""
    return {"operators": call.watch.operators(), "streams": call.watch.streams()}


@FIGURES.question("/physicalPlan/operators")
def _operators(call: Call) -> OperatorsAnswer:
    """All physical operators."""
    return {"operators": call.watch.operators()}


@FIGURES.question("/physicalPlan/operators/{id}", _OPERATOR_ID)
def _operator(call: Call) -> OperatorAnswer:
    """A physical operator."""
    return found(call.watch.operator, call["id"])


@FIGURES.question(
    "/physicalPlan/containers",
    query=(Parameter("states", "string", f"states, separated by commas: {', '.join(_STATES)}"),),
)
def _containers(call: Call) -> ContainersAnswer:
    """All containers, or those in some states."""
    containers = call.watch.containers()
    wanted = call.get("states")
    if wanted is not None:
        states = {state.strip().upper() for state in wanted.split(",")}
        for state in sorted(states - set(_STATES)):
            what = f"`states` has `{state[:100]}`, which is no state of containers"
            raise AnswerError(400, what, did_you_mean(state, _STATES))
        containers = [container for container in containers if container["state"] in states]
    return {"containers": containers}


@FIGURES.question("/physicalPlan/containers/{id}", _CONTAINER_ID)
def _container(call: Call) -> ContainerAnswer:
    """A container."""
    return found(call.watch.container, call["id"])


@FIGURES.question("/physicalPlan/containers/{id}/stackTrace", _CONTAINER_ID)
def _stack_trace(call: Call) -> StackTraceAnswer:
    """Where a container's thread is: `stack` as its last heartbeat said.

    `fresh` is as of now, where that can be had: its process may take a second.
    """
    container = found(call.watch.container, call["id"])
    host, pid = container["host"], container["pid"]
    fresh = call.stack_of(host, pid) if call.stack_of and host is not None and pid is not None else None
    return {
        "id": container["id"],
        "host": host,
        "pid": pid,
        "lastHeartbeat": container["lastHeartbeat"],
        "stack": container["stack"],
        "fresh": fresh,
    }


@FIGURES.question("/physicalPlan/streams")
def _streams(call: Call) -> StreamsAnswer:
    """All physical streams."""
    return {"streams": call.watch.streams()}


@FIGURES.question("/latency", query=(_WINDOW, REGION))
def _latency(call: Call) -> LatencyAnswer:
    """The latencies of all operators in a window, with averages and percentiles."""
    return found(answers_of(call).latency, call.get("windowId"))


@FIGURES.question("/criticalPath", query=(_WINDOW, REGION))
def _critical_path(call: Call) -> CriticalPathAnswer:
    """The critical path of a window, the slack of operators off it, and what the window waited for."""
    return found(answers_of(call).critical_path, call.get("windowId"))


@FIGURES.question(
    "/recordAge",
    query=(Parameter("operator", "string", "the name or title of an operator; default: all"),),
)
def _record_age(call: Call) -> RecordAgesAnswer:
    """How old records were over the last minute, by operator and place."""
    return found(call.watch.record_age, call.get("operator"))


@FIGURES.question("/progress")
def _progress(call: Call) -> ProgressAnswer:
    """How far the running window and the sources are."""
    return call.watch.progress()


@FIGURES.question("/watermarks")
def _watermarks(call: Call) -> WatermarksAnswer:
    """How far event time has come at each operator, who holds it back, and how many records were late."""
    return call.watch.watermarks()


@FIGURES.question("/history", query=_SPAN)
def _history(call: Call) -> ApplicationHistoryAnswer:
    """The last hours of all windows, with record ages, in steps of a second, ten seconds or a minute."""
    return call.watch.application_history(call.get("from"), call.get("step"))


@FIGURES.question("/marks", query=_last("of the last marks"))
def _marks(call: Call) -> MarksAnswer:
    """What happened: failures, lost slots, changes, decisions, promises broken and kept again."""
    return {"marks": call.watch.marks(call.get("limit"))}


@FIGURES.question("/promises")
def _promises(call: Call) -> PromisesAnswer:
    """What the application has promised: kept or broken, and since when."""
    return {"promises": call.watch.promises()}


@FIGURES.question("/keys", query=(_OPERATOR,), needs_run=True)
def _keys(call: Call) -> KeysAnswer:
    """How tuples are spread over keys.

    The first call begins to count, for a minute after the last one.
    """
    return found(partial(keys_answer, call.run), call.get("operator"))


@FIGURES.question("/lines", query=(_OPERATOR,))
def _lines(call: Call) -> LinesAnswer:
    """Where the Python time of operators goes, by line, over the last minute: an estimate by samples."""
    return found(call.watch.lines, call.get("operator"))


@FIGURES.question("/metrics", query=(_OPERATOR,))
def _metrics(call: Call) -> MetricsAnswer:
    """The metrics that operators declare, as of their last windows."""
    return found(call.watch.own_metrics, call.get("operator"))


@FIGURES.question("/advice")
def _advice(call: Call) -> AdviceAnswer:
    """What would lower latency or raise throughput. The first call begins to keep the figures for it."""
    return advice_answer(call.watch, call.application, call.run)


@FIGURES.question("/debugDump", needs_run=True)
def _debug_dump(call: Call) -> DebugDumpAnswer:
    """The windows in flight and the last events and instructions of the driver, for post-mortems."""
    return call.running.debug_dump()


@FIGURES.question("/decisions", query=_last("of the last decisions"))
def _decisions(call: Call) -> DecisionsAnswer:
    """What policies and listeners have decided, and what came of it."""
    return {"decisions": call.watch.decisions(call.get("limit"))}


@FIGURES.question(
    "/metrics/{name}/{metric}",
    _NAME,
    Parameter("metric", "string", "the name of the metric"),
    query=_last("windows, minutes and hours"),
)
def _metric(call: Call) -> MetricHistoryAnswer:
    """A metric that an operator declares, over the last windows, minutes and hours."""
    return found(partial(call.watch.metric_history, call["name"], call["metric"]), call.get("limit"))


@FIGURES.question(
    "/windows",
    query=(
        Parameter("limit", "integer", "how many windows; default: all that are kept, at most 1,000", 1),
        REGION,
    ),
)
def _windows(call: Call) -> WindowsAnswer:
    """Summaries of the last windows, the newest last."""
    return {"windows": answers_of(call).windows(call.get("limit"))}


@FIGURES.question("/windows/{id}", _WINDOW_ID, query=(REGION,))
def _window(call: Call) -> WindowAnswer:
    """A window with its operators and what it waited for."""
    return found(answers_of(call).window, call["id"])


ENDPOINTS: tuple[Endpoint, ...] = (
    *FIGURES,
    *CHANGES,
    *QUERIES,
    *REGIONS,
    *KEPT,
    *CONFIGURATION,
    *LOG,
)
"""All questions and requests of the web service that have a row."""
