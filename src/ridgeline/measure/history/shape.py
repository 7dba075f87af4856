"""How the physical operators of a plan make up its logical ones, for many windows at once."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ridgeline.measure.history.codes import Floats
from ridgeline.measure.topology import Topology


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


class Shape:
    """The logical operators of a plan, in the order of `names`.

    `inputs`, `leaves`: places of the physical operators that read from no other, and that none reads from.
    """

    def __init__(self, topology: Topology) -> None:
        self.topology = topology
        self.names = tuple(topology.rows_of)
        self.index = {name: number for number, name in enumerate(self.names)}
        places = topology.places
        self.inputs = np.array([places[one] for one in topology.inputs], np.intp)
        self.leaves = np.array([places[one] for one in topology.leaves], np.intp)
        self.outputs = tuple(dict.fromkeys(topology.by_id[one].name for one in topology.leaves))
        self._groups = _Groups(list(topology.rows_of.values()))
        self._behind = _unifiers(topology)

    def latencies(self, times: Floats) -> Floats:
        """Windows by rows (latency, then its parts) by logical operators, as `logical_latencies` has them.

        A partition is as slow as itself and the slowest of its unifiers; an operator as its slowest one.
        """
        chains = times.copy() if self._behind else times
        for own, unifiers in self._behind:
            chains[:, :, own] += np.nan_to_num(unifiers.slowest(chains))
        return self._groups.slowest(chains)

    def sums(self, values: Floats) -> Floats:
        """Sums over partitions, without unifiers; the last axis has the operators."""
        return self._groups.sums(values)


def _unifiers(topology: Topology) -> list[tuple[np.ndarray, _Groups]]:
    """The operators that have unifiers of their own, and these, as places; first those behind others."""
    depth: dict[int, int] = {}
    places = topology.places
    found: dict[int, list[int]] = {}
    for node in reversed(topology.operators):
        own = topology.own_unifiers.get(node.id, ())
        depth[node.id] = max((depth[one] + 1 for one in own), default=0)
        if own:
            found.setdefault(depth[node.id], []).append(node.id)
    return [
        (
            np.array([places[one] for one in found[level]], np.intp),
            _Groups([[places[sink] for sink in topology.own_unifiers[one]] for one in found[level]]),
        )
        for level in sorted(found)
    ]
