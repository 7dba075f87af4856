"""What the simulation has found. All of it is mended."""

import random
from dataclasses import replace
from types import SimpleNamespace

import pytest

from ridgeline.api.errors import CheckpointError, FencedError
from ridgeline.engine.driver.checkpoint.folder import Checkpoint
from ridgeline.engine.driver.checkpoint.manifest import Manifest
from ridgeline.engine.driver.checkpoint.run_description import identify
from support.simulation.disk import Disk, SimulatedDisk
from support.simulation.platform import simulated_platform
from support.simulation.process import Killed, Process
from support.simulation.region_world import RegionCase
from support.simulation.search import failure
from support.simulation.world import Case, Fault

WITHOUT_FOLDERS = SimpleNamespace(folders=False)
"""A case in which folders are there once they are made."""


class Quiet:
    """A world without faults."""

    case = WITHOUT_FOLDERS

    def moment(self, process, what):
        pass


class Opened(Checkpoint):
    """A checkpoint on a simulated disk."""

    def __init__(self, disk):
        with simulated_platform(1 << 20):
            super().__init__(SimulatedDisk(disk, Process(Quiet(), "driver")), "app")


@pytest.fixture
def disk():
    disk = Disk(random.Random(1))
    disk.lock_is_broken = True
    return disk


def manifest(window_id, epoch):
    return Manifest(window_id, epoch, 1, {}, [], {"out": f"{window_id}.{epoch}"}, ended=False)


@pytest.mark.parametrize("store", [False, True])
def test_files_of_windows_in_flight_are_no_sign_of_a_lost_journal(store):
    faults = tuple(Fault(moment, "kill driver", 1) for moment in range(150, 600, 50))
    cases = [Case(seed, in_flight=5, large=1.0, store=store, faults=faults) for seed in range(3)]
    assert all(failure(case) == "" for case in cases)


def test_three_drivers_of_which_two_are_fenced(disk):
    """The window that the third one finds must stay, whatever the others write when they wake up."""
    first = Opened(disk)
    first.commit(manifest(0, 1))
    second = Opened(disk)
    with pytest.raises(FencedError):
        first.commit(manifest(1, 1))
    third = Opened(disk)
    found = third.last()
    with pytest.raises(FencedError):
        second.commit(manifest(1, 2))
    assert replace(Opened(disk).last(), epoch=0) == replace(found, epoch=0)


def test_a_failed_sync_whose_pages_are_forgotten(disk):
    """So Linux does it: what a failed sync has not written counts as written from then on."""
    disk.forgets = True
    first = Opened(disk)
    first.commit(manifest(0, 1))
    first.commit(manifest(1, 1))
    disk.bad_syncs = 1
    with pytest.raises(CheckpointError):
        first.commit(manifest(2, 1))
    first.close()
    found = Opened(disk).last()
    disk.lose_power()
    assert Opened(disk).last() == found


class DiesAt:
    """A world that kills its process at one point."""

    case = WITHOUT_FOLDERS

    def __init__(self, what):
        self.what = what

    def moment(self, _process, what):
        if what == self.what:
            raise Killed


def test_a_run_that_a_dead_driver_has_described_outlives_a_power_cut(disk):
    with pytest.raises(Killed):
        identify(SimulatedDisk(disk, Process(DiesAt("create sync"), "first")), "app")
    run_id = identify(SimulatedDisk(disk, Process(Quiet(), "second")), "app")
    disk.lose_power()
    assert identify(SimulatedDisk(disk, Process(Quiet(), "third")), "app") == run_id


def test_seed_1428():  # a connection that was being made anew broke at one end only: nobody went on
    faults = (
        Fault(139, "cut", 46883),
        Fault(173, "cut", 23747),
        Fault(214, "raise", 2264),
        Fault(219, "cut", 28338),
        Fault(226, "cut", 1939),
    )
    case = Case(
        seed=1428, sources=2, partitions=3, slots=3, in_flight=5, burst=8, total=7, large=1.0, interval=2,
        kept=2, segment_bytes=1000, real=False, forgets=True, faults=faults,
    )  # fmt: skip
    assert failure(case) == ""


def test_seed_32():  # a plan that was taken back had begun the window twice, the plan before began it anew
    faults = (Fault(10, "stop driver", 42561), Fault(469, "change", 3782))
    case = Case(seed=32, slots=1, in_flight=5, burst=8, total=18, large=0.0, forgets=True, faults=faults)
    assert failure(case) == ""


def test_seed_2257893():  # numbers of the journal that were free again were taken by a driver of long ago
    faults = (Fault(31, "second driver", 18767), Fault(372, "stop slot", 27523))
    case = Case(
        seed=2257893, sources=2, in_flight=2, total=13, large=0.0, interval=8, segment_bytes=1, real=False,
        forgets=True, speculates=True, faults=faults,
    )  # fmt: skip
    assert failure(case) == ""


def test_the_name_of_a_file_whose_driver_died_after_the_rename_outlives_a_power_cut():
    """The next driver moved the marker and removed the segment, though the file could still be lost."""
    faults = (Fault(244, "kill driver", 1), Fault(347, "power", 0))
    case = Case(
        seed=1, slots=1, in_flight=2, total=6, large=0.0, real=False, files="jsonl", faults=faults
    )  # fmt: skip
    assert failure(case) == ""


def test_a_disk_that_fails_while_an_output_stages():
    """The error was that of the operating system, and did not say what to do."""
    faults = (Fault(100, "bad sync", 52939),)
    case = Case(
        seed=51, sources=2, slots=1, in_flight=2, burst=8, total=1, large=0.0, kept=2, segment_bytes=1000,
        files="jsonl", faults=faults,
    )  # fmt: skip
    assert failure(case) == ""


def test_seed_10460():  # a slot late to hear of a loss hung up on the newcomer
    faults = (Fault(86, "cut", 58404), Fault(90, "late", 13483))
    case = Case(
        seed=10460, slots=3, burst=2, total=1, large=0.0, interval=2, kept=2, segment_bytes=1, forgets=True,
        files="jsonl", roll_seconds=0.5, faults=faults,
    )  # fmt: skip
    assert failure(case) == ""


def test_a_record_without_rows_does_not_outlive_the_marker_that_it_names():
    """A window without rows synced nothing, and its record said how far the folder was published."""
    faults = (Fault(149, "power", 44030), Fault(303, "stop slot", 51022), Fault(390, "power", 60715))
    case = Case(
        seed=3714, burst=2, total=5, large=0.3, real=False, speculates=True, files="jsonl", roll_seconds=0.01,
        faults=faults,
    )  # fmt: skip
    assert failure(case) == ""


def test_entries_of_a_queue_that_a_killed_driver_has_not_synced_outlive_a_power_cut():
    """The next driver synced what it had appended itself, and noted that all is synced."""
    faults = (Fault(393, "cut", 16314), Fault(650, "restart", 49226), Fault(1486, "power", 37698))
    case = RegionCase(
        seed=477280281, slots=1, in_flight=2, burst=2, total=10, large=0.3, interval=8, forgets=True,
        reads=((), (0,), (0,)), sinks=(1,), parts=(1, 1, 1), roll_entries=1, queue_bytes=1, faults=faults,
    )  # fmt: skip
    assert failure(case) == ""
