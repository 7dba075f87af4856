"""The steps of streams that predict by models."""

from __future__ import annotations

from typing import Any, NamedTuple

import pyarrow as pa
import pytest

from ridgeline import Application, ValidationError
from ridgeline.operators import ModelOperator
from ridgeline.plan.planner import plan_application
from ridgeline.plan.show.text import describe
from ridgeline.testing import CollectorSink, ListInput, run_local


class Row(NamedTuple):
    name: str
    a: float


class Scored(NamedTuple):
    name: str
    a: float
    score: float


ROWS = [Row("x", 1.0), Row("y", 2.5)]


def twice(rows: pa.RecordBatch) -> Any:
    return rows["a"].to_numpy() * 2


def test_the_step_is_the_operator() -> None:
    app = Application("steps")
    scored = app.read("rows", ListInput(Row, ROWS)).predict("scored", twice, ["a"], "score", partitions=2)
    sink = scored.write("sink", CollectorSink(Scored))
    assert run_local(app).collected("sink") == [Scored("x", 1.0, 2.0), Scored("y", 2.5, 5.0)]

    long = Application("steps")
    source = long.add_operator("rows", ListInput(Row, ROWS))
    operator = long.add_operator("scored", ModelOperator(twice, ["a"], "score"), partitions=2)
    sink = long.add_operator("sink", CollectorSink(Scored))
    long.add_stream("rows", source.output, operator.input)
    long.add_stream("scored", operator.output, sink.input)
    assert describe(plan_application(app)) == describe(plan_application(long))


def test_a_fault_names_the_step_the_column_and_the_remedy() -> None:
    app = Application("steps")
    app.read("rows", ListInput(Row, ROWS)).predict("scored", twice, ["b"]).write("sink", CollectorSink())
    with pytest.raises(ValidationError, match=r"scored.*`features` names `b`.*known are `a`, `name`"):
        run_local(app)
