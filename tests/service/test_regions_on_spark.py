"""Regions on Spark: each goes at its own pace, and each tuple comes once."""

from __future__ import annotations

from pathlib import Path

import pytest

from ridgeline import Application, InputPort, Operator, OperatorError, OutputPort
from ridgeline.api.errors import RidgelineError
from ridgeline.engine.driver.run.launch import slot_shares
from ridgeline.plan import plan_application
from ridgeline.service.history.tail import read_event_log
from ridgeline.testing import CollectorSink
from support.service.regions import Number, Numbers
from support.waiting import PATIENCE_SECONDS

pytestmark = [pytest.mark.spark, pytest.mark.slow]


class Gate(Operator):
    """Lets nothing on until a file is there; fails as long as another one is."""

    numbers = InputPort(Number)
    passed = OutputPort(Number)
    folder: str = ""

    @numbers.process
    def take(self, number: Number) -> None:
        while self.folder and not Path(self.folder, "open").exists():
            self.context.clock.wait(0.01)
        if Path(self.folder, "broken").exists():
            raise ValueError("the gate is broken")
        self.passed.emit(number)


def application(folder: Path, most: int = 100) -> Application:
    app = Application("fan", window="10ms")
    numbers = app.add_operator("numbers", Numbers(most=most))
    fast = app.add_operator("fast", CollectorSink(Number))
    gate = app.add_operator("gate", Gate(folder=str(folder)), recovery_attempts=1)
    slow = app.add_operator("slow", CollectorSink(Number))
    app.add_stream("numbers", numbers.output, fast.input, gate.numbers, decoupled={gate.numbers})
    app.add_stream("passed", gate.passed, slow.input)
    return app


def test_a_slow_region_holds_no_other_up(spark_context, tmp_path, wait_until):
    handle = application(tmp_path).start(
        context=spark_context,
        checkpoint=str(tmp_path / "checkpoint"),
        event_log=str(tmp_path / "log.jsonl"),
        quiet=True,
    )
    wait_until(lambda: len(handle.collected("fast")) == 100 or not handle.is_running, "all at the fast sink")
    assert handle.collected("slow") == []
    (tmp_path / "open").touch()
    outcome = handle.wait(PATIENCE_SECONDS)
    assert outcome.ended
    for sink in ("fast", "slow"):
        assert handle.collected(sink) == [Number(value) for value in range(100)]
    for region in ("numbers", "gate"):
        assert list(read_event_log(str(tmp_path / f"log-{region}.jsonl")))


def test_a_region_that_fails_ends_no_other(spark_context, tmp_path, wait_until, capsys):
    (tmp_path / "open").touch()
    (tmp_path / "broken").touch()
    app, checkpoint = application(tmp_path), str(tmp_path / "checkpoint")
    handle = app.start(context=spark_context, checkpoint=checkpoint, port=None)
    with pytest.raises(OperatorError, match="the gate is broken"):
        handle.wait(PATIENCE_SECONDS)
    assert handle.collected("fast") == [Number(value) for value in range(100)]
    assert handle.collected("slow") == []

    (tmp_path / "broken").unlink()
    handle = app.start(context=spark_context, checkpoint=checkpoint, port=None, quiet=True)
    assert handle.wait(PATIENCE_SECONDS).ended
    assert handle.collected("slow") == [Number(value) for value in range(100)]


def test_more_regions_than_spark_has_cores_for(spark_context):
    plan = plan_application(application(Path()))
    with pytest.raises(RidgelineError, match="9 regions need 10 cores"):
        slot_shares(spark_context, [plan] * 9)
    assert slot_shares(spark_context, [plan, plan]) == [1, 1]
