"""Packages that are unpacked: in private folders, removed at the end or by the next process."""

import os
import signal
import stat
import subprocess
import sys
import tempfile

import pytest

from ridgeline.api.errors import PackageError
from ridgeline.packages.package import open_package
from ridgeline.packages.unpacked import UnpackedPackage
from support.packages.wheels import FILES, write_wheel


@pytest.fixture(autouse=True)
def _own_folder(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))


def _folders(tmp_path):
    return sorted(tmp_path.glob("ridgeline-package-*"))


def test_files_are_their_users_alone_and_go_when_it_is_closed(tmp_path):
    path = write_wheel(tmp_path, {**FILES, "casino/rates.csv": "a,1\n"})
    unpacked = UnpackedPackage(path, open_package(path).sha256)
    assert (unpacked.files / "casino" / "rates.csv").read_text() == "a,1\n"
    for found in [unpacked.files.parent, *unpacked.files.parent.rglob("*")]:
        assert not stat.S_IMODE(found.stat().st_mode) & 0o022
    assert stat.S_IMODE(unpacked.files.parent.stat().st_mode) == 0o700
    unpacked.close()
    assert _folders(tmp_path) == []


def test_a_file_that_changes_after_it_was_checked_is_refused(tmp_path):
    path = write_wheel(tmp_path)
    sha256 = open_package(path).sha256
    write_wheel(tmp_path, {**FILES, "casino/more.py": ""})
    with pytest.raises(PackageError, match="is not what it was: its digest differs"):
        UnpackedPackage(path, sha256)
    assert _folders(tmp_path) == []


def test_what_a_killed_process_left_is_removed_and_what_another_uses_stays(tmp_path):
    path = write_wheel(tmp_path)
    sha256 = open_package(path).sha256
    program = (
        "import sys, pathlib; from ridgeline.packages.unpacked import UnpackedPackage\n"
        "kept = UnpackedPackage(pathlib.Path(sys.argv[1]), sys.argv[2]); "
        "print(kept.files.parent, flush=True)\n"
        "sys.stdin.read()"
    )
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", program, path, sha256],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "TMPDIR": str(tmp_path)},
        )
        for _ in range(2)
    ]
    try:
        killed, living = [process.stdout.readline().strip() for process in processes]
        processes[0].send_signal(signal.SIGKILL)
        processes[0].wait()
        assert {killed, living} == {str(folder) for folder in _folders(tmp_path)}
        UnpackedPackage(path, sha256).close()
        assert [living] == [str(folder) for folder in _folders(tmp_path)]
    finally:
        for process in processes:
            process.kill()
            process.communicate()


def test_no_place_for_it_is_an_error_with_a_remedy(tmp_path, monkeypatch):
    path = write_wheel(tmp_path)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "none"))
    with pytest.raises(PackageError, match="cannot be unpacked: No such file"):
        UnpackedPackage(path, open_package(path).sha256)
