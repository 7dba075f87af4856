"""`kill -9` of what copies a checkpoint folder, before every single operation on its files."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from ridgeline.engine.driver.checkpoint.upkeep.contents import describe, runs_of, verify
from ridgeline.engine.driver.checkpoint.upkeep.copying import COPYING, copy
from ridgeline.testing import run_local
from support.rewound import LAST, application

pytestmark = [pytest.mark.crash, pytest.mark.slow]
TESTS = Path(__file__).parents[1]
LEAST = 12
"""Operations that a copy has at least; fewer would mean that none are counted."""


@pytest.fixture(autouse=True)
def _private(tmp_path: Path) -> None:
    tmp_path.chmod(0o700)


def killed(tmp_path: Path) -> list[Path]:
    """Folders in which a copy of `first` was killed, one operation later each; the last was not."""
    words = [sys.executable, "-m", "support.crash.killed_upkeep", tmp_path / "first", tmp_path / "out"]
    environment = {"PYTHONPATH": str(TESTS), "PATH": "/usr/bin:/bin", "TMPDIR": str(tmp_path)}
    (tmp_path / "out").mkdir(mode=0o700)
    subprocess.run([str(one) for one in words], env=environment, check=True, timeout=120)
    folders = sorted((tmp_path / "out").iterdir())
    assert len(folders) > LEAST
    return folders


def collected(state: Path, **more: int) -> list[object]:
    return sorted(run_local(application(), checkpoint=state, **more).collected("sink"))


def straight(tmp_path: Path) -> list[object]:
    """The output from where `first` ends, without any kill."""
    shutil.copytree(tmp_path / "first", tmp_path / "straight")
    return collected(tmp_path / "straight")


def whole(state: Path) -> list[int]:
    """The windows that a run can go back to; all their files are whole."""
    [run] = runs_of(str(state))
    assert not verify(run).faults, state
    return [one.window_id for one in describe(run).windows]


def test_a_copy_is_ended_by_the_next_one(tmp_path: Path) -> None:
    run_local(application(), windows=LAST + 1, checkpoint=tmp_path / "first")
    rest = straight(tmp_path)
    for folder in killed(tmp_path):
        state, there = folder / "state", folder / "there"
        if not there.exists() or (there / COPYING).exists() or not any(there.iterdir()):
            copy(str(state), str(there))
        whole(there)
        assert collected(there) == rest, folder
        assert collected(state) == rest, folder
