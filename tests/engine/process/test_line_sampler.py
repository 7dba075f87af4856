"""Time by line, of a thread that works: beside what the thread's own clock says."""

import random
import threading
import time
from typing import NamedTuple

from ridgeline.api.clock import SystemClock
from ridgeline.engine.process import worker_output
from ridgeline.engine.process.line_sampler import LineSampler
from support.waiting import PATIENCE_SECONDS


class Point(NamedTuple):
    x: int
    y: int


def spin(seconds):
    end = time.thread_time() + seconds
    while time.thread_time() < end:
        sum(range(50))


class Context:
    operator_id = 7
    partition = 0


def sampled(work):
    """The lines of a thread that does this work as operator 7."""
    sampler = LineSampler(SystemClock(), 0.002)
    sampler.start()

    def run():
        sampler.begin()
        worker_output.enter_operator(worker_output.CurrentOperator("worker", Context()))
        try:
            work()
        finally:
            worker_output.leave_operator()
            sampler.end()
        spin(0.05)  # beside its windows

    thread = threading.Thread(target=run)
    thread.start()
    thread.join(PATIENCE_SECONDS)
    sampler.stop()
    return sampler.take()


def test_a_call_that_holds_pythons_lock_counts_for_as_long_as_it_took():
    took = []

    def work():
        begun = time.perf_counter()
        sorted(range(3_000_000), key=hash)
        took.append(time.perf_counter() - begun)
        for _ in range(200_000):
            Point(1, 2)

    found = {line.text: line.seconds for line in sampled(work)}
    sort = sum(seconds for text, seconds in found.items() if text.startswith(("sorted(", "took.")))
    assert sort > 0.5 * took[0]  # it may count for the line after it
    assert not any(text == "" for text in found)  # a generated constructor counts where it is called


def test_random_numbers_that_an_operator_has_seeded_are_its_own():
    def draw():
        random.seed(7)
        drawn = []
        for _ in range(50):
            drawn.append(random.random())
            time.sleep(0.002)
        return drawn

    sampler = LineSampler(SystemClock(), 0.001)
    sampler.start()
    found = draw()
    sampler.stop()
    random.seed(7)
    assert found == [random.random() for _ in range(50)]
