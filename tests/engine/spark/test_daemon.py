import os
import subprocess
import sys
from pathlib import Path

import ridgeline
from support.waiting import PATIENCE_SECONDS


def run(code):
    """What a process of its own does with the code."""
    environment = {**os.environ, "PYTHONPATH": str(Path(ridgeline.__file__).parent.parent)}
    command = [sys.executable, "-c", code]
    return subprocess.run(
        command, capture_output=True, text=True, timeout=PATIENCE_SECONDS, check=False, env=environment
    )


def test_a_worker_whose_connection_is_closed_ends_without_a_word():
    code = """
from ridgeline.engine.spark.daemon import quietly
def worker(number):
    if number:
        return number
    raise BrokenPipeError
print(quietly(worker)(3), flush=True)
quietly(worker)(0)
"""
    done = run(code)
    assert (done.returncode, done.stdout, done.stderr) == (1, "3\n", "")
