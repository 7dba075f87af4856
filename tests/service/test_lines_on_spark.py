"""Where the Python time goes, by line, of an application on Spark: beside the processor's own clock."""

from __future__ import annotations

import itertools
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
    """Spends 60 % of its time in one line, 30 % in another, by its thread's processor clock."""

    input = InputPort(Number)
    output = OutputPort(Number)

    @input.process
    def take(self, number: Number) -> None:
        sixty()
        thirty()
        ten()
        self.output.emit(number)


def sixty() -> None:
    end = time.thread_time() + 0.0018
    any(time.thread_time() >= end for _ in itertools.count())


def thirty() -> None:
    end = time.thread_time() + 0.0009
    any(time.thread_time() >= end for _ in itertools.count())


def ten() -> None:
    end = time.thread_time() + 0.0003
    any(time.thread_time() >= end for _ in itertools.count())


def test_the_lines_of_an_operator_and_its_part_of_the_path(tmp_path, monkeypatch):
    monkeypatch.setenv("RIDGELINE_HOME", str(tmp_path / "home"))
    app = Application("live", window="20ms")
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
            functions[line["function"].partition(".")[0]] += line["share"]
        assert sum(functions.values()) == pytest.approx(1)
        own = sum(functions[name] for name in ("sixty", "thirty", "ten"))
        assert own > 0.5
        shares = {name: functions[name] / own for name in ("sixty", "thirty", "ten")}
        assert shares == pytest.approx({"sixty": 0.6, "thirty": 0.3, "ten": 0.1}, abs=0.12)
        hottest = first["lines"][0]
        assert hottest["text"] == "any(time.thread_time() >= end for _ in itertools.count())"
        assert hottest["function"].startswith("sixty")
        assert hottest["ofPath"] == pytest.approx(hottest["share"], rel=0.3)  # nearly all of the path is its
        shown = CliRunner().invoke(command, ["lines", handle.url, "uneven"]).stdout
        assert "test_lines_on_spark.py:" in shown
        answer = json.loads(CliRunner().invoke(command, ["lines", handle.url, "--json"]).stdout)
        assert answer["operators"][0]["operator"] == "uneven"
        result = CliRunner().invoke(command, ["lines", handle.url, "unevem"])
        assert result.exit_code == 2, result.output
        assert "did you mean `uneven`" in result.output
