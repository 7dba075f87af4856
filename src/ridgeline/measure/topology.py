"""The shape of a running application, as far as measuring needs it: plain data that an event log can hold."""

from __future__ import annotations

from collections.abc import Callable, Collection, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, reduce
from operator import or_
from typing import Any, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

from ridgeline.api.columns.dead_letter import NAME as DEAD_LETTERS
from ridgeline.measure.logical import Floats, Groups, LogicalOperators, Places, Values

_Found = TypeVar("_Found")
_Key = TypeVar("_Key")
KEPT = 1_000
"""Operators of which something is kept though the plan has them not."""
Series = tuple[str, int]
"""The identity of an operator across plans: its label and its partition."""


@dataclass(frozen=True, slots=True)
class OperatorNode:
    """A physical operator: one partition of a logical operator, or one unifier of its outputs.

    Of a unifier (`unifier`), `name` is whose it is.

    `title` is what people read (`book[1]`). `kind` is `input`, `operator`, `output` (no output port is
    connected but that of dead letters) or `dead letters` (it gets nothing else). `stateful` says that it
    declares state. `inputs` and `outputs` are the names of its connected ports.
    """

    id: int
    name: str
    title: str
    class_name: str
    partition: int
    partitions: int
    unifier: bool
    kind: str
    stateful: bool
    container: int
    stage: int
    inputs: tuple[str, ...] = ()
    outputs: tuple[str, ...] = ()
    error_outputs: tuple[str, ...] = ()

    @property
    def label(self) -> str:
        """The title without the number: the name that all partitions, or all unifiers of a port, share."""
        return self.title.removesuffix(f"[{self.partition}]")

    @property
    def series(self) -> Series:
        """The identity across plans: history stays with the same label and partition."""
        return self.label, self.partition


@dataclass(frozen=True, slots=True)
class StreamEdge:
    """A stream from an output port of one physical operator to an input port of another."""

    name: str
    source: int
    source_port: str
    sink: int
    sink_port: str


@dataclass(frozen=True, slots=True)
class MetricNode:
    """A metric that an operator declares: of a logical operator, or of unifiers, by title (`operator`).

    `kind` is `gauge` or `counter`. `aggregate` names the function that makes one value of the partitions'. Of
    a counter, each value is what a window adds, but the total if it is `cumulative`. `by_partition`: it is
    exported partition by partition.
    """

    operator: str
    name: str
    kind: str
    aggregate: str
    help: str = ""
    unit: str = ""
    cumulative: bool = False
    by_partition: bool = False

    @property
    def exported_name(self) -> str:
        """The name in `/metrics`, without the prefix: with unit, and `_total` if it is a counter."""
        name = self.name
        if self.unit and name != self.unit and not name.endswith(f"_{self.unit}"):
            name += f"_{self.unit}"
        return f"{name}_total" if self.kind == "counter" else name


class Ids:
    """Where ids stand in an order."""

    def __init__(self, ids: Collection[int]) -> None:
        known = np.fromiter(ids, np.int64, len(ids))
        self._places = np.argsort(known)
        self._sorted = known[self._places]

    def __len__(self) -> int:
        return len(self._places)

    def places(self, ids: npt.NDArray[np.int64]) -> Places:
        """The place of each id, -1 where it is not known."""
        if not len(self):
            return np.full(len(ids), -1)
        at = np.minimum(np.searchsorted(self._sorted, ids), len(self) - 1)
        return np.where(self._sorted[at] == ids, self._places[at], -1)


class Rank(NamedTuple):
    """Operators with neighbours in earlier ranks: places, each set of neighbours once, who has which."""

    rows: Places
    sets: Groups
    set_of: Places

    def reduced(self, combine: np.ufunc, values: Values) -> Values:
        """Of each of the operators the values of its neighbours combined."""
        return self.sets.reduced(combine, values)[..., self.set_of]


