"""What is left of a process that dies in an operator's turn."""

import ctypes
import faulthandler
import os
import signal

import pytest

from ridgeline.engine.process import black_box, stacks
from ridgeline.engine.process.black_box import BlackBox, Turn, deaths, victims
from ridgeline.plan.container_spec import container_specs
from ridgeline.plan.planner import plan_application
from ridgeline.plan.protocol import WindowRequest
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
    assert [(death.pid, death.turn, death.dump) for death in deaths("run-1", 7, 1)] == [(pid, turn, "")]
    assert deaths("run-1", 7, 0) == deaths("run-2", 7, 1) == []


def test_whoever_dies_idle_has_no_turn():
    die(Turn("run-1", 7, 1, 2, 5), idle=True)
    assert deaths("run-1", 7, 1) == []


def test_a_crash_leaves_its_signal_and_its_stack():
    die(Turn("run-1", 7, 1, 2, 5), lambda: ctypes.string_at(0))
    [death] = deaths("run-1", 7, 1)
    assert death.dump.startswith("Fatal Python error: Segmentation fault")
    assert "in string_at" in death.dump


def test_two_deaths_in_the_turn_of_one_operator_are_a_failure():
    spec = next(
        spec
        for spec in container_specs(plan_application(sum_application()))
        if spec.operators[0].name == "total"
    )
    operator, request = spec.operators[0], WindowRequest(7, 1, 3)
    turn = Turn("run-1", 7, 1, spec.id, operator.id)
    die(turn, lambda: os.kill(os.getpid(), signal.SIGKILL))
    assert victims(spec, "run-1", request) is None
    die(turn._replace(operator=operator.id + 1))
    die(turn._replace(container=spec.id + 1))
    assert victims(spec, "run-1", request) is None
    die(turn)
    failure = victims(spec, "run-1", request)
    assert (failure.operator, failure.callback, failure.raised) == ("total", "its turn", True)
    assert (
        failure.error
        == "its worker process died twice: it was killed (is the host out of memory?), or ended by `os._exit`"
    )


@pytest.mark.parametrize(
    "content", [b"", b"\n", b"x", b"7 1 2\n", b"\xff\xfe\n", b"7 1 2 x run-1\n", b"9" * 10_000]
)
def test_damaged_files_are_no_deaths(folder, content):
    pid = die(Turn("run-1", 7, 1, 2, 5))
    (stacks.folder() / f"{pid}.turn").write_bytes(content)
    (stacks.folder() / "x.turn").write_bytes(b"7 1 2 5 run-1\n")
    assert deaths("run-1", 7, 1) == []


def test_without_a_folder_nothing_is_noted(folder):
    (folder / f"ridgeline-stacks-{os.getuid()}").touch()
    box = BlackBox()
    box.note(Turn("run-1", 7, 1, 2, 5))
    box.idle()
    assert black_box.turn_of(os.getpid()) is None
    assert deaths("run-1", 7, 1) == []
