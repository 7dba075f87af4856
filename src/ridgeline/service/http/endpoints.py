"""The questions about figures and plans: a row each, of its path, its answer's type and its description."""

from __future__ import annotations

import platform
from functools import partial
from typing import Annotated, Any

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
from ridgeline.service.http.endpoint import AnswerError, Call, Endpoint, Rows, Within, found, unknown
from ridgeline.service.http.kept import KEPT
from ridgeline.service.http.log import LOG
from ridgeline.service.http.querying import QUERIES
from ridgeline.service.http.regions import REGIONS, answers_of

FIGURES = Rows()

_STATES = ("PENDING", "RUNNING", "IDLE", "SILENT")
Last = Annotated[int | None, Within(1)]
Since = Annotated[int | None, Within(-86_400)]
Step = Annotated[int | None, Within(1, 86_400)]
Id = Annotated[int, Within(0)]
WindowId = Annotated[int | None, Within(0)]


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


@FIGURES.question("/logicalPlan/attributes")
def _application_attributes(call: Call, attribute_name: str | None = None) -> dict[str, Any]:
    """The application's attributes, or one of them.

    Args:
        call: The question.
        attribute_name: the name of an attribute; default: all
    """
    return _selected(call.logical_plan["attributes"], attribute_name, "attribute")


@FIGURES.question("/logicalPlan/operators")
def _logical_operators(call: Call) -> LogicalOperatorsAnswer:
    """All logical operators with the figures of their partitions."""
    return {"operators": _rows(call)}


@FIGURES.question("/logicalPlan/operators/{name}")
def _logical_operator(call: Call, name: str) -> LogicalOperatorAnswer:
    """A logical operator with the figures of its partitions.

    Args:
        call: The question.
        name: the name of a logical operator
    """
    return _rows(call, call.operator(name)["name"])[0]


@FIGURES.question("/logicalPlan/operators/{name}/history")
def _operator_history(call: Call, name: str, from_: Since = None, step: Step = None) -> OperatorHistoryAnswer:
    """The last hours of a logical operator, in steps of a second, ten seconds or a minute.

    Args:
        call: The question.
        name: the name of a logical operator
        from_: seconds since 1970; below 0: before now; default: the last 15 minutes
        step: the least seconds of a step; default: as short as steps are kept so far back
    """
    return found(lambda one: call.watch.operator_history(one, from_, step), name)


@FIGURES.question("/logicalPlan/operators/{name}/ports")
def _ports(call: Call, name: str) -> LogicalPortsAnswer:
    """The ports of a logical operator.

    Args:
        call: The question.
        name: the name of a logical operator
    """
    return {"ports": call.operator(name)["ports"]}


@FIGURES.question("/logicalPlan/operators/{name}/attributes")
def _attributes(call: Call, name: str, attribute_name: str | None = None) -> dict[str, Any]:
    """The attributes of a logical operator, or one of them.

    Args:
        call: The question.
        name: the name of a logical operator
        attribute_name: the name of an attribute; default: all
    """
    return _selected(call.operator(name)["attributes"], attribute_name, "attribute")


@FIGURES.question("/logicalPlan/operators/{name}/properties")
def _properties(call: Call, name: str, property_name: str | None = None) -> dict[str, Any]:
    """The properties of a logical operator, or one of them. Secrets are masked.

    Args:
        call: The question.
        name: the name of a logical operator
        property_name: the name of a property; default: all
    """
    return _selected(call.operator(name)["properties"], property_name, "property")


@FIGURES.question("/physicalPlan")
def _physical_plan(call: Call) -> PhysicalPlanAnswer:
    """All physical operators and the streams between them."""
    return {"operators": call.watch.operators(), "streams": call.watch.streams()}


@FIGURES.question("/physicalPlan/operators")
def _operators(call: Call) -> OperatorsAnswer:
    """All physical operators."""
    return {"operators": call.watch.operators()}


@FIGURES.question("/physicalPlan/operators/{id}")
def _operator(call: Call, id_: Id) -> OperatorAnswer:
    """A physical operator.

    Args:
        call: The question.
        id_: the id of a physical operator, from `/physicalPlan/operators`
    """
    return found(call.watch.operator, id_)


@FIGURES.question("/physicalPlan/containers")
def _containers(call: Call, states: str | None = None) -> ContainersAnswer:
    """All containers, or those in some states.

    Args:
        call: The question.
        states: states, separated by commas: PENDING, RUNNING, IDLE, SILENT
    """
    containers = call.watch.containers()
    if states is not None:
        wanted = {state.strip().upper() for state in states.split(",")}
        for state in sorted(wanted - set(_STATES)):
            what = f"`states` has `{state[:100]}`, which is no state of containers"
            raise AnswerError(400, what, did_you_mean(state, _STATES))
        containers = [container for container in containers if container["state"] in wanted]
    return {"containers": containers}


@FIGURES.question("/physicalPlan/containers/{id}")
def _container(call: Call, id_: Id) -> ContainerAnswer:
    """A container.

    Args:
        call: The question.
        id_: the id of a container, from `/physicalPlan/containers`
    """
    return found(call.watch.container, id_)


@FIGURES.question("/physicalPlan/containers/{id}/stackTrace")
def _stack_trace(call: Call, id_: Id) -> StackTraceAnswer:
    """Where a container's thread is: `stack` as its last heartbeat said.

    `fresh` is as of now, where that can be had: its process may take a second.

    Args:
        call: The question.
        id_: the id of a container, from `/physicalPlan/containers`
    """
    container = found(call.watch.container, id_)
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


