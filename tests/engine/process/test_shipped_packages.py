"""Packages on their way to workers: by the checkpoint, unpacked once a host, checked before."""

import hashlib
import sys

import pytest

from ridgeline.api.errors import PackageError, UntrustedError
from ridgeline.engine.files.storage import MemoryStorage
from ridgeline.engine.process import plan_distribution, shipped_packages
from ridgeline.engine.process.shipped_files import place_of
from ridgeline.packages.package import open_package
from ridgeline.packages.unpacked import UnpackedPackage
from support.packages.wheels import FILES, write_wheel


@pytest.fixture
def place(tmp_path, monkeypatch):
    """Nothing is used yet; Spark's local folder is a fresh one."""
    monkeypatch.setattr(shipped_packages, "_here", {})
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setattr(UnpackedPackage, "__del__", UnpackedPackage.close, raising=False)
    monkeypatch.setenv("SPARK_LOCAL_DIRS", str(tmp_path / "local"))
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    return tmp_path


def _shipped(folder, storage, files=FILES):
    path = write_wheel(folder, files)
    package = open_package(path)
    unpacked = UnpackedPackage(path, package.sha256)
    shipped_packages.use(package.sha256, unpacked.file, unpacked.files)
    return unpacked, plan_distribution.distribute(storage, [])


def _as_worker(monkeypatch):
    monkeypatch.setattr(shipped_packages, "_here", {})
    sys.path[:] = [part for part in sys.path if "ridgeline-package" not in part]


def test_a_worker_of_the_drivers_host_takes_what_is_unpacked_there(place, monkeypatch):
    storage = MemoryStorage()
    unpacked, plan = _shipped(place, storage)
    _as_worker(monkeypatch)
    plan_distribution.receive(storage, plan)
    assert sys.path[0] == str(unpacked.files)
    assert not (place / "local").exists()


def test_another_package_in_the_checkpoint_is_refused(place, monkeypatch):
    storage = MemoryStorage()
    unpacked, plan = _shipped(place, storage)
    unpacked.close()
    _as_worker(monkeypatch)
    other = write_wheel(place, {**FILES, "casino/evil.py": ""}).read_bytes()
    storage.write(place_of(plan.code.packages[0].sha256, 0), other)
    with pytest.raises(UntrustedError, match="is not what the driver wrote: its digest differs"):
        plan_distribution.receive(storage, plan)
    assert not list((place / "local").glob("*/*"))


def test_a_folder_that_others_could_have_written_is_refused(place, monkeypatch):
    storage = MemoryStorage()
    unpacked, plan = _shipped(place, storage)
    unpacked.close()
    _as_worker(monkeypatch)
    plan_distribution.receive(storage, plan)
    [kept] = (place / "local").glob("ridgeline-packages-*/*")
    kept.chmod(0o777)
    _as_worker(monkeypatch)
    with pytest.raises(UntrustedError, match="the unpacked package is refused"):
        plan_distribution.receive(storage, plan)


def test_what_is_no_package_is_an_error_on_the_worker_too(place, monkeypatch):
    storage = MemoryStorage()
    data = b"no zip file"
    sha256 = hashlib.sha256(data).hexdigest()
    storage.create(place_of(sha256, 0), data)
    with pytest.raises(PackageError, match="is no zip file"):
        shipped_packages.receive(storage, (shipped_packages.ShippedPackage(sha256, "/nowhere"),))
