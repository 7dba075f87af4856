"""Repairs of state: who may look for what is missing."""

import pytest

from ridgeline import Application
from ridgeline.api.errors import FencedError
from ridgeline.engine.driver.checkpoint.folder import Checkpoint
from ridgeline.engine.driver.checkpoint.state_repair import StateRepair
from ridgeline.engine.files.storage import MemoryStorage
from ridgeline.plan.planner import plan_application
from ridgeline.testing import CollectorSink, ListInput


def test_a_driver_that_lost_the_checkpoint_says_so_and_not_that_files_are_missing():
    app = Application("app")
    source, sink = (
        app.add_operator("source", ListInput(object, [1])),
        app.add_operator("sink", CollectorSink()),
    )
    app.add_stream("numbers", source.output, sink.input)
    storage = MemoryStorage()
    checkpoint = Checkpoint(storage, "app")
    repair = StateRepair(plan_application(app), checkpoint)
    assert repair.repair({}) == []
    Checkpoint(storage, "app")
    with pytest.raises(FencedError, match="was taken over by another driver"):
        repair.repair({0: ("000000000000-c0-e1-r0-t0",)})
