"""Micro-batches in slots: every row once, in its order, whatever is lost on the way."""

import os
import signal

from ridgeline.api.errors import OperatorError
from support.engine.fed_slots import Batch, UntilNext, fed_application, of_numbers
from support.engine.slot_platform import run_in_processes


def values(run, operator):
    return [number.value for number in run.collected(operator)]


def test_a_slot_that_is_killed_while_it_is_fed(tmp_path):
    killed, notes = [], tmp_path / "killed"
    notes.mkdir()

    def kill(feed, task, _attempt):
        if task == 1 and len(killed) < 2:
            feed.processes[task, 0].join(0.2)
            pids = {event.slot: event.pid for event in found[0].of_slots("joined", "restarted")}
            killed.append(pids[len(killed) % 2])
            os.kill(killed[-1], signal.SIGKILL)
            (notes / f"{len(killed)}").touch()

    found, until_killed = [], UntilNext(notes, 2)
    rows = [[of_numbers(1), until_killed, of_numbers(2)], [until_killed, of_numbers(3)]]
    run = run_in_processes(
        fed_application(2),
        tmp_path / "checkpoint",
        batches=[Batch([[of_numbers(0)]]), Batch(rows, kill), Batch([[of_numbers(4)]])],
        started=found.append,
    )
    assert values(run, "seen") == [0, 1, 2, 3, 4]
    assert len(run.retries) == len(killed) == 2


def test_a_source_that_fails_again_and_again_is_named(tmp_path):
    app = fed_application(recovery_attempts=1)
    run, error = run_in_processes(app, tmp_path, batches=[Batch([[]], fails=9)], expect=OperatorError)
    assert run.ids == []
    assert error.failure.operator == "numbers"
    assert "in `the Spark job that reads its rows`: the broker is away" in str(error)
