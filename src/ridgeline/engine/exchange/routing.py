"""Which of an operator's tuples go to which consumer."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from functools import cache, partial
from typing import Any

import numpy as np
import numpy.typing as npt

from ridgeline.api.codec import Hashes, StreamCodec
from ridgeline.api.columns.combined import Combination, Combined, Combiner
from ridgeline.api.columns.tuples import Tuples
from ridgeline.api.errors import RidgelineError, shorten
from ridgeline.api.partitioner import PartitionKeys
from ridgeline.api.times import Positions
from ridgeline.engine.exchange.key_counts import KeyCounters
from ridgeline.plan.container_spec import Route
from ridgeline.plan.physical import OwnKeys, RoundRobin

_Counts = npt.NDArray[np.int64]
_Keyed = list[tuple[int, PartitionKeys]]
"""Numbers of routes, and the keys that each takes."""
_MANY = 4_096
"""Fewer tuples say nothing of how many keys there are."""
_LONGEST_REST = 63
_FEW = 8
"""Up to this number of routes a search for each is faster than sorting."""


class Splitter:
    """Splits what one operator emits on one port among the routes that begin there, run by run.

    Every tuple is hashed once per codec, and each run is gone through once for all partitions. Making one
    costs more than splitting a few tuples: it is kept from window to window.
    """

    def __init__(self, routes: Sequence[Route]) -> None:
        self._routes = routes
        self._start = 0
        self._seen = 0
        self._checked = [
            (number, route.route.keys)
            for number, route in enumerate(routes)
            if isinstance(route.route, OwnKeys)
        ]
        keyed: dict[int, _Keyed] = {}
        for number, route in enumerate(routes):
            if isinstance(route.route, PartitionKeys):
                keyed.setdefault(id(route.codec), []).append((number, route.route))
        passes = [(routes[members[0][0]].codec, _groups(routes, members)) for members in keyed.values()]
        self._passes = [(codec, [_Pass(group) for group in groups]) for codec, groups in passes]
        self._sinks = [tuple(routes[group[0][0]].sink for group in groups) for _, groups in passes]
        """Of each codec, one sink of each group."""
        self._combining: list[tuple[Combining, list[int]]] = []
        """Each with the containers that its partial results go to."""
        self._whole: list[tuple[int, Combining]] = []
        """The routes that take all, as partial results."""
        for number, route in enumerate(routes):
            if route.route is None and route.combiner is not None:
                self._whole.append((number, Combining(route.combiner)))
                self._combining.append((self._whole[-1][1], [route.container]))
        for _, found in self._passes:
            for one in found:
                members = [routes[number] for number in one.numbers]
                combiner = members[0].combiner
                if combiner is not None and all(route.combiner == combiner for route in members):
                    one.combining = Combining(combiner)
                    self._combining.append((one.combining, [route.container for route in members]))

    def begin(self, start: int, here: Collection[int] | None = None) -> None:
        """A window begins. Round robin begins with partition `start`.

        It differs from window to window, so that few tuples a window load all partitions. `here`: the
        containers of this process, to a single one of which tuples go as they are; None: nothing is combined.
        """
        self._start, self._seen = start, 0
        for _, passes in self._passes:
            for one in passes:
                one.begin(start)
        for combining, containers in self._combining:
            combining.active = here is not None and (len(containers) > 1 or containers[0] not in here)

    def split(self, part: Tuples, counters: KeyCounters | None = None) -> list[Tuples | None]:
        """The tuples of the next run that each route takes, in order; None for nothing.

        A route that takes all takes the run itself. `counters`: count the keys. Raises RidgelineError for a
        tuple of another's keys.
        """
        taken = [part if route.route is None else None for route in self._routes]
        if not len(part):
            return taken
        for number, keys in self._checked:
            self._check(number, keys, part, counters)
            taken[number] = part
        for number, route in enumerate(self._routes):
            if isinstance(route.route, RoundRobin):
                first = (route.route.index - self._start - self._seen) % route.route.of
                taken[number] = _take(part, np.arange(first, len(part), route.route.of))
        self._seen += len(part)
        for number, combining in self._whole:
            if (combination := combining.of(part)) is not None:
                taken[number] = combination.combined
        for (codec, passes), sinks in zip(self._passes, self._sinks, strict=True):
            hashes = self._split_by_key(codec, passes, part, taken)
            if counters is not None:
                counters.add(sinks, codec, hashes(), part)
        return taken

    def _split_by_key(
        self, codec: StreamCodec, passes: Sequence[_Pass], part: Tuples, taken: list[Tuples | None]
    ) -> Callable[[], Hashes]:
        """Put the shares of all routes of a codec into `taken`; returns what makes the hashes of the run.

        Of what is combined, only a tuple of each key is hashed.
        """
        hashes: Callable[[], Hashes] = cache(lambda: _hashes(codec, part))
        for one in passes:
            combination = None if one.combining is None else one.combining.of(part)
            if combination is None:
                for number, positions in one.divide(hashes()):
                    taken[number] = _take(part, positions)
                continue
            own = _hashes(codec, combination.firsts)
            for number, positions in one.divide(own):
                taken[number] = _take_rows(combination.combined, positions)
            hashes = cache(partial(np.take, own, combination.groups))
        return hashes

    def _check(self, number: int, keys: PartitionKeys, part: Tuples, counters: KeyCounters | None) -> None:
        """Raise RidgelineError for a tuple that belongs to another partition than this route leads to."""
        route = self._routes[number]
        hashes = _hashes(route.codec, part)
        if counters is not None:
            counters.add((route.sink,), route.codec, hashes, part)
        strays = np.flatnonzero(
            ~np.isin(hashes & np.uint64(keys.mask), np.array(sorted(keys.keys | keys.shared), np.uint64))
        )
        if len(strays):
            stray = shorten(part.take(strays[:1]).rows[0])
            what = f"a unifier by key emitted {stray}, whose key none of the tuples had that it merged here"
            raise RidgelineError(
                f"{what}; emit tuples of the keys that came, or leave the `key` of its input port out"
            )


class _Pass:
    """Routes no two of which take the same tuple: their shares are found in one pass over the hashes.

    Tuples whose keys are shared go to those of the sharers that have got the fewest tuples in this window.
    """

    def __init__(self, members: _Keyed) -> None:
        self.numbers = [number for number, _ in members]
        self.combining: Combining | None = None
        """Makes partial results for the operator that the routes lead to."""
        mask = _common_mask([keys for _, keys in members])
        self._mask = np.min_scalar_type(mask).type(mask)
        self._owner = np.full(mask + 1, len(members), np.min_scalar_type(len(members)))
        for owner, (_, keys) in enumerate(members):
            self._owner[_cells(keys.keys, keys.mask, mask)] = owner
        self._least_loaded = (
            LeastLoaded([keys for _, keys in members]) if any(k.shared for _, k in members) else None
        )

    def begin(self, start: int) -> None:
        """A window begins."""
        if self._least_loaded is not None:
            self._least_loaded.begin(start)

    def divide(self, hashes: Hashes) -> list[tuple[int, Positions]]:
        """The positions of each route's tuples, in order."""
        # in small integers: fresh memory costs more than counting
        owners = self._owner.take(hashes.astype(self._mask.dtype) & self._mask)
        count = len(self.numbers)
        if self._least_loaded is not None:
            owners = self._least_loaded.deal(hashes, owners)
        if count <= _FEW:
            return [(number, np.flatnonzero(owners == owner)) for owner, number in enumerate(self.numbers)]
        order = np.argsort(owners, kind="stable")
        ordered = owners[order]
        begins = np.flatnonzero(np.r_[True, ordered[1:] != ordered[:-1]]).tolist()
        return [  # who gets nothing costs nothing
            (self.numbers[owner], order[begin:end])
            for owner, begin, end in zip(
                ordered[begins].tolist(), begins, [*begins[1:], len(order)], strict=True
            )
            if owner < count
        ]


