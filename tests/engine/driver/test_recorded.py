"""What an earlier version has written is opened by this one: checkpoints, outputs and an event log.

`support/engine/write_recorded.py` wrote the archive, with the version that its name says. Checkpoints name
inputs and outputs by absolute paths. So these are where they were then, behind a link (`at_home`). The
checkpoint folder itself may be moved, and is elsewhere.
"""

import json
import tarfile
from collections import Counter

import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from ridgeline.cli.main import app as command
from support.crash.rows import visible
from support.engine.recorded import (
    START,
)
from support.engine.write_recorded import KILLED, STOPPED, at_home
from support.paths import SUPPORT

ARCHIVE = SUPPORT / "engine" / "recorded-162384e1.tar.xz"


@pytest.fixture(params=[STOPPED, KILLED])
def recorded(request, tmp_path):
    """The folder of a run that was ended in its middle, and `HOME` a link to it."""
    with tarfile.open(ARCHIVE) as tar:
        tar.extractall(tmp_path, filter="data")
    with at_home(tmp_path / request.param):
        yield tmp_path / request.param


def test_an_event_log_of_an_earlier_version_has_the_figures_of_then(tmp_path):
    with tarfile.open(ARCHIVE) as tar:
        tar.extractall(tmp_path, filter="data")
    log, then = tmp_path / STOPPED / "events.jsonl", tmp_path / STOPPED / "figures.json"
    result = CliRunner().invoke(command, ["replay", str(log), "--json"])
    assert result.exit_code == 0, result.output
    now = json.loads(result.stdout)
    assert_has(now, json.loads(then.read_text()), "figures")


def rows(outputs):
    """The rows of each output as `expected` has them."""
    found = {}
    for file in visible(outputs):
        name = file.parent.name
        if file.suffix == ".parquet":
            read = pq.read_table(file).to_pylist()
        else:
            read = [json.loads(line) for line in file.read_text().splitlines()]
        found.setdefault(name, Counter()).update(map(SHAPES.get(name, plain), read))
    return found


def plain(row):
    return tuple(row.values())


def span(row):
    return row["key"], round((row["start"] - START).total_seconds()), row["count"], row["sum"]


def refused(row):
    return int(row["error"].removeprefix("ValueError: ").removesuffix(" is refused"))


SHAPES = {"spans": span, "refused": refused}


def assert_has(now, then, where):
    """All that `then` says is in `now`; there may be more fields."""
    if isinstance(then, dict):
        for key, value in then.items():
            assert key in now, f"{where}.{key} is gone"
            assert_has(now[key], value, f"{where}.{key}")
    elif isinstance(then, list):
        assert len(now) == len(then), where
        for number, (one, other) in enumerate(zip(now, then, strict=True)):
            assert_has(one, other, f"{where}[{number}]")
    else:
        assert now == then, where
