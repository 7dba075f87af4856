"""What an earlier version has written is opened by this one: checkpoints, outputs and an event log.

`support/engine/write_recorded.py` wrote the archive, with the version that its name says. Checkpoints name
inputs and outputs by absolute paths. So these are where they were then, behind a link (`at_home`). The
checkpoint folder itself may be moved, and is elsewhere.
"""

import json
import tarfile
from collections import Counter

import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from ridgeline.cli.main import app as command
from ridgeline.engine.driver.checkpoint.planning import Planner
from ridgeline.plan.planner import plan_application
from ridgeline.testing import run_local
from support.crash.rows import visible
from support.engine.on_spark import run_on_spark
from support.engine.recorded import (
    PER_WINDOW,
    START,
    STOPPED_AFTER,
    WINDOWS,
    application,
    expected,
    write_lines,
)
from support.engine.write_recorded import HOME, KILLED, STOPPED, at_home
from support.paths import SUPPORT

ARCHIVE = SUPPORT / "engine" / "recorded-162384e1.tar.xz"
AT_ONCE = {"window": "20ms"}


@pytest.fixture(params=[STOPPED, KILLED])
def recorded(request, tmp_path):
    """The folder of a run that was ended in its middle, and `HOME` a link to it."""
    with tarfile.open(ARCHIVE) as tar:
        tar.extractall(tmp_path, filter="data")
    with at_home(tmp_path / request.param):
        yield tmp_path / request.param


@pytest.mark.spark
def test_a_run_on_spark_goes_on_from_a_checkpoint_of_an_earlier_version(spark_context, recorded):
    app = application(str(HOME))
    planner = Planner(
        lambda values, kept, edits: plan_application(app, values, AT_ONCE, kept=kept, edits=edits), {}
    )
    run = run_on_spark(app, spark_context, recorded / "checkpoint", planner=planner)
    check(recorded, run.ids, run.plan)


def test_a_run_from_its_beginning_has_the_same_outputs(tmp_path):
    write_lines(tmp_path)
    run_local(application(str(tmp_path)))
    assert rows(tmp_path / "outputs") == expected()


def test_an_event_log_of_an_earlier_version_has_the_figures_of_then(tmp_path):
    with tarfile.open(ARCHIVE) as tar:
        tar.extractall(tmp_path, filter="data")
    log, then = tmp_path / STOPPED / "events.jsonl", tmp_path / STOPPED / "figures.json"
    result = CliRunner().invoke(command, ["replay", str(log), "--json"])
    assert result.exit_code == 0, result.output
    now = json.loads(result.stdout)
    assert_has(now, json.loads(then.read_text()), "figures")


def check(folder, windows, plan):
    """The run went on where the checkpoint ends, with its change, and all outputs are exact."""
    assert windows == list(range(STOPPED_AFTER, WINDOWS))
    names = Counter(one.name for one in plan.physical.operators if not one.unifier)
    assert (names["watch"], names["audit"], names["later"]) == (3, 1, 1)
    found = rows(folder / "outputs")
    later = sorted(number for (_, number), count in found.pop("later").items() for _ in range(count))
    assert found == expected()
    assert later == list(range(later[0], WINDOWS * PER_WINDOW))  # from the window of the change on
    assert 0 < later[0] < STOPPED_AFTER * PER_WINDOW
    assert later[0] % PER_WINDOW == 0
    [recording] = (folder / "checkpoint" / "recordings").glob("*/readings")
    numbers = ds.dataset(recording, format="parquet").to_table()["number"].to_pylist()
    assert sorted(numbers) == list(range(min(numbers), WINDOWS * PER_WINDOW))
    assert min(numbers) < STOPPED_AFTER * PER_WINDOW


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
