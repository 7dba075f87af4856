"""Where the Python time goes, by line, of an application on Spark: beside the processor's own clock."""

from __future__ import annotations

import json
import time
from collections import Counter

import pytest
from typer.testing import CliRunner

from ridgeline import Application, InputPort, Operator, OutputPort
from ridgeline.cli.main import app as command
from ridgeline.testing import CollectorSink
from support.service.live import Number, Numbers
from support.waiting import wait_until

pytestmark = [pytest.mark.spark]


class Uneven(Operator):
    """Spends three times as long in one function as in the other, by its thread's processor clock."""

    input = InputPort(Number)
    output = OutputPort(Number)

    @input.process
    def take(self, number: Number) -> None:
        long()
        short()
        self.output.emit(number)


def long() -> None:
    end = time.thread_time() + 0.0015
    while time.thread_time() < end:
        pass


def short() -> None:
    end = time.thread_time() + 0.0005
    while time.thread_time() < end:
        pass


def test_the_lines_of_an_operator_and_its_part_of_the_path(tmp_path, monkeypatch):
    monkeypatch.setenv("RIDGELINE_HOME", str(tmp_path / "home"))
    app = Application("live", window="50ms")
    numbers = app.add_operator("numbers", Numbers())
    uneven = app.add_operator("uneven", Uneven())
    sink = app.add_operator("sink", CollectorSink(Number))
    app.add_stream("numbers", numbers.output, uneven.input)
    app.add_stream("uneven", uneven.output, sink.input)
    with app.start("local[2]", checkpoint=str(tmp_path / "checkpoint"), quiet=True) as handle:
        assert CliRunner().invoke(command, ["lines", handle.url]).stdout.startswith("no samples yet")
        wait_until(lambda: handle.watch.lines("uneven")["operators"], "lines")
        first, *_ = handle.watch.lines()["operators"]
        assert first["operator"] == "uneven"
        functions = Counter()
        for line in first["lines"]:
            functions[line["function"]] += line["share"]
        assert sum(functions.values()) == pytest.approx(1)
        assert functions["long"] > functions["short"] > 0
        assert functions["long"] + functions["short"] > 0.5
        assert any("thread_time" in line["text"] for line in first["lines"])
        assert first["lines"][0]["ofPath"] > 0
        shown = CliRunner().invoke(command, ["lines", handle.url, "uneven"]).stdout
        assert "test_lines_on_spark.py:" in shown
        answer = json.loads(CliRunner().invoke(command, ["lines", handle.url, "--json"]).stdout)
        assert answer["operators"][0]["operator"] == "uneven"
        wait_until(lambda: handle.watch.stacks("uneven")["operators"], "stacks")
        (stacks,) = handle.watch.stacks("uneven")["operators"]
        assert stacks["functions"][0]["function"] == "Uneven.take"  # not the engine, which calls it
        whole = Counter()
        for row in stacks["functions"]:
            whole[row["function"]] += row["share"]
        assert whole["long"] / (whole["long"] + whole["short"]) == pytest.approx(0.75, abs=0.12)
        said = CliRunner().invoke(command, ["lines", handle.url, "uneven", "--folded"]).stdout
        assert "uneven;Uneven.take (test_lines_on_spark.py:" in said
        result = CliRunner().invoke(command, ["lines", handle.url, "unevem"])
        assert result.exit_code == 2, result.output
        assert "did you mean `uneven`" in result.output
