"""Answers as Arrow tables, for notebooks: one row an operator, step or window.

Columns are snake_case with units.

Of each table a list says which field of the answer becomes which column. Times of day are timestamps in UTC;
an infinite remaining time is an infinite number; null is what is not known.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pyarrow as pa

from ridgeline.api.errors import shorten
from ridgeline.measure.answers.changes import DecisionAnswer, PromiseAnswer
from ridgeline.measure.answers.history import ApplicationHistoryAnswer, OperatorHistoryAnswer
from ridgeline.measure.answers.operators import MetricHistoryAnswer, MetricsAnswer, RecordAgesAnswer
from ridgeline.measure.answers.progress import ProgressAnswer
from ridgeline.measure.answers.windows import CriticalPathAnswer, LatencyAnswer, WindowSummaryAnswer
from ridgeline.measure.registry.operators import LATENCY_METRICS

_TEXT, _COUNT, _NUMBER, _YES = pa.string(), pa.int64(), pa.float64(), pa.bool_()
_TIME = pa.timestamp("us", tz="UTC")
_Columns = Sequence[tuple[str, str, pa.DataType]]


def _snake(name: str) -> str:
    """A camelCase name in snake_case."""
    return re.sub("(?=[A-Z])", "_", name).lower()


_LATENCY: _Columns = (
    ("operator", "operator", _TEXT),
    ("id", "id", _COUNT),
    ("name", "name", _TEXT),
    ("latency_ms", "latencyMs", _NUMBER),
    ("compute_ms", "computeMs", _NUMBER),
    ("cpu_ms", "cpuMs", _NUMBER),
    ("wait_ms", "waitMs", _NUMBER),
    ("transfer_ms", "transferMs", _NUMBER),
    ("average_ms", "averageMs", _NUMBER),
    ("p50_ms", "p50Ms", _NUMBER),
    ("p99_ms", "p99Ms", _NUMBER),
    *((_snake(row.name), row.name, _COUNT if row.type is int else _NUMBER) for row in LATENCY_METRICS),
    ("estimated", "estimated", _YES),
)
_SPAN: _Columns = (
    ("at", "at", _TIME),
    ("seconds", "seconds", _NUMBER),
    ("windows", "windows", _COUNT),
    ("latency_ms", "latencyMs", _NUMBER),
)
_OPERATOR_STEP: _Columns = (
    *_SPAN,
    ("greatest_ms", "greatestMs", _NUMBER),
    ("compute_ms", "computeMs", _NUMBER),
    ("wait_ms", "waitMs", _NUMBER),
    ("transfer_ms", "transferMs", _NUMBER),
    ("tuples_in", "tuplesIn", _NUMBER),
    ("tuples_out", "tuplesOut", _NUMBER),
    ("queue", "queue", _NUMBER),
    ("greatest_queue", "greatestQueue", _NUMBER),
    ("errors", "errors", _COUNT),
    ("late", "late", _COUNT),
    ("state_bytes", "stateBytes", _NUMBER),
    ("on_path", "onPath", _NUMBER),
    ("age_ms", "ageMs", _NUMBER),
    ("greatest_age_ms", "greatestAgeMs", _NUMBER),
)
_AGES = pa.struct({"operator": _TEXT, "ageMs": _NUMBER, "greatestAgeMs": _NUMBER})
_APPLICATION_STEP: _Columns = (
    *_SPAN,
    ("p99_ms", "p99Ms", _NUMBER),
    ("greatest_ms", "greatestMs", _NUMBER),
    ("late_ms", "lateMs", _NUMBER),
    ("tuples_in", "tuplesIn", _NUMBER),
    ("tuples_out", "tuplesOut", _NUMBER),
    ("ages", "ages", pa.list_(_AGES)),
    ("region", "region", _TEXT),
)
_PROMISE: _Columns = (
    ("promise", "promise", _TEXT),
    ("kind", "kind", _TEXT),
    ("operator", "operator", _TEXT),
    ("kept", "kept", _YES),
    ("since", "since", _TIME),
    ("figure", "figure", _NUMBER),
    ("limit", "limit", _NUMBER),
    ("unit", "unit", _TEXT),
    ("broken_seconds", "brokenSeconds", _NUMBER),
    ("times_broken", "timesBroken", _COUNT),
)
_DECISION: _Columns = (
    ("id", "id", _COUNT),
    ("by", "by", _TEXT),
    ("state", "state", _TEXT),
    ("what", "what", _TEXT),
    ("note", "note", _TEXT),
    ("expected", "expected", _TEXT),
    ("found", "found", _TEXT),
    ("change", "change", _COUNT),
    ("undoes", "undoes", _COUNT),
    ("at", "at", _TIME),
    ("since", "since", _TIME),
)
_PATH: _Columns = (
    ("operator", "operator", _TEXT),
    ("id", "id", _COUNT),
    ("latency_ms", "latencyMs", _NUMBER),
    ("compute_ms", "computeMs", _NUMBER),
    ("cpu_ms", "cpuMs", _NUMBER),
    ("transfer_ms", "transferMs", _NUMBER),
    ("share", "share", _NUMBER),
)
_AGE: _Columns = (
    ("operator", "operator", _TEXT),
    ("id", "id", _COUNT),
    ("at", "at", _TEXT),
    ("level", "level", _TEXT),
    ("min_ms", "minMs", _NUMBER),
    ("max_ms", "maxMs", _NUMBER),
    ("avg_ms", "avgMs", _NUMBER),
    ("p50_ms", "p50Ms", _NUMBER),
    ("p90_ms", "p90Ms", _NUMBER),
    ("p99_ms", "p99Ms", _NUMBER),
    ("p999_ms", "p999Ms", _NUMBER),
    ("oldest_ms", "oldestMs", _NUMBER),
    ("count", "count", _COUNT),
    ("negative", "negative", _COUNT),
)
_PROGRESS: _Columns = (
    ("operator", "operator", _TEXT),
    ("id", "id", _COUNT),
    ("state", "state", _TEXT),
    ("consumed", "consumed", _NUMBER),
    ("queued", "queued", _NUMBER),
    ("active", "active", _NUMBER),
    ("produced", "produced", _NUMBER),
    ("spent_seconds", "secondsSpent", _NUMBER),
    ("input_remaining", "inputRemaining", _NUMBER),
    ("input_remaining_basis", "inputRemaining.basis", _TEXT),
    ("remaining_seconds", "remainingSeconds", _NUMBER),
    ("remaining_basis", "remainingSeconds.basis", _TEXT),
)
_SOURCE: _Columns = (
    ("backlog_records", "backlogRecords", _NUMBER),
    ("backlog_seconds", "backlogSeconds", _NUMBER),
    ("oldest_seconds", "oldest", _NUMBER),
    ("verdict", "verdict", _TEXT),
    ("caught_up_at", "caughtUpAt", _TIME),
)
_WINDOW: _Columns = (
    ("window_id", "windowId", _COUNT),
    ("plan_version", "planVersion", _COUNT),
    ("attempts", "attempts", _COUNT),
    ("triggered_at", "triggeredAt", _TIME),
    ("committed_at", "committedAt", _TIME),
    ("latency_ms", "latencyMs", _NUMBER),
    ("late_ms", "lateMs", _NUMBER),
    ("critical_path_ms", "criticalPathMs", _NUMBER),
    ("path", "path", pa.list_(_TEXT)),
    ("tuples_in", "tuplesIn", _COUNT),
    ("tuples_out", "tuplesOut", _COUNT),
)
_OWN: _Columns = (
    ("operator", "operator", _TEXT),
    ("metric", "metric", _TEXT),
    ("kind", "kind", _TEXT),
    ("aggregate", "aggregate", _TEXT),
    ("unit", "unit", _TEXT),
    ("window_id", "windowId", _COUNT),
    ("at", "at", _TIME),
    ("value", "value", _NUMBER),
    ("total", "total", _NUMBER),
    ("partitions", "partitions", pa.list_(_NUMBER)),
    ("problem", "problem", _TEXT),
)
_OWN_WINDOW: _Columns = (("window_id", "windowId", _COUNT), ("at", "at", _TIME), ("value", "value", _NUMBER))
_OWN_PERIOD: _Columns = (
    ("start", "start", _TIME),
    ("windows", "windows", _COUNT),
    *((name, name, _NUMBER) for name in ("sum", "min", "max", "mean", "first", "last")),
)
_ID: _Columns = (("window_id", "windowId", _COUNT),)
_STEP: _Columns = (("step", "step", _COUNT),)


def latency_table(answer: LatencyAnswer) -> pa.Table:
    """Latencies of a window, a row a physical operator."""
    return _table(answer["operators"], (*_ID, *_LATENCY), windowId=answer["windowId"])


def critical_path_table(answer: CriticalPathAnswer) -> pa.Table:
    """The critical path of a window, a row a step from the input on.

    `share`: in which part of the last windows it was on the path.
    """
    steps = [
        {**step, "step": number, "share": answer["share"].get(step["operator"])}
        for number, step in enumerate(answer["path"], 1)
    ]
    return _table(steps, (*_ID, *_STEP, *_PATH), windowId=answer["windowId"])


def record_age_table(answer: RecordAgesAnswer) -> pa.Table:
    """Record ages of the last minute, a row an operator and place."""
    return _table(answer["operators"], _AGE)


def progress_table(answer: ProgressAnswer) -> pa.Table:
    """How far the running window is, a row a physical operator; sources have their backlog beside it."""
    sources = {source["operator"]: source for source in answer["sources"]}
    rows = (
        {**{name: None for _, name, _ in _SOURCE}, **sources.get(row["operator"], {}), **row}
        for row in answer["operators"]
    )
    return _table(rows, (*_ID, *_PROGRESS, *_SOURCE), windowId=answer["windowId"])


def decisions_table(answer: Iterable[DecisionAnswer]) -> pa.Table:
    """A row for each decision of a policy or a listener."""
    return _table(answer, _DECISION)


def promises_table(answer: Iterable[PromiseAnswer]) -> pa.Table:
    """A row for each promise."""
    return _table(answer, _PROMISE)


def windows_table(answer: Iterable[WindowSummaryAnswer]) -> pa.Table:
    """The windows that are kept, a row a window, the newest last."""
    return _table(answer, _WINDOW)


def own_metrics_table(answer: MetricsAnswer) -> pa.Table:
    """The metrics that operators declare, a row each."""
    return _table(answer["metrics"], _OWN)


def metric_history_table(answer: MetricHistoryAnswer, by: str) -> pa.Table:
    """A metric over time, a row for each of its `windows`, `minutes` or `hours`. Raises ValueError."""
    if by == "windows":
        return _table(answer["windows"], _OWN_WINDOW)
    if by in {"minutes", "hours"}:
        return _table(answer["minutes"] if by == "minutes" else answer["hours"], _OWN_PERIOD)
    raise ValueError(f"`by` is a unit of time; got `{shorten(by)}`; give `windows`, `minutes` or `hours`")


def history_table(answer: OperatorHistoryAnswer | ApplicationHistoryAnswer) -> pa.Table:
    """The last hours, a row a step, the newest last. Of the application `ages` has a list for each."""
    return _table(answer["steps"], _OPERATOR_STEP if "operator" in answer else _APPLICATION_STEP)


def _table(rows: Iterable[Mapping[str, object]], columns: _Columns, **more: object) -> pa.Table:
    rows = [{**row, **more} for row in rows]
    return pa.table(
        {name: pa.array([_value(row, field, kind) for row in rows], kind) for name, field, kind in columns}
    )


def _value(row: Mapping[str, Any], field: str, kind: pa.DataType) -> Any:
    """A field's value in its column's type.

    Of an estimate its number or, for `.basis`, its basis; of numbers by port their sum.
    """
    name, _, basis = field.partition(".")
    value = row.get(name)
    if basis:
        return value.get(basis) if isinstance(value, Mapping) else None
    if isinstance(value, Mapping) and kind == _NUMBER:
        if "basis" in value:
            return math.inf if value.get("infinite") else value["value"]
        return float(sum(value.values()))
    if value is not None and kind == _TIME:
        return round(value * 1_000_000)
    return value
