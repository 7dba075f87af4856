"""A window that takes long: what is left of it, asked from outside while it runs."""

import json

import pytest

from support.paths import SUPPORT
from support.waiting import PATIENCE_SECONDS

pytestmark = [pytest.mark.spark, pytest.mark.slow]
SLOW = SUPPORT / "cli" / "slow.py"
TUPLES = 60
SECONDS = 15.0  # 0.25 s each, at least


def asked(ridgeline_process, *arguments):
    process = ridgeline_process(*arguments)
    stdout, _ = process.communicate()
    return json.loads(stdout) if process.returncode == 0 else None


def test_a_third_of_the_way(ridgeline_process, environment, tmp_path, wait_until):
    environment["RIDGELINE_HOME"] = str(tmp_path / "home")
    run = ridgeline_process("run", SLOW, "--master", "local[2]", "--checkpoint", "state")
    found = {}

    def at_a_third():
        answer = asked(ridgeline_process, "progress", "slow", "--json")
        slow = next(
            (operator for operator in (answer or {}).get("operators", ()) if operator["operator"] == "slow"),
            None,
        )
        found.update(answer or {}, slow=slow)
        return slow is not None and slow["consumed"] >= 20

    wait_until(at_a_third, "a third of the window")
    slow = found["slow"]
    assert slow["state"] == "running"
    left = slow["remainingSeconds"]
    assert left["basis"] == "estimated"
    # All from one heartbeat, and as long ago: so it holds however slow the machine is.
    whole = slow["averageSecondsPerElement"] * TUPLES
    assert whole >= 0.9 * SECONDS
    assert slow["secondsSpent"] + left["value"] == pytest.approx(whole, abs=0.1 * SECONDS)
    assert found["window"]["remainingSeconds"] == pytest.approx(left["value"], abs=0.1 * SECONDS)
    assert run.wait(PATIENCE_SECONDS) == 0
