"""A run without `--checkpoint` leaves a folder only where there is something to go on with."""

import tempfile

import pytest

from ridgeline import CheckpointError
from ridgeline.engine.driver.checkpoint.folder import temporary_checkpoint
from support.paths import SUPPORT

TINY = SUPPORT / "cli" / "tiny.py"
RUN = ("run", TINY, "--master", "local[2]")


@pytest.fixture
def temporary(tmp_path, environment, monkeypatch):
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setitem(environment, "TMPDIR", str(folder))
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    return lambda: [
        path for path in folder.iterdir() if path.name.startswith("ridgeline-") and "tiny" in path.name
    ]


def ended(process, code):
    stdout, stderr = process.communicate()
    assert process.returncode == code, stdout + stderr
    return stdout + stderr


@pytest.mark.spark
@pytest.mark.slow
def test_what_a_run_leaves(ridgeline_process, temporary):
    printed = ended(ridgeline_process(*RUN), 0)
    assert "finished: all inputs have given everything, 5 windows committed" in printed
    assert temporary() == []
    assert "not needed" not in printed

    printed = ended(ridgeline_process(*RUN, "-D", "total.fail_at=0"), 3)
    assert "no window of this run is committed" in printed
    assert (temporary(), "go on with" in printed) == ([], False)

    printed = ended(ridgeline_process(*RUN, "--windows", "2"), 0)
    [kept] = temporary()
    assert f"--checkpoint {kept}" in printed.splitlines()[-1]
    printed = ended(ridgeline_process(*RUN, "--checkpoint", kept), 0)
    assert "3 windows committed" in printed
    assert kept.is_dir(), "a folder that was given is the user's"


def test_a_full_disk_is_reported(temporary, monkeypatch):
    def full(**_named):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(tempfile, "mkdtemp", full)
    with pytest.raises(CheckpointError, match="temporary folder: No space left on device; free some space"):
        temporary_checkpoint("tiny")
