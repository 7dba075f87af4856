"""`ridgeline logs --level`: the level of a logger while it runs, in driver and slots, also in new slots."""

import json

import pytest

from support.waiting import PATIENCE_SECONDS

pytestmark = [pytest.mark.spark, pytest.mark.slow]

APP = """
import logging
from pathlib import Path
from typing import NamedTuple
from ridgeline import Application, InputOperator, InputPort, Operator, OutputPort, State
from ridgeline.operators import FileOutput

log = logging.getLogger("accounts.rules")

class Number(NamedTuple):
    value: int

class Feed(InputOperator):
    output = OutputPort(Number)
    count = State(0)
    def emit_tuples(self):
        self.output.emit(Number(self.count))
        self.count += 1
        if Path("end").exists():
            self.finish()

class Checks(Operator):
    numbers = InputPort(Number)
    output = OutputPort(Number)
    @numbers.process
    def take(self, number):
        log.debug("rule %d", number.value)
        log.info("checked %d", number.value)
        self.output.emit(number)

app = Application("levels", window=0.2)
checks = app.add_operator("checks", Checks())
app.add_stream("numbers", app.add_operator("feed", Feed()).output, checks.numbers)
store = app.add_operator("store", FileOutput(path="out", format="jsonl"))
app.add_stream("taken", checks.output, store.input)
"""


def test_a_level_is_set_in_driver_and_slots_and_in_slots_that_are_started_again(
    ridgeline_process, ridgeline_command, tmp_path, wait_until
):
    (tmp_path / "levels.py").write_text(APP)
    audit = ("--audit-log", "audit.jsonl")
    run = ridgeline_process(
        "run", "levels.py", "--master", "local[3]", "--checkpoint", "state", "--quiet", *audit
    )

    def lines(logger):
        found = ridgeline_command("logs", "levels", "--json", "-n", 1000)
        rows = [json.loads(line) for line in found.stdout.splitlines()] if found.exit_code == 0 else []
        return [one for one in rows if one["logger"] == logger]

    def said(level, logger="accounts.rules"):
        return [(one["text"], one["pid"]) for one in lines(logger) if one["level"] == level]

    def is_set(*levels):
        return {"loggers": [{"target": name, "logLevel": level} for name, level in levels]}

    def set_level(name, level):
        done = ridgeline_command("logs", "levels", "--level", name, level, "--json")
        assert done.exit_code == 0, done.output
        return json.loads(done.stdout)

    wait_until(lambda: ridgeline_command("logs", "levels").exit_code == 0, "the application to run")
    assert not said("DEBUG")
    assert set_level("accounts", "debug") == is_set(("accounts", "DEBUG"))
    wait_until(lambda: said("DEBUG"), "lines of the logger below it")
    assert said("INFO")

    old = {pid for _, pid in said("DEBUG")}
    listed = json.loads(ridgeline_command("list-containers", "levels", "--json").stdout)["containers"]
    host = next(one["id"] for one in listed if one["pid"] in old)
    assert ridgeline_command("kill-container", "levels", host).exit_code == 0
    wait_until(lambda: any(pid not in old for _, pid in said("DEBUG")), "lines of the next process")

    set_level("ridgeline.observe.event_lines", "DEBUG")
    wait_until(lambda: said("DEBUG", "ridgeline.observe.event_lines"), "a line of the driver")

    for words, why in (
        (("accounts", "loud"), "'loud' is not one of"),
        (("accounts.*", "DEBUG"), "`accounts` stands for `accounts.rules`"),
    ):
        refused = ridgeline_command("logs", "levels", "--level", *words)
        assert refused.exit_code == 2, refused.output
        assert why in refused.stderr

    set_level("ridgeline.observe.event_lines", "default")
    assert set_level("accounts", "default") == is_set()
    set_level("accounts", "info")
    wait_until(lambda: [one["level"] for one in lines("accounts.rules")[-20:]] == ["INFO"] * 20, "INFO alone")
    assert '"/ws/v2/stram/loggers"' in (tmp_path / "audit.jsonl").read_text()
    (tmp_path / "end").touch()
    assert run.wait(PATIENCE_SECONDS) == 0