@dataclass(frozen=True)
class Neighbours:
    """The neighbours of all operators, as places in `Topology.operators`: each set of neighbours once.

    `groups`: of each operator, the number of its set, -1 for none.
    """

    groups: Places
    sets: Groups

    @classmethod
    def of(
        cls,
        neighbours: Mapping[int, tuple[int, ...]],
        places: Mapping[int, int],
        order: Callable[[int], Any] | None = None,
    ) -> Neighbours:
        """From neighbours by operator; both have the operators in order. `order`: of places in a set."""
        sets = {id(own): own for own in neighbours.values() if own}
        numbers = {key: number for number, key in enumerate(sets)}
        members = ([places[one] for one in own] for own in sets.values())
        ordered = [own if order is None else sorted(own, key=order) for own in members]
        groups = [numbers[id(own)] if own else -1 for own in neighbours.values()]
        return cls(np.array(groups, np.intp), Groups(ordered))

    def latest(self, times: Floats) -> tuple[Places, Floats]:
        """Of each operator, which of its neighbours has the greatest time, the first of equal ones, and that.

        `times`: windows by operators, NaN for none. -1 and NaN if no neighbour has a time.
        """
        latest, greatest = self.sets.latest(times)
        none = np.full((len(times), 1), np.nan)  # the last column is that of no neighbours
        latest = np.concatenate([latest, np.full_like(none, -1, np.intp)], axis=1)
        return latest[:, self.groups], np.concatenate([greatest, none], axis=1)[:, self.groups]

    def of_ranks(self, ranks: Sequence[Places]) -> list[Rank]:
        """The operators beyond each rank. `ranks`: places; those that others need come first."""
        found = []
        for all_rows in ranks:
            rows = all_rows[self.groups[all_rows] >= 0]
            if len(rows):
                groups, set_of = np.unique(self.groups[rows], return_inverse=True)
                sets = Groups([self.sets.members[group] for group in groups.tolist()])
                found.append(Rank(rows, sets, set_of.astype(np.intp)))
        return found


