"""Figures of logical operators, from those of their partitions and unifiers."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from ridgeline.measure.topology import Topology

Floats = npt.NDArray[np.float64]
Places = npt.NDArray[np.intp]
Values = npt.NDArray[Any]


class Groups:
    """Sets of places, none of them empty, in `order` one after the other; with names, if they have any.

    `starts`, `ends`: where each set has its first and its last place there.
    """

    def __init__(self, members: Sequence[Sequence[int]], names: Iterable[str] = ()) -> None:
        self.members, self.names = tuple(map(tuple, members)), tuple(names)
        sizes = np.array([len(own) for own in members], np.intp)
        self.order = np.array([place for own in members for place in own], np.intp)
        self.ends = np.cumsum(sizes) - 1
        self.starts = self.ends - sizes + 1
        self._owners = np.repeat(np.arange(len(sizes)), sizes)
        self._single = len(self.order) == len(sizes)

    def reduced(self, combine: np.ufunc, values: Values) -> Values:
        """Of each set the values combined; the last axis has the places."""
        found = values[..., self.order]
        return found if self._single else combine.reduceat(found, self.starts, axis=-1)

    def sums(self, values: Floats) -> Floats:
        """The sums over each set; the last axis has the places."""
        return self.reduced(np.add, values)

    def latest(self, times: Floats) -> tuple[Places, Floats]:
        """Of each set the place with the greatest time, the first of equal ones, and that.

        `times`: windows by places, NaN for none. -1 and NaN if none has a time.
        """
        found = np.where(np.isnan(times), -np.inf, times)
        most = self.reduced(np.maximum, found)
        is_it = found[:, self.order] == most[:, self._owners]
        places = np.where(is_it, np.arange(len(self.order)), len(self.order))
        first = places if self._single else np.minimum.reduceat(places, self.starts, axis=1)
        none = np.isneginf(most)
        return np.where(none, -1, self.order[first]), np.where(none, np.nan, most)

    def slowest(self, times: Floats) -> Floats:
        """Of each set the row of the one with the greatest latency: windows, rows, sets.

        `times`: windows by rows (the first is the latency) by places; NaN: one did not report.
        """
        found = times[:, :, self.order]
        if self._single:
            return found
        latency = np.where(np.isnan(found[:, 0]), -np.inf, found[:, 0])
        greatest = np.maximum.reduceat(latency, self.starts, axis=-1)
        takes = latency == greatest[:, self._owners]
        rows = np.where(takes[:, None], found, -np.inf)
        chosen = np.maximum.reduceat(rows, self.starts, axis=-1)
        return np.where(np.isneginf(chosen), np.nan, chosen)


class LogicalOperators:
    """The logical operators of a plan, in the order of `names`; `index`: the place of each."""

    def __init__(self, topology: Topology) -> None:
        self.names = tuple(topology.rows_of)
        self.index = {name: number for number, name in enumerate(self.names)}
        self.numbers = np.array([self.index[node.name] for node in topology.operators], np.intp)
        """Of each physical operator, also of unifiers, the place of the logical one."""
        inputs, leaves = (
            dict.fromkeys(topology.by_id[one].name for one in ids)
            for ids in (topology.inputs, topology.leaves)
        )
        self.inputs, self.outputs = ([self.index[name] for name in names] for names in (inputs, leaves))
        """The places of those at which tuples enter the application, and leave it."""
        self._groups = Groups(list(topology.rows_of.values()))
        self._behind = _unifiers(topology)

    def latencies(self, times: Floats) -> Floats:
        """Windows by rows (latency, then its parts) by logical operators; NaN: none has reported.

        It is the greatest over its partitions, each with the slowest chain of its unifiers added. This is
        Apex's `StreamingContainerManager.fillLogicalOperatorInfo`: a unifier is charged to the operator whose
        output it unifies.

        `times`: the same by physical operators. The parts of a latency add up as it does.
        """
        chains = times.copy() if self._behind else times
        for own, unifiers, which in self._behind:
            slowest = unifiers.slowest(chains)[:, :, which]
            chains[:, :, own] += np.where(np.isnan(slowest[:, :1]), 0.0, slowest)
        return self._groups.slowest(chains)

    def sums(self, values: Floats) -> Floats:
        """Sums over partitions, without unifiers; the last axis has the operators."""
        return self._groups.sums(values)


def _unifiers(topology: Topology) -> list[tuple[np.ndarray, Groups, np.ndarray]]:
    """Operators that have unifiers of their own, sets of these, and who has which; as places.

    First those behind others. As a rule all partitions of an operator have the same unifiers. A set for
    each of a thousand partitions would be a million places, where these send to a thousand others.
    """
    depth: dict[int, int] = {}
    places = topology.places
    levels: dict[tuple[int, ...], int] = {}
    found: dict[int, dict[tuple[int, ...], list[int]]] = {}
    for node in reversed(topology.operators):
        own = topology.own_unifiers.get(node.id, ())
        level = depth[node.id] = levels.get(own) or max((depth[one] + 1 for one in own), default=0)
        if own:
            levels[own] = level
            found.setdefault(level, {}).setdefault(own, []).append(places[node.id])
    return [
        (
            np.array([place for several in sets.values() for place in several], np.intp),
            Groups([[places[one] for one in own] for own in sets]),
            np.repeat(np.arange(len(sets)), [len(several) for several in sets.values()]),
        )
        for _, sets in sorted(found.items())
    ]
