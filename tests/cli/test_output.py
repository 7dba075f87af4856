"""Commands whose reader has gone away, with real pipes."""

import os
import subprocess
import sys

import pytest

from ridgeline.cli.output import Output, OutputGoneError
from support.cli.windows import make_plan, watch_of, window
from support.paths import SUPPORT
from support.waiting import PATIENCE_SECONDS

TINY = str(SUPPORT / "cli" / "tiny.py")
PLAN = make_plan()


@pytest.fixture
def broken_pipe():
    """The file descriptor of a pipe that nobody reads."""
    source, sink = os.pipe()
    os.close(source)
    yield sink
    os.close(sink)


@pytest.fixture
def unread(environment, broken_pipe):
    """`unread("plan", "app.py")`: exit code and standard error of a command whose output nobody reads."""

    def run(*words, **streams):
        command = [sys.executable, "-m", "ridgeline", *words]
        streams = {"stdout": broken_pipe, "stderr": subprocess.PIPE, **streams}
        named = {"text": True, "env": environment, "timeout": PATIENCE_SECONDS, **streams}
        done = subprocess.run(command, **named, check=False)
        return done.returncode, done.stderr

    return run


@pytest.fixture
def running(serve):
    serve(
        watch_of(PLAN, [event for number in range(3) for event in window(PLAN, number, at=0.5 * number)]),
        PLAN,
    )


@pytest.mark.usefixtures("running")
@pytest.mark.parametrize("words", [("plan", TINY), ("--version",), ("latency",), ("progress", "--watch")])
def test_a_command_ends_quietly(unread, words):
    assert unread(*words) == (141, "")


def test_errors_that_nobody_reads_keep_their_exit_code(unread, broken_pipe):
    assert unread("latency", stderr=broken_pipe)[0] == 2


def test_a_console_goes_on_in_silence(broken_pipe):
    called = []
    with os.fdopen(os.dup(broken_pipe), "w") as file:
        console = Output(lambda: called.append("gone"), file=file)
        for _ in range(3):
            console.print("x")
        assert called == ["gone"]
    with os.fdopen(os.dup(broken_pipe), "w") as file, pytest.raises(OutputGoneError):
        Output(file=file).print("x")
