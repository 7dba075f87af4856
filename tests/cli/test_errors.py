import traceback

import pytest
import typer

from ridgeline.api.errors import CheckpointError
from ridgeline.api.support.tracebacks import users_frames
from ridgeline.cli.errors import reporting_errors


def failing(error):
    raise error


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
    shown = """Traceback (most recent call last):
  File "/home/u/app.py", line 3, in add
    self.divide(tuple)
    ~~~~~~~~~~~^^^^^^^
  File "/home/u/app.py", line 7, in divide
    return numpy.linalg.inv(x)
  ... 2 frames of libraries
numpy.linalg.LinAlgError: singular
"""
    assert users_frames(TRACEBACK) == shown


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
