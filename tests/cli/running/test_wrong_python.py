"""Workers whose Python cannot run Ridgeline: the cause at once, with its remedy."""

import re
import sys

import pytest

from support.accounts.reports import finished
from support.depth import deeper
from support.paths import SUPPORT

TINY = SUPPORT / "cli" / "tiny.py"

pytestmark = [pytest.mark.spark, pytest.mark.slow]


@pytest.mark.parametrize("master", ["local[2]", pytest.param("local-cluster[1,1,1024]", marks=deeper)])
def test_there_is_no_such_python(master, tmp_path, environment):
    command = [sys.executable, "-m", "ridgeline", "run", str(TINY), "--master", master, "--no-service"]
    variables = {**environment, "PYSPARK_PYTHON": "/nowhere/python"}
    done = finished(command, cwd=tmp_path, env=variables)
    assert done.returncode == 3
    assert re.search(
        r"^error: the workers have no Python: host `[\d.]+` has no `/nowhere/python` that it can run; "
        r"unset PYSP",
        done.stderr,
    )
    assert "window 0: " not in done.stdout  # it may have run for long, but was not committed


def test_its_python_has_no_ridgeline(tmp_path, environment):
    bare = tmp_path / "bare"
    bare.write_text(f'#!/bin/sh\nunset PYTHONPATH\nexec "{sys.executable}" -S "$@"\n')
    bare.chmod(0o755)
    command = [
        sys.executable,
        "-m",
        "ridgeline",
        "run",
        str(TINY),
        "--master",
        "local-cluster[1,1,1024]",
        "--no-service",
    ]
    variables = {**environment, "PYSPARK_PYTHON": str(bare)}
    done = finished(command, cwd=tmp_path, env=variables)
    assert done.returncode == 3
    assert re.search(
        r"^error: the workers cannot run Ridgeline: host `[\d.]+`: its Python, `.*`, "
        r"has no module `ridgeline`; ",
        done.stderr,
    )
