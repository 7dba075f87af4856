"""Stacks of threads here, and of a process that does not answer."""

import os
import subprocess
import sys
import threading
from pathlib import Path

import pyspark
import pytest

import ridgeline
from ridgeline.api.clock import SystemClock
from ridgeline.engine.process import stacks
from support.waiting import PATIENCE_SECONDS

CLOCK = SystemClock()


def stack_of_thread(work):
    """The stack of a thread that waits in `work(release)`."""
    release, ready = threading.Event(), threading.Event()

    def begin():
        ready.set()
        return release.wait(PATIENCE_SECONDS)

    thread = threading.Thread(target=work, args=(begin,))
    thread.start()
    try:
        assert ready.wait(PATIENCE_SECONDS)
        return stacks.of_thread(thread.ident)
    finally:
        release.set()
        thread.join()


def users_function(begin):
    return begin()


def test_the_users_frames_most_recent_last():
    stack = stack_of_thread(users_function)

    assert stack.index("in users_function") < stack.index("in begin")
    assert "return begin()" in stack
    assert __file__ in stack


@pytest.mark.parametrize("package", [ridgeline, pyspark])
def test_a_package_whose_name_begins_as_ours_is_a_users(package):
    file = f"{Path(package.__file__).parent}_orders/application.py"
    scope = {}
    exec(compile("def price(begin):\n    return begin()\n", file, "exec"), scope)
    assert file in stack_of_thread(scope["price"])


STUCK = """
import sys, time
from ridgeline.engine.process import stacks
def stuck_in_native_code():
    print("ready", flush=True)
    sys.stdin.read()
if "register" in sys.argv:
    stacks.register()
stuck_in_native_code()
"""


def process(*arguments):
    command = [sys.executable, "-c", STUCK, *arguments]
    started = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert started.stdout.readline() == "ready\n"
    return started


@pytest.mark.skipif(not Path("/proc").exists(), reason="what a process is, is read from /proc")
def test_a_worker_of_this_host_is_asked_for_its_stacks():
    with process("register", "pyspark.daemon") as worker:
        for _ in range(2):
            text = stacks.dump(worker.pid, CLOCK, seconds=PATIENCE_SECONDS)
            assert "stuck_in_native_code" in text
            assert text.count("most recent call first") == 1
        assert worker.poll() is None
        worker.stdin.close()


def test_a_folder_that_others_may_write_to_is_not_used(tmp_path, monkeypatch):
    monkeypatch.setattr(stacks.tempfile, "gettempdir", lambda: str(tmp_path))
    folder = stacks.folder()
    folder.chmod(0o777)
    with pytest.raises(
        PermissionError, match=r"the folder for stacks of workers is refused: .* can be written by others"
    ):
        stacks.register()
    assert stacks.dump(os.getpid(), CLOCK) is None
