"""Operators in modules have dots in their names, wherever they are named."""

import re
from typing import NamedTuple

import pytest
from prometheus_client.parser import text_string_to_metric_families as parse_text

from ridgeline import Application, InputOperator, InputPort, Module, Operator, OutputPort, State
from ridgeline.operators import Filter
from ridgeline.testing import CollectorSink, run_local
from support.service.watched import serving, watched


class Number(NamedTuple):
    value: int


class Count(InputOperator):
    out = OutputPort(Number)

    limit: int = 3

    at = State(0)

    def emit_tuples(self) -> None:
        self.at += 1
        self.out.emit(Number(self.at))
        if self.at == self.limit:
            self.finish()


class Halve(Operator):
    data = InputPort(Number)
    half = OutputPort(Number)

    by: int = 2

    @data.process
    def halve(self, number: Number) -> None:
        self.half.emit(Number(number.value // self.by))


class Inner(Module):
    numbers = OutputPort(Number)

    def populate(self, app: Application) -> None:
        count = app.add_operator("count", Count())
        some = app.add_operator("some", Filter[Number](lambda number: number.value > 0))
        app.add_stream("all", count.out, some.data)
        self.numbers.connect(some.output)


class Outer(Module):
    halves = OutputPort(Number)

    def populate(self, app: Application) -> None:
        inner = app.add_module("inner", Inner())
        halve = app.add_operator("halve", Halve(), partitions=2)
        app.add_stream("some", inner.numbers, halve.data)
        self.halves.connect(halve.half)


def nested() -> Application:
    app = Application("nested", window="1s")
    outer = app.add_module("outer", Outer())
    sink = app.add_operator("sink", CollectorSink(Number))
    app.add_stream("halves", outer.halves, sink.input)
    return app


NAMES = {"outer.inner.count", "outer.inner.some", "outer.halve", "sink"}


@pytest.mark.guide("004", "Hierarchical Operators")
def test_rest_and_metrics_name_operators_in_modules():
    watch, plan, _, _ = watched(nested())
    with serving(watch, plan) as client:
        shown = {one["name"]: one["module"] for one in client.get("/logicalPlan")["operators"]}
        assert shown.keys() == NAMES
        assert shown["outer.inner.count"] == "outer.inner"
        count = client.get("/logicalPlan/operators/outer.inner.count")
        assert count["name"] == "outer.inner.count"
        assert count["totalTuplesEmitted"] == 3
        assert client.get("/logicalPlan/operators/outer.halve/ports")["ports"][0]["name"] == "data"
        status, _, body = client.ask("/ws/v2/stram/logicalPlan/operators/outer.inner.cuont")
        assert (status, b"did you mean `outer.inner.count`?" in body) == (404, True)
        path = {re.split(r"[#\[]", one["operator"])[0] for one in client.get("/criticalPath")["path"]}
        assert path <= {*NAMES, "outer.halve.half"}
        _, _, body = client.ask("/metrics")
        labels = {
            sample.labels["operator"]
            for family in parse_text(body.decode())
            for sample in family.samples
            if "operator" in sample.labels
        }
        assert labels >= NAMES


def test_lists_play_inputs_in_modules():
    run = run_local(nested(), inputs={"outer.inner.count": [(8,), (0,), (6,)]})
    assert sorted(run.collected("sink")) == [Number(3), Number(4)]
    assert sorted(run_local(nested()).collected("sink")) == [Number(0), Number(1), Number(1)]
    assert run.tuples_in("outer.halve") == 2
    assert {name.partition("[")[0] for name in run.latency()["operator"].to_pylist()} >= NAMES
