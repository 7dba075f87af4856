"""The Java process beside a driver's life."""

import os
import signal
import subprocess
import sys

_SCRIPT = """
from ridgeline.engine.spark.session import independent_java
with independent_java():
    from pyspark import java_gateway
    child = java_gateway.Popen(["sh", "-c", "echo printed by Java; exec sleep 1000"])
print(f"pid {child.pid}\\n", end="")
while input() != "end":
    pass
"""


def test_java_that_lives_on_holds_no_pipe_open():
    driver = subprocess.Popen(
        [sys.executable, "-c", _SCRIPT], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    lines = {driver.stdout.readline().strip(), driver.stdout.readline().strip()}
    [pid] = [int(line.split()[1]) for line in lines if line.startswith("pid")]
    try:
        assert "printed by Java" in lines
        rest, _ = driver.communicate("end\n", timeout=600)
        assert rest == ""
        os.kill(pid, 0)  # it lives
    finally:
        os.kill(pid, signal.SIGKILL)
