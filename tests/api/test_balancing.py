"""Balanced division: every cell has a partition, no partition has too much, and little moves."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ridgeline import PortInfo, RoundRobinPartitioner
from ridgeline.api.balancing import BalancedPartitioner, balance
from ridgeline.measure.deciding.key_load import KeyLoad
from ridgeline.plan.build.partitioning import check_cover
from ridgeline.plan.spec.values import read_partitioner, write_partitioner

PORTS = [PortInfo("data", keyed=True, connected=True), PortInfo("rates", keyed=False, connected=True)]
TOLERANCE = 0.05


class ByTopic(RoundRobinPartitioner):
    def __init__(self, **limits):
        self.limits = limits


def levels(load, made, partitions):
    owners, shared = np.array(made.owners), {cell: tuple(some) for cell, some in made.sharers.items()}
    return KeyLoad(made.bits, load, (), 1, 1.0, partitions, owners, shared).by_partition


@st.composite
def loads(draw):
    bits = draw(st.integers(1, 6))
    load = draw(st.lists(st.floats(0, 100), min_size=1 << bits, max_size=1 << bits))
    heavy = draw(st.integers(0, (1 << bits) - 1))
    load[heavy] += draw(st.floats(0, 3)) * sum(load)
    partitions = draw(st.integers(2, 6))
    owners = draw(st.lists(st.integers(0, partitions - 1), min_size=1 << bits, max_size=1 << bits))
    return np.array(load), np.array(owners, np.intp), partitions


@given(loads(), st.integers(1, 8))
def test_every_cell_is_covered_with_any_number_of_partitions(case, count):
    load, owners, partitions = case
    made = balance(load, owners, partitions, may_share=False, tolerance=TOLERANCE)
    parts = made.define_partitions(count, PORTS)
    assert len(parts) == count
    check_cover("made", "data", [part.keys["data"] for part in parts])
    assert all(not part.round_robin and list(part.keys) == ["data"] for part in parts)


def test_moves_only_what_it_takes():
    load = np.ones(1_024)
    load[7] += 256  # one hot key of a fifth
    owners = np.arange(1_024) % 4
    made = balance(load, owners, 4, may_share=False, tolerance=TOLERANCE)
    assert levels(load, made, 4).max() <= load.sum() / 4 * (1 + TOLERANCE)
    assert np.count_nonzero(np.array(made.owners) != owners) < 200


def test_a_key_that_is_too_heavy_for_one_is_shared():
    load = np.ones(1_024)
    load[7] += 2_048  # two thirds
    made = balance(load, np.arange(1_024) % 4, 4, may_share=True, tolerance=TOLERANCE)
    assert list(made.sharers) == [7]
    assert levels(load, made, 4).max() <= load.sum() / 4 * (1 + TOLERANCE)
    assert repr(made) == "BalancedPartitioner(1,024 cells, 4 partitions, 1 shared)"


def test_who_shares_a_key_has_one_of_its_own_too():
    load, owners = np.full(16, 0.01), np.array([0] + [1] * 15)
    load[0] = 100.0
    made = balance(load, owners, 2, may_share=True, tolerance=TOLERANCE)
    assert made.sharers == {0: [0, 1]}
    parts = made.define_partitions(2, PORTS)
    assert all(part.keys["data"].keys for part in parts)
    check_cover("it", "data", [part.keys["data"] for part in parts])


def test_it_is_plain_data():
    made = BalancedPartitioner(2, [0, 1, 0, 0], {2: (1, 0)})
    again = read_partitioner(json.loads(json.dumps(write_partitioner(made))))
    assert (again.bits, again.owners, again.sharers) == (2, [0, 1, 0, 0], {2: [0, 1]})
    assert read_partitioner(write_partitioner(ByTopic(tea=2, rice=1))).limits == {"tea": 2, "rice": 1}


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ((2, [0, 1]), "2 bits and 2 owners do not fit"),
        ((17, [0] * (1 << 17)), "17 bits and 131072 owners do not fit"),
        ((1, [0, -1]), "do not fit"),
        ((1, [0, 1], {2: (0, 1)}), r"cell 2 is shared by \[0, 1\]"),
        ((1, [0, 1], {1: (1,)}), r"cell 1 is shared by \[1\]"),
    ],
)
def test_refuses_what_is_no_division(arguments, text):
    with pytest.raises(ValueError, match=text):
        BalancedPartitioner(*arguments)


def test_needs_a_port_with_a_key():
    with pytest.raises(ValueError, match="no input port has a key"):
        BalancedPartitioner(1, [0, 1]).define_partitions(2, PORTS[1:])
