import pytest

from ridgeline.plan.graphs import find_cycles, find_path, strong_components, successors, topological_order


def test_order_takes_the_lowest_that_is_ready() -> None:
    assert topological_order(5, [(4, 1), (1, 0), (2, 3)]) == [2, 3, 4, 1, 0]
    assert topological_order(3, []) == [0, 1, 2]


def test_order_leaves_out_what_lies_on_or_behind_a_cycle() -> None:
    assert topological_order(4, [(0, 1), (1, 2), (2, 1), (2, 3)]) == [0]


@pytest.mark.parametrize(
    ("edges", "cycles"),
    [
        ([(0, 1), (1, 2)], []),
        ([(1, 1)], [[1, 1]]),
        ([(0, 1), (1, 2), (2, 0), (1, 0)], [[0, 1, 0]]),
        ([(0, 1), (1, 0), (2, 3), (3, 2), (1, 2)], [[0, 1, 0], [2, 3, 2]]),
        ([(3, 1), (1, 2), (2, 3), (0, 1)], [[1, 2, 3, 1]]),
    ],
)
def test_one_cycle_for_each_component(edges: list[tuple[int, int]], cycles: list[list[int]]) -> None:
    assert find_cycles(4, edges) == cycles


def test_strong_components() -> None:
    assert strong_components(5, [(0, 1), (1, 2), (2, 1), (4, 3), (3, 4)]) == [[0], [1, 2], [3, 4]]


def test_path() -> None:
    following = successors(4, [(0, 1), (1, 2), (2, 3), (0, 2)])
    assert find_path(0, 3, following) == [0, 2, 3]
    assert find_path(3, 0, following) == []
