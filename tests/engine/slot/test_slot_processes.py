"""Slots as processes over real sockets: windows in flight, a killed slot, the end, a STRAM that dies."""

import os
import signal
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa
import pytest

from ridgeline import Application, InputPort, KeyedState, Operator, OutputPort
from ridgeline.engine.slot.messages import Unreachable
from ridgeline.testing import END_WINDOW, CollectorSink, ListInput
from support.engine.slot_processes import Driver

WINDOWS = 8


class Item(NamedTuple):
    key: int
    number: int


class Sums(Operator):
    """Emits the sums that the window changed, and notes its life in a folder."""

    data = InputPort(Item, key="key")
    out = OutputPort(Item)
    folder: str = ""
    fails_at: int = -1

    sums = KeyedState(int, default=0)

    def setup(self, context) -> None:
        self._note("setup")

    def teardown(self) -> None:
        self._note("teardown")

    @data.process
    def take(self, item: Item) -> None:
        self.sums[item.key] += item.number
        if item.number == self.fails_at and self._note("failed") == 1:
            raise ValueError("as planned")

    def end_window(self) -> None:
        for key, total in self.sums.changed():
            self.out.emit(Item(key, total))

    def _note(self, what: str) -> int:
        with Path(self.folder, what).open("a+") as file:
            file.write(f"{os.getpid()}\n")
            file.seek(0)
            return len(file.readlines())


def application(folder, fails_at=-1):
    items = []
    for window in range(WINDOWS):
        items += [*(Item(key, window) for key in range(10)), END_WINDOW]
    app = Application("app")
    source = app.add_operator("source", ListInput(Item, items))
    sums = app.add_operator("sums", Sums(folder=str(folder), fails_at=fails_at), partitions=2)
    sink = app.add_operator("sink", CollectorSink())
    app.add_stream("in", source.output, sums.data)
    app.add_stream("out", sums.out, sink.input)
    return app


@pytest.fixture
def started(tmp_path):
    """`started(**how)`: slots 0 and 1 have joined and host every second container."""
    drivers = []

    def start(**how):
        (tmp_path / "notes").mkdir()
        app = application(tmp_path / "notes", **how)
        driver = Driver(app, str(tmp_path / "checkpoint"), lambda number: number % 2)
        drivers.append(driver)
        for slot in (0, 1):
            driver.start(slot)
        driver.until(lambda: len(driver.joined) == 2)
        driver.host()
        return driver

    yield start
    for driver in drivers:
        driver.close()


def run(driver, first, last, in_flight=3):
    """Run windows with several in flight, the first from the states as committed."""
    keys = []
    for window_id in range(first, last + 1):
        keys.append(driver.begin(window_id, states=window_id == first))
        if len(keys) == in_flight:
            commit(driver, keys.pop(0))
    for key in keys:
        commit(driver, key)


def commit(driver, key):
    driver.until(lambda: driver.complete(key))
    driver.collected += driver.commit(key)


def notes(folder, what):
    path = folder / "notes" / what
    return path.read_text().split() if path.exists() else []


def totals(driver):
    batches = [batch for data in driver.collected for batch in pa.ipc.open_stream(data)]
    return sorted(Item(**row) for batch in batches for row in batch.to_pylist())


EXPECTED = sorted(Item(key, sum(range(window + 1))) for window in range(WINDOWS) for key in range(10))


@pytest.mark.crash
@pytest.mark.parametrize("slot", [0, 1])
def test_a_killed_slot_comes_back_and_nothing_is_lost_or_doubled(started, slot):
    driver = started()
    run(driver, 0, 2)
    driver.begin(3, states=False)
    os.kill(driver.processes[driver.peers[slot]].pid, signal.SIGKILL)
    driver.begin(4, states=False)
    driver.until(lambda: slot not in driver.peers)
    driver.start(slot, attempt=1)
    driver.until(lambda: slot in driver.peers)
    driver.host()
    run(driver, 3, WINDOWS - 1)
    assert totals(driver) == EXPECTED
    other = driver.peers[1 - slot]
    assert all(one.peer.slot == slot for one in driver.messages if isinstance(one, Unreachable))
    assert driver.processes[other].is_alive()


@pytest.mark.crash
def test_slots_tear_down_and_go_when_stram_is_gone(started, tmp_path, wait_until):
    driver = started()
    run(driver, 0, 1)
    driver.network.close(0.0)
    processes = list(driver.processes.values())
    wait_until(lambda: not any(one.is_alive() for one in processes), "the slots to go")
    assert [one.exitcode for one in processes] == [0, 0]
    assert sorted(notes(tmp_path, "teardown")) == sorted(notes(tmp_path, "setup"))
