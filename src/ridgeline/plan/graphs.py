"""Directed graphs over named nodes, in the order in which they are given: orders, cycles, strong components.

Small graphs: simple before fast.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Hashable, Iterable, Mapping
from typing import Generic, TypeVar

T = TypeVar("T", bound=Hashable)


class Sets(Generic[T]):
    """Sets of nodes that grow together."""

    def __init__(self, nodes: Iterable[T]) -> None:
        self._above = {node: node for node in nodes}

    def of(self, node: T) -> T:
        """The node that stands for the set of a node."""
        while self._above[node] != node:
            self._above[node] = self._above[self._above[node]]
            node = self._above[node]
        return node

    def join(self, one: T, other: T) -> None:
        """Make one set of those of two nodes; what stood for the second one's stands for it."""
        self._above[self.of(one)] = self.of(other)


def successors(nodes: Iterable[T], edges: Iterable[tuple[T, T]]) -> dict[T, list[T]]:
    """The successors of each node, in the order of nodes, each once."""
    order = {node: number for number, node in enumerate(nodes)}
    following: dict[T, set[T]] = {node: set() for node in order}
    for source, sink in edges:
        following[source].add(sink)
    return {node: sorted(sinks, key=order.__getitem__) for node, sinks in following.items()}


def topological_order(nodes: Iterable[T], edges: Iterable[tuple[T, T]]) -> list[T]:
    """Nodes after all their predecessors, the first one first; without nodes on or behind a cycle."""
    following = successors(nodes, edges)
    names, number = list(following), {node: number for number, node in enumerate(following)}
    waiting_for = dict.fromkeys(following, 0)
    for sinks in following.values():
        for node in sinks:
            waiting_for[node] += 1
    ready = [number[node] for node, count in waiting_for.items() if not count]
    order = []
    while ready:
        node = names[heapq.heappop(ready)]
        order.append(node)
        for sink in following[node]:
            waiting_for[sink] -= 1
            if not waiting_for[sink]:
                heapq.heappush(ready, number[sink])
    return order


def reachable(start: T, following: Mapping[T, Iterable[T]]) -> set[T]:
    """All nodes reachable from `start`; itself only if it is on a cycle."""
    seen: set[T] = set()
    todo = deque(following[start])
    while todo:
        node = todo.popleft()
        if node not in seen:
            seen.add(node)
            todo.extend(following[node])
    return seen


def strong_components(nodes: Iterable[T], edges: Iterable[tuple[T, T]]) -> list[list[T]]:
    """Nodes that reach each other, in the order of nodes; so are components, by their first node."""
    following = successors(nodes, edges)
    behind = {node: reachable(node, following) for node in following}
    components: dict[T, list[T]] = {}
    homes: dict[T, T] = {}
    for node in following:
        first = homes.setdefault(node, node)
        components.setdefault(first, []).append(node)
        homes |= {other: first for other in behind[node] if node in behind[other]}
    return list(components.values())


def find_path(start: T, goal: T, following: Mapping[T, Iterable[T]]) -> list[T]:
    """A shortest path of at least one edge from `start` to `goal`, both included; empty if there is none."""
    before: dict[T, T] = {}
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


def find_cycles(nodes: Iterable[T], edges: Iterable[tuple[T, T]]) -> list[list[T]]:
    """For each strong component with a cycle: a shortest one through its first node.

    A cycle begins and ends with that node.
    """
    nodes, edges = list(nodes), list(edges)
    following = successors(nodes, edges)
    cycles = [find_path(one[0], one[0], following) for one in strong_components(nodes, edges)]
    return [cycle for cycle in cycles if cycle]
