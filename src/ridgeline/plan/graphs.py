"""Directed graphs over the numbers 0 to `count` - 1: orders, cycles, strong components.

Small graphs: simple before fast.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Iterable

Edges = Iterable[tuple[int, int]]


class Sets:
    """Sets of nodes that grow together."""

    def __init__(self, nodes: Iterable[int]) -> None:
        self._above = {node: node for node in nodes}

    def of(self, node: int) -> int:
        """The node that stands for the set of a node."""
        while self._above[node] != node:
            self._above[node] = self._above[self._above[node]]
            node = self._above[node]
        return node

    def join(self, one: int, other: int) -> None:
        """Make one set of those of two nodes; what stood for the second one's stands for it."""
        self._above[self.of(one)] = self.of(other)

    def together(self, one: int, other: int) -> bool:
        """Whether two nodes are in one set; not if the first is in none."""
        return one in self._above and self.of(one) == self.of(other)


def successors(count: int, edges: Edges) -> list[list[int]]:
    """The successors of each node, ascending, each once."""
    following: list[set[int]] = [set() for _ in range(count)]
    for source, sink in edges:
        following[source].add(sink)
    return [sorted(nodes) for nodes in following]


def topological_order(count: int, edges: Edges) -> list[int]:
    """Nodes after all their predecessors, the lowest number first; without nodes on or behind a cycle."""
    following = successors(count, edges)
    waiting_for = [0] * count
    for nodes in following:
        for node in nodes:
            waiting_for[node] += 1
    ready = [node for node in range(count) if not waiting_for[node]]
    order = []
    while ready:
        node = heapq.heappop(ready)
        order.append(node)
        for sink in following[node]:
            waiting_for[sink] -= 1
            if not waiting_for[sink]:
                heapq.heappush(ready, sink)
    return order


def reachable(start: int, following: list[list[int]]) -> set[int]:
    """All nodes reachable from `start`; itself only if it is on a cycle."""
    seen: set[int] = set()
    todo = deque(following[start])
    while todo:
        node = todo.popleft()
        if node not in seen:
            seen.add(node)
            todo.extend(following[node])
    return seen


def strong_components(count: int, edges: Edges) -> list[list[int]]:
    """Nodes that reach each other, each component ascending, components by their lowest node."""
    following = successors(count, edges)
    behind = [reachable(node, following) for node in range(count)]
    components: list[list[int]] = []
    taken: set[int] = set()
    for node in range(count):
        if node not in taken:
            component = [
                node,
                *(other for other in sorted(behind[node]) if other != node and node in behind[other]),
            ]
            taken.update(component)
            components.append(component)
    return components


def find_path(start: int, goal: int, following: list[list[int]]) -> list[int]:
    """A shortest path of at least one edge from `start` to `goal`, both included; empty if there is none."""
    before: dict[int, int] = {}
    todo = deque([start])
    while todo:
        node = todo.popleft()
        for sink in following[node]:
            if sink == goal:
                way = [goal, node]
                while way[-1] != start:
                    way.append(before[way[-1]])
                return way[::-1]
            if sink not in before and sink != start:
                before[sink] = node
                todo.append(sink)
    return []


def find_cycles(count: int, edges: Edges) -> list[list[int]]:
    """For each strong component with a cycle: a shortest one through its lowest node.

    A cycle begins and ends with that node.
    """
    edges = list(edges)
    following = successors(count, edges)
    cycles = [
        find_path(component[0], component[0], following) for component in strong_components(count, edges)
    ]
    return [cycle for cycle in cycles if cycle]