@FIGURES.question("/latency")
def _latency(call: Call, window_id: WindowId = None, region: str | None = None) -> LatencyAnswer:
    """The latencies of all operators in a window, with averages and percentiles.

    Args:
        call: The question.
        window_id: the id of a committed window, from `/windows`; default: the last
        region: the name of a region, from `/regions`; default: all of them
    """
    return found(answers_of(call, region).latency, window_id)


@FIGURES.question("/criticalPath")
def _critical_path(call: Call, window_id: WindowId = None, region: str | None = None) -> CriticalPathAnswer:
    """The critical path of a window, the slack of operators off it, and what the window waited for.

    Args:
        call: The question.
        window_id: the id of a committed window, from `/windows`; default: the last
        region: the name of a region, from `/regions`; default: all of them
    """
    return found(answers_of(call, region).critical_path, window_id)


@FIGURES.question("/recordAge")
def _record_age(call: Call, operator: str | None = None) -> RecordAgesAnswer:
    """How old records were over the last minute, by operator and place.

    Args:
        call: The question.
        operator: the name or title of an operator; default: all
    """
    return found(call.watch.record_age, operator)


@FIGURES.question("/progress")
def _progress(call: Call) -> ProgressAnswer:
    """How far the running window and the sources are."""
    return call.watch.progress()


@FIGURES.question("/watermarks")
def _watermarks(call: Call) -> WatermarksAnswer:
    """How far event time has come at each operator, who holds it back, and how many records were late."""
    return call.watch.watermarks()


@FIGURES.question("/history")
def _history(call: Call, from_: Since = None, step: Step = None) -> ApplicationHistoryAnswer:
    """The last hours of all windows, with record ages, in steps of a second, ten seconds or a minute.

    Args:
        call: The question.
        from_: seconds since 1970; below 0: before now; default: the last 15 minutes
        step: the least seconds of a step; default: as short as steps are kept so far back
    """
    return call.watch.application_history(from_, step)


@FIGURES.question("/marks")
def _marks(call: Call, limit: Last = None) -> MarksAnswer:
    """What happened: failures, lost slots, changes, decisions, promises broken and kept again.

    Args:
        call: The question.
        limit: how many of the last marks; default: all
    """
    return {"marks": call.watch.marks(limit)}


@FIGURES.question("/promises")
def _promises(call: Call) -> PromisesAnswer:
    """What the application has promised: kept or broken, and since when."""
    return {"promises": call.watch.promises()}


@FIGURES.question("/keys", needs_run=True)
def _keys(call: Call, operator: str | None = None) -> KeysAnswer:
    """How tuples are spread over keys.

    The first call begins to count, for a minute after the last one.

    Args:
        call: The question.
        operator: the name of a logical operator; default: all
    """
    return found(partial(keys_answer, call.run), operator)


@FIGURES.question("/lines")
def _lines(call: Call, operator: str | None = None) -> LinesAnswer:
    """Where the Python time of operators goes, by line, over the last minute: an estimate by samples.

    Args:
        call: The question.
        operator: the name of a logical operator; default: all
    """
    return found(call.watch.lines, operator)


@FIGURES.question("/metrics")
def _metrics(call: Call, operator: str | None = None) -> MetricsAnswer:
    """The metrics that operators declare, as of their last windows.

    Args:
        call: The question.
        operator: the name of a logical operator; default: all
    """
    return found(call.watch.own_metrics, operator)


@FIGURES.question("/advice")
def _advice(call: Call) -> AdviceAnswer:
    """What would lower latency or raise throughput. The first call begins to keep the figures for it."""
    return advice_answer(call.watch, call.application, call.run)


@FIGURES.question("/debugDump", needs_run=True)
def _debug_dump(call: Call) -> DebugDumpAnswer:
    """The windows in flight and the last events and instructions of the driver, for post-mortems."""
    return call.running.debug_dump()


@FIGURES.question("/decisions")
def _decisions(call: Call, limit: Last = None) -> DecisionsAnswer:
    """What policies and listeners have decided, and what came of it.

    Args:
        call: The question.
        limit: how many of the last decisions; default: all
    """
    return {"decisions": call.watch.decisions(limit)}


@FIGURES.question("/metrics/{name}/{metric}")
def _metric(call: Call, name: str, metric: str, limit: Last = None) -> MetricHistoryAnswer:
    """A metric that an operator declares, over the last windows.

    Args:
        call: The question.
        name: the name of a logical operator
        metric: the name of the metric
        limit: how many windows; default: all
    """
    return found(partial(call.watch.metric_history, name, metric), limit)


@FIGURES.question("/windows")
def _windows(call: Call, limit: Last = None, region: str | None = None) -> WindowsAnswer:
    """Summaries of the last windows, the newest last.

    Args:
        call: The question.
        limit: how many windows; default: all that are kept, at most 1,000
        region: the name of a region, from `/regions`; default: all of them
    """
    return {"windows": answers_of(call, region).windows(limit)}


@FIGURES.question("/windows/{id}")
def _window(call: Call, id_: Id, region: str | None = None) -> WindowAnswer:
    """A window with its operators and what it waited for.

    Args:
        call: The question.
        id_: the id of a committed window, from `/windows`
        region: the name of a region, from `/regions`; default: all of them
    """
    return found(answers_of(call, region).window, id_)


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
