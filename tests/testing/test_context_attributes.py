"""Operators read their attributes: `self.context.attributes`."""

from __future__ import annotations

from typing import Any

import pytest

from ridgeline import Application, InputPort, Operator, OutputPort, ProcessingMode
from ridgeline.testing import CollectorSink, ListInput, run_local


class Tell(Operator):
    data = InputPort(object)
    told = OutputPort(object)

    @data.process
    def tell(self, value: Any) -> None:
        context = self.context
        self.told.emit((context.attributes[value], context.port_attributes["data"]["queue_capacity"]))
        self.told.emit(context.processing_mode)


@pytest.mark.guide("002", "Attributes")
def test_an_operator_reads_its_attributes() -> None:
    app = Application("app", recovery_attempts=7)
    source = app.add_operator("source", ListInput(object, ["recovery_attempts"]))
    tell = app.add_operator("tell", Tell(), processing_mode="EXACTLY_ONCE")
    sink = app.add_operator("sink", CollectorSink(object))
    app.set_attribute(tell.data, queue_capacity=5)
    app.add_stream("asked", source.output, tell.data)
    app.add_stream("told", tell.told, sink.input)
    assert run_local(app).collected("sink") == [(7, 5), ProcessingMode.EXACTLY_ONCE]
