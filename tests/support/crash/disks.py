"""Disks that are full and folders that cannot be written, for root and for others."""

import contextlib
import os
import subprocess
import time

import pytest


@contextlib.contextmanager
def small_disk(folder, megabytes):
    """A file system of its own at a folder; skips the test where it cannot be mounted."""
    folder.mkdir(parents=True)
    options = f"size={megabytes}m,mode=0700,uid={os.getuid()}"
    if _run("mount", "-t", "tmpfs", "-o", options, "tmpfs", folder):
        pytest.skip("a full disk needs a small file system, and this user may not mount one")
    try:
        yield folder
    finally:
        _unmount(folder)


@contextlib.contextmanager
def full(folder):
    """No byte is free on the folder's disk."""
    ballast = folder / "ballast"
    with ballast.open("wb", buffering=0) as file, contextlib.suppress(OSError):
        for size in (65536, 4096, 1):
            with contextlib.suppress(OSError):
                while file.write(b"x" * size):
                    pass
    try:
        yield
    finally:
        ballast.unlink()


class Mounted:
    """A folder that is a mount of another one, and can lose it: what is there then is empty."""

    def __init__(self, folder, real):
        self.folder, self._real = folder, real
        self.there = False

    def put_back(self):
        """Mount it; skips the test where that cannot be done."""
        if not self.there and _run("mount", "--bind", self._real, self.folder):
            pytest.skip("a mount that goes away needs one, and this user may not mount")
        self.there = True

    def take_away(self):
        """Unmount it at once, whoever has files open in it."""
        assert not _run("umount", "--lazy", self.folder)
        self.there = False


@contextlib.contextmanager
def mounted(folder, real):
    """A `Mounted`, whose files lie in the folder `real`."""
    for one in (folder, real):
        one.mkdir(parents=True, exist_ok=True)
    found = Mounted(folder, real)
    found.put_back()
    try:
        yield found
    finally:
        if found.there:
            _unmount(folder)


@contextlib.contextmanager
def read_only(folder):
    """Make a folder unwritable, by its mode or for root by a mount; skip the test where neither works."""
    if os.getuid() != 0:
        folder.chmod(0o500)
        try:
            yield
        finally:
            folder.chmod(0o700)
        return
    if _run("mount", "--bind", folder, folder):
        pytest.skip("root writes wherever it likes, and a folder cannot be mounted read-only here")
    try:
        deadline = time.monotonic() + 10
        while _run("mount", "-o", "remount,ro,bind", folder):  # not while a file in it is being written
            assert time.monotonic() < deadline, "the folder could not be made read-only"
        yield
    finally:
        _unmount(folder)


def _unmount(folder):
    deadline = time.monotonic() + 30
    while _run("umount", folder):
        assert time.monotonic() < deadline, f"{folder} could not be unmounted"
        time.sleep(0.1)


def _run(*command):
    """The exit code of a command, whatever it says."""
    try:
        return subprocess.run(list(map(str, command)), capture_output=True, check=False).returncode
    except OSError:
        return 127
