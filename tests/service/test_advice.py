"""Advice on an application that runs on Spark: by the handle, and by the command over REST."""

from __future__ import annotations

import json

import pytest
from typer.testing import CliRunner

from ridgeline.cli.main import app as command
from support.service.live import application
from support.waiting import wait_until

pytestmark = [pytest.mark.spark]


def test_advice_is_of_the_plan_that_runs(tmp_path):
    with application().start("local[2]", checkpoint=str(tmp_path / "checkpoint"), quiet=True) as handle:
        wait_until(lambda: len(handle.windows()) >= 40, "windows before anybody has asked")
        first = handle.advice()
        assert first["windows"] >= 40
        assert first["enough"]
        wait_until(lambda: handle.advice()["windows"] >= 100, "windows")
        handle.repartition("sums", 2)
        wait_until(lambda: handle.advice()["windows"] < 100, "figures without those of the plan before")
        wait_until(lambda: handle.advice()["enough"], "windows of the new plan")
        result = CliRunner().invoke(command, ["advise", handle.url, "--for", "0", "--json"])
        assert result.exit_code == 0, result.output
        answer = json.loads(result.stdout)
        assert answer["enough"]
        assert not any("processor" in line for line in answer["unknown"])
