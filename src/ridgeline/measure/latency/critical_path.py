"""The critical path: the longest chain of operators, if each waits for its upstream only."""

from __future__ import annotations

import math
from collections import Counter, deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import TypeVar

from ridgeline.measure.topology import Neighbours, Topology

_Named = tuple[tuple[int, ...], tuple[str, ...]]
_Member = TypeVar("_Member", int, str)
_PER_SECOND = 10**12
"""Paths are compared in whole picoseconds, so that the order of additions does not change a sum."""


@dataclass(frozen=True, slots=True)
class CriticalPath:
    """The longest path.

    `path`: ids of physical operators from an input to a leaf, unifiers too. `latency_seconds`: the sum of
    their own latencies.
    """

    latency_seconds: float
    path: tuple[int, ...]


def critical_path(topology: Topology, own: Mapping[int, float]) -> CriticalPath:
    """The path with the greatest sum of `own` latencies (seconds, by operator).

    Of equal paths it is the one whose titles sort first.

    Operators that are not in `own` count 0. Time linear in operators and in different sets of neighbours. An
    empty topology has an empty path.
    """
    return critical_path_of(topology, [own.get(node.id, 0.0) for node in topology.operators])


def critical_path_of(topology: Topology, own: Sequence[float]) -> CriticalPath:
    """The same; `own`: of all operators, in the topology's order."""
    rest = _longest(_whole(own), topology.below, range(len(own) - 1, -1, -1))
    nodes, places = topology.operators, topology.places
    path: list[int] = []
    candidates: Sequence[int] = [places[operator] for operator in topology.inputs]
    while candidates:
        longest = max(map(rest.__getitem__, candidates))
        longest_ones = (place for place in candidates if rest[place] == longest)
        path.append(min(longest_ones, key=lambda place: nodes[place].title))
        group = topology.below.group[path[-1]]
        candidates = topology.below.members[group] if group >= 0 else ()
    return CriticalPath(math.fsum(own[place] for place in path), tuple(nodes[place].id for place in path))


class PathHistory:
    """The critical paths of the last `windows` windows."""

    def __init__(self, windows: int = 1000) -> None:
        self._paths: deque[tuple[int, _Named]] = deque(maxlen=windows)
        self._last: _Named = ((), ())

    def add(self, window_id: int, path: tuple[int, ...], names: Iterable[str] = ()) -> None:
        """Append a window's path, with the names of its logical operators; windows come in order."""
        if path != self._last[0]:
            self._last = path, tuple(dict.fromkeys(names))  # equal paths in a row are kept once
        self._paths.append((window_id, self._last))

    def share(self, last_n: int, until: int | None = None) -> dict[int, float]:
        """By operator, the fraction of the last `last_n` windows in which it was on the path.

        `until`: the last window that counts. Operators that were never on it are left out.
        """
        return self._share(last_n, until, lambda named: named[0])

    def logical_share(self, last_n: int, until: int | None = None) -> dict[str, float]:
        """The same by name of logical operators: in how many windows any partition or unifier was on it."""
        return self._share(last_n, until, lambda named: named[1])

    def _share(
        self, last_n: int, until: int | None, members: Callable[[_Named], tuple[_Member, ...]]
    ) -> dict[_Member, float]:
        paths = (path for window_id, path in reversed(self._paths) if until is None or window_id <= until)
        counted = Counter(islice(paths, last_n))
        windows = counted.total()
        share: Counter[_Member] = Counter()
        for path, times in counted.items():
            share.update(dict.fromkeys(members(path), times))
        return {member: times / windows for member, times in share.items()}


def _whole(own: Sequence[float]) -> list[int]:
    return [round(seconds * _PER_SECOND) for seconds in own]


def _longest(whole: Sequence[int], beyond: Neighbours, places: Iterable[int]) -> list[int]:
    """The greatest sum from each operator to an end, inclusive, by place.

    `places`: in an order in which those `beyond` an operator come before it.
    """
    longest = [0] * len(whole)
    greatest: list[int | None] = [None] * len(beyond.members)
    for place in places:
        group = beyond.group[place]
        if group < 0:
            longest[place] = whole[place]
            continue
        rest = greatest[group]
        if rest is None:
            rest = greatest[group] = max(map(longest.__getitem__, beyond.members[group]))
        longest[place] = whole[place] + rest
    return longest
