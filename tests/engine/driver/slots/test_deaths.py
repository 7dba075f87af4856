"""Why a worker has died: of its operator, or with its executor or its daemon."""

import contextlib
import os
import signal
import socket
import subprocess
import sys
import textwrap
from pathlib import Path
from types import SimpleNamespace

import pytest

from ridgeline.engine.driver.slots.health import Deaths
from ridgeline.stram.slots import Member
from support.waiting import wait_until

RUN = "run-of-deaths"
FAMILY = """
import ctypes, os, signal, time

def child():
    if os.fork():
        time.sleep(1000)
    ctypes.CDLL(None).prctl(1, signal.SIGKILL, 0, 0, 0)  # it dies with its parent

child()  # of the executor: the daemon
daemon = os.getpid()
child()  # of the daemon: the worker
from ridgeline.engine.process import stacks
from ridgeline.engine.process.black_box import BlackBox, Turn
box = BlackBox()
box.note(Turn("run-of-deaths", 3, 1, 0, 7))
print(daemon, os.getpid(), flush=True)
time.sleep(1000)
"""


def gone(pid):
    """Also if nobody has asked for its exit code."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] in "ZX"
    except OSError:
        return True


@pytest.fixture
def family():
    """The process ids of an executor, its daemon and a worker that is in an operator's turn."""
    if sys.platform != "linux":
        pytest.skip("whose parent has died is known on Linux")
    command = [sys.executable, "-c", textwrap.dedent(FAMILY)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as executor:
        daemon, worker = map(int, executor.stdout.readline().split())
        yield SimpleNamespace(executor=executor.pid, daemon=daemon, worker=worker)
        for pid in (executor.pid, daemon, worker):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


@pytest.mark.parametrize(
    ("killed", "what"),
    [
        ("worker", "its worker process died: it was killed"),
        ("daemon", "its daemon of Python, process {}, has died"),
        ("executor", "its executor, process {}, has died"),
    ],
)
def test_what_dies_with_its_executor_has_not_died_of_its_operator(family, killed, what):
    deaths = Deaths("app", RUN)
    member = Member(socket.gethostname(), family.worker, "address")
    deaths.came(member)
    os.kill(getattr(family, killed), signal.SIGKILL)
    wait_until(lambda: gone(family.worker), "the end of the worker")
    operators = {7: SimpleNamespace(unifier=False, name="sums", partition=0)}
    failure = deaths.why(member, "closed", "slot 0", operators, lambda *_: True, ended=True)
    assert what.format(getattr(family, killed)) in failure.error
    assert failure.cluster == (killed != "worker")
    assert failure.operator == ("sums" if killed == "worker" else "")
