import os
import subprocess
import sys
from pathlib import Path

import ridgeline


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
    environment = {**os.environ, "PYTHONPATH": str(Path(ridgeline.__file__).parent.parent)}
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        env=environment,
    )
    assert (done.returncode, done.stdout, done.stderr) == (1, "3\n", "")
