import io
import traceback

import pytest
import typer

from ridgeline.api.errors import CheckpointError, Failure, Fault, OperatorError, ValidationError
from ridgeline.api.support.tracebacks import users_frames
from ridgeline.cli.errors import CommandError, exit_code, make_console, print_error, reporting_errors

FAILURE = Failure(
    "a", "total", 1, 7, "process of port numbers", "ZeroDivisionError: division by zero", "Number(value=3)"
)


def text_of(error):
    console = make_console()
    console.file = io.StringIO()
    print_error(error, console)
    return console.file.getvalue()


def failing(error):
    raise error


def test_exit_codes():
    assert exit_code(ValidationError("a", [])) == 2
    assert exit_code(CommandError("x")) == 2
    assert exit_code(OperatorError(FAILURE)) == 1
    assert exit_code(CheckpointError("x")) == 1


def test_faults_are_listed():
    error = ValidationError("a", [Fault("x.y", "is `wrong`", "do that"), Fault("z", "is missing", "give it")])
    assert text_of(error).splitlines() == [
        "error: application `a` is not valid; 2 faults:",
        "",
        "  1. x.y",
        "     is `wrong`",
        "     do that",
        "",
        "  2. z",
        "     is missing",
        "     give it",
    ]


def test_reporting_errors_calls_what_comes_after_and_exits(capsys):
    with pytest.raises(typer.Exit) as ended, reporting_errors(lambda: print("after")):
        failing(CheckpointError("the folder is gone"))
    assert ended.value.exit_code == 1
    assert capsys.readouterr() == ("after\n", "error: the folder is gone\n")


@pytest.mark.parametrize("debug", ["", "1"])
def test_an_exception_that_nobody_meant(capsys, monkeypatch, debug):
    monkeypatch.setenv("RIDGELINE_DEBUG", debug)
    error = ZeroDivisionError("why")
    error.add_note("more is in `folder/file`")
    with pytest.raises(typer.Exit) as ended, reporting_errors():
        failing(error)
    assert ended.value.exit_code == 1
    printed = capsys.readouterr().err
    assert printed.startswith("error: ZeroDivisionError: why\nnote: more is in `folder/file`\n")
    assert ("in failing\n    raise error\n" in printed) == bool(debug)
    assert ("RIDGELINE_DEBUG=1 in the environment shows where" in printed) != bool(debug)


TRACEBACK = """Traceback (most recent call last):
  File "/x/site-packages/ridgeline/engine/operator/runtime.py", line 180, in _call
    return function(*arguments)
  File "/home/u/app.py", line 3, in add
    self.divide(tuple)
    ~~~~~~~~~~~^^^^^^^
  File "/home/u/app.py", line 7, in divide
    return numpy.linalg.inv(x)
  File "/usr/x/site-packages/numpy/linalg.py", line 9, in inv
    raise LinAlgError("singular")
  File "/usr/x/site-packages/numpy/linalg.py", line 1, in fail
    raise error
numpy.linalg.LinAlgError: singular
"""


def test_only_the_users_frames_are_shown():
    assert (
        users_frames(TRACEBACK)
        == """Traceback (most recent call last):
  File "/home/u/app.py", line 3, in add
    self.divide(tuple)
    ~~~~~~~~~~~^^^^^^^
  File "/home/u/app.py", line 7, in divide
    return numpy.linalg.inv(x)
  ... 2 frames of libraries
numpy.linalg.LinAlgError: singular
"""
    )


def test_no_frames_of_the_user_no_traceback():
    assert users_frames(TRACEBACK.replace("/home/u/app.py", "/x/site-packages/a.py")) == ""
    assert users_frames(TRACEBACK.replace("/home/u/app.py", "pyarrow/array.pxi")) == ""
    assert users_frames("java.lang.OutOfMemoryError\n\tat org.apache.spark") == ""


def test_of_many_frames_the_last_ones_are_shown():
    def dive(depth):
        return dive(depth - 1) if depth % 2 else other(depth)

    def other(depth):
        return 1 / 0 if not depth else dive(depth - 1)

    with pytest.raises(ZeroDivisionError) as caught:
        dive(40)
    text = users_frames("".join(traceback.format_exception(caught.value)), limit=3)
    assert text.count("  File ") == 3
    assert "1 / 0" in text