def _groups(routes: Sequence[Route], members: _Keyed) -> list[_Keyed]:
    """Groups as of `_disjoint`; routes that share keys are with those that they share them with."""
    sharing: dict[str, _Keyed] = {}
    for number, keys in members:
        if routes[number].towards:
            sharing.setdefault(routes[number].towards, []).append((number, keys))
    rest = [(number, keys) for number, keys in members if not routes[number].towards]
    return [*sharing.values(), *_disjoint(rest)]


def _disjoint(members: _Keyed) -> list[_Keyed]:
    """Groups within which no key belongs to two routes: as a rule the partitions of one operator."""
    groups: list[tuple[_Keyed, npt.NDArray[np.bool_]]] = []
    mask = _common_mask([keys for _, keys in members])
    for number, keys in members:
        cells = _cells(keys.keys, keys.mask, mask)
        found = next((one for one in groups if not one[1][cells].any()), None)
        if found is None:
            found = [], np.zeros(mask + 1, np.bool_)
            groups.append(found)
        found[0].append((number, keys))
        found[1][cells] = True
    return [group for group, _ in groups]


def _common_mask(several: Sequence[PartitionKeys]) -> int:
    """The lowest bits that have all bits of these masks: an author may give one 3, and another one 5."""
    return (1 << max((keys.mask.bit_length() for keys in several), default=0)) - 1


