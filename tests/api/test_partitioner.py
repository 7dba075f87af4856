import pytest
from hypothesis import given
from hypothesis import strategies as st

from ridgeline import (
    Partition,
    Partitioner,
    PartitionKeys,
    StickyPartitioner,
)
from ridgeline.api.partitioner import PortInfo, assign_keys

KEYED, PLAIN, LOOSE = (
    PortInfo("keyed", True, True),
    PortInfo("plain", False, True),
    PortInfo("loose", True, False),
)


@pytest.mark.guide("002", "Default Dynamic Partitioning")
@given(st.integers(1, 300))
def test_every_key_belongs_to_exactly_one_partition(count):
    partitions = assign_keys(count)
    masks = {keys.mask for keys in partitions}
    assert len(partitions) == count
    assert len(masks) == 1
    mask = masks.pop()
    assert sorted(key for keys in partitions for key in keys.keys) == list(range(mask + 1))
    sizes = [len(keys.keys) for keys in partitions]
    assert max(sizes) - min(sizes) <= 1
    assert len(partitions[-1].keys) == 1 or min(sizes) >= 8


@pytest.mark.guide("002", "Default Partitioning")
@pytest.mark.parametrize("count", [1, 2, 4, 1024])
def test_powers_of_two_as_apex_makes_them(count):
    assert assign_keys(count) == [PartitionKeys(count - 1, frozenset({key})) for key in range(count)]


@pytest.mark.parametrize(("count", "most"), [(2, 0.34), (3, 0.34), (4, 0.2), (5, 0.17), (8, 0.12)])
def test_little_moves_to_one_partition_more(count, most):
    cells = range(1 << 10)
    before, after = (
        {cell: number for number, keys in enumerate(some) for cell in cells if cell & keys.mask in keys.keys}
        for some in (assign_keys(count), assign_keys(count + 1))
    )
    assert sum(before[cell] != after[cell] for cell in cells) <= most * len(cells)


@pytest.mark.guide("004", "Multiple Ports")
def test_sticky_divides_every_connected_port_with_a_key():
    other = PortInfo("other", True, True)
    assert StickyPartitioner().define_partitions(2, [LOOSE, KEYED, PLAIN]) == [
        Partition({"keyed": keys}) for keys in assign_keys(2)
    ]
    both = [Partition({"keyed": keys, "other": keys}) for keys in assign_keys(3)]
    assert StickyPartitioner().define_partitions(3, [PLAIN, KEYED, LOOSE, other]) == both


@pytest.mark.guide("004", "Partitioner")
def test_partitioners_show_what_they_were_made_with():
    class Mine(Partitioner):
        def __init__(self):
            self.b, self.a = 2, "x"

        def define_partitions(self, count, ports):
            return []

    assert repr(Mine()) == "Mine(a='x', b=2)"
    assert repr(StickyPartitioner("a")) == "StickyPartitioner(ports=('a',))"
