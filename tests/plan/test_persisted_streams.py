"""Persisted streams: what writes a stream down is one more sink, added with it."""

from __future__ import annotations

from typing import NamedTuple

from ridgeline import Application
from ridgeline.operators import ConsoleOutput, FileOutput
from ridgeline.plan import plan_application, validate
from ridgeline.plan.show.to_json import to_dict
from ridgeline.plan.spec.writer import specification_of
from ridgeline.plan.specification import read_specification
from ridgeline.testing import CollectorSink, ListInput


class Number(NamedTuple):
    value: int


def test_plans_say_what_only_writes_a_stream_down() -> None:
    app = Application("numbers")
    source = app.add_operator("source", ListInput(Number, [(1,)]), partitions=2)
    sink = app.add_operator("sink", CollectorSink(Number), partitions=2)
    app.add_stream("numbers", source.output, sink.input, persist=FileOutput("folder"))
    app.set_attribute(sink.input, partition_parallel=True)
    app.set_attribute("numbers", locality="THREAD_LOCAL")  # of the sinks, not of what writes it down
    logical = validate(app)
    assert [str(port) for port in logical.streams[0].persisted] == ["numbers_persisted.input"]
    [stream] = to_dict(plan_application(app))["logical"]["streams"]
    assert stream["persisted"] == [{"operatorName": "numbers_persisted", "portName": "input"}]
    assert stream["locality"] == "THREAD_LOCAL"
    assert stream["localities"] == ["THREAD_LOCAL", None]


def test_specifications_persist_streams() -> None:
    writer = {"class": "ridgeline.operators.FileOutput", "properties": {"path": "/folder"}}
    document = {
        "application": "dice",
        "operators": {
            "dice": {"class": "ridgeline.operators.RandomEventGenerator"},
            "more": {"class": "ridgeline.operators.RandomEventGenerator"},
            "sink": {"class": "ridgeline.operators.ConsoleOutput"},
            "other": {"class": "ridgeline.operators.ConsoleOutput"},
        },
        "streams": {
            "rolls": {
                "from": "dice.integer_data",
                "to": "sink.input",
                "persist": writer | {"attributes": {"memory_mb": 77}},
            },
            "texts": {"from": "more.integer_data", "persist": "other.input", "to": []},
        },
    }
    app = read_specification(document, "dice")
    plan = validate(app)
    assert [str(port) for stream in plan.streams for port in stream.persisted] == [
        "rolls_persisted.input",
        "other.input",
    ]
    assert plan.operator("rolls_persisted").attributes["memory_mb"] == 77
    assert isinstance(plan.operator("other").operator, ConsoleOutput)
    again = validate(read_specification(specification_of(app), "dice"))
    assert [operator.name for operator in again.operators] == [operator.name for operator in plan.operators]