@dataclass(frozen=True)
class Topology:
    """Physical operators in topological order, and their streams.

    Ids are unique over all plans of a run. They are neither dense nor in any order.

    `metrics`: those that operators declare.

    Where all partitions send to all, many operators have the same neighbours. These are one tuple, the same
    object, so that `for_neighbours` computes what depends on them once.
    """

    operators: tuple[OperatorNode, ...]
    streams: tuple[StreamEdge, ...]
    metrics: tuple[MetricNode, ...] = ()

    @cached_property
    def by_id(self) -> dict[int, OperatorNode]:
        """The operators by id."""
        return {operator.id: operator for operator in self.operators}

    @cached_property
    def upstream(self) -> dict[int, tuple[int, ...]]:
        """The ids of the operators that each operator reads from, without repetition."""
        return self._neighbours((stream.sink, stream.source) for stream in self.streams)

    @cached_property
    def downstream(self) -> dict[int, tuple[int, ...]]:
        """The ids of the operators that read from each operator, without repetition."""
        return self._neighbours((stream.source, stream.sink) for stream in self.streams)

    @cached_property
    def own_unifiers(self) -> dict[int, tuple[int, ...]]:
        """The unifiers of an operator's own outputs that it sends to, of operators that have any."""
        known: dict[tuple[int, str], tuple[int, ...]] = {}
        found: dict[int, tuple[int, ...]] = {}
        for node in self.operators:
            below = self.downstream[node.id]
            key = id(below), node.name
            if key not in known:
                others = ((sink, self.by_id[sink]) for sink in below)
                known[key] = tuple(sink for sink, one in others if one.unifier and one.name == node.name)
            if known[key]:
                found[node.id] = known[key]
        return found

    @cached_property
    def rows_of(self) -> dict[str, list[int]]:
        """Where the partitions of each logical operator stand in `operators`, by name; no unifiers."""
        found: dict[str, list[int]] = {name: [] for name in self.names}
        for row, node in enumerate(self.operators):
            if not node.unifier:
                found[node.name].append(row)
        return {name: rows for name, rows in found.items() if rows}

    @cached_property
    def unifiers_of(self) -> dict[str, list[int]]:
        """Where the unifiers of each logical operator stand in `operators`, by its name."""
        found: dict[str, list[int]] = {}
        for row, node in enumerate(self.operators):
            if node.unifier:
                found.setdefault(node.name, []).append(row)
        return found

    @cached_property
    def logical(self) -> LogicalOperators:
        """The logical operators."""
        return LogicalOperators(self)

    @cached_property
    def labels(self) -> Groups:
        """The operators by label."""
        found: dict[str, list[int]] = {}
        for place, node in enumerate(self.operators):
            found.setdefault(node.label, []).append(place)
        return Groups(list(found.values()), found)

    @cached_property
    def places(self) -> dict[int, int]:
        """Where each operator stands in `operators`, by id."""
        return {operator.id: place for place, operator in enumerate(self.operators)}

    @cached_property
    def ids(self) -> Ids:
        """As `places`, of arrays of ids."""
        return Ids(self.places)

    @cached_property
    def ids_of_containers(self) -> Ids:
        """Where each container stands in `containers`, of arrays of ids."""
        return Ids(self.containers)

    @cached_property
    def bits(self) -> npt.NDArray[np.object_]:
        """Of each operator, in order, its bit in sets of operators, as in `lineage`; last 0, for none."""
        return np.array([*(1 << place for place in range(len(self.operators))), 0], object)

    @cached_property
    def lineage(self) -> npt.NDArray[np.object_]:
        """Of each operator, itself and all that it reads from, directly or not, as a set of bits.

        In order; last the empty set.
        """
        found = self.bits.copy()
        above = for_neighbours(
            self.upstream, lambda sources: reduce(or_, (found[self.places[source]] for source in sources), 0)
        )
        for place, operator in enumerate(self.operators):
            found[place] |= above(operator.id)
        return found

    @cached_property
    def lineage_of_containers(self) -> npt.NDArray[np.object_]:
        """The union of `lineage` of the operators of each container, in order; last the empty set."""
        own = [reduce(or_, self.lineage[list(members)]) for members in self.members.members]
        return np.array([*own, 0], object)

    @cached_property
    def letters(self) -> frozenset[int]:
        """The operators that get dead letters only, or only look at tuples: no outputs beside the others."""
        found = {operator.id for operator in self.operators if operator.kind == "observer"}
        sources = {operator.id: set[int]() for operator in self.operators}
        for stream in self.streams:
            if stream.source_port != DEAD_LETTERS:
                sources[stream.sink].add(stream.source)
        for operator in self.operators:
            if self.upstream[operator.id] and sources[operator.id] <= found:
                found.add(operator.id)
        return frozenset(found)

    @cached_property
    def leaves(self) -> tuple[int, ...]:
        """The operators that no other one reads from, dead letters aside."""
        ids = (operator.id for operator in self.operators if operator.id not in self.letters)
        return tuple(one for one in ids if self.letters.issuperset(self.downstream[one]))

    @cached_property
    def inputs(self) -> tuple[int, ...]:
        """The operators that read from no other one."""
        return tuple(operator.id for operator in self.operators if not self.upstream[operator.id])

    @cached_property
    def containers(self) -> dict[int, tuple[int, ...]]:
        """The operators of each container, in the order in which it runs them."""
        found: dict[int, list[int]] = {}
        for operator in self.operators:
            found.setdefault(operator.container, []).append(operator.id)
        return {container: tuple(ids) for container, ids in sorted(found.items())}

    @cached_property
    def places_of_containers(self) -> dict[int, int]:
        """Where each container stands in `containers`."""
        return {container: place for place, container in enumerate(self.containers)}

    @cached_property
    def producers(self) -> dict[int, tuple[int, ...]]:
        """The containers that each container reads from, without itself."""
        return self._containers_by(self.upstream)

    @cached_property
    def consumers(self) -> dict[int, tuple[int, ...]]:
        """The containers that read from each container, without itself."""
        return self._containers_by(self.downstream)

    @cached_property
    def containers_above(self) -> Neighbours:
        """Of each container, in order, those that it reads from."""
        return Neighbours.of(self.producers, self.places_of_containers)

    @cached_property
    def ranks_of_containers(self) -> tuple[list[Rank], list[Rank]]:
        """The containers with those that they read from, and with those that read from them, rank by rank."""
        places = self.places_of_containers
        ranks = _ranks(self.containers_in_order, self.producers, places)
        below = Neighbours.of(self.consumers, places)
        return self.containers_above.of_ranks(ranks), below.of_ranks(ranks[::-1])

    @cached_property
    def ranks_below(self) -> list[Rank]:
        """The operators with those that read from them, rank by rank, leaves first."""
        return self.below.of_ranks(self.ranks[::-1])

    @cached_property
    def ranks(self) -> list[Places]:
        """The places of operators by how many others are at most before them, one after the other."""
        return _ranks(self.places, self.upstream, self.places)

    @cached_property
    def containers_in_order(self) -> list[int]:
        """The containers, those of earlier stages first."""
        return sorted(self.containers, key=lambda container: (self.stage_of[container], container))

    @cached_property
    def stage_of(self) -> dict[int, int]:
        """The stage of each container."""
        return {operator.container: operator.stage for operator in self.operators}

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The logical operators' names, in topological order."""
        return tuple(dict.fromkeys(operator.name for operator in self.operators))

    @cached_property
    def above(self) -> Neighbours:
        """Of each operator, in order, those that it reads from."""
        return Neighbours.of(self.upstream, self.places)

    @cached_property
    def below(self) -> Neighbours:
        """Of each operator, in order, those that read from it, by title."""
        return Neighbours.of(self.downstream, self.places, lambda place: self.operators[place].title)

    @cached_property
    def inputs_by_title(self) -> tuple[int, ...]:
        """The places of `inputs`, by title."""
        return tuple(
            sorted(map(self.places.__getitem__, self.inputs), key=lambda one: self.operators[one].title)
        )

    @cached_property
    def members(self) -> Groups:
        """The operators of each container, in order."""
        return Groups([[self.places[one] for one in ids] for ids in self.containers.values()])

    @cached_property
    def rows_of_containers(self) -> Places:
        """Of each operator, in order, where its container stands in `containers`."""
        rows = self.places_of_containers
        return np.array([rows[operator.container] for operator in self.operators], np.intp)

    def partitions_of(self, name: str) -> tuple[OperatorNode, ...]:
        """The partitions of a logical operator, without unifiers."""
        return tuple(self.operators[row] for row in self.rows_of.get(name, ()))

    def _containers_by(self, neighbours: Mapping[int, tuple[int, ...]]) -> dict[int, tuple[int, ...]]:
        """The containers of all neighbours of each container's operators, in order, without itself."""
        same: dict[tuple[int, ...], tuple[int, ...]] = {}
        found: dict[int, tuple[int, ...]] = {}
        for container, operators in self.containers.items():
            shared = {id(own): own for own in map(neighbours.__getitem__, operators)}
            others = {self.by_id[other].container for own in shared.values() for other in own}
            key = tuple(sorted(others - {container}))
            found[container] = same.setdefault(key, key)
        return found

    def _neighbours(self, pairs: Iterator[tuple[int, int]]) -> dict[int, tuple[int, ...]]:
        found: dict[int, dict[int, None]] = {operator.id: {} for operator in self.operators}
        for own, other in pairs:
            found[own][other] = None
        same: dict[tuple[int, ...], tuple[int, ...]] = {}
        return {own: same.setdefault(key := tuple(others), key) for own, others in found.items()}


