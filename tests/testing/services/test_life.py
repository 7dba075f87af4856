"""What becomes of a service's processes, folder and ports, however the test process ends."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from support.paths import ROOT, TESTS
from support.services import ServiceError
from support.testing.echo import Echo

STARTED = """
import os, signal, sys, threading
from support.testing.echo import Echo
echo = Echo().start()
print(echo.folder, echo._process.pid, echo._proxy.pid, echo.child, echo._watcher.pid, flush=True)
{then}
"""
WAIT = "threading.Event().wait()"


def in_another_process(then, started=STARTED):
    """A process that has started a service: it, the service's folder and processes."""
    environment = {**os.environ, "PYTHONPATH": f"{ROOT / 'src'}:{TESTS}"}
    command = [sys.executable, "-c", started.format(then=then)]
    process = subprocess.Popen(
        command,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    folder, *pids = process.stdout.readline().split()
    return process, Path(folder), [int(pid) for pid in pids]


FORKING = """
import json, os, sys
import support.testing.echo
for line in sys.stdin:
    code, *files = json.loads(line)
    if (child := os.fork()) == 0:
        os.setsid()
        for number, file in enumerate(files, 1):
            os.dup2(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_APPEND), number)
        break
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
else:
    os._exit(0)
exec(code)
"""


@pytest.fixture(scope="module")
def imported():
    """`imported(then, folder)` does the same to the end, and gives its exit code and the lines it prints.

    It runs in a fork of a process that has imported all, which takes seconds.
    """
    environment = {**os.environ, "PYTHONPATH": f"{ROOT / 'src'}:{TESTS}"}
    command = [sys.executable, "-c", FORKING]
    with subprocess.Popen(
        command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:

        def run(then, folder):
            printed, errors = folder / "printed", folder / "errors"
            print(
                json.dumps([STARTED.format(then=then), str(printed), str(errors)]),
                file=process.stdin,
                flush=True,
            )
            return int(process.stdout.readline()), printed.read_text().splitlines()

        yield run
        process.stdin.close()


def state(pid):
    """One letter, of /proc; empty if the process is gone."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return ""


def gone(pids):
    return all(state(pid) in {"", "Z"} for pid in pids)


STARTING = """
import threading
from support.testing.echo import Echo
class Slow(Echo):
    def _prepare(self):
        print(self.folder, self._proxy.pid, flush=True)
        threading.Event().wait()
Slow().start()
"""
SAID = f"print('done', flush=True); {WAIT}"


@pytest.mark.crash
@pytest.mark.parametrize(
    ("then", "started", "end", "number"),
    [
        (WAIT, STARTED, os.kill, signal.SIGKILL),
        (WAIT, STARTED, os.kill, signal.SIGTERM),
        (WAIT, STARTED, os.kill, signal.SIGINT),
        (f"echo.pause(); {SAID}", STARTED, os.killpg, signal.SIGKILL),
        (f"echo.kill(); {SAID}", STARTED, os.kill, signal.SIGKILL),
        ("", STARTING, os.kill, signal.SIGKILL),
    ],
)
def test_nothing_stays_when_the_process_is_killed(wait_until, then, started, end, number):
    process, folder, pids = in_another_process(then, started)
    if SAID in then:
        process.stdout.readline()
    assert folder.exists()
    end(process.pid, number)
    process.communicate()
    wait_until(lambda: gone(pids) and not folder.exists(), "the end of all that was started")


@pytest.mark.crash
def test_nothing_stays_when_a_fork_of_the_killed_process_lives_on(wait_until):
    fork = f"child = os.fork()\nif child: print(child, flush=True)\n{WAIT}"
    process, folder, pids = in_another_process(fork)
    child = int(process.stdout.readline())
    try:
        process.kill()
        process.wait()
        wait_until(lambda: gone(pids) and not folder.exists(), "the end of all that was started")
    finally:
        os.kill(child, signal.SIGKILL)
        process.communicate()


@pytest.mark.parametrize(
    ("then", "code"), [("sys.exit(3)", 3), ("raise ValueError", 1), ("os._exit(4)", 4), ("", 0)]
)
def test_nothing_stays_when_the_process_ends_without_closing(wait_until, imported, tmp_path, then, code):
    ended, (first, *_) = imported(then, tmp_path)
    folder, *pids = first.split()
    assert ended == code
    wait_until(lambda: gone(map(int, pids)) and not Path(folder).exists(), "the end of all that was started")


def test_a_fork_does_not_end_the_services_of_its_parent(imported, tmp_path):
    then = """
if os.fork() == 0:
    echo.close()
    sys.exit()
os.wait()
with echo.connect() as connection:
    connection.sendall(b"there")
    print(connection.recv(100).decode(), flush=True)
echo.close()
"""
    ended, printed = imported(then, tmp_path)
    folder, *pids = printed[0].split()
    assert printed[1:] == ["there"]
    assert ended == 0
    assert gone(map(int, pids))
    assert not Path(folder).exists()


@pytest.mark.parametrize("end", ["kill", "stop", "close"])
def test_a_service_ends_with_its_descendants(end, wait_until):
    with Echo() as echo:
        pids = [echo._process.pid, echo.child]
        assert not gone(pids)
        getattr(echo, end)()
        assert not echo.running
        wait_until(lambda: gone(pids), "the end of both")


def test_what_does_not_start_says_what_it_printed_and_leaves_nothing(tmp_path, monkeypatch):
    monkeypatch.setattr(Echo, "_command", lambda _self: [sys.executable, "-c", "print('no luck'); exit(7)"])
    echo = Echo()
    with pytest.raises(ServiceError, match=r"(?s)it ended with 7; it printed:.*no luck"):
        echo.start()
    with pytest.raises(ServiceError, match="no folder"):
        _ = echo.folder
