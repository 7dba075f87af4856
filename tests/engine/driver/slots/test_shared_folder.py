"""The driver's folder for blocks: private, locked, removed also after a driver that was killed."""

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from ridgeline.engine.driver.slots import shared_folder
from ridgeline.engine.driver.slots.shared_folder import SharedFolder, open_folder
from ridgeline.engine.exchange.shared_blocks import free_bytes


def names(path):
    return sorted(entry.name for entry in path.iterdir())


def test_a_folder_is_private_and_leaves_nothing_behind(tmp_path):
    folder = SharedFolder(str(tmp_path))
    assert Path(folder.place.folder).stat().st_mode & 0o777 == 0o700
    assert 0 < folder.place.room_bytes() <= free_bytes(str(tmp_path))
    (tmp_path / folder.place.folder / "block").write_bytes(b"1")
    folder.clean(0)
    assert names(Path(folder.place.folder)) == ["lock"]
    (tmp_path / folder.place.folder / "block").write_bytes(b"1")
    folder.close()
    assert names(tmp_path) == []
    folder.clean(0)


def test_leftovers_of_a_killed_driver_are_removed_and_a_living_neighbours_folder_stays(tmp_path):
    text = (
        "import sys, time\n"
        "from ridgeline.engine.driver.slots.shared_folder import SharedFolder\n"
        "folder = SharedFolder(sys.argv[1])\n"
        "open(folder.place.folder + '/block', 'wb').close()\n"
        "print(folder.place.folder, flush=True)\n"
        "time.sleep(600)\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", text, str(tmp_path)], stdout=subprocess.PIPE, text=True
    ) as other:
        left = Path(other.stdout.readline().strip())
        mine = open_folder([str(tmp_path)])
        assert names(left) == ["block", "lock"]
        other.send_signal(signal.SIGKILL)
    next_one = open_folder([str(tmp_path)])
    assert not left.exists()
    for folder in (mine, next_one):
        assert Path(folder.place.folder).is_dir()
        folder.close()
    assert names(tmp_path) == []


def test_the_first_place_with_enough_space_is_taken(tmp_path, monkeypatch):
    free = {"small": 1 << 20, "large": 1 << 40}
    for name in free:
        (tmp_path / name).mkdir()
    monkeypatch.setattr(shared_folder, "free_bytes", lambda root: free[Path(root).name])
    folder = open_folder([str(tmp_path / "small"), str(tmp_path / "large")])
    assert Path(folder.place.folder).parent == tmp_path / "large"
    folder.close()
    assert open_folder([str(tmp_path / "small")]) is None


@pytest.mark.parametrize("root", ["missing", "file"])
def test_a_place_that_cannot_be_used_is_passed_over(tmp_path, root):
    (tmp_path / "file").touch()
    assert open_folder([str(tmp_path / root)]) is None
