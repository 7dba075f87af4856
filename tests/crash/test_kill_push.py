"""A sender that is not asked again, a queue behind the input, and kills: nothing acknowledged is lost."""

import os
import signal
import subprocess
import sys
import time
from collections import Counter

import pytest

from ridgeline import Application
from ridgeline.operators import QueueInput
from ridgeline.testing import CollectorSink, run_local
from support.crash.processes import slots_of
from support.crash.pushed import Number
from support.depth import deep
from support.paths import SUPPORT

pytestmark = [pytest.mark.crash, pytest.mark.spark, pytest.mark.slow]

COUNT, KILLS = 100_000, deep(4)
APPLICATION = SUPPORT / "crash" / "pushed.py"


@pytest.fixture
def sender():
    """A process that sends, and its port."""
    process = subprocess.Popen(
        [sys.executable, "-m", "support.crash.sender", str(COUNT)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(SUPPORT.parent)},
    )
    yield process, process.stdout.readline().strip()
    process.kill()
    process.wait()


def read(path):
    app = Application("check")
    queue = app.add_operator("queue", QueueInput(path=path, schema=Number))
    sink = app.add_operator("sink", CollectorSink(Number))
    app.add_stream("numbers", queue.output, sink.input)
    return [row.number for row in run_local(app).collected("sink")]


@pytest.mark.guide("004", "InputOperator")
def test_nothing_is_lost_that_was_acknowledged(start, tmp_path, sender, chance):
    process, port = sender

    def begin():
        return start(
            *(APPLICATION, "--sender", port, "--path", tmp_path / "queue", "--checkpoint", tmp_path / "run"),
            *("--master", "local[2]", "--quiet", "--attribute", "numbers.recovery_attempts=100"),
            *("--attribute", "queue.recovery_attempts=100"),
        )

    driver, killed = begin(), Counter()
    for kill in range(KILLS):
        if not driver.until_windows(tmp_path / "run", 3):
            break
        time.sleep(chance.uniform(0.0, 0.5))
        slots = slots_of(driver)
        if slots and kill % 2:
            os.kill(chance.choice(slots), signal.SIGKILL)
            killed["slot"] += 1
        else:
            driver.kill()
            driver = begin()
            killed["driver"] += 1
    assert driver.wait() == 0, driver.text
    sent, _ = process.communicate("")
    found = Counter(read(tmp_path / "queue"))
    print(f"killed: {killed}; sent {sent.strip()}, in the queue {found.total()}")

    assert found.keys() == set(range(COUNT))
    assert found.total() <= int(sent)
