"""Every example where executors are processes of their own."""

import contextlib
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import ridgeline
from support.paths import SUPPORT
from support.waiting import PATIENCE_SECONDS

SCRIPT = SUPPORT / "examples" / "on_local_cluster.py"


@pytest.mark.guide("002", "Hadoop Cluster")
@pytest.mark.guide("002", "Single Node Cluster")
@pytest.mark.spark
@pytest.mark.slow
def test_results_equal_an_independent_computation(tmp_path):
    log = tmp_path / "log"
    environment = {
        **os.environ,
        "PYTHONPATH": str(Path(ridgeline.__file__).parent.parent),
        "PYSPARK_PYTHON": sys.executable,
    }
    with log.open("wb") as out:
        process = subprocess.Popen(
            [sys.executable, str(SCRIPT), str(tmp_path / "runs")],
            stdout=out,
            stderr=subprocess.STDOUT,
            cwd=tmp_path,
            env=environment,
            start_new_session=True,
        )
    try:
        code = process.wait(PATIENCE_SECONDS)
    except subprocess.TimeoutExpired:
        code = f"none after {PATIENCE_SECONDS:g} s"
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(
                process.pid, signal.SIGKILL
            )  # Python daemons have groups of their own; they end with their executors
        process.wait()
    text = log.read_text(errors="replace")
    assert code == 0, text[-5000:]
    assert text.count(": right (") == 10, text[-5000:]
    print(text)
