"""Figures of logical operators, from those of their partitions and unifiers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from ridgeline.measure.topology import Topology

Floats = npt.NDArray[np.float64]


class _Groups:
    """Sets of places, none of them empty, that lie one after the other."""

    def __init__(self, members: Sequence[Sequence[int]]) -> None:
        sizes = [len(own) for own in members]
        self.order = np.array([place for own in members for place in own], np.intp)
        self._starts = np.concatenate(([0], np.cumsum(sizes)[:-1])).astype(np.intp)
        self._owners = np.repeat(np.arange(len(sizes)), sizes)
        self._single = len(self.order) == len(sizes)

    def sums(self, values: Floats) -> Floats:
        """The sums over each set; the last axis has the places."""
        found = values[..., self.order]
        return found if self._single else np.add.reduceat(found, self._starts, axis=-1)

    def slowest(self, times: Floats) -> Floats:
        """Of each set the row of the one with the greatest latency: windows, rows, sets.

        `times`: windows by rows (the first is the latency) by places; NaN: one did not report.
        """
        found = times[:, :, self.order]
        if self._single:
            return found
        latency = np.where(np.isnan(found[:, 0]), -np.inf, found[:, 0])
        greatest = np.maximum.reduceat(latency, self._starts, axis=-1)
        takes = latency == greatest[:, self._owners]
        rows = np.where(takes[:, None], found, -np.inf)
        chosen = np.maximum.reduceat(rows, self._starts, axis=-1)
        return np.where(np.isneginf(chosen), np.nan, chosen)


class LogicalOperators:
    """The logical operators of a plan, in the order of `names`; `index`: the place of each."""

    def __init__(self, topology: Topology) -> None:
        self.names = tuple(topology.rows_of)
        self.index = {name: number for number, name in enumerate(self.names)}
        inputs, leaves = (
            dict.fromkeys(topology.by_id[one].name for one in ids)
            for ids in (topology.inputs, topology.leaves)
        )
        self.inputs, self.outputs = ([self.index[name] for name in names] for names in (inputs, leaves))
        """The places of those at which tuples enter the application, and leave it."""
        self._groups = _Groups(list(topology.rows_of.values()))
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


def _unifiers(topology: Topology) -> list[tuple[np.ndarray, _Groups, np.ndarray]]:
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
            _Groups([[places[one] for one in own] for own in sets]),
            np.repeat(np.arange(len(sets)), [len(several) for several in sets.values()]),
        )
        for _, sets in sorted(found.items())
    ]
