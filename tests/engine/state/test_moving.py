"""No key is lost or doubled, whatever the numbers of partitions that a state goes through."""

import math
import tempfile
from contextlib import ExitStack
from unittest.mock import patch

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ridgeline.api.balancing import BalancedPartitioner
from ridgeline.api.codec import stable_hash
from ridgeline.engine.files.storage import LocalStorage
from ridgeline.engine.state import keyed_segments, segment_compaction
from ridgeline.engine.state.integrity import FileCheck
from support.depth import deep
from support.engine.moves import Moved, Uneven, partitions_of

NAN = math.nan
KEYS = {
    "whole": st.integers(-40, 40),
    "texts": st.text("ab", max_size=5) | st.sampled_from(["\u00e9", "x" * 100]),
    "bytes": st.binary(max_size=2),
    "fractions": st.sampled_from([0.0, -0.0, 0.5, 2.5, 1.0, 7.0, 1e300, -3.25, math.inf, 2.0**70]),
    "composite": st.tuples(st.text("ab", max_size=2), st.integers(-4, 4)),
    "fractions in tuples": st.tuples(st.sampled_from([1.0, 2.5, 0.0]), st.booleans(), st.binary(max_size=1)),
    "with None": st.tuples(st.integers(0, 20), st.none() | st.just("a")),
    "mixed": st.integers(-5, 5) | st.none() | st.text("ab", max_size=2) | st.sampled_from([2**70, 1.0, True]),
    "with NaN": st.integers(0, 20) | st.just(NAN) | st.just((NAN, 1)),
}
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("repartition"), st.integers(1, 7)),
        st.tuples(st.just("compact"), st.integers(0, 6)),
        st.tuples(st.just("window"), st.integers(0, 2**31)),
    ),
    min_size=3,
    max_size=14,
)


MIXED = [None, Uneven(), BalancedPartitioner(3, [0, 0, 1, 0, 2, 0, 1, 0])]


def canonical(key):
    return NAN if isinstance(key, float) and math.isnan(key) else key


class Machine:
    """States in files, and the same in dicts."""

    def __init__(self, storage, kinds, partitioner):
        self.partitioner = partitioner
        self.moved = Moved(storage, self.partitions(2))
        self.kinds = kinds
        self.totals, self.names, self.alarms = {}, {}, {}

    def partitions(self, number):
        partitioner = self.partitioner
        if partitioner is MIXED:
            partitioner = MIXED[number % len(MIXED)]
        return partitions_of(min(number, 4) if isinstance(partitioner, Uneven) else number, partitioner)

    def owner(self, key):
        for one in self.moved.partitions:
            keys = one.keys.get("input")
            if keys is None or stable_hash(key) & keys.mask in keys.keys:
                return one.partition
        raise AssertionError(key)

    def run_window(self, seed, data):
        self.moved.window += 1
        keys = [canonical(key) for key in data.draw(st.lists(KEYS[self.kinds], max_size=25))]
        removed = set(data.draw(st.lists(st.sampled_from(keys), max_size=8))) if keys else set()
        for partition in range(len(self.moved.partitions)):
            cells = self.moved.cells(partition)
            for cell in cells.values():
                cell.begin(self.moved.window)
            cells["alarms"].begin_window(self.moved.window)
            for number, key in enumerate(keys):
                if self.owner(key) != partition:
                    continue
                cells["totals"][key] = self.totals[key] = seed + number
                cells["names"][key] = [number]
                self.names[key] = [number]
                if number % 3:
                    cells["alarms"].put(key, number % 5)
                    self.alarms[key] = number % 5
            for key in [key for key in removed if self.owner(key) == partition]:
                for name, model in self.models.items():
                    cells[name].pop(key, None)
                    model.pop(key, None)
                if stable_hash(key) % 3 == 0:  # it comes back as a new one
                    cells["totals"][key] = self.totals[key] = -1
            self.moved.commit(partition, cells)

    @property
    def models(self):
        return {"totals": self.totals, "names": self.names, "alarms": self.alarms}

    def check(self):
        for name, model in self.models.items():
            found = {}
            for partition in range(len(self.moved.partitions)):
                cell = self.moved.cells(partition)[name]
                items = dict(cell.items())
                assert len(cell) == len(items) == len(list(cell))
                assert all(self.owner(key) == partition for key in items)
                assert not items.keys() & found.keys()
                for key in model:
                    assert (key in cell) == (key in items)
                    assert cell.get(key) == items.get(key)
                found |= items
            if name == "alarms":
                found = {key: when for key, (when, _) in found.items()}
            assert found == model

    def check_alarms(self):
        """Timers that are due at one time have different numbers, so keys are never compared."""
        for partition in range(len(self.moved.partitions)):
            cell = self.moved.cells(partition)["alarms"]
            numbers = [number for _, number in cell.values()]
            assert len(numbers) == len(set(numbers))

    def check_files(self):
        for version in self.moved.versions.values():
            assert FileCheck(self.moved.files, thoroughly=True).fault(version) == ""
            assert FileCheck(self.moved.files, thoroughly=False).fault(version) == ""


def small_segments(keys):
    stack = ExitStack()
    stack.enter_context(patch.object(keyed_segments, "SEGMENT_KEYS", keys))
    stack.enter_context(patch.object(keyed_segments, "_CHUNK", 5))
    stack.enter_context(patch.object(keyed_segments, "_TIER", 2))
    stack.enter_context(patch.object(segment_compaction, "_CHUNK_KEYS", 7))
    return stack


@pytest.mark.parametrize("partitioner", [None, Uneven(), MIXED], ids=["sticky", "custom", "mixed"])
@pytest.mark.parametrize("kinds", KEYS)
@settings(max_examples=deep(8), deadline=None)
@given(steps=STEPS, segment_keys=st.sampled_from([2, 4, 1000]), data=st.data())
def test_no_key_is_lost_or_doubled(kinds, partitioner, steps, segment_keys, data):
    with small_segments(segment_keys), tempfile.TemporaryDirectory() as folder:
        machine = Machine(LocalStorage(folder), kinds, partitioner)
        machine.run_window(0, data)
        for what, number in steps:
            match what:
                case "repartition":
                    machine.moved.repartition(machine.partitions(number))
                case "compact":
                    machine.moved.compact(number % len(machine.moved.partitions))
                case "window":
                    machine.run_window(number, data)
        machine.check()
        machine.check_alarms()
        machine.check_files()