def _ranks(
    in_order: Iterable[int], above: Mapping[int, tuple[int, ...]], places: Mapping[int, int]
) -> list[Places]:
    """The places of all by how long the longest chain `above` them is. `in_order`: after those above."""
    depths, known = np.zeros(len(places), np.intp), dict[int, int]()
    for one in in_order:
        others = above[one]
        if others and id(others) not in known:  # many have the same
            known[id(others)] = 1 + max(int(depths[places[other]]) for other in others)
        depths[places[one]] = known[id(others)] if others else 0
    return [np.flatnonzero(depths == depth) for depth in range(int(depths.max(initial=-1)) + 1)]


def surplus(known: Iterable[_Key], present: Container[_Key] = (), most: int = KEPT) -> list[_Key]:
    """Those that are to be forgotten of what is `known`: the first that are not `present`, but for so many.

    So the driver may go back from a plan that fails to the one before, and no figure begins anew.
    """
    gone = [one for one in known if one not in present]
    return gone[: max(0, len(gone) - most)]


def for_neighbours(
    neighbours: Mapping[int, tuple[int, ...]], find: Callable[[tuple[int, ...]], _Found]
) -> Callable[[int], _Found]:
    """A function of an operator that applies `find` to its neighbours, once for those that share them.

    `neighbours`: `Topology.upstream` or `Topology.downstream`. So time is linear in partitions, also where
    all send to all.
    """
    found: dict[int, _Found] = {}

    def find_once(operator: int) -> _Found:
        own = neighbours[operator]
        key = id(own)
        if key not in found:
            found[key] = find(own)
        return found[key]

    return find_once
