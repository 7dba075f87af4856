"""The Spark jobs that are slots: started, tried again by Spark, cancelled, ended."""

import os
import signal

import pytest
from pyspark import TaskContext

from ridgeline.api.clock import SystemClock
from ridgeline.engine.driver.slots.jobs import DESCRIPTION, SlotJobs
from ridgeline.engine.driver.slots.spark_slots import SparkSlots
from ridgeline.stram.slot_resources import Need

pytestmark = pytest.mark.spark


@pytest.fixture
def started(spark_context, tmp_path):
    """`started(function)`: jobs whose tasks run a function of slot, text and folder."""
    made = []

    def start(function):
        folder = str(tmp_path)

        def serve(_index, slots):
            for slot in slots:
                function(slot, TaskContext.get().getLocalProperty("slot.text"), folder)
            yield b""

        woken = []
        jobs = SlotJobs(
            spark_context,
            serve,
            lambda slot: {"slot.text": f"for {slot}", DESCRIPTION: f"slot {slot}"},
            lambda _slot: Need(),
            SystemClock(),
            lambda: woken.append(1),
        )
        made.append(jobs)
        return jobs, woken

    yield start
    for jobs in made:
        jobs.close(10.0)


def stay(slot, text, folder):
    """Note the process, then stay until there is a file `go`."""
    import os  # what is pickled by value finds nothing else
    import time
    from pathlib import Path

    Path(folder, f"{text}-{os.getpid()}").touch()
    while not Path(folder, "go").exists():
        time.sleep(0.01)


def test_a_task_that_dies_is_tried_again_by_spark_and_its_job_ends_once(started, wait_until, tmp_path):
    jobs, woken = started(stay)
    jobs.start(0)
    jobs.start(1)
    wait_until(lambda: len(list(tmp_path.glob("for *"))) == 2, "both tasks")
    [note] = tmp_path.glob("for 1-*")
    os.kill(int(note.name.partition("-")[2]), signal.SIGKILL)
    wait_until(lambda: len(list(tmp_path.glob("for 1-*"))) == 2, "the second try")
    assert not jobs.take_ended()
    (tmp_path / "go").touch()
    ended = []
    wait_until(lambda: ended.extend(jobs.take_ended()) or len(ended) == 2, "both jobs to end")
    assert sorted((job.slot, job.error) for job in ended) == [(0, None), (1, None)]
    wait_until(lambda: len(woken) == 2, "a call for each, which follows its end")


def test_jobs_that_somebody_else_cancels_say_what_may_be_the_reason(
    started, spark_context, wait_until, tmp_path
):
    jobs, _ = started(stay)
    jobs.start(0)
    wait_until(lambda: list(tmp_path.glob("for 0-*")), "the task")
    spark_context.cancelAllJobs()
    [ended] = wait_until(jobs.take_ended, "the job to end")
    reason = SparkSlots(spark_context, 0, SystemClock()).reason(ended.error)
    assert reason.startswith("[SPARK_JOB_CANCELLED] Job ")
    assert reason.endswith(
        "; slots are tasks that last as long as the application: does the cluster end long tasks?"
    )
