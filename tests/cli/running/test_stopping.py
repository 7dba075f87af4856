import signal
import subprocess
import sys
import threading

import pytest

from ridgeline.cli.running.run_command import Stopper, in_thread
from support.waiting import PATIENCE_SECONDS


def test_the_first_signal_sets_the_event_and_is_named():
    announced = []
    for number, name in ((signal.SIGINT, "Ctrl-C"), (signal.SIGTERM, "SIGTERM")):
        with Stopper(lambda: announced.append(1), lambda: None) as stopper:
            in_thread(lambda number=number: signal.raise_signal(number))
            assert stopper.event.wait(PATIENCE_SECONDS)
        assert stopper.stopped_by == name
    assert len(announced) == 2


def test_a_run_that_stops_for_another_reason_is_not_killed_by_the_first_signal():
    announced = []
    with Stopper(lambda: announced.append(1), pytest.fail) as stopper:
        stopper.stop("the end of its output")
        assert stopper.event.is_set()
        signal.raise_signal(signal.SIGINT)
    assert (stopper.stopped_by, announced) == ("the end of its output", [1])


def test_handlers_are_put_back():
    before = signal.getsignal(signal.SIGINT)
    with Stopper(lambda: None, lambda: None):
        assert signal.getsignal(signal.SIGINT) is not before
    assert signal.getsignal(signal.SIGINT) is before


def test_a_thread_gives_its_result_or_its_error():
    assert in_thread(lambda: threading.current_thread().name) == "ridgeline-windows"
    with pytest.raises(ZeroDivisionError):
        in_thread(lambda: 1 / 0)


def test_the_second_signal_kills(environment):
    code = """
import os, signal, threading
from ridgeline.cli.running.run_command import Stopper, in_thread
def work():
    for _ in range(2):
        os.kill(os.getpid(), signal.SIGINT)
        stopper.event.wait()
    threading.Event().wait()
with Stopper(lambda: print("first", flush=True), lambda: print("second", flush=True)) as stopper:
    in_thread(work)
"""
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        timeout=PATIENCE_SECONDS,
        check=False,
        env=environment,
    )
    assert (done.returncode, done.stdout, done.stderr) == (130, "first\nsecond\n", "")


def test_without_a_terminal_sighup_ends_nothing():
    code = """
import os, signal
from ridgeline.cli.running.run_command import Stopper
with Stopper(lambda: None, lambda: None) as stopper:
    signal.raise_signal(signal.SIGHUP)
    print(stopper.event.is_set())
"""
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        timeout=PATIENCE_SECONDS,
        start_new_session=True,
        check=True,
    )
    assert done.stdout == "False\n"
