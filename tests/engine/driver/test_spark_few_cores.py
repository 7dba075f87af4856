"""Spark with room for one slot only: all containers share it, or the start says how many cores are needed."""

import json
import os
import subprocess
import sys

import pytest

from ridgeline.testing import run_local
from support.depth import deeper
from support.engine.applications import payments_application
from support.engine.few_cores import SINKS
from support.paths import SUPPORT

pytestmark = [pytest.mark.spark, pytest.mark.slow]


def outcomes(master, folder, *options):
    """What the applications come to in a process with a Spark of its own."""
    program = SUPPORT / "engine" / "few_cores.py"
    command = [sys.executable, str(program), master, str(folder), *options]
    paths = [str(SUPPORT.parent), *filter(None, [os.environ.get("PYTHONPATH")])]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.parametrize("master", ["local[1]", "local-cluster[2,1,1024]"])
def test_all_containers_share_one_slot(tmp_path, master):
    found = outcomes(master, tmp_path)
    payments, rate = found["payments"], found["rate"]
    here = run_local(payments_application())
    expected = {name: sorted(map(list, here.collected(name))) for name in SINKS}
    assert payments["results"] == json.loads(json.dumps(expected, default=str))
    assert payments["containers"] > 2
    assert payments["slots"] == [[0, payments["containers"]]]
    assert rate["results"] == {"store": [[sum(range(1, end, 2))] for end in (100, 200, 300)]}
    assert rate["slots"] == [[0, rate["containers"]]]


@pytest.mark.parametrize(
    ("master", "options"),
    [("local[1]", ["lent"]), pytest.param("local-cluster[1,1,1024]", [], marks=deeper)],
    ids=["lent", "cluster"],
)
def test_one_core_in_all_is_an_error_at_the_start(tmp_path, master, options):
    needed = "slots need 2 cores (one for a slot, which all containers can share, 1 for Spark's own jobs)"
    for outcome in outcomes(master, tmp_path, *options).values():
        assert outcome["error"] == f"{needed}; Spark has 1; give Spark more cores"
