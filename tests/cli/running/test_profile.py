import pytest

from ridgeline.cli.errors import CommandError
from ridgeline.cli.running import profile
from ridgeline.cli.running.profile import INSTALL, Profile
from support.cli.windows import make_plan, window

PLAN = make_plan()


def profiled(folder, windows, *, own_host="elsewhere"):
    """What a profile shows of a run of so many windows."""
    made = Profile(folder, 5, own_host)
    for number in range(windows):
        for event in window(PLAN, number, at=0.1 * number):
            made.apply(event)
    return made.finish()


@pytest.fixture
def no_py_spy(monkeypatch):
    monkeypatch.setattr(profile, "find_py_spy", lambda: None)


@pytest.fixture
def py_spy(tmp_path):
    """`py_spy(text)`: a program in the place of py-spy that does what the shell text says."""

    def make(text):
        path = tmp_path / "py-spy"
        path.write_text(f"#!/bin/sh\n{text}\n")
        path.chmod(0o755)
        return str(path)

    return make


@pytest.mark.usefixtures("no_py_spy")
def test_without_py_spy_it_says_how_to_install_it(tmp_path):
    folder = tmp_path / "deep" / "profile"
    assert profiled(folder, 12)[-1] == INSTALL
    assert list(folder.iterdir()) == []


def test_a_folder_that_cannot_be_made_is_reported_before_the_run(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(CommandError, match=r"`.*file/profile`: Not a directory; start the command"):
        profiled(tmp_path / "file" / "profile", 0)


def test_flame_graphs_begin_once_windows_are_warm(tmp_path, py_spy, monkeypatch):
    monkeypatch.setattr(profile, "find_py_spy", lambda: py_spy("exit 0"))
    over = "the run was over before py-spy had begun; give it more windows"
    driver, worker = (f"no flame graph of the {who}: {over}" for who in ("driver", "worker"))
    assert profiled(tmp_path, 9)[-1] == "no flame graphs: they begin after 10 windows, or 5 s"
    elsewhere, other = profiled(tmp_path, 10)[-2:]
    assert "of a worker: none runs on this host; on a worker's: `py-spy record --pid PID" in elsewhere
    assert other == driver
    assert profiled(tmp_path, 10, own_host="host")[-2:] == [driver, worker]


@pytest.mark.parametrize(
    ("does", "line"),
    [
        (
            "echo 'Permission Denied: Try running again with elevated permissions' >&2; exit 1",
            "py-spy may not look into the process",
        ),
        ("echo 'Error: Failed to open process' >&2; exit 1", "py-spy says: Failed to open process"),
        ("exit 0", "the run was over before py-spy had begun; give it more windows"),
        (
            "trap '' INT; while true; do :; done",
            "the run was over before py-spy had begun; give it more windows",
        ),
    ],
)
def test_what_kept_py_spy_from_recording_is_reported(tmp_path, py_spy, monkeypatch, does, line):
    monkeypatch.setattr(profile, "_PATIENCE_SECONDS", 0.2 if "trap" in does else 10.0)
    monkeypatch.setattr(profile, "find_py_spy", lambda: py_spy(does))
    assert profiled(tmp_path, 10)[-1].startswith(f"no flame graph of the driver: {line}")


def test_a_py_spy_that_does_not_start_is_reported(tmp_path, monkeypatch):
    monkeypatch.setattr(profile, "find_py_spy", lambda: str(tmp_path / "py-spy"))
    assert profiled(tmp_path, 10)[0] == (
        f"no flame graph of the driver: `{tmp_path / 'py-spy'}` does not start: No such file or directory"
    )
