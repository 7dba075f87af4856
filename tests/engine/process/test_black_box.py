"""What is left of a process that dies in an operator's turn."""

import ctypes
import faulthandler
import os

import pytest

from ridgeline.engine.process import stacks
from ridgeline.engine.process.black_box import BlackBox, Death, Turn, death_of, turn_of
from ridgeline.plan.planner import plan_application
from support.engine.applications import sum_application


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.setattr(stacks.tempfile, "gettempdir", lambda: str(tmp_path))
    return tmp_path


def die(turn, how=lambda: os._exit(3), *, idle=False):
    """A process in whose turn of this kind it dies; its id."""
    pid = os.fork()
    if pid == 0:
        faulthandler.disable()  # pytest's
        stacks.register()
        box = BlackBox()
        box.note(Turn("longer-run-id-before", 123456, 1, 1, 1))
        box.note(turn)
        if idle:
            box.idle()
        how()
    os.waitpid(pid, 0)
    return pid


def test_the_turn_outlives_the_process():
    turn = Turn("run-1", 7, 1, 2, 5)
    pid = die(turn)
    assert turn_of(pid) == turn
    assert stacks.last_words(pid) == ""


def test_whoever_dies_idle_has_no_turn():
    assert turn_of(die(Turn("run-1", 7, 1, 2, 5), idle=True)) is None


def test_a_crash_leaves_its_signal_and_its_stack():
    dump = stacks.last_words(die(Turn("run-1", 7, 1, 2, 5), lambda: ctypes.string_at(0)))
    assert dump.startswith("Fatal Python error: Segmentation fault")
    assert "in string_at" in dump


def test_the_failure_says_how_often_and_how_processes_have_died():
    operator = next(
        one for one in plan_application(sum_application()).physical.operators if one.name == "total"
    )
    turn = Turn("run-1", 7, 1, 1, operator.id)
    dump = "Fatal Python error: Segmentation fault\n  in meet"
    failure = death_of("sums", operator, 7, [Death(1, turn, "")])
    assert (failure.operator, failure.callback, failure.raised) == ("total", "its turn", False)
    killed = "it was killed (is the host out of memory?), or ended by `os._exit`"
    assert failure.error == f"its worker process died: {killed}"
    failure = death_of("sums", operator, 7, [Death(1, turn, dump), Death(2, turn, "")])
    crashed = "it crashed in native code: Segmentation fault"
    assert (failure.error, failure.traceback) == (f"its worker process died twice: {crashed}", dump)


@pytest.mark.parametrize(
    "content", [b"", b"\n", b"x", b"7 1 2\n", b"\xff\xfe\n", b"7 1 2 x run-1\n", b"9" * 10_000]
)
def test_damaged_files_are_nobodys_turn(content):
    pid = die(Turn("run-1", 7, 1, 2, 5))
    (stacks.folder() / f"{pid}.turn").write_bytes(content)
    assert turn_of(pid) is None


def test_without_a_folder_nothing_is_noted(folder):
    (folder / f"ridgeline-stacks-{os.getuid()}").touch()
    box = BlackBox()
    box.note(Turn("run-1", 7, 1, 2, 5))
    box.idle()
    assert turn_of(os.getpid()) is None
