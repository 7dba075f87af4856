"""Keys of an application that runs on Spark: by the handle, and by the command over REST."""

from __future__ import annotations

import json

import pytest
from typer.testing import CliRunner

from ridgeline.cli.main import app as command
from support.service.live import application
from support.waiting import wait_until

pytestmark = [pytest.mark.spark]


def test_keys_are_counted_once_somebody_asks(tmp_path, monkeypatch):
    monkeypatch.setenv("RIDGELINE_HOME", str(tmp_path / "home"))
    with application().start("local[2]", checkpoint=str(tmp_path / "checkpoint"), quiet=True) as handle:
        assert handle.keys()["operators"] == []  # nothing is divided yet
        result = CliRunner().invoke(command, ["keys", handle.url, "--for", "0"])
        assert "no operator is divided by key" in result.stdout
        handle.repartition("sums", 2)
        wait_until(lambda: handle.keys("sums")["operators"][0]["tuples"] > 100, "keys")
        (sums,) = handle.keys()["operators"]
        assert (sums["operator"], sums["fixed"]) == ("sums", "")
        assert sum(sums["byPartition"]) == pytest.approx(1)
        assert sum(key["share"] for key in sums["heavy"]) <= 1.01
        result = CliRunner().invoke(command, ["keys", handle.url, "sums", "--for", "0", "--json"])
        assert result.exit_code == 0, result.output
        assert json.loads(result.stdout)["operators"][0]["operator"] == "sums"
        shown = CliRunner().invoke(command, ["keys", handle.url, "--for", "0"]).stdout
        assert "times the mean" in shown
        with pytest.raises(KeyError, match="there is no operator `other`"):
            handle.keys("other")
        result = CliRunner().invoke(command, ["keys", handle.url, "other", "--for", "0"])
        assert result.exit_code == 2, result.output
        assert "there is no operator `other`" in result.output
