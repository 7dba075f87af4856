"""Answers as Arrow tables, for notebooks: one row an operator, step or window.

Columns are the fields of the answers in snake_case with units, in their order. Fields that hold objects, such
as counts by port, are none. Times of day are timestamps in UTC; an infinite remaining time is an infinite
number; null is what is not known.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from types import NoneType, UnionType
from typing import Any, get_args, get_origin, get_type_hints

import pyarrow as pa
from typing_extensions import is_typeddict

from ridgeline.measure.answers.history import (
    ApplicationHistoryAnswer,
    ApplicationStepAnswer,
    OperatorHistoryAnswer,
    OperatorStepAnswer,
)
from ridgeline.measure.answers.progress import (
    EstimateAnswer,
    OperatorProgressAnswer,
    ProgressAnswer,
    SourceAnswer,
)
from ridgeline.measure.answers.windows import (
    CriticalPathAnswer,
    LatencyAnswer,
    OperatorLatencyAnswer,
    PathStepAnswer,
)

_COUNT, _NUMBER = pa.int64(), pa.float64()
_PLAIN: Mapping[Any, pa.DataType] = {
    str: pa.string(),
    int: _COUNT,
    float: _NUMBER,
    bool: pa.bool_(),
    EstimateAnswer: _NUMBER,
}
_TIME = pa.timestamp("us", tz="UTC")
_TIMES = frozenset({"at", "since", "start"})
"""Fields with times of day, if they hold numbers; so do all that end in `At`."""
_NAMES = {"secondsSpent": "spent_seconds", "oldest": "oldest_seconds"}
_Columns = Sequence[tuple[str, str, pa.DataType]]
"""The name of each column, the field of the answer, the type."""


@cache
def _columns(answer: type, fields: tuple[str, ...] = ()) -> _Columns:
    """The columns of an answer, or of these fields of it; of an estimate also what it is based on."""
    found: list[tuple[str, str, pa.DataType]] = []
    for field, hint in get_type_hints(answer).items():
        kind = _arrow(hint)
        if kind is None or (fields and field not in fields):
            continue
        if field == "region" and answer is not ApplicationStepAnswer:
            continue
        if kind in {_COUNT, _NUMBER} and (field in _TIMES or field.endswith("At")):
            kind = _TIME
        name = _NAMES.get(field, re.sub("(?=[A-Z])", "_", field).lower())
        found.append((name, field, kind))
        if hint is EstimateAnswer and not fields:
            found.append((f"{name.removesuffix('_seconds')}_basis", f"{field}.basis", pa.string()))
    return found


def _arrow(hint: Any) -> pa.DataType | None:
    """The type of a field's column; None of objects."""
    if get_origin(hint) is UnionType:
        hint = next(one for one in get_args(hint) if one is not NoneType)
    if get_origin(hint) is list:
        of = _arrow(get_args(hint)[0])
        return None if of is None else pa.list_(of)
    if is_typeddict(hint) and hint is not EstimateAnswer:
        return pa.struct({name: _arrow(one) for name, one in get_type_hints(hint).items()})
    return _PLAIN.get(hint)


_ID = (("window_id", "windowId", _COUNT),)
_OF_SOURCES = ("backlogRecords", "backlogSeconds", "oldest", "verdict", "caughtUpAt")


def table_of(answer: type, rows: Iterable[Any]) -> pa.Table:
    """A row for each of these answers."""
    return _table(rows, _columns(answer))


def latency_table(answer: LatencyAnswer) -> pa.Table:
    """Latencies of a window, a row a physical operator."""
    columns = (*_ID, *_columns(OperatorLatencyAnswer))
    return _table(answer["operators"], columns, windowId=answer["windowId"])


def critical_path_table(answer: CriticalPathAnswer) -> pa.Table:
    """The critical path of a window, a row a step from the input on.

    `share`: in which part of the last windows it was on the path.
    """
    steps = [
        {**step, "step": number, "share": answer["share"].get(step["operator"])}
        for number, step in enumerate(answer["path"], 1)
    ]
    own = (("step", "step", _COUNT), *_columns(PathStepAnswer), ("share", "share", _NUMBER))
    return _table(steps, (*_ID, *own), windowId=answer["windowId"])


def progress_table(answer: ProgressAnswer) -> pa.Table:
    """How far the running window is, a row a physical operator; sources have their backlog beside it."""
    sources = {source["operator"]: source for source in answer["sources"]}
    rows = ({**sources.get(row["operator"], {}), **row} for row in answer["operators"])
    columns = (*_ID, *_columns(OperatorProgressAnswer), *_columns(SourceAnswer, _OF_SOURCES))
    return _table(rows, columns, windowId=answer["windowId"])


def history_table(answer: OperatorHistoryAnswer | ApplicationHistoryAnswer) -> pa.Table:
    """The last hours, a row a step, the newest last. Of the application `ages` has a list for each."""
    return table_of(OperatorStepAnswer if "operator" in answer else ApplicationStepAnswer, answer["steps"])


def _table(rows: Iterable[Mapping[str, object]], columns: _Columns, **more: object) -> pa.Table:
    rows = [{**row, **more} for row in rows]
    return pa.table(
        {name: pa.array([_value(row, field, kind) for row in rows], kind) for name, field, kind in columns}
    )


def _value(row: Mapping[str, Any], field: str, kind: pa.DataType) -> Any:
    """A field's value in its column's type. Of an estimate its number or, for `.basis`, its basis."""
    name, _, basis = field.partition(".")
    value = row.get(name)
    if isinstance(value, Mapping) and kind in {_NUMBER, pa.string()}:
        if basis:
            return value["basis"]
        return math.inf if value.get("infinite") else value["value"]
    return round(value * 1_000_000) if value is not None and kind == _TIME else value