def _cells(keys: Collection[int], mask: int, largest: int) -> npt.NDArray[Any]:
    """The values up to a mask that is `largest` whose bits in `mask` are among the keys."""
    found = np.fromiter(keys, np.intp, len(keys))
    if mask & (mask + 1):  # not the lowest bits alone
        return np.flatnonzero(np.isin(np.arange(largest + 1) & mask, found))
    return (found[:, None] + np.arange(0, largest + 1, mask + 1)).ravel()


def _hashes(codec: StreamCodec, part: Tuples) -> Hashes:
    return codec.hashes(part).astype(np.uint64, copy=False)


def _take(part: Tuples, positions: Positions) -> Tuples | None:
    if len(positions) == len(part):
        return part
    return part.take(positions) if len(positions) else None


def _take_rows(combined: Combined, positions: Positions) -> Combined | None:
    if len(positions) == len(combined.counts):
        return combined
    return combined.take(positions) if len(positions) else None


class Combining:
    """A combiner, and for how many sequences of tuples it rests.

    It rests for longer each time it finds that tuples have too many keys for it to pay, at most for 63. So it
    costs little where it never pays, and a stream may change.
    """

    def __init__(self, combiner: Combiner) -> None:
        self._combiner = combiner
        self._rest = self._left = 0
        self.active = False

    def of(self, part: Tuples) -> Combination | None:
        """The partial results of tuples; None if they are sent as they are."""
        if not self.active or isinstance(part, Combined):
            return None
        if self._left:
            self._left -= 1
            return None
        try:
            found = self._combiner.combine(part)
        except Exception:  # noqa: BLE001  the operator that gets the tuples raises it, and names itself
            found = None
        if found is not None:
            self._rest = 0
        elif len(part) >= _MANY:
            self._left = self._rest = min(2 * self._rest + 1, _LONGEST_REST)
        return found


class LeastLoaded:
    """Assigns tuples of hot keys, which several partitions share, to the one with the fewest so far.

    It counts what each partition of one operator has got in this window from here.

    Every partition of the operator must be there. The same sequences of tuples are assigned in the same way.
    """

    def __init__(self, members: Sequence[PartitionKeys]) -> None:
        self._mask = _common_mask(members)
        shares = np.zeros((len(members), self._mask + 1), np.bool_)
        for own, keys in zip(shares, members, strict=True):
            own[_cells(keys.shared, keys.mask, self._mask)] = True
        self._sharers = {
            int(cell): np.flatnonzero(shares[:, cell]) for cell in np.flatnonzero(shares.any(axis=0))
        }
        self._shared: npt.NDArray[np.bool_] = np.logical_or.reduce(shares, axis=0)
        self._got: _Counts = np.zeros(len(members), np.int64)
        self._order = np.arange(len(members))

    def begin(self, start: int) -> None:
        """A window begins with empty counts. Of partitions with equal counts `start` comes first."""
        self._got[:] = 0
        self._order = (np.arange(len(self._got)) - start) % len(self._got)

    def deal(self, hashes: Hashes, owners: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """The number of the partition of each tuple. `owners`: those of tuples whose keys are not shared."""
        cells = (hashes & np.uint64(self._mask)).astype(np.intp)
        positions = np.flatnonzero(self._shared[cells])
        many = len(self._got)
        self._got += np.bincount(owners, minlength=many + 1)[:many]  # the last: tuples without an owner
        if not len(positions):
            return owners
        owners = owners.copy()
        found = cells[positions]
        for cell in np.unique(found).tolist():
            several = self._sharers[cell]
            mine = positions[found == cell]
            more = _level(self._got[several], len(mine), self._order[several])
            owners[mine] = np.repeat(several, more)
            self._got[several] += more
        return owners


def _level(got: _Counts, more: int, order: npt.NDArray[np.intp]) -> _Counts:
    """How many of `more` tuples each gets so that those with the fewest get them; `order` breaks ties.

    >>> _level(np.array([4, 0, 1]), 5, np.array([0, 1, 2])).tolist()
    [0, 3, 2]
    """
    levels = np.sort(got)
    surfaces = (np.cumsum(levels) + more) // np.arange(1, len(got) + 1)
    found = np.maximum(int(surfaces.min()) - got, 0)
    left = more - int(found.sum())
    lowest = np.lexsort((order, got + found))[:left]
    found[lowest] += 1
    return found
