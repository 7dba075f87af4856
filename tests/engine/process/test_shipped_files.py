"""Files of drivers before go, those of later ones stay."""

import pytest

from ridgeline.api.errors import UntrustedError
from ridgeline.engine.files.storage import MemoryStorage
from ridgeline.engine.process import plan_distribution, shipped_files
from ridgeline.plan.container_spec import container_specs
from ridgeline.plan.planner import plan_application
from support.engine.applications import sum_application


def test_files_of_drivers_before_go_and_nothing_else():
    """Drivers run the same code, so their files have the same contents."""
    storage = MemoryStorage()
    specs = container_specs(plan_application(sum_application(count=1)))
    shipped = [plan_distribution.distribute(storage, specs, epoch=epoch) for epoch in (1, 2, 3)]
    shipped_files.purge(storage, 2)
    assert {name.partition("-")[0] for name in storage.names("plans")} == {"00000002", "00000003"}
    for one in shipped[1:]:
        assert plan_distribution.receive(storage, one)
    with pytest.raises(FileNotFoundError):
        plan_distribution.receive(storage, shipped[0])


def test_a_file_that_is_another_is_refused():
    storage = MemoryStorage()
    sha256 = shipped_files.ship(storage, b"code", 1)
    assert shipped_files.read(storage, sha256, 1) == b"code"
    storage.write(shipped_files.place_of(sha256, 1), b"other")
    with pytest.raises(UntrustedError, match=r"digest differs \(5 bytes\); remove it and start"):
        shipped_files.read(storage, sha256, 1)
