"""Commands whose reader has gone away, with real pipes."""

import os

import pytest

from ridgeline.cli.output import Output, OutputGoneError


@pytest.fixture
def broken_pipe():
    """The file descriptor of a pipe that nobody reads."""
    source, sink = os.pipe()
    os.close(source)
    yield sink
    os.close(sink)


def test_a_console_goes_on_in_silence(broken_pipe):
    called = []
    with os.fdopen(os.dup(broken_pipe), "w") as file:
        console = Output(lambda: called.append("gone"), file=file)
        for _ in range(3):
            console.print("x")
        assert called == ["gone"]
    with os.fdopen(os.dup(broken_pipe), "w") as file, pytest.raises(OutputGoneError):
        Output(file=file).print("x")
